"""The values of partition columns in partition paths, and tables that have them nowhere else.

    path              n=7 in hive style, or 7; of several fields one folder each
    null              __HIVE_DEFAULT_PARTITION__

With `hoodie.datasource.write.drop.partition.columns=true` the path alone counts. A data file may
lack the columns or have them, with values that mean nothing: Apache Hudi 1.2.0 leaves them out when
its data source upserts into a copy-on-write table and when Spark SQL inserts, keeps them in other
writes, and makes them null where it copies rows of a file that lacks them. Nor do all its commits
name them. Of which type they are the table's creation says, or else a commit; without either they
are texts, as for Apache Hudi.

Source: `TableSchemaResolver.java` (recreateSchemaWhenDropPartitionColumns),
`HoodieSparkUtils.scala` (parsePartitionColumnValues); measured.
"""

import enum
import functools
import json
import urllib.parse
from collections.abc import Mapping

import pyarrow as pa

from hoodie import errors
from hoodie.model import avro_types, key_generators, schemas, table_config

NULL = "__HIVE_DEFAULT_PARTITION__"
"""What stands for a null in a partition path, and for an empty text."""


class Source(enum.StrEnum):
    """Where a read takes the values of partition columns from."""

    FILE = "file"  # Unless they count in paths alone.
    PATH = "path"


def source_of(text: str) -> Source:
    """Return the source of that name.

    Raises:
        InvalidInputError: There is none.
    """
    try:
        return Source(text)
    except ValueError:
        raise errors.InvalidInputError(
            f"partition values are taken from {text!r}, expected {' or '.join(Source)}"
        ) from None


def of_paths(
    config: table_config.TableConfig, columns: pa.Schema, source: Source = Source.FILE
) -> pa.Schema:
    """Return the columns whose values a read takes from paths, in the types that they have then.

    Texts of times, and dates with slashes, are texts, as for Apache Hudi.

    Args:
        config: The table's configuration.
        columns: The table's.
        source: Where the read takes the values from.

    Raises:
        UnsupportedError: The key generator is not known, so that paths may hold anything.
    """
    if source is Source.FILE:
        return pa.schema([columns.field(name) for name in left_out(config)])
    kinds = key_generators.path_kinds(config)
    if kinds is None:
        raise errors.UnsupportedError(
            f"partition values of table {config.name!r} cannot be read from paths: it has the key "
            f"generator {key_generators.kind(config)}, expected one of "
            f"{', '.join(key_generators.CLASSES)}"
        )
    has_slashes = key_generators.has_slashed_dates(config)
    return pa.schema(
        [
            columns.field(name)
            if kind is key_generators.PathKind.SIMPLE and not has_slashes
            else pa.field(name, pa.string())
            for name, kind in zip(config.partition_fields, kinds, strict=True)
        ]
    )


def seen(columns: pa.Schema, taken: pa.Schema) -> pa.Schema:
    """Return a table's columns as a read shows them that takes some from paths."""
    if not taken.names:
        return columns
    return pa.schema(
        [taken.field(each.name) if each.name in taken.names else each for each in columns]
    )


def left_out(config: table_config.TableConfig) -> tuple[str, ...]:
    """Return the columns whose values count in paths alone; most tables have none."""
    return config.partition_fields if config.drops_partition_columns else ()


def write_refusal(config: table_config.TableConfig) -> str | None:
    """Return what a table lacks to be written, of whose columns paths alone count; None if nothing.

    Its paths must hold the values themselves, and a record must be where its values say.
    """
    if not config.drops_partition_columns:
        return None
    stated = f"it has {table_config.DROPS_PARTITION_COLUMNS_KEY}=true and"
    if not key_generators.is_plain(config):
        return (
            f"paths of the partition columns' own values, {stated} the key generator "
            f"{key_generators.described(config)}"
        )
    if not config.updates_partitions:
        return (
            f"records that move to the partition of their values, {stated} "
            f"{table_config.PARTITION_UPDATES_KEY}=false"
        )
    return None


def whole(columns: schemas.TableSchema, config: table_config.TableConfig) -> schemas.TableSchema:
    """Return a table's columns of those that a commit, or the creation, names.

    Those that are missing come last.

    Raises:
        UnsupportedError: Merging needs one of the partition columns, or a path has another text
            than that of its value, and it is no text.
        FormatError: The schema that the table was created with is broken.
    """
    names = left_out(config)
    if not names:
        return columns
    merged = sorted(set(names) & set(config.ordering_fields))
    if merged:
        raise errors.UnsupportedError(
            f"table {config.name!r} has {table_config.DROPS_PARTITION_COLUMNS_KEY}=true and the "
            f"ordering field {merged[0]!r} is one of these columns: expected an ordering field "
            "that data files have"
        )
    record = avro_types.parse_record(columns.avro)
    fields = {each["name"]: each for each in record["fields"]}
    created = None if config.create_schema is None else schemas.from_avro(config.create_schema)
    for name in names:
        if created is not None and name in created.arrow.names:
            if not _is_widened(name, columns.arrow, created.arrow):
                stated = avro_types.parse_record(created.avro)["fields"]
                fields[name] = next(each for each in stated if each["name"] == name)
        elif name not in fields:
            fields[name] = {"name": name, "type": ["null", "string"], "default": None}
    if list(fields.values()) != record["fields"]:
        columns = schemas.from_avro(
            json.dumps(record | {"fields": list(fields.values())}, separators=(",", ":"))
        )
    _check_types(columns.arrow, config)
    return columns


def _check_types(columns: pa.Schema, config: table_config.TableConfig) -> None:
    if key_generators.is_plain(config):
        return
    for name in left_out(config):
        if not pa.types.is_string(columns.field(name).type):
            raise errors.UnsupportedError(
                f"table {config.name!r} has {table_config.DROPS_PARTITION_COLUMNS_KEY}=true and "
                f"the key generator {key_generators.described(config)}: values of {name!r} "
                f"({columns.field(name).type}) cannot be read from its paths"
            )


def _is_widened(name: str, columns: pa.Schema, created: pa.Schema) -> bool:
    """Return whether a column has come to hold more than when the table was created."""
    if name not in columns.names:
        return False
    return schemas.is_lossless(created.field(name).type, columns.field(name).type)


def stored(columns: schemas.TableSchema, config: table_config.TableConfig) -> schemas.TableSchema:
    """Return those of a table's columns that its data files have when they are written."""
    names = left_out(config)
    return _without(columns.avro, names) if names else columns


# Asked for each file group of a write.
@functools.lru_cache(maxsize=16)
def _without(avro: str, names: tuple[str, ...]) -> schemas.TableSchema:
    record = avro_types.parse_record(avro)
    fields = [each for each in record["fields"] if each["name"] not in names]
    return schemas.from_avro(json.dumps(record | {"fields": fields}, separators=(",", ":")))


def texts(path: str, config: table_config.TableConfig) -> list[str | None] | None:
    """Return the text of each partition field in a path; None where folders and fields differ.

    The text of a single field may have slashes, as it has for Apache Hudi.
    """
    folders = [path] if len(config.partition_fields) == 1 else path.split("/")
    if len(folders) != len(config.partition_fields) or not path:
        return None
    return [
        text_of(folder, name, config)
        for folder, name in zip(folders, config.partition_fields, strict=True)
    ]


def values(
    path: str, config: table_config.TableConfig, columns: pa.Schema
) -> Mapping[str, pa.Scalar]:
    """Return the values in a path of some partition columns.

    Args:
        path: Of a partition.
        config: The table's configuration.
        columns: Which are wanted, in the types that they have when read from paths.

    Raises:
        FormatError: The path has no value of a column's type.
        UnsupportedError: Values of a column's type have several texts.
    """
    if not columns.names:
        return {}
    names = config.partition_fields
    found = texts(path, config)
    if found is None:
        raise errors.FormatError(
            f"partition {path!r} of table {config.name!r}: expected a folder for each of "
            f"{', '.join(names)}"
        )
    by_name = dict(zip(names, found, strict=True))
    return {each.name: _value(by_name[each.name], each, path) for each in columns}


def text_of(folder: str, name: str, config: table_config.TableConfig) -> str | None:
    """Return the text of a partition field in a folder's name; None for null."""
    text = folder.removeprefix(f"{name}=") if config.is_hive_style else folder
    text = urllib.parse.unquote(text) if config.is_url_encoded else text
    return None if text == NULL else text


def has_one_text(kind: pa.DataType) -> bool:
    """Return whether values of a type have one text each, which a path may hold."""
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_date32(kind)
    )


def _value(text: str | None, column: pa.Field, path: str) -> pa.Scalar:
    kind = column.type
    if not has_one_text(kind):
        raise errors.UnsupportedError(
            f"partition column {column.name!r} is {kind}, and its values are in paths alone: "
            "expected text, whole numbers, booleans or dates"
        )
    try:
        return pa.scalar(text, pa.string()).cast(kind)
    except pa.ArrowInvalid as error:
        raise errors.FormatError(
            f"partition {path!r} has {text!r} for column {column.name!r}, expected a value of "
            f"{kind}"
        ) from error
