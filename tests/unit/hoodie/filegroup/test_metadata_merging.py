"""Compactions of the partition `bloom_filters`: in pieces, since filters are long."""

from collections.abc import Mapping

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hoodie.filegroup import (
    metadata_merging,
    metadata_records,
    metadata_table,
    metadata_writing,
)
from hoodie.format import file_names, metadata_avro, metadata_schemas
from hoodie.format.bloom_filters import StoredFilter
from hoodie.model import file_statistics, files, instants
from hoodie.storage.memory import MemoryStorage, MemoryStore
from support.simulation import schedule

BASE_TIME = instants.InstantTime("20260101000000000")
TIMES = [instants.InstantTime(f"2026010{day}000000000") for day in (2, 3)]
GROUP = files.FileGroupId(
    partition_path=file_statistics.BLOOM_FILTERS, file_id="bloom-filters-0000-0"
)
TEXT_BYTES = 300_000
"""So that a block has three of them."""

Filters = Mapping[str, int | None]
"""By key a digit that the filter consists of; None where the file is gone."""


def encoded(filters: Filters, time: str) -> dict[str, bytes]:
    return {
        key: metadata_avro.encode_bloom_filter(
            None
            if digit is None
            else StoredFilter(type_code="SIMPLE", text=b"%d" % digit * TEXT_BYTES),
            time,
        )
        for key, digit in filters.items()
    }


def partition_of(base: Filters, logs: list[Filters]) -> metadata_table.Partition:
    storage = MemoryStorage(MemoryStore(schedule.VirtualClock(schedule.Schedule())))
    token = file_names.write_token(0, 0, 0)
    records = metadata_merging.table(encoded(base, BASE_TIME))
    stats = [metadata_writing.write_base(storage, GROUP, BASE_TIME, token, records, 1)]
    for time, filters in zip(TIMES, logs, strict=False):
        if filters:
            log = metadata_records.Added(table=metadata_merging.table(encoded(filters, time)))
            stats.append(metadata_writing.write_log(storage, GROUP, time, token, log, 1))
    parsed = [
        file_names.parse_new(stat.path, stat.size_bytes, metadata_table.EXTENSION) for stat in stats
    ]
    file_slice = files.FileSlice(
        group=GROUP,
        base_instant_time=BASE_TIME,
        base_file=next(each for each in parsed if isinstance(each, files.BaseFile)),
        log_files=tuple(each for each in parsed if isinstance(each, files.LogFile)),
    )
    return metadata_table.Partition(storage, [file_slice], lambda _: True, 0)


KEYS = [f"{number:02}" for number in range(12)]
DIGITS = st.one_of(st.none(), st.integers(0, 9))


@given(
    st.dictionaries(st.sampled_from(KEYS), st.integers(0, 9)),
    st.lists(st.dictionaries(st.sampled_from(KEYS), DIGITS), max_size=2),
)
def test_newest_filter_of_each_file_that_is_there_is_kept_in_order(
    base: dict[str, int], logs: list[Filters]
) -> None:
    expected: dict[str, int | None] = {**base}
    for filters in logs:
        expected |= filters
    partition = partition_of(base, logs)
    pieces = list(metadata_merging.merged_in_pieces(file_statistics.BLOOM_FILTERS, partition))
    merged = pa.concat_tables([metadata_merging.SCHEMA.empty_table(), *pieces])
    assert merged == metadata_merging.merged(file_statistics.BLOOM_FILTERS, partition)
    assert [key.decode() for key in merged.column("key").to_pylist()] == sorted(
        key for key, digit in expected.items() if digit is not None
    )
    for row in merged.to_pylist():
        value = metadata_avro.Value(row["value"], metadata_schemas.RECORD.text)
        stored = metadata_avro.decode_bloom_filter(value, "test")
        digit = expected[row["key"].decode()]
        assert stored is not None
        assert digit is not None
        assert stored.text == b"%d" % digit * TEXT_BYTES


def test_piece_has_the_filters_of_a_block() -> None:
    partition = partition_of(dict.fromkeys(KEYS, 1), [{"03": 2, "99": 3}])
    pieces = list(metadata_merging.merged_in_pieces(file_statistics.BLOOM_FILTERS, partition))
    assert max(piece.num_rows for piece in pieces) <= 4
    assert sum(piece.num_rows for piece in pieces) == len(KEYS) + 1


def test_base_file_of_pieces_is_that_of_a_whole_table() -> None:
    storage = MemoryStorage(MemoryStore(schedule.VirtualClock(schedule.Schedule())))
    records = metadata_merging.table(encoded(dict.fromkeys(KEYS, 1), BASE_TIME))
    contents = []
    for number, some in enumerate((iter([records.slice(0, 5), records.slice(5)]), records)):
        token = file_names.write_token(number, 0, 0)
        stat = metadata_writing.write_base(storage, GROUP, BASE_TIME, token, some, 1)
        assert stat.records == len(KEYS)
        contents.append(bytes(storage.read(stat.path)))
    assert contents[0] == contents[1]
