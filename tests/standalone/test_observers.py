"""What the standalone operator sees of tables, inputs and lock servers, the odd ones included."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hoodie import clock, environment
from hoodie.format import timeline_avro
from hoodie.model import commits, settings
from hoodie_operator.api import kinds, lock_provider, objects, writer
from hoodie_operator.observing.inputs import InputObserver
from hoodie_operator.observing.tables import TableObserver, TableTarget
from hoodie_operator.reconcile import facts
from hoodie_operator.standalone.lock_servers import LockServers
from support.tables.job_workshop import Workshop


def _table(tmp_path: Path, name: str) -> facts.TableFacts:
    observer = TableObserver(environment.system(allowed_roots=(str(tmp_path),)))
    target = TableTarget(uri=f"file://{tmp_path}/{name}", settings=settings.WriteSettings())
    return observer.look(target)


def test_table_by_a_link_is_refused_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert _table(tmp_path, "real").problem is None
    for name in ("link", "link/below"):
        problem = _table(tmp_path, name).problem
        assert problem is not None
        assert problem.kind == "InvalidInput"
        assert f"resolves through a link to file://{tmp_path}/real" in problem.message


@pytest.mark.parametrize(("silence_s", "is_alive"), [(0, True), (3600, False)])
def test_look_at_who_is_at_work_writes_nothing(
    tmp_path: Path, silence_s: int, is_alive: bool
) -> None:
    Workshop(tmp_path).create()
    root = tmp_path / "table" / ".hoodie"
    (root / "timeline" / "20260101000000000.deltacommit.requested").touch()
    heartbeat = root / ".heartbeat" / "20260101000000000"
    heartbeat.parent.mkdir(exist_ok=True)
    heartbeat.touch()
    changed_s = heartbeat.stat().st_mtime - silence_s
    os.utime(heartbeat, (changed_s, changed_s))
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    seen = _table(tmp_path, "table")
    assert (seen.problem, [each.is_alive for each in seen.pending]) == (None, [is_alive])
    # An observer's volume is mounted read-only.
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


@pytest.mark.parametrize(
    ("extra", "attempt"),
    [({commits.ATTEMPT_KEY: "1800000001000003"}, 1800000001000003), ({}, None)],
)
def test_pending_write_tells_the_attempt_that_began_it(
    tmp_path: Path, extra: dict[str, str], attempt: int | None
) -> None:
    Workshop(tmp_path).create()
    timeline = tmp_path / "table" / ".hoodie" / "timeline"
    (timeline / "20260101000000000.deltacommit.requested").touch()
    metadata = commits.CommitMetadata(
        operation="UPSERT", stats=(), extra={commits.WRITER_ID_KEY: "left", **extra}
    )
    inflight = timeline / "20260101000000000.deltacommit.inflight"
    inflight.write_bytes(timeline_avro.encode_commit(metadata))
    (seen,) = _table(tmp_path, "table").pending
    assert (seen.writer_id, seen.attempt) == ("left", attempt)


def _source(tmp_path: Path, file_format: writer.FileFormat, path: str) -> facts.SourceFacts:
    files = writer.FilesSource(path=path, format=file_format)
    return InputObserver((str(tmp_path),), clock.SystemClock()).look(1, writer.Source(files=files))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", b""),
        ("a.csv", b"id,\xe9\n1,x\n"),
        ("a.csv.gz", b"no gzip"),
        ("a.parquet", b"PAR1 and more"),
        ("a.parquet", b""),
    ],
)
def test_file_that_is_not_what_it_says_is_told(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    file_format = writer.FileFormat.PARQUET if name.endswith("parquet") else writer.FileFormat.CSV
    problem = _source(tmp_path, file_format, name).problem
    assert problem is not None
    assert name in problem.message
    assert (problem.kind, problem.is_transient) == ("Format", False)


def test_links_in_a_circle_are_no_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").symlink_to("a.csv")
    for path in ("a.csv", "*.csv"):
        problem = _source(tmp_path, writer.FileFormat.CSV, path).problem
        assert problem is not None
        assert problem.kind == "NotFound"


def test_name_that_is_no_utf8_is_refused(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.csv")).write_text("id,a\n1,x\n")
    problem = _source(tmp_path, writer.FileFormat.CSV, "*.csv").problem
    assert problem is not None
    assert problem.kind == "Unsupported"
    assert "not valid UTF-8" in problem.message


@contextmanager
def _server(answer: bytes) -> Iterator[str]:
    """Serve one answer to everybody, and yield its address."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(100)
                    connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    ("answer", "is_ready", "told"),
    [
        (b"Zookeeper version: 3.9.3\nMode: follower\n", True, "1 of 1 answer"),
        (b"srvr is not executed because it is not in the whitelist.", True, "1 of 1 answer"),
        (b"HTTP/1.1 400 Bad Request\r\n", False, "is not a ZooKeeper server"),
        (b"", False, "is not a ZooKeeper server"),
        (
            b"This ZooKeeper instance is not currently serving requests\n",
            False,
            "does not serve requests",
        ),
    ],
)
def test_only_a_zookeeper_that_serves_is_ready(
    tmp_path: Path, answer: bytes, is_ready: bool, told: str
) -> None:
    with _server(answer) as address:
        seen = _look(tmp_path, address)
    assert (seen.is_ready, told in seen.message) == (is_ready, True), seen.message


def test_servers_that_do_not_answer_are_told_by_name(tmp_path: Path) -> None:
    with _server(b"Zookeeper version: 3.9.3\n") as address:
        seen = _look(tmp_path, address, "127.0.0.1:1", "no-such-host.invalid:2181")
    assert seen.is_ready
    assert "1 of 3 answer" in seen.message
    assert "127.0.0.1:1 does not answer" in seen.message


def _look(tmp_path: Path, *servers: str) -> facts.LockFacts:
    spec = lock_provider.LockProviderSpec(
        type=lock_provider.LockType.ZOOKEEPER, zookeeper=lock_provider.ZooKeeper(servers=servers)
    )
    lock: objects.Lock = objects.Object(
        key=objects.ObjectKey(kind=kinds.LOCK_PROVIDER.name, namespace="default", name="zk"),
        uid="1",
        generation=1,
        created_ms=0,
        spec=spec,
        status=lock_provider.LockProviderStatus(),
    )
    return LockServers(tmp_path, clock.SystemClock()).look(lock, None)
