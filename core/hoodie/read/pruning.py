"""Leaving out partitions that a filter excludes, by their names alone.

A filter's conjuncts on partition columns are evaluated on the values in the partition paths. When
in doubt nothing is left out: rows are filtered again after merging. A record that stays in its
partition when its column changes (`TableConfig.updates_partitions`) is in one of another value.
"""

import itertools
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeGuard

import pyarrow as pa

from hoodie.model import key_generators, partition_columns, predicates, table_config

_NAMED_MAX = 16
_DIGIT = re.compile(r"[0-9]")
# A path may hold the bound itself and values on both sides of it.
_BEYOND: Mapping[predicates.Comparator, Callable[[str, str], bool]] = {
    predicates.Comparator.LT: operator.le,
    predicates.Comparator.LE: operator.le,
    predicates.Comparator.GT: operator.ge,
    predicates.Comparator.GE: operator.ge,
}
_PLAIN_TEXT = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


class Places(Protocol):
    """In which partitions rows of some values are, of a table with one partition field."""

    def of(self, values: Sequence[object]) -> list[str] | None:
        """Return the paths; None where they are not known."""
        ...

    @property
    def is_ordered(self) -> bool:
        """Whether no row of a greater value is in a lesser path."""
        ...


def named_partitions(
    where: predicates.Predicate | None, config: table_config.TableConfig, schema: pa.Schema
) -> list[str] | None:
    """Return the paths outside of which a filter keeps no row, if it names them; None if not.

    That is one that wants each partition column to be one of a few texts or whole numbers, of
    characters that stand in every kind of path as they are.
    """
    fields = config.partition_fields
    if where is None or not fields or not _tells_values(config):
        return None
    texts = [_named_texts(where, name, schema) for name in fields]
    choices = [each for each in texts if each is not None]
    if len(choices) < len(fields) or math.prod(map(len, choices)) > _NAMED_MAX:
        return None
    if key_generators.may_have_slashed_dates(config):
        slashed = (text.replace("-", "/") for text in choices[0])
        choices = [list(dict.fromkeys([*choices[0], *slashed]))]
    if config.is_hive_style:
        choices = [
            [f"{name}={text}" for text in found]
            for name, found in zip(fields, choices, strict=True)
        ]
    return sorted("/".join(parts) for parts in itertools.product(*choices))


def _named_texts(where: predicates.Predicate, name: str, schema: pa.Schema) -> list[str] | None:
    """Return the texts of the values of which a column must have one; None if they are others."""
    kind = schema.field(name).type
    for part in predicates.conjuncts(where):
        literals = predicates.literals_equal_to(part, name)
        if literals is None:
            continue
        is_text, is_number = pa.types.is_string(kind), pa.types.is_signed_integer(kind)
        own = str if is_text else int
        if (is_text or is_number) and all(type(each) is own for each in literals):
            texts = [str(each) for each in dict.fromkeys(literals)]
            if all(map(_PLAIN_TEXT.fullmatch, texts)) and partition_columns.NULL not in texts:
                return texts
    return None


def _tells_values(config: table_config.TableConfig) -> bool:
    """Return whether the path of a row holds the values of its partition columns."""
    return key_generators.is_plain(config) and config.updates_partitions


def partitions_of_values(
    paths: Sequence[str],
    where: predicates.Predicate | None,
    config: table_config.TableConfig,
    schema: pa.Schema,
    places: Places,
) -> list[str]:
    """Return the paths of times, or of dates with slashes, that may hold rows the filter keeps.

    Left out are paths of other times alone, which look like those of the filter.

    Args:
        paths: All of them.
        where: The filter, on values in files.
        config: The table's configuration.
        schema: The table's columns.
        places: Of the table.
    """
    fields = config.partition_fields
    if where is None or len(fields) != 1 or not config.updates_partitions:
        return list(paths)
    if key_generators.is_plain(config):
        return list(paths)
    own = _literal_type(schema.field(fields[0]).type)
    left = list(paths)
    for part in predicates.conjuncts(where):
        literals = predicates.literals_equal_to(part, fields[0])
        if literals is not None and all(type(each) is own for each in literals):
            left = _among(left, places.of(literals))
        elif _is_bound(part, fields[0]) and type(part.value) is own and places.is_ordered:
            left = _beyond(left, part.comparator, places.of([part.value]))
    return left


def _is_bound(part: predicates.Predicate, name: str) -> TypeGuard[predicates.Compare]:
    return (
        isinstance(part, predicates.Compare) and part.column == name and part.comparator in _BEYOND
    )


def _literal_type(kind: pa.DataType) -> type | None:
    if pa.types.is_string(kind):
        return str
    return int if pa.types.is_signed_integer(kind) else None


def _among(paths: Sequence[str], wanted: Sequence[str] | None) -> list[str]:
    if wanted is None:
        return list(paths)
    shapes = set(map(_shape, wanted))
    return [path for path in paths if path in wanted or _shape(path) not in shapes]


def _beyond(
    paths: Sequence[str], comparator: predicates.Comparator, bounds: Sequence[str] | None
) -> list[str]:
    if bounds is None:
        return list(paths)
    keeps = _BEYOND[comparator]
    (bound,) = bounds
    return [path for path in paths if keeps(path, bound) or _shape(path) != _shape(bound)]


def _shape(path: str) -> str:
    """Return what paths of one kind have in common: all but their digits."""
    return _DIGIT.sub("0", path)


def matching_partitions(
    paths: Sequence[str],
    where: predicates.Predicate | None,
    config: table_config.TableConfig,
    schema: pa.Schema,
    of_paths: pa.Schema,
) -> list[str]:
    """Return the partition paths that may hold rows the filter keeps, in their order.

    Args:
        paths: All of them.
        where: The filter.
        config: The table's configuration.
        schema: The table's columns, as the query shows them.
        of_paths: Those of which the query takes the values from paths.
    """
    fields = config.partition_fields
    parts = [
        part
        for part in (predicates.conjuncts(where) if where is not None else ())
        if predicates.columns(part) and predicates.columns(part) <= set(fields)
    ]
    if not parts or not fields or not (of_paths.names or _tells_values(config)):
        return list(paths)
    is_exact = bool(of_paths.names)
    columns = of_paths if is_exact else pa.schema([schema.field(name) for name in fields])
    known = _known(paths, config)
    if is_exact:
        found = {path: partition_columns.texts(path, config) for path in paths}
        known = {path: texts for path, texts in found.items() if texts is not None}
    table = _values(known, columns)
    if table is None:
        return list(paths)
    whole = predicates.all_of(parts)
    assert whole is not None
    matching = predicates.kept(whole, table, table.column_names)
    wanted = {*matching.column("").to_pylist(), *(path for path in paths if path not in known)}
    return [path for path in paths if path in wanted]


def values_of_partitions(
    paths: Sequence[str], config: table_config.TableConfig, schema: pa.Schema
) -> Mapping[str, Mapping[str, pa.Scalar]]:
    """Return the values of the partition columns of all rows of partitions, where they are known.

    Args:
        paths: Of partitions.
        config: The table's configuration.
        schema: The table's columns, with values as data files have them.
    """
    fields = config.partition_fields
    if not fields or not _tells_values(config):
        return {}
    columns = pa.schema([schema.field(name) for name in fields])
    table = _values(_known(paths, config), columns)
    if table is None:
        return {}
    rows = zip(*(table.column(each) for each in range(len(fields))), strict=True)
    return {
        path: dict(zip(fields, values, strict=True))
        for path, values in zip(table.column("").to_pylist(), rows, strict=True)
    }


def _known(
    paths: Sequence[str], config: table_config.TableConfig
) -> dict[str, Sequence[str | None]]:
    """Return the texts of partitions whose paths tell the values in their files.

    What stands for null stands for an empty text as well; and a folder may be a part of one.
    """
    found = {path: partition_columns.texts(path, config) for path in paths}
    count = len(config.partition_fields)
    return {
        path: texts
        for path, texts in found.items()
        if texts and None not in texts and path.count("/") < count
    }


def _values(known: Mapping[str, Sequence[str | None]], columns: pa.Schema) -> pa.Table | None:
    """Return the values of partitions with their paths; None where some are of another type."""
    if not all(map(partition_columns.has_one_text, columns.types)):
        return None
    try:
        arrays = [
            pa.array([texts[place] for texts in known.values()], pa.string()).cast(column.type)
            for place, column in enumerate(columns)
        ]
    except pa.ArrowInvalid:
        return None
    return pa.table([*arrays, pa.array(known, pa.string())], names=[*columns.names, ""])
