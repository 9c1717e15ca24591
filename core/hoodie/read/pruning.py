"""Leaving out partitions and buckets that a filter excludes, by their names alone.

A filter's conjuncts on partition columns are evaluated on the values in the partition paths, one
on a bucket column by hashing its literals. When in doubt nothing is left out: rows are filtered
again after merging.
"""

import urllib.parse
from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from hoodie.index import bucket
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
    if not parts or not fields or not key_generators.is_plain(config):
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


def matching_buckets(
    where: predicates.Predicate | None, config: table_config.TableConfig, schema: pa.Schema
) -> Collection[int] | None:
    """Return the buckets that may hold rows the filter keeps; None for all of them."""
    if where is None or config.bucket_count is None or len(config.bucket_fields) != 1:
        return None
    if not key_generators.has_one_key_text(config):
        return None
    field = config.bucket_fields[0]
    kind = schema.field(field).type if field in schema.names else None
    if kind is None or not (pa.types.is_string(kind) or pa.types.is_integer(kind)):
        return None
    buckets: set[int] | None = None
    for part in predicates.conjuncts(where):
        literals = _equal_to(part, field)
        try:
            texts = pc.cast(pa.array(literals, kind), pa.string()) if literals is not None else None
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            continue
        if texts is None or not _is_hashed_as_it_is(texts):
            continue
        found = set(bucket.buckets([texts], config.bucket_count).tolist())
        buckets = found if buckets is None else buckets & found
    return buckets


def _is_hashed_as_it_is(texts: pa.Array) -> bool:
    """Return whether Hudi hashes the very texts, and not what it parses out of keys of them."""
    is_parsed = pc.and_(pc.match_substring(texts, ","), pc.match_substring(texts, ":"))
    stands_for_nothing = pc.is_in(texts, pa.array([bucket.NULL_VALUE, bucket.EMPTY_VALUE, ""]))
    return not pc.or_(is_parsed, stands_for_nothing).true_count


def _equal_to(part: predicates.Predicate, field: str) -> tuple[predicates.Literal, ...] | None:
    match part:
        case predicates.Compare(column=column, comparator=predicates.Comparator.EQ, value=value):
            return (value,) if column == field else None
        case predicates.In(column=column, values=values):
            return values if column == field else None
        case _:
            return None


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
