"""Tables whose keys are unique in all partitions, changed by Apache Hudi and by us in turn.

Its writers have a global simple or bloom index, or a record index of the table; rows change their
partition at each write. After each step both engines read the same rows, by listing and by metadata
table, and they are those of a model by key.

Merge-on-read tables whose records stay in their partition have a record index here: with a global
simple or bloom index Apache Hudi 1.2.0 by itself writes keys of such records twice.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import errors
from support.peer import peer_ours, peer_sessions, peer_turns
from support.peer.judge import RELEASE, Judge, Query
from support.peer.peer_cases import BASE, COMMIT_TIME, SCHEMA, row
from support.peer.peer_options import PeerTable, table_properties
from support.peer.peer_rows import assert_same_rows

PARTS = ("north", "south", "west")
SMALL = "hoodie.parquet.small.file.limit"
GLOBAL = replace(BASE, name="everywhere", buckets=None, bloom_filter=True)
SIMPLE = {"hoodie.index.type": "GLOBAL_SIMPLE"}
BLOOM = {"hoodie.index.type": "GLOBAL_BLOOM"}
RECORD_INDEX = {
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.compact.max.delta.commits": "4",
}


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A table, and what its writers do with records whose partition changes."""

    made: PeerTable
    index: str
    moves: bool = True


def kind(made: PeerTable, extra: Mapping[str, str], index: str, *, moves: bool = True) -> Kind:
    updates = {
        f"hoodie.{name}.index.update.partition.path": str(moves).lower()
        for name in ("simple", "bloom", "record")
    }
    by_record_index = extra is RECORD_INDEX
    return Kind(
        made=replace(made, extra=extra | updates, metadata_table=by_record_index),
        index=index,
        moves=moves,
    )


COW = replace(GLOBAL, merge_on_read=False)
KINDS = {
    "mor, bloom": kind(GLOBAL, BLOOM, "global-bloom"),
    "cow, simple": kind(COW, SIMPLE, "global-simple"),
    "mor, simple, by commit time, version 8": kind(
        replace(GLOBAL, ordering=None, table_version=8), SIMPLE, "global-simple"
    ),
    "cow, bloom, records stay": kind(COW, BLOOM, "global-bloom", moves=False),
    "cow, record index": kind(COW, RECORD_INDEX, "global-simple"),
    "mor, record index": kind(GLOBAL, RECORD_INDEX, "global-bloom"),
    "mor, record index, records stay": kind(GLOBAL, RECORD_INDEX, "global-simple", moves=False),
}
if RELEASE.startswith("1.0."):
    KINDS = {name: each for name, each in KINDS.items() if each.made.table_version == 8}


def rows_of(numbers: range, ts: int) -> pa.Table:
    found = [row(number, ts=ts, part=PARTS[(number + ts) % 3]) for number in numbers]
    return pa.Table.from_pylist(found, SCHEMA)


def turns_of(judge: Judge, path: Path, kind: Kind) -> peer_turns.Turns:
    return peer_turns.Turns(judge, path, kind.made, drawn=rows_of, is_global=True)


def steps(turns: peer_turns.Turns, kind: Kind) -> Iterator[str]:
    turns.theirs(range(12), 10)
    yield "created by theirs"
    turns.adopt("--index", kind.index, *([] if kind.moves else ["--keep-partitions"]))
    turns.write(range(6, 18), 11)
    yield "upserted by ours"
    turns.theirs(range(3, 15), 12)
    yield "upserted by theirs"
    turns.write(range(10, 24), 14, **{SMALL: "0"})
    yield "upserted by ours, to new file groups"
    turns.write(range(12, 20), 13)
    yield "upserted by ours, older rows"
    turns.write(range(4, 9), 15, "delete")
    yield "deleted by ours"
    turns.theirs(range(8, 14), 16, "delete")
    yield "deleted by theirs"
    turns.write(range(7, 12), 17)
    yield "brought back by ours"
    turns.theirs(range(4, 22), 18)
    yield "upserted, and brought back, by theirs"
    if turns.made.merge_on_read:
        turns.compact()
        yield "compacted by ours"
        turns.write(range(0, 24, 3), 19)
        turns.judge.compact(turns.path, turns.options)
        yield "compacted by theirs"
    turns.write(range(24), 20)
    turns.theirs(range(0, 24, 2), 21)
    yield "upserted by both"


def comparable(kind: Kind, rows: pa.Table) -> pa.Table:
    """Return rows without their partition where Apache Hudi reads that off the path."""
    return rows if kind.moves else rows.drop_columns(["part"])


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", KINDS)
def test_both_engines_find_keys_in_any_partition(name: str, judge: Judge, tmp_path: Path) -> None:
    kind, path = KINDS[name], tmp_path / "table"
    turns = turns_of(judge, path, kind)
    for step in steps(turns, kind):
        try:
            expected = comparable(kind, turns.model.content())
            assert_same_rows(comparable(kind, judge.read(path)), expected, ["id"])
            assert_same_rows(comparable(kind, peer_ours.read(path)), expected, ["id"])
            if kind.made.metadata_table:
                by_metadata = judge.read(path, Query(use_metadata_table=True))
                assert_same_rows(comparable(kind, by_metadata), expected, ["id"])
        except AssertionError as error:
            raise AssertionError(f"{step}: {error}") from error
    if kind.made.metadata_table:
        validated = peer_ours.hoodie("metadata", "validate", path)
        found = [validated[name] for name in ("differences", "statistics", "filters", "keys")]
        assert found == [[], [], [], []]
    properties = table_properties(path)
    assert properties["hoodie.operator.index"] == kind.index.upper().replace("-", "_")
    assert properties["hoodie.operator.index.update.partition.path"] == str(kind.moves).lower()


@pytest.mark.sample(0)
@pytest.mark.parametrize("merge_on_read", [True, False])
def test_key_that_they_insert_into_another_partition_is_not_inserted_twice(
    judge: Judge, tmp_path: Path, *, merge_on_read: bool
) -> None:
    made = replace(COMMIT_TIME, **{name: getattr(GLOBAL, name) for name in ("name", "buckets")})
    simple = kind(replace(made, merge_on_read=merge_on_read), SIMPLE, "global-simple")
    turns = turns_of(judge, tmp_path / "table", simple)
    turns.theirs(range(6), 10)
    peer_ours.hoodie("adopt", turns.path, "--index", "global-simple")
    to_new_groups = replace(peer_sessions.OPTIMISTIC, small_file_bytes=0)
    for number, before in ((8, None), (2, 11)):
        if before is not None:
            turns.write(range(number, number + 1), before)
        rows = rows_of(range(number, number + 1), 12)
        session, written = peer_sessions.begun(turns.path, rows, to_new_groups)
        turns.theirs(range(number, number + 1), 13)
        with pytest.raises(errors.WriteConflictError):
            session.commit(written)
    turns.write(range(10), 14)
    assert_same_rows(judge.read(turns.path), turns.model.content(), ["id"])
