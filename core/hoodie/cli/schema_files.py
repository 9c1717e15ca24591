"""The columns of a new table: given, from a file of rows, or from an Avro schema (.avsc)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import fastavro
import fastavro.schema
import pyarrow as pa

from hoodie import errors
from hoodie.cli import inputs
from hoodie.contract import input_sources
from hoodie.model import schemas
from hoodie.sources import inferring
from hoodie.storage import locations, uris

AVRO_SUFFIX = ".avsc"
_AVRO_BYTES_MAX = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The columns of a new table.

    Attributes:
        schema: What the table gets.
        notes: Sentences on types that are others than a file's.
    """

    schema: schemas.TableSchema
    notes: tuple[str, ...] = ()


def read(
    path: str | None,
    table_name: str,
    given: Mapping[str, pa.DataType],
    renames: Sequence[input_sources.ColumnMapping] = (),
) -> Columns:
    """Return the columns of a new table.

    Args:
        path: A local file with them, as a path or a URI; None where all of them are given.
        table_name: Names the record of a schema that a file has none for.
        given: Types of columns: of all, or of those that the file's types are not taken for.
        renames: Columns of the file that get other names.

    Raises:
        InvalidInputError: The file is of another kind, or holds no table's schema.
        NotFoundError: There is no such file.
        UnsupportedError: A column's type is one that no table holds.
    """
    if path is None:
        return Columns(schema=schemas.from_arrow(pa.schema(list(given.items())), table_name))
    file = _local(path)
    is_avro = Path(path).suffix.lower() == AVRO_SUFFIX
    if is_avro and (given or renames):
        raise errors.InvalidInputError(f"schema {path}: no name or type of it is changed")
    try:
        if is_avro:
            return Columns(schema=_from_avro(file))
        return _from_rows(str(file), table_name, given, renames)
    except (FileNotFoundError, errors.NotFoundError) as error:
        raise errors.NotFoundError(f"schema {path}: there is no such file") from error
    except OSError as error:
        raise errors.StorageError(f"schema {path}: {error.strerror or error}") from error
    except (errors.FormatError, errors.InvalidInputError) as error:
        problem = str(error).removeprefix(f"{file}: ").removeprefix(f"input {file}: ")
        raise errors.InvalidInputError(f"schema {path}: {problem}") from error
    except errors.UnsupportedError as error:
        raise errors.UnsupportedError(f"schema {path}: {error}") from error


def _local(path: str) -> Path:
    location = locations.resolve(path)
    if location.scheme != uris.LOCAL:
        raise errors.UnsupportedError(f"schema {path}: expected a local file")
    file = Path(f"/{location.path}")
    if file.is_dir():
        raise errors.InvalidInputError(f"schema {path}: is a folder")
    return file


def _from_rows(
    file: str,
    table_name: str,
    given: Mapping[str, pa.DataType],
    renames: Sequence[input_sources.ColumnMapping],
) -> Columns:
    source = replace(inputs.source([file], inputs.Reading()), renames=tuple(renames))
    found = inferring.columns_of([file], source, given)
    return Columns(schema=schemas.from_arrow(found.schema, table_name), notes=found.notes)


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
