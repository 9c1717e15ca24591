"""Processes on one table, and what may befall them; what they said is kept in files."""

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hoodie.model import table_config
from processes import worker
from support.simulation import invariants

Said = worker.Told | worker.Seen | worker.Shown | worker.Survived

_WORDS = {each.__name__: each for each in (worker.Told, worker.Seen, worker.Shown, worker.Survived)}


@dataclass(frozen=True, kw_only=True)
class Crew:
    """Who works on a table, beside a rollback service and a reader.

    Attributes:
        mode: How the writers write.
        columns: A writer each.
        compactors: How many there are.
        has_cleaner: Whether file versions are cleaned, and old instants archived, meanwhile.
        has_indexer: Whether indexes are built and dropped meanwhile.
    """

    mode: worker.ModeName
    columns: tuple[str, ...]
    compactors: int
    has_cleaner: bool = True
    has_indexer: bool = False

    def roles(self) -> Iterator[tuple[str, worker.Role]]:
        """Yield what each does, by its name."""
        yield from ((column, worker.Role.WRITER) for column in self.columns)
        yield from (
            (f"compactor-{number}", worker.Role.COMPACTOR) for number in range(self.compactors)
        )
        yield "rollback", worker.Role.ROLLBACK
        if self.has_cleaner:
            yield "cleaner", worker.Role.CLEANER
            yield "archiver", worker.Role.ARCHIVER
        if self.has_indexer:
            yield "indexer", worker.Role.INDEXER
        yield "reader", worker.Role.READER


def crew_of(mode: worker.ModeName, *, has_lock: bool) -> Crew:
    """Return ten processes; or eight writers, and the services, where no lock slows them down."""
    # A copy-on-write table has nothing to compact, and has more writers.
    is_compacted = worker.MODES[mode].table_type is table_config.TableType.MERGE_ON_READ
    if not has_lock:
        return Crew(mode=mode, columns=tuple("abcdefgh"), compactors=int(is_compacted))
    if is_compacted:
        return Crew(mode=mode, columns=tuple("abcd"), compactors=2)
    return Crew(mode=mode, columns=tuple("abcdef"), compactors=0)


@dataclass(kw_only=True)
class Actor:
    """What one of the processes does, over all the processes that did it.

    Attributes:
        name: Unique; a writer's is its column.
        role: What it does.
        site: Where it runs.
        outputs: What each of its processes printed.
        process: The one that does it now.
        paused: Processes that are stopped.
    """

    name: str
    role: worker.Role
    site: str
    outputs: list[Path] = field(default_factory=list)
    process: subprocess.Popen[bytes] | None = None
    paused: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def is_at_work(self) -> bool:
        """Whether its process has said something, and is not stopped."""
        return self.outputs[-1].stat().st_size > 0 and self.process not in self.paused

    def next_batch(self) -> int:
        """Return which batch a new process of a writer begins with."""
        return 1 + max(acknowledged_batches(self), default=-1)


class Fleet:
    """The processes, none of which runs at first."""

    def __init__(
        self,
        directory: Path,
        crew: Crew,
        table_uri: str,
        lock: str,
        commands: Callable[[str], Sequence[str]],
        sites: Sequence[str],
    ) -> None:
        """Say who there will be.

        Args:
            directory: For what they print.
            crew: Who they are.
            table_uri: The table.
            lock: Its lock.
            commands: What stands before the command of a process in a site.
            sites: They are spread over these.
        """
        self._directory = directory
        self._arguments = (crew.mode.value, table_uri, lock)
        self._commands = commands
        places = itertools.cycle(sites)
        self.actors = tuple(
            Actor(name=name, role=role, site=next(places)) for name, role in crew.roles()
        )

    def start(self, actor: Actor) -> None:
        """Start a process that does an actor's work, and takes the place of any before it."""
        first = actor.next_batch() if actor.role is worker.Role.WRITER else 0
        attempt = len(actor.outputs) + 1
        command = [
            *self._commands(actor.site),
            sys.executable,
            worker.__file__,
            actor.role.value,
            *self._arguments,
            actor.name,
            str(attempt),
            str(first),
        ]
        actor.outputs.append(self._directory / f"{actor.name}-{attempt}.log")
        with actor.outputs[-1].open("wb") as output:
            actor.process = subprocess.Popen(
                command,
                stdout=output,
                stderr=output,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )

    def kill(self, actor: Actor) -> None:
        """Kill an actor's process, be it stopped or not."""
        assert actor.process is not None
        actor.process.kill()
        actor.process.wait()
        if actor.process in actor.paused:
            actor.paused.remove(actor.process)

    def pause(self, actor: Actor) -> Callable[[], None]:
        """Stop an actor's process, and return what lets it go on."""
        process = actor.process
        assert process is not None
        actor.paused.append(process)
        process.send_signal(signal.SIGSTOP)

        def go_on() -> None:
            if process in actor.paused:
                actor.paused.remove(process)
                process.send_signal(signal.SIGCONT)

        return go_on

    def stop(self) -> None:
        """Kill everybody, the forgotten ones, too."""
        for actor in self.actors:
            for process in (actor.process, *actor.paused):
                if process is not None:
                    process.kill()
                    process.wait()


def acknowledged_batches(actor: Actor) -> frozenset[int]:
    """Return the batches that a writer was told are there."""
    return frozenset(
        said.batch
        for said in said_by(actor)
        if isinstance(said, worker.Told)
        and said.batch is not None
        and said.outcome == invariants.Outcome.ACKNOWLEDGED.value
    )


def said_by(actor: Actor) -> Iterator[Said]:
    """Yield all that an actor's processes said.

    Raises:
        AssertionError: It is not what they say when all is well: a process has failed.
    """
    for output in actor.outputs:
        # What follows the last end of a line was being written when the process was killed.
        lines = output.read_text().split("\n")[:-1]
        for number, line in enumerate(lines):
            if not line.startswith("{"):
                raise AssertionError("\n".join([f"{actor.name} failed:", *lines[number:]]))
            said = json.loads(line)
            yield _WORDS[said.pop("what")](**said)
