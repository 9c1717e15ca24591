"""Leaving out partitions that a filter excludes, by their names alone.

A filter's conjuncts on partition columns are evaluated on the values in the partition paths. When
in doubt nothing is left out: rows are filtered again after merging. A record that stays in its
partition when its column changes (`TableConfig.updates_partitions`) is in one of another value.
"""

import itertools
import math
import re
from collections.abc import Mapping, Sequence

import pyarrow as pa

from hoodie.model import key_generators, partition_columns, predicates, table_config

_NAMED_MAX = 16
_PLAIN_TEXT = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


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
    found = {path: partition_columns.texts(path, config) for path in paths}
    if not is_exact:
        # What stands for null stands for an empty text as well; and a folder may be a part of one.
        found = {
            path: texts
            for path, texts in found.items()
            if texts and None not in texts and path.count("/") < len(fields)
        }
    known = {path: texts for path, texts in found.items() if texts is not None}
    table = _values(known, columns)
    if table is None:
        return list(paths)
    whole = predicates.all_of(parts)
    assert whole is not None
    matching = table.filter(predicates.to_expression(whole, schema))
    wanted = {*matching.column("").to_pylist(), *(path for path in paths if path not in known)}
    return [path for path in paths if path in wanted]


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
