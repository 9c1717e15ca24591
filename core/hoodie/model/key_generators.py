"""What a table's key generator makes of key and partition fields, as far as we know it.

    record key      of one field its value; of several `f1:v1,f2:v2`. Of one field COMPLEX names it
                    too, but for releases 0.14.1 to 1.0.2 (`KeyEncoding`)
    partition path  of each field the text of its value; TIMESTAMP, and CUSTOM for fields that say
                    so, the text of a time (`write.timestamp_paths`)

Source: `KeyGeneratorType.java`, `SimpleKeyGenerator.java`, `ComplexKeyGenerator.java`,
`CustomKeyGenerator.java`, `TimestampBasedKeyGenerator.java`, `KeyGenUtils.java` (1.2.0).
"""

import enum

from hoodie import errors
from hoodie.model import table_config
from hoodie.model.table_config import KeyEncoding

CLASSES = {
    "SIMPLE": "SimpleKeyGenerator",
    "COMPLEX": "ComplexKeyGenerator",
    "NON_PARTITION": "NonpartitionedKeyGenerator",
    "CUSTOM": "CustomKeyGenerator",
    "TIMESTAMP": "TimestampBasedKeyGenerator",
}
"""Types of generators that are known, and their classes."""

NULL_VALUE = "__null__"
EMPTY_VALUE = "__empty__"
"""What stands for a null and an empty value in a record key of several fields."""

_TYPE_KEY = "hoodie.table.keygenerator.type"
_CLASS_KEY = "hoodie.table.keygenerator.class"
_PARTITIONS_KEY = "hoodie.table.partition.fields"
_INITIAL_VERSION_KEY = "hoodie.table.initial.version"
SLASHES_KEY = "hoodie.datasource.write.slash.separated.date.partitioning"
_EXTRACTOR_KEY = "hoodie.table.partition_extractor_class"
_SLASHES_EXTRACTOR = "SlashEncodedDayPartitionValueExtractor"
OPTIONS_PREFIX = "hoodie.keygen.timebased."
"""Of the options of a timestamp-based generator: `write.timestamp_paths`."""


class PathKind(enum.Enum):
    """What of a partition field is in a path: its text, or the text of the time that it is."""

    SIMPLE = "SIMPLE"
    TIMESTAMP = "TIMESTAMP"


def kind(config: table_config.TableConfig) -> str:
    """Return the type of the table's key generator, or the name of a class that is not known."""
    class_name = config.properties.get(_CLASS_KEY, "").rpartition(".")[2]
    if class_name:
        plain = class_name.replace("AvroKeyGenerator", "KeyGenerator")
        return next((name for name, each in CLASSES.items() if each == plain), class_name)
    stored = config.properties.get(_TYPE_KEY, "")
    inferred = "COMPLEX" if len(config.partition_fields) > 1 else "SIMPLE"
    return stored.upper().removesuffix("_AVRO") or inferred


def described(config: table_config.TableConfig) -> str:
    """Return the type with what it makes of times and dates in paths, for people."""
    parts = [kind(config)]
    pattern = config.properties.get(f"{OPTIONS_PREFIX}output.dateformat")
    if pattern:
        parts.append(f"times as {pattern}")
    if has_slashed_dates(config):
        parts.append("dates with slashes")
    return ", ".join(parts)


def path_kinds(config: table_config.TableConfig) -> tuple[PathKind, ...] | None:
    """Return what is in partition paths of each partition field; None where it is not known."""
    name = kind(config)
    if name not in CLASSES:
        return None
    if name == "TIMESTAMP":
        return (PathKind.TIMESTAMP,) if len(config.partition_fields) == 1 else None
    stated = config.properties.get(_PARTITIONS_KEY) or ",".join(config.partition_fields)
    kinds = [each.partition(":")[2].strip().upper() for each in stated.split(",") if each.strip()]
    if not {"", *PathKind.__members__}.issuperset(kinds):
        return None
    return tuple(PathKind[each or "SIMPLE"] for each in kinds)


def is_option(key: str) -> bool:
    """Return whether a property is an option of key generators.

    Apache Hudi stores some of them with some tables, and leaves the others to its writers.
    """
    return key in (table_config.KEY_ENCODING_KEY, SLASHES_KEY) or key.startswith(OPTIONS_PREFIX)


def has_slashed_dates(config: table_config.TableConfig) -> bool:
    """Return whether each dash of a path is a slash, so that a date is three folders.

    Spark's data source of 1.2.0 stores the class by which it finds dates in paths, not the flag.
    """
    extractor = config.properties.get(_EXTRACTOR_KEY, "").rpartition(".")[2]
    is_stated = config.properties.get(SLASHES_KEY, "").lower() == "true"
    return is_stated or extractor == _SLASHES_EXTRACTOR


def may_have_slashed_dates(config: table_config.TableConfig) -> bool:
    """Return whether dates of paths may have slashes, or do, though the table does not say so.

    With Hive style paths Apache Hudi 1.2.0 stores neither the flag nor that class: only an adoption
    finds out.
    """
    is_known = has_slashed_dates(config) or config.states_index
    return len(config.partition_fields) == 1 and not is_known


def texts_of_paths(config: table_config.TableConfig) -> str:
    """Return what decides the texts of partition paths, for comparison and for people."""
    kinds = path_kinds(config)
    parts = [kind(config)] if kinds is None else [each.value for each in kinds] or ["no partitions"]
    options = {
        key: value for key, value in config.properties.items() if key.startswith(OPTIONS_PREFIX)
    }
    parts += [f"{key}={value}" for key, value in sorted(options.items())]
    return ", ".join([*parts, *(["dates with slashes"] if has_slashed_dates(config) else [])])


def is_plain(config: table_config.TableConfig) -> bool:
    """Return whether partition paths hold the fields' own texts, not times or parts of them."""
    kinds = path_kinds(config)
    return kinds is not None and PathKind.TIMESTAMP not in kinds and not has_slashed_dates(config)


def names_fields(config: table_config.TableConfig) -> bool | None:
    """Return whether record keys name their fields; None where releases of Hudi differ about it.

    Raises:
        FormatError: The table states an encoding that there is not.
    """
    if len(config.record_key_fields) != 1:
        return True
    if kind(config) != "COMPLEX":
        return False
    stated = config.properties.get(table_config.KEY_ENCODING_KEY)
    if stated is not None:
        return _encoding(stated) is KeyEncoding.FIELD_PREFIXED
    if not config.properties:
        return True  # It is not made yet: `table_config.to_properties`.
    # A table that was upgraded may have keys from before.
    first = config.properties.get(_INITIAL_VERSION_KEY, "")
    is_named = first.isdecimal() and int(first) >= table_config.VERSION_NAMING_KEYS
    return True if is_named else None


def has_one_key_text(config: table_config.TableConfig) -> bool:
    """Return whether it is known what record key each row has."""
    return kind(config) in CLASSES and names_fields(config) is not None


def _encoding(text: str) -> KeyEncoding:
    try:
        return KeyEncoding(text.strip().upper())
    except ValueError:
        known = " or ".join(KeyEncoding)
        raise errors.FormatError(
            f"{table_config.KEY_ENCODING_KEY} is {text!r}, expected {known}"
        ) from None
