"""Secondary indexes that are built beside writers, and dropped."""

import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import errors, table
from hoodie.metadata import index_dropping
from hoodie.model import commits, secondary_indexes, table_config
from hoodie.model.key_changes import RECORD_INDEX
from hoodie.read import planning, where
from hoodie.timeline import index_definitions
from support.tables.record_indexes import Row
from support.tables.secondary_indexed import OF_B, PairsBuilding
from support.tables.tables import CONFIG

CHAINED = replace(CONFIG, chain=table_config.ChainName(id="c"), has_foreign_writers=False)
KINDS = {
    "mor": CHAINED,
    "cow": replace(CHAINED, table_type=table_config.TableType.COPY_ON_WRITE),
    "version-8": replace(CHAINED, version=table_config.VERSION_WITH_PAYLOADS),
}


def row(key: int, b: str | None = "x", a: int = 0) -> Row:
    return {"id": str(key), "part": f"p{key % 3}", "a": a, "b": b}


class Building(PairsBuilding):
    """A table whose secondary index of `b` is built."""

    def __init__(self, path: Path, kind: str = "mor") -> None:
        super().__init__(path, KINDS[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_index_that_is_built_beside_writes_has_a_pair_of_every_row(
    tmp_path: Path, kind: str
) -> None:
    indexed = Building(tmp_path / "t", kind)
    indexed.write([row(number, f"b{number}") for number in range(12)])
    indexed.delete([{"id": "3", "part": "p0"}])
    left = [
        lambda: indexed.write([row(4, "other"), row(20, None)]),
        lambda: indexed.delete([{"id": "5", "part": "p2"}]),
        lambda: indexed.write([row(4, "another"), row(6, "b7")]),
    ]

    def hear(what: str) -> None:
        assert not indexed.defined(), what
        if left:
            left.pop(0)()

    done = indexed.build(hear)
    assert (done.built, left) == ((OF_B,), [])
    assert indexed.pairs() == indexed.pairs_of_rows()
    assert indexed.defined()[OF_B] == {
        "indexName": OF_B,
        "indexType": "secondary_index",
        "indexFunction": "identity",
        "sourceFields": ["b"],
        "indexOptions": {},
        "version": "V1" if kind == "version-8" else "V2",
    }
    indexed.write([row(7, "late"), row(4, "b4")])
    assert indexed.pairs() == indexed.pairs_of_rows()
    assert [each["id"] for each in indexed.small.rows(where=where.parse("b = 'late'"))] == ["7"]
    assert indexed.build().built == ()


def test_write_that_began_before_a_build_and_ends_after_it_is_in_the_index(tmp_path: Path) -> None:
    indexed = Building(tmp_path / "t")
    indexed.write([row(1, "old"), row(2, "y")])
    session = indexed.begin(["id", "part", "b"])
    indexed.build()
    indexed.commit(session, [{"id": "1", "part": "p1", "b": "new"}])
    assert indexed.pairs() == indexed.pairs_of_rows() == {"new$1", "y$2"}


def test_index_of_a_column_that_was_added_since_a_write_began_has_no_value_of_its_rows(
    tmp_path: Path,
) -> None:
    indexed = Building(tmp_path / "t", "cow")
    indexed.write([row(1, "old")])
    session = indexed.begin(["id", "part", "b"])
    indexed.reopen()
    wider = indexed.small.data([row(2)]).append_column("c", pa.array(["new"]))
    indexed.small.table.write(wider, indexed.options(writer_id="wider", adds_columns=True))
    indexed.build(column="c")
    indexed.commit(session, [{"id": "4", "part": "p1", "b": "y"}])
    assert indexed.pairs() == {"\0$1", "new$2", "\0$4"}


@pytest.mark.parametrize("seed", range(2))
def test_builds_that_die_are_finished_by_the_same_call(tmp_path: Path, seed: int) -> None:
    indexed = Building(tmp_path / "t", "cow")
    chance = random.Random(seed)
    indexed.write([row(number, f"b{number}") for number in range(6)])
    for _ in range(4):
        steps = chance.randint(0, 14)

        def die(what: str, steps: list[int] = [steps]) -> None:  # noqa: B006 - counts down
            steps[0] -= 1
            if steps[0] < 0:
                raise KeyboardInterrupt(what)

        try:
            indexed.build(die)
        except KeyboardInterrupt:
            indexed.write([row(chance.randint(0, 9), f"c{steps}")])
            assert not indexed.defined()
    # By the plan the column is known.
    indexed.build(column=None)
    indexed.write([row(chance.randint(0, 9), "after")])
    assert indexed.pairs() == indexed.pairs_of_rows()


def test_builder_that_dies_before_the_definition_is_written_is_followed_by_one_that_writes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexed = Building(tmp_path / "t")
    indexed.write([row(1), row(2, "y")])
    with monkeypatch.context() as patched:

        def dies(*_: object) -> None:
            raise KeyboardInterrupt

        patched.setattr(index_definitions, "put_of_columns", dies)
        with pytest.raises(KeyboardInterrupt):
            indexed.build()
    assert (OF_B in indexed.config.metadata_partitions, indexed.defined()) == (True, {})
    # Our writers and readers know the column by the properties.
    indexed.write([row(1, "z")])
    assert indexed.pairs() == indexed.pairs_of_rows()
    assert indexed.build().built == ()
    assert OF_B in indexed.defined()


def test_dropped_index_is_not_defined_any_more_and_can_be_built_of_another_column(
    tmp_path: Path,
) -> None:
    indexed = Building(tmp_path / "t", "cow")
    indexed.write([row(number, f"b{number}", number) for number in range(6)])
    indexed.build()
    assert indexed.drop() == (OF_B,)
    assert (indexed.defined(), OF_B in indexed.config.metadata_partitions) == ({}, False)
    key = secondary_indexes.column_key(OF_B)
    assert key not in indexed.config.properties
    assert set(indexed.storage.names(f".hoodie/metadata/{OF_B}")) <= {".hoodie_partition_metadata"}
    indexed.write([row(1, "new", 70)])
    indexed.build(column="a")
    opened = table.open_table(str(tmp_path / "t"), indexed.small.env)
    plan = opened.explain_read(where=where.parse("a = 70"))
    assert plan.step(planning.Means.SECONDARY_INDEX).left == 1
    assert indexed.drop() == (OF_B,)
    assert indexed.drop() == ()


def test_drop_that_dies_leaves_an_index_that_is_kept_up_and_not_defined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexed = Building(tmp_path / "t")
    indexed.write([row(1), row(2, "y")])
    indexed.build()
    with monkeypatch.context() as patched:

        def dies(*_: object) -> None:
            raise KeyboardInterrupt

        patched.setattr(index_dropping, "_take_out", dies)
        with pytest.raises(KeyboardInterrupt):
            indexed.drop()
    assert (OF_B in indexed.config.metadata_partitions, indexed.defined()) == (True, {})
    indexed.write([row(1, "z")])
    assert indexed.pairs() == indexed.pairs_of_rows()
    assert indexed.drop() == (OF_B,)
    assert not any(map(secondary_indexes.is_column_key, indexed.config.properties))


def test_files_that_a_drop_has_left_are_not_in_what_is_built_of_another_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexed = Building(tmp_path / "t", "cow")
    indexed.write([row(number, f"b{number}", number) for number in range(6)])
    indexed.build()
    kept = {
        name: indexed.storage.read(f".hoodie/metadata/{OF_B}/{name}")
        for name in indexed.storage.names(f".hoodie/metadata/{OF_B}")
        if "secondary" in name
    }
    indexed.drop()
    for name, content in kept.items():
        indexed.storage.create(f".hoodie/metadata/{OF_B}/{name}", content)
    indexed.build(column="a")
    assert {each.partition("$")[0] for each in indexed.pairs()} == set("012345")


REFUSED = {
    "no column": ({}, errors.InvalidInputError, "no column, expected one, as by --column"),
    "a missing column": ({OF_B: "c"}, errors.InvalidInputError, "has no column 'c'"),
    "a column of another index": (
        {RECORD_INDEX: "b"},
        errors.InvalidInputError,
        "is that of record_index",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_request_without_a_good_column_is_refused_and_leaves_nothing(
    tmp_path: Path, what: str
) -> None:
    columns, kind, match = REFUSED[what]
    indexed = Building(tmp_path / "t")
    transaction = indexed.options().transaction
    with pytest.raises(kind, match=match):
        indexed.small.table.build_index([OF_B], transaction, secondary=columns)
    assert not indexed.small.table.pending_indexes()


def test_ready_index_is_not_one_of_another_column(tmp_path: Path) -> None:
    indexed = Building(tmp_path / "t")
    indexed.write([row(1)])
    indexed.build()
    with pytest.raises(errors.InvalidInputError, match="is of the column b, and not of a"):
        indexed.build(column="a")


def test_record_index_has_to_be_there(tmp_path: Path) -> None:
    indexed = Building(tmp_path / "t")
    indexed.write([row(1)])
    indexed.build()
    with pytest.raises(errors.InvalidInputError, match="cannot be used without record_index"):
        indexed.drop(RECORD_INDEX)
    assert indexed.drop(RECORD_INDEX, OF_B) == (RECORD_INDEX, OF_B)
    with pytest.raises(errors.InvalidInputError, match="has no record_index, expected one"):
        indexed.build()


def test_both_indexes_can_be_built_at_once(tmp_path: Path) -> None:
    indexed = Building(tmp_path / "t")
    indexed.write([row(1), row(2, "y")])
    indexed.drop(RECORD_INDEX)
    indexed.reopen()
    done = indexed.small.table.build_index(
        [OF_B, RECORD_INDEX], indexed.service, secondary={OF_B: "b"}
    )
    assert done.built == (RECORD_INDEX, OF_B)
    assert indexed.pairs() == indexed.pairs_of_rows()
    assert indexed.locations(["1", "2"]) == indexed.rows()


def test_overwrite_beside_a_build_takes_out_what_it_replaces(tmp_path: Path) -> None:
    indexed = Building(tmp_path / "t", "cow")
    indexed.write([row(number, f"b{number}") for number in range(12)])
    left = [lambda: indexed.write([row(3, "kept")], operation=commits.Operation.INSERT_OVERWRITE)]

    def hear(what: str) -> None:
        # What it replaces is in the base files then.
        if left and what.startswith("reading"):
            left.pop(0)()

    indexed.build(hear)
    assert not left
    assert indexed.pairs() == indexed.pairs_of_rows()
    assert len(indexed.pairs()) == 9
