"""Builds of an index that are killed at random while both engines write the table (issue 17).

A seed determines the index and the kind of table, the lock, what is written, and the moments of the
kills: some time after the process was started, or after its build got to a step. The same command
is started again until one of them ends by itself. Each build leaves one completed action of each
index; at the end of each, and between kills, all look-ups of both engines are compared with full
scans.
"""

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hoodie.model.file_statistics import BLOOM_FILTERS, COLUMN_STATS, PARTITION_STATS
from hoodie.model.instants import Action
from hoodie.model.key_changes import RECORD_INDEX
from hoodie.storage.local import LocalStorage
from hoodie.timeline import active, contents
from support.peer import peer_indexes, peer_ours, side_by_side
from support.peer.judge import Judge, JudgeError
from support.peer.peer_cases import BASE, SCHEMA
from support.peer.peer_options import PeerTable, table_properties

_OFF = {
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.index.partition.stats.enable": "false",
    # Without it 1.2.0 fails where a task reads file groups for a secondary index.
    "hoodie.embed.timeline.server": "true",
    **peer_indexes.ASYNC,
}
_STATISTICS = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.partition.stats.enable": "true",
}
_FILTERS = {"hoodie.metadata.index.bloom.filter.enable": "true"}
_KEYS = {
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
}
_KEYS_BY_PARTITION = {"hoodie.metadata.record.level.index.enable": "true"}
_EXPRESSIONS = {"hoodie.metadata.index.expression.enable": "true"}
_SECONDARY = "secondary_index_of_name"
_EXPRESSION = "expr_index_of_name"
_HEARTBEATS = {
    "hoodie.client.heartbeat.interval_in_ms": "2000",
    "hoodie.client.heartbeat.tolerable.misses": "5",
}
"""Of all writers: what has failed can soon be rolled back, and a busy machine is no failure."""
_PAUSE_S = 6.0
_EVERY_S = 0.005
_STEP_S = 30.0
_TRIES_MAX = 20
_WRITERS = {"writer-1": range(100, 130), "theirs": range(200, 230)}
"""With the numbers of the keys that are their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """An index that is built, and the table.

    Attributes:
        made: How both engines write the table; the index is kept up.
        names: The partitions of the metadata table that are built.
        arguments: Which index, for a command.
        before: Arguments of the index that is built before, of which no process is killed.
        index_type: By which index writers of Apache Hudi look keys up; None for that of `made`.
    """

    made: PeerTable
    names: Sequence[str]
    arguments: Sequence[str]
    before: Sequence[str] = ()
    index_type: str | None = None


def _of(options: dict[str, str], *, is_rewritten: bool, buckets: int | None = 2) -> PeerTable:
    return replace(
        BASE,
        name="built",
        metadata_table=True,
        merge_on_read=not is_rewritten,
        buckets=buckets,
        bloom_filter=options is _FILTERS,
        extra=_OFF | options,
    )


def _kinds() -> dict[str, Kind]:
    found = {}
    for kind, is_rewritten in (("cow", True), ("mor", False)):
        statistics = (COLUMN_STATS, PARTITION_STATS)
        found[f"statistics, {kind}"] = Kind(
            made=_of(_STATISTICS, is_rewritten=is_rewritten),
            names=statistics,
            arguments=statistics,
        )
        found[f"record index, {kind}"] = Kind(
            made=_of(_KEYS, is_rewritten=is_rewritten, buckets=None),
            names=(RECORD_INDEX,),
            arguments=(RECORD_INDEX,),
            index_type="RECORD_INDEX",
        )
        found[f"record index of partitions, {kind}"] = Kind(
            made=_of(_KEYS_BY_PARTITION, is_rewritten=is_rewritten, buckets=None),
            names=(RECORD_INDEX,),
            arguments=(RECORD_INDEX, "--partitioned"),
            index_type="RECORD_LEVEL_INDEX",
        )
        found[f"secondary index, {kind}"] = Kind(
            made=_of(_KEYS, is_rewritten=is_rewritten, buckets=None),
            names=(_SECONDARY,),
            arguments=("--secondary", "of_name", "--column", "name"),
            before=(RECORD_INDEX,),
            index_type="RECORD_INDEX",
        )
        found[f"expression index, {kind}"] = Kind(
            made=_of(_EXPRESSIONS, is_rewritten=is_rewritten, buckets=None),
            names=(_EXPRESSION,),
            arguments=("--expression", "of_name", "--column", "lower(name)"),
        )
    # Of merge-on-read tables readers of Apache Hudi miss rows by them.
    found["bloom filters, cow"] = Kind(
        made=_of(_FILTERS, is_rewritten=True), names=(BLOOM_FILTERS,), arguments=(BLOOM_FILTERS,)
    )
    found["record index, cow with buckets"] = Kind(
        made=_of(_KEYS, is_rewritten=True), names=(RECORD_INDEX,), arguments=(RECORD_INDEX,)
    )
    return found


KINDS = _kinds()


@dataclass(frozen=True, slots=True)
class Death:
    """When a building process is killed.

    Attributes:
        step: After which step; none but its start if it is empty.
        delay_s: So much later.
        is_looked_at: Whether the writers pause afterwards, and all look-ups are compared.
    """

    step: str
    delay_s: float
    is_looked_at: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a seed determines.

    Attributes:
        kind: Of KINDS.
        has_zookeeper: Whether the lock is of a ZooKeeper, else it is a file.
        builds: The deaths of each build.
    """

    kind: str
    has_zookeeper: bool
    builds: Sequence[Sequence[Death]]

    def __str__(self) -> str:
        lock = "ZooKeeper" if self.has_zookeeper else "a file"
        deaths = " | ".join(
            ", ".join(f"{each.step or 'started'} + {each.delay_s:.2f} s" for each in one)
            for one in self.builds
        )
        return f"{self.kind}, lock of {lock}; killed when {deaths}"


_STEPS = {
    "": (0.3, 4.0),
    "planned": (0.0, 2.0),
    "begun": (0.0, 1.0),
    "locked": (0.0, 0.1),
    "written": (0.0, 0.1),
    "named": (0.0, 0.02),
}
"""The steps that a process is killed after, and how many seconds later."""


def drawn(seed: int, *, builds: int = 2, deaths_max: int = 4) -> Plan:
    """Return what a seed determines: the kinds are taken in turn."""
    chance = random.Random(seed)

    def death() -> Death:
        step = chance.choice(list(_STEPS))
        return Death(
            step=step,
            delay_s=chance.uniform(*_STEPS[step]),
            is_looked_at=chance.random() < 1 / 4,
        )

    return Plan(
        kind=list(KINDS)[seed % len(KINDS)],
        has_zookeeper=chance.random() < 1 / 3,
        builds=[[death() for _ in range(chance.randint(1, deaths_max))] for _ in range(builds)],
    )


@dataclass(kw_only=True)
class Run:
    """One seed at work.

    Attributes:
        judge: Apache Hudi, as writer and as reader.
        plan: What a seed determines.
        shared: The table.
        kind: Of the plan.
        counts: Of what happened.
    """

    judge: Judge
    plan: Plan
    shared: side_by_side.Shared
    kind: Kind
    counts: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, judge: Judge, plan: Plan, folder: Path, seed: int, zookeeper: str) -> "Run":
        """Return the run of a seed, with HOST:PORT of a ZooKeeper that it may use."""
        kind = KINDS[plan.kind]
        lock = side_by_side.zookeeper(zookeeper) if plan.has_zookeeper else side_by_side.FILESYSTEM
        shared = side_by_side.Shared(
            folder=folder,
            made=kind.made,
            lock=lock,
            chance=random.Random(seed),
            settings=_HEARTBEATS,
        )
        return cls(judge=judge, plan=plan, shared=shared, kind=kind)

    @property
    def path(self) -> Path:
        """The table's root."""
        return self.shared.path

    def go(self) -> str:
        """Make the table, have its index built and processes killed; return what happened.

        Raises:
            AssertionError: What the module says does not hold.
        """
        self._make()
        for number, deaths in enumerate(self.plan.builds):
            if number:
                self._drop()
            self._build(number, deaths)
        self.counts["batches"] = len(self.shared.batches.acknowledged)
        self.counts["refused"] = self.shared.batches.refused
        return ", ".join(f"{count} {what}" for what, count in sorted(self.counts.items()))

    @property
    def _drops(self) -> Sequence[str]:
        is_of_column = self.kind.arguments[0].startswith("--")
        return self.kind.arguments[:2] if is_of_column else self.kind.names

    def _drop(self) -> None:
        """Drop the index; in a table without deleted keys in base files, as limits.md advises.

        Writers of Apache Hudi look in base files from then on, and have brought such keys back to
        other file groups by a record index.
        """
        if self.kind.made.merge_on_read:
            self.shared.service("compact")
        self._command("drop", self._drops)

    def _make(self) -> None:
        """Make a table that both have written, with base files and a metadata table."""
        shared = self.shared
        peer_ours.create(self.path, self.kind.made, SCHEMA)
        for _ in range(2):
            batch = shared.batches.next(shared.chance)
            shared.send_ours(batch, "writer-1", shared.chance)
            shared.batches.acknowledged.append(batch)
        if self.kind.made.merge_on_read:
            shared.service("compact")
        lock = ("--lock", shared.lock.address)
        peer_ours.hoodie("metadata", "init", self.path, "--files-only", *lock)
        self._send_theirs(shared.batches.next(shared.chance))
        if self.kind.before:
            self._command("build", self.kind.before)

    def _write_ours(self) -> None:
        own = _WRITERS["writer-1"]
        batches = self.shared.batches
        self.shared.write_ours("writer-1", lambda chance: batches.next_of(chance, own), _PAUSE_S)

    def _write_theirs(self) -> None:
        chance = random.Random(f"theirs-{self.shared.chance.random()}")
        while not self.shared.is_over.is_set():
            self._send_theirs(self.shared.batches.next_of(chance, _WRITERS["theirs"]))
            # Else there is no moment without a pending write of theirs.
            self.shared.is_over.wait(chance.uniform(0, 1.5))

    def _send_theirs(self, batch: side_by_side.Batch) -> None:
        """Have Apache Hudi write a batch; again, as long as it meets a conflict."""
        for _ in range(_TRIES_MAX):
            options = self.shared.their_options | _HEARTBEATS | self._index_type()
            try:
                self.judge.write(self.path, batch.rows, options, operation=batch.operation)
            except JudgeError as error:
                if not _is_conflict(error):
                    raise
                self.counts["conflicts of theirs"] += 1
            else:
                self.shared.batches.acknowledged.append(batch)
                return
        raise AssertionError(f"Apache Hudi met {_TRIES_MAX} conflicts")

    def _index_type(self) -> dict[str, str]:
        """Return by which index writers of Apache Hudi look keys up.

        By a record index that is not there yet they look in the files. An option that says so would
        be outdated where the index becomes ready before the write is requested.
        """
        found = self.kind.index_type
        return {} if found is None else {"hoodie.index.type": found}

    def _named(self) -> list[str]:
        return table_properties(self.path).get("hoodie.table.metadata.partitions", "").split(",")

    def _build(self, number: int, deaths: Sequence[Death]) -> None:
        """Build the index, by processes that are killed and one that is not."""
        before = self._built()
        queue = list(deaths)
        while True:
            with self.shared.written(self._write_ours, self._write_theirs) as look:
                while queue:
                    death = queue.pop(0)
                    is_alive = self._kill_one(death)
                    look()
                    if is_alive and death.is_looked_at:
                        self._break_lock()
                        break
                else:
                    self._command("build", self.kind.arguments)
                    self._maintain()
                    look()
            is_last = not queue and set(self.kind.names) <= set(self._named())
            self._compare(f"build {number + 1}, {len(queue)} deaths left")
            if is_last and not self._pending():
                break
        built = self._built() - before
        # Beside writes of theirs a plan of several indexes is divided (ADR 0053).
        assert built == Counter(self.kind.names), f"completed actions have built {dict(built)}"
        self._send_theirs(self.shared.batches.next_of(self.shared.chance, _WRITERS["theirs"]))
        self._compare(f"after build {number + 1}")

    def _break_lock(self) -> None:
        """Break the lock of a killed process: Apache Hudi's writer waits for such a file for hours.

        Processes of this project break it when they want it, and none may follow here.
        """
        self.shared.command("lock", "break", self.path)

    def _maintain(self) -> None:
        """Have services of ours work on the table whose index is ready."""
        if self.kind.made.merge_on_read:
            self.shared.service("compact")
        self.shared.service("clean", "--keep-commits", "4", "--grace", "60")

    def _command(self, action: str, arguments: Sequence[str]) -> None:
        """Run a command on indexes until it ends well."""
        for _ in range(_TRIES_MAX):
            code, answer = self.shared.command(
                "index", action, self.path, *arguments, *self.shared.options
            )
            if code == 0:
                return
            assert code in side_by_side.TRANSIENT, answer
            self.shared.batches.refuse(answer)
            time.sleep(1)
        raise AssertionError(f"no {action} in {_TRIES_MAX} tries: {answer}")

    def _kill_one(self, death: Death) -> bool:
        """Start a build and kill it; return whether it was alive until then."""
        arguments = ("index", "build", self.path, *self.kind.arguments, *self.shared.options)
        is_reached = self._reached(death.step)
        process = peer_ours.start(*arguments, "--lock", self.shared.lock.address)
        end_s = time.monotonic() + _STEP_S
        while process.poll() is None and not is_reached() and time.monotonic() < end_s:
            time.sleep(_EVERY_S)
        time.sleep(death.delay_s)
        process.kill()
        answer, _ = process.communicate()
        is_killed = process.returncode == -signal.SIGKILL
        if is_killed:
            self.counts[f"killed {self._state()}"] += 1
        elif process.returncode:
            assert process.returncode in side_by_side.TRANSIENT, answer
            self.shared.batches.refuse(answer)
        else:
            self.counts["built before they were killed"] += 1
        return is_killed

    def _reached(self, step: str) -> Callable[[], bool]:
        """Return what looks whether a build has got to a step."""
        timeline = self.path / ".hoodie" / "timeline"
        metadata = self.path / ".hoodie" / "metadata"
        there = {each.name for each in timeline.glob("*.indexing*")}

        def is_new(pattern: str) -> bool:
            return any(each.name not in there for each in timeline.glob(pattern))

        match step:
            case "planned":
                return lambda: bool(self._pending())
            case "begun":
                return lambda: is_new("*.indexing.inflight") or self._state() == "begun"
            case "locked":
                lock = self.path / ".hoodie" / "lock"
                is_file = not self.plan.has_zookeeper
                return lambda: bool(self._pending()) and (lock.exists() or not is_file)
            case "written":
                return lambda: all((metadata / each).is_dir() for each in self.kind.names)
            case "named":
                return lambda: set(self.kind.names) <= set(self._named())
            case _:
                return lambda: True

    def _state(self) -> str:
        """Return how far the build is, by what is on storage."""
        pending = self._pending()
        if set(self.kind.names) <= set(self._named()):
            return "named and pending" if pending else "completed"
        if any((self.path / ".hoodie/metadata" / each).is_dir() for each in self.kind.names):
            return "written"
        if any(each.endswith("inflight") for each in pending):
            return "begun"
        return "planned" if pending else "not planned"

    def _instants(self) -> list[str]:
        timeline = self.path / ".hoodie" / "timeline"
        return [each.name for each in timeline.glob("*.indexing*") if not each.name.startswith(".")]

    def _built(self) -> Counter[str]:
        """Return how many completed actions have built each index."""
        storage = LocalStorage(str(self.path))
        done = (
            contents.read_indexing(storage, each)
            for each in active.listed(storage).instants
            if each.action is Action.INDEXING and each.is_completed
        )
        return Counter(name for each in done for name in each.names)

    def _pending(self) -> list[str]:
        """Return the files of indexing actions that are pending."""
        found = self._instants()
        completed = {each.partition("_")[0] for each in found if "_" in each}
        return [each for each in found if each[:17] not in completed]

    def _compare(self, when: str) -> None:
        self.counts["comparisons"] += 1
        self.shared.roll_back_failed()
        is_of_column = not {_SECONDARY, _EXPRESSION}.isdisjoint(self.kind.names)
        names = ("name 3", "none") if is_of_column else ()
        self.shared.compare(self.judge, when, *names)


def _is_conflict(error: JudgeError) -> bool:
    names = ("WriteConflict", "LockException", "EarlyConflict")
    return any(name in cause.type for cause in error.causes for name in names)
