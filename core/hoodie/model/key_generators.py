"""What a table's key generator makes of key and partition fields, as far as we know it.

Source: `KeyGeneratorType.java`, `SimpleKeyGenerator.java`, `ComplexKeyGenerator.java` (1.2.0).
"""

from hoodie.model import table_config

PLAIN = {
    "SIMPLE": "SimpleKeyGenerator",
    "COMPLEX": "ComplexKeyGenerator",
    "NON_PARTITION": "NonpartitionedKeyGenerator",
    "CUSTOM": "CustomKeyGenerator",
}
"""Types that put the fields' own texts into keys and paths, and their classes."""

NULL_VALUE = "__null__"
EMPTY_VALUE = "__empty__"
"""What stands for a null and an empty value in a record key of several fields."""


def kind(config: table_config.TableConfig) -> str:
    """Return the type of the table's key generator, or the name of a class that is not known."""
    class_name = config.properties.get("hoodie.table.keygenerator.class", "").rpartition(".")[2]
    if class_name:
        plain = class_name.replace("AvroKeyGenerator", "KeyGenerator")
        return next((name for name, each in PLAIN.items() if each == plain), class_name)
    stored = config.properties.get("hoodie.table.keygenerator.type", "")
    inferred = "COMPLEX" if len(config.partition_fields) > 1 else "SIMPLE"
    return stored.upper().removesuffix("_AVRO") or inferred


def is_plain(config: table_config.TableConfig) -> bool:
    """Return whether partition paths hold the fields' own texts, not times or parts of them."""
    partitions = config.properties.get("hoodie.table.partition.fields", "")
    return kind(config) in PLAIN and all(map(_is_plain_field, partitions.split(",")))


def has_one_key_text(config: table_config.TableConfig) -> bool:
    """Return whether all releases of Hudi make the same record key of a row.

    Of a single key field, COMPLEX makes the bare value in 0.14.1 to 1.0.2 and `field:value` in
    others.
    """
    return is_plain(config) and (kind(config) != "COMPLEX" or len(config.record_key_fields) > 1)


def _is_plain_field(name: str) -> bool:
    transformation = name.strip().partition(":")[2]
    return transformation.upper() in ("", "SIMPLE")
