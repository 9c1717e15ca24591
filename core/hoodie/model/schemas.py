"""Schemas of tables: Avro as Hudi stores them, Arrow as we move data.

A table's Avro schema is the record `{table}_record` in the namespace `hoodie.{table}`; every column
is `["null", T]` with default null, so that columns can be added. In data files five meta columns
come first (`META_COLUMNS`); a `TableSchema` never has them. Source: `AvroConversionUtils.scala`,
`HoodieAvroUtils.java` (`addMetadataFields`, `sanitizeName`).
"""

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NoReturn

import pyarrow as pa

from hoodie import deferred, errors, guesses
from hoodie.model import avro_types, column_names, column_types

with deferred.imports():
    from hoodie.model import settings

COMMIT_TIME = "_hoodie_commit_time"
COMMIT_SEQNO = "_hoodie_commit_seqno"
RECORD_KEY = "_hoodie_record_key"
PARTITION_PATH = "_hoodie_partition_path"
FILE_NAME = "_hoodie_file_name"
META_COLUMNS: tuple[str, ...] = (COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY, PARTITION_PATH, FILE_NAME)
"""In their order in data files."""

_META_AVRO = [
    {"name": name, "type": ["null", "string"], "doc": "", "default": None} for name in META_COLUMNS
]
_AVRO_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TIME_UNITS = ("s", "ms", "us", "ns")
WIDER = {
    pa.int32(): (pa.int64(), pa.float32(), pa.float64()),
    pa.int64(): (pa.float32(), pa.float64()),
    pa.float32(): (pa.float64(),),
}
"""The types to which a column of one type can be widened."""
_DECIMAL_DIGITS_MAX = 38  # Of Spark and of Hudi's parquet.
_DATE = {"type": "int", "logicalType": "date"}
_AVRO_OF_ARROW = {
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.uint8(): "int",
    pa.uint16(): "int",
    pa.uint32(): "long",
    pa.float16(): "float",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.date32(): _DATE,
    pa.date64(): _DATE,
}
# A float holds integers exactly up to this many bits.
_FLOAT32_BITS = 24
_FLOAT64_BITS = 53
_PROBLEMS_SHOWN_MAX = 10


@guesses.of_names(guesses.SCHEMA)
@dataclass(frozen=True, slots=True, kw_only=True)
class TableSchema:
    """A table's columns, without the meta columns.

    Attributes:
        avro: Avro JSON of the record, as commits carry it.
        arrow: The same columns in Arrow.
    """

    avro: str = dataclasses.field(repr=False)
    arrow: pa.Schema

    def __call__(self) -> NoReturn:
        """Refuse to be called, as schemas are in PyIceberg and delta-rs.

        Raises:
            TypeError: Always.
        """
        raise TypeError("schema is an attribute: schema.arrow is the schema as pyarrow has it")


def from_avro(avro_json: str) -> TableSchema:
    """Return the schema that Avro JSON means, with or without meta columns.

    Raises:
        FormatError: The text is no Avro record schema.
        UnsupportedError: A column's type has no Arrow form.
    """
    record = avro_types.parse_record(avro_json)
    data = [each for each in record["fields"] if each["name"] not in META_COLUMNS]
    if len(data) != len(record["fields"]):
        avro_json = _json(record | {"fields": data})
    columns = avro_types.columns(avro_json)
    return TableSchema(avro=avro_json, arrow=pa.schema([column.arrow for column in columns]))


def from_arrow(schema: pa.Schema, table_name: str) -> TableSchema:
    """Return the schema of a new table; every column is nullable.

    Raises:
        InvalidInputError: No column, a repeated or reserved name, or one that Avro does not allow.
        UnsupportedError: A column's type has no form in a table.
    """
    check_names(schema.names)
    return _of_columns(schema, table_name)


def _of_columns(schema: pa.Schema, table_name: str) -> TableSchema:
    name = _sanitised(table_name)
    fields = [avro_field(column, f"hoodie.{name}.{name}_record") for column in schema]
    record = {
        "type": "record",
        "name": f"{name}_record",
        "namespace": f"hoodie.{name}",
        "fields": fields,
    }
    return from_avro(_json(record))


def with_fixed_decimals(schema: TableSchema) -> TableSchema:
    """Return the schema of a new table with its decimals as Avro's `fixed`, as `from_arrow` has it.

    Apache Hudi rewrites a decimal of `bytes` into a base file in a form that Spark cannot read.
    """
    record = avro_types.parse_record(schema.avro)
    full_name = ".".join(filter(None, (record.get("namespace"), record["name"])))
    fields = [
        _with_fixed_decimal(each, schema.arrow.field(each["name"]), full_name)
        for each in record["fields"]
    ]
    return schema if fields == record["fields"] else from_avro(_json(record | {"fields": fields}))


def check_logical_types(schema: TableSchema) -> None:
    """Check that no column of a new table would silently be numbers or bytes only.

    Raises:
        UnsupportedError: A logical type is not known, or does not fit its type.
    """
    if ignored := avro_types.ignored_logical_types(schema.avro):
        raise errors.UnsupportedError(
            f"columns have Avro logical types that readers ignore: {'; '.join(ignored)}. Expected "
            "date of int; timestamp-millis, timestamp-micros, local-timestamp-millis or "
            "local-timestamp-micros of long; decimal of bytes or fixed; uuid of string. Choose "
            "one of these, or remove logicalType to store the plain values"
        )


def decimals_of_bytes(schema: TableSchema) -> tuple[str, ...]:
    """Return the columns that `with_fixed_decimals` would change."""
    return tuple(
        column.arrow.name
        for column in avro_types.columns(schema.avro)
        if pa.types.is_decimal(column.arrow.type) and column.wire is avro_types.Wire.BYTES
    )


def check_names(
    names: Collection[str], within: str = "a table", beside: Collection[str] = ()
) -> None:
    """Check that columns can have these names beside each other.

    Args:
        names: Of columns, or of the fields of a struct.
        within: What has them, for messages.
        beside: Names of columns that are there already. Apache Hudi may have given them, which
            takes letters of any alphabet.

    Raises:
        InvalidInputError: There is none, or a repeated or reserved one, or one that Avro does not
            allow.
    """
    if not names:
        raise errors.InvalidInputError(f"{within} needs at least one column")
    counts = Counter(name.lower() for name in (*beside, *names))
    for name in dict.fromkeys(name.lower() for name in names):
        # Spark and Hive do not tell upper from lower case.
        if (count := counts[name]) > 1:
            raise errors.InvalidInputError(
                f"{count} columns are named {name!r}: upper and lower case are the same"
            )
    for name in names:
        if name in META_COLUMNS:
            raise errors.InvalidInputError(f"column {name!r} is reserved: Hudi adds it")
        if not _AVRO_NAME.fullmatch(name):
            raise errors.InvalidInputError(
                f"column {name!r} is not a valid name: expected letters, digits and underscores, "
                "no digit at the beginning"
            )


def avro_field(column: pa.Field, record_name: str) -> dict[str, object]:
    """Return a column as the Avro field of a table's record, nullable.

    Raises:
        UnsupportedError: Its type has no form in a table.
    """
    return {"name": column.name, "type": ["null", _avro_type(column, record_name)], "default": None}


def stored_type(column: pa.Field) -> pa.DataType:
    """Return the type in which a table holds such a column.

    Raises:
        UnsupportedError: There is none.
    """
    return _of_columns(pa.schema([column]), "t").arrow.field(0).type


def with_meta(avro_json: str) -> str:
    """Return the schema with the meta columns first, as it stands in log blocks and footers.

    Raises:
        FormatError: The text is no Avro record schema.
    """
    record = avro_types.parse_record(avro_json)
    data = [each for each in record["fields"] if each["name"] not in META_COLUMNS]
    return _json(record | {"fields": [*_META_AVRO, *data]})


def meta_fields() -> list[pa.Field]:
    """Return the meta columns as Arrow fields, in their order."""
    return [pa.field(name, pa.string()) for name in META_COLUMNS]


def check_fits(
    data: pa.Schema,
    table: TableSchema,
    may_miss: Collection[str] = (),
    could_miss: Collection[str] = (),
) -> None:
    """Check that data can be written to a table without losing anything of it.

    Args:
        data: Columns in any order. A type may differ from the table's when every value of it has
            one in the table's type.
        table: The table's columns.
        may_miss: Columns that the data need not have.
        could_miss: Those that it would not need to have by the setting that adds columns.

    Raises:
        InvalidInputError: Columns are missing, repeated or not the table's, or a type loses values;
            the message names each with both types.
    """
    problems = [
        f"column {name!r} is there {count} times, expected once"
        for name, count in Counter(data.names).items()
        if count > 1
    ]
    sources = {field.name: field.type for field in data}
    known = set(table.arrow.names)
    problems += [
        f"column {name!r} is not in the table{column_names.similar(name, known)}"
        for name in sources
        if name not in known
    ]
    may_evolve = any(name not in known for name in sources)
    are_names_wrong = bool(problems)
    for column in table.arrow:
        if column.name in sources and not are_names_wrong:
            source = sources[column.name]
            if not is_lossless(source, column.type):
                advice = _advice(source, column.type)
                problems.append(
                    f"column {column.name!r} is {source}, expected {column.type}{advice}"
                )
                may_evolve = may_evolve or source in WIDER.get(column.type, ())
        elif column.name not in sources and column.name not in may_miss:
            problems.append(f"column {column.name!r} ({column.type}) is missing")
    if problems:
        is_filled = any(name not in sources for name in {*could_miss} - {*may_miss})
        effects = ["adds columns", "widens types"] if may_evolve else []
        effects += ["has null for columns that are missing"] if is_filled else []
        hint = f"; {settings.ADDS_COLUMNS_KEY}=true {_all_of(effects)}" if effects else ""
        raise errors.InvalidInputError(f"the data does not fit the table: {_list(problems)}{hint}")


def _all_of(texts: Sequence[str]) -> str:
    *others, last = texts
    return f"{', '.join(others)}, and {last}" if others else last


def _advice(source: pa.DataType, target: pa.DataType) -> str:
    """Return what else can be done with values of a type that a table's does not hold."""
    if pa.types.is_timestamp(source) and pa.types.is_timestamp(target):
        if source.tz is None and target.tz is not None:
            return " (give the times a zone, such as UTC)"
        if source.tz is not None and target.tz is None:
            return " (take the zone off the times)"
    return ""


def conform(data: pa.Table, table: TableSchema) -> pa.Table:
    """Return data that fits (`check_fits`) in the table's columns, order and types.

    A missing column becomes all null and nullable, also where the table has no nulls: a delete
    carries its keys alone. Columns whose types are equal are not copied.

    Raises:
        InvalidInputError: A value does not fit its column after all: a time out of the type's
            range, a null where the table has none, inside of values too.
    """
    fields, columns = [], []
    found = dict(zip(data.column_names, data.columns, strict=True))
    for field in table.arrow:
        if field.name in found:
            fields.append(field)
            columns.append(_cast(found[field.name], field))
        else:
            fields.append(field.with_nullable(True))
            columns.append(pa.chunked_array([pa.nulls(data.num_rows, field.type)]))
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def with_nulls(table: TableSchema) -> TableSchema:
    """Return a table's columns, each of which may be null."""
    return dataclasses.replace(
        table, arrow=pa.schema([each.with_nullable(True) for each in table.arrow])
    )


def check_nulls(data: pa.Table, table: TableSchema) -> None:
    """Refuse nulls in columns where the table has none; columns that the data lacks do not count.

    Raises:
        InvalidInputError: A value is missing.
    """
    given = set(data.column_names)
    for field in table.arrow:
        if field.name in given:
            _check_nulls(data.column(field.name), field)


def _check_nulls(values: pa.ChunkedArray, field: pa.Field) -> None:
    if not field.nullable and values.null_count:
        raise errors.InvalidInputError(
            f"column {field.name!r} is null in {values.null_count} rows, expected a value in each"
        )


def _cast(values: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    _check_nulls(values, field)
    try:
        found = values.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise errors.InvalidInputError(
            f"column {field.name!r} does not fit {field.type}: {error}"
        ) from error
    if any(_has_null_inside(chunk) for chunk in found.chunks):
        raise errors.InvalidInputError(
            f"column {field.name!r} has nulls inside of its values, expected {field.type}"
        )
    return found


def _has_null_inside(values: pa.Array) -> bool:
    """Return whether there is a null inside of values where their type has none.

    Arrow's casts look for them in the fields of structs alone.
    """
    kind = values.type
    if not pa.types.is_nested(kind):
        return False
    if pa.types.is_struct(kind):
        inside = values.filter(values.is_valid()).flatten()
        fields = list(kind)
    elif pa.types.is_map(kind):
        inside = values.cast(avro_types.entries(kind))
        inside, fields = inside.flatten().flatten(), [kind.key_field, kind.item_field]
    else:
        inside, fields = [values.flatten()], [kind.value_field]
    return any(
        (not field.nullable and part.null_count > 0) or _has_null_inside(part)
        for field, part in zip(fields, inside, strict=True)
    )


def _sanitised(table_name: str) -> str:
    """Return a table's name as Hudi makes it an Avro name, with two underscores for the rest."""
    if not table_name:
        raise errors.InvalidInputError("a table needs a name")
    return re.sub(r"[^A-Za-z0-9_]", "__", re.sub(r"^[^A-Za-z_]", "__", table_name))


def _avro_type(column: pa.Field, record_name: str) -> object:
    type_ = column.type
    if type_ in _AVRO_OF_ARROW:
        return _AVRO_OF_ARROW[type_]
    if _is_text(type_):
        return "string"
    if _is_bytes(type_):
        return "bytes"
    if pa.types.is_timestamp(type_) and type_.unit != "ns":
        unit = "micros" if type_.unit == "us" else "millis"
        prefix = "" if type_.tz else "local-"
        return {"type": "long", "logicalType": f"{prefix}timestamp-{unit}"}
    if pa.types.is_nested(type_) and not pa.types.is_union(type_):
        return _nested_avro_type(column, record_name)
    if (
        pa.types.is_decimal(type_)
        and type_.precision <= _DECIMAL_DIGITS_MAX
        and 0 <= type_.scale <= type_.precision
    ):
        return {
            "type": "fixed",
            "name": "fixed",
            "namespace": f"{record_name}.{column.name}",
            "size": _decimal_size(type_.precision),
            "logicalType": "decimal",
            "precision": type_.precision,
            "scale": type_.scale,
        }
    raise errors.UnsupportedError(
        f"column {column.name!r} is {type_}: this type is not supported, cast it to "
        f"{column_types.HOLDERS.get(type_, 'another')}"
    )


def _nested_avro_type(column: pa.Field, record_name: str) -> object:
    """Return the type of lists, maps and structs, named as Spark names what is in them."""
    type_ = column.type
    if pa.types.is_struct(type_):
        check_names([each.name for each in type_], f"the struct of column {column.name!r}")
        inside = f"{record_name}.{column.name}"
        fields = [avro_field(each, inside) for each in type_]
        return {"type": "record", "name": column.name, "namespace": record_name, "fields": fields}
    if pa.types.is_map(type_):
        if not _is_text(type_.key_type):
            raise errors.UnsupportedError(
                f"column {column.name!r} is {type_}: expected a map whose keys are texts"
            )
        values = pa.field(column.name, type_.item_type)
        return {"type": "map", "values": ["null", _avro_type(values, record_name)]}
    items = pa.field(column.name, type_.value_type)
    return {"type": "array", "items": ["null", _avro_type(items, record_name)]}


def _with_fixed_decimal(
    field: dict[str, object], column: pa.Field, record_name: str
) -> dict[str, object]:
    if not pa.types.is_decimal(column.type):
        return field
    fixed = _avro_type(column, record_name)
    declared, default = field["type"], field.get("default")
    if isinstance(declared, list):
        kind: object = ["null" if each == "null" else fixed for each in declared]
    else:
        kind = ["null", fixed] if column.nullable else fixed
    changed = field | {"type": kind}
    if isinstance(default, str):
        value = int.from_bytes(default.encode("latin-1"), "big", signed=True)
        content = value.to_bytes(_decimal_size(column.type.precision), "big", signed=True)
        changed["default"] = content.decode("latin-1")
    return changed


def _decimal_size(precision: int) -> int:
    """Return the least number of bytes that hold every signed number of so many digits."""
    largest: int = 10**precision - 1
    return (largest.bit_length() + 8) // 8


def _is_text(type_: pa.DataType) -> bool:
    if pa.types.is_dictionary(type_):
        return _is_text(type_.value_type)
    return bool(
        pa.types.is_string(type_)
        or pa.types.is_large_string(type_)
        or pa.types.is_string_view(type_)
    )


def _is_bytes(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(type_)
        or pa.types.is_large_binary(type_)
        or pa.types.is_binary_view(type_)
        or pa.types.is_fixed_size_binary(type_)
    )


def is_lossless(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether every value of a type has one of equal meaning in a table's type."""
    if source.equals(target) or pa.types.is_null(source):
        return True
    if pa.types.is_integer(source):
        return _holds_integers(source, target)
    if pa.types.is_timestamp(source) and pa.types.is_timestamp(target):
        is_finer = _TIME_UNITS.index(source.unit) <= _TIME_UNITS.index(target.unit)
        return is_finer and (source.tz is None) == (target.tz is None)
    if pa.types.is_decimal(source) and pa.types.is_decimal(target):
        digits = target.precision - target.scale
        return bool(source.scale <= target.scale and source.precision - source.scale <= digits)
    if pa.types.is_nested(source):
        return _holds_nested(source, target)
    return any(
        (
            pa.types.is_floating(source)
            and pa.types.is_floating(target)
            and source.bit_width <= target.bit_width,
            _is_text(source) and pa.types.is_string(target),
            _is_bytes(source) and pa.types.is_binary(target),
            pa.types.is_date(source) and pa.types.is_date(target),
        )
    )


def _holds_nested(source: pa.DataType, target: pa.DataType) -> bool:
    """Return the same of structs, maps and lists. The fields of structs are all there, by name."""
    if pa.types.is_struct(source):
        given = {field.name: field.type for field in source}
        known = {field.name: field.type for field in target} if pa.types.is_struct(target) else {}
        is_whole = len(given) == source.num_fields and given.keys() == known.keys()
        return is_whole and all(is_lossless(given[name], known[name]) for name in given)
    if pa.types.is_map(source):
        return bool(
            pa.types.is_map(target)
            and is_lossless(source.key_type, target.key_type)
            and is_lossless(source.item_type, target.item_type)
        )
    return bool(pa.types.is_list(target) and is_lossless(source.value_type, target.value_type))


def _holds_integers(source: pa.DataType, target: pa.DataType) -> bool:
    magnitude_bits = source.bit_width - pa.types.is_signed_integer(source)
    if pa.types.is_integer(target):
        return bool(magnitude_bits < target.bit_width)
    if pa.types.is_float32(target):
        return bool(magnitude_bits <= _FLOAT32_BITS)
    return bool(pa.types.is_float64(target) and magnitude_bits <= _FLOAT64_BITS)


def _list(items: Collection[str]) -> str:
    shown = list(items)[:_PROBLEMS_SHOWN_MAX]
    more = [f"and {len(items) - len(shown)} more"] if len(items) > len(shown) else []
    return "; ".join(shown + more)


def _json(schema: object) -> str:
    return json.dumps(schema, separators=(",", ":"))
