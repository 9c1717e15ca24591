"""The partition `bloom_filters` of metadata tables, kept up and used."""

import pickle
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import environment, errors
from hoodie.cli.views import metadata_tables as views
from hoodie.filegroup import (
    key_filters,
    key_footers,
    metadata_merging,
    metadata_records,
    metadata_table,
    metadata_writing,
    snapshots,
)
from hoodie.format import bloom_filters, metadata_avro
from hoodie.format.bloom_filters import Filter, StoredFilter
from hoodie.maintenance.cleaning import retention
from hoodie.model import (
    commits,
    file_statistics,
    files,
    instants,
    predicates,
    settings,
    table_config,
)
from hoodie.read import planning, where
from hoodie.storage.protocol import Storage
from hoodie.timeline import active, chain, metadata_timelines
from support.tables import filtered_metadata
from support.tables.tables import CONFIG, SmallTable

COPY_ON_WRITE = replace(CONFIG, table_type=table_config.TableType.COPY_ON_WRITE)
KINDS = {
    "mor": CONFIG,
    "cow": COPY_ON_WRITE,
    "without partitions": replace(COPY_ON_WRITE, partition_fields=()),
    "chain": replace(COPY_ON_WRITE, chain=table_config.ChainName(id="c")),
    "chain, ours alone": replace(
        CONFIG, chain=table_config.ChainName(id="c"), has_foreign_writers=False
    ),
}

TIME = instants.InstantTime("20260101000000000")


def rows_of(first: int, last: int, a: int = 0) -> list[dict[str, object]]:
    return [{"id": str(n), "part": f"p{n % 3}", "a": a, "b": "x"} for n in range(first, last)]


class Filtered:
    """A table whose metadata table has bloom filters."""

    def __init__(
        self,
        path: Path,
        config: table_config.TableConfig = CONFIG,
        earlier: list[dict[str, object]] | None = None,
    ) -> None:
        """Make it, with rows that are written before it has filters."""
        self.small = SmallTable(path, config)
        self.storage: Storage = environment.system(parallelism=1).open_storage(str(path))
        self.more: dict[str, object] = {"metadata_delta_commits_max": 3}
        if config.is_copy_on_write:
            self.more["concurrency"] = settings.ConcurrencyMode.OPTIMISTIC
        if earlier is not None:
            self.upsert(earlier)
        transaction = self.small.options().transaction
        self.small.table = filtered_metadata.with_bloom_filters(
            self.small.table, transaction, self.small.env
        )

    @property
    def config(self) -> table_config.TableConfig:
        return self.small.table.config

    def upsert(self, rows: list[dict[str, object]], **changes: object) -> None:
        self.small.upsert(rows, **{**self.more, **changes})

    def snapshot(self) -> snapshots.Snapshot:
        timeline = chain.load(self.storage, self.config)
        return snapshots.take(self.storage, self.config, timeline, has_committed_only=True)

    def recorded(self) -> dict[str, StoredFilter | None]:
        return filtered_metadata.recorded(self.storage, self.config)

    def record(self, filters: Mapping[str, StoredFilter | None]) -> None:
        """Put records of base files into the metadata table, after those of their writes."""
        storage = metadata_timelines.opened(self.storage)
        ids = metadata_writing.group_ids(storage, filtered_metadata.PARTITION)
        logs = list(metadata_table.log_files(storage, filtered_metadata.PARTITION))
        newest = max(logs, key=lambda each: each.instant_time)
        _, _, stage = newest.write_token.partition("-")
        for number, (path, stored) in enumerate(filters.items()):
            partition_path, _, name = path.rpartition("/")
            key = metadata_avro.bloom_filter_key(partition_path, name)
            (place,) = metadata_records.places(pa.array([key]), len(ids)).tolist()
            group = files.FileGroupId(
                partition_path=filtered_metadata.PARTITION, file_id=ids[place]
            )
            record = metadata_avro.encode_bloom_filter(stored, newest.instant_time)
            added = metadata_records.Added(table=metadata_merging.table({key: record}))
            metadata_writing.write_log(
                storage, group, newest.instant_time, f"{90 + number}-{stage}", added, 1
            )

    def check(self) -> int:
        """Check that the filters are those of the base files; return how many there are."""
        assert self.small.table.validate_metadata().is_right
        return filtered_metadata.assert_filters_are_those_of_footers(
            self.storage, self.config, self.snapshot()
        )

    def left(self, text: str) -> tuple[int, int]:
        """Return how many slices are there before and after the filters are asked."""
        plan = self.small.table.explain_read(where=where.parse(text))
        step = plan.step(planning.Means.BLOOM_FILTERS)
        return step.considered, step.left


@pytest.fixture(params=KINDS)
def filtered(request: pytest.FixtureRequest, tmp_path: Path) -> Filtered:
    return Filtered(tmp_path / "t", KINDS[request.param])


@pytest.fixture
def cow(tmp_path: Path) -> Filtered:
    return Filtered(tmp_path / "t", COPY_ON_WRITE)


def test_each_base_file_has_a_filter_through_all_changes(filtered: Filtered) -> None:
    for number in range(4):
        filtered.upsert(rows_of(number, number + 9, number))
        filtered.check()
    if not filtered.config.is_copy_on_write:
        assert filtered.small.compact() is not None
        for number in range(2):
            filtered.upsert(rows_of(0, 9, 9 + number))
            assert filtered.small.compact() is not None
    count = filtered.check()
    assert count > 0
    how = retention.Retention(retained=1, grace_ms=0)
    done = filtered.small.table.clean(how, filtered.small.options().transaction)
    assert done.done[0].deleted
    assert filtered.check() < count
    gone = [each for each in filtered.recorded().values() if each is None]
    assert gone, "records that say that files are gone"
    for number in range(3):
        filtered.upsert(rows_of(0, 20, 10 + number))
    assert not [each for each in filtered.recorded().values() if each is None], "after a compaction"
    filtered.check()
    assert not filtered.small.problems()


def test_bulk_insert_writes_filters(filtered: Filtered) -> None:
    bulk = commits.Operation.BULK_INSERT
    filtered.upsert(rows_of(0, 9), operation=bulk)
    assert filtered.check() > 0


def test_write_that_failed_leaves_no_filter(cow: Filtered) -> None:
    cow.upsert(rows_of(0, 6))
    before = cow.recorded()
    session = cow.small.table.begin_write(
        cow.small.options("dead", **cow.more), ["id", "part", "a"]
    )
    cow.small.write_files(session, rows_of(0, 6, 1))
    session.abort(has_tasks_left=False)
    assert cow.recorded() == before
    assert cow.check() > 0


def test_filter_of_a_base_file_has_its_keys_and_is_small_in_a_write_stat(cow: Filtered) -> None:
    result = cow.small.upsert(rows_of(0, 6), **cow.more)
    for stat in result.stats:
        stored = key_footers.read_filter(cow.storage, stat.path)
        assert stored is not None
        found = Filter.decode(stored, stat.path)
        part = stat.partition_path
        keys = [str(n) for n in range(6) if f"p{n % 3}" == part]
        assert int(found.may_contain(pa.array(keys)).sum()) == stat.records
        assert len(pickle.dumps(stat)) < 2_000


def test_base_file_without_filter_is_not_committed(cow: Filtered) -> None:
    stats = [
        commits.WriteStat(
            file_id="f-0",
            partition_path="p",
            path="p/00000000-0000-0000-0000-000000000000-0_0-0-0_20260101000000000.parquet",
            prev_commit="null",
            records=1,
            inserts=1,
            updates=0,
            deletes=0,
            size_bytes=1,
        )
    ]
    changes = metadata_records.Changes(written=stats)
    with pytest.raises(errors.UnsupportedError, match="no bloom filter in its footer"):
        metadata_records.added({}, changes, [file_statistics.BLOOM_FILTERS], TIME)
    assert not metadata_records.added({}, changes, [metadata_table.FILES], TIME)


def test_log_files_have_no_filters() -> None:
    name = ".00000000-0000-0000-0000-000000000000-0_20260101000000000.log.1_0-0-0"
    changes = metadata_records.Changes(deleted=[f"p/{name}"])
    records = metadata_records.added({}, changes, [file_statistics.BLOOM_FILTERS], TIME)
    assert not len(records[file_statistics.BLOOM_FILTERS])


def test_table_without_the_partition_has_files_without_filters(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t", COPY_ON_WRITE)
    small.upsert(rows_of(0, 3), concurrency=settings.ConcurrencyMode.SINGLE_WRITER)
    storage = environment.system(parallelism=1).open_storage(str(small.path))
    snapshot = snapshots.take(storage, small.table.config, active.load(storage))
    paths = [each.path for each in filtered_metadata.base_files(snapshot)]
    assert paths
    assert key_footers.read_filters(storage, [*paths, "p/none.parquet"], 4) == {}


FILTERS = {
    "id = '3'": (1, 3),
    "id in ('3', '4', 'none')": (2, 3),
    "id = 'none'": (0, 3),
    "id = '3' and id = '4'": (0, 3),
    "id = '3' or a = 1": (3, 3),
    "not id = '3'": (3, 3),
    "a = 1": (3, 3),
}


def test_slices_without_the_key_are_left_out(tmp_path: Path) -> None:
    filtered = Filtered(tmp_path / "t", replace(COPY_ON_WRITE, bucket_count=1))
    filtered.upsert(rows_of(0, 9, 1))
    whole = filtered.small.table.read().read_all()
    for text, (left, before) in FILTERS.items():
        assert filtered.left(text) == (before, left), text
        predicate = where.parse(text)
        expected = whole.filter(predicates.to_expression(predicate, whole.schema)).to_pylist()
        found = filtered.small.rows(where=predicate)
        assert found == sorted(expected, key=lambda row: str(row["id"])), text


def test_slice_with_log_files_is_read_whatever_its_base_file_has(tmp_path: Path) -> None:
    filtered = Filtered(tmp_path / "t", replace(CONFIG, bucket_count=1))
    filtered.upsert(rows_of(0, 9))
    filtered.small.compact()
    assert filtered.left("id = '3'") == (3, 1)
    filtered.upsert([{"id": "new", "part": "p1", "a": 1, "b": "x"}])
    assert filtered.left("id = 'new'") == (3, 1)
    assert filtered.left("id = '3'") == (3, 2)
    assert len(filtered.small.rows(where=where.parse("id = 'new'"))) == 1


def test_base_file_without_a_filter_is_read(tmp_path: Path) -> None:
    filtered = Filtered(tmp_path / "t", replace(COPY_ON_WRITE, bucket_count=1), rows_of(0, 6))
    assert filtered.left("id = '3'") == (3, 3)
    filtered.upsert([{"id": "new", "part": "p1", "a": 1, "b": "x"}])
    assert filtered.left("id = '3'") == (3, 2)
    assert len(filtered.small.rows(where=where.parse("id = '3'"))) == 1
    assert filtered.small.table.validate_metadata().is_right


def test_filters_that_are_longer_than_the_files_are_not_asked(tmp_path: Path) -> None:
    filtered = Filtered(tmp_path / "t", replace(COPY_ON_WRITE, bucket_count=1))
    filtered.upsert(rows_of(0, 9))
    assert filtered.left("id = 'none'") == (3, 0)
    table_of = metadata_table.MetadataTable(filtered.storage, active.load(filtered.storage))
    slices = [
        each for path in ("p0", "p1", "p2") for each in filtered.snapshot().view.latest_slices(path)
    ]
    tiny = [replace(each, base_file=replace(each.base_file, size_bytes=1)) for each in slices]
    keys = pa.array(["none"])
    assert key_filters.may_hold(table_of, slices, keys) == [False] * 3
    assert key_filters.may_hold(table_of, tiny, keys) == [True] * 3


def test_damaged_filters_are_not_used(cow: Filtered, caplog: pytest.LogCaptureFixture) -> None:
    cow.upsert(rows_of(0, 9))
    for each in cow.small.path.glob(".hoodie/metadata/bloom_filters/.*.log.*"):
        each.write_bytes(each.read_bytes()[:40])
    before, left = cow.left("id in ('3', 'none')")
    assert before == left
    assert "bloom filters are not used" in caplog.text
    assert len(cow.small.rows(where=where.parse("id = '3'"))) == 1


def test_validation_finds_filters_that_are_not_those_of_footers(cow: Filtered) -> None:
    cow.upsert(rows_of(0, 9))
    right = cow.small.table.validate_metadata()
    assert (right.filters, right.is_right) == ((), True)
    first, second, third, *others = filtered_metadata.base_files(cow.snapshot())
    assert right.filters_compared == 3 + len(others)
    another = StoredFilter(type_code="SIMPLE", text=b"another")
    cow.record({first.path: another, second.path: None})
    # It was built of the file's keys, as far as anyone can tell.
    without_filter(cow.small.path / third.path)
    found = cow.small.table.validate_metadata()
    assert not found.is_right
    assert {each.path: each.problem for each in found.filters} == {
        first.path: "the bloom filter in the metadata table is another one than that in its footer",
        second.path: "the metadata table lacks the bloom filter that is in its footer",
    }
    lines = views.validation_lines(views.validation("t", found))
    last = found.filters[-1]
    assert f"{last.path}: {last.problem}" in lines


def test_validation_finds_base_files_that_cannot_be_read(cow: Filtered) -> None:
    cow.upsert(rows_of(0, 9))
    (first, *_) = filtered_metadata.base_files(cow.snapshot())
    path = cow.small.path / first.path
    path.write_bytes(bytes(path.stat().st_size))
    (wrong,) = cow.small.table.validate_metadata().filters
    assert wrong.path == first.path
    assert "not a readable parquet file" in wrong.problem


def test_both_without_a_filter_is_no_difference(cow: Filtered) -> None:
    """A file of a program that does not know of filters: Apache Hudi has no record of it."""
    cow.upsert(rows_of(0, 9))
    (first, *_) = filtered_metadata.base_files(cow.snapshot())
    cow.record({first.path: None})
    without_filter(cow.small.path / first.path)
    assert cow.small.table.validate_metadata().filters == ()


def without_filter(path: Path) -> None:
    """Take the filter out of a footer; the file's length stays."""
    content = path.read_bytes()
    key = bloom_filters.FOOTER_KEY.encode()
    assert content.count(key) == 1
    path.write_bytes(content.replace(key, b"x" * len(key)))
