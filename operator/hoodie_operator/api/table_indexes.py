"""Indexes that are built beside writers: their names and columns, and how a build is checked."""

import enum
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Final, TypeVar

from pydantic import AfterValidator, Field, StringConstraints, WithJsonSchema

from hoodie.metadata import index_decisions
from hoodie.model import expression_indexes, file_statistics, key_changes, secondary_indexes
from hoodie_operator.api import fields, rules

NAMES: Final = tuple(index_decisions.BUILDABLE)
_LENGTH_MAX: Final = 128
_COUNT_MAX: Final = 16
_STATISTICS_COUNT_MAX: Final = 128
_PREFIXES: Final = (secondary_indexes.PREFIX, expression_indexes.PREFIX)
_OF_COLUMN: Final = rf"({'|'.join(_PREFIXES)})[A-Za-z0-9_]{{1,100}}"

NAME_PATTERN: Final = rf"^({'|'.join(NAMES)}|{_OF_COLUMN})$"


def _checked_name(name: str) -> str:
    if name not in NAMES and not index_decisions.is_buildable_of_column(name):
        named = " or ".join(f"{prefix}NAME" for prefix in _PREFIXES)
        raise ValueError(f"expected one of {', '.join(NAMES)}, {named}")
    return name


IndexName = Annotated[
    str,
    AfterValidator(_checked_name),
    WithJsonSchema({"type": "string", "maxLength": _LENGTH_MAX, "pattern": NAME_PATTERN}),
]
"""A partition of a metadata table."""

IndexNames = Annotated[tuple[IndexName, ...], Field(min_length=1, max_length=_COUNT_MAX)]

IndexColumns = Annotated[
    dict[Annotated[str, StringConstraints(max_length=_LENGTH_MAX)], fields.ColumnOrCall],
    Field(max_length=_COUNT_MAX),
]
"""Columns, or expressions, by the names of their indexes, of which a rule says which there are."""

COLUMNS: Final = (
    "The columns of secondary indexes, and of expression indexes calls such as lower(name), by the "
    "names of these."
)

StatisticsColumns = Annotated[
    tuple[fields.ColumnName, ...], Field(min_length=1, max_length=_STATISTICS_COUNT_MAX)
]
"""Columns of which there are statistics."""

STATISTICS_COLUMNS: Final = (
    "The columns of column_stats and partition_stats. If the table has them of other columns they "
    "are dropped, and built again. By default those that there are or, without any, the first 32."
)


PARTITIONED: Final = (
    "Whether record_index is one of each partition, which has a key once in each of them, and not "
    "of the whole table."
)


def may_be_partitioned(names: Sequence[str], is_partitioned: bool) -> bool:
    """Return whether indexes can be one of each partition, where that is asked for."""
    return not is_partitioned or key_changes.RECORD_INDEX in names


class Validation(enum.Enum):
    """How much of the metadata table is compared with the table before the indexes are ready."""

    NONE = "None"
    SAMPLE = "Sample"
    WHOLE = "Whole"


Spec = TypeVar("Spec")
_Wanted = tuple[Collection[str], Mapping[str, str]]


def columns_rule(block: str, get: Callable[[Spec], _Wanted | None]) -> rules.Rule[Spec]:
    """Return the rule that secondary and expression indexes have columns, and nothing else has.

    Args:
        block: The field that holds `indexes` and `columns`; empty for the spec itself.
        get: Returns both; None for a spec without the block.
    """
    path = f"{block}." if block else ""
    names, columns = f"self.{path}indexes", f"self.{path}columns"
    is_of_column = " || ".join(f"n.startsWith('{prefix}')" for prefix in _PREFIXES)
    given = (
        f"(has({columns}) ? {columns}.all(n, ({is_of_column}) && n in {names}) : true) && "
        f"{names}.all(n, !({is_of_column}) || (has({columns}) && n in {columns}))"
    )
    return rules.Rule(
        name=f"{block}-columns" if block else "columns",
        field=f"{path}columns",
        message=(
            f"must have a column for each {_PREFIXES[0]}NAME, and an expression for each "
            f"{_PREFIXES[1]}NAME of indexes, and no other"
        ),
        cel=f"!has(self.{block}) || ({given})" if block else given,
        holds=lambda spec: (wanted := get(spec)) is None or _have_columns(*wanted),
    )


def statistics_rules(
    block: str, get: Callable[[Spec], tuple[Sequence[str], Sequence[str]] | None]
) -> tuple[rules.Rule[Spec], ...]:
    """Return the rules of columns of statistics.

    Args:
        block: As of `columns_rule`.
        get: Returns the indexes and these columns; None for a spec without the block.
    """
    path = f"{block}." if block else ""
    names, columns = f"self.{path}indexes", f"self.{path}statisticsColumns"
    unless = f"!has(self.{block}) || !has({columns})" if block else f"!has({columns})"

    def has_statistics(spec: Spec) -> bool:
        found = get(spec)
        return found is None or not found[1] or file_statistics.COLUMN_STATS in found[0]

    def has_no_duplicates(spec: Spec) -> bool:
        found = get(spec)
        return found is None or rules.have_no_duplicates(found[1])

    prefix = f"{block}-" if block else ""
    return (
        rules.Rule(
            name=f"{prefix}statistics-columns",
            field=f"{path}statisticsColumns",
            message="is valid with column_stats among the indexes only",
            cel=f"{unless} || '{file_statistics.COLUMN_STATS}' in {names}",
            holds=has_statistics,
        ),
        rules.Rule(
            name=f"{prefix}distinct-statistics-columns",
            field=f"{path}statisticsColumns",
            message="must not contain a column twice",
            cel=f"{unless} || {columns}.all(n, {columns}.exists_one(m, m == n))",
            holds=has_no_duplicates,
        ),
    )


def _have_columns(names: Collection[str], columns: Mapping[str, str]) -> bool:
    return set(columns) == set(filter(index_decisions.is_buildable_of_column, names))
