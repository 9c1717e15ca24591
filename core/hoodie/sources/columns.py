"""Which columns of an input become which columns of the table."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import pyarrow as pa

from hoodie import errors
from hoodie.contract import input_sources
from hoodie.model import column_names, settings

DELIMITERS = re.compile(r"[;|\t]")
"""Characters in the name of a column that may divide several."""


def choose(
    names: Sequence[str], source: input_sources.Source, schema: pa.Schema, origin: str
) -> dict[str, str]:
    """Return the input's column of each table column, in the order they are read.

    Args:
        names: The input's columns.
        source: Says which to take; all of them when it names none.
        schema: The table's, without meta columns.
        origin: The input's name, for messages.

    Raises:
        InvalidInputError: A column is not in the input, not in the table, or there twice.
    """
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise errors.InvalidInputError(
            f"{origin}: column {repeated[0]!r} is given twice: expected names that differ"
        )
    chosen = mapping(source) or renamed(names, source, origin)
    check_known(chosen, schema, origin)
    for wanted in chosen.values():
        if wanted not in names:
            raise errors.InvalidInputError(f"{origin}: {column_names.absence(wanted, names)}")
    return chosen


def renamed(names: Sequence[str], source: input_sources.Source, origin: str) -> dict[str, str]:
    """Return all columns of an input by the names that they get, in their order.

    Raises:
        InvalidInputError: A column is renamed that is not there, or two would have one name.
    """
    given = {column.source: column.name for column in source.renames}
    for name in given:
        if name not in names:
            raise errors.InvalidInputError(f"{origin}: {column_names.absence(name, names)}")
    chosen: dict[str, str] = {}
    for name in names:
        new = given.get(name, name)
        if new in chosen:
            raise errors.InvalidInputError(
                f"{origin}: column {new!r} of the table is given both {chosen[new]!r} and {name!r}"
            )
        chosen[new] = name
    return chosen


def mapping(source: input_sources.Source) -> dict[str, str]:
    """Return the input's column of each table column that the source names.

    Raises:
        InvalidInputError: It gives two columns of the input to one of the table.
    """
    chosen: dict[str, str] = {}
    for column in source.columns:
        if column.name in chosen:
            raise errors.InvalidInputError(
                f"column {column.name!r} of the table is given both {chosen[column.name]!r} and "
                f"{column.source!r}"
            )
        chosen[column.name] = column.source
    return chosen


def check_known(chosen: Mapping[str, str], schema: pa.Schema, origin: str) -> None:
    """Refuse columns that the table has not.

    Raises:
        InvalidInputError: There is one.
    """
    for name in chosen:
        if schema.get_field_index(name) < 0:
            raise unknown(name, schema, origin)


def foreign_field(name: str, found: pa.DataType, kind: pa.DataType) -> str | None:
    """Return what is wrong with a value that has a field which its column does not have."""
    if pa.types.is_list(found) and pa.types.is_list(kind):
        return foreign_field(name, found.value_type, kind.value_type)
    if not (pa.types.is_struct(found) and pa.types.is_struct(kind)):
        return None
    names = [each.name for each in kind]
    for each in found:
        if each.name not in names:
            return (
                f"column {name!r} has no field {each.name!r}; its fields are {', '.join(names)}"
                f"{column_names.similar(each.name, names)}"
            )
        wrong = foreign_field(f"{name}.{each.name}", each.type, kind.field(each.name).type)
        if wrong is not None:
            return wrong
    return None


def unknown(name: str, schema: pa.Schema, origin: str) -> errors.InvalidInputError:
    """Return the error of a column that the table has not, and that this input cannot add."""
    if (found := DELIMITERS.search(name)) is not None:
        return errors.InvalidInputError(
            f"{origin}: the table has no column {name!r}; if {found[0]!r} is the delimiter, say so "
            f"by --delimiter {found[0]!r}"
        )
    return errors.InvalidInputError(
        f"{origin}: the table has no column {name!r}; its columns are "
        f"{column_names.listed(schema.names)}{column_names.similar(name, schema.names)}; "
        f"only parquet input, which carries types, adds columns, if {settings.ADDS_COLUMNS_KEY} "
        "is true"
    )
