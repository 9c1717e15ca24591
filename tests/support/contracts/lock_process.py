"""Processes that take a lock, for tests: `python lock_process.py ADDRESS TABLE hold|contend ...`.

`hold` takes the lock, says its token and answers `held` and `release` on its standard input.
`contend` waits for a line, then takes it and gives it back so many times, counting in a file that
only the lock guards.
"""

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from hoodie import identity
from hoodie.background.threads import ThreadBackground
from hoodie.clock import SystemClock
from hoodie.storage import locations
from hoodie.transaction.locks import address_texts, opening
from hoodie.transaction.locks.protocol import LockOwner, LockProvider

WAIT_S = 60.0


def open_lock(address: str, table: str, name: str) -> LockProvider:
    """Open a lock as the environment of a program would."""
    random = identity.SystemRandom()
    return opening.open_lock(
        address_texts.parse(address),
        locations.open_storage(table),
        LockOwner(id=random.uuid(), name=name, process=identity.current_process()),
        waiting_clock=SystemClock(),
        random=random,
        background=ThreadBackground(),
    )


class Process:
    """Another process that uses the lock, and is killed when this is left."""

    def __init__(self, address: str, table: str, *arguments: str) -> None:
        self._command = [sys.executable, __file__, address, table, *arguments]
        self.token = 0

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def holding(self) -> Self:
        """Wait until it has the lock."""
        self.token = int(self._line())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        self._process.__exit__(kind, error, trace)

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, word: str) -> str:
        """Say a word and return the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        return self._line()

    def kill(self) -> None:
        """Kill it without a chance to clean up."""
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def ready(self) -> Self:
        """Wait until it is about to contend."""
        assert self._line() == "ready"
        return self

    def go(self) -> None:
        """Let it contend."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def result(self) -> list[int]:
        """Wait for the end of one that contends, and return its tokens."""
        output, _ = self._process.communicate(timeout=2 * WAIT_S)
        assert self._process.returncode == 0
        tokens: list[int] = json.loads(output)
        return tokens

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


def contend(address: str, table: str, folder: Path, processes: int, rounds: int) -> list[int]:
    """Let processes contend all at once, and return their tokens in the order of the holdings."""
    (folder / "count").write_text("0")
    with contextlib.ExitStack() as stack:
        contenders = [
            stack.enter_context(
                Process(address, table, "contend", f"process {n}", str(folder), str(rounds))
            )
            for n in range(processes)
        ]
        for contender in contenders:
            contender.ready()
        for contender in contenders:
            contender.go()
        taken = [contender.result() for contender in contenders]
    assert (folder / "count").read_text() == str(processes * rounds)
    tokens = [int(line) for line in (folder / "tokens").read_text().split()]
    assert sorted(tokens) == sorted(itertools.chain.from_iterable(taken))
    return tokens


def _say(answer: object) -> None:
    sys.stdout.write(f"{answer}\n")
    sys.stdout.flush()


def _hold(lock: LockProvider) -> None:
    lock.acquire(WAIT_S)
    _say(lock.fencing_token)
    for line in sys.stdin:
        match line.strip():
            case "held":
                _say(lock.is_held())
            case "release":
                lock.release()
                _say("released")
    lock.close()


def _contend(lock: LockProvider, folder: Path, rounds: int) -> None:
    tokens = []
    _say("ready")
    sys.stdin.readline()
    for _ in range(rounds):
        lock.acquire(WAIT_S)
        os.close(os.open(folder / "inside", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        count = int((folder / "count").read_text() or "0")
        tokens.append(lock.fencing_token)
        assert lock.is_held()
        with (folder / "tokens").open("a") as file:
            file.write(f"{lock.fencing_token}\n")
        with (folder / "order").open("a") as file:
            file.write("ours\n")
        (folder / "count").write_text(str(count + 1))
        (folder / "inside").unlink()
        lock.release()
    lock.close()
    _say(json.dumps(tokens))


if __name__ == "__main__":
    address, table, mode, name, *rest = sys.argv[1:]
    opened = open_lock(address, table, name)
    if mode == "hold":
        _hold(opened)
    else:
        _contend(opened, Path(rest[0]), int(rest[1]))
