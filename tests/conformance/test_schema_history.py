"""Columns that ALTER TABLE of Apache Hudi changes, with writes and archiving of ours between.

With `hoodie.schema.on.read.enable` columns have ids, which the newest commit tells: without them
the next change would give them others, and neither engine could read the table any more.
"""

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from support.peer import peer_ours
from support.peer.judge import Judge, JudgeError, Query
from support.peer.peer_cases import rows_of
from support.peer.peer_options import PeerTable, filesystem_lock
from support.peer.peer_rows import assert_same_rows

ON_READ = {
    "hoodie.schema.on.read.enable": "true",
    "hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true",
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("is_mor", [True, False], ids=["mor", "cow"])
def test_columns_keep_their_ids_through_our_writes(
    version: int, judge: Judge, tmp_path: Path, *, is_mor: bool
) -> None:
    name = f"evolved_{version}_{'mor' if is_mor else 'cow'}"
    path = tmp_path / name
    made = PeerTable(
        name=name,
        ordering="ts",
        buckets=None,
        merge_on_read=is_mor,
        table_version=version,
        extra={"hoodie.index.type": "SIMPLE"},
    )
    rows = pa.table(
        {
            "id": ["a", "b", "c"],
            "ts": pa.array([1, 1, 1], pa.int64()),
            "dropped": ["x", "y", "z"],
            "real": [0.5, 1.5, None],
            "text": ["p", None, "q"],
        }
    )
    judge.write(path, rows, made.write_options())
    peer_ours.hoodie("adopt", path, "--index", "simple")
    judge.execute(f"create table {name} using hudi location '{path}'")
    for key, value in ON_READ.items():
        judge.execute(f"set {key}={value}")
    try:
        judge.execute(f"alter table {name} drop column dropped")
        ours = peer_ours.Hoodie(table=made, concurrency="single-writer")
        changed = rows.drop_columns("dropped").slice(0, 2)
        changed = changed.set_column(1, "ts", pa.array([2, 2], pa.int64()))
        ours.write(path, changed, "upsert")
        judge.execute(f"alter table {name} add columns (added int)")
        ours.write(path, changed.slice(0, 1).select(["id", "ts"]), "delete")
        judge.execute(f"alter table {name} alter column added type bigint")
        found = peer_ours.read(path)
        assert found.schema.field("added").type == pa.int64()
        assert_same_rows(judge.read(path), found, ["id"])
        kept = pa.concat_tables([changed.slice(1), rows.drop_columns("dropped").slice(2)])
        assert_same_rows(found.drop_columns("added"), kept, ["id"])
    finally:
        for key in ON_READ:
            judge.execute(f"reset {key}")


@pytest.mark.sample(1)
@pytest.mark.parametrize("is_mor", [True, False], ids=["mor", "cow"])
def test_history_of_columns_outlives_the_commit_that_changed_them(
    judge: Judge, tmp_path: Path, *, is_mor: bool
) -> None:
    name = f"remembered_{'mor' if is_mor else 'cow'}"
    path = tmp_path / name
    made = PeerTable(
        name=name,
        partition_by=("part",),
        ordering="ts",
        buckets=None,
        merge_on_read=is_mor,
        extra={"hoodie.index.type": "SIMPLE"},
    )
    rows = pa.table(
        {
            "id": ["a", "b", "c"],
            "part": ["x", "y", "y"],
            "ts": pa.array([1, 1, 1], pa.int64()),
            "dropped": ["x", "y", "z"],
            "count": pa.array([5, None, 7], pa.int32()),
        }
    )
    judge.write(path, rows, made.write_options())
    peer_ours.hoodie("adopt", path, "--index", "simple")
    judge.execute(f"create table {name} using hudi location '{path}'")
    for key, value in ON_READ.items():
        judge.execute(f"set {key}={value}")
    try:
        judge.execute(f"alter table {name} drop column dropped")
        judge.execute(f"alter table {name} alter column count type bigint")
        widened = rows.drop_columns("dropped").set_column(
            3, "count", rows.column("count").cast(pa.int64())
        )
        ours = peer_ours.Hoodie(table=made, concurrency="single-writer")
        for ts in range(2, 8):
            changed = widened.slice(0, 1).set_column(2, "ts", pa.array([ts], pa.int64()))
            ours.write(path, changed, "upsert")
        archive = ("archive", path, "--keep-min", "2", "--keep-max", "3", "--lock", "filesystem")
        assert len(peer_ours.hoodie(*archive)["archived"]) > 3
        expected = pa.concat_tables([changed, widened.slice(1)])
        assert_same_rows(judge.read(path), expected, ["id"])
        assert_same_rows(peer_ours.read(path), expected, ["id"])
        judge.execute(f"alter table {name} add columns (added int)")
        more = expected.append_column("added", pa.nulls(3, pa.int32()))
        assert_same_rows(judge.read(path), more, ["id"])
        assert_same_rows(peer_ours.read(path), more, ["id"])
    finally:
        for key in ON_READ:
            judge.execute(f"reset {key}")


@pytest.mark.sample(0)  # What it shows is in a unit test, too.
def test_change_that_fails_before_its_commit_changes_nothing(judge: Judge, tmp_path: Path) -> None:
    """As one of several writers Apache Hudi takes its own change for that of another, and fails."""
    path = tmp_path / "half_renamed"
    made = PeerTable(name=path.name, buckets=None, extra={"hoodie.index.type": "SIMPLE", **ON_READ})
    judge.write(path, rows_of(range(4), 1), made.write_options())
    judge.execute(f"create table {path.name} using hudi location '{path}'")
    _alter(judge, made.write_options(), f"alter table {path.name} drop column amount")
    with pytest.raises(JudgeError, match="incompatible concurrent schema evolution"):
        _alter(
            judge,
            made.occ_options(filesystem_lock()),
            f"alter table {path.name} rename column quantity to other",
        )
    assert len(list(path.glob(".hoodie/.schema/*.schemacommit"))) == 2
    expected = judge.read(path, Query(options=ON_READ))
    assert "quantity" in expected.column_names
    assert_same_rows(peer_ours.read(path), expected, ["id"])


def _alter(judge: Judge, options: Mapping[str, str], statement: str) -> None:
    for key, value in options.items():
        judge.execute(f"set {key}={value}")
    try:
        judge.execute(statement)
    finally:
        for key in options:
            judge.execute(f"reset {key}")
