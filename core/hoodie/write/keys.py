"""Record keys and partition paths of rows, exactly as Apache Hudi's key generators make them.

    text of a value     as Java prints it; a date as `2024-03-15`, a decimal with all digits of its
                        scale; of a key field a time in microseconds
    one key field       the value's text; with the generator COMPLEX `field:value`, in most tables
    several             `f1:v1,f2:v2`; a null is `__null__`, an empty text `__empty__`
    partition path      the fields' texts, joined by `/`; hive style puts `field=` before each; a
                        null or empty one is `__HIVE_DEFAULT_PARTITION__`. Texts of times, where
                        the generator is timestamp-based: `timestamp_paths`

A value that Hudi would write differently from one operation to the next, or would not find again,
is refused before anything is written. Source: `KeyGenUtils.java`, `SimpleKeyGenerator.java`,
`ComplexKeyGenerator.java`, `PartitionPathEncodeUtils.java`; run from the 1.2.0 bundle.
"""

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie import deferred, errors
from hoodie.index import tables
from hoodie.model import files, key_generators, partition_columns, table_config

with deferred.imports():
    from hoodie.write import bad_values, timestamp_paths

_ESCAPED = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\\[\]^{]")
_UNESCAPED = re.compile(r"%[0-9A-Fa-f]{2}")
_BAD_IN_PATHS = re.compile(r"[/\x00-\x1f\x7f-\x9f]")
_PARENT = re.compile(r"(?:^|[/\\])\.\.(?:$|[/\\])")
_METADATA_FOLDER = ".hoodie"
_NO_BUCKETS = "other values, or a table with an index without buckets, such as simple"
_ENCODED = "other values, or a table that encodes them (hoodie create --url-encode)"
ROW_WRITER_KEY = "hoodie.datasource.write.row.writer.enable"
"""Apache Hudi's option that makes its bulk insert write rows, or records as other writes do."""
# Years of four digits, which every date library prints alike.
_DATE_DAYS_MIN = -719_162
_DATE_DAYS_MAX = 2_932_896


def record_keys(table: pa.Table, config: table_config.TableConfig) -> pa.Array:
    """Return the record key of each row.

    Args:
        table: Has the key fields, in the table's types.
        config: Names them.

    Raises:
        InvalidInputError: A field is of a type that has several texts, or holds values that make no
            key; the message has the column, the number of rows and an example.
        UnsupportedError: The table's keys are made by a generator that is not known here.
    """
    _check_keys(config)
    texts = [_key_text(table, name) for name in config.record_key_fields]
    _check_texts(texts, config)
    return _joined(texts, config)


def _stored_keys(table: pa.Table, config: table_config.TableConfig) -> pa.Array:
    """Return the record key of each row of a table, also of such as no write here would make."""
    return _joined([_key_text(table, name) for name in config.record_key_fields], config)


def maker(
    config: table_config.TableConfig, columns: pa.Schema
) -> Callable[[pa.Table], pa.Array] | None:
    """Return what makes record keys of stored rows with some columns; None if they tell none."""
    if not config.record_key_fields or has_instants(columns, config):
        return None
    try:
        record_keys(columns.empty_table(), config)
    except (errors.InvalidInputError, errors.UnsupportedError):
        return None
    return functools.partial(_stored_keys, config=config)


def given(key: object, config: table_config.TableConfig, columns: pa.Schema) -> str:
    """Return the record key that a caller means.

    Args:
        key: The text of meta columns, the value of the one key field, or values by key field.
        config: Names the key fields.
        columns: The table's.

    Raises:
        InvalidInputError: It is a value, and there are several key fields; or as `of_values`.
        UnsupportedError: As `of_values`.
    """
    if isinstance(key, str):
        return key
    if isinstance(key, Mapping):
        return of_values(key, config, columns)
    if len(config.record_key_fields) != 1:
        fields = ", ".join(config.record_key_fields) or "generated"
        raise errors.InvalidInputError(
            f"the record key of {config.name} is {fields}, and {key!r:.80} is one value: expected "
            "a dict of values by field, or the text that _hoodie_record_key has"
        )
    return of_values({config.record_key_fields[0]: key}, config, columns)


def of_values(
    values: Mapping[str, object], config: table_config.TableConfig, columns: pa.Schema
) -> str:
    """Return the record key of a row with some values of key fields; texts become what they say.

    Args:
        values: One of each key field, by its name.
        config: Names the key fields.
        columns: The table's.

    Raises:
        InvalidInputError: They are not those of the key fields, or are no values of these.
        UnsupportedError: The table's keys are made by a generator that is not known here.
    """
    fields = config.record_key_fields
    if set(values) != set(fields):
        raise errors.InvalidInputError(
            f"a record key of {', '.join(values) or 'nothing'}, expected values of "
            f"{', '.join(fields)}"
        )
    arrays = []
    for name in fields:
        kind = columns.field(name).type
        try:
            arrays.append(pc.cast(pa.array([values[name]]), kind))
        except (pa.ArrowException, OverflowError, TypeError) as error:
            raise errors.InvalidInputError(
                f"{values[name]!r:.80} is not a value of key field {name!r} of type {kind}"
            ) from error
    _check_keys(config)
    (found,) = _stored_keys(pa.table(arrays, names=list(fields)), config).to_pylist()
    return str(found)


def has_instants(schema: pa.Schema, config: table_config.TableConfig) -> bool:
    """Return whether a key field is a time at an instant, not one of a calendar.

    By rows, Apache Hudi's bulk insert prints it in the time zone of its JVM, and its other writes
    in microseconds, as here: they do not find what it wrote.
    """
    types = [schema.field(name).type for name in config.record_key_fields if name in schema.names]
    return any(pa.types.is_timestamp(each) and each.tz is not None for each in types)


def partition_paths(table: pa.Table, config: table_config.TableConfig) -> pa.DictionaryArray:
    """Return the partition path of each row, each different path once in the dictionary.

    Args:
        table: Has the partition fields, in the table's types.
        config: Names them.

    Raises:
        InvalidInputError: A field is of a type that has several texts, or a value makes no safe
            path; the message has the column, the number of rows and an example.
        UnsupportedError: The table's paths are made by a generator that is not known here.
    """
    makers = _makers(config)
    paths, codes = [""], np.zeros(table.num_rows, np.int64)
    for position, (name, maker) in enumerate(zip(config.partition_fields, makers, strict=True)):
        segments, places = _segments(table, name, config, maker, is_first=position == 0)
        # One number for each combination that occurs, so that they stay as few as the paths.
        combined = pa.array(codes * len(segments) + places).dictionary_encode()
        codes = combined.indices.to_numpy().astype(np.int64)
        pairs = [divmod(pair, len(segments)) for pair in combined.dictionary.to_pylist()]
        paths = [files.join(paths[path], segments[segment]) for path, segment in pairs]
    return pa.DictionaryArray.from_arrays(
        pa.array(codes.astype(np.int32)), pa.array(paths, pa.string())
    )


@dataclass(frozen=True, slots=True)
class Places:
    """In which partitions rows of some values are, of a table with one partition field.

    Attributes:
        config: The table's configuration.
        columns: The table's.
    """

    config: table_config.TableConfig
    columns: pa.Schema

    def of(self, values: Sequence[object]) -> list[str] | None:
        """Return the paths; None where they are not known."""
        (name,) = self.config.partition_fields
        try:
            rows = pa.table([pa.array(values, self.columns.field(name).type)], names=[name])
            found: list[str] = partition_paths(rows, self.config).to_pylist()
        except (pa.ArrowException, OverflowError, TypeError):
            return None
        except (errors.InvalidInputError, errors.UnsupportedError):
            return None
        return found

    @property
    def is_ordered(self) -> bool:
        """Whether no row of a greater value is in a lesser path."""
        if key_generators.path_kinds(self.config) != (key_generators.PathKind.TIMESTAMP,):
            return False
        try:
            return timestamp_paths.is_ordered(timestamp_paths.rule(self.config))
        except errors.UnsupportedError:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Maker:
    """What makes the parts of paths that a field gives.

    Attributes:
        texts: Returns the texts of a table's column.
        separator: What parts a text into folders; None where it is one.
    """

    texts: Callable[[pa.Table, str], pa.Array]
    separator: str | None = None

    def folders(self, segment: str) -> list[str]:
        return [segment] if self.separator is None else segment.split(self.separator)


def _segments(
    table: pa.Table, name: str, config: table_config.TableConfig, maker: _Maker, *, is_first: bool
) -> tuple[list[str], npt.NDArray[np.int64]]:
    """Return the different parts that a field gives to paths, and which of them each row has."""
    text = maker.texts(table, name)
    encoded = text.dictionary_encode(null_encoding="encode")
    numbers: dict[str, int] = {}
    places = np.zeros(len(encoded.dictionary), np.int64)
    for place, value in enumerate(encoded.dictionary.to_pylist()):
        folders = maker.folders(_segment(value, name, config))
        problem = _problem(folders, is_first=is_first)
        problem = problem or _loss(value, name, config)
        if problem is not None:
            expected = "other values" if config.is_url_encoded else _ENCODED
            bad_values.refuse(name, text, pc.equal(text, value), problem, expected)
        # Null, the empty text and the default partition's own name are one part.
        places[place] = numbers.setdefault("/".join(folders), len(numbers))
    return list(numbers), places[encoded.indices.to_numpy()]


def _check_keys(config: table_config.TableConfig) -> None:
    """Check that it is known which record keys the table's generator makes."""
    if not config.record_key_fields:
        raise errors.UnsupportedError(
            f"table {config.name!r} has no record key: each write generates keys of its own"
        )
    if not key_generators.has_one_key_text(config):
        if key_generators.kind(config) not in key_generators.CLASSES:
            raise _of_unknown_generator(config)
        raise errors.UnsupportedError(
            f"table {config.name!r} has one record key field and the key generator COMPLEX, whose "
            "keys differ between releases of Hudi, and does not say which it has: `hoodie adopt "
            "URI` reads it from its records and states it"
        )


def _makers(config: table_config.TableConfig) -> Sequence[_Maker]:
    """Return what makes the texts of each partition field."""
    kinds = key_generators.path_kinds(config)
    if kinds is None:
        raise _of_unknown_generator(config)
    has_times = key_generators.PathKind.TIMESTAMP in kinds
    has_slashes = key_generators.has_slashed_dates(config)
    if has_slashes and (has_times or len(kinds) != 1):
        raise errors.UnsupportedError(
            f"table {config.name!r} has dates with slashes in its paths, expected one partition "
            "field, and not a time"
        )

    def plain(table: pa.Table, name: str) -> pa.Array:
        return _text(_column(table, name, "partition"), name, "partition")

    # Later releases than 1.2 keep a dash at the beginning; 1.2 leaves the table's folder by it.
    of_plain = _Maker(texts=plain, separator="-" if has_slashes else None)
    if not has_times:
        return [of_plain] * len(kinds)
    rule = timestamp_paths.rule(config)

    def timed(table: pa.Table, name: str) -> pa.Array:
        return timestamp_paths.texts(_column(table, name, "partition"), rule, name)

    of_times = _Maker(texts=timed, separator="/")
    return [of_times if kind is key_generators.PathKind.TIMESTAMP else of_plain for kind in kinds]


def _of_unknown_generator(config: table_config.TableConfig) -> errors.UnsupportedError:
    partitions = config.properties.get("hoodie.table.partition.fields", "")
    return errors.UnsupportedError(
        f"table {config.name!r} has the key generator {key_generators.kind(config)} over "
        f"{partitions!r}, expected one of {', '.join(key_generators.CLASSES)}"
    )


def _column(table: pa.Table, name: str, role: str) -> pa.Array:
    """Return a column, in the type of its values."""
    if name not in table.column_names:
        outer = name.partition(".")[0]
        if outer in table.column_names:
            raise errors.InvalidInputError(
                f"{role} field {name!r} is within column {outer!r}, expected a column of its own"
            )
        raise errors.InvalidInputError(f"{role} column {name!r} is missing")
    column = table.column(name).combine_chunks()
    type_ = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    is_text = pa.types.is_string(type_) or pa.types.is_large_string(type_)
    return column.cast(pa.string() if is_text or pa.types.is_string_view(type_) else type_)


def _key_text(table: pa.Table, name: str) -> pa.Array:
    """Return a key field as the texts that Apache Hudi's writers print, but see `has_instants`."""
    column = _column(table, name, "record key")
    if pa.types.is_timestamp(column.type) and column.type.unit == "us":
        return column.cast(pa.int64()).cast(pa.string())
    if pa.types.is_decimal(column.type):
        return column.cast(pa.string())
    return _text(column, name, "record key", "decimals", "times in microseconds")


def _text(column: pa.Array, name: str, role: str, *more_types: str) -> pa.Array:
    """Return a column as the texts that Java prints for its values.

    Args:
        column: The column.
        name: Its name.
        role: What it is for, for messages.
        more_types: What else the role may have, for messages.
    """
    type_ = column.type
    if pa.types.is_string(type_):
        return column
    if pa.types.is_integer(type_) or pa.types.is_boolean(type_):
        return column.cast(pa.string())
    if pa.types.is_date32(type_):
        text = column.cast(pa.string())
        days = column.cast(pa.int32())
        is_far = pc.or_(pc.less(days, _DATE_DAYS_MIN), pc.greater(days, _DATE_DAYS_MAX))
        bad_values.refuse(name, text, is_far, "a year before 1 or after 9999")
        return text
    *allowed, last = ("text", "whole numbers", "booleans", "dates", *more_types)
    rows = f" in {len(column)} rows{bad_values.example(column)}" if len(column) else ""
    raise errors.InvalidInputError(
        f"{role} column {name!r} is {column.type}{rows}: Hudi prints such values differently from "
        f"one operation to the next, expected {', '.join(allowed)} or {last}"
    )


def _check_texts(texts: Sequence[pa.Array], config: table_config.TableConfig) -> None:
    """Refuse texts of key fields that make no key, or one that would not be found again.

    Where fields are hashed, Hudi parses them out of the key. Otherwise it only has to be the key of
    these texts alone: a text may not go on as if the next field began in it.
    """
    fields = config.record_key_fields
    hashed = tables.index_of(config).parsed_fields
    if len(fields) == 1:
        _check_single(texts[0], config, is_hashed=bool(hashed))
        if not key_generators.names_fields(config):
            return
    for name, following, text in zip(fields, [*fields[1:], None], texts, strict=True):
        reserved = pa.array([key_generators.NULL_VALUE, key_generators.EMPTY_VALUE])
        bad_values.refuse(
            name, text, pc.is_in(text, reserved), "a text that stands for null or empty"
        )
        if hashed:
            _check_parsed(name, text, is_hashed=name in hashed)
        elif following is not None:
            bad_values.refuse(
                name,
                text,
                pc.match_substring(text, f",{following}:"),
                f"a comma and {following}:, with which the next key field begins",
            )
    is_missing = _is_missing(texts[0])
    for text in texts[1:]:
        is_missing = pc.and_(is_missing, _is_missing(text))
    bad_values.refuse(
        ", ".join(fields),
        texts[0],
        is_missing,
        "null or empty altogether",
        "a value in one of the columns at least",
    )


def _check_single(text: pa.Array, config: table_config.TableConfig, *, is_hashed: bool) -> None:
    """Refuse texts of the one key field that make no key, or one that Hudi takes for a list."""
    (name,) = config.record_key_fields
    bad_values.refuse(
        name,
        text,
        _is_missing(text),
        "null or empty, which is not a record key",
        "a value in each row",
    )
    if is_hashed:
        is_both = pc.and_(pc.match_substring(text, ","), pc.match_substring(text, ":"))
        problem = "a comma and a colon, which Hudi takes for a list"
        bad_values.refuse(name, text, is_both, problem, _NO_BUCKETS)


def _joined(texts: Sequence[pa.Array], config: table_config.TableConfig) -> pa.Array:
    """Return keys of the texts of each field."""
    fields = config.record_key_fields
    if len(fields) == 1 and not key_generators.names_fields(config):
        return texts[0]
    parts = []
    for name, text in zip(fields, texts, strict=True):
        value = pc.fill_null(text, key_generators.NULL_VALUE)
        value = pc.if_else(pc.equal(value, ""), key_generators.EMPTY_VALUE, value)
        parts.append(pc.binary_join_element_wise(f"{name}:", value, ""))
    return pc.binary_join_element_wise(*parts, ",")


def _check_parsed(name: str, text: pa.Array, *, is_hashed: bool) -> None:
    """Refuse texts that Hudi would not parse out of a key again."""
    has_comma = pc.match_substring(text, ",")
    bad_values.refuse(name, text, has_comma, "a comma, which separates key fields", _NO_BUCKETS)
    if not is_hashed:
        is_trap = pc.match_substring(text, ":")
        bad_values.refuse(
            name,
            text,
            is_trap,
            "a colon, which a field that is not hashed may not hold",
            _NO_BUCKETS,
        )


def _is_missing(text: pa.Array) -> pa.Array:
    return pc.equal(pc.fill_null(text, ""), "")


def _segment(value: str | None, name: str, config: table_config.TableConfig) -> str:
    text = value or partition_columns.NULL
    if config.is_url_encoded:
        text = _ESCAPED.sub(_percent, text)
    return f"{name}={text}" if config.is_hive_style else text


def _loss(value: str | None, name: str, config: table_config.TableConfig) -> str | None:
    """Return why a value that stands in the path alone would be lost; None if it would not."""
    if value is None or not config.drops_partition_columns:
        return None
    if partition_columns.text_of(_segment(value, name, config), name, config) != value:
        return "a text that stands for null in paths, and nothing else has the column's values"
    if not config.is_url_encoded and _UNESCAPED.search(value):
        return "a percent sign and two digits, of which readers of Apache Hudi make a character"
    if "=" in value and not (config.is_hive_style or config.is_url_encoded):
        return "an equals sign, before which readers of Apache Hudi expect the column's name"
    return None


def _problem(folders: Sequence[str], *, is_first: bool) -> str | None:
    """Return what is wrong with folders of a partition path; None for nothing."""
    if not all(folders):
        return "a folder without a name"
    found = (
        _path_problem(folder, is_first=is_first and place == 0)
        for place, folder in enumerate(folders)
    )
    return next((each for each in found if each is not None), None)


def _path_problem(segment: str, *, is_first: bool) -> str | None:
    """Return what is wrong with a folder of a partition path; None when it is safe."""
    problems: tuple[tuple[bool, str], ...] = (
        (bool(_BAD_IN_PATHS.search(segment)), "a slash or a control character"),
        (segment == "." or bool(_PARENT.search(segment)), "a step out of its folder"),
        (segment == _METADATA_FOLDER, f"{_METADATA_FOLDER}, the folder of the table's metadata"),
        # Hadoop takes what is before it for a scheme, and the folder for another one.
        (is_first and ":" in segment, "a colon, which Hadoop finds no folder with"),
    )
    return next((text for is_so, text in problems if is_so), None)


def _percent(match: re.Match[str]) -> str:
    return f"%{ord(match[0]):02X}"
