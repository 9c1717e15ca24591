"""An observer of this process, served over HTTP, and a way to ask it."""

import http.client
import threading
from pathlib import Path

from hoodie.model import json_values
from hoodie_operator.observing import dialogue, serving
from hoodie_operator.observing.observer import Observer

TOKEN = "secret-token"


class Served:
    """A server in this process, and a way to ask it."""

    def __init__(self, observer: Observer, folder: Path) -> None:
        (folder / "token").write_text(f"{TOKEN}\n")
        self.server = serving.server(observer, 0, folder / "token")
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self._thread.start()

    def ask(self, path: str, body: bytes, token: str = TOKEN) -> tuple[int, bytes]:
        """Ask one question."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.server_port, timeout=20)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            connection.request("POST", path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def tables(self, *questions: dialogue.TableQuestion) -> tuple[dialogue.TableAnswer, ...]:
        """Ask about tables."""
        body = json_values.encode(dialogue.TablesQuestion(tables=questions))
        status, answer = self.ask(dialogue.TABLES_PATH, body)
        assert status == 200, answer
        return json_values.decode(dialogue.TablesAnswer, answer, "answer").tables

    def close(self) -> None:
        """End."""
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()
