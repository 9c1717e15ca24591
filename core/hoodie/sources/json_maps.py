"""Maps in JSON: objects, of which each key has its value; lists of pairs as well."""

import json
from typing import Any

import pyarrow as pa

from hoodie import errors


def of_texts(texts: pa.ChunkedArray, kind: pa.MapType) -> pa.Array:
    """Return the maps of JSON texts; null where there is none.

    Raises:
        InvalidInputError: A text is no map of this type.
    """
    try:
        found = (None if each is None else json.loads(each) for each in texts.to_pylist())
        return pa.array([None if each is None else _pairs(each) for each in found], kind)
    except (ValueError, TypeError, pa.ArrowException) as error:
        raise errors.InvalidInputError(f"has a value that is not a {kind}: {error}") from error


def _pairs(value: Any) -> list[tuple[object, ...]]:  # noqa: ANN401 - of any type of JSON
    return list(value.items()) if isinstance(value, dict) else [tuple(each) for each in value]
