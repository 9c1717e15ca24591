"""Data files of ours that were never finished: Apache Hudi's readers do not take them for any."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie.storage import paths
from support.peer import peer_ours
from support.peer.judge import Judge
from support.peer.peer_cases import BASE, SCHEMA, row
from support.peer.peer_rows import assert_same_rows


@pytest.mark.parametrize("is_merge_on_read", [True, False])
def test_unfinished_files_beside_whole_ones_are_not_read(
    judge: Judge, tmp_path: Path, is_merge_on_read: bool
) -> None:
    path = tmp_path / "table"
    peer = replace(
        BASE, name="unfinished", partition_by=(), buckets=1, merge_on_read=is_merge_on_read
    )
    writer = peer_ours.Hoodie(table=peer, concurrency="occ")
    for ts in (1, 2):
        rows = pa.Table.from_pylist([row(n, ts=ts) for n in range(5)], SCHEMA)
        writer.write(path, rows, "upsert")
    whole = [each for each in path.iterdir() if each.suffix == ".parquet" or ".log." in each.name]
    assert whole
    for each in whole:
        late = each.name.replace("_0-0-0", "_9-9-9")
        assert late != each.name
        each.with_name(paths.unfinished(late)).write_bytes(each.read_bytes()[:100])
    assert_same_rows(judge.read(path), rows, ["id"])
