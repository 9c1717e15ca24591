"""The embedded ZooKeeper: started once, found again, on its port after a restart, stopped."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hoodie import errors
from hoodie.clock import SystemClock
from hoodie_operator import lock_server
from hoodie_operator.standalone import embedded_zookeeper
from hoodie_operator.standalone.embedded_zookeeper import EmbeddedZooKeeper

START = """
import sys
from pathlib import Path
from hoodie.clock import SystemClock
from hoodie_operator.standalone.embedded_zookeeper import EmbeddedZooKeeper
print(EmbeddedZooKeeper(Path(sys.argv[1]), SystemClock()).start())
"""


def _pid(directory: Path) -> int:
    pid: int = json.loads((directory / "server.json").read_text())["pid"]
    return pid


def _again(server: EmbeddedZooKeeper) -> EmbeddedZooKeeper:
    return EmbeddedZooKeeper(server.directory, SystemClock())


def test_server_serves_this_machine_only_until_it_is_stopped(
    own_zookeeper: EmbeddedZooKeeper,
) -> None:
    assert not own_zookeeper.is_serving()
    host, _, port = own_zookeeper.start().partition(":")
    assert host == "127.0.0.1"
    assert own_zookeeper.is_serving()
    with socket.socket() as other, pytest.raises(OSError, match="refused"):
        other.connect(("127.0.0.2", int(port)))
    own_zookeeper.stop()
    own_zookeeper.stop()
    assert not own_zookeeper.is_serving()


def test_server_outlives_its_starter_and_is_found_again(own_zookeeper: EmbeddedZooKeeper) -> None:
    command = [sys.executable, "-c", START, str(own_zookeeper.directory)]
    started = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    pid = _pid(own_zookeeper.directory)
    assert own_zookeeper.is_serving()
    assert own_zookeeper.start() == started
    assert _again(own_zookeeper).start() == started
    assert _pid(own_zookeeper.directory) == pid


def test_several_starters_start_one_server(own_zookeeper: EmbeddedZooKeeper) -> None:
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(_again(own_zookeeper).start()))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1


def test_killed_server_starts_again_on_its_port(own_zookeeper: EmbeddedZooKeeper) -> None:
    address = own_zookeeper.start()
    pid = _pid(own_zookeeper.directory)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert not own_zookeeper.is_serving()
    assert own_zookeeper.start() == address
    assert _pid(own_zookeeper.directory) != pid


def test_server_that_is_dying_is_replaced(own_zookeeper: EmbeddedZooKeeper) -> None:
    address = own_zookeeper.start()
    os.kill(_pid(own_zookeeper.directory), signal.SIGKILL)  # It takes its time to be gone.
    assert own_zookeeper.start() == address
    assert own_zookeeper.is_serving()


def test_server_moves_when_its_port_was_taken(own_zookeeper: EmbeddedZooKeeper) -> None:
    address = own_zookeeper.start()
    own_zookeeper.stop()
    with socket.create_server(("127.0.0.1", int(address.partition(":")[2]))):
        other = own_zookeeper.start()
        assert other != address
        assert own_zookeeper.is_serving()


def test_port_that_is_taken_at_the_last_moment_is_given_up(
    own_zookeeper: EmbeddedZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        ports = iter([number, embedded_zookeeper._free_port(embedded_zookeeper.HOST, None)])
        monkeypatch.setattr(embedded_zookeeper, "_free_port", lambda *_: next(ports))
        assert own_zookeeper.start() != f"127.0.0.1:{number}"
        assert own_zookeeper.is_serving()


def test_server_without_its_record_is_not_started_twice(own_zookeeper: EmbeddedZooKeeper) -> None:
    own_zookeeper.start()
    record = own_zookeeper.directory / "server.json"
    content = record.read_text()
    record.unlink()
    with pytest.raises(errors.StorageError, match=r"server\.json is gone"):
        own_zookeeper.start()
    record.write_text(content)


def test_missing_java_is_a_configuration_error(tmp_path: Path) -> None:
    server = EmbeddedZooKeeper(tmp_path, SystemClock(), java="/none/java")
    with pytest.raises(errors.ConfigurationError, match="/none/java is not there"):
        server.start()


def test_server_that_ends_at_once_says_why(
    own_zookeeper: EmbeddedZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_server, "MAIN", "no.such.Main")
    with pytest.raises(errors.StorageError, match=r"ended: .*no\.such\.Main"):
        own_zookeeper.start()
