"""A table that processes of this project and of Apache Hudi write at once, and what it must hold.

Each batch has an ordering value of its own, and of each key the newest counts. All writers update
the first keys. Others are those of one writer, which inserts, changes and deletes them: it sends a
batch only once the one before is acknowledged, so that they have one order in every engine.
"""

import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hoodie import environment, errors, table
from hoodie.timeline import metadata_timelines
from support.peer import peer_ours
from support.peer.judge import Judge, Query
from support.peer.peer_cases import SCHEMA, row
from support.peer.peer_listings import assert_same_files
from support.peer.peer_options import PeerTable, filesystem_lock, zookeeper_lock
from support.peer.peer_rows import assert_same_rows

KEY = ["part", "id"]
SHARED = range(60)
"""Numbers of the keys that all writers update."""
HEARTBEATS = {"hoodie.client.heartbeat.interval_in_ms": "1000"}
"""Of writers that are killed, and of those that roll back what they left: seconds later they count
as dead."""
TRANSIENT = {
    each.exit_code
    for each in (
        errors.ConflictError,
        errors.WriteConflictError,
        errors.LockTimeoutError,
        errors.LockLostError,
        errors.HeartbeatExpiredError,
        errors.OutcomeUnknownError,
    )
}
"""With these a command of ours is to be repeated."""

_BATCH = 20
_NAMES = (*(f"name {number}" for number in range(6)), None)
_PARTS = 3
_SESSION_S = 3
_TRIES_MAX = 40
_COMMAND_S = 240
_BY_METADATA = Query(use_metadata_table=True)
_SKIPPING = replace(_BY_METADATA, options={"hoodie.enable.data.skipping": "true"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Rows of SCHEMA, all with one ordering value, and what is done with them."""

    rows: pa.Table
    operation: str = "upsert"


@dataclass(kw_only=True)
class Batches:
    """What was written.

    Attributes:
        acknowledged: Batches that must be there.
        unknown: Those that were in flight when their writer was killed, of upserts.
        refused: How many writes and services failed that were not killed.
    """

    acknowledged: list[Batch] = field(default_factory=list)
    unknown: list[Batch] = field(default_factory=list)
    refused: int = 0
    _ts: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def next(self, chance: random.Random) -> Batch:
        """Return an upsert of shared keys that was not written yet."""
        return Batch(rows=self._rows(chance, sorted(chance.sample(SHARED, _BATCH))))

    def next_of(self, chance: random.Random, own: range) -> Batch:
        """Return a batch of a writer that has keys of its own, of one or all partitions."""
        parts = chance.choice([[0], [1], [2], range(_PARTS)])
        if chance.random() < 0.3:
            numbers = [each for each in own if each % _PARTS in parts]
            deleted = sorted(chance.sample(numbers, min(len(numbers), 8)))
            return Batch(rows=self._rows(chance, deleted), operation="delete")
        numbers = [each for each in (*SHARED, *own) if each % _PARTS in parts]
        return Batch(rows=self._rows(chance, sorted(chance.sample(numbers, _BATCH))))

    def _rows(self, chance: random.Random, numbers: list[int]) -> pa.Table:
        with self._lock:
            self._ts += 1
            ts = self._ts
        rows = [row(each, ts=ts, name=chance.choice(_NAMES)) for each in numbers]
        return pa.Table.from_pylist(rows, SCHEMA)

    def refuse(self, why: str) -> None:
        """Say why a write, or a service, failed that was not killed."""
        self.refused += 1
        print(f"  refused: {' '.join(why.split())[:600]}", flush=True)

    def content(self, found: pa.Table) -> pa.Table:
        """Return what should have been found: what is unknown counts if a row of it is there."""
        seen = set(found.column("ts").to_pylist())
        there = [each for each in self.unknown if each.rows.column("ts")[0].as_py() in seen]
        newest: dict[object, tuple[str, dict[str, object]]] = {}
        for batch in [*self.acknowledged, *there]:
            for each in batch.rows.to_pylist():
                _, old = newest.get(each["id"], ("", {"ts": 0}))
                if each["ts"] > old["ts"]:
                    newest[each["id"]] = (batch.operation, each)
        kept = [each for operation, each in newest.values() if operation != "delete"]
        return pa.Table.from_pylist(kept, SCHEMA)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """A table's lock, as commands of ours name it, and as Apache Hudi's options do."""

    address: str
    options: Mapping[str, str]


FILESYSTEM = Lock(address="filesystem", options=filesystem_lock(skew_ms=200))


def zookeeper(server: str) -> Lock:
    """Return a lock of a ZooKeeper at HOST:PORT, which a killed process loses after seconds."""
    expiry = f"session-timeout-s={_SESSION_S}&connection-timeout-s={_SESSION_S}"
    options = zookeeper_lock(server, base_path="/hudi", lock_key="killed", skew_ms=200)
    return Lock(
        address=f"zookeeper://{server}/hudi/killed?{expiry}",
        options=options
        | {"hoodie.write.lock.zookeeper.session_timeout_ms": str(_SESSION_S * 1000)},
    )


@dataclass(kw_only=True)
class Shared:
    """A table of both engines.

    Attributes:
        folder: Where it is, and what is written to it.
        made: How both write it.
        lock: Its lock.
        chance: Determines what is written.
        settings: Of commands of ours.
        is_over: Whether its writers are to end.
    """

    folder: Path
    made: PeerTable
    lock: Lock
    chance: random.Random
    settings: Mapping[str, str] = field(default_factory=lambda: HEARTBEATS)
    batches: Batches = field(default_factory=Batches)
    is_over: threading.Event = field(default_factory=threading.Event)

    @property
    def path(self) -> Path:
        """The table's root."""
        return self.folder / "table"

    @property
    def is_non_blocking(self) -> bool:
        """Whether its writers are, which needs buckets."""
        return self.made.merge_on_read and self.made.buckets is not None

    @property
    def their_options(self) -> dict[str, str]:
        """The options of writers of Apache Hudi."""
        made = self.made
        shared = made.nbcc_options if self.is_non_blocking else made.occ_options
        return shared(self.lock.options)

    def command(self, *arguments: str | Path) -> tuple[int, str]:
        """Run a command of ours in a process; return its exit code and what it printed."""
        with peer_ours.start(*arguments, "--lock", self.lock.address) as process:
            answer, _ = process.communicate(timeout=_COMMAND_S)
        return process.returncode, answer

    def service(self, name: str, *options: str) -> None:
        """Run a table service of ours, which may fail for now."""
        code, answer = self.command(name, self.path, *options)
        if code != 0:
            assert code in TRANSIENT, answer
            self.batches.refuse(answer)

    def write_ours(
        self, writer_id: str, next_batch: Callable[[random.Random], Batch], pause_s: float = 0
    ) -> None:
        """Write by processes of ours until the table's writers are to end.

        Args:
            writer_id: Of the writer.
            next_batch: Draws a batch.
            pause_s: So long at most it waits after each: optimistic writers that are slower than it
                would meet a conflict each time.
        """
        chance = random.Random(f"{writer_id}-{self.chance.random()}")
        while not self.is_over.is_set():
            batch = next_batch(chance)
            self.send_ours(batch, writer_id, chance)
            self.batches.acknowledged.append(batch)
            self.is_over.wait(chance.uniform(0, pause_s))

    def send_ours(self, batch: Batch, writer_id: str, chance: random.Random) -> None:
        """Write a batch by a process of ours; again, as long as it is refused for now."""
        source = self.folder / f"input-{writer_id}.parquet"
        is_delete = batch.operation == "delete"
        pq.write_table(batch.rows.select([*KEY, "ts"]) if is_delete else batch.rows, source)
        arguments = peer_ours.write_arguments(self.path, source, batch.operation, self.settings)
        concurrency = "nbcc" if self.is_non_blocking else "occ"
        arguments += ["--concurrency", concurrency, "--writer-id", writer_id]
        for _ in range(_TRIES_MAX):
            code, answer = self.command(*arguments)
            if code == 0:
                return
            assert code in TRANSIENT, answer
            self.batches.refuse(answer)
            time.sleep(chance.uniform(0, 1))
        raise AssertionError(f"{writer_id} was refused {_TRIES_MAX} times: {answer}")

    @contextmanager
    def written(self, *writers: Callable[[], None]) -> Iterator[Callable[[], None]]:
        """Have writers at work, each until the end of the batch that it has begun then.

        Yields:
            Fails with the error of a writer that has ended.
        """
        self.is_over.clear()
        with ThreadPoolExecutor(len(writers)) as threads:
            at_work = [threads.submit(each) for each in writers]

            def look() -> None:
                assert not any(each.done() for each in at_work), [
                    each.result() for each in at_work if each.done()
                ]

            try:
                yield look
            finally:
                self.is_over.set()
            for each in at_work:
                each.result()

    def roll_back_failed(self) -> None:
        """Roll back what writers have left, of which none is at work.

        Apache Hudi leaves a write that met a conflict to the next clean. If that had rewritten a
        base file of a merge-on-read table, its readers that list files do not show what is logged
        there afterwards.
        """
        end_s = time.monotonic() + _COMMAND_S
        while self._pending_writes():
            code, answer = self.command("rollback", self.path, "--all", *self.options)
            assert code in {0, *TRANSIENT}, answer
            assert time.monotonic() < end_s, answer
            time.sleep(1)

    @property
    def options(self) -> list[str]:
        """The settings of commands of ours, as their options."""
        return [f"--set={key}={value}" for key, value in self.settings.items()]

    def _pending_writes(self) -> set[str]:
        names = [each.name for each in (self.path / ".hoodie" / "timeline").glob("2*commit*")]
        completed = {each.partition("_")[0] for each in names if "_" in each}
        return {each[:17] for each in names if each.endswith("commit.requested")} - completed

    def compare(self, judge: Judge, when: str, *names: str) -> None:
        """Compare all ways to read, with one another and with what was written.

        Args:
            judge: Apache Hudi.
            when: Of the table, for an error.
            names: Values of `name` that are looked up.

        Raises:
            AssertionError: They differ, or the metadata table is not as the files are.
        """
        listed = judge.read(self.path)
        plain = self.folder / "plain"
        shutil.copytree(self.path, plain)
        shutil.rmtree(plain / metadata_timelines.DIRECTORY)
        try:
            assert_same_rows(listed, self.batches.content(listed), KEY)
            assert_same_rows(judge.read(self.path, _BY_METADATA), listed, KEY)
            assert_same_rows(peer_ours.read(self.path), listed, KEY)
            assert_same_rows(peer_ours.read(plain), listed, KEY)
            for where, condition in _look_ups(listed, names):
                wanted = listed.filter(condition)
                for reader, found in (
                    ("Apache Hudi", judge.read(self.path, replace(_SKIPPING, where=where))),
                    ("hoodie", peer_ours.read(self.path, "--where", where)),
                ):
                    try:
                        assert_same_rows(found, wanted, KEY)
                    except AssertionError as error:
                        raise AssertionError(f"{reader}, where {where}: {error}") from error
            assert_same_files(self.path)
            opened = table.open_table(str(self.path), environment.system(parallelism=2))
            validated = opened.validate_metadata()
            assert validated.is_right, validated
        except AssertionError as error:
            raise AssertionError(f"{when}: {error}") from error
        finally:
            shutil.rmtree(plain)


def _look_ups(listed: pa.Table, names: tuple[str, ...]) -> Iterator[tuple[str, pc.Expression]]:
    """Yield filters in SQL, and the same for Arrow: by statistics, by keys, and by names."""
    newest = max(listed.column("ts").to_pylist())
    yield f"ts >= {newest - 3}", pc.field("ts") >= newest - 3
    yield "quantity > 300", pc.field("quantity") > 300
    shared, *others = (row(number, ts=0) for number in (17, 103, 205, 999))
    ids = [each["id"] for each in (shared, *others)]
    yield f"id = '{ids[0]}'", pc.field("id") == ids[0]
    yield f"id IN ({', '.join(map(repr, ids))})", pc.field("id").isin(ids)
    yield (
        f"part = '{shared['part']}' AND id = '{shared['id']}'",
        (pc.field("part") == shared["part"]) & (pc.field("id") == shared["id"]),
    )
    for name in names:
        yield f"name = '{name}'", pc.field("name") == name
        yield f"lower(name) = '{name}'", pc.utf8_lower(pc.field("name")) == name
