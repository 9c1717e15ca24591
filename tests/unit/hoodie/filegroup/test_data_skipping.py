"""What statistics leave out, and when they are not relied on."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from hoodie import table
from hoodie.filegroup import (
    column_ranges,
    data_skipping,
    metadata_merging,
    metadata_records,
    metadata_table,
    metadata_writing,
)
from hoodie.format import (
    file_names,
    metadata_avro,
    metadata_columns,
    metadata_schemas,
)
from hoodie.format.metadata_avro import RecordType
from hoodie.model import files, instants, table_config
from hoodie.model.file_statistics import COLUMN_STATS, PARTITION_STATS, ColumnStatistics
from hoodie.model.value_wrappers import Wrapper
from hoodie.read import planning, where
from hoodie.read.planning import Means
from hoodie.services import metadata_tables
from hoodie.storage import memory
from hoodie.timeline import active, metadata_timelines
from hoodie.write import sessions
from support.tables.indexed_tables import put_indexing
from support.tables.tables import CONFIG, Rows, SmallTable

SCHEMA = pa.schema([("c", pa.int64()), ("s", pa.string()), ("d", pa.float64())])
STATED = ColumnStatistics(
    file_name="f", column="c", low=1, high=3, kind=Wrapper.LONG, values=4, nulls=0
)
Logs = Sequence[Sequence[tuple[str, ColumnStatistics]]]
"""What log files have, one after the other: partitions of the data table and statistics."""


class OfLogs(metadata_table.MetadataTable):
    """A metadata table that every write kept up."""

    def __init__(self, logs: Logs) -> None:
        self._logs = logs

    def overtaken(self) -> None:
        """Return nothing."""

    def check_is_kept_up(self, partition: str) -> None:
        """Check nothing."""

    def check_is_not_rolled_back(self, partition: str) -> None:
        """Check nothing."""

    def latest_slices(self, partition: str) -> list[files.FileSlice]:
        """Return nothing that was not made."""
        return []

    def partition(self, name: str, *, is_held: bool = True) -> metadata_table.Partition:
        storage = memory.MemoryStorage()
        group = files.FileGroupId(partition_path=name, file_id="group-0000-0")
        logs = []
        for number, of_log in enumerate(self._logs):
            time = instants.checked_time(f"{number:017}")
            by_key = dict(record(name, path, each) for path, each in of_log)
            records = metadata_records.Added(table=metadata_merging.table(by_key))
            stat = metadata_writing.write_log(storage, group, time, "0-0-0", records, 1)
            parsed = file_names.parse_new(stat.path, stat.size_bytes)
            assert isinstance(parsed, files.LogFile)
            logs.append(parsed)
        only = files.FileSlice(
            group=group,
            base_instant_time=logs[0].instant_time,
            base_file=None,
            log_files=tuple(logs),
        )
        return metadata_table.Partition(storage, [only], lambda _: True, 0)


def record(name: str, path: str, statistics: ColumnStatistics) -> tuple[str, bytes]:
    if name == COLUMN_STATS:
        key = metadata_avro.statistics_key(statistics, path)
        return key, metadata_avro.encode_statistics(statistics, RecordType.COLUMN_STATS)
    key = metadata_avro.statistics_prefix(statistics.column, path)
    return key, metadata_avro.encode_statistics(statistics, RecordType.PARTITION_STATS)


def slice_of(path: str, *names: str) -> files.FileSlice:
    group = files.FileGroupId(partition_path=path, file_id="g")
    time = instants.checked_time("20260101000000000")
    logs = [
        files.LogFile(
            group=group, name=name, instant_time=time, version=1, write_token="", size_bytes=1
        )
        for name in names
    ]
    return files.FileSlice(
        group=group, base_instant_time=time, base_file=None, log_files=tuple(logs)
    )


def matching_slices(logs: Logs, slices: Sequence[files.FileSlice], text: str) -> list[bool]:
    return data_skipping.matching_slices(
        OfLogs(logs), slices, where.parse(text), SCHEMA, is_shared=False
    )


def matching_partitions(logs: Logs, paths: Sequence[str], text: str) -> list[bool]:
    return data_skipping.matching_partitions(
        OfLogs(logs), paths, where.parse(text), SCHEMA, is_shared=False
    )


def test_files_of_one_name_in_two_partitions_are_two_files() -> None:
    logs = [[("p", STATED), ("q", replace(STATED, low=8, high=9))]]
    slices = [slice_of("p", "f"), slice_of("q", "f")]
    assert matching_slices(logs, slices, "c = 2") == [True, False]
    assert matching_slices(logs, slices, "c = 8") == [False, True]


def test_slice_with_a_file_without_statistics_is_read() -> None:
    slices = [slice_of("p", "f"), slice_of("p", "f", "g"), slice_of("p", "g")]
    assert matching_slices([[("p", STATED)]], slices, "c = 9") == [False, True, True]


def test_ranges_of_the_files_of_a_slice_are_joined() -> None:
    later = replace(STATED, file_name="g", low=7, high=9, nulls=1)
    logs = [[("p", STATED)], [("p", later)]]
    found = [slice_of("p", "f", "g")]
    for text, expected in {"c < 2": True, "c = 9": True, "c > 9": False, "c is null": True}.items():
        assert matching_slices(logs, found, text) == [expected], text


def test_records_that_differ_or_are_not_numbers_are_not_relied_on() -> None:
    slices = [slice_of("p", "f")]
    nan = replace(STATED, column="d", low=1.0, high=float("nan"), kind=Wrapper.DOUBLE)
    assert matching_slices([[("p", STATED)], [("p", STATED)]], slices, "c = 9") == [False]
    assert matching_slices(
        [[("p", STATED)], [("p", replace(STATED, high=4))]], slices, "c = 9"
    ) == [True]
    assert matching_slices([[("p", nan)]], slices, "d < 0") == [True]
    assert matching_slices([[("p", replace(nan, high=2.0))]], slices, "d < 0") == [False]


def test_partitions_have_the_values_of_all_records() -> None:
    """Also before one that replaces them, whose writer may not have seen all of theirs."""
    logs = [[("p", STATED)], [("p", replace(STATED, low=8, high=9, is_tight=True))]]
    for text, expected in {"c = 2": True, "c = 8": True, "c > 9": False}.items():
        assert matching_partitions(logs, ["p"], text) == [expected], text


def test_partitions_without_a_record_of_a_column_are_read() -> None:
    logs = [[("p", STATED), ("q", replace(STATED, column="s", kind=None, low=None, high=None))]]
    assert matching_partitions(logs, ["o", "p", "q"], "c = 9") == [True, False, True]


def test_partitions_may_have_nulls_whatever_is_stated() -> None:
    assert matching_partitions([[("p", STATED)]], ["p"], "c is null") == [True]


def relied_on(data_type: pa.DataType, *, may_hide: bool, **stated: object) -> bool:
    """Return whether the bounds of a column are relied on."""
    written = metadata_avro.encode_statistics(replace(STATED, **stated), RecordType.COLUMN_STATS)
    statistics = metadata_columns.decode(
        pa.array([written]), metadata_schemas.RECORD.text, RecordType.COLUMN_STATS
    )
    ranges = column_ranges.stated(statistics, data_type, np.array([may_hide]))
    return bool(ranges.is_known[0])


HIDDEN = {
    "floats with a zero between": (
        pa.float64(),
        {"kind": Wrapper.DOUBLE, "low": -1.0, "high": 0.0},
    ),
    "floats without bounds": (pa.float64(), {"kind": None, "low": None, "high": None}),
    "texts beside nulls": (
        pa.string(),
        {"kind": Wrapper.STRING, "low": "a", "high": "b", "nulls": 1},
    ),
    "texts beside who knows": (
        pa.string(),
        {"kind": Wrapper.STRING, "low": "a", "high": "b", "nulls": None},
    ),
    "texts without bounds": (pa.string(), {"kind": None, "low": None, "high": None, "nulls": 4}),
}


@pytest.mark.parametrize("case", HIDDEN)
def test_ranges_that_a_footer_may_hide_values_from_are_not_relied_on(case: str) -> None:
    data_type, stated = HIDDEN[case]
    assert not relied_on(data_type, may_hide=True, **stated)
    assert relied_on(data_type, may_hide=False, **stated)


def test_ranges_that_hide_nothing_are_relied_on() -> None:
    positive = {"kind": Wrapper.DOUBLE, "low": 0.5, "high": 2.0, "nulls": 1}
    assert relied_on(pa.float64(), may_hide=True, **positive)
    text = {"kind": Wrapper.STRING, "low": "a", "high": "b"}
    assert relied_on(pa.string(), may_hide=True, **text)
    assert relied_on(pa.int64(), may_hide=True, nulls=4)


MISFITS = {
    "texts for numbers": (pa.int64(), {"kind": Wrapper.STRING, "low": "a", "high": "b"}),
    "numbers beyond the type": (pa.int32(), {"high": 2**31}),
    "numbers for floats": (pa.float64(), {}),
    "decimals of another scale": (
        pa.decimal128(9, 2),
        {
            "kind": Wrapper.BYTES,
            "low": b"\x01",
            "high": b"\x02",
            "value_type": 10,
            "type_info": "9,3",
        },
    ),
    "decimals of too many digits": (
        pa.decimal128(3, 2),
        {
            "kind": Wrapper.BYTES,
            "low": b"\x01",
            "high": b"\x7f\xff",
            "value_type": 10,
            "type_info": "9,2",
        },
    ),
    "milliseconds": (pa.timestamp("us", "UTC"), {"value_type": 15}),
}


@pytest.mark.parametrize("case", MISFITS)
def test_bounds_of_another_type_are_not_relied_on(case: str) -> None:
    data_type, stated = MISFITS[case]
    assert not relied_on(data_type, may_hide=False, **stated)


def test_decimals_are_those_of_their_scale() -> None:
    stated = replace(
        STATED,
        column="n",
        low=b"\xfe\x0c",
        high=b"\x00\xff",
        kind=Wrapper.BYTES,
        value_type=10,
        type_info="9,2",
    )
    schema = SCHEMA.append(pa.field("n", pa.decimal128(12, 2)))
    for text, expected in {
        "n < -5": False,
        "n = -5": True,
        "n = 2.55": True,
        "n > 2.55": False,
    }.items():
        found = data_skipping.matching_slices(
            OfLogs([[("p", stated)]]),
            [slice_of("p", "f")],
            where.parse(text),
            schema,
            is_shared=True,
        )
        assert found == [expected], text


def test_floats_are_compared_as_they_are_read_in_a_wider_column() -> None:
    single = float(np.float32(0.1))
    logs = [[("p", replace(STATED, column="d", low=single, high=single, kind=Wrapper.FLOAT))]]
    assert matching_slices(logs, [slice_of("p", "f")], "d = 0.1") == [True]
    assert matching_slices(logs, [slice_of("p", "f")], "d > 0.1") == [False]


class Kept:
    """A table with statistics that its writes keep up."""

    def __init__(self, path: Path, config: table_config.TableConfig) -> None:
        self.small = SmallTable(path, config)
        self.small.table.initialise_metadata(self.small.options().transaction)
        self.reopen()
        for number in range(3):
            self.small.upsert(rows_of(number))

    def reopen(self) -> None:
        self.small.table = table.open_table(str(self.small.path), self.small.env)

    def plan(self, text: str) -> planning.Plan:
        return self.small.table.explain_read(where=where.parse(text))

    def by_partition_statistics(self, text: str) -> planning.Step:
        return self.plan(text).step(Means.PARTITION_STATISTICS)

    def logs(self, partition: str) -> list[Path]:
        folder = self.small.path / metadata_timelines.DIRECTORY / partition
        return sorted(each for each in folder.glob(".*.log.*"))


def rows_of(number: int) -> Rows:
    return [{"id": str(number), "part": f"p{number}", "a": number, "b": "x"}]


OURS = replace(CONFIG, chain=table_config.ChainName(id="c"), has_foreign_writers=False)


@pytest.mark.parametrize("config", [CONFIG, OURS])
def test_partition_statistics_leave_out_partitions(
    config: table_config.TableConfig, tmp_path: Path
) -> None:
    step = Kept(tmp_path / "t", config).by_partition_statistics("a = 1")
    assert (step.considered, step.left, step.unused) == (3, 1, None)


def test_partition_statistics_that_a_write_did_not_add_to_are_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept = Kept(tmp_path / "t", CONFIG)
    kept.small.upsert([{"id": "0", "part": "p0", "a": 9, "b": "x"}])
    kept.logs(PARTITION_STATS)[-1].unlink()
    with caplog.at_level(logging.WARNING, "hoodie"):
        step = kept.by_partition_statistics("a = 9")
    assert step.skipped == 0
    assert "has no log file of" in str(step.unused)
    assert "partition statistics are not used" in caplog.text
    assert [row["a"] for row in kept.small.rows(where=where.parse("a = 9"))] == [9]


@pytest.mark.parametrize("name", [COLUMN_STATS, PARTITION_STATS])
def test_partition_statistics_are_not_used_once_apache_hudi_rolled_an_index_back(
    name: str, tmp_path: Path
) -> None:
    """What it makes at the time of an indexing action lacks its base files then."""
    kept = Kept(tmp_path / "t", CONFIG)
    time = put_indexing(kept.small)
    prefix = kept.logs(name)[0].name.partition("_")[0]
    first = kept.logs(name)[0].with_name(f"{prefix}_{time}.log.1_0-0-0")
    assert kept.by_partition_statistics("a = 1").unused is None
    first.write_bytes(b"")
    step = kept.by_partition_statistics("a = 1")
    assert f"/{name} has no base file of {time}" in str(step.unused)
    assert behind(kept) == ((name, time),)
    first.with_name(f"{prefix[1:]}_0-0-0_{time}.hfile").write_bytes(b"")
    assert kept.by_partition_statistics("a = 1").unused is None
    assert behind(kept) == ()


def behind(kept: Kept) -> Sequence[tuple[str, str]]:
    storage = kept.small.env.open_storage(str(kept.small.path))
    glance = metadata_tables.glance(storage, kept.small.table.config, active.listed(storage))
    assert glance is not None
    return glance.behind


def test_write_that_only_deletes_adds_nothing(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "t", CONFIG)
    before = len(kept.logs(PARTITION_STATS))
    kept.small.delete([{"id": "0", "part": "p0"}])
    assert len(kept.logs(PARTITION_STATS)) == before
    assert kept.by_partition_statistics("a = 1").unused is None


@pytest.mark.parametrize("config", [CONFIG, OURS])
def test_write_that_was_overtaken_may_be_missing_beside_other_engines(
    config: table_config.TableConfig, tmp_path: Path
) -> None:
    kept = Kept(tmp_path / "t", config)
    begun = {
        name: kept.small.table.begin_write(kept.small.options(name), ["id", "part", name])
        for name in ("a", "b")
    }
    for name in ("b", "a"):
        session = begun[name]
        assert isinstance(session, sessions.WriteSession)
        row = rows_of(2)[0]
        rows = [{each: row[each] for each in ("id", "part", name)}]
        session.commit(kept.small.write_files(session, rows))
    step = kept.by_partition_statistics("a = 1")
    if config is OURS:
        assert (step.left, step.unused) == (1, None)
    else:
        assert step.left == step.considered
        assert "completed after a write that was requested later" in str(step.unused)


def test_compaction_that_was_overtaken_is_not_missing(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "t", CONFIG)
    transaction = kept.small.options().transaction
    service = replace(transaction, author=replace(transaction.author, writer_id=None))
    planned = kept.small.table.schedule_compaction(service)
    assert planned is not None
    kept.small.upsert(rows_of(1))
    kept.small.table.compact(planned, service)
    step = kept.by_partition_statistics("a = 1")
    assert (step.left, step.unused) == (1, None)
