"""What `hoodie create` and `hoodie adopt` declare of a table's index, zone and keys."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hoodie import errors
from hoodie.model import key_generators, table_config, time_zones
from hoodie.services import new_tables
from hoodie.timeline import partition_buckets

_WAY_OUT = "docs/spark-writers.md says how to remove what was stated wrongly"


def spelled(name: str) -> str:
    """Return how the command line spells a parameter of a new table."""
    return f"--{name.replace('_', '-')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """What `hoodie adopt` was told.

    Attributes:
        index: How the table's writers find records; None for not said.
        keeps_partitions: With a global index: whether records stay in their partition.
        buckets: Buckets a partition; None for not said.
        bucket_fields: Columns that are hashed; none for the record key.
        time_zone: Of times that are local ones; None for not said.
        key_options: Properties of the key generator.
    """

    index: table_config.IndexKind | None = None
    keeps_partitions: bool = False
    buckets: int | None = None
    bucket_fields: tuple[str, ...] = ()
    time_zone: str | None = None
    key_options: Mapping[str, str] = field(default_factory=dict)


def adopted(stored: table_config.TableConfig, wish: Adoption) -> table_config.TableConfig:
    """Return a table's configuration with what is declared of it.

    Raises:
        ConfigurationError: Options contradict each other, or the table states another index,
            another zone or another option of its key generator.
    """
    declared = _in_zone(_with_index(stored, wish), wish.time_zone)
    for key, value in wish.key_options.items():
        if not key_generators.is_option(key):
            raise errors.ConfigurationError(
                f"--key-option {key}: expected {key_generators.OPTIONS_PREFIX}..., "
                f"{key_generators.SLASHES_KEY} or {table_config.KEY_ENCODING_KEY}"
            )
        if stored.properties.get(key, value) != value:
            raise errors.ConfigurationError(
                f"table {stored.name!r} states {key}={stored.properties[key]}, not {value}: what "
                f"makes keys and paths is not changed; {_WAY_OUT}"
            )
    return replace(declared, properties={**stored.properties, **wish.key_options})


def _in_zone(stored: table_config.TableConfig, name: str | None) -> table_config.TableConfig:
    if name is None:
        return stored
    zone = time_zones.TimeZone(name)
    zone.check()
    if stored.time_zone not in (None, zone):
        raise errors.ConfigurationError(
            f"the times of table {stored.name!r} are those of {stored.zone.name}, not {name}: a "
            f"zone that is stated is not changed; {_WAY_OUT}"
        )
    return replace(stored, time_zone=zone)


def _with_index(stored: table_config.TableConfig, wish: Adoption) -> table_config.TableConfig:
    has_buckets = wish.index is not None and wish.index.has_buckets
    if wish.index is not None and has_buckets and wish.buckets is None:
        raise errors.ConfigurationError(
            f"--index {new_tables.spelled(wish.index)} without --buckets: expected their number"
        )
    for option, is_given in (
        ("--buckets", wish.buckets is not None),
        ("--bucket-fields", bool(wish.bucket_fields)),
    ):
        if is_given and not has_buckets:
            given = (
                "no --index" if wish.index is None else f"--index {new_tables.spelled(wish.index)}"
            )
            raise errors.ConfigurationError(
                f"{option} with {given}: only a bucket index has buckets"
            )
    new_tables.check_keeps_partitions(
        wish.index, keeps_partitions=wish.keeps_partitions, spell=spelled
    )
    if wish.index is None:
        return stored
    declared = replace(
        stored,
        index=new_tables.stated(wish.index),
        updates_partitions=not wish.keeps_partitions,
        bucket_count=wish.buckets if has_buckets else stored.bucket_count,
        hash_fields=wish.bucket_fields if has_buckets else stored.hash_fields,
    )
    # By itself: the properties are those of the table, and name its index.
    asked = replace(declared, properties={})
    if stored.index_kind is not None and _index_of(stored) != _index_of(asked):
        raise errors.ConfigurationError(
            f"table {stored.name!r} states {_index_of(stored)}, not {_index_of(asked)}: an "
            f"index that is stated is not changed; {_WAY_OUT}"
        )
    return declared


def _index_of(config: table_config.TableConfig) -> str:
    kind = config.index_kind
    if kind is None:
        return "no index"
    if kind.is_global:
        verb = "moves" if config.updates_partitions else "keeps"
        return f"index {kind.value} that {verb} records whose partition changes"
    if not kind.has_buckets:
        return f"index {kind.value}"
    name = "" if kind is table_config.IndexKind.BUCKET else f"index {kind.value} of "
    return f"{name}{config.bucket_count} buckets by {', '.join(config.bucket_fields)}"


def hashing_config(
    config: table_config.TableConfig, expressions: str | None
) -> partition_buckets.HashingConfig | None:
    """Return the bucket counts by partition that an option declares; None for none.

    Raises:
        InvalidInputError: They are malformed.
        UnsupportedError: An expression may mean something else in Java.
        ConfigurationError: The table has no number of buckets.
    """
    if expressions is None:
        return None
    if config.bucket_count is None:
        raise errors.ConfigurationError(
            "--buckets-by-partition without a bucket index: expected --index bucket"
        )
    return partition_buckets.declared(expressions, config.bucket_count)
