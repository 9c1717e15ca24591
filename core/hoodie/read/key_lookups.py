"""Reads that ask for record keys, or for values of a column: which ones."""

import itertools
import math
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from hoodie import errors
from hoodie.model import key_generators, predicates, table_config

_KEYS_MAX = 10_000
"""Of more keys a filter is not asked: one of them is in every file slice."""


def keys_of(
    where: predicates.Predicate | None, config: table_config.TableConfig, schema: pa.Schema
) -> pa.Array | None:
    """Return the record keys that rows of a filter can have; None where it does not say.

    Args:
        where: The filter.
        config: The table's configuration.
        schema: Its columns.
    """
    fields = config.record_key_fields
    if where is None or not fields or not key_generators.has_one_key_text(config):
        return None
    values = [texts_of(where, name, schema) for name in fields]
    # An empty text has another text in a key.
    known = [each for each in values if each is not None and all(each)]
    if len(known) < len(fields) or math.prod(map(len, known)) > _KEYS_MAX:
        return None
    if not key_generators.names_fields(config):
        return pa.array(known[0], pa.string())
    named = [
        [f"{name}:{text}" for text in texts] for name, texts in zip(fields, known, strict=True)
    ]
    return pa.array([",".join(parts) for parts in itertools.product(*named)], pa.string())


def texts_of(where: predicates.Predicate, name: str, schema: pa.Schema) -> Sequence[str] | None:
    """Return the texts of the values that a filter leaves a column; None for any value.

    Args:
        where: The filter.
        name: The column.
        schema: The table's columns.
    """
    kind = schema.field(name).type if name in schema.names else None
    if kind is None or not (pa.types.is_string(kind) or pa.types.is_integer(kind)):
        return None
    found: set[str] | None = None
    for part in predicates.conjuncts(where):
        literals = predicates.literals_equal_to(part, name)
        if literals is None:
            continue
        try:
            texts = pc.cast(pa.array(literals, kind), pa.string()).to_pylist()
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            continue
        found = set(texts) if found is None else found & set(texts)
    return None if found is None or None in found else sorted(found)


def values_of(where: predicates.Predicate, name: str, schema: pa.Schema) -> pa.Array | None:
    """Return the values that a filter leaves a column, each once; None for any value.

    Args:
        where: The filter.
        name: The column, of a type of which there are secondary indexes.
        schema: The table's columns.
    """
    kind = schema.field(name).type
    found: pa.Array | None = None
    for part in predicates.conjuncts(where):
        literals = predicates.literals_equal_to(part, name)
        if literals is None:
            continue
        try:
            scalars = [predicates.in_type(name, each, schema) for each in literals]
            values = pc.unique(pa.array([each.as_py() for each in scalars], kind))
        except (errors.InvalidInputError, pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            continue
        if values.null_count:
            return None
        found = values if found is None else found.filter(pc.is_in(found, value_set=values))
    return found
