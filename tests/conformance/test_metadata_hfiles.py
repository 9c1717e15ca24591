"""The HFiles of metadata tables that Apache Hudi keeps: read by us, and written again by us.

Three partitions: `files`, `column_stats` and `record_index`, with base files and log blocks.
"""

import io
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hoodie.format.hfile_reading import Reader
from hoodie.format.hfile_writing import Options
from support.peer import peer_hfiles, peer_metadata
from support.peer.judge import Judge, Query
from support.peer.peer_cases import SCHEMA, row
from support.peer.peer_hfiles import PeerHFiles
from support.peer.peer_hudi_rs import read_with_hudi_rs
from support.peer.peer_options import PeerTable
from support.peer.peer_rows import assert_same_rows
from support.tables.hfiles import pairs_of

TABLE = PeerTable(
    name="indexed",
    partition_by=("part",),
    ordering="ts",
    merge_on_read=False,
    buckets=None,
    metadata_table=True,
    extra={
        "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX",
        "hoodie.metadata.global.record.level.index.enable": "true",
        "hoodie.metadata.record.index.enable": "true",
        "hoodie.metadata.index.column.stats.enable": "true",
        "hoodie.metadata.compact.max.delta.commits": "3",
        "hoodie.metadata.record.index.min.filegroup.count": "2",
        "hoodie.metadata.record.index.max.filegroup.count": "2",
    },
)
PARTITIONS = ("files", "column_stats", "record_index")
ALL_PARTITIONS = b"__all_partitions__"
WITH_INDEXES = Query(
    use_metadata_table=True,
    where="id = 'k007'",
    options={
        "hoodie.enable.data.skipping": "true",
        "hoodie.metadata.record.index.enable": "true",
        "hoodie.metadata.index.column.stats.enable": "true",
    },
)


def rows_of(numbers: range, ts: int) -> pa.Table:
    return pa.Table.from_pylist(
        [row(n, ts=ts) | {"id": f"k{n:03}", "part": f"p{n % 3}"} for n in numbers], SCHEMA
    )


@pytest.fixture(scope="module")
def table(judge: Judge, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a table of 60 rows after enough commits that some partitions were compacted."""
    path = tmp_path_factory.mktemp("indexed") / "table"
    for ts, numbers in enumerate((range(40), range(20, 60), range(5), range(50, 60))):
        judge.write(path, rows_of(numbers, ts), TABLE.write_options())
    return path


@pytest.fixture(scope="module")
def peer(judge: Judge, tmp_path_factory: pytest.TempPathFactory) -> PeerHFiles:
    return PeerHFiles(judge=judge, folder=tmp_path_factory.mktemp("hfiles"))


def contents(table: Path, partition: str) -> list[bytes]:
    """Return the HFiles of a partition, those of base files and those in log blocks."""
    bases = [each.read_bytes() for each in peer_metadata.base_files(table, partition)]
    logs = list(peer_metadata.log_contents(table, partition))
    assert bases
    assert logs
    return [*bases, *logs]


def hfiles(table: Path, partition: str) -> list[Reader]:
    """Return a reader of each."""
    return [Reader.over(partition, content) for content in contents(table, partition)]


def records(reader: Reader) -> Mapping[bytes, dict[str, Any]]:
    schema = fastavro.parse_schema(json.loads(reader.file_info["schema"]))
    found = {}
    for key, value in pairs_of(reader.scan()):
        record = fastavro.schemaless_reader(io.BytesIO(value), schema)
        assert isinstance(record, dict)
        found[key] = record
    return found


@pytest.mark.parametrize("partition", PARTITIONS)
def test_we_read_each_hfile_as_apache_hudi_does(
    partition: str, table: Path, peer: PeerHFiles, tmp_path: Path
) -> None:
    for content in contents(table, partition):
        path = tmp_path / "some.hfile"
        path.write_bytes(content)
        expected = peer.scan(path)
        reader = Reader.over("some.hfile", content)
        assert pairs_of(reader.scan()) == expected
        assert pairs_of([reader.lookup([key for key, _ in expected])]) == expected
        assert json.loads(reader.file_info["schema"])["name"] == "HoodieMetadataRecord"


@pytest.mark.parametrize("partition", PARTITIONS)
def test_we_write_each_hfile_as_apache_hudi_did(
    partition: str, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer_hfiles.compress_as_java(monkeypatch)
    for content in contents(table, partition):
        created = Reader.over("theirs", content).file_info["hfile.CREATE_TIME_TS"]
        options = Options(created_ms=int.from_bytes(created, "big"))
        assert peer_metadata.again(content, options) == content


def test_files_are_those_on_the_disk(table: Path) -> None:
    listed: dict[str, set[str]] = {}
    for reader in hfiles(table, "files"):
        for key, record in records(reader).items():
            names = {name for name, _ in record["filesystemMetadata"].items()}
            listed.setdefault(key.decode(), set()).update(names)
    assert listed.pop(ALL_PARTITIONS.decode()) == {"p0", "p1", "p2"}
    assert listed == {
        part: {each.name for each in (table / part).glob("*.parquet")} for part in listed
    }


def test_record_index_has_every_key(table: Path) -> None:
    found: set[bytes] = set()
    for reader in hfiles(table, "record_index"):
        found |= records(reader).keys()
    assert found == {f"k{n:03}".encode() for n in range(60)}


def test_column_statistics_are_found_by_the_prefix_of_a_column(table: Path) -> None:
    # The first 12 characters of a key are the hash of the column.
    for reader in hfiles(table, "column_stats"):
        by_column: dict[bytes, list[tuple[bytes, bytes]]] = {}
        for key, value in pairs_of(reader.scan()):
            by_column.setdefault(key[:12], []).append((key, value))
        for column, expected in by_column.items():
            assert pairs_of(reader.with_prefixes([column])) == expected


def test_apache_hudi_and_hudi_rs_read_a_metadata_table_that_we_wrote_again(
    table: Path, judge: Judge, tmp_path: Path
) -> None:
    path = tmp_path / "again"
    shutil.copytree(table, path)
    assert peer_metadata.write_again(path) > len(PARTITIONS)
    expected = judge.read(table)
    assert expected.num_rows == 60
    assert_same_rows(judge.read(path, Query(use_metadata_table=True)), expected, ["id"])
    found = judge.read(path, WITH_INDEXES)
    assert_same_rows(found, expected.filter(pc.equal(expected["id"], "k007")), ["id"])
    assert_same_rows(read_with_hudi_rs(path), expected, ["id"])
    # It goes on to write it.
    judge.write(path, rows_of(range(70, 75), 9), TABLE.write_options())
    assert judge.read(path, Query(use_metadata_table=True)).num_rows == 65


def test_apache_hudi_and_hudi_rs_take_files_from_what_we_wrote(
    table: Path, judge: Judge, tmp_path: Path
) -> None:
    # A partition that we leave out is not read: they did not list the disk instead.
    path = tmp_path / "without"
    shutil.copytree(table, path)
    peer_metadata.write_again(path, lambda batch: batch.filter(pc.not_equal(batch["key"], b"p1")))
    for found in (judge.read(path, Query(use_metadata_table=True)), read_with_hudi_rs(path)):
        assert set(found["part"].to_pylist()) == {"p0", "p2"}
    assert judge.read(path).num_rows == 60
