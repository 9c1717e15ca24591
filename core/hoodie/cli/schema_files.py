"""The schema of a new table, from a file: Avro JSON (.avsc), or the columns of a parquet file."""

import json
from pathlib import Path

import fastavro
import fastavro.schema
import pyarrow as pa
from pyarrow import parquet

from hoodie import errors
from hoodie.model import schemas
from hoodie.storage import locations, uris

AVRO_SUFFIX = ".avsc"
PARQUET_SUFFIX = ".parquet"
_AVRO_BYTES_MAX = 16 << 20


def read(path: str, table_name: str) -> schemas.TableSchema:
    """Return the schema in a file.

    Args:
        path: A local file, as a path or a URI.
        table_name: Names the record of a schema that a parquet file has none for.

    Raises:
        InvalidInputError: The file is of another kind, or holds no table's schema.
        NotFoundError: There is no such file.
        UnsupportedError: A column's type is one that no table holds.
    """
    location = locations.resolve(path)
    if location.scheme != uris.LOCAL:
        raise errors.UnsupportedError(f"schema {path}: expected a local file")
    file = Path(f"/{location.path}")
    suffix = Path(path).suffix.lower()
    try:
        if suffix == AVRO_SUFFIX:
            return _from_avro(file)
        if suffix == PARQUET_SUFFIX:
            return schemas.from_arrow(_parquet_columns(file), table_name)
    except FileNotFoundError as error:
        raise errors.NotFoundError(f"schema {path}: there is no such file") from error
    except IsADirectoryError as error:
        raise errors.InvalidInputError(f"schema {path}: is a folder") from error
    except OSError as error:
        raise errors.StorageError(f"schema {path}: {error.strerror or error}") from error
    except (errors.FormatError, errors.InvalidInputError, pa.ArrowInvalid) as error:
        raise errors.InvalidInputError(f"schema {path}: {error}") from error
    except errors.UnsupportedError as error:
        raise errors.UnsupportedError(f"schema {path}: {error}") from error
    raise errors.InvalidInputError(
        f"schema {path}: expected a file named {AVRO_SUFFIX} (Avro JSON) or {PARQUET_SUFFIX}"
    )


def _from_avro(file: Path) -> schemas.TableSchema:
    # Not all of it is read into memory before its size is known: it may be a device.
    with file.open("rb") as stream:
        content = stream.read(_AVRO_BYTES_MAX + 1)
    if len(content) > _AVRO_BYTES_MAX:
        raise errors.InvalidInputError(f"is longer than {_AVRO_BYTES_MAX >> 20} MiB")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise errors.InvalidInputError(f"is not UTF-8 at byte {error.start}") from error
    try:
        schema = schemas.from_avro(text)
        _check_by_the_book(text)
    except RecursionError as error:
        raise errors.InvalidInputError("nests too deep") from error
    # The rules for columns are one set, wherever they come from.
    schemas.from_arrow(schema.arrow, "table")
    return schema


def _check_by_the_book(text: str) -> None:
    """Refuse what Avro's own library would not read from the table: such as an ill-typed default.

    Raises:
        InvalidInputError: The schema breaks a rule of the Avro specification.
    """
    try:
        fastavro.parse_schema(json.loads(text, parse_constant=_refuse_constant))
    except (
        fastavro.schema.SchemaParseException,
        fastavro.schema.UnknownType,
        # Of ill-typed attributes that fastavro does not look for.
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:
        raise errors.InvalidInputError(f"is not a valid Avro schema: {error}") from error


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _parquet_columns(file: Path) -> pa.Schema:
    """Return the columns of a parquet file, without Hudi's own when it is a table's base file."""
    columns = parquet.read_schema(file)
    return pa.schema([each for each in columns if each.name not in schemas.META_COLUMNS])
