"""Tables whose rows are deleted by a marker of their own, as change streams have one."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from support.peer import peer_ours
from support.peer.judge import Judge
from support.peer.peer_options import MODELS, PeerTable

SCHEMA = pa.schema(
    [("id", pa.string()), ("part", pa.string()), ("ts", pa.int64()), ("op", pa.string())]
)
MARKED = {
    "hoodie.datasource.write.payload.class": f"{MODELS}.DefaultHoodieRecordPayload",
    "hoodie.payload.delete.field": "op",
    "hoodie.payload.delete.marker": "D",
}
BASE = PeerTable(name="marked", partition_by=("part",), ordering="ts", buckets=2, extra=MARKED)
TABLES: Mapping[str, PeerTable] = {
    "mor": BASE,
    "mor, avro": replace(BASE, parquet_logs=False),
    "simple": replace(BASE, buckets=None, extra=MARKED | {"hoodie.index.type": "SIMPLE"}),
    "cow": replace(BASE, merge_on_read=False),
}


def rows(*found: tuple[str, int, str]) -> pa.Table:
    return pa.Table.from_pylist(
        [{"id": key, "part": "p", "ts": ts, "op": op} for key, ts, op in found], SCHEMA
    )


def assert_read_by_both(judge: Judge, path: Path, *expected: tuple[str, int]) -> None:
    for read in (judge.read(path), peer_ours.read(path)):
        assert sorted((row["id"], row["ts"]) for row in read.to_pylist()) == sorted(expected)


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.sample(2)
def test_both_see_what_a_marker_deletes(kind: str, judge: Judge, tmp_path: Path) -> None:
    table, path = TABLES[kind], tmp_path / "marked"
    options = table.write_options()
    judge.write(path, rows(*((key, 5, "U") for key in "abcdef")), options)
    index = ["simple"] if table.buckets is None else ["bucket", "--buckets", "2"]
    peer_ours.hoodie("adopt", path, "--index", *index)
    judge.write(path, rows(("a", 6, "D")), options)
    assert_read_by_both(judge, path, ("b", 5), ("c", 5), ("d", 5), ("e", 5), ("f", 5))

    ours = peer_ours.Hoodie(table=table, concurrency="occ")
    # A delete, one of a key that is not there, one that comes late, and one that a row follows.
    deletes = rows(("b", 7, "D"), ("n", 7, "D"), ("c", 4, "D"), ("d", 7, "D"), ("d", 8, "U"))
    ours.write(path, deletes, "upsert")
    after = (("c", 5), ("d", 8), ("e", 5), ("f", 5))
    assert_read_by_both(judge, path, *after)
    judge.write(path, rows(("b", 6, "U"), ("e", 9, "U")), options)
    after = (("c", 5), ("d", 8), ("e", 9), ("f", 5))
    if table.merge_on_read:
        assert_read_by_both(judge, path, *after)
        peer_ours.hoodie("compact", path)
        assert_read_by_both(judge, path, *after)
    ours.write(path, rows(("f", 10, "D"), ("g", 1, "U")), "upsert")
    judge.write(path, rows(("e", 10, "D"), ("h", 1, "U")), options)
    read = {row["id"] for row in judge.read(path).to_pylist()}
    assert read == {row["id"] for row in peer_ours.read(path).to_pylist()}
    assert read >= {"c", "d", "g", "h"}
    assert not read & {"a", "e", "f", "n"}
    assert peer_ours.hoodie("check", path)["findings"] == []


@pytest.mark.parametrize("ordering", [None, "ts"])
@pytest.mark.sample(1)
def test_both_see_what_a_marker_deletes_in_commit_order(
    ordering: str | None, judge: Judge, tmp_path: Path
) -> None:
    """A table of AWS's migration service: the last row of a key counts, whatever its time is."""
    path = tmp_path / "marked"
    payload = {"hoodie.datasource.write.payload.class": f"{MODELS}.AWSDmsAvroPayload"}
    extra = payload | {"hoodie.index.type": "SIMPLE"}
    table = replace(BASE, ordering=ordering, buckets=None, extra=extra)

    def changed(*found: tuple[str, int, str]) -> pa.Table:
        return rows(*found).rename_columns(["id", "part", "ts", "Op"])

    options = table.write_options()
    judge.write(path, changed(*((key, 5, "I") for key in "abcde")), options)
    judge.write(path, changed(("a", 6, "D")), options)
    peer_ours.hoodie("adopt", path, "--index", "simple")
    ours = peer_ours.Hoodie(table=table, concurrency="occ")
    # A delete, one of a key that is not there, one of an older time, and one that a row follows.
    deletes = changed(("b", 7, "D"), ("n", 7, "D"), ("c", 4, "D"), ("d", 7, "D"), ("d", 8, "U"))
    ours.write(path, deletes, "upsert")
    assert_read_by_both(judge, path, ("d", 8), ("e", 5))
    judge.write(path, changed(("b", 1, "I")), options)
    ours.write(path, changed(("c", 1, "I"), ("e", 1, "D")), "upsert")
    after = (("b", 1), ("c", 1), ("d", 8))
    assert_read_by_both(judge, path, *after)
    peer_ours.hoodie("compact", path)
    assert_read_by_both(judge, path, *after)
    assert peer_ours.hoodie("check", path)["findings"] == []
