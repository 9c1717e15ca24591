"""Tables that we make, or that both make in turns, as Apache Hudi reads them.

Each recipe runs with another maker than Apache Hudi; every stage is read by Apache Hudi, by
hudi-rs and by us, and must be what the model says.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pytest

from support.peer import peer_ours
from support.peer.judge import Judge, Query, QueryType
from support.peer.peer_cases import RECIPES, SCHEMA, ApacheHudi, Maker, PeerCase, Recipe, build, row
from support.peer.peer_hudi_rs import read_with_hudi_rs
from support.peer.peer_options import filesystem_lock, table_properties
from support.peer.peer_rows import assert_same_rows

OURS = (
    "event_time",
    "event_time_avro_v8",
    "commit_time",
    "partial",
    "partial_v8",
    "partial_event_time_avro",
    "partial_event_time_avro_v8",
    "composite_key",
    "every_type",
    "every_type_avro",
    "cow",
    "cow_v8",
    "cow_partial",
    "cow_partial_event_time",
    "cow_partial_event_time_v8",
    "cow_unfinished_write",
    "cow_rolled_back",
    "every_type_cow_buckets",
    "bulk_insert",
    "cow_bulk_insert_v8",
    "pending_compaction",
    "unfinished_write",
    "rolled_back",
    "deleted_by_column",
)
# Who follows on our first write, which creates the table.
IN_TURNS = (
    ("event_time", True),
    ("event_time", False),
    ("event_time_avro_v8", True),
    ("commit_time", False),
    ("partial", True),
    ("partial", False),
    ("partial_v8", False),
    ("partial_event_time_avro", True),
    ("composite_key", False),
    ("every_type", True),
    ("every_type_avro", False),
    ("cow", True),
    ("cow", False),
    ("cow_v8", False),
    ("cow_partial", True),
    ("cow_partial_event_time_v8", True),
    ("every_type_cow_buckets", False),
    ("cow_bulk_insert_v8", False),
    ("pending_compaction", False),
)


@dataclass(slots=True, kw_only=True)
class InTurns:
    """Both as makers of one table: we make the first write, then each does every other action."""

    ours: Maker
    theirs: Maker
    are_we_next: bool
    names: list[str] = field(default_factory=list)

    def _next(self, path: Path) -> Maker:
        is_ours = not path.exists() or self.are_we_next
        if path.exists():
            self.are_we_next = not self.are_we_next
        self.names.append("ours" if is_ours else "theirs")
        return self.ours if is_ours else self.theirs

    def write(self, path: Path, rows: pa.Table, operation: str) -> None:
        self._next(path).write(path, rows, operation)

    def schedule_compaction(self, path: Path) -> str | None:
        return self._next(path).schedule_compaction(path)

    def execute_compaction(self, path: Path, instant: str) -> None:
        self._next(path).execute_compaction(path, instant)


def assert_everybody_reads_the_model(case: PeerCase) -> None:
    for stage in case.stages:
        assert_same_rows(stage.expected, stage.model, case.key)
        assert_same_rows(peer_ours.read(stage.path), stage.model, case.key)
        merge_mode = table_properties(stage.path)["hoodie.record.merge.mode"]
        if merge_mode != "CUSTOM" or stage.name == "compacted":
            assert_same_rows(read_with_hudi_rs(stage.path), stage.model, case.key)


def prepared(name: str) -> Recipe:
    recipe = RECIPES[name]
    return replace(recipe, table=replace(recipe.table, name=name))


@pytest.mark.parametrize("name", OURS)
def test_apache_hudi_reads_what_we_wrote(name: str, judge: Judge, tmp_path: Path) -> None:
    """T-Q07."""
    recipe = prepared(name)
    ours = peer_ours.Hoodie(table=recipe.table)
    case = build(name, recipe, judge, tmp_path / "case", ours)
    assert_everybody_reads_the_model(case)


@pytest.mark.parametrize("name", ["event_time", "cow", "pending_compaction", "rolled_back"])
def test_apache_hudi_reads_tables_with_a_chain(name: str, judge: Judge, tmp_path: Path) -> None:
    """Its readers see an ordinary timeline, and nothing of the chain."""
    recipe = prepared(name)
    ours = peer_ours.Hoodie(table=recipe.table, creation=["--no-foreign-writers"])
    case = build(name, recipe, judge, tmp_path / "case", ours)
    assert_everybody_reads_the_model(case)
    for stage in case.stages:
        mine = [
            (each["requested_time"], each["completion_time"], each["action"])
            for each in peer_ours.hoodie("timeline", stage.path)["instants"]
        ]
        theirs = [
            (each.requested_time, each.completion_time, each.action)
            for each in judge.timeline(stage.path)
        ]
        assert sorted(mine, key=str) == sorted(theirs, key=str)


@pytest.mark.parametrize(("name", "are_we_next"), IN_TURNS)
def test_table_written_in_turns_is_right_for_everybody(
    name: str, are_we_next: bool, judge: Judge, tmp_path: Path
) -> None:
    recipe = prepared(name)
    options = recipe.table.shared_options(filesystem_lock())
    maker = InTurns(
        ours=peer_ours.Hoodie(table=recipe.table),
        theirs=ApacheHudi(judge=judge, options=options),
        are_we_next=are_we_next,
    )
    case = build(name, recipe, judge, tmp_path / "case", maker)
    assert set(maker.names) == {"ours", "theirs"}
    assert_everybody_reads_the_model(case)


def test_copy_on_write_table_of_apache_hudi_is_written_by_us_and_by_it_again(
    judge: Judge, tmp_path: Path
) -> None:
    table = replace(RECIPES["cow"].table, name="theirs", partition_by=())
    options = table.write_options()
    path = tmp_path / "table"

    def rows(numbers: range, ts: int) -> pa.Table:
        return pa.Table.from_pylist([row(n, ts=ts) for n in numbers], SCHEMA)

    judge.write(path, rows(range(12), 1000), options)
    judge.write(path, rows(range(4), 2000), options)
    # Who else is to write the table has to say what Apache Hudi does not store.
    with (path / ".hoodie/hoodie.properties").open("a") as properties:
        properties.write("hoodie.bucket.index.num.buckets=2\n")
    (path / ".hoodie/.hoodie.properties.crc").unlink()
    groups = {each.name[:36] for each in path.glob("*.parquet")}
    ours = peer_ours.Hoodie(table=table, concurrency="single-writer")
    ours.write(path, rows(range(2, 14), 1500), "upsert")
    ours.write(path, rows(range(1), 0), "delete")
    newest = pa.concat_tables([rows(range(1, 4), 2000), rows(range(4, 14), 1500)])
    assert_same_rows(judge.read(path), newest, ["id"])
    assert_same_rows(peer_ours.read(path), newest, ["id"])
    judge.write(path, rows(range(14), 3000), options)
    judge.write(path, rows(range(5, 14), 0), options, operation="delete")
    assert_same_rows(judge.read(path), rows(range(5), 3000), ["id"])
    assert_same_rows(peer_ours.read(path), rows(range(5), 3000), ["id"])
    assert {each.name[:36] for each in path.glob("*.parquet")} == groups
    peer_ours.hoodie("check", path)


def test_increments_of_our_copy_on_write_commits_are_what_they_changed(
    judge: Judge, tmp_path: Path
) -> None:
    """Rows that stay keep their commit time; one that only fills a null gets that of its commit."""
    table = replace(RECIPES["cow_partial_event_time"].table, name="increments", buckets=1)
    ours = peer_ours.Hoodie(table=table)
    path = tmp_path / "table"

    def write(*rows: dict[str, object]) -> None:
        ours.write(path, pa.Table.from_pylist(list(rows), SCHEMA), "upsert")

    write(*(row(n, ts=1000, part="north", amount=None) for n in range(4)))
    begin = max(instant.completion_time or "" for instant in judge.timeline(path))
    write(
        row(0, ts=2000, part="north"),
        row(1, ts=500, part="north"),
        row(9, ts=1, part="north"),
    )
    found = judge.read(path, Query(type=QueryType.INCREMENTAL, begin=begin))
    filled = row(1, ts=1000, part="north", amount=row(1, ts=500)["amount"])
    expected = [row(0, ts=2000, part="north"), filled, row(9, ts=1, part="north")]
    assert_same_rows(found, pa.Table.from_pylist(expected, SCHEMA), ["id"])


def test_apache_hudi_lists_our_timeline_as_we_do(judge: Judge, tmp_path: Path) -> None:
    """T-Q08."""
    recipe = prepared("event_time")
    ours = peer_ours.Hoodie(table=recipe.table)
    case = build("event_time", recipe, judge, tmp_path / "case", ours)
    path = case.stages[-1].path
    theirs = [
        (instant.requested_time, instant.completion_time, instant.action)
        for instant in judge.timeline(path)
    ]
    shown = peer_ours.hoodie("timeline", path)["instants"]
    mine = [
        (instant["requested_time"], instant["completion_time"], instant["action"])
        for instant in shown
    ]
    assert sorted(mine) == sorted(theirs)
