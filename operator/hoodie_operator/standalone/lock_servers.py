"""Looking at lock providers, and serving those that are to be served here."""

import shutil
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

from hoodie import clock, errors
from hoodie_operator.api import objects
from hoodie_operator.observing import locks
from hoodie_operator.reconcile import facts
from hoodie_operator.standalone.embedded_zookeeper import EmbeddedZooKeeper

_START_WAIT_S = 60.0


class LockServers:
    """The lock servers of one state folder."""

    def __init__(self, state: Path, operator_clock: clock.Clock) -> None:
        """Take the state folder; nothing is started."""
        self._folder = state / "locks"
        self._clock = operator_clock
        self._addresses: dict[str, str] = {}
        self._failures: dict[str, str] = {}
        self._starting: dict[str, Future[str]] = {}
        self._threads = ThreadPoolExecutor(thread_name_prefix="lock-servers")

    def serve(self, uid: str) -> None:
        """See to it that the server of a LockProvider runs; it is started in the background."""
        starting = self._starting.get(uid)
        if starting is not None:
            if not starting.done():
                return
            del self._starting[uid]
            self._note(uid, starting)
        elif uid in self._addresses and self._server(uid).is_serving():
            return
        else:
            self._starting[uid] = self._threads.submit(self._server(uid).start, _START_WAIT_S)

    def _note(self, uid: str, started: Future[str]) -> None:
        try:
            self._addresses[uid] = started.result()
            self._failures.pop(uid, None)
        except errors.HoodieError as error:
            self._addresses.pop(uid, None)
            self._failures[uid] = f"{error.kind}: {error}"

    def stop(self, uid: str) -> None:
        """Stop the server of a LockProvider; nothing when none runs."""
        starting = self._starting.pop(uid, None)
        if starting is not None:
            wait([starting])
        self._addresses.pop(uid, None)
        if (self._folder / uid).is_dir():
            self._server(uid).stop()

    def remove(self, uid: str) -> None:
        """Stop the server of a LockProvider, and remove all that it kept."""
        self.stop(uid)
        shutil.rmtree(self._folder / uid, ignore_errors=True)

    def look(self, found: objects.Lock, before: facts.LockFacts | None) -> facts.LockFacts:
        """Return whether a provider answers now."""
        if found.spec.embedded:
            answer = self._ask_embedded(found.uid)
        else:
            answer = locks.ask(found.spec, self._threads)
        return locks.seen(answer, found, before, self._clock.now_ms())

    def _ask_embedded(self, uid: str) -> locks.Answer:
        address = self._addresses.get(uid)
        if address is None:
            why = self._failures.get(uid, "the embedded server is starting")
            return locks.Answer(is_ready=False, message=why)
        is_serving = self._server(uid).is_serving()
        told = "answers at" if is_serving else "does not answer at"
        return locks.Answer(
            is_ready=is_serving,
            servers=(address,),
            message=f"the embedded server {told} {address}",
        )

    def _server(self, uid: str) -> EmbeddedZooKeeper:
        return EmbeddedZooKeeper(self._folder / uid, self._clock)
