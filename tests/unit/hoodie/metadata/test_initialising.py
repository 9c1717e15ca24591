"""Statistics that a metadata table begins with, and what writes add to them."""

import contextlib
import copy
import functools
import itertools
import json
import math
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Self

import pyarrow as pa
import pytest

from hoodie import environment, errors, table
from hoodie.filegroup import metadata_table, statistics_reading
from hoodie.format import file_names, metadata_avro
from hoodie.format.metadata_avro import RecordType
from hoodie.metadata import initialising
from hoodie.model import (
    files,
    partition_statistics,
    results,
    schema_evolution,
    settings,
    table_config,
)
from hoodie.model.file_statistics import (
    COLUMN_STATS,
    NOTHING,
    PARTITION_STATS,
    ColumnStatistics,
)
from hoodie.model.value_wrappers import Wrapper
from hoodie.read import where as filters
from hoodie.storage import local
from hoodie.timeline import active, index_definitions, table_properties
from hoodie.write import batches, tasks, write_task
from support.tables.indexed_tables import can_be_merged_by_apache_hudi
from support.tables.tables import CONFIG, SmallTable

COPY_ON_WRITE = replace(CONFIG, table_type=table_config.TableType.COPY_ON_WRITE)
CHAINED = replace(CONFIG, chain=table_config.ChainName(id="c"), has_foreign_writers=False)
KINDS = {
    "mor": CONFIG,
    "cow": COPY_ON_WRITE,
    "version 8": replace(CONFIG, version=8),
    "without partitions": replace(CONFIG, partition_fields=()),
    "chain, ours alone": CHAINED,
}
TYPES = {"real": "float64", "whole": "int32"}
GROWS = {"adds_columns": True}
"""Options of a write that may widen columns, or add some."""

BESIDE = {"acknowledges_order_dependence": True}
"""Options of a write that is beside another."""

Found = Mapping[tuple[str, str], ColumnStatistics]
"""Statistics by the name of a file, or the path of a partition, and by column."""


class Measured:
    """A table with statistics."""

    def __init__(self, path: Path, config: table_config.TableConfig = CONFIG) -> None:
        self.small = SmallTable(path, config, **TYPES)
        self.more: dict[str, object] = {}
        if config.is_copy_on_write:
            self.more = {"concurrency": settings.ConcurrencyMode.OPTIMISTIC}

    @classmethod
    def of(cls, path: Path, other: Self) -> Self:
        """Return a copy of a table."""
        found = copy.copy(other)
        found.small = copy.copy(other.small)
        found.small.path = path
        found.small.table = table.open_table(str(path), found.small.env)
        return found

    def init(self, **how: bool) -> None:
        transaction = self.small.options().transaction
        self.small.table = self.small.table.initialise_metadata(transaction, **how)

    def upsert(self, first: int, last: int, **values: object) -> list[str]:
        """Write rows, and return the names of the files."""
        rows = [{**row(number), **values} for number in range(first, last)]
        done = self.small.upsert(rows, **self.more)
        assert isinstance(done, results.CommitResult)
        return [stat.path.rpartition("/")[2] for stat in done.stats]

    def grow(self, rows: pa.Table) -> None:
        """Write rows with columns that are new, or wider."""
        self.small.table.write(rows, self.small.options(**self.more, **GROWS))
        self.small.table = table.open_table(str(self.small.path), self.small.env)

    def records(self, name: str, record_type: RecordType) -> Iterator[list[ColumnStatistics]]:
        """Yield the records of each key of a partition, in the order of merging."""
        storage = environment.system(parallelism=1).open_storage(str(self.small.path))
        found = metadata_table.MetadataTable(storage, active.load(storage))
        for values in found.partition(name).with_prefixes([""]).values():
            decoded = [metadata_avro.decode_statistics(each, name, record_type) for each in values]
            yield [each for each in decoded if each is not None]

    def columns(self) -> Found:
        """Return the statistics of data files."""
        newest = (each[-1] for each in self.records(COLUMN_STATS, RecordType.COLUMN_STATS) if each)
        return {(each.file_name, each.column): each for each in newest}

    def partitions(self) -> Mapping[tuple[str, str], list[ColumnStatistics]]:
        """Return the records of partitions, in the order of merging."""
        found = self.records(PARTITION_STATS, RecordType.PARTITION_STATS)
        return {(each[0].file_name, each[0].column): each for each in found}

    def check(self) -> None:
        opened = table.open_table(str(self.small.path), self.small.env)
        assert opened.explain_read().has_metadata_table
        assert opened.validate_metadata().is_right


class Pending:
    """A write whose files are written."""

    def __init__(self, measured: Measured, writer_id: str, rows: list[dict[str, object]]) -> None:
        small = measured.small
        self.session = small.table.begin_write(small.options(writer_id, **BESIDE), list(rows[0]))
        self.written = small.write_files(self.session, rows)

    def complete(self) -> None:
        self.session.commit(self.written)


def row(number: int) -> dict[str, object]:
    return {
        "id": str(number),
        "part": f"p{number % 2}",
        "a": number * 10**12,
        "b": None if number % 3 == 0 else "x" * (number * 1500),
        "real": math.nan if number % 4 == 0 else number / 2,
        "whole": number,
    }


def test_rebuilt_statistics_of_files_are_those_of_their_writes(
    subtests: pytest.Subtests, tmp_path: Path
) -> None:
    for kind, config in KINDS.items():
        with subtests.test(kind):
            measured = Measured(tmp_path / kind, config)
            measured.init()
            measured.upsert(0, 9)
            measured.upsert(3, 12, a=-1)
            if not config.is_copy_on_write:
                measured.small.delete([{"id": "3", "part": "p1"}])
                assert measured.small.compact() is not None
                measured.upsert(8, 10)
            gathered = measured.columns()
            assert {name.rpartition(".")[2] for name, _ in gathered} >= {"parquet"}
            measured.init(is_rebuilt=True)
            assert repr(measured.columns()) != repr({})
            assert comparable(measured.columns()) == comparable(gathered)
            measured.check()


def comparable(found: Found) -> Mapping[tuple[str, str], str]:
    """Return statistics so that NaN is equal to itself."""
    return {key: repr(each) for key, each in found.items()}


def test_statistics_of_partitions_are_tight_and_of_what_reads_take(tmp_path: Path) -> None:
    measured = Measured(tmp_path / "t")
    measured.upsert(0, 8)
    measured.upsert(0, 8, whole=100)
    assert measured.small.compact() is not None
    measured.init()
    found = measured.partitions()
    (whole,) = found["p0", "whole"]
    assert (whole.low, whole.high, whole.values, whole.nulls) == (100, 100, 4, 0)
    (text,) = found["p1", "b"]
    assert (text.values, text.nulls) == (4, 1)
    assert all(each.is_tight for records in found.values() for each in records)
    (real,) = found["p0", "real"]
    assert real.low == 1.0
    assert math.isnan(float(str(real.high)))


def test_partition_that_is_being_built_is_not_used(tmp_path: Path) -> None:
    """T-I15: reads take it once the table's properties say that it is complete."""
    measured = Measured(tmp_path / "t")
    measured.upsert(0, 8)
    measured.init()
    where = filters.parse("whole > 100")
    opened = table.open_table(str(measured.small.path), measured.small.env)
    assert not opened.explain_read(where=where).steps[-1].left
    changes = {
        table_config.METADATA_PARTITIONS_KEY: "files",
        table_config.METADATA_PARTITIONS_INFLIGHT_KEY: f"{COLUMN_STATS},{PARTITION_STATS}",
    }
    storage = measured.small.env.open_storage(str(measured.small.path))
    table_properties.update(storage, changes, measured.small.env.clock, lambda: None)
    opened = table.open_table(str(measured.small.path), measured.small.env)
    found = opened.explain_read(where=where)
    assert found.has_metadata_table
    assert [each.skipped for each in found.steps] == [0] * len(found.steps)
    assert "the table does not have them" in {each.unused for each in found.steps}


def test_empty_table_gets_partitions_that_writes_fill(tmp_path: Path) -> None:
    """T-M05: all of them at once, by who asks for them."""
    measured = Measured(tmp_path / "t")
    measured.init()
    assert measured.small.table.config.metadata_partitions == (
        "column_stats",
        "files",
        "partition_stats",
    )
    assert not measured.columns()
    measured.upsert(0, 2)
    assert measured.columns()
    assert measured.partitions()
    measured.check()


def test_files_alone_on_request(tmp_path: Path) -> None:
    measured = Measured(tmp_path / "t")
    measured.upsert(0, 4)
    measured.init(has_statistics=False)
    assert measured.small.table.config.metadata_partitions == ("files",)
    assert not (measured.small.path / index_definitions.PATH).exists()
    measured.check()


@pytest.mark.parametrize("is_made_first", [True, False])
def test_file_group_without_rows_has_no_statistics(tmp_path: Path, *, is_made_first: bool) -> None:
    """Its base file has no row group."""
    measured = Measured(tmp_path / "t", COPY_ON_WRITE)
    measured.upsert(0, 1)
    if is_made_first:
        measured.init()
    rows = measured.small.rows()
    measured.small.delete(
        [{name: row[name] for name in ("id", "part")} for row in rows], **measured.more
    )
    assert measured.small.rows() == []
    if not is_made_first:
        measured.init()
    measured.check()


def test_definitions_come_and_go_with_the_metadata_table(tmp_path: Path) -> None:
    measured = Measured(tmp_path / "t")
    for _ in range(2):
        measured.init()
        definitions = json.loads((measured.small.path / index_definitions.PATH).read_bytes())
        (definition,) = definitions["indexDefinitions"].values()
        assert definition["sourceFields"][3:] == ["id", "part", "a", "b", *TYPES]
        key = table_config.INDEX_DEFINITIONS_PATH_KEY
        assert measured.small.table.config.properties[key] == index_definitions.PATH
        transaction = measured.small.options().transaction
        measured.small.table.drop_metadata(transaction)
        measured.small.table = table.open_table(str(measured.small.path), measured.small.env)
        assert key not in measured.small.table.config.properties


def test_files_that_are_older_than_a_column_have_nulls_in_it(tmp_path: Path) -> None:
    measured = Measured(tmp_path / "t")
    measured.upsert(0, 4)
    assert measured.small.compact() is not None
    measured.grow(pa.table({"id": ["9"], "part": ["p0"], "added": ["x"], "whole": [2**40]}))
    measured.init()
    found = measured.columns()
    added = [each for (_, column), each in found.items() if column == "added"]
    assert max((str(each.low), each.values, each.nulls) for each in added) == ("x", 1, 0)
    assert {each.low for each in added if each.nulls == each.values} == {None}
    assert {each.low for each in added if each.nulls != each.values} == {"x"}
    widened = [each for (_, column), each in found.items() if column == "whole"]
    assert {each.kind for each in widened} == {Wrapper.LONG}
    assert 2**40 in {each.high for each in widened}
    measured.check()


@pytest.mark.parametrize("kind", ["mor", "cow", "chain, ours alone"])
def test_what_completes_meanwhile_is_added_under_the_lock(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = Measured(tmp_path / "t", KINDS[kind])
    measured.upsert(0, 4)
    written: list[str] = []
    interfere(monkeypatch, lambda: written.extend(measured.upsert(2, 8, whole=1000)))
    measured.init()
    found = measured.columns()
    assert written
    assert {found[name, "whole"].high for name in written} == {1000}
    partitions = measured.partitions()
    assert [partitions[path, "whole"][-1].high for path in ("p0", "p1")] == [1000, 1000]
    measured.check()


def interfere(monkeypatch: pytest.MonkeyPatch, what: Callable[[], object]) -> None:
    """Do something right after the first look at a table, and after what completed since."""
    catch_up = initialising._catch_up
    is_done: list[bool] = []

    def catch_up_and(*arguments: object) -> None:
        catch_up(*arguments)
        if not is_done:
            is_done.append(True)
            what()

    monkeypatch.setattr(initialising, "_catch_up", catch_up_and)


def test_column_that_is_added_meanwhile_has_statistics_in_all_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = Measured(tmp_path / "t")
    measured.upsert(0, 4)
    rows = pa.table({"id": ["9"], "part": ["p0"], "added": ["x"]})
    interfere(monkeypatch, lambda: measured.grow(rows))
    measured.init()
    found = measured.columns()
    names = {name for name, _ in found}
    assert {name for name, column in found if column == "added"} == names
    measured.check()


def test_records_of_a_widened_column_are_tight_where_an_older_one_is_of_another_type(
    subtests: pytest.Subtests, tmp_path: Path
) -> None:
    for kind in ("mor", "cow", "version 8", "chain, ours alone"):
        with subtests.test(kind):
            measured = Measured(tmp_path / kind, KINDS[kind])
            measured.init()
            measured.upsert(0, 4)
            measured.grow(pa.table({"id": ["0"], "part": ["p0"], "whole": [2**40]}))
            measured.upsert(0, 2, whole=5)  # Of p1, which has not been written to since.
            if not measured.small.table.config.is_copy_on_write:
                assert measured.small.compact() is not None
            found = measured.partitions()
            assert all(map(can_be_merged_by_apache_hudi, found.values()))
            for path, high in (("p0", 2**40), ("p1", 5)):
                records = found[path, "whole"]
                assert {each.kind for each in records} == {Wrapper.INT, Wrapper.LONG}
                merged = functools.reduce(partition_statistics.merged, records)
                assert (merged.low, merged.high) == (int(path[1]), high)
                (first,) = [each for each in records if each.is_tight]
                assert first.low == int(path[1])
            assert not any(each.is_tight for each in found["p0", "b"])
            measured.check()


def test_writer_whose_records_a_tight_one_would_hide_is_refused(tmp_path: Path) -> None:
    measured = Measured(tmp_path / "t")
    measured.init()
    measured.upsert(0, 4)
    earlier = Pending(measured, "earlier", [{"id": "2", "part": "p0", "whole": -7}])
    elsewhere = Pending(measured, "elsewhere", [{"id": "x", "part": "p2", "whole": 6}])
    measured.more = BESIDE
    measured.grow(pa.table({"id": ["0"], "part": ["p0"], "whole": [2**40]}))
    with pytest.raises(errors.WriteConflictError, match="write the batch again"):
        earlier.complete()
    elsewhere.complete()
    measured.upsert(2, 3, whole=-7)
    found = measured.partitions()["p0", "whole"]
    assert can_be_merged_by_apache_hudi(found)
    assert functools.reduce(partition_statistics.merged, found).low == -7


def test_writer_that_began_beside_one_that_widens_adds_a_record_of_the_wider_type(
    tmp_path: Path,
) -> None:
    measured = Measured(tmp_path / "t")
    measured.init()
    measured.upsert(0, 4)
    small = measured.small
    small.table = table.open_table(str(small.path), small.env)
    wide = pa.table({"id": ["0"], "part": ["p0"], "whole": [2**40]})
    grown = schema_evolution.merged(small.table.schema, wide.schema)
    options = small.options("wide", **BESIDE, **GROWS)
    session = small.table.begin_write(options, wide.column_names, grown)
    narrow = Pending(measured, "narrow", [{"id": "2", "part": "p0", "whole": -7}])
    batch = batches.prepare(
        wide, small.table.config, session.task.schema, session.task.operation, fills_columns=True
    )
    storage = small.env.open_storage(str(small.path))
    session.commit(
        tasks.run(session.task, batch, write_task.WriteToken(), storage, small.env.engine)
    )
    narrow.complete()
    found = measured.partitions()["p0", "whole"]
    assert can_be_merged_by_apache_hudi(found)
    assert [(each.kind, each.low, each.high, each.is_tight) for each in found] == [
        (Wrapper.INT, 0, 2, False),
        (Wrapper.LONG, 0, 2**40, True),
        (Wrapper.LONG, -7, 2**40, True),
    ]


def test_no_older_record_is_read_where_no_column_was_widened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = Measured(tmp_path / "t")
    measured.init()
    with monkeypatch.context() as patch:
        patch.setattr(metadata_table, "MetadataTable", None)  # Which would be opened.
        measured.upsert(0, 4)
    assert measured.partitions()


class Broken(Exception):  # noqa: N818 - none that the library handles
    """Ends a process."""


@pytest.mark.parametrize("kind", ["mor", "chain, ours alone"])
def test_what_ends_at_any_change_of_the_storage_is_made_by_the_next_one(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Measured(tmp_path / "made", replace(KINDS[kind], bucket_count=1))
    made.upsert(0, 1)
    number, ended = 0, True
    while ended:
        path = tmp_path / str(number)
        shutil.copytree(made.small.path, path)
        measured = Measured.of(path, made)
        with monkeypatch.context() as patch:
            ended = ends_at(patch, number, measured.init)
        measured.small.table = table.open_table(str(path), measured.small.env)
        if not measured.small.table.config.metadata_partitions:
            # Where an epoch had made it, the lock's next holder publishes that.
            with contextlib.suppress(errors.ConflictError):
                measured.init()
            measured.small.table = table.open_table(str(path), measured.small.env)
        measured.upsert(0, 1, a=7)
        assert [row["a"] for row in measured.small.rows()] == [7]
        measured.check()
        number += 1
    assert number > 20


def ends_at(patch: pytest.MonkeyPatch, number: int, what: Callable[[], object]) -> bool:
    """Do something that ends at a change of the storage; return whether it had so many."""
    count = itertools.count()
    for name in ("create", "replace", "open_write", "delete", "delete_directory"):
        change = getattr(local.LocalStorage, name)

        def changed(
            self: local.LocalStorage,
            path: str,
            *rest: object,
            change: Callable[..., object] = change,
            **named: object,
        ) -> object:
            if not path.startswith(".hoodie/lock") and next(count) == number:
                raise Broken(path)
            return change(self, path, *rest, **named)

        patch.setattr(local.LocalStorage, name, changed)
    try:
        what()
    except Broken:
        return True
    return False


def test_writer_whose_values_a_tight_record_includes_is_not_refused(tmp_path: Path) -> None:
    measured = Measured(tmp_path / "t")
    measured.init()
    measured.upsert(0, 4)
    earlier = Pending(measured, "earlier", [{"id": "2", "part": "p0", "whole": 1}])
    measured.more = BESIDE
    measured.grow(pa.table({"id": ["0"], "part": ["p0"], "whole": [2**40]}))
    earlier.complete()
    assert can_be_merged_by_apache_hudi(measured.partitions()["p0", "whole"])
    measured.check()


def test_files_of_one_name_in_several_partitions_have_no_statistics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the names alone, Apache Hudi finds those of either."""
    measured = Measured(tmp_path / "t", replace(CONFIG, bucket_count=1))
    with monkeypatch.context() as patch:
        patch.setattr(file_names, "write_token", lambda *_: "0-0-0")
        repeated = measured.upsert(0, 4)
    others = measured.upsert(0, 4)
    assert len(set(repeated)) == 1
    measured.init()
    assert {name for name, _ in measured.columns()} == set(others)
    assert len(measured.partitions()) == 2 * len(measured.small.table.schema.arrow) + 2 * 3
    measured.check()


def test_file_whose_rows_are_elsewhere_has_no_statistics(tmp_path: Path) -> None:
    """Its columns are not null, though the file lacks them."""
    skeleton = file_names.parse(f"p/f_1-0-1_{files.METADATA_BOOTSTRAP_TIME}.parquet", 1)
    assert isinstance(skeleton, files.BaseFile)
    storage = environment.system(parallelism=1).open_storage(str(tmp_path))
    source = statistics_reading.Source(storage, pa.schema([]), NOTHING, lambda _: True)
    with pytest.raises(errors.UnsupportedError, match="METADATA_ONLY bootstrap"):
        statistics_reading.of_file(source, skeleton)
