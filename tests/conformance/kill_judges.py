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
from dataclasses import replace
from pathlib import Path

from hoodie.clock import SystemClock
from hoodie_operator.standalone.embedded_zookeeper import EmbeddedZooKeeper
from support.peer import peer_ours, side_by_side
from support.peer.judge import RELEASE, Judge, JudgeError, JudgeLostError, Settings
from support.peer.peer_cases import BASE, SCHEMA

METADATA_COMPACTION = {"hoodie.metadata.compact.max.delta.commits": "5"}
TABLE = replace(
    BASE,
    name="killed",
    metadata_table=True,
    table_version=8 if RELEASE.startswith("1.0.") else 9,
    extra=METADATA_COMPACTION
    | {
        "hoodie.metadata.record.index.enable": "true",
        "hoodie.metadata.global.record.level.index.enable": "true",
    },
)


class Run:
    """A run: the table, who writes it, and who is killed."""

    def __init__(self, shared: side_by_side.Shared) -> None:
        self.shared, self.batches, self.chance = shared, shared.batches, shared.chance

    def write_theirs(self, judge: Judge, first: threading.Event) -> None:
        """Write until the judge is killed."""
        chance = random.Random(self.chance.random())
        while True:
            batch = self.batches.next(chance)
            try:
                options = self.shared.their_options | side_by_side.HEARTBEATS
                judge.write(self.shared.path, batch.rows, options)
            except JudgeLostError:
                self.batches.unknown.append(batch)
                first.set()
                return
            except JudgeError as error:
                # A conflict, or a lock that was not had; the batch is not there, or is unknown.
                self.batches.unknown.append(batch)
                self.batches.refuse(str(error))
            else:
                self.batches.acknowledged.append(batch)
            first.set()

    def kill_one(self, number: int) -> None:
        """Let a JVM write for a while, kill it, and look after the table."""
        judge = Judge(self.shared.folder, Settings(name=f"killed-{number}", memory_mb=1024))
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
        if self.shared.made.merge_on_read:
            self.shared.service("compact")
        self.shared.service("clean", "--keep-commits", "4", "--grace", "60")

    def go(self, kills: int) -> None:
        """Make the table, have it written while JVMs are killed, and judge it.

        Raises:
            AssertionError: What the module says does not hold.
        """
        shared = self.shared
        peer_ours.create(shared.path, shared.made, SCHEMA)
        with Judge(shared.folder, Settings(name="maker")) as judge:
            batch = self.batches.next(self.chance)
            judge.write(shared.path, batch.rows, shared.their_options)
            self.batches.acknowledged.append(batch)
        ours = [
            lambda number=number: shared.write_ours(f"writer-{number}", self.batches.next)
            for number in (1, 2)
        ]
        with shared.written(*ours) as look:
            for number in range(kills):
                self.kill_one(number)
                look()
        self.judge()

    def judge(self) -> None:
        """Compare all ways to read; then once more, when both engines have written and cleaned."""
        shared = self.shared
        with Judge(shared.folder, Settings(name="last")) as judge:
            shared.compare(judge, "after the last kill")
            for by_them in (True, False):
                batch = self.batches.next(self.chance)
                if by_them:
                    judge.write(shared.path, batch.rows, shared.their_options)
                else:
                    shared.send_ours(batch, "ours", self.chance)
                self.batches.acknowledged.append(batch)
                shared.compare(judge, f"written at last, {by_them=}")
        found = peer_ours.hoodie("check", shared.path)["findings"]
        assert not found, found


def main(arguments: Sequence[str]) -> int:
    """Do as the arguments say; return the exit code."""
    parser = argparse.ArgumentParser(description="Kill Apache Hudi's writers, and judge the table.")
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--copy-on-write", action="store_true")
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="killed-"))
    server = EmbeddedZooKeeper(folder / "zookeeper", SystemClock(), tick_ms=500)
    shared = side_by_side.Shared(
        folder=folder,
        made=replace(TABLE, merge_on_read=not options.copy_on_write),
        lock=side_by_side.zookeeper(server.start()),
        chance=random.Random(options.seed),
        settings=side_by_side.HEARTBEATS | METADATA_COMPACTION,
    )
    try:
        Run(shared).go(options.kills)
    except (AssertionError, JudgeError, peer_ours.CommandFailedError) as error:
        print(f"\nFailed: {error}\nSee {folder}", file=sys.stderr)
        return 1
    finally:
        server.stop()
    shutil.rmtree(folder)
    batches = shared.batches
    print(
        f"seed {options.seed}: {len(batches.acknowledged)} batches were acknowledged, "
        f"{len(batches.unknown)} unknown, {batches.refused} refused; nothing is lost"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
