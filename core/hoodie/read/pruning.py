"""Leaving out partitions that a filter excludes, by their names alone.

A filter's conjuncts on partition columns are evaluated on the values in the partition paths. When
in doubt nothing is left out: rows are filtered again after merging. A record that stays in its
partition when its column changes (`TableConfig.updates_partitions`) is in one of another value.
"""

import urllib.parse
from collections.abc import Sequence

import pyarrow as pa

from hoodie.model import key_generators, predicates, table_config

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"


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
    is_told = key_generators.is_plain(config) and config.updates_partitions
    if not parts or not fields or not is_told:
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
