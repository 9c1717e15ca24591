"""Rows of the table as a grid."""

import pyarrow as pa
import pyarrow.compute as pc

from hoodie.cli import grids

NULL = "null"
_CELL_LENGTH_MAX = 200
_COLUMN_WIDTH_MIN = 8


def grid(data: pa.Table) -> grids.Grid:
    """Return rows as texts; long ones are cut, null is shown dim."""
    columns = tuple(
        grids.Column(
            heading=field.name,
            importance=0 if index else None,
            is_number=_is_number(field.type),
            width_min=None if _is_number(field.type) else _COLUMN_WIDTH_MIN,
            styles={NULL: "dim"},
        )
        for index, field in enumerate(data.schema)
    )
    cells = [_cells(column) for column in data.columns]
    return grids.Grid(columns=columns, rows=tuple(zip(*cells, strict=True)))


def _cells(column: pa.ChunkedArray) -> list[str]:
    return [_cell(value) for value in _texts(column)]


def _texts(column: pa.ChunkedArray) -> list[object]:
    try:
        return list(pc.cast(column, pa.string()).to_pylist())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        # Nested columns, and bytes that are no UTF-8.
        return list(column.to_pylist())


def _cell(value: object) -> str:
    text = NULL if value is None else str(value)
    return text if len(text) <= _CELL_LENGTH_MAX else f"{text[: _CELL_LENGTH_MAX - 1]}…"


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )
