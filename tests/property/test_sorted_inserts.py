"""Tables that are filled by sorted bulk inserts hold what a dictionary holds, in ranges."""

import math
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie.model import commits, files, table_config
from hoodie.model import settings as write_settings
from support.tables.tables import CONFIG, SmallTable

Value = int | float | str | None

KEYS = st.integers(0, 30).map(str)
VALUES = st.tuples(
    st.none() | st.integers(-3, 3),
    st.none() | st.sampled_from(["", "a", "b", "ä"]),
    st.none() | st.sampled_from([math.nan, -math.inf, -0.0, 0.0, 1.5]),
)
ROWS = st.lists(st.tuples(KEYS, st.sampled_from("pq"), VALUES), min_size=1, max_size=40)
CONFIGS = st.sampled_from(
    [
        replace(CONFIG, table_type=kind, index=index, bucket_count=None if index else 2)
        for kind in table_config.TableType
        for index in (None, table_config.IndexKind.SIMPLE)
    ]
)
ORDERS = st.lists(st.sampled_from(["a", "b", "c"]), unique=True, max_size=3)


def place(value: Value) -> tuple[int, Value]:
    """Return what Python sorts a value by: numbers or texts, then NaN, then null."""
    if value is None:
        return (2, 0)
    if isinstance(value, float) and math.isnan(value):
        return (1, 0)
    return (0, value.encode().hex() if isinstance(value, str) else value)


@given(config=CONFIGS, rows=ROWS, sort_by=ORDERS, is_combined=st.booleans())
@settings(max_examples=60, deadline=None)
def test_sorted_table_holds_the_rows_of_the_batch_in_order(
    config: table_config.TableConfig,
    rows: list[tuple[str, str, tuple[int | None, str | None, float | None]]],
    sort_by: list[str],
    is_combined: bool,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        small = SmallTable(Path(folder) / "t", config, c="double")
        batch = [{"id": key, "part": part, "a": a, "b": b, "c": c} for key, part, (a, b, c) in rows]
        options = small.options(
            operation=commits.Operation.BULK_INSERT,
            concurrency=write_settings.ConcurrencyMode.SINGLE_WRITER,
            base_file_bytes_max=400,
            combines_inserts=is_combined,
        )
        small.table.write(small.data(batch), replace(options, sort_by=tuple(sort_by)))
        expected = list(
            {(row["id"], row["part"]): row for row in batch}.values() if is_combined else batch
        )
        if is_combined and config.has_partial_updates:
            expected = merged(batch)
        assert counted(small.rows()) == counted(expected)
        spans = [file_span(small, each.path, sort_by) for each in based(small)]
        for number, (partition, span) in enumerate(spans):
            assert span == sorted(span)
            if config.index is None or len({row["id"] for row in batch}) < len(batch):
                continue  # Files of buckets, and keys that are there twice, may overlap.
            for other_partition, other in spans[:number]:
                if other_partition == partition:
                    assert span[-1] <= other[0] or other[-1] <= span[0]
        assert small.problems() == []


def merged(batch: list[dict[str, Value]]) -> list[dict[str, Value]]:
    """Return one row a key: of each column the last value that is not null."""
    found: dict[tuple[Value, Value], dict[str, Value]] = {}
    for row in batch:
        before = found.setdefault((row["id"], row["part"]), dict.fromkeys(row))
        before |= {name: value for name, value in row.items() if value is not None}
    return list(found.values())


def counted(rows: list[dict[str, Value]]) -> Counter[str]:
    return Counter(repr(sorted(row.items())) for row in rows)


def based(small: SmallTable) -> list[files.BaseFile]:
    return [each.base_file for each in small.table.slices() if each.base_file is not None]


def file_span(
    small: SmallTable, path: str, sort_by: list[str]
) -> tuple[str, list[list[tuple[int, Value]]]]:
    found = pq.read_table(small.path / path, partitioning=None).to_pylist()
    return path.partition("/")[0], [[place(row[name]) for name in sort_by] for row in found]
