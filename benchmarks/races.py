"""Races: writers of ours, each a process with a bucket of its own, that begin at one time.

A writer commits small batches, one after the other; nobody loses a conflict, unless there is no
lock. This file is also the program of one writer.
"""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "benchmarks")]  # our neighbours

import instruments  # noqa: E402 (the path comes first)
import pyarrow as pa  # noqa: E402
import small_commits  # noqa: E402
from instruments import Overtaken  # noqa: E402
from small_commits import KINDS, Commit  # noqa: E402

from hoodie import environment, errors, table  # noqa: E402
from hoodie.transaction.manager import TransactionOptions  # noqa: E402

NO_LOCK = "none"
"""In place of a lock's address: every writer acquires the lock at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrants:
    """Who races on which table.

    Attributes:
        uri: Of the table, which is created.
        kind: Of the table, a key of `KINDS`.
        mode: A key of `MODES`.
        lock: An address, or NO_LOCK.
        writers: Processes.
        batches: Commits of each.
    """

    uri: str
    kind: str
    mode: str
    lock: str = "filesystem"
    writers: int
    batches: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What some writers did.

    Attributes:
        seconds: From the start to the end of the last.
        commits: Of all.
        overtaken: How often they decided again, together.
    """

    seconds: float
    commits: Sequence[Commit]
    overtaken: Overtaken = field(default_factory=Overtaken)

    @property
    def rate(self) -> float:
        """Commits a second, of all writers together."""
        return len(self.commits) / self.seconds


def run(entrants: Entrants) -> Result:
    """Create the table and have the writers commit; it has their commits then, and no other."""
    small_commits.create(entrants.uri, KINDS[entrants.kind])
    command = [sys.executable, __file__, json.dumps(asdict(entrants))]
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(
                    [*command, str(number)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for number in range(entrants.writers)
        ]
        for process in processes:
            assert _line(process) == "ready\n"
        begin = time.perf_counter()
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        answers = [json.loads(_line(process)) for process in processes]
        seconds = time.perf_counter() - begin
        assert not any(process.wait() for process in processes)
    made = [Commit(**each) for commits, _ in answers for each in commits]
    opened = table.open_table(entrants.uri, environment.system(parallelism=1))
    total = entrants.writers * entrants.batches
    assert len(opened.timeline().completed_writes) == len(made) == total
    overtaken = sum((Overtaken(**found) for _, found in answers), Overtaken())
    assert entrants.lock == NO_LOCK or not overtaken.refused, overtaken
    return Result(seconds=seconds, commits=made, overtaken=overtaken)


def _line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, "a writer has failed; what it says stands above"
    return line


def _commit_at_last(
    opened: table.Table, batch: pa.Table, made_by: TransactionOptions, overtaken: Overtaken
) -> Commit:
    """Write a batch, again where it was refused, and return how long that took."""
    begin = time.perf_counter()
    while True:
        try:
            made = small_commits.commit(opened, batch, made_by)
        except errors.ConflictError:
            overtaken.refused += 1
        else:
            return replace(made, latency_ms=(time.perf_counter() - begin) * 1000)


def _write(entrants: Entrants, number: int) -> None:
    """Be one writer."""
    opened = table.open_table(entrants.uri, environment.system(parallelism=1))
    has_lock = entrants.lock != NO_LOCK
    made_by = small_commits.transaction(
        entrants.mode,
        KINDS[entrants.kind],
        f"w{number}",
        entrants.lock if has_lock else "in-process",
    )
    batches = small_commits.batches_of(number, entrants.batches)
    overtaken = Overtaken()
    with ExitStack() as stack:
        stack.enter_context(overtaken.counted())
        if not has_lock:
            stack.enter_context(instruments.without_lock())
        print("ready", flush=True)
        sys.stdin.readline()
        made = [_commit_at_last(opened, batch, made_by, overtaken) for batch in batches]
    print(json.dumps([[asdict(each) for each in made], asdict(overtaken)]), flush=True)


if __name__ == "__main__":
    _write(Entrants(**json.loads(sys.argv[1])), int(sys.argv[2]))
