"""Filters on columns whose texts of times are partition paths never leave out a row's partition."""

from dataclasses import replace

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hoodie.model import predicates, table_config
from hoodie.model.predicates import Comparator, Compare, In
from hoodie.read import pruning
from hoodie.write import keys

PREFIX = "hoodie.keygen.timebased."
PLAIN = table_config.TableConfig(
    name="t", record_key_fields=("id",), partition_fields=("at",), bucket_count=1
)
COLUMNS = pa.schema([("id", pa.string()), ("at", pa.int64())])
PATTERNS = (
    "yyyy/MM/dd",
    "yyyyMMddHH",
    "yyyy-DDD",
    "yyyy-MM-dd HH:mm:ss.SSS",
    "d-M-yyyy",
    "HH",
    "yyyy",
)
ZONES = ("UTC", "GMT+8:00", "GMT-3:30", "Europe/Berlin", "America/New_York")
KINDS = ("UNIX_TIMESTAMP", "EPOCHMILLISECONDS", "EPOCHMICROSECONDS")
# About a change of clocks, the epoch, and a new year.
NEAR = st.builds(
    lambda place, off: place + off,
    st.sampled_from([0, 1_711_846_800, 1_729_990_800, 1_735_689_600]),
    st.integers(-90_000, 90_000),
)
VALUES = st.one_of(NEAR, NEAR.map(lambda each: each * 1000), st.integers(-(2**63), 2**63 - 1))


@st.composite
def tables(draw: st.DrawFn) -> table_config.TableConfig:
    return replace(
        PLAIN,
        is_hive_style=draw(st.booleans()),
        is_url_encoded=draw(st.booleans()),
        properties={
            "hoodie.table.keygenerator.type": "TIMESTAMP",
            f"{PREFIX}timestamp.type": draw(st.sampled_from(KINDS)),
            f"{PREFIX}output.dateformat": draw(st.sampled_from(PATTERNS)),
            f"{PREFIX}output.timezone": draw(st.sampled_from(ZONES)),
        },
    )


@st.composite
def filters(draw: st.DrawFn) -> predicates.Predicate:
    if draw(st.booleans()):
        return In("at", tuple(draw(st.lists(VALUES, max_size=3))))
    return Compare("at", draw(st.sampled_from(list(Comparator))), draw(VALUES))


@given(config=tables(), values=st.lists(VALUES, min_size=1, max_size=30), some=filters())
def test_partition_of_a_row_that_the_filter_keeps_is_left(
    config: table_config.TableConfig, values: list[int], some: predicates.Predicate
) -> None:
    places = keys.Places(config, COLUMNS)
    of_each = {value: found[0] for value in values if (found := places.of([value])) is not None}
    rows = pa.table({"at": pa.array(list(of_each), pa.int64())})
    kept = rows.filter(predicates.to_expression(some, COLUMNS)).column("at").to_pylist()
    paths = sorted(set(of_each.values()))
    left = pruning.partitions_of_values(paths, some, config, COLUMNS, places)
    assert {of_each[value] for value in kept} <= set(left)
