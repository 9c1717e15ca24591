"""`hudi-operator lock-server`, what a pod of an embedded LockProvider runs."""

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from hoodie import errors
from hoodie_operator import lock_server

DEADLINE_S = 60


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number


@contextmanager
def _server(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A server that serves."""
    command = [sys.executable, "-m", "hoodie_operator", "lock-server", "--folder", str(folder)]
    process = subprocess.Popen([*command, "--host", "127.0.0.1", "--port", str(port)])
    try:
        _await_serving(process, port)
        yield process
    finally:
        process.kill()
        process.wait()


def _await_serving(process: subprocess.Popen[bytes], port: int) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not _serves(port):
        assert process.poll() is None, "the server ended"
        assert time.monotonic() < deadline_s, "the server does not serve"
        time.sleep(0.1)


def _serves(port: int) -> bool:
    # A server that is just starting may take a connection and never answer.
    try:
        done = subprocess.run(lock_server.probe(port), check=False, capture_output=True, timeout=2)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


@contextmanager
def _client(port: int) -> Iterator[KazooClient]:
    client = KazooClient(f"127.0.0.1:{port}")
    client.start()
    yield client
    client.stop()
    client.close()


def test_killed_server_goes_on_with_what_it_kept(tmp_path: Path, port: int) -> None:
    with _server(tmp_path / "zk", port) as first, _client(port) as client:
        client.create("/fence", b"7")
        first.kill()
        first.wait()
        assert not _serves(port)
    with _server(tmp_path / "zk", port), _client(port) as client:
        assert client.get("/fence")[0] == b"7"


def test_server_ends_when_it_is_told(tmp_path: Path, port: int) -> None:
    with _server(tmp_path / "zk", port) as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == 128 + signal.SIGTERM


def test_probe_fails_while_the_server_is_frozen(tmp_path: Path, port: int) -> None:
    with _server(tmp_path / "zk", port) as process:
        process.send_signal(signal.SIGSTOP)
        assert not _serves(port)
        process.send_signal(signal.SIGCONT)
        _await_serving(process, port)


def test_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    command = [sys.executable, "-m", "hoodie_operator", "lock-server"]
    done = subprocess.run(
        [*command, "--folder", str(tmp_path / "file" / "zk")],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == errors.StorageError.exit_code
    assert done.stderr.startswith("error: ")
    assert "cannot be written" in done.stderr
