"""Mirrors of tables, as PyIceberg reads them."""

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.table import StaticTable

from hoodie import table as hoodie_table


def opened(folder: Path) -> StaticTable:
    """Open a mirror as somebody who knows nothing of Hudi does: by the table's folder."""
    return StaticTable.from_metadata(str(folder))


def rows(folder: Path, snapshot_id: int | None = None) -> list[dict[str, Any]]:
    """Return the rows of a mirror, sorted."""
    return in_order(opened(folder).scan(snapshot_id=snapshot_id).to_arrow())


def optimized(found: hoodie_table.Table) -> list[dict[str, Any]]:
    """Return the rows of a read-optimized read, sorted."""
    return in_order(found.read(is_read_optimized=True).read_all())


def in_order(found: pa.Table) -> list[dict[str, Any]]:
    """Return rows in an order that does not depend on that of files."""
    return sorted(found.to_pylist(), key=repr)
