"""What is added to a metadata table, divided over file groups."""

import pyarrow as pa

from hoodie.filegroup import metadata_merging, metadata_records

FILTER_BYTES = 430_000


def test_more_records_than_an_array_of_arrow_holds_are_divided() -> None:
    """As of a commit of some thousand base files with bloom filters of 60,000 keys."""
    some = pa.array([b"x" * FILTER_BYTES] * 1_000, pa.binary())
    values = pa.chunked_array([some] * 5)
    assert values.nbytes > 2**31
    keys = pa.array([f"{number:04d}".encode() for number in range(5_000)])
    table = pa.Table.from_arrays([pa.chunked_array([keys]), values], schema=metadata_merging.SCHEMA)
    parts = metadata_records.Added(table=table).split(4)
    divided = [part.table.column("key").to_pylist() for part in parts.values()]
    assert all(found == sorted(found) for found in divided)
    assert sorted(key for found in divided for key in found) == keys.to_pylist()
