"""Secondary indexes: a look-up of a value finds every row that has it."""

import json
import random
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import errors, table
from hoodie.filegroup import metadata_merging, metadata_table, secondary_index, snapshots
from hoodie.model import commits, table_config
from hoodie.read import planning, tasks, where
from hoodie.timeline import active, index_definitions
from hoodie.write import secondary_pairs, sessions
from support.parameters import covering
from support.tables.record_indexes import Row
from support.tables.secondary_indexed import PREFIX, SecondaryIndexed
from support.tables.tables import CONFIG

COPY_ON_WRITE = replace(CONFIG, table_type=table_config.TableType.COPY_ON_WRITE)
EVENT_TIME = replace(
    CONFIG,
    has_partial_updates=False,
    merge_mode=table_config.MergeMode.EVENT_TIME,
    ordering_fields=("a",),
)
SIMPLE = replace(CONFIG, index=table_config.IndexKind.SIMPLE, bucket_count=None)
KINDS = {
    "mor": CONFIG,
    "cow": COPY_ON_WRITE,
    "event-time": EVENT_TIME,
    "cow, event-time": replace(EVENT_TIME, table_type=table_config.TableType.COPY_ON_WRITE),
    "flat": replace(COPY_ON_WRITE, partition_fields=()),
    "chain": replace(CONFIG, chain=table_config.ChainName(id="c"), has_foreign_writers=False),
    "version-8": replace(CONFIG, version=table_config.VERSION_WITH_PAYLOADS),
    "simple, mor": SIMPLE,
    "global, cow": replace(
        COPY_ON_WRITE,
        index=table_config.IndexKind.GLOBAL_SIMPLE,
        bucket_count=None,
        has_partial_updates=False,
    ),
    "global, mor": replace(
        SIMPLE, index=table_config.IndexKind.GLOBAL_SIMPLE, has_partial_updates=False
    ),
}
KEYS = [str(number) for number in range(24)]


def alone(kind: str) -> table_config.TableConfig:
    """Return a kind of tables that no other engine writes: others ask no secondary index."""
    return replace(KINDS[kind], has_foreign_writers=False, chain=table_config.ChainName(id="c"))


VALUES = ["x", "a$b", "\\", "", "\0", "ü$\\", None]


def row(key: int | str, part: str | None = None, a: int | None = 0, b: str | None = "x") -> Row:
    place = part if part is not None else f"p{int(key) % 3}"
    return {"id": str(key), "part": place, "a": a, "b": b}


@pytest.mark.sample(len(KINDS))  # Ten seconds each.
@covering("kind, seed", list(KINDS), range(2))
def test_index_has_a_pair_of_every_row_and_no_other_through_a_random_history(
    tmp_path: Path, kind: str, seed: int
) -> None:
    indexed = SecondaryIndexed(tmp_path / "t", KINDS[kind])
    indexed.commits_max = 5
    chance = random.Random(seed)
    for number in range(18):
        change(indexed, chance)
        assert indexed.pairs() == indexed.pairs_of_rows(), number
        for column, values in (("b", VALUES[:-1]), ("a", [0, 3])):
            value = chance.choice(values)
            expected = [each for each in indexed.small.rows() if each[column] == value]
            condition = where.parse(f"{column} = {literal(value)}")
            assert indexed.small.rows(where=condition) == expected


@pytest.mark.parametrize("kind", ["cow", "flat", "global, cow", "cow, event-time"])
def test_write_of_base_files_reads_nothing_for_an_index(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexed = SecondaryIndexed(tmp_path / "t", KINDS[kind])

    def refuse(*_: object) -> None:
        raise AssertionError("the tasks have seen the rows")

    monkeypatch.setattr(secondary_pairs.held_keys, "all_rows", refuse)
    indexed.write([row(key, a=1) for key in range(9)])
    indexed.write([row(key, a=key, b="y") for key in range(4, 12)])
    indexed.delete([{**row(key), "a": 100} for key in (5, 11)])
    indexed.write([row(20)], operation=commits.Operation.INSERT)
    assert indexed.pairs() == indexed.pairs_of_rows()
    # What is retired has no task that would see it.
    monkeypatch.undo()
    indexed.write([row(30, part="p1")], operation=commits.Operation.INSERT_OVERWRITE)
    assert indexed.pairs() == indexed.pairs_of_rows()


UTC_MICROS = pa.timestamp("us", "UTC")
DAYS = [None, *(date(1969, 12, 30) + timedelta(days) for days in range(4))]
TIMES = [
    None,
    *(datetime(1969, 12, 31, 23, 59, 59, 999999, UTC) + timedelta(0, 0, n) for n in range(3)),
]


@pytest.mark.parametrize("kind", ["mor", "cow"])
def test_days_and_times_are_found_by_their_numbers(tmp_path: Path, kind: str) -> None:
    columns = {f"{PREFIX}of_day": "day", f"{PREFIX}of_at": "at"}
    types = {"day": pa.date32(), "at": UTC_MICROS}
    indexed = SecondaryIndexed(tmp_path / "t", alone(kind), columns, types)
    chance = random.Random(kind)
    for _ in range(4):
        indexed.write(
            [
                {**row(key), "day": chance.choice(DAYS), "at": chance.choice(TIMES)}
                for key in chance.sample(range(20), 8)
            ]
        )
    assert indexed.pairs() == indexed.pairs_of_rows()
    stored = {pair.partition("$")[0] for pairs in indexed.pairs().values() for pair in pairs}
    assert stored <= {"\0", "-2", "-1", "0", "1"}
    for column, values in (("day", DAYS[1:]), ("at", TIMES[1:])):
        for value in values:
            expected = [each for each in indexed.small.rows() if each[column] == value]
            text = f"{column} = '{value}'"
            assert indexed.small.rows(where=where.parse(text)) == expected
            if not expected:
                assert explained(indexed, text).left == 0
    both = where.parse("day in ('1969-12-30', '1970-01-01') and day = '1970-01-01'")
    assert {each["day"] for each in indexed.small.rows(where=both)} <= {date(1970, 1, 1)}


def test_value_that_is_none_of_the_column_is_refused_and_not_looked_up(tmp_path: Path) -> None:
    types = {"day": pa.date32()}
    indexed = SecondaryIndexed(tmp_path / "t", KINDS["cow"], {f"{PREFIX}of_day": "day"}, types)
    indexed.write([{**row(key), "day": DAYS[1 + key % 4]} for key in range(8)])
    with pytest.raises(errors.InvalidInputError, match="cannot be compared with 'monday'"):
        indexed.small.rows(where=where.parse("day = 'monday'"))


def change(indexed: SecondaryIndexed, chance: random.Random) -> None:
    """Change some rows in some way."""
    moves = indexed.config.has_global_index
    some = [
        row(
            key,
            part=f"p{chance.randint(0, 2)}" if moves else None,
            a=chance.randint(0, 5),
            b=chance.choice(VALUES),
        )
        for key in chance.sample(KEYS, chance.randint(1, 8))
    ]
    # What adds rows does not look keys up in other partitions.
    known = indexed.rows()
    fresh = [each for each in some if each["id"] not in known]
    step = chance.random()
    if step < 0.6:
        indexed.write(some)
    elif step < 0.65 and fresh:
        rows = fresh if moves else some
        indexed.write(rows, operation=commits.Operation.INSERT_OVERWRITE)
    elif step < 0.7 and fresh:
        indexed.write(fresh, operation=commits.Operation.INSERT)
    elif step < 0.9:
        columns = ["id", "part", "a"] if chance.random() < 0.5 else ["id", "part"]
        if not indexed.config.partition_fields:
            columns.remove("part")
        older = [{**each, "a": chance.randint(0, 5)} for each in some]
        indexed.delete([{name: each[name] for name in columns} for each in older])
    elif not indexed.config.is_copy_on_write:
        indexed.reopen()
        indexed.small.compact()


def literal(value: object) -> str:
    return str(value) if isinstance(value, int) else f"'{value}'"


def explained(indexed: SecondaryIndexed, text: str, **query: object) -> planning.Step:
    indexed.reopen()
    plan = indexed.small.table.explain_read(where=where.parse(text), **query)
    return plan.step(planning.Means.SECONDARY_INDEX)


@pytest.mark.parametrize("kind", ["cow", "version-8"])
def test_read_of_a_value_looks_into_the_file_groups_of_its_rows_alone(
    tmp_path: Path, kind: str
) -> None:
    indexed = SecondaryIndexed(tmp_path / "t", alone(kind))
    indexed.write([row(number, a=number, b=f"b{number // 2}") for number in range(12)])
    step = explained(indexed, "b = 'b1'")
    assert (step.considered > 3, step.left) == (True, 2)
    step = explained(indexed, "b in ('b1', 'nothing') and a = 2")
    assert step.left == 1
    assert explained(indexed, "a in (3, 4, 99)").left == 2
    assert explained(indexed, "b = 'nothing'").left == 0
    for text in ("b = 'b1' or a = 2", "b != 'b1'", "b is null", "a > 3"):
        assert explained(indexed, text).skipped == 0
    indexed.write([row(2, a=2, b="b9")])
    assert explained(indexed, "b = 'b1'").left == 1
    assert [each["id"] for each in indexed.small.rows(where=where.parse("b = 'b1'"))] == ["3"]


@pytest.mark.parametrize("kind", ["cow", "simple, mor"])
def test_index_of_a_table_that_other_engines_may_write_is_not_asked(
    tmp_path: Path, kind: str
) -> None:
    """Apache Hudi's bulk inserts may have left rows out of it."""
    indexed = SecondaryIndexed(tmp_path / "t", KINDS[kind])
    for number in range(6):
        indexed.write([row(number, part=f"p{number}")])
    step = explained(indexed, "b = 'nothing'")
    assert (step.considered, step.left) == (6, 6)
    assert "bulk inserts by rows" in str(step.unused)


def test_read_of_base_files_alone_does_not_ask_for_values_that_log_files_have_changed(
    tmp_path: Path,
) -> None:
    indexed = SecondaryIndexed(tmp_path / "t", KINDS["chain"])
    indexed.write([row(number, a=number, b="old") for number in range(6)])
    indexed.reopen()
    indexed.small.compact()
    indexed.write([row(number, a=number, b="new") for number in range(6)])
    step = explained(indexed, "b = 'old'", is_read_optimized=True)
    assert step.skipped == 0
    assert "base files alone" in str(step.unused)
    found = indexed.small.rows(where=where.parse("b = 'old'"), is_read_optimized=True)
    assert len(found) == 6
    assert explained(indexed, "b = 'old'").left == 0


def test_index_that_is_being_built_is_kept_up_and_not_read(tmp_path: Path) -> None:
    indexed = SecondaryIndexed(tmp_path / "t", KINDS["chain"])
    indexed.write([row(number, b=f"b{number}") for number in range(4)])
    ready = (f"{PREFIX}of_a", f"{PREFIX}of_b")
    config = replace(
        indexed.config,
        metadata_partitions=tuple(set(indexed.config.metadata_partitions) - set(ready)),
        metadata_partitions_inflight=ready,
    )
    opened = indexed.small.table
    plan = planning.plan(
        opened.uri,
        config,
        opened.schema,
        snapshots.take(indexed.storage, config, has_committed_only=True),
        tasks.Query(columns=("id",), where=where.parse("b = 'b1'")),
    )
    assert planning.Means.SECONDARY_INDEX not in {each.means for each in plan.steps}


def gathered(
    indexed: SecondaryIndexed,
    session: sessions.WriteSession,
    written: Sequence[commits.Written],
) -> secondary_pairs.Pairs:
    """Return what a write beside others that do not block it does to the indexes."""
    pairs = secondary_pairs.gathered(
        indexed.storage,
        indexed.config,
        indexed.small.table.schema,
        [each for each in written if isinstance(each, commits.WriteStat)],
        secondary_pairs.Write(requested_time=session.requested_time, is_alone=False),
    )
    assert pairs is not None
    return pairs


def test_row_that_moves_with_its_value_stays_in_the_index(tmp_path: Path) -> None:
    indexed = SecondaryIndexed(tmp_path / "t", KINDS["global, cow"])
    indexed.write([row(1, "p1", b="v"), row(2, "p1", b="w")])
    indexed.write([row(1, "p2", b="v")])
    assert indexed.pairs() == indexed.pairs_of_rows()
    assert indexed.pairs()["b"] == {"v$1", "w$2"}


def test_writes_that_do_not_block_each_other_leave_every_value_to_be_found(tmp_path: Path) -> None:
    """What the index has of a row then is more than its value; a look-up filters rows."""
    indexed = SecondaryIndexed(tmp_path / "t", replace(EVENT_TIME, has_partial_updates=False))
    indexed.write([row(1, a=1, b="first")])
    indexed.is_optimistic = False
    begun = [
        indexed.begin(["id", "part", "a", "b"], writer_id=name, acknowledges_order_dependence=True)
        for name in "abc"
    ]
    rows = [row(1, a=3, b="third"), row(1, a=2, b="second"), row(1, a=1, b="first")]
    for session, one in zip(begun, rows, strict=True):
        indexed.commit(session, [one])
    assert {"first$1", "second$1", "third$1"} <= indexed.pairs()["b"]
    late = indexed.begin(["id", "part", "a", "b"], writer_id="d")
    written = indexed.small.run_task(late, [row(1, a=9, b="ninth")])
    pairs = gathered(indexed, late, written)
    with closing(late._client), late._client.lock.scope() as scope:
        of_a, of_b = pairs.settle(scope, late._write)
    assert "ninth$1" in of_b.added.to_pylist()
    assert not len(of_a.removed)
    assert not len(of_b.removed)
    third = indexed.small.rows(where=where.parse("b = 'third'"))
    assert [each["id"] for each in third] == ["1"]
    assert not indexed.small.rows(where=where.parse("b = 'second'"))


def test_pair_that_would_lie_below_its_removal_is_a_conflict(tmp_path: Path) -> None:
    """Log order is that of requested times: the index would lose the value of the row."""
    indexed = SecondaryIndexed(tmp_path / "t", EVENT_TIME)
    indexed.write([row(1, a=1, b="v")])
    first, second = (indexed.begin(["id", "part", "a", "b"], writer_id=name) for name in "ab")
    written = indexed.small.run_task(first, [row(1, a=3, b="v")])
    # Other engines may have writers of another mode at the same time.
    pairs = gathered(indexed, first, written)
    indexed.commit(second, [row(1, a=2, b="w")])
    with (
        closing(first._client),
        first._client.lock.scope() as scope,
        pytest.raises(errors.WriteConflictError, match=r"keys '1', are those that a write took"),
    ):
        pairs.settle(scope, first._write)


def test_validation_names_rows_that_an_index_lacks(tmp_path: Path) -> None:
    indexed = SecondaryIndexed(tmp_path / "t", KINDS["cow"])
    indexed.write([row(1, b="x"), row(2, b="y")])
    indexed.reopen()
    right = indexed.small.table.validate_metadata()
    assert (right.is_right, right.pairs) == (True, ())
    definitions = json.loads(indexed.storage.read(index_definitions.PATH))
    definitions["indexDefinitions"][f"{PREFIX}of_b"]["sourceFields"] = ["part"]
    _, version = indexed.storage.fetch(index_definitions.PATH)
    indexed.storage.replace(
        index_definitions.PATH, json.dumps(definitions).encode(), if_match=version
    )
    wrong = indexed.small.table.validate_metadata()
    assert not wrong.is_right
    assert {each.index for each in wrong.pairs} == {f"{PREFIX}of_b"}
    assert "lacks the row of '1'" in " ".join(each.problem for each in wrong.pairs)


def test_each_file_group_is_asked_for_its_own_pairs_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexed = SecondaryIndexed(tmp_path / "t", KINDS["cow"])
    indexed.write([row(key, b=f"value {key}") for key in range(30)])
    (definition,) = (each for each in indexed.definitions if each.column == "b")
    timeline = active.listed(indexed.storage)
    mdt = metadata_table.MetadataTable(indexed.storage, timeline)
    wanted = pa.array(sorted(secondary_index.pairs(mdt, definition).to_pylist()))
    assert len(wanted) == 30
    newest, asked = metadata_merging.newest, list[int]()

    def counted(partition: metadata_table.Partition, keys: pa.Array | None = None) -> pa.Table:
        asked.append(0 if keys is None else len(keys))
        return newest(partition, keys)

    monkeypatch.setattr(metadata_merging, "newest", counted)
    assert sorted(secondary_index.held(mdt, definition, wanted).to_pylist()) == wanted.to_pylist()
    assert len(asked) == 3
    assert sum(asked) == len(wanted)


def test_index_without_definition_is_refused_with_the_way_out(tmp_path: Path) -> None:
    indexed = SecondaryIndexed(tmp_path / "t", alone("cow"))
    indexed.write([row(1)])
    index_definitions.remove(indexed.storage, [f"{PREFIX}of_b"])
    with pytest.raises(errors.FormatError, match=r"does not define secondary_index_of_b.*drop"):
        indexed.write([row(2)])
    found = [explained(indexed, text) for text in ("b = 'x'", "a = 0")]
    assert all("does not define" in str(each.unused) for each in found if each.considered > 1)


@pytest.mark.parametrize("column", ["c", "d"])
def test_index_of_a_column_that_is_not_kept_up_is_refused_with_the_way_out(
    tmp_path: Path, column: str
) -> None:
    indexed = SecondaryIndexed(tmp_path / "t", KINDS["cow"], types={"d": "float64"})
    definition = replace(indexed.definitions[0], column=column)
    index_definitions.put_of_columns(indexed.storage, lambda: [definition])
    before = active.listed(indexed.storage).instants
    with pytest.raises(errors.UnsupportedError, match=r"does not keep .*drop secondary_index_of_a"):
        indexed.write([row(1)])
    assert active.listed(indexed.storage).instants == before


def test_file_groups_that_are_missing_make_an_index_unreadable(tmp_path: Path) -> None:
    indexed = SecondaryIndexed(tmp_path / "t", KINDS["cow"])
    indexed.write([row(1)])
    definition = indexed.definitions[0]
    path = f".hoodie/metadata/{definition.partition}"
    for name in indexed.storage.names(path):
        if "-0000-0" in name:
            indexed.storage.delete(f"{path}/{name}")
    found = metadata_table.MetadataTable(indexed.storage, active.listed(indexed.storage))
    with pytest.raises(errors.FormatError, match="expected secondary-index-of-a-0000-0"):
        secondary_index.pairs(found, definition)


def test_table_that_is_opened_again_reads_by_an_index(tmp_path: Path) -> None:
    indexed = SecondaryIndexed(tmp_path / "t", alone("cow"))
    indexed.write([row(number, b=f"b{number}") for number in range(6)])
    opened = table.open_table(str(tmp_path / "t"), indexed.small.env)
    plan = opened.explain_read(where=where.parse("b = 'b3'"))
    assert plan.step(planning.Means.SECONDARY_INDEX).left == 1
