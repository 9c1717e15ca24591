"""Curator's own InterProcessMutex, which Apache Hudi's writers use, and our lock: one lock."""

import itertools
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from hoodie import errors
from hoodie_operator import lock_server
from support.contracts import lock_process
from support.contracts.lock_contract import LONG_S

SOURCE = Path(__file__).parent / "curator" / "CuratorLock.java"


class CuratorProcess:
    """A Java program that takes the lock through Curator."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def hear(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def ask(self, line: str) -> str:
        self.say(line)
        return self.hear()

    def kill(self) -> None:
        self._process.kill()


@contextmanager
def _curator(*arguments: str) -> Iterator[CuratorProcess]:
    jars = str(lock_server.jars() / "*")
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", jars, str(SOURCE), *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            curator = CuratorProcess(process)
            assert curator.hear() == "ready"
            yield curator
        finally:
            process.kill()


@pytest.fixture
def address(zookeeper: str, lock_path: str) -> str:
    return f"zookeeper://{zookeeper}{lock_path}"


def test_curator_and_ours_exclude_each_other_and_wait_for_each_other(
    zookeeper: str, lock_path: str, address: str
) -> None:
    ours = lock_process.open_lock(address, "memory://table", "ours")
    with _curator(zookeeper, lock_path, "hold") as curator:
        for _ in range(3):
            assert curator.ask("acquire 10000") == "acquired"
            with pytest.raises(errors.LockTimeoutError, match="held by "):
                ours.acquire(0.3)
            curator.say("release")
            ours.acquire(LONG_S)
            assert curator.hear() == "released"
            assert ours.is_held()

            assert curator.ask("acquire 300") == "refused"
            curator.say("acquire 30000")
            assert ours.is_held()
            ours.release()
            assert curator.hear() == "acquired"
            assert curator.ask("release") == "released"
    ours.close()


def test_lock_of_a_killed_jvm_is_had_when_its_session_ends(
    zookeeper: str, lock_path: str, address: str
) -> None:
    ours = lock_process.open_lock(address, "memory://table", "ours")
    with _curator(zookeeper, lock_path, "hold") as curator:
        assert curator.ask("acquire 10000") == "acquired"
        curator.kill()
        ours.acquire(LONG_S)
        assert ours.is_held()
    ours.close()


def test_jvms_and_our_processes_contend_without_overlap(
    zookeeper: str, lock_path: str, address: str, tmp_path: Path
) -> None:
    (tmp_path / "count").write_text("0")
    rounds = "40"
    with ExitStack() as stack:
        jvms = [
            stack.enter_context(_curator(zookeeper, lock_path, "contend", str(tmp_path), rounds))
            for _ in range(2)
        ]
        ours = [
            stack.enter_context(
                lock_process.Process(
                    address, "memory://table", "contend", f"process {n}", str(tmp_path), rounds
                )
            )
            for n in range(2)
        ]
        for process in ours:
            process.ready()
        for jvm in jvms:
            jvm.say("go")
        for process in ours:
            process.go()
        for process in ours:
            process.result()
        assert [jvm.hear() for jvm in jvms] == ["done", "done"]
    assert (tmp_path / "count").read_text() == "160"
    order = (tmp_path / "order").read_text().split()
    assert sorted(order) == ["jvm"] * 80 + ["ours"] * 80
    assert sum(one != other for one, other in itertools.pairwise(order)) > 20
