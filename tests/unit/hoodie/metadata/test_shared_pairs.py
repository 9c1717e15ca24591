"""Secondary indexes that are built in tables that other engines may write."""

from dataclasses import replace
from pathlib import Path

import pytest

from hoodie import errors
from hoodie.metadata import index_sharing, shared_keys
from hoodie.model import secondary_indexes, table_config
from hoodie.model.key_changes import RECORD_INDEX
from hoodie.read import where
from hoodie.timeline import index_definitions, table_properties
from support.tables.record_indexes import Row
from support.tables.secondary_indexed import OF_B, PREFIX, PairsBuilding
from support.tables.tables import CONFIG

COW = replace(CONFIG, table_type=table_config.TableType.COPY_ON_WRITE, has_partial_updates=False)
SIMPLE = table_config.IndexKind.SIMPLE
MOR = replace(CONFIG, has_partial_updates=False, bucket_count=None, index=SIMPLE)
KINDS = {
    "cow": COW,
    "cow simple": replace(COW, bucket_count=None, index=SIMPLE),
    "mor simple": MOR,
    "version 8": replace(COW, version=table_config.VERSION_WITH_PAYLOADS),
    "with a chain": replace(COW, chain=table_config.ChainName(id="c")),
}
EACH_KIND = pytest.mark.parametrize("kind", KINDS)


def row(key: int, b: str | None = "x", a: int = 0) -> Row:
    return {"id": str(key), "part": f"p{key % 3}", "a": a, "b": b}


@EACH_KIND
def test_index_has_a_pair_of_every_row_whatever_is_written_meanwhile(
    tmp_path: Path, kind: str
) -> None:
    indexed = PairsBuilding(tmp_path / "t", KINDS[kind])
    assert indexed.config.has_foreign_writers
    indexed.write([row(number, f"b{number}") for number in range(12)])
    steps = [
        lambda: indexed.write([row(4, "other"), row(20, None)]),
        lambda: indexed.delete([{"id": "5", "part": "p2"}]),
        lambda: indexed.write([row(4, "another"), row(6, "b7"), row(21, "new")]),
        lambda: None if indexed.config.is_copy_on_write else indexed.small.compact(),
    ]

    def hear(what: str) -> None:
        assert not indexed.defined(), what
        if steps and not what.startswith("planning"):
            indexed.reopen()
            steps.pop(0)()

    done = indexed.build(hear)
    assert (done.built, steps) == ((OF_B,), [])
    assert OF_B in indexed.defined()
    assert indexed.pairs() >= indexed.pairs_of_rows()
    assert secondary_indexes.column_key(OF_B) not in indexed.config.properties
    assert not indexed.config.metadata_partitions_own
    indexed.write([row(7, "late"), row(4, "b4")])
    indexed.delete([{"id": "8", "part": "p2"}])
    there = indexed.pairs_of_rows()
    assert indexed.pairs() >= there
    # What was taken out after the publication is out.
    assert not indexed.pairs() & {"b7$7", "another$4", "b8$8"}
    indexed.reopen()
    assert [each["id"] for each in indexed.small.rows(where=where.parse("b = 'late'"))] == ["7"]
    assert indexed.small.table.validate_metadata().is_right
    assert indexed.build().built == ()


@EACH_KIND
def test_index_of_a_table_at_rest_has_no_other_pair(tmp_path: Path, kind: str) -> None:
    indexed = PairsBuilding(tmp_path / "t", KINDS[kind])
    indexed.write([row(number, f"b{number % 4}") for number in range(12)])
    indexed.write([row(number, "changed") for number in range(3, 7)])
    indexed.delete([{"id": "9", "part": "p0"}])
    indexed.build()
    assert indexed.pairs() == indexed.pairs_of_rows()
    assert indexed.drop() == (OF_B,)
    assert not indexed.defined()
    indexed.write([row(1, "between")])
    indexed.build()
    assert indexed.pairs() == indexed.pairs_of_rows()


def test_write_that_began_before_and_completes_after_it_is_in_the_index(tmp_path: Path) -> None:
    """Nor does the scope's log hide a pair that such a write brings."""
    indexed = PairsBuilding(tmp_path / "t", COW)
    indexed.write([row(1, "first"), row(2, "y")])
    session = indexed.begin(["id", "part", "a", "b"])
    left = [lambda: indexed.write([row(4, "beside")], writer_id="beside")]

    def hear(what: str) -> None:
        if what == "publishing" and left:
            indexed.reopen()
            left.pop()()

    indexed.build(hear)
    indexed.commit(session, [row(5, "late")])
    assert indexed.pairs() >= indexed.pairs_of_rows()
    assert {"late$5", "beside$4"} < indexed.pairs()


@pytest.mark.parametrize("step", range(1, 4))
def test_builder_that_dies_between_the_changes_of_the_properties_is_followed_by_one_that_builds(
    tmp_path: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexed = PairsBuilding(tmp_path / "t", COW)
    indexed.write([row(1), row(2, "y")])
    update, seen = table_properties.update, 0

    def counted(*args: object) -> object:
        nonlocal seen
        changed = update(*args)  # type: ignore[arg-type]  # passed on
        seen += 1
        if seen == step:
            raise KeyboardInterrupt
        return changed

    with monkeypatch.context() as patched:
        patched.setattr(index_sharing.table_properties, "update", counted)
        with pytest.raises(KeyboardInterrupt):
            indexed.build()
    # Whatever is defined is kept up by who writes now.
    indexed.write([row(1, "z"), row(3, "new")])
    if OF_B in indexed.defined():
        assert indexed.pairs() >= indexed.pairs_of_rows()
    indexed.build()
    assert OF_B in indexed.defined()
    assert indexed.pairs() >= indexed.pairs_of_rows()
    assert OF_B in indexed.config.metadata_partitions


def test_second_index_of_a_merge_on_read_table_is_refused(tmp_path: Path) -> None:
    indexed = PairsBuilding(tmp_path / "t", MOR)
    indexed.write([row(1)])
    indexed.build()
    with pytest.raises(errors.UnsupportedError, match="keep one secondary index up"):
        indexed.build(column="a", name=f"{PREFIX}of_a")
    assert indexed.build().built == ()


def test_index_that_is_too_long_to_be_uploaded_under_the_lock_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexed = PairsBuilding(tmp_path / "t", COW)
    indexed.write([row(number) for number in range(30)])
    monkeypatch.setattr(shared_keys, "BYTES_MAX", 100)
    with pytest.raises(errors.UnsupportedError, match=rf"{OF_B} of .*\(CREATE INDEX\)"):
        indexed.build()
    indexed.reopen()
    assert not indexed.small.table.pending_indexes()
    assert not indexed.defined()


def test_both_indexes_are_built_in_one_request(tmp_path: Path) -> None:
    indexed = PairsBuilding(tmp_path / "t", COW)
    indexed.write([row(number, f"b{number}") for number in range(9)])
    indexed.drop(RECORD_INDEX)
    indexed.reopen()
    names = [RECORD_INDEX, OF_B]
    built = indexed.small.table.build_index(names, indexed.service, secondary={OF_B: "b"}).built
    assert set(built) == set(names)
    assert indexed.pairs() == indexed.pairs_of_rows()
    indexed.reopen()
    assert indexed.small.table.validate_metadata().is_right
    assert index_definitions.of_secondary_indexes(
        indexed.storage, indexed.config, indexed.config.metadata_partitions
    )
