"""Compare two tables row by row, whatever order and physical types they come in."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

DIFFERENCES_SHOWN_MAX = 5


def assert_same_rows(actual: pa.Table, expected: pa.Table, key: Sequence[str]) -> None:
    """Fail unless both hold the same rows in the same columns, in any order of either.

    Columns are compared after `canonical`, types too; NaN equals NaN. The message names the columns
    that differ and shows a few rows of each side.
    """
    assert sorted(actual.column_names) == sorted(expected.column_names)
    ours = canonical(actual.select(expected.column_names), key)
    theirs = canonical(expected, key)
    for mine, other in zip(ours.schema, theirs.schema, strict=True):
        # The inner fields of nested types have names that differ from reader to reader.
        assert pa.types.is_nested(other.type) or mine.type == other.type, (
            f"column {other.name} has type {mine.type} instead of {other.type}"
        )
    ours = ours.cast(theirs.schema)
    assert ours.num_rows == theirs.num_rows, (
        f"{ours.num_rows} rows instead of {theirs.num_rows}; {_key_difference(ours, theirs, key)}"
    )
    for name in expected.column_names:
        differs = _differs(ours[name], theirs[name])
        if not differs:
            continue
        shown = differs[:DIFFERENCES_SHOWN_MAX]
        columns = list(dict.fromkeys([*key, name]))
        raise AssertionError(
            f"column {name} differs in {len(differs)} of {ours.num_rows} rows;\n"
            f" actual   {ours.select(columns).take(shown).to_pylist()}\n"
            f" expected {theirs.select(columns).take(shown).to_pylist()}"
        )


def canonical(table: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return the table sorted by key, with plain types: no dictionaries, no large or view types."""
    fields = [pa.field(field.name, _plain(field.type)) for field in table.schema]
    plain = table.cast(pa.schema(fields))
    return plain.sort_by([(name, "ascending") for name in key]).combine_chunks()


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz=kind.tz)
    return kind


def _differs(left: pa.ChunkedArray, right: pa.ChunkedArray) -> list[int]:
    if left.equals(right):
        return []
    if pa.types.is_nested(left.type):
        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        return [row for row, (a, b) in enumerate(pairs) if a != b]
    same = pc.fill_null(pc.equal(left, right), fill_value=False)
    same = pc.or_(same, pc.and_(pc.is_null(left), pc.is_null(right)))
    if pa.types.is_floating(left.type):
        both_nan = pc.and_(pc.is_nan(left), pc.is_nan(right))
        same = pc.or_(same, pc.fill_null(both_nan, fill_value=False))
    rows: list[int] = pc.indices_nonzero(pc.invert(same)).to_pylist()
    return rows


def _key_difference(ours: pa.Table, theirs: pa.Table, key: Sequence[str]) -> str:
    mine = {tuple(row.values()) for row in ours.select(list(key)).to_pylist()}
    other = {tuple(row.values()) for row in theirs.select(list(key)).to_pylist()}
    missing = sorted(map(str, other - mine))[:DIFFERENCES_SHOWN_MAX]
    extra = sorted(map(str, mine - other))[:DIFFERENCES_SHOWN_MAX]
    return f"missing keys {missing}, keys too many {extra}"
