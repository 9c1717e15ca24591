"""Secondary indexes, made, kept up and used by Apache Hudi and by us in turn.

Apache Hudi makes one by SQL. What both add to it is compared pair by pair: two copies of a table
get the same writes, one by each engine.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from hoodie import environment
from hoodie.filegroup import metadata_table, secondary_index
from hoodie.timeline import active, index_definitions, table_properties
from support.peer import peer_indexes, peer_ours
from support.peer.judge import Judge, JudgeError, Query
from support.peer.peer_cases import BASE, SCHEMA, row
from support.peer.peer_listings import assert_same_files
from support.peer.peer_options import PeerTable
from support.peer.peer_rows import assert_same_rows

KEY = ["part", "id"]
LOCK = ("--lock", "filesystem")
INDEXED = {
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.compact.max.delta.commits": "6",
    "hoodie.index.type": "RECORD_INDEX",
    # Without it 1.2.0 fails where a task reads file groups for the index.
    "hoodie.embed.timeline.server": "true",
}
MADE = replace(
    BASE, name="values", metadata_table=True, buckets=None, merge_on_read=False, extra=INDEXED
)
TABLES = {
    "cow": MADE,
    "cow, without partitions": replace(MADE, partition_by=()),
    "mor": replace(MADE, merge_on_read=True),
    "mor, version 8": replace(MADE, merge_on_read=True, table_version=8),
}
SKIPPING = {"hoodie.enable.data.skipping": "true"}
NAMES = {"name": "secondary_index_of_name", "quantity": "secondary_index_of_quantity"}


def batch(numbers: Sequence[int], ts: int, **values: object) -> pa.Table:
    return pa.Table.from_pylist([row(each, ts=ts, **values) for each in numbers], SCHEMA)


FIRST = batch(range(12), 1, name="a$b\\")
CHANGES: Sequence[tuple[str, pa.Table]] = (
    ("upsert", batch(range(6, 15), 2, name="other")),
    ("upsert", batch([0, 1, 7], 3, name=None, quantity=None)),
    ("delete", batch([2, 8], 9)),
    # Older rows lose.
    ("upsert", batch([6, 7], 1, name="late")),
    ("upsert", batch([2, 3], 10, name="")),
    ("upsert", batch(range(15, 18), 11)),
)


def names_of(made: PeerTable) -> set[str]:
    """Return the indexes of a table.

    Of several indexes of a merge-on-read table Apache Hudi 1.2.0 keeps one up: when it appends to
    a file group with log files, it compares the rows for the next with what it has just written.
    """
    return {NAMES["name"]} if made.merge_on_read else set(NAMES.values())


def by_metadata(where: str) -> Query:
    return Query(use_metadata_table=True, where=where, options=SKIPPING)


def indexed_by_sql(judge: Judge, path: Path, made: PeerTable) -> None:
    """Have Apache Hudi make a table and its secondary indexes."""
    judge.write(path, FIRST, made.write_options())
    columns = [name.removeprefix("secondary_index_of_") for name in names_of(made)]
    peer_indexes.create(judge, path, {f"of_{column}": f"({column})" for column in columns})
    index = "simple" if made.buckets is None else "bucket"
    peer_ours.hoodie("adopt", path, "--index", index, *LOCK)


def pairs(path: Path) -> Mapping[str, Mapping[str, int]]:
    """Return the pairs of each secondary index with the numbers of their file groups."""
    env = environment.system(parallelism=1)
    storage = env.open_storage(str(path))
    config = table_properties.load(storage, env.clock)
    found: dict[str, Mapping[str, int]] = {}
    table = metadata_table.MetadataTable(storage, active.listed(storage))
    for each in index_definitions.of_secondary_indexes(storage, config, config.metadata_partitions):
        slices = secondary_index.checked_slices(table, each)
        found[each.partition] = {
            pair: number
            for number, one in enumerate(slices)
            for pair in secondary_index.pairs_in(table, [one]).to_pylist()
        }
    return found


@pytest.mark.sample(0)  # A minute each, or more.
@pytest.mark.parametrize("kind", TABLES)
def test_both_engines_add_the_same_pairs_to_the_same_file_groups(
    kind: str, judge: Judge, tmp_path: Path
) -> None:
    made = TABLES[kind]
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    indexed_by_sql(judge, theirs, made)
    shutil.copytree(theirs, ours)
    maker = peer_ours.Hoodie(table=made, concurrency="occ", orders_deletes=True)
    assert set(pairs(theirs)) == names_of(made)
    for operation, rows in CHANGES:
        judge.write(theirs, rows, made.write_options(), operation=operation)
        maker.write(ours, rows, operation)
        assert_same_rows(judge.read(ours), judge.read(theirs), KEY)
        assert pairs(ours) == pairs(theirs), (operation, rows.to_pylist())
    validated = peer_ours.hoodie("metadata", "validate", ours)
    assert [validated[name] for name in ("differences", "keys", "pairs")] == [[], [], []]


@pytest.mark.sample(0)  # A minute each, or more.
@pytest.mark.parametrize("kind", TABLES)
def test_each_engine_finds_by_an_index_what_the_other_has_written(
    kind: str, judge: Judge, tmp_path: Path
) -> None:
    made = TABLES[kind]
    path = tmp_path / "table"
    indexed_by_sql(judge, path, made)
    ours = peer_ours.Hoodie(table=made, concurrency="occ", orders_deletes=True)
    for turn, (operation, rows) in enumerate(CHANGES):
        if turn % 2:
            judge.write(path, rows, made.write_options(), operation=operation)
        else:
            ours.write(path, rows, operation)
        check_look_ups(judge, path)
    if made.merge_on_read:
        plan = ours.schedule_compaction(path)
        assert plan is not None
        ours.execute_compaction(path, plan)
        check_look_ups(judge, path)
        judge.write(path, batch(range(4), 20), made.write_options())
        judge.compact(path, made.write_options())
        check_look_ups(judge, path)
    ours.write(path, batch(range(3), 21), "upsert")
    newest = judge.timeline(path)[-1].requested_time
    # It takes no commit back that a compaction of the metadata table has, which it plans before.
    rarely = {"hoodie.metadata.compact.max.delta.commits": "100"}
    judge.rollback(path, newest, made.write_options() | rarely)
    check_look_ups(judge, path)
    assert_same_files(path)


def check_look_ups(judge: Judge, path: Path) -> None:
    """Compare what is found by indexes with full scans of Apache Hudi."""
    for where in (
        "name = 'other'",
        "name = 'a$b\\\\'",
        "name IN ('late', 'other', 'none') AND quantity > 60",
        "quantity = 62",
        "name = ''",
    ):
        expected = judge.read(path, Query(where=where))
        assert_same_rows(judge.read(path, by_metadata(where)), expected, KEY)
        ours = where.replace("\\\\", "\\")
        assert_same_rows(peer_ours.read(path, "--where", ours), expected, KEY)
    validated = peer_ours.hoodie("metadata", "validate", path)
    assert [validated[name] for name in ("differences", "keys", "pairs")] == [[], [], []]


@pytest.mark.parametrize("is_by_rows", [True, False])
def test_bulk_inserts_of_apache_hudi_add_pairs_unless_they_are_by_rows(
    judge: Judge, tmp_path: Path, *, is_by_rows: bool
) -> None:
    """By rows is its default; our options for its writers say no, and our reads do not ask."""
    path = tmp_path / "table"
    indexed_by_sql(judge, path, MADE)
    options = peer_ours.hoodie("describe", path, "--spark-options", *LOCK)["options"]
    if is_by_rows:
        del options["hoodie.datasource.write.row.writer.enable"]
    judge.write(path, batch(range(20, 26), 2, name="other"), options, operation="bulk_insert")
    if not is_by_rows:
        check_look_ups(judge, path)
        return
    found = judge.read(path, Query(where="name = 'other'"))
    assert found.num_rows
    assert not judge.read(path, by_metadata("name = 'other'")).num_rows
    assert_same_rows(peer_ours.read(path, "--where", "name = 'other'"), found, KEY)
    with pytest.raises(peer_ours.CommandFailedError, match="ended with 1"):
        peer_ours.hoodie("metadata", "validate", path)


def test_apache_hudi_leaves_files_out_by_an_index_that_we_kept_up(
    judge: Judge, tmp_path: Path
) -> None:
    """It does not open what has no row of the value: such a file may be broken."""
    path = tmp_path / "table"
    indexed_by_sql(judge, path, MADE)
    peer_ours.Hoodie(table=MADE, concurrency="occ").write(
        path, batch([3, 6], 2, name="changed"), "upsert"
    )
    assert_left_out(judge, path, "changed", 2)


def assert_left_out(judge: Judge, path: Path, name: str, count: int) -> None:
    where = f"name = '{name}'"
    found = judge.read(path, by_metadata(where))
    assert found.num_rows == count
    broken = [
        each
        for each in path.glob("*/*.parquet")
        if name not in pq.read_table(each, columns=["name"]).column("name").to_pylist()
    ]
    assert broken
    for each in broken:
        each.write_bytes(b"broken")
        each.with_name(f".{each.name}.crc").unlink(missing_ok=True)
    assert_same_rows(judge.read(path, by_metadata(where)), found, KEY)
    assert_same_rows(peer_ours.read(path, "--where", where), found, KEY)
    with pytest.raises(JudgeError):
        judge.read(path, Query(where=where))


DATED = pa.schema(
    [
        ("id", pa.string()),
        ("part", pa.string()),
        ("ts", pa.int64()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
TYPES = [(kind, column) for kind in ("cow", "mor", "mor, version 8") for column in ("day", "at")]


def dated(numbers: Sequence[int], ts: int, shift: int | None) -> pa.Table:
    """Return rows with days and times, before 1970, too; null without a shift."""
    rows = [
        {
            "id": f"k{number}",
            "part": f"p{number % 2}",
            "ts": ts,
            "day": None if shift is None else date(1969, 12, 30) + timedelta(number + shift),
            "at": None
            if shift is None
            else datetime(1969, 12, 31, 23, 59, 59, 123456, UTC) + timedelta(number + shift, 0, 7),
        }
        for number in numbers
    ]
    return pa.Table.from_pylist(rows, DATED)


@pytest.mark.parametrize(("kind", "column"), TYPES)
def test_both_engines_find_days_and_times_by_an_index_of_either(
    kind: str, column: str, judge: Judge, tmp_path: Path
) -> None:
    made = replace(TABLES[kind], name="dated")
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    judge.write(theirs, dated(range(8), 1, 0), made.write_options())
    judge.write(theirs, dated(range(3, 6), 2, 4), made.write_options())
    shutil.copytree(theirs, ours)
    peer_indexes.create(judge, theirs, {"of_it": f"({column})"})
    for path in (theirs, ours):
        peer_ours.hoodie("adopt", path, "--index", "simple", *LOCK)
    # Built beside other engines, as far as anything shows.
    named = ("--secondary", "of_it", "--column", column)
    peer_ours.hoodie("index", "build", ours, *named, *LOCK)
    assert pairs(ours) == pairs(theirs)
    maker = peer_ours.Hoodie(table=made, concurrency="occ", orders_deletes=True)
    for turn, rows in enumerate((dated([1, 4, 9], 3, 6), dated([2, 5], 4, None), dated([0], 5, 9))):
        for path, is_ours in ((theirs, turn % 2 == 0), (ours, turn % 2 == 1)):
            if is_ours:
                maker.write(path, rows, "upsert")
            else:
                judge.write(path, rows, options_of(made), operation="upsert")
        assert pairs(ours) == pairs(theirs)
        there = judge.read(theirs).column(column).drop_null().unique().to_pylist()
        for value in there[::3]:
            text = value.isoformat() if column == "day" else f"{value:%Y-%m-%d %H:%M:%S.%f}"
            where = f"{column} = {'DATE' if column == 'day' else 'TIMESTAMP'} '{text}'"
            expected = judge.read(theirs, Query(where=where))
            assert expected.num_rows
            for path in (theirs, ours):
                assert_same_rows(judge.read(path, by_metadata(where)), expected, KEY)
                plan = peer_ours.read(path, "--where", f"{column} = '{text}'")
                assert_same_rows(plan, expected, KEY)
    validated = peer_ours.hoodie("metadata", "validate", ours)
    assert [validated[name] for name in ("differences", "keys", "pairs")] == [[], [], []]


@pytest.mark.parametrize("kind", ["double", "float"])
def test_fractions_have_texts_of_a_jvm_and_their_indexes_are_not_kept_up(
    kind: str, judge: Judge, tmp_path: Path
) -> None:
    path = tmp_path / "table"
    values = pa.array([0.5, 1e10 / 3], pa.float64() if kind == "double" else pa.float32())
    rows = dated(range(2), 1, 0).append_column("price", values)
    judge.write(path, rows, MADE.write_options())
    peer_indexes.create(judge, path, {"of_it": "(price)"})
    peer_ours.hoodie("adopt", path, "--index", "simple", *LOCK)
    (stored,) = pairs(path).values()
    exact = {"double": "3.3333333333333335E9$k1", "float": "3.33333325E9$k1"}
    assert set(stored) == {"0.5$k0", exact[kind]}
    ours = peer_ours.Hoodie(table=MADE, concurrency="occ")
    with pytest.raises(peer_ours.CommandFailedError, match="expected a column of texts, integers"):
        ours.write(path, rows.slice(0, 1), "upsert")
    assert_same_rows(peer_ours.read(path, "--where", "price = 0.5"), rows.slice(0, 1), KEY)


UNNAMED = {key: value for key, value in INDEXED.items() if key != "hoodie.index.type"}
BUILT = {
    "cow": replace(MADE, extra=UNNAMED),
    "mor": replace(MADE, merge_on_read=True, extra=UNNAMED),
    "cow, version 8": replace(MADE, table_version=8, extra=UNNAMED),
}


def build(path: Path, made: PeerTable) -> None:
    """Have this project build a record index, and secondary ones."""
    peer_ours.hoodie("index", "build", path, "record_index", *LOCK)
    for name in sorted(names_of(made)):
        column = name.removeprefix("secondary_index_of_")
        named = ("--secondary", f"of_{column}", "--column", column)
        peer_ours.hoodie("index", "build", path, *named, *LOCK)


def options_of(made: PeerTable) -> dict[str, str]:
    """Return the options of a writer of Apache Hudi that makes no other index, and keeps these."""
    names = [f"hoodie.metadata.index.{name}.stats.enable" for name in ("column", "partition")]
    options = made.write_options() | dict.fromkeys(names, "false")
    return options | {"hoodie.index.type": "RECORD_INDEX"}


@pytest.mark.parametrize("kind", BUILT)
def test_apache_hudi_uses_an_index_that_we_built_and_keeps_it_up(
    kind: str, judge: Judge, tmp_path: Path
) -> None:
    made = BUILT[kind]
    path = tmp_path / "table"
    ours = peer_ours.Hoodie(table=made, concurrency="occ", orders_deletes=True)
    peer_ours.create(path, made, SCHEMA)
    peer_ours.hoodie("configure", path, "--no-foreign-writers", *LOCK)
    ours.write(path, FIRST, "upsert")
    peer_ours.hoodie("metadata", "init", path, "--files-only", *LOCK)
    build(path, made)
    ours.write(path, CHANGES[0][1], "upsert")
    check_look_ups(judge, path)
    peer_ours.hoodie("configure", path, "--foreign-writers", *LOCK)
    write_in_turns(judge, path, made, CHANGES[1:])


@pytest.mark.parametrize("kind", BUILT)
def test_apache_hudi_keeps_an_index_up_that_we_built_beside_it(
    kind: str, judge: Judge, tmp_path: Path
) -> None:
    """Nothing is said of writers: some of theirs wrote before, and go on."""
    made = BUILT[kind]
    path = tmp_path / "table"
    ours = peer_ours.Hoodie(table=made, concurrency="occ", orders_deletes=True)
    peer_ours.create(path, made, SCHEMA)
    ours.write(path, FIRST, "upsert")
    peer_ours.hoodie("metadata", "init", path, "--files-only", *LOCK)
    without = {key: "false" for key in UNNAMED if key.endswith(".enable")}
    judge.write(path, CHANGES[0][1], options_of(made) | {"hoodie.index.type": "SIMPLE"} | without)
    build(path, made)
    assert set(pairs(path)) == names_of(made)
    check_look_ups(judge, path)
    write_in_turns(judge, path, made, CHANGES[1:])


def write_in_turns(
    judge: Judge, path: Path, made: PeerTable, changes: Sequence[tuple[str, pa.Table]]
) -> None:
    """Have both engines write, and look values up after each write."""
    ours = peer_ours.Hoodie(table=made, concurrency="occ", orders_deletes=True)
    for turn, (operation, rows) in enumerate(changes):
        if turn % 2:
            ours.write(path, rows, operation)
        else:
            judge.write(path, rows, options_of(made), operation=operation)
        assert set(pairs(path)) == names_of(made)
        check_look_ups(judge, path)
