"""Records of statistics have the same bytes as by the schema."""

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from hoodie.format import metadata_avro, metadata_schemas, statistics_avro
from hoodie.format.metadata_avro import RecordType
from hoodie.model.file_statistics import ColumnStatistics, ValueType
from hoodie.model.value_wrappers import Wrapper

WHOLE = st.integers(-(2**63), 2**63 - 1)
BOUNDS = {
    Wrapper.BOOLEAN: st.booleans(),
    Wrapper.INT: st.integers(-(2**31), 2**31 - 1),
    Wrapper.LONG: WHOLE,
    Wrapper.FLOAT: st.floats(width=32, allow_nan=False),
    Wrapper.DOUBLE: st.floats(allow_nan=False),
    Wrapper.BYTES: st.binary(),
    Wrapper.STRING: st.text(),
}


@st.composite
def records(draw: st.DrawFn) -> ColumnStatistics:
    kind = draw(st.none() | st.sampled_from(list(BOUNDS)))
    counts = [draw(st.none() | WHOLE) for _ in range(4)]
    return ColumnStatistics(
        file_name=draw(st.text()),
        column=draw(st.text()),
        low=None if kind is None else draw(BOUNDS[kind]),
        high=None if kind is None else draw(BOUNDS[kind]),
        kind=kind,
        value_type=draw(st.none() | st.sampled_from(ValueType)),
        type_info=draw(st.none() | st.text()),
        values=counts[0],
        nulls=counts[1],
        size_bytes=counts[2],
        plain_bytes=counts[3],
        is_tight=draw(st.booleans()),
    )


@given(records(), st.sampled_from([RecordType.COLUMN_STATS, RecordType.PARTITION_STATS]))
def test_records_are_those_of_the_schema(
    statistics: ColumnStatistics, record_type: RecordType
) -> None:
    encoded = statistics_avro.encode(statistics, record_type.value)
    assert encoded is not None
    assert encoded == metadata_avro.encode_by_schema(statistics, record_type)
    value = metadata_avro.Value(encoded, metadata_schemas.RECORD.text)
    if statistics.value_type is None:
        statistics = dataclasses.replace(statistics, type_info=None)
    assert metadata_avro.decode_statistics(value, "it", record_type) == statistics
