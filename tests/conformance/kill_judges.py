"""Apache Hudi's writer killed at random while ours go on, on one table with a metadata table.

    python tests/conformance/kill_judges.py --kills 6 --seed 1 [--copy-on-write]

One JVM after the other writes the table until it is killed; two writers of ours write it meanwhile,
each write a process, and the table is compacted and cleaned by us after each kill. All share a lock
of ZooKeeper, which a killed JVM loses when its session expires. A part of
`make conformance-releases`.

At the end the table has the newest row of each key: of all batches that were acknowledged, and of
those that were in flight at a kill either all rows or none. Files, statistics and indexes of the
metadata table fit the files; both engines read the same with it and without it. The exit code is 1
if that does not hold; the table is kept then.
"""

import argparse
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hoodie import errors
from hoodie.clock import SystemClock
from hoodie.timeline import metadata_timelines
from hoodie_operator.standalone.embedded_zookeeper import EmbeddedZooKeeper
from support.peer import peer_ours
from support.peer.judge import RELEASE, Judge, JudgeError, JudgeLostError, Query, Settings
from support.peer.peer_cases import BASE, SCHEMA, row
from support.peer.peer_listings import assert_same_files
from support.peer.peer_options import PeerTable, zookeeper_lock
from support.peer.peer_rows import assert_same_rows

KEYS = 60
BATCH = 20
KEY = ["part", "id"]
RETRIED = {
    each.kind
    for each in (
        errors.ConflictError,
        errors.WriteConflictError,
        errors.LockTimeoutError,
        errors.LockLostError,
        errors.HeartbeatExpiredError,
        errors.OutcomeUnknownError,
    )
}
HEARTBEATS = {"hoodie.client.heartbeat.interval_in_ms": "1000"}
INDEXES = {
    "hoodie.metadata.compact.max.delta.commits": "5",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
}
TABLE = replace(
    BASE,
    name="killed",
    metadata_table=True,
    table_version=8 if RELEASE.startswith("1.0.") else 9,
    extra=INDEXES,
)
BY_METADATA = Query(use_metadata_table=True)
SKIPPING = replace(BY_METADATA, options={"hoodie.enable.data.skipping": "true"})
SESSION_S = 3
TRANSIENT = {code for kind, code in errors.EXIT_CODES.items() if kind in RETRIED}


@dataclass(kw_only=True)
class Batches:
    """What was written: by batch, whose rows have an ordering value of their own.

    Attributes:
        acknowledged: Batches that must be there.
        unknown: Batches that were in flight at a kill.
        refused: How many writes failed that were no victims, and services.
    """

    acknowledged: list[pa.Table] = field(default_factory=list)
    unknown: list[pa.Table] = field(default_factory=list)
    refused: int = 0
    _ts: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def next(self, chance: random.Random) -> pa.Table:
        """Return rows that nobody has written yet."""
        with self._lock:
            self._ts += 1
            numbers = sorted(chance.sample(range(KEYS), BATCH))
            return pa.Table.from_pylist([row(n, ts=self._ts) for n in numbers], SCHEMA)

    def refuse(self, why: str) -> None:
        """Say why a write failed that was no victim, or a service."""
        self.refused += 1
        print(f"  refused: {why.strip()[:600]}", flush=True)

    def content(self, found: pa.Table) -> pa.Table:
        """Return what should have been found: what is unknown counts if a row of it is there."""
        seen = set(found.column("ts").to_pylist())
        there = [each for each in self.unknown if each.column("ts")[0].as_py() in seen]
        newest: dict[object, dict[str, object]] = {}
        for batch in [*self.acknowledged, *there]:
            for each in batch.to_pylist():
                old = newest.get(each["id"])
                if old is None or each["ts"] > old["ts"]:
                    newest[each["id"]] = each
        return pa.Table.from_pylist(list(newest.values()), SCHEMA)


@dataclass(kw_only=True)
class Run:
    """A run: the table, its lock, who writes it."""

    folder: Path
    table: PeerTable
    zookeeper: str
    chance: random.Random
    batches: Batches = field(default_factory=Batches)
    is_over: threading.Event = field(default_factory=threading.Event)

    @property
    def path(self) -> Path:
        """The table's root."""
        return self.folder / "table"

    @property
    def lock(self) -> str:
        """The lock as our commands take it."""
        expiry = f"session-timeout-s={SESSION_S}&connection-timeout-s={SESSION_S}"
        return f"zookeeper://{self.zookeeper}/hudi/killed?{expiry}"

    @property
    def their_options(self) -> dict[str, str]:
        """The options of the writers that are killed."""
        lock = zookeeper_lock(self.zookeeper, base_path="/hudi", lock_key="killed", skew_ms=200)
        lock |= {"hoodie.write.lock.zookeeper.session_timeout_ms": str(SESSION_S * 1000)}
        return self.table.shared_options(lock) | HEARTBEATS

    def command(self, *arguments: str | Path) -> tuple[int, str]:
        """Run a command of ours in a process; return its exit code and what it said."""
        with peer_ours.start(*arguments, "--lock", self.lock) as process:
            answer, _ = process.communicate(timeout=180)
        return process.returncode, answer

    def write_ours(self, number: int) -> None:
        """Write until the run is over; a batch that was refused is written again."""
        chance = random.Random(f"{number}-{self.chance.random()}")
        concurrency = "nbcc" if self.table.merge_on_read else "occ"
        settings = HEARTBEATS | {"hoodie.metadata.compact.max.delta.commits": "5"}
        while not self.is_over.is_set():
            rows = self.batches.next(chance)
            source = self.folder / f"input-{number}.parquet"
            pq.write_table(rows, source)
            arguments = peer_ours.write_arguments(self.path, source, "upsert", settings)
            arguments += ["--concurrency", concurrency, "--writer-id", f"writer-{number}"]
            while True:
                code, answer = self.command(*arguments)
                if code == 0:
                    self.batches.acknowledged.append(rows)
                    break
                self.batches.refuse(answer)
                assert code in TRANSIENT, answer
                time.sleep(chance.uniform(0, 1))

    def write_theirs(self, judge: Judge, first: threading.Event) -> None:
        """Write until the judge is killed."""
        chance = random.Random(self.chance.random())
        while True:
            rows = self.batches.next(chance)
            try:
                judge.write(self.path, rows, self.their_options)
            except JudgeLostError:
                self.batches.unknown.append(rows)
                first.set()
                return
            except JudgeError as error:
                # A conflict, or a lock that was not had; the batch is not there, or is unknown.
                self.batches.unknown.append(rows)
                self.batches.refuse(str(error))
            else:
                self.batches.acknowledged.append(rows)
            first.set()

    def kill_one(self, number: int) -> None:
        """Let a JVM write for a while, kill it, and look after the table."""
        judge = Judge(self.folder, Settings(name=f"killed-{number}", memory_mb=1024))
        judge.start()
        first = threading.Event()
        writing = threading.Thread(target=self.write_theirs, args=(judge, first))
        writing.start()
        first.wait()
        time.sleep(self.chance.uniform(0, 5))
        judge.kill()
        writing.join()
        counts = f"{len(self.batches.acknowledged)} batches, {len(self.batches.unknown)} unknown"
        print(f"  kill {number + 1}: {counts}", flush=True)
        if self.table.merge_on_read:
            self._service("compact")
        self._service("clean", "--keep-commits", "4", "--grace", "60")

    def _service(self, name: str, *options: str) -> None:
        code, answer = self.command(name, self.path, *options)
        if code != 0:
            assert code in TRANSIENT, answer
            self.batches.refuse(answer)

    def go(self, kills: int) -> None:
        """Make the table, have it written while JVMs are killed, and judge it.

        Raises:
            AssertionError: What the module says does not hold.
        """
        peer_ours.create(self.path, self.table, SCHEMA)
        with Judge(self.folder, Settings(name="maker")) as judge:
            rows = self.batches.next(self.chance)
            judge.write(self.path, rows, self.their_options)
            self.batches.acknowledged.append(rows)
        with ThreadPoolExecutor() as threads:
            ours = [threads.submit(self.write_ours, number) for number in (1, 2)]
            try:
                for number in range(kills):
                    self.kill_one(number)
                    assert not any(each.done() for each in ours), [each.result() for each in ours]
            finally:
                self.is_over.set()
            for each in ours:
                each.result()
        self.judge()

    def judge(self) -> None:
        """Compare all ways to read; then once more, when both engines have written and cleaned."""
        with Judge(self.folder, Settings(name="last")) as judge:
            self.compare(judge, "after the last kill")
            for by_them in (True, False):
                rows = self.batches.next(self.chance)
                if by_them:
                    judge.write(self.path, rows, self.their_options)
                else:
                    peer_ours.Hoodie(table=self.table, lock=self.lock).write(
                        self.path, rows, "upsert"
                    )
                self.batches.acknowledged.append(rows)
                self.compare(judge, f"written at last, {by_them=}")
        found = peer_ours.hoodie("check", self.path)["findings"]
        assert not found, found

    def compare(self, judge: Judge, when: str) -> None:
        """Compare all ways to read."""
        listed = judge.read(self.path)
        plain = self.folder / "plain"
        shutil.copytree(self.path, plain)
        shutil.rmtree(plain / metadata_timelines.DIRECTORY)
        try:
            assert_same_rows(listed, self.batches.content(listed), KEY)
            assert_same_rows(judge.read(self.path, BY_METADATA), listed, KEY)
            assert_same_rows(peer_ours.read(self.path), listed, KEY)
            assert_same_rows(peer_ours.read(plain), listed, KEY)
            newest = max(listed.column("ts").to_pylist())
            for where in (f"ts >= {newest - 3}", "quantity > 300", "id = 'key-017'"):
                expected = judge.read(self.path, Query(where=where))
                assert_same_rows(
                    judge.read(self.path, replace(SKIPPING, where=where)), expected, KEY
                )
                assert_same_rows(peer_ours.read(self.path, "--where", where), expected, KEY)
            assert_same_files(self.path)
            validated = peer_ours.hoodie("metadata", "validate", self.path)
            for name in ("differences", "statistics", "filters", "keys"):
                assert not validated[name], validated
        except AssertionError as error:
            raise AssertionError(f"{when}: {error}") from error
        finally:
            shutil.rmtree(plain)


def main(arguments: Sequence[str]) -> int:
    """Do as the arguments say; return the exit code."""
    parser = argparse.ArgumentParser(description="Kill Apache Hudi's writers, and judge the table.")
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--copy-on-write", action="store_true")
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="killed-"))
    server = EmbeddedZooKeeper(folder / "zookeeper", SystemClock(), tick_ms=500)
    run = Run(
        folder=folder,
        table=replace(TABLE, merge_on_read=not options.copy_on_write),
        zookeeper=server.start(),
        chance=random.Random(options.seed),
    )
    try:
        run.go(options.kills)
    except (AssertionError, JudgeError, peer_ours.CommandFailedError) as error:
        print(f"\nFailed: {error}\nSee {folder}", file=sys.stderr)
        return 1
    finally:
        server.stop()
    shutil.rmtree(folder)
    batches = run.batches
    print(
        f"seed {options.seed}: {len(batches.acknowledged)} batches were acknowledged, "
        f"{len(batches.unknown)} unknown, {batches.refused} refused; nothing is lost"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
