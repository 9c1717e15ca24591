"""hudi-rs (`hudi` on PyPI), the second reader that did not come from us.

What it cannot do (0.5.0): it refuses tables of version 8 with a payload class, and returns no rows
for file groups without a base file when a metadata table lists them. There Spark is the judge.
"""

from pathlib import Path

import hudi
import pyarrow as pa

from support.peer.judge import without_meta_columns


def read_with_hudi_rs(path: Path, *, meta_columns: bool = False) -> pa.Table:
    """Return a snapshot of the table at `path`, in no particular order."""
    batches = hudi.HudiTableBuilder.from_base_uri(path.as_uri()).build().read()
    assert batches, f"hudi-rs returned neither rows nor a schema for {path}"
    table = pa.Table.from_batches(batches)
    return table if meta_columns else without_meta_columns(table)
