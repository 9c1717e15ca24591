"""Leaving out partitions that a filter excludes, by their names alone.

A filter's conjuncts on partition columns are evaluated on the values in the partition paths. When
in doubt nothing is left out: rows are filtered again after merging. A record that stays in its
partition when its column changes (`TableConfig.updates_partitions`) is in one of another value.
"""

import itertools
import math
import re
import urllib.parse
from collections.abc import Sequence

import pyarrow as pa

from hoodie.model import key_generators, predicates, table_config

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"

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
            if all(map(_PLAIN_TEXT.fullmatch, texts)) and NULL_PARTITION not in texts:
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
) -> list[str]:
    """Return the partition paths that may hold rows the filter keeps, in their order."""
    fields = config.partition_fields
    parts = [
        part
        for part in (predicates.conjuncts(where) if where is not None else ())
        if predicates.columns(part) and predicates.columns(part) <= set(fields)
    ]
    if not parts or not fields or not _tells_values(config):
        return list(paths)
    kept = []
    known, values = [], []
    for path in paths:
        texts = _values(path, config)
        if texts is None:
            kept.append(path)
        else:
            known.append(path)
            values.append(texts)
    try:
        columns = [
            pa.array([row[index] for row in values], pa.string()).cast(schema.field(name).type)
            for index, name in enumerate(fields)
        ]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return list(paths)
    table = pa.table([*columns, pa.array(known, pa.string())], names=[*fields, ""])
    whole = predicates.all_of(parts)
    assert whole is not None
    matching = table.filter(predicates.to_expression(whole, schema))
    wanted = {*kept, *matching.column("").to_pylist()}
    return [path for path in paths if path in wanted]


def _values(path: str, config: table_config.TableConfig) -> list[str] | None:
    """Return the texts of the partition values in a path; None when it does not tell them."""
    parts = path.split("/")
    if len(parts) != len(config.partition_fields):
        return None
    values = []
    for name, part in zip(config.partition_fields, parts, strict=True):
        text = part.removeprefix(f"{name}=") if config.is_hive_style else part
        text = urllib.parse.unquote(text) if config.is_url_encoded else text
        if text == NULL_PARTITION:
            return None
        values.append(text)
    return values
