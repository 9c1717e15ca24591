"""Taking over a table that does not say how its records are found, or of which zone its times are.

Apache Hudi keeps the index, and of a bucket index the number of buckets and what is hashed, in the
options of its writers, and the time zone of a timeline in local time is that of their JVMs. Who
writes beside them has to know both: with another index, or number, a key would be in two places,
and with another zone times would not be in order. So what is declared is compared with the table,
and then put where all who write here see it:

    bucket           every record is compared. A bucket index never changes its number, but by
                     counts of single partitions, which the table has; so that what is written
                     meanwhile proves nothing else
    consistent       every record is compared with the ring of its partition, and the number of
    hashing          nodes with which partitions began
    simple, bloom    they find a record wherever it is, and writers of Apache Hudi with one of them
                     go well with the other. But in file groups that are all of buckets, writers
                     with a bucket index would not find what is put elsewhere
    time zone        the newest instants are compared with the times of their files, unless these
                     were copied
    key generator    keys and paths of some records are compared with what their rows make; how one
                     key field of COMPLEX is encoded is read from keys (`stored_keys`)
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from hoodie import environment, errors
from hoodie.engine import protocol
from hoodie.filegroup import log_scanning, snapshots
from hoodie.index import tables
from hoodie.model import instants, key_generators, table_config
from hoodie.model.table_config import IndexKind
from hoodie.services import checking, stored_keys
from hoodie.timeline import (
    active,
    clock_evidence,
    hash_rings,
    index_definitions,
    partition_buckets,
)
from hoodie.transaction import client, configuration, manager, preconditions
from hoodie.write import compatibility


def with_key_encoding(
    declared: table_config.TableConfig, target: manager.Target, env: environment.Environment
) -> table_config.TableConfig:
    """Return what is declared, with the encoding of keys that the table has but does not state.

    A table without an index is read alone, for which the encoding is not needed.

    Raises:
        ConfigurationError: It has keys of both encodings.
    """
    is_known = key_generators.kind(target.config) in key_generators.CLASSES
    is_needed = is_known and declared.states_index
    if not is_needed or key_generators.names_fields(target.config) is not None:
        return declared
    found = {table_config.KEY_ENCODING_KEY: stored_keys.encoding(target, env).value}
    return dataclasses.replace(declared, properties={**declared.properties, **found})


def lacking(
    stored: table_config.TableConfig, declared: table_config.TableConfig
) -> Mapping[str, str]:
    """Return the properties that a table lacks to say what is declared; empty for none.

    Args:
        stored: The table's configuration.
        declared: With the index, the time zone and options of the key generator, as far as they
            are declared; of `with_key_encoding`.
    """
    found: dict[str, str] = {}
    # One that states an index of a later release keeps it, and is not written.
    if not stored.states_index:
        found |= _index_properties(declared)
    if stored.time_zone is None:
        found |= _zone_properties(declared)
    return found | {
        key: value for key, value in _key_options(declared).items() if key not in stored.properties
    }


def adopted(
    stored: table_config.TableConfig, declared: table_config.TableConfig
) -> table_config.TableConfig:
    """Return a table's configuration with what it lacks of what is declared."""
    if stored.time_zone is None:
        stored = dataclasses.replace(stored, time_zone=declared.time_zone)
    properties = {**_key_options(declared), **stored.properties}
    stored = dataclasses.replace(stored, properties=properties)
    if stored.index_kind is not None:
        return stored
    if declared.index_kind is None or not declared.index_kind.has_buckets:
        return dataclasses.replace(
            stored, index=declared.index, updates_partitions=declared.updates_partitions
        )
    return dataclasses.replace(
        stored,
        index=declared.index,
        bucket_count=declared.bucket_count,
        hash_fields=declared.bucket_fields,
    )


def _index_properties(config: table_config.TableConfig) -> dict[str, str]:
    found: dict[str, str] = {}
    if config.index is not None:
        found |= table_config.index_properties(
            config.index, updates_partitions=config.updates_partitions
        )
    if config.index_kind is not None and config.index_kind.has_buckets:
        found[table_config.BUCKET_COUNT_KEY] = str(config.bucket_count)
        found[table_config.HASH_FIELDS_KEY] = ",".join(config.bucket_fields)
    return found


def _zone_properties(config: table_config.TableConfig) -> dict[str, str]:
    return {} if config.time_zone is None else {table_config.TIME_ZONE_KEY: config.time_zone.name}


def _key_options(config: table_config.TableConfig) -> dict[str, str]:
    return {key: value for key, value in config.properties.items() if key_generators.is_option(key)}


def check(
    target: manager.Target,
    changes: Collection[str],
    env: environment.Environment,
    progress: protocol.Progress | None = None,
    hashing_config: partition_buckets.HashingConfig | None = None,
) -> None:
    """Compare what a table is to say with the table.

    For buckets the keys of all records are read, for another index the names of all files; for a
    time zone the timeline is listed. Some records are read anyway, unless a table without an index,
    which is read alone, is to state its time zone and nothing else.

    Args:
        target: The table, as `adopted` has it.
        changes: The properties that it lacks.
        env: The engine that reads file groups.
        progress: Told of file groups that were read.
        hashing_config: Bucket counts by partition that it is to say as well.

    Raises:
        ConfigurationError: Some records are in other buckets, the first finding is named; or the
            file groups are all of buckets; or times are of another zone, or the zone unknown; or
            some records have other keys or paths than their rows make; or a pending compaction
            hides rows since an upgrade.
        UnsupportedError: The table is not written, or has blocks of log compactions.
    """
    refusal = preconditions.table_refusal(target.config, target.config)
    if refusal is not None:
        raise refusal
    if not target.config.states_index and set(changes) == {table_config.TIME_ZONE_KEY}:
        _check_zone(target)
        return
    compatibility.check_table(target.config)
    kept_up = target.config.metadata_partitions_kept_up
    index_definitions.of_expressions(target.storage, target.config, kept_up)
    stored_keys.check(target, env)
    _check_upgrade(target)
    _check_log_compactions(target)
    if table_config.TIME_ZONE_KEY in changes:
        _check_zone(target)
    is_simple = target.config.index_kind is IndexKind.BUCKET
    if hashing_config is not None and not is_simple:
        raise errors.ConfigurationError(
            f"bucket counts by partition of {target.storage.uri}: expected the index bucket"
        )
    has_new_count = table_config.BUCKET_COUNT_KEY in changes
    if is_simple and (has_new_count or hashing_config is not None):
        _check_no_rings(target)
        _check_counts(target, changes, hashing_config)
    if not has_new_count:
        if table_config.INDEX_KEY in changes:
            _check_no_buckets(target)
        return
    if not is_simple:
        _check_rings(target)
    found = checking.errors_of(checking.check_buckets(target, env, progress, hashing_config))
    if found:
        more = f", and {len(found) - 1} more findings" if len(found) > 1 else ""
        raise errors.ConfigurationError(
            f"{target.storage.uri} is not distributed over {target.config.bucket_count} buckets by "
            f"{', '.join(target.config.bucket_fields)}: {found[0].subject} {found[0].message}{more}"
            "; expected the hoodie.bucket.index.num.buckets (--buckets) and the "
            "hoodie.bucket.index.hash.field (--bucket-fields) of its Spark writers, or another "
            "index"
        )


def _check_no_buckets(target: manager.Target) -> None:
    """Refuse a table whose writers have a bucket index, as far as that is seen."""
    assert target.config.index is not None
    kind = target.config.index.value.lower()
    _check_no_rings(target)
    snapshot = snapshots.take(target.storage, target.config)
    names = [
        group[0].group.file_id
        for path in snapshot.view.partitions()
        for group in snapshot.view.slices(path)
    ]
    contradiction = tables.index_of(target.config).contradiction(names)
    if contradiction is not None:
        raise errors.ConfigurationError(
            f"{target.storage.uri} does not have the index {kind}: {contradiction}"
        )


def _check_no_rings(target: manager.Target) -> None:
    for info in target.storage.list(hash_rings.DIRECTORY, is_recursive=True):
        raise errors.ConfigurationError(
            f"{target.storage.uri} has {info.path}, of a bucket index with consistent hashing: "
            "`hoodie adopt --index consistent-hashing --buckets N` states it"
        )


def _check_counts(
    target: manager.Target,
    changes: Collection[str],
    declared: partition_buckets.HashingConfig | None,
) -> None:
    """Refuse counts by partition that contradict the table's, and a count that these contradict."""
    configs = _stored_counts(target)
    is_new = table_config.BUCKET_COUNT_KEY in changes
    stored = configs[-1] if configs else None
    said = stored.expressions if stored else "one count for all"
    if declared is not None and said != declared.expressions and (stored or not is_new):
        raise errors.ConfigurationError(
            f"{target.storage.uri} states bucket counts by partition: {said}, not "
            f"{declared.expressions}. What is stated is changed by Apache Hudi's "
            "partition_bucket_index_manager alone"
        )
    if stored is not None and is_new and stored.default_count != target.config.bucket_count:
        raise errors.ConfigurationError(
            f"{stored.path} of {target.storage.uri} gives other partitions "
            f"{stored.default_count} buckets, expected {target.config.bucket_count}, as is "
            "declared"
        )


def _check_rings(target: manager.Target) -> None:
    """Refuse a table whose partitions have no rings, or began with another number of nodes."""
    tables.index_of(target.config).check()
    snapshot = snapshots.take(target.storage, target.config)
    for path in snapshot.view.partitions():
        count = hash_rings.initial_count(target.storage, path)
        if count != target.config.bucket_count and snapshot.view.latest_slices(path):
            begun = "no ring of consistent hashing" if count is None else f"{count} buckets"
            raise errors.ConfigurationError(
                f"partition {path or '.'} of {target.storage.uri} began with {begun}, expected "
                f"{target.config.bucket_count} buckets, as is declared"
            )


def _check_upgrade(target: manager.Target) -> None:
    """Refuse a table whose upgrade from version 6 has hidden rows."""
    if not target.config.was_upgraded:
        return
    snapshot = snapshots.take(target.storage, target.config)
    for found in checking.of_hidden_logs(target.storage, snapshot):
        raise errors.ConfigurationError(f"{target.storage.uri}: {found.subject} {found.message}")


def _check_log_compactions(target: manager.Target) -> None:
    """Refuse a table whose rows are in blocks of log compactions, which are not read."""
    snapshot = snapshots.take(target.storage, target.config)
    times = {
        each.requested_time
        for each in snapshot.timeline.files
        if each.action is instants.Action.LOG_COMPACTION
    }
    if not times:
        return
    for path in snapshot.view.partitions():
        for each in snapshot.view.latest_slices(path):
            for log_file in each.log_files:
                if log_file.instant_time in times:
                    raise errors.UnsupportedError(
                        f"{log_file.path} of {target.storage.uri} is of a log compaction, "
                        f"expected a table without: {log_scanning.WITHOUT_LOG_COMPACTIONS}"
                    )


def _check_zone(target: manager.Target) -> None:
    """Refuse a time zone that the newest instants are not of, as far as their files tell."""
    zone = target.config.zone
    zone.check()
    timeline = active.listed(target.storage)
    upgraded = target.config.was_upgraded
    found = clock_evidence.of_table(target.storage, timeline, was_upgraded=upgraded)
    ahead_min = clock_evidence.offset_min(found, zone)
    if ahead_min:
        where = "ahead of" if ahead_min > 0 else "behind"
        raise errors.ConfigurationError(
            f"the newest instants of {target.storage.uri} have times {abs(ahead_min)} min {where} "
            f"those of {zone.name}, as the times of their files show: expected the time zone of "
            "the JVMs that write the table, and files that were copied since with the times that "
            "they had (cp -a, rsync -t)"
        )


def record(
    target: manager.Target,
    changes: Mapping[str, str],
    transaction: client.Client,
    hashing_config: partition_buckets.HashingConfig | None = None,
) -> None:
    """Put what a table lacks into its properties, for all who write it, and an id. Idempotent.

    Args:
        target: The table, after `check`.
        changes: The properties that it lacks.
        transaction: Whose change it is.
        hashing_config: Bucket counts by partition that it is to say, if it has none.

    Raises:
        ConflictError: Another process changes the properties without our lock, or has put others.
    """

    def decide(stored: table_config.TableConfig) -> configuration.Changes:
        lacks = lacking(stored, target.config)
        agreed = {
            **_index_properties(stored),
            **_zone_properties(stored),
            **_key_options(stored),
            **lacks,
        }
        differing = [key for key, value in changes.items() if agreed.get(key) != value]
        if differing:
            raise errors.ConflictError(
                f"{target.storage.uri}: {', '.join(differing)} changed concurrently"
            )
        stated = {key: value for key, value in lacks.items() if key in changes}
        if stored.table_id is None:
            # Not among what is compared: of several adoptions any may draw it.
            stated[table_config.TABLE_ID_KEY] = transaction.random.uuid()
        return stated

    if hashing_config is not None and not _stored_counts(target):
        # First: a writer that knows the index knows them.
        partition_buckets.create(target.storage, hashing_config)
    configuration.change(transaction, decide)


def _stored_counts(target: manager.Target) -> Sequence[partition_buckets.HashingConfig]:
    return snapshots.take(target.storage, target.config).hashing_configs()
