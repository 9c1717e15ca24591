"""Expression indexes, made, kept up and used by Apache Hudi and by us in turn.

Apache Hudi makes one by SQL. What we keep up is compared, file by file, with what it makes of the
same files when it drops the index and makes it again.
"""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from hoodie import environment
from hoodie.model import spark_functions
from hoodie.timeline import index_definitions, table_properties
from support.peer import peer_indexes, peer_ours
from support.peer.judge import Judge, JudgeError, Query
from support.peer.peer_cases import BASE, SCHEMA, row
from support.peer.peer_options import PeerTable
from support.peer.peer_rows import assert_same_rows
from support.tables.expression_indexed import Entries, entries

KEY = ["part", "id"]
LOCK = ("--lock", "filesystem")
EXPRESSIONS = {
    "hoodie.metadata.index.expression.enable": "true",
    "hoodie.metadata.compact.max.delta.commits": "6",
    # Without it 1.2.0 fails where a task reads the metadata table for the index.
    "hoodie.embed.timeline.server": "true",
}
MADE = replace(
    BASE, name="made", metadata_table=True, buckets=None, merge_on_read=False, extra=EXPRESSIONS
)
TABLES = {
    "cow": MADE,
    "cow, without partitions": replace(MADE, partition_by=()),
    "mor": replace(MADE, merge_on_read=True),
    "mor, version 8": replace(MADE, merge_on_read=True, table_version=8),
}
DAY = pa.field("day", pa.date32())
# Of two indexes of one column Apache Hudi 1.2.0 takes either for filters on both functions, and
# fails where they make different types.
MADE_BY_SQL = {
    "lower_name": "USING column_stats(name) OPTIONS(expr='lower')",
    "tens": "USING column_stats(id) OPTIONS(expr='substring', pos='6', len='1')",
    "year_of_day": "USING column_stats(day) OPTIONS(expr='year')",
}
CALLS = {
    "expr_index_lower_name": "lower(name)",
    "expr_index_tens": "substring(id, 6, 1)",
    "expr_index_year_of_day": "year(day)",
}
BY_INDEX = {"hoodie.enable.data.skipping": "true"}


def batch(numbers: Sequence[int], ts: int, **values: object) -> pa.Table:
    rows = [
        {"day": datetime.date(2000 + (each + ts) % 30, 1, 1 + each % 28), **row(each, ts=ts)}
        | {"name": f"{('Name', 'ÄPFEL', 'zzz')[each % 3]} {each} of {ts}"}
        | values
        for each in numbers
    ]
    return pa.Table.from_pylist(rows, SCHEMA.append(DAY))


FIRST = batch(range(12), 1)
CHANGES: Sequence[tuple[str, pa.Table]] = (
    ("upsert", batch(range(6, 15), 2)),
    ("upsert", batch([0, 1, 7], 3, name=None)),
    ("delete", batch([2, 8], 9)),
    ("upsert", batch([6, 7], 1, name="Late")),
    ("upsert", batch(range(15, 18), 11, name="STRASSE")),
)


def by_index(where: str) -> Query:
    return Query(use_metadata_table=True, where=where, options=BY_INDEX)


def indexed_by_sql(judge: Judge, path: Path, made: PeerTable) -> None:
    """Have Apache Hudi make a table and its expression indexes."""
    judge.write(path, FIRST, made.write_options())
    peer_indexes.create(judge, path, {each: MADE_BY_SQL[each] for each in indexes_of(made)})
    peer_ours.hoodie("adopt", path, "--index", "simple", *LOCK)


def indexes_of(made: PeerTable) -> list[str]:
    """Return the indexes of a table, by the names that SQL gives them.

    In tables of version 8 Apache Hudi 1.2.0 fails to read numbers that are made of dates: it takes
    them for dates.
    """
    is_old = made.table_version == 8
    return [each for each in MADE_BY_SQL if not (is_old and each == "year_of_day")]


def kept(path: Path, made: PeerTable) -> Mapping[str, Entries]:
    storage = environment.system(parallelism=1).open_storage(str(path))
    names = [f"expr_index_{each}" for each in indexes_of(made)]
    return {name: entries(storage, name) for name in names}


def check_look_ups(judge: Judge, path: Path) -> None:
    """Compare what is found by indexes with full scans of Apache Hudi."""
    for where in (
        "lower(name) = 'äpfel 4 of 1'",
        "lower(name) IN ('name 3 of 1', 'late', 'zzz 14 of 2')",
        "substring(id, 6, 1) = '1'",
        "year(day) = 2005",
    ):
        expected = judge.read(path, Query(where=where))
        assert_same_rows(judge.read(path, by_index(where)), expected, KEY)
    validated = peer_ours.hoodie("metadata", "validate", path)
    assert [validated[name] for name in ("differences", "statistics")] == [[], []]


@pytest.mark.sample(0)  # A minute each.
@pytest.mark.parametrize("kind", TABLES)
def test_what_we_keep_up_is_what_apache_hudi_makes_of_the_same_files(
    kind: str, judge: Judge, tmp_path: Path
) -> None:
    made = TABLES[kind]
    path = tmp_path / "table"
    indexed_by_sql(judge, path, made)
    ours = peer_ours.Hoodie(table=made, concurrency="occ", orders_deletes=True)
    for operation, rows in CHANGES:
        ours.write(path, rows, operation)
    check_look_ups(judge, path)
    found = kept(path, made)
    wanted = {index: MADE_BY_SQL[index] for index in indexes_of(made)}
    peer_indexes.drop(judge, path, wanted)
    peer_indexes.create(judge, path, wanted)
    for name, right in kept(path, made).items():
        assert right.of_files
        wrong = found[name].lacking(right)
        assert not wrong, (name, [(right.of_files.get(each), found[name]) for each in wrong])


@pytest.mark.sample(0)  # A minute each.
@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("maker", ["theirs", "ours"])
def test_each_engine_keeps_up_and_uses_an_index_beside_the_other(
    kind: str, maker: str, judge: Judge, tmp_path: Path
) -> None:
    made = TABLES[kind]
    path = tmp_path / "table"
    ours = peer_ours.Hoodie(table=made, concurrency="occ", orders_deletes=True)
    if maker == "theirs":
        indexed_by_sql(judge, path, made)
    else:
        judge.write(path, FIRST, made.write_options())
        peer_ours.hoodie("adopt", path, "--index", "simple", *LOCK)
        for index in indexes_of(made):
            call = CALLS[f"expr_index_{index}"]
            build = ("index", "build", path, "--expression", index, "--column", call)
            peer_ours.hoodie(*build, *LOCK)
    check_look_ups(judge, path)
    for turn, (operation, rows) in enumerate(CHANGES):
        if turn % 2:
            ours.write(path, rows, operation)
        else:
            judge.write(path, rows, made.write_options(), operation=operation)
        check_look_ups(judge, path)
    if made.merge_on_read:
        plan = ours.schedule_compaction(path)
        assert plan is not None
        ours.execute_compaction(path, plan)
        check_look_ups(judge, path)
        judge.write(path, batch(range(4), 20), made.write_options())
        judge.compact(path, made.write_options())
        check_look_ups(judge, path)


def test_apache_hudi_leaves_files_out_by_an_index_that_we_built_and_kept_up(
    judge: Judge, tmp_path: Path
) -> None:
    """It does not open what has no row of the value: such a file may be broken."""
    path = tmp_path / "table"
    judge.write(path, FIRST, MADE.write_options())
    peer_ours.hoodie("adopt", path, "--index", "simple", *LOCK)
    build = ("index", "build", path, "--expression", "lower_name", "--column", "lower(name)")
    peer_ours.hoodie(*build, *LOCK)
    ours = peer_ours.Hoodie(table=MADE, concurrency="occ")
    ours.write(path, batch([3], 2, name="CHANGED"), "upsert")
    where = "lower(name) = 'changed'"
    found = judge.read(path, by_index(where))
    assert found.num_rows == 1
    with broken(path, "CHANGED"):
        assert_same_rows(judge.read(path, by_index(where)), found, KEY)
        with pytest.raises(JudgeError):
            judge.read(path, Query(where=where))


@contextmanager
def broken(path: Path, name: str) -> Iterator[None]:
    """Break the base files that have no row of a name."""
    others = [
        each
        for each in path.glob("*/*.parquet")
        if name not in pq.read_table(each, columns=["name"]).column("name").to_pylist()
    ]
    assert others
    for each in others:
        each.write_bytes(b"broken")
        each.with_name(f".{each.name}.crc").unlink(missing_ok=True)
    yield


def test_index_of_times_is_right_in_a_session_of_any_zone(judge: Judge, tmp_path: Path) -> None:
    path = tmp_path / "table"
    judge.write(path, batch(range(6), 1), MADE.write_options())
    peer_indexes.create(judge, path, {"by_day": peer_indexes.BY_DAY})
    peer_ours.hoodie("adopt", path, "--index", "simple", *LOCK)
    ours = peer_ours.Hoodie(table=MADE, concurrency="occ")
    ours.write(path, batch(range(6, 15), 86_400 * 9 + 3600), "upsert")
    ours.write(path, batch(range(15, 18), 86_400 * 30), "upsert")
    for zone in ("UTC", "America/Los_Angeles", "Pacific/Kiritimati"):
        judge.execute(f"SET spark.sql.session.timeZone={zone}")
        for day in ("1970-01-01", "1970-01-09", "1970-01-10", "1970-01-30", "1970-01-31"):
            where = f"from_unixtime(ts, 'yyyy-MM-dd') = '{day}'"
            expected = judge.read(path, Query(where=where))
            assert_same_rows(judge.read(path, by_index(where)), expected, KEY)
    judge.execute("RESET spark.sql.session.timeZone")
    judge.write(path, batch(range(3), 86_400 * 9), MADE.write_options())
    where = "from_unixtime(ts, 'yyyy-MM-dd') = '1970-01-10'"
    assert judge.read(path, by_index(where)).num_rows == 12


def test_index_of_bloom_filters_is_used_beside_files_that_we_wrote(
    judge: Judge, tmp_path: Path
) -> None:
    path = tmp_path / "table"
    judge.write(path, FIRST, MADE.write_options())
    peer_indexes.create(judge, path, {"filters": "USING bloom_filters(name) OPTIONS(expr='upper')"})
    peer_ours.hoodie("adopt", path, "--index", "simple", *LOCK)
    ours = peer_ours.Hoodie(table=MADE, concurrency="occ")
    ours.write(path, batch(range(6, 15), 2), "upsert")
    judge.write(path, batch(range(15, 18), 3), MADE.write_options())
    for where in ("upper(name) = 'ZZZ 14 OF 2'", "upper(name) = 'NAME 0 OF 1'"):
        found = judge.read(path, by_index(where))
        assert_same_rows(found, judge.read(path, Query(where=where)), KEY)
        assert found.num_rows == 1


def test_index_of_another_function_is_refused_by_name_until_it_is_dropped(
    judge: Judge, tmp_path: Path
) -> None:
    path = tmp_path / "table"
    judge.write(path, FIRST, MADE.write_options())
    what = "USING column_stats(name) OPTIONS(expr='regexp_replace', pattern='a', replacement='b')"
    peer_indexes.create(judge, path, {"replaced": what})
    adopt = ("adopt", path, "--index", "simple", *LOCK)
    with pytest.raises(peer_ours.CommandFailedError, match="index drop TABLE expr_index_replaced"):
        peer_ours.hoodie(*adopt)
    dropped = peer_ours.hoodie("index", "drop", path, "expr_index_replaced", *LOCK)
    assert dropped["dropped"] == ["expr_index_replaced"]
    peer_ours.hoodie(*adopt)
    peer_ours.Hoodie(table=MADE, concurrency="occ").write(path, batch(range(6), 2), "upsert")


def test_functions_are_those_of_spark(judge: Judge, tmp_path: Path) -> None:
    """Of each character, between letters and alone, and of dates."""
    surrogates = range(0xD800, 0xE000)
    codes = [code for code in range(1, 0x110000) if code not in surrogates]
    texts = [f"a{chr(code)}b" for code in codes] + ["", "  a ", "xax", "\t", "Äpfel 🍏", "ΑΣ"]
    check_functions(judge, tmp_path / "texts.parquet", pa.array(texts), TEXT_CALLS)
    days = pa.array(range(-700_000, 800_000, 97), pa.int32()).cast(pa.date32())
    # Dates before 1582 are in Arrow's files as in its own.
    for way in ("Read", "Write"):
        judge.execute(f"SET spark.sql.parquet.datetimeRebaseModeIn{way}=CORRECTED")
    check_functions(judge, tmp_path / "days.parquet", days, DAY_CALLS)


TEXT_CALLS = (
    "lower(c)",
    "upper(c)",
    "trim(c)",
    "ltrim(c)",
    "rtrim(c)",
    "length(c)",
    "substring(c, 2, 1)",
    "substring(c, -2, 5)",
    "substring(c, 0, 2)",
)
DAY_CALLS = ("year(c)", "month(c)", "day(c)", "date_add(c, 40)", "date_sub(c, 40)")


def check_functions(judge: Judge, path: Path, values: pa.Array, calls: Sequence[str]) -> None:
    pq.write_table(pa.table({"n": range(len(values)), "c": values}), path)
    named = ", ".join(f"{call} AS v{number}" for number, call in enumerate(calls))
    found = judge.sql(f"SELECT n, {named} FROM parquet.`{path}`", timeout_s=400).sort_by("n")
    for number, call in enumerate(calls):
        _, function = spark_functions.call_of(call)
        theirs = found.column(f"v{number}").to_pylist()
        ours = function.values(values).to_pylist()
        for value, one, other in zip(values.to_pylist(), ours, theirs, strict=True):
            if one != other:
                low, high = function.bounds(pa.chunked_array([pa.array([value])])) or ("", "")
                assert low <= other <= high, (call, value, one, other)
                assert not function.is_certain(one), (call, value, one, other)
                assert not function.is_certain(other), (call, value, one, other)


def test_definitions_are_read_and_written_alike(judge: Judge, tmp_path: Path) -> None:
    path = tmp_path / "table"
    indexed_by_sql(judge, path, MADE)
    env = environment.system(parallelism=1)
    storage = env.open_storage(str(path))
    config = table_properties.load(storage, env.clock)
    found = index_definitions.of_expressions(storage, config, config.metadata_partitions)
    assert {each.partition: str(each) for each in found} == CALLS
    stored = index_definitions._read(storage)
    for each in found:
        ours = index_definitions._fields_of(each)
        theirs = stored[each.partition]
        assert isinstance(theirs, dict)
        assert {key: theirs[key] for key in ours} == ours


def test_apache_hudi_takes_an_index_for_filters_on_another_function(
    judge: Judge, tmp_path: Path
) -> None:
    """An error of its own, without our writers: `docs/limits.md` warns of it."""
    path = tmp_path / "table"
    judge.write(path, FIRST, MADE.write_options())
    peer_indexes.create(judge, path, {"lower_name": MADE_BY_SQL["lower_name"]})
    where = "upper(name) = 'ZZZ 2 OF 1'"
    assert judge.read(path, Query(where=where)).num_rows == 1
    assert judge.read(path, by_index(where)).num_rows == 0
    assert peer_ours.read(path, "--where", where).num_rows == 1
