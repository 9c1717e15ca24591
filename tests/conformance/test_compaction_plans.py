"""Plans of compactions beside those of Apache Hudi's planner, for the same table (T-C01, T-C02).

What it plans with each strategy we plan as well: file groups, log files, order, metrics. And what
one plans the other executes.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import environment, table
from hoodie.format import timeline_avro
from hoodie.model import (
    commits,
    compaction_options,
    instants,
    plans,
    schemas,
    settings,
    table_config,
)
from hoodie.model.compaction_options import Strategy
from hoodie.transaction import authors, manager
from hoodie.transaction.locks import address_texts
from hoodie.write import sessions
from support.peer.judge import Judge, JudgeError
from support.peer.peer_options import PeerTable

PACKAGE = "org.apache.hudi.table.action.compact.strategy."
KEY = ("id", "kind")
DAY = ("year", "month", "day")
COLUMNS = pa.schema(
    [*((name, pa.string()) for name in (*KEY, *DAY)), ("ts", pa.int64()), ("v", pa.string())]
)
THEIRS = PeerTable(name="planned", record_key=KEY, partition_by=DAY, ordering="ts", buckets=2)
CONFIG = table_config.TableConfig(
    name="planned",
    record_key_fields=KEY,
    partition_fields=DAY,
    ordering_fields=("ts",),
    merge_mode=table_config.MergeMode.EVENT_TIME,
    bucket_count=2,
)
TRANSACTION = manager.TransactionOptions(
    settings=settings.WriteSettings(
        concurrency=settings.ConcurrencyMode.NON_BLOCKING, clock_wait_ms=0
    ),
    lock=address_texts.parse("filesystem"),
    author=authors.Author(),
)
UPSERT, BULK_INSERT = commits.Operation.UPSERT, commits.Operation.BULK_INSERT


NORTH, SOUTH = "2026/01/01", "2026/01/02"


def day(age: int) -> str:
    """Return the partition of a day, so many days ago."""
    return (datetime.now(UTC) - timedelta(days=age)).strftime("%Y/%m/%d")


class Planned:
    """A table of ours, planned by both."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path) -> "Planned":
        schema = schemas.from_arrow(COLUMNS, CONFIG.name)
        table.create_table(str(path), CONFIG, schema, environment.system())
        return cls(path)

    def copy(self, name: str) -> "Planned":
        path = self.path.parent / name
        shutil.copytree(self.path, path)
        return Planned(path)

    @property
    def opened(self) -> table.Table:
        return table.open_table(str(self.path), environment.system())

    def write(
        self,
        part: str,
        keys: Sequence[str],
        *,
        ts: int = 1,
        size: int = 10,
        operation: commits.Operation = UPSERT,
    ) -> None:
        date = dict(zip(DAY, part.split("/"), strict=True))
        rows = [
            {"id": key, "kind": "x", "ts": ts, "v": f"{key}-{ts}-" * size, **date} for key in keys
        ]
        mode = settings.ConcurrencyMode.NON_BLOCKING
        if operation is BULK_INSERT:
            mode = settings.ConcurrencyMode.SINGLE_WRITER
        changed = replace(TRANSACTION.settings, concurrency=mode)
        author = authors.Author(writer_id="w")
        transaction = replace(TRANSACTION, settings=changed, author=author)
        options = sessions.WriteOptions(operation=operation, transaction=transaction)
        self.opened.write(pa.Table.from_pylist(rows, COLUMNS), options)

    def plan(self, **options: object) -> plans.CompactionPlan | None:
        """Return what we would plan."""
        chosen = compaction_options.CompactionOptions(**options)  # type: ignore[arg-type]
        return self.opened.preview_compaction(chosen).plan

    def schedule(self, **options: object) -> instants.InstantTime | None:
        chosen = compaction_options.CompactionOptions(**options)  # type: ignore[arg-type]
        return self.opened.plan_compaction(TRANSACTION, chosen).instant

    def planned(self, instant: str) -> plans.CompactionPlan:
        return timeline_avro.decode_compaction_plan(self.plan_file(instant).read_bytes())

    def plan_file(self, instant: str) -> Path:
        return self.path / ".hoodie" / "timeline" / f"{instant}.compaction.requested"

    def execute(self, instant: str) -> None:
        self.opened.compact(instants.checked_time(instant), TRANSACTION)

    def rows(self) -> dict[str, str]:
        return texts_of(self.opened.read().read_all())


ALWAYS = {
    "hoodie.compact.inline.trigger.strategy": "TIME_ELAPSED",
    "hoodie.compact.inline.max.delta.seconds": "0",
}
"""Apache Hudi plans at once, though nothing was written since the last compaction."""


def rows_of(judge: Judge, of: Planned) -> dict[str, str]:
    return texts_of(judge.read(of.path))


def texts_of(rows: pa.Table) -> dict[str, str]:
    return {"/".join(row[name] for name in (*DAY, "id")): row["v"] for row in rows.to_pylist()}


def options(changes: Mapping[str, str] | None = None) -> dict[str, str]:
    return THEIRS.write_options() | dict(changes or {})


@pytest.fixture(scope="module")
def several(judge: Judge, tmp_path_factory: pytest.TempPathFactory) -> Planned:
    """Return a table of days with groups that differ in everything that strategies look at."""
    made = Planned.create(tmp_path_factory.mktemp("several") / "several")
    keys = [f"k{number}" for number in range(6)]
    made.write(day(0), keys, operation=BULK_INSERT, size=2000)
    made.write(day(0), keys, ts=2, size=9)
    made.write(day(3), keys, size=50)
    made.write(day(3), keys[:2], ts=2, size=1)
    made.write(day(30), keys, size=20)
    for ts in (2, 3, 4):
        made.write(day(30), keys[:1], ts=ts, size=3)
    made.write(day(400), keys, size=400)
    assert made.rows() == rows_of(judge, made)
    return made


Chosen = tuple[str, dict[str, str], dict[str, object]]

STRATEGIES: dict[str, Chosen] = {
    "log size": (
        "LogFileSizeBasedCompactionStrategy",
        {"hoodie.compaction.logfile.size.threshold": "9000"},
        {"strategies": (Strategy.LOG_SIZE,), "log_bytes_min": 9000},
    ),
    "log size within I/O": (
        "LogFileSizeBasedCompactionStrategy",
        {"hoodie.compaction.target.io": "240"},
        {"strategies": (Strategy.LOG_SIZE,), "target_io_mib": 240},
    ),
    "log size within I/O that is exceeded": (
        "LogFileSizeBasedCompactionStrategy",
        {"hoodie.compaction.target.io": "241"},
        {"strategies": (Strategy.LOG_SIZE,), "target_io_mib": 241},
    ),
    "log count": (
        "LogFileNumBasedCompactionStrategy",
        {"hoodie.compaction.logfile.num.threshold": "2"},
        {"strategies": (Strategy.LOG_COUNT,), "log_files_min": 2},
    ),
    "bounded I/O": (
        "BoundedIOCompactionStrategy",
        {},
        {"strategies": (Strategy.BOUNDED_IO,)},
    ),
    "day based": (
        "DayBasedCompactionStrategy",
        {"hoodie.compaction.daybased.target.partitions": "2"},
        {"strategies": (Strategy.DAY_BASED,), "partitions_max": 2},
    ),
    "old partitions": (
        "UnBoundedPartitionAwareCompactionStrategy",
        {"hoodie.compaction.daybased.target.partitions": "29"},
        {"strategies": (Strategy.OLD_PARTITIONS,), "partitions_max": 29},
    ),
    "regular expression": (
        "PartitionRegexBasedCompactionStrategy",
        {"hoodie.compaction.partition.path.regex": f"^{day(3)}|{day(400)[5:]}"},
        {
            "strategies": (Strategy.PARTITION_REGEX,),
            "partition_regex": f"^{day(3)}|{day(400)[5:]}",
        },
    ),
    "unbounded": (
        "UnBoundedCompactionStrategy",
        {"hoodie.compaction.target.io": "1"},
        {"strategies": (Strategy.UNBOUNDED,), "target_io_mib": 1},
    ),
    "two of them": (
        f"DayBasedCompactionStrategy,{PACKAGE}LogFileNumBasedCompactionStrategy",
        {
            "hoodie.compaction.daybased.target.partitions": "3",
            "hoodie.compaction.logfile.num.threshold": "2",
        },
        {
            "strategies": (Strategy.DAY_BASED, Strategy.LOG_COUNT),
            "partitions_max": 3,
            "log_files_min": 2,
        },
    ),
}
UNORDERED = {"bounded I/O", "unbounded", "regular expression", "old partitions"}
"""In the order in which partitions are listed, which Apache Hudi does not define."""


def shown(plan: plans.CompactionPlan) -> list[dict[str, object]]:
    return [
        {
            "group": str(each.group),
            "base": each.base_file_name,
            "logs": sorted(each.log_file_names),
            "metrics": dict(each.metrics),
        }
        for each in plan.operations
    ]


def in_order(name: str, plan: plans.CompactionPlan) -> list[dict[str, object]]:
    """Return the operations of a plan, in one order where the strategy has none."""
    found = shown(plan)
    if name in UNORDERED:
        return sorted(found, key=lambda each: str(each["group"]))
    if name == "day based":
        return sorted(found, key=lambda each: str(each["group"]), reverse=True)
    if name in {"log count", "two of them"}:
        return sorted(found, key=lambda each: (-len(each["logs"]), str(each["group"])))  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize("name", STRATEGIES)
def test_both_plan_the_same_and_execute_each_others_plan(
    name: str, judge: Judge, several: Planned
) -> None:
    """T-C02."""
    hudi_class, theirs, ours = STRATEGIES[name]
    strategy = {"hoodie.compaction.strategy": PACKAGE + hudi_class}
    read = compaction_options.from_properties(strategy | theirs)
    assert read == compaction_options.CompactionOptions(**ours)  # type: ignore[arg-type]

    by_them = several.copy(f"{name} by them".replace("/", "-"))
    instant = judge.schedule_compaction(by_them.path, options(strategy | theirs))
    assert instant is not None
    expected = by_them.planned(instant)
    found = several.plan(**ours)
    assert found is not None
    assert in_order(name, found) == in_order(name, expected)
    partitions = list(dict.fromkeys(each.group.partition_path for each in expected.operations))
    if name not in UNORDERED:
        mine = list(dict.fromkeys(each.group.partition_path for each in found.operations))
        assert mine == partitions
    assert set(expected.missed_partitions) <= set(found.missed_partitions)

    by_us = several.copy(f"{name} by us".replace("/", "-"))
    own = by_us.schedule(**ours)
    assert own is not None
    by_them.execute(instant)
    judge.execute_compaction(by_us.path, own, options())
    rows = several.rows()
    for each in (by_them, by_us):
        assert each.rows() == rows_of(judge, each) == rows
        compacted = {one.group for one in each.opened.slices() if one.base_file}
        assert {operation.group for operation in expected.operations} <= compacted


def test_recent_partitions_are_what_apache_hudis_old_ones_are_not(
    judge: Judge, several: Planned
) -> None:
    """T-C02. Its own strategy of recent ones cannot be serialized, and fails on Spark (1.2.0)."""
    age = {"hoodie.compaction.daybased.target.partitions": "29"}
    recent = {
        "hoodie.compaction.strategy": f"{PACKAGE}BoundedPartitionAwareCompactionStrategy",
        **age,
    }
    old = {"hoodie.compaction.strategy": f"{PACKAGE}UnBoundedPartitionAwareCompactionStrategy"}
    ours = several.copy("recent")
    with pytest.raises(JudgeError, match="NotSerializableException"):
        judge.schedule_compaction(ours.path, options(recent))
    found = ours.opened.plan_compaction(TRANSACTION, compaction_options.from_properties(recent))
    assert found.instant is not None
    theirs = several.copy("old")
    instant = judge.schedule_compaction(theirs.path, options(old | age))
    assert instant is not None
    groups = {each.group for each in several.opened.slices()}
    taken = {each.group for each in theirs.planned(instant).operations}
    assert {each.group for each in ours.planned(found.instant).operations} == groups - taken
    judge.execute_compaction(ours.path, found.instant, options())
    assert ours.rows() == rows_of(judge, ours) == several.rows()


def test_apache_hudi_compacts_what_a_bounded_plan_of_ours_has_left(
    judge: Judge, several: Planned
) -> None:
    """Its planner looks at partitions with new commits, and those that the last plan missed."""
    bounded = several.copy("bounded")
    first = bounded.schedule(file_groups_max=1)
    assert first is not None
    (taken,) = bounded.planned(first).operations
    bounded.execute(first)
    second = judge.schedule_compaction(bounded.path, options(ALWAYS))
    assert second is not None
    groups = {each.group for each in bounded.planned(second).operations}
    assert groups == {each.group for each in bounded.opened.slices()} - {taken.group}
    judge.execute_compaction(bounded.path, second, options())
    assert bounded.rows() == rows_of(judge, bounded) == several.rows()
    assert all(each.log_files == () for each in bounded.opened.slices())


def test_apache_hudi_forgets_what_a_plan_has_left_and_does_not_say(
    judge: Judge, several: Planned
) -> None:
    """Why plans name partitions: without, nothing is planned until they are written again."""
    silent = several.copy("silent")
    first = silent.schedule(file_groups_max=1)
    assert first is not None
    told = silent.planned(first)
    assert told.missed_partitions
    content = timeline_avro.encode_compaction_plan(replace(told, missed_partitions=()))
    silent.plan_file(first).write_bytes(content)
    silent.execute(first)
    assert judge.schedule_compaction(silent.path, options(ALWAYS)) is None
    whole = ALWAYS | {"hoodie.table.services.incremental.enabled": "false"}
    for rest in (
        silent.copy("ours").schedule(),
        judge.schedule_compaction(silent.path, options(whole)),
    ):
        assert rest is not None
    assert len(silent.planned(str(rest)).operations) == 7


def test_apache_hudi_compacts_what_came_behind_a_plan_that_is_pending(
    judge: Judge, tmp_path: Path
) -> None:
    """A later plan that completes first names its partition."""
    made = Planned.create(tmp_path / "t")
    made.write(NORTH, ["a"])
    first = made.schedule()
    made.write(NORTH, ["a"], ts=2)
    made.write(SOUTH, ["b"])
    second = made.schedule()
    assert first is not None
    assert second is not None
    assert made.planned(second).missed_partitions == (NORTH,)
    made.execute(second)
    made.execute(first)
    third = judge.schedule_compaction(made.path, options(ALWAYS))
    assert third is not None
    (operation,) = made.planned(third).operations
    assert operation.group.partition_path == NORTH
    judge.execute_compaction(made.path, third, options())
    assert made.rows() == rows_of(judge, made)


def test_several_plans_of_both_are_pending_at_once(judge: Judge, several: Planned) -> None:
    """No file group is in two of them, and each executes the other's."""
    shared = several.copy("shared")
    ours = shared.schedule(file_groups_max=2)
    strategy = {
        "hoodie.compaction.strategy": f"{PACKAGE}LogFileSizeBasedCompactionStrategy",
        "hoodie.compaction.target.io": "240",
    }
    theirs = judge.schedule_compaction(shared.path, options(strategy))
    last = shared.schedule()
    found = [each for each in (ours, theirs, last) if each is not None]
    assert len(found) == 3
    groups = [each.group for one in found for each in shared.planned(one).operations]
    assert len(groups) == len(set(groups)) == 8
    judge.execute_compaction(shared.path, found[0], options())
    shared.execute(found[1])
    judge.execute_compaction(shared.path, found[2], options())
    assert shared.rows() == rows_of(judge, shared) == several.rows()


@pytest.mark.parametrize("trigger", ["NUM_COMMITS", "NUM_COMMITS_AFTER_LAST_REQUEST"])
def test_both_plan_at_the_same_commit(trigger: str, judge: Judge, tmp_path: Path) -> None:
    """T-C01, with and without a compaction before."""
    made = Planned.create(tmp_path / "t")
    by_count = {
        "hoodie.compact.inline.trigger.strategy": trigger,
        "hoodie.compact.inline.max.delta.commits": "2",
    }
    ours = compaction_options.from_properties(by_count)

    def plan() -> list[str | None]:
        other = made.copy(f"copy-{len(list(tmp_path.iterdir()))}")
        theirs = judge.schedule_compaction(other.path, options(by_count))
        return [made.opened.plan_compaction(TRANSACTION, ours).instant, theirs]

    made.write(NORTH, ["a", "b", "c"])
    assert plan() == [None, None]
    made.write(NORTH, ["a", "b", "c"], ts=2)
    first, theirs = plan()
    assert first is not None
    assert theirs is not None
    made.write(SOUTH, ["d"], ts=3)
    found = plan()
    assert [each is not None for each in found] == [trigger == "NUM_COMMITS"] * 2
    for each in (first, found[0]):
        if each is not None:
            made.execute(each)
    made.write(NORTH, ["a"], ts=4)
    expected = trigger != "NUM_COMMITS"
    assert [each is not None for each in plan()] == [expected] * 2


@pytest.mark.parametrize(
    ("seconds", "is_due"), [("3600", False), ("1", True)], ids=["later", "now"]
)
def test_both_plan_by_time(seconds: str, is_due: bool, judge: Judge, tmp_path: Path) -> None:
    """T-C01."""
    made = Planned.create(tmp_path / "t")
    made.write(NORTH, ["a"])
    environment.system().clock.sleep_s(1.1)
    by_time = {
        "hoodie.compact.inline.trigger.strategy": "TIME_ELAPSED",
        "hoodie.compact.inline.max.delta.seconds": seconds,
    }
    other = made.copy("copy")
    ours = made.opened.plan_compaction(TRANSACTION, compaction_options.from_properties(by_time))
    theirs = judge.schedule_compaction(other.path, options(by_time))
    assert [ours.instant is not None, theirs is not None] == [is_due] * 2
