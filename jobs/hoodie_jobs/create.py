"""Create a table, or take over an existing one: `python -m hoodie_jobs.create SPEC.json`.

Done twice it is done once: a table that is as the spec wants it is nothing to do.
"""

import dataclasses
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

import pyarrow as pa

from hoodie import environment, errors, table
from hoodie.contract import job_specs
from hoodie.model import schemas, table_config, time_zones
from hoodie.services import adoption
from hoodie.storage import protocol
from hoodie.timeline import partition_buckets
from hoodie.transaction import manager
from hoodie_jobs import opening, program
from hoodie_jobs.run import Run

_TABLE_PREFIX = ".hoodie/"
_COMPARED: dict[str, Callable[[table_config.TableConfig], Any]] = {
    "type": lambda config: config.table_type.value,
    "version": lambda config: config.version,
    "record key": lambda config: config.record_key_fields,
    "partition fields": lambda config: config.partition_fields,
    "ordering fields": lambda config: config.ordering_fields,
    "merge mode": lambda config: config.merge_mode.value,
    "partial updates": lambda config: config.has_partial_updates,
    "hive-style partitioning": lambda config: config.is_hive_style,
    "encoding of partition values": lambda config: config.is_url_encoded,
    "change data": lambda config: config.change_data and config.change_data.value,
    "index": lambda config: config.index_kind and config.index_kind.value,
    "moving of records to other partitions": lambda config: config.updates_partitions,
    "bucket count": lambda config: config.bucket_count,
    "hash fields": lambda config: config.bucket_fields,
}


def perform(run: Run) -> None:
    """Create the table where there is none; compare the one that is there.

    Raises:
        NotFoundError: There is none, and none may be created.
        AlreadyExistsError: There is one, and none may be taken over; or the place holds other
            files.
        ConfigurationError: The one that is there differs from the expected one; of one that does
            not say what its buckets are, some records are in others.
    """
    work = run.spec.work
    assert isinstance(work, job_specs.CreateTable)
    config = table_config.from_properties(run.spec.table_properties)
    if config.create_schema is None:
        raise errors.InvalidInputError(
            f"the spec of table {config.name!r} has no hoodie.table.create.schema"
        )
    schema = schemas.from_avro(config.create_schema)
    run.tell("opening the table")
    try:
        existing = opening.open_table(run.spec)
    except errors.NotFoundError:
        if not work.may_create:
            raise
        run.tell("creating the table")
        env = opening.environment_of(run.spec)
        _check_empty(env.open_storage(run.spec.table_uri))
        name = table_config.ChainName(id=env.random.uuid())
        chained = dataclasses.replace(config, chain=name)
        table.create_table(run.spec.table_uri, chained, schema, env, _counts(work, config))
        # Which leaves the record by which `hoodie drop` finds that the table has a HudiTable.
        opened = opening.open_table(run.spec)
        if work.has_metadata_table:
            run.tell("making the metadata table")
            opened.initialise_metadata(opening.transaction_of(run.spec))
        return
    if not work.may_adopt:
        raise errors.AlreadyExistsError(f"there is already a table at {existing.uri}")
    _take_over(run, existing, config, schema)


def _take_over(
    run: Run,
    existing: table.Table,
    config: table_config.TableConfig,
    schema: schemas.TableSchema,
) -> None:
    """Compare a table with the expected one, and have it say what it lacks."""
    work = run.spec.work
    assert isinstance(work, job_specs.CreateTable)
    zone = None if work.time_zone is None else time_zones.TimeZone(work.time_zone)
    env = opening.environment_of(run.spec)
    found = manager.Target(
        storage=env.open_storage(run.spec.table_uri),
        config=existing.config,
        schema=existing.schema,
    )
    declared = dataclasses.replace(
        config, time_zone=zone, properties={**config.properties, **work.key_options}
    )
    declared = adoption.with_key_encoding(declared, found, env)
    changes = adoption.lacking(existing.config, declared)
    stored = adoption.adopted(existing.config, declared)
    _compare(existing, stored, config, schema)
    for key, value in work.key_options.items():
        if stored.properties[key] != value:
            raise errors.ConfigurationError(
                f"the table at {existing.uri} has {key}={stored.properties[key]}, expected {value}"
            )
    if stored.time_zone is None:
        raise errors.ConfigurationError(
            f"the instants of the table at {existing.uri} have the local times of its writers: "
            "declare their time zone (spec.timeZone of a HudiTable)"
        )
    if zone is not None and stored.time_zone != zone:
        raise errors.ConfigurationError(
            f"the times of the table at {existing.uri} are those of {stored.zone.name}, expected "
            f"{zone.name}"
        )
    counts = _counts(work, stored)
    if changes or counts is not None:
        _record(run, dataclasses.replace(found, config=stored), changes, counts, env)


def _counts(
    work: job_specs.CreateTable, config: table_config.TableConfig
) -> partition_buckets.HashingConfig | None:
    """Return the bucket counts by partition that are declared."""
    if not work.bucket_counts:
        return None
    if config.bucket_count is None:
        raise errors.InvalidInputError(
            f"bucket counts by partition ({work.bucket_counts}) of a table without buckets"
        )
    return partition_buckets.declared(work.bucket_counts, config.bucket_count)


def _record(
    run: Run,
    target: manager.Target,
    changes: Mapping[str, str],
    counts: partition_buckets.HashingConfig | None,
    env: environment.Environment,
) -> None:
    """Have a table say what it lacks, if its records and times are as that has them."""

    def tell(done: int, total: int) -> None:
        run.cancellation.check()
        run.tell("comparing buckets", done, total)

    adoption.check(target, changes, env, tell, counts)
    if not changes:
        return
    transaction = opening.transaction_of(run.spec)
    with closing(manager.open_client(target, transaction, env)) as client:
        adoption.record(target, changes, client, counts)
        times = client.lock.times
        run.add(lock_wait_ms=times.wait_ms, lock_hold_ms=times.hold_ms)


def _check_empty(storage: protocol.Storage) -> None:
    """Refuse a place that holds what is no part of a table: it would go with the table one day.

    What a creation that was killed has left is all below `.hoodie`.
    """
    for info in storage.list("", is_recursive=True):
        if not info.path.startswith(_TABLE_PREFIX):
            raise errors.AlreadyExistsError(
                f"{storage.uri} is not a table and holds {info.path}, expected an empty folder"
            )


def _compare(
    existing: table.Table,
    stored: table_config.TableConfig,
    config: table_config.TableConfig,
    schema: schemas.TableSchema,
) -> None:
    differences = [
        f"its {name} is {_shown(value(stored))}, expected {_shown(value(config))}"
        for name, value in _COMPARED.items()
        if value(stored) != value(config)
    ]
    differences += _column_differences(existing, stored, schema)
    if differences:
        raise errors.ConfigurationError(
            f"the table at {existing.uri} differs from its spec: {'; '.join(differences)}"
        )


def _column_differences(
    existing: table.Table, stored: table_config.TableConfig, schema: schemas.TableSchema
) -> list[str]:
    """Return what differs from the columns that the table began with.

    It has those that writes added since, and a declaration may name them too, or not.
    """
    columns = _types(existing.schema)
    began = None if stored.create_schema is None else schemas.from_avro(stored.create_schema)
    required = {} if began is None else _types(began)
    columns |= required  # A write may have widened one since.
    expected = _types(schema)
    return [
        f"its column {name!r} is {columns.get(name, 'missing')}, "
        f"expected {expected.get(name, 'no such column')}"
        for name in {**expected, **required}
        if columns.get(name) != expected.get(name)
    ]


def _types(schema: schemas.TableSchema) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in schema.arrow}


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)


if __name__ == "__main__":
    sys.exit(program.main(sys.argv[1:], {job_specs.CreateTable: perform}))
