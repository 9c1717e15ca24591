"""The columns of a new table, as input files have them.

Parquet says its types. Those of CSV and JSON are what Arrow takes the first rows for, some MiB of
them; times are instants, and in UTC unless they name a zone, as `parsing` reads them. A type that
no table has becomes one that holds its values, and a note says so.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from hoodie import errors
from hoodie.contract import input_sources
from hoodie.model import column_names, column_types, schemas
from hoodie.sources import columns, local_files

_DECIMAL_DIGITS_MAX = 38
_STORED = {pa.null(): pa.string(), **column_types.HOLDERS}
_INSTANTS = pa.timestamp("us", tz="UTC")
_NO_NAME = re.compile(r"[^A-Za-z0-9_]+")
"""What is between fields in files of CSV without commas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """What files have.

    Attributes:
        schema: Columns of a table, without Hudi's own.
        notes: A sentence for each column whose type is another than the file's.
    """

    schema: pa.Schema
    notes: tuple[str, ...] = ()


def columns_of(
    files: Sequence[str], source: input_sources.Source, given: Mapping[str, pa.DataType]
) -> Columns:
    """Return the columns of all files, each as wide as all of them need.

    Args:
        files: Paths or URIs, at least one.
        source: How to read them.
        given: Types of columns that are not inferred.

    Raises:
        NotFoundError: A file does not exist.
        InvalidInputError: A file is not of its format; files have one column in types that no type
            holds; a name cannot be that of a column; a column with a given type is not there.
    """
    heads = [_renamed(local_files.schema_of(path, source), source, path) for path in files]
    try:
        found = pa.unify_schemas(heads, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise errors.InvalidInputError(
            f"{', '.join(files)}: {error}; give the column a type by --columns"
        ) from error
    if missing := [name for name in given if name not in found.names]:
        raise errors.InvalidInputError(
            f"{files[0]}, whose columns are given types: "
            f"{column_names.absence(missing[0], found.names)}"
        )
    is_typed = source.format is input_sources.SourceFormat.PARQUET
    fields, notes = [], []
    for field in found:
        if field.name in schemas.META_COLUMNS:
            continue
        kind = given.get(field.name) or _stored(field.type, is_typed=is_typed)
        fields.append(pa.field(field.name, kind))
        if field.name not in given and (note := _note(field.type, kind, is_typed=is_typed)):
            notes.append(f"column {field.name!r} {note}")
    _check_names([field.name for field in fields])
    return Columns(schema=pa.schema(fields), notes=tuple(notes))


def _renamed(schema: pa.Schema, source: input_sources.Source, path: str) -> pa.Schema:
    """Return the columns that are taken, under the names that they get.

    Raises:
        InvalidInputError: One that is asked for is not there.
    """
    found = {field.name: field for field in schema}
    chosen = columns.mapping(source) or columns.renamed(list(found), source, path)
    if missing := [name for name in chosen.values() if name not in found]:
        raise errors.InvalidInputError(f"{path}: {column_names.absence(missing[0], found)}")
    return pa.schema([found[old].with_name(name) for name, old in chosen.items()])


def _check_names(names: Sequence[str]) -> None:
    try:
        schemas.check_names(names)
    except errors.InvalidInputError as error:
        renames = " ".join(
            f"--rename '{possible}={name}'"
            for name in names
            if (possible := _possible(name)) != name
        )
        hint = f"; give columns other names by {renames}" if renames else ""
        if len(names) == 1 and (found := columns.DELIMITERS.search(names[0])):
            hint = f"; if {found[0]!r} is the delimiter, say so by --delimiter {found[0]!r}"
        raise errors.InvalidInputError(f"{error}{hint}") from error


def _possible(name: str) -> str:
    """Return a name of a column that is like a text."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    possible = _NO_NAME.sub("_", plain).strip("_") or "column"
    return possible if not possible[0].isdigit() else f"_{possible}"


def _stored(kind: pa.DataType, *, is_typed: bool) -> pa.DataType:
    """Return the type of a table's column that holds the values of another."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_nested(kind):
        return _stored_nested(kind, is_typed=is_typed)
    if kind in _STORED:
        return _STORED[kind]
    if pa.types.is_timestamp(kind):
        is_kept = is_typed and kind.unit != "ns"
        return kind if is_kept else pa.timestamp("us", tz=kind.tz) if is_typed else _INSTANTS
    if pa.types.is_decimal256(kind) and kind.precision <= _DECIMAL_DIGITS_MAX:
        return pa.decimal128(kind.precision, kind.scale)
    return kind


def _stored_nested(kind: pa.DataType, *, is_typed: bool) -> pa.DataType:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_stored_field(kind.value_field, is_typed=is_typed))
    if pa.types.is_map(kind):
        item = _stored_field(kind.item_field, is_typed=is_typed)
        return pa.map_(_stored(kind.key_type, is_typed=is_typed), item)
    if pa.types.is_struct(kind):
        return pa.struct([_stored_field(each, is_typed=is_typed) for each in kind])
    return kind


def _stored_field(field: pa.Field, *, is_typed: bool) -> pa.Field:
    return field.with_type(_stored(field.type, is_typed=is_typed))


def _note(kind: pa.DataType, stored: pa.DataType, *, is_typed: bool) -> str | None:
    """Return what to say of a column that is stored as another type; None for nothing."""
    if pa.types.is_null(kind):
        return "has no values, and becomes string"
    if not is_typed or kind == stored or pa.types.is_dictionary(kind):
        return None
    if pa.types.is_timestamp(kind):
        return f"is {kind}, and becomes {stored}: what is below a microsecond is cut off"
    if pa.types.is_duration(kind):
        return f"is {kind}, and becomes a number of {kind.unit}"
    return f"is {kind}, and becomes {stored}"
