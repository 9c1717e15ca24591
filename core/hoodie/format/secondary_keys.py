r"""Keys of records of a secondary index: a value of a column and a record key.

    value$key     in both a backslash stands before each $, backslash and NUL
    NUL$key       of null

A value is a text: an integer in decimal, a date by its number of days from 1970, a time in UTC by
its microseconds from then, as Spark holds them. The record itself says nothing. All keys of a value
begin alike, so that a look-up is one of a prefix. Whole columns are encoded at once. Source:
`SecondaryIndexKeyUtils.java`, `SecondaryIndexRecordGenerationUtils.java` (1.2.0).
"""

import pyarrow as pa
import pyarrow.compute as pc

from hoodie import errors
from hoodie.format import metadata_avro
from hoodie.format.metadata_avro import RecordType, Value
from hoodie.model import schemas

_SEPARATOR = "$"
_ESCAPE = "\\"
_NULL = "\0"
_METADATA = "SecondaryIndexMetadata"

_VALUE = r"(?s)^(?P<value>(?:[^\\$]|\\.)*\$)"
_ESCAPED = r"(?s)\\(.)"

RECORD = metadata_avro.encode(RecordType.SECONDARY_INDEX, {_METADATA: {"isDeleted": False}})
"""That of every key."""


def is_deleted(value: Value, source: str) -> bool:
    """Return whether a record says that its pair is there no more.

    Raises:
        FormatError: It is broken, or of another partition.
    """
    record = metadata_avro.decode(value, source, RecordType.SECONDARY_INDEX).record(_METADATA)
    if record is None:
        raise errors.FormatError(f"{source}: a record without {_METADATA}")
    return record.flag("isDeleted")


def encoded(values: pa.Array, record_keys: pa.Array) -> pa.Array:
    """Return the keys of rows.

    Args:
        values: Of the column, as texts; null for null.
        record_keys: Texts, as long as the values.
    """
    return pc.binary_join_element_wise(prefixes(values), _escaped(record_keys), "")


def of_rows(column: str, rows: pa.Table) -> pa.Array:
    """Return the keys of rows.

    Args:
        column: Whose values are looked up.
        rows: With that column and the record key.
    """
    values, keys = (rows.column(name).combine_chunks() for name in (column, schemas.RECORD_KEY))
    return encoded(texts(values), keys.cast(pa.string()))


def texts(values: pa.Array) -> pa.Array:
    """Return the texts of values: of days and times their numbers, days or microseconds from 1970.

    Args:
        values: Of a type that is indexed (`secondary_indexes.is_indexable`).
    """
    kind = values.type
    if pa.types.is_date32(kind):
        values = values.cast(pa.int32())
    elif pa.types.is_timestamp(kind):
        values = values.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
    return values.cast(pa.string())


def prefixes(values: pa.Array) -> pa.Array:
    """Return what the keys of values begin with: up to the separator, and with it."""
    texts = _escaped(values.cast(pa.string())).fill_null(_NULL)
    return pc.binary_join_element_wise(texts, _SEPARATOR, "")


def prefixes_of(keys: pa.Array) -> pa.Array:
    """Return what keys begin with, as `prefixes`; null where one has no separator."""
    return pc.struct_field(pc.extract_regex(keys.cast(pa.string()), _VALUE), "value")


def record_keys(keys: pa.Array) -> pa.Array:
    """Return the record keys in keys.

    Raises:
        FormatError: One has no separator.
    """
    texts = keys.cast(pa.string())
    before = prefixes_of(texts)
    if before.null_count:
        raise errors.FormatError(
            f"a secondary index has the key {texts.filter(before.is_null())[0].as_py()!r:.80}, "
            "expected a value, $ and a record key"
        )
    rest = pc.replace_substring_regex(texts, _VALUE, "")
    return pc.replace_substring_regex(rest, _ESCAPED, r"\1")


def _escaped(texts: pa.Array) -> pa.Array:
    for each in (_ESCAPE, _SEPARATOR, _NULL):
        texts = pc.replace_substring(texts, each, _ESCAPE + each)
    return texts
