"""Real processes that write and compact one table at once, killed and paused at random.

Two writers own a column each, so the content has one right answer whatever was merged when: of each
key and column the value of the last committed batch that has it. Invariants I1, I2, I4, I9 of the
research on concurrency, section 6.2.
"""

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import environment, table
from hoodie.model import results, schemas, settings, table_config
from processes.worker import KEYS, rows_of

WORKER = Path(__file__).with_name("worker.py")
COLUMNS = ("x", "y")
SECONDS = float(os.environ.get("HOODIE_PROCESSES_SECONDS", "20"))


@dataclass
class Actor:
    role: list[str]
    output: Path
    process: subprocess.Popen[bytes] | None = None
    acknowledged: set[int] = field(default_factory=set)
    told_bytes: int = 0

    def has_told(self) -> bool:
        """Whether something was acknowledged since the last start."""
        return self.output.stat().st_size > self.told_bytes

    def start(self, uri: str, lock: str) -> None:
        role = list(self.role)
        if role[0] == "write":
            role = [*role[:2], str(max(self.acknowledged, default=-1) + 1)]
        with self.output.open("ab") as output:
            self.told_bytes = output.tell()
            self.process = subprocess.Popen(
                [sys.executable, str(WORKER), role[0], uri, lock, *role[1:]],
                stdout=output,
                stderr=output,
            )

    def collect(self) -> None:
        for line in self.output.read_text().splitlines():
            number, _, what = line.partition(" ")
            if what in ("written", "was there"):
                self.acknowledged.add(int(number))


def create(path: Path, table_type: table_config.TableType) -> table.Table:
    columns = pa.schema([("id", pa.string()), *((name, pa.int64()) for name in COLUMNS)])
    config = table_config.TableConfig(
        name="killed",
        table_type=table_type,
        record_key_fields=("id",),
        has_partial_updates=True,
        bucket_count=2,
    )
    schema = schemas.from_arrow(columns, "killed")
    return table.create_table(str(path), config, schema, environment.system(parallelism=1))


def expected(committed: dict[str, set[int]]) -> dict[str, dict[str, int | None]]:
    content: dict[str, dict[str, int | None]] = {}
    for column, numbers in committed.items():
        for number in sorted(numbers):
            for key, value in rows_of(column, number).items():
                content.setdefault(key, dict.fromkeys(COLUMNS))[column] = value
    return content


@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize("table_type", table_config.TableType)
def test_nothing_acknowledged_is_lost(
    tmp_path: Path, table_type: table_config.TableType, seed: int
) -> None:
    """T-P02."""
    chance = random.Random(seed)
    opened = create(tmp_path / "table", table_type)
    actors = [Actor(["write", column], tmp_path / f"{column}.log") for column in COLUMNS]
    if table_type is table_config.TableType.MERGE_ON_READ:
        actors += [Actor(["compact"], tmp_path / f"compact-{number}.log") for number in range(2)]
    for actor in actors:
        actor.start(opened.uri, "filesystem")
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        time.sleep(chance.uniform(0.02, 0.5))
        actor = chance.choice(actors)
        assert actor.process is not None
        # On a busy machine Python takes seconds to start: nobody is killed before it did something.
        if not actor.has_told():
            continue
        if chance.random() < 0.3:
            actor.process.send_signal(signal.SIGSTOP)
            time.sleep(chance.uniform(0.05, 0.5))
            actor.process.send_signal(signal.SIGCONT)
        else:
            actor.process.kill()
            actor.process.wait()
            actor.collect()
            actor.start(opened.uri, "filesystem")
    for actor in actors:
        assert actor.process is not None
        actor.process.kill()
        actor.process.wait()
        actor.collect()
        assert "Traceback" not in actor.output.read_text(), actor.output.read_text()[-3000:]

    committed = {
        column: {int(batch) for batch in opened.committed_batches(column)} for column in COLUMNS
    }
    for column, actor in zip(COLUMNS, actors, strict=False):
        assert actor.acknowledged <= committed[column]
        assert committed[column] == set(range(len(committed[column]))), "each batch once, in order"
    # Together: of optimistic writers one may lose for long.
    told = [len(actor.acknowledged) for actor in actors[: len(COLUMNS)]]
    assert sum(told) > 2 * len(COLUMNS), f"too slow to tell anything: {told}"
    rows = opened.read().read_all().to_pylist()
    found = {row["id"]: {column: row[column] for column in COLUMNS} for row in rows}
    assert len(found) == len(rows) <= KEYS
    assert found == expected(committed)
    bad = [
        finding
        for finding in opened.check(settings.WriteSettings())
        if finding.severity is results.Severity.ERROR and "is gone" not in finding.message
    ]
    assert bad == []
