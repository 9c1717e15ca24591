"""How a table's rows lie in files, as `hoodie stats` shows it."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from hoodie import errors
from hoodie.maintenance import savepoints
from hoodie.model import settings, table_config
from hoodie.services import table_stats
from hoodie.storage.memory import MemoryStorage
from hoodie.storage.protocol import FileInfo
from hoodie.timeline import active
from support.tables.tables import CONFIG, SmallTable

COPY_ON_WRITE = replace(
    CONFIG, table_type=table_config.TableType.COPY_ON_WRITE, has_partial_updates=False
)
OPTIMISTIC = settings.ConcurrencyMode.OPTIMISTIC


def rows(*keys: str, part: str = "p", a: int = 1) -> list[Mapping[str, object]]:
    return [{"id": key, "part": part, "a": a, "b": "x" * 100} for key in keys]


def sizes(path: Path, pattern: str) -> int:
    return sum(each.stat().st_size for each in path.glob(pattern) if ".crc" not in each.name)


def test_files_are_counted_by_partition(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t")
    small.upsert(rows("a", "b", "c", "d"))
    small.upsert(rows("a"), batch_id="second")
    small.upsert(rows("z", part="q"))
    found = small.table.stats()
    assert list(found.partitions) == ["p", "q"]
    p, q = found.partitions["p"], found.partitions["q"]
    assert (p.file_groups, p.base_files, p.log_files, q.log_files) == (2, 0, 3, 1)
    assert p.log_bytes == sizes(small.path / "p", ".*.log.*")
    assert (p.log_ratio, p.older_files, found.total.file_groups) == (None, 0, 3)
    assert found.total.log_bytes == p.log_bytes + q.log_bytes
    assert found.compaction.file_groups == 3
    assert found.compaction.log_files == 4
    assert found.compaction.log_bytes == found.compaction.read_bytes == found.total.log_bytes
    assert found.compaction.reason == ""


def test_versions_that_a_clean_could_free_are_older(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t")
    small.upsert(rows("a", "b", "c", "d"))
    logs = sizes(small.path, "p/.*.log.*")
    small.compact()
    small.upsert(rows("a", a=2))
    found = small.table.stats()
    total = found.total
    assert (total.base_files, total.small_files, total.log_files) == (2, 2, 1)
    assert total.base_bytes == sizes(small.path, "p/*.parquet")
    assert (total.older_files, total.older_bytes) == (2, logs)
    assert total.log_ratio == total.log_bytes / total.base_bytes
    assert found.compaction.file_groups == 1
    assert found.compaction.read_bytes > found.compaction.log_bytes == total.log_bytes


def test_limit_of_small_files_is_an_option(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t", COPY_ON_WRITE)
    small.upsert(rows("a", "b", "c", "d"), concurrency=OPTIMISTIC)
    assert small.table.stats().total.small_files == 2
    assert small.table.stats(small_file_bytes=0).total.small_files == 0
    with pytest.raises(errors.InvalidInputError, match="expected 0 or more"):
        small.table.stats(small_file_bytes=-1)


def test_copy_on_write_table_has_nothing_to_compact(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t", COPY_ON_WRITE)
    for number in range(2):
        small.upsert(rows("a", "b", "c", "d", a=number), concurrency=OPTIMISTIC)
    found = small.table.stats()
    assert found.compaction.file_groups == 0
    assert "its writes leave no log files" in found.compaction.reason
    assert (found.total.base_files, found.total.older_files) == (2, 2)


def test_pending_plan_is_told_and_its_groups_are_left_out_of_the_next(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t")
    small.upsert(rows("a", "b", "c", "d"))
    planned = small.table.schedule_compaction(small.options().transaction)
    small.upsert(rows("a", part="q"))
    found = small.table.stats()
    (pending,) = found.pending
    assert (pending.instant.requested_time, pending.file_groups) == (planned, 2)
    assert found.compaction.file_groups == 1
    assert found.compaction.reason == "2 file groups are in pending compactions"
    # What is to be merged is still read.
    assert (found.total.log_files, found.total.older_files) == (3, 0)


def test_uncommitted_files_are_no_versions(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t")
    small.upsert(rows("a"))
    data = small.data(rows("b"))
    session = small.table.begin_write(small.options("other"), data.column_names)
    small.write_files(session, rows("b"))
    total = small.table.stats().total
    assert (total.log_files, total.older_files, total.other_files) == (1, 0, 1)
    assert total.other_bytes > 0


def test_skew_is_the_largest_group_by_the_median(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t", replace(CONFIG, bucket_count=1))
    for part in ("p", "q", "r"):
        small.upsert(rows("a", part=part))
    small.upsert([{"id": f"k{n}", "part": "r", "a": n, "b": str(n) * 50} for n in range(5_000)])
    total = small.table.stats().total
    groups = sorted(sizes(small.path / part, ".*.log.*") for part in ("p", "q", "r"))
    assert (total.median_group_bytes, total.largest_group_bytes) == (groups[1], groups[2])
    assert total.skew == groups[2] / groups[1]


def test_savepoints_are_named(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t")
    small.upsert(rows("a"))
    made = small.table.create_savepoint(savepoints.Wanted(), small.options().transaction)
    assert small.table.stats().savepoints == (made.instant.requested_time,)


def test_empty_table_has_nothing(tmp_path: Path) -> None:
    found = SmallTable(tmp_path / "t").table.stats()
    assert (found.partitions, found.pending) == ({}, ())
    assert (found.total.file_groups, found.total.skew, found.total.log_ratio) == (0, None, None)
    assert found.compaction.reason == "no file group has log files to merge"


class Counting(MemoryStorage):
    """A storage that takes down what is read and listed."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []
        self.listings: list[str] = []

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        self.reads.append(path)
        return super().read(path, offset=offset, length=length)

    def list(self, directory: str, *, is_recursive: bool = False) -> list[FileInfo]:
        self.listings.append(directory)
        return super().list(directory, is_recursive=is_recursive)


def test_table_is_listed_once_and_no_data_file_is_read() -> None:
    storage = Counting()
    time = "20260501000000000"
    for state in (f"{time}.deltacommit.requested", f"{time}_20260501000000001.deltacommit"):
        storage.create(f"{active.DIRECTORY}/{state}", b"")
    for partition in range(50):
        storage.create(f"p{partition}/.hoodie_partition_metadata", b"")
        for group in range(100):
            name = f"{group:08d}-0000-0000-0000-000000000000-0"
            storage.create(f"p{partition}/{name}_0-0-0_{time}.parquet", b"x" * group)
    found = table_stats.of_table(storage, replace(CONFIG, chain=None), 0)
    assert (found.total.file_groups, found.total.base_files) == (5_000, 5_000)
    assert found.total.base_bytes == 50 * sum(range(100))
    assert len(storage.listings) == 1
    assert not storage.reads
