"""A REST catalog of Iceberg for tests, at a port of this machine: one of SQL behind its protocol.

Requests are answered one by one. It has what a client of PyIceberg's needs to create, load, commit
and drop tables. Source: the Iceberg REST catalog specification.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import CommitTableRequest, Table

_STATUS = {
    CommitFailedException: HTTPStatus.CONFLICT,
    NamespaceAlreadyExistsError: HTTPStatus.CONFLICT,
    NoSuchNamespaceError: HTTPStatus.NOT_FOUND,
    NoSuchTableError: HTTPStatus.NOT_FOUND,
    TableAlreadyExistsError: HTTPStatus.CONFLICT,
}


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """Give the URL of a catalog that is kept in a folder."""
    catalog = SqlCatalog("default", uri=f"sqlite:///{folder}/rest.db", warehouse=str(folder))
    # Of the thread that serves: connections of SQLite are of one thread.
    catalog.engine.dispose()

    class Handler(_Handler):
        of = catalog

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
            catalog.engine.dispose()


class _Handler(BaseHTTPRequestHandler):
    of: SqlCatalog

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ANN401 - as its base class
        """Say nothing."""

    def _answer(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        content = json.loads(self.rfile.read(size)) if size else {}
        parts = self.path.partition("?")[0].strip("/").split("/")[1:]
        try:
            status, found = HTTPStatus.OK, self._found(self.command, parts, content)
        except tuple(_STATUS) as error:
            status = _STATUS[type(error)]
            kind = type(error).__name__
            found = {"error": {"message": str(error), "type": kind, "code": status}}
        body = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else body)

    do_GET = do_HEAD = do_POST = do_DELETE = _answer  # noqa: N815 - as its base class calls them

    def _found(self, method: str, parts: list[str], content: dict[str, Any]) -> dict[str, Any]:
        match parts:
            case ["config"]:
                return {"defaults": {}, "overrides": {}}
            case ["namespaces", *names] if len(names) < 2:
                return self._namespace(method, names, content)
            case ["namespaces", namespace, "tables"]:
                return self._created(namespace, CreateTableRequest.model_validate(content))
            case ["namespaces", namespace, "tables", name]:
                return self._table(method, (namespace, name), content)
        raise AssertionError((method, parts))

    def _namespace(self, method: str, names: list[str], content: dict[str, Any]) -> dict[str, Any]:
        if method == "POST":
            self.of.create_namespace(tuple(content["namespace"]))
            return {"namespace": content["namespace"], "properties": {}}
        (name,) = names
        return {"namespace": [name], "properties": self.of.load_namespace_properties(name)}

    def _created(self, namespace: str, wanted: CreateTableRequest) -> dict[str, Any]:
        assert not wanted.stage_create
        made = self.of.create_table(
            (namespace, wanted.name),
            wanted.table_schema,
            location=wanted.location,
            partition_spec=wanted.partition_spec,
            properties=wanted.properties,
        )
        return _loaded(made)

    def _table(self, method: str, name: tuple[str, str], content: dict[str, Any]) -> dict[str, Any]:
        if method == "DELETE":
            self.of.drop_table(name)
            return {}
        present = self.of.load_table(name)
        if method != "POST":
            return _loaded(present)
        change = CommitTableRequest.model_validate(content)
        done = self.of.commit_table(present, change.requirements, change.updates)
        found: dict[str, Any] = json.loads(done.model_dump_json())
        return found


def _loaded(table: Table) -> dict[str, Any]:
    return {
        "metadata-location": table.metadata_location,
        "metadata": json.loads(table.metadata.model_dump_json()),
        "config": {},
    }
