"""The files of tables whose metadata table Apache Hudi keeps: taken from it, and by listing.

Each stage of a table is compared: what the metadata table says is what the storage has, but for
files of writes that did not complete.
"""

import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodie import environment, table
from hoodie.cli import program
from hoodie.filegroup import metadata_table
from hoodie.format import metadata_avro
from hoodie.format.metadata_avro import RecordType, Value
from hoodie.model import files
from hoodie.read import where
from hoodie.read.planning import Means
from hoodie.timeline import active, metadata_timelines
from support.peer import peer_ours
from support.peer.judge import Judge, Query
from support.peer.peer_cases import BASE, rows_of
from support.peer.peer_listings import assert_same_files, look
from support.peer.peer_rows import assert_same_rows

KEY = ["part", "id"]
OFTEN = {
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.clean.commits.retained": "1",
    "hoodie.cleaner.commits.retained": "1",
}
MERGE_ON_READ = replace(BASE, name="listed", metadata_table=True, extra=OFTEN)
TABLES = {
    "mor": MERGE_ON_READ,
    "cow, version 8": replace(MERGE_ON_READ, merge_on_read=False, table_version=8),
    "without partitions": replace(MERGE_ON_READ, partition_by=()),
}


def stages(judge: Judge, path: Path, kind: str) -> Iterator[str]:
    """Change a table in all ways that change which files it has; yield after each."""
    made = TABLES[kind]
    options = made.write_options()
    judge.write(path, rows_of(range(12), 1), options)
    yield "created"
    for ts in range(2, 6):
        judge.write(path, rows_of(range(ts, ts + 6), ts), options)
        yield f"written at {ts}"
    if made.merge_on_read:
        judge.compact(path, options)
        yield "compacted"
        judge.write(path, rows_of(range(3), 8), options)
    judge.write(path, rows_of(range(3, 5), 9), options)
    judge.clean(path, options)
    yield "cleaned"
    judge.write(path, rows_of(range(3), 10), options, operation="insert_overwrite")
    yield "overwritten"
    judge.write(path, rows_of(range(20, 24), 11), options)
    yield "written at last"
    judge.write(path, rows_of(range(0), 12), options)
    yield "written without rows"


def _newest_write(path: Path) -> str:
    timeline = active.load(environment.system(parallelism=1).open_storage(str(path)))
    return str(timeline.completed_writes[-1].requested_time)


@pytest.mark.sample(0)  # Minutes.
@pytest.mark.parametrize("kind", TABLES)
def test_files_are_those_on_storage_at_every_stage(kind: str, judge: Judge, tmp_path: Path) -> None:
    path = tmp_path / "table"
    for stage in stages(judge, path, kind):
        try:
            assert_same_files(path)
        except AssertionError as error:
            raise AssertionError(f"{stage}: {error}") from error
    assert_same_rows(peer_ours.read(path), judge.read(path), KEY)


@pytest.fixture(scope="module")
def written(judge: Judge, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("written") / "table"
    for ts in range(5):
        judge.write(path, rows_of(range(ts, ts + 6), ts), MERGE_ON_READ.write_options())
    return path


def test_files_of_a_write_that_failed_are_not_among_them(
    written: Path, judge: Judge, tmp_path: Path
) -> None:
    path = tmp_path / "table"
    shutil.copytree(written, path)
    # As if its process had died after the metadata table's completed file.
    timeline = path / active.DIRECTORY
    (completed,) = timeline.glob(f"{_newest_write(path)}_*")
    completed.unlink()
    before = look(path)
    assert before.committed(before.by_metadata) == before.committed(before.by_storage)
    assert_same_files(path)
    # Apache Hudi takes it back with its next write.
    judge.write(path, rows_of(range(2), 9), MERGE_ON_READ.write_options())
    assert_same_files(path)


Damage = Callable[[Path], object]


def _log_files(path: Path) -> list[Path]:
    found = (path / metadata_timelines.DIRECTORY / "files").glob(".*.log.*")
    return sorted(each for each in found if each.suffix != ".crc")


def _truncate(path: Path) -> None:
    log_file = _log_files(path)[-1]
    log_file.write_bytes(log_file.read_bytes()[:-20])


def _spoil(path: Path) -> None:
    (*_, base_file) = sorted((path / metadata_timelines.DIRECTORY / "files").glob("*.hfile"))
    content = bytearray(base_file.read_bytes())
    content[40:60] = bytes(20)
    base_file.write_bytes(content)


def _forget_newest(path: Path) -> None:
    """Take the metadata table's newest commit off, as if the table had been written without it."""
    name = _newest_write(path)
    for each in (path / metadata_timelines.DIRECTORY / active.DIRECTORY).glob(f"{name}*"):
        each.unlink()
    for each in _log_files(path):
        if name in each.name:
            each.unlink()


DAMAGES: Mapping[str, tuple[Damage, str]] = {
    "a log file is gone": (lambda path: _log_files(path)[-1].unlink(), "has no log file of"),
    "a log file is cut short": (_truncate, "no whole block"),
    "a base file is broken": (_spoil, r"\.hfile"),
    "the folder is gone": (
        lambda path: shutil.rmtree(path / metadata_timelines.DIRECTORY),
        "no completed instant",
    ),
    "the partition is gone": (
        lambda path: shutil.rmtree(path / metadata_timelines.DIRECTORY / "files"),
        "has no log file of",
    ),
    "the newest commit is gone": (_forget_newest, "lacks .* the table was changed without it"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_storage_is_listed_where_the_metadata_table_is_damaged(
    damage: str, written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "table"
    shutil.copytree(written, path)
    expected = peer_ours.read(path)
    assert "files are listed" not in capsys.readouterr().err
    spoil, message = DAMAGES[damage]
    spoil(path)
    looked = look(path)
    assert looked.committed(looked.by_metadata) == looked.committed(looked.by_storage)
    assert_same_rows(peer_ours.read(path), expected, KEY)
    assert re.search(f"warning: .*files are listed, since .*{message}", capsys.readouterr().err)


def test_reads_do_not_list_the_partitions(written: Path, tmp_path: Path) -> None:
    path = tmp_path / "table"
    shutil.copytree(written, path)
    # Files that only a listing of the storage finds.
    for partition in ("north", "south", "west"):
        for each in (path / partition).glob("*"):
            if each.suffix == ".parquet":
                copy = each.with_name(each.name.replace("-0_", "-1_", 1))
                copy.write_bytes(each.read_bytes())
    looked = look(path)
    assert looked.committed(looked.by_storage) != looked.committed(looked.by_metadata)
    assert_same_rows(peer_ours.read(path), peer_ours.read(written), KEY)


@pytest.fixture
def metadata(capsys: pytest.CaptureFixture[str]) -> Callable[[str, Path], tuple[int, Any]]:
    """Return what runs `hoodie metadata` and returns exit code and document."""

    def run(action: str, path: Path) -> tuple[int, Any]:
        code = program.main(["metadata", action, str(path), "--json"])
        return code, json.loads(capsys.readouterr().out)

    return run


def test_status_shows_partitions_and_whether_they_are_used(
    metadata: Callable[[str, Path], tuple[int, Any]], written: Path, tmp_path: Path
) -> None:
    code, shown = metadata("status", written)
    assert code == 0
    assert [each["name"] for each in shown["partitions"]] == [
        "column_stats",
        "files",
        "partition_stats",
    ]
    assert all(each["is_ready"] and each["file_groups"] for each in shown["partitions"])
    assert shown["problem"] is None
    path = tmp_path / "table"
    shutil.copytree(written, path)
    _truncate(path)
    assert "no whole block" in metadata("status", path)[1]["problem"]


def test_validate_names_each_difference(
    metadata: Callable[[str, Path], tuple[int, Any]], written: Path, tmp_path: Path
) -> None:
    code, shown = metadata("validate", written)
    assert (code, shown["differences"], shown["statistics"]) == (0, [], [])
    assert shown["files_read"] > 3
    path = tmp_path / "table"
    shutil.copytree(written, path)
    gone, longer = sorted((path / "north").glob("*.parquet"))[:2]
    gone.unlink()
    longer.write_bytes(longer.read_bytes() + b"x")
    size = longer.stat().st_size
    code, shown = metadata("validate", path)
    assert code == 1
    assert [(each["path"], each["storage_bytes"]) for each in shown["differences"]] == [
        (f"north/{gone.name}", None),
        (f"north/{longer.name}", size),
    ]
    assert shown["differences"][1]["metadata_bytes"] == size - 1
    (unreadable,) = shown["statistics"]
    assert (unreadable["path"], unreadable["column"]) == (f"north/{longer.name}", "")
    assert "not a readable parquet file" in unreadable["file_range"]


def _is_empty(path: Path, file_slice: files.FileSlice) -> bool:
    base_file = file_slice.base_file
    assert base_file is not None
    has_rows = pq.read_metadata(path / base_file.path).num_rows > 0
    return not file_slice.log_files and not has_rows


FILTERS = (
    "quantity = 35",
    "quantity > 1000",
    "amount < 1",
    "name = 'name 3 of 4'",
    "name > 'name 8'",
    "name is null",
    "ts >= 4 and quantity < 1",
    "ts > 4 or quantity in (1, 2)",
    "not (quantity > 3)",
    "id = 'key-003'",
)


@pytest.mark.parametrize("version", [8, 9])
def test_column_statistics_leave_out_slices_and_no_rows(
    version: int, judge: Judge, tmp_path: Path
) -> None:
    path, plain = tmp_path / "table", tmp_path / "plain"
    made = replace(MERGE_ON_READ, table_version=version, buckets=8)
    options = made.write_options()
    for ts in range(1, 4):
        judge.write(path, rows_of(range(ts, ts + 20), ts), options)
    judge.write(path, rows_of(range(6), 4).select([*KEY, "ts"]), options, operation="delete")
    judge.compact(path, options)
    judge.write(path, rows_of(range(18, 22), 4), options)
    shutil.copytree(path, plain)
    shutil.rmtree(plain / metadata_timelines.DIRECTORY)
    opened = table.open_table(str(path), environment.system(parallelism=1))
    for text in FILTERS:
        found = peer_ours.read(path, "--where", text)
        assert_same_rows(found, peer_ours.read(plain, "--where", text), KEY)
        assert_same_rows(found, judge.read(path, Query(where=text)), KEY)
        plan = opened.explain_read(where=where.parse(text))
        assert all(each.unused is None for each in plan.steps), text
    needed = opened.explain_read(where=where.parse("quantity > 1000"))
    assert needed.step(Means.PARTITION_STATISTICS).skipped > 0
    # Of a base file without rows there are no statistics.
    assert all(_is_empty(path, each) for each in needed.slices)
    needed = opened.explain_read(where=where.parse("quantity >= 100 and quantity <= 101"))
    assert needed.step(Means.COLUMN_STATISTICS).skipped > 0
    assert 0 < len(needed.slices) <= len(opened.slices()) // 2
    assert len(opened.slices()) > 10


def test_validate_names_statistics_that_exclude_rows(
    metadata: Callable[[str, Path], tuple[int, Any]], written: Path, tmp_path: Path
) -> None:
    path = tmp_path / "table"
    shutil.copytree(written, path)
    changed = min((path / "north").glob("*.parquet"))
    rows = pq.read_table(changed)
    place = rows.schema.get_field_index("quantity")
    million = pa.array([10**6] * len(rows), rows.schema.field(place).type)
    pq.write_table(rows.set_column(place, rows.schema.field(place), million), changed)
    code, shown = metadata("validate", path)
    assert code == 1
    wrong, of_partition = shown["statistics"]
    assert (wrong["path"], wrong["column"]) == (f"north/{changed.name}", "quantity")
    assert wrong["file_range"] == "1000000 to 1000000, 0 nulls"
    assert (of_partition["path"], of_partition["column"]) == ("north", "quantity")
    assert of_partition["file_range"].endswith(" to 1000000, 0 nulls")


RECORDS = {
    "files": (RecordType.FILES, RecordType.PARTITIONS),
    "column_stats": (RecordType.COLUMN_STATS,),
    "partition_stats": (RecordType.PARTITION_STATS,),
}


@pytest.mark.parametrize("partition", RECORDS)
def test_records_are_encoded_as_apache_hudi_did(partition: str, written: Path) -> None:
    storage = environment.system(parallelism=1).open_storage(str(written))
    found = metadata_table.MetadataTable(storage, active.load(storage)).partition(partition)
    values = [
        each
        for same in found.with_prefixes([""]).values()
        for each in same
        # What it compacted has the name of the base file, which no reader asks for.
        if each.content.startswith(bytes(5))
    ]
    assert values
    for each in values:
        assert each.content in {encoded_again(each, kind) for kind in RECORDS[partition]}


def encoded_again(value: Value, record_type: RecordType) -> bytes:
    if record_type in RECORDS["files"]:
        sizes = metadata_avro.decode_sizes(value, "theirs")
        return metadata_avro.encode_sizes(sizes, record_type)
    told = metadata_avro.decode_statistics(value, "theirs", record_type)
    assert told is not None
    return metadata_avro.encode_statistics(told, record_type)
