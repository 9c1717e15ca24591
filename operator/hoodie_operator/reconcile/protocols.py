"""What all writers of a table must agree on, as one text, and the hash that every run carries.

The form is canonical and has a number. It holds names of its own, values in one spelling, and only
what differs from what goes without saying: a release that adds a field changes no hash of a table
that does not use it, and stops no run. What is no part of the agreement is listed as well, so that
each new field is put on one of the two sides.

    2-0123456789abcdef     form 2
    0123456789abcdef       form 1, of the releases before: their runs at work go on

A change of what a form says of any table is another form; the one before stays known for a release.
"""

import dataclasses
import enum
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from hoodie.model import schemas, table_config
from hoodie_operator.api import fields, hudi_table

FORM: Final = 2
LENGTH: Final = 16
_SKEW_MS: Final = 200
_HEARTBEAT_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreed:
    """Everything that the agreement is read from.

    Attributes:
        uri: The table's root, normalised.
        lock: Address of the table lock.
        config: The table's properties.
        spec: The HudiTable's.
    """

    uri: str
    lock: str
    config: table_config.TableConfig
    spec: hudi_table.HudiTableSpec


_Value = object
_PARTS: Final[Mapping[str, tuple[Callable[[Agreed], _Value], _Value]]] = {
    "uri": (lambda agreed: agreed.uri, None),
    "lock": (lambda agreed: agreed.lock, None),
    "name": (lambda agreed: agreed.config.name, None),
    "database": (lambda agreed: agreed.config.database, ""),
    "table_type": (lambda agreed: agreed.config.table_type.value, "MERGE_ON_READ"),
    "version": (lambda agreed: agreed.config.version, None),
    "record_key_fields": (lambda agreed: list(agreed.config.record_key_fields), None),
    "partition_fields": (lambda agreed: list(agreed.config.partition_fields), []),
    "ordering_fields": (lambda agreed: list(agreed.config.ordering_fields), []),
    "merge_mode": (lambda agreed: agreed.config.merge_mode.value, "COMMIT_TIME_ORDERING"),
    "has_partial_updates": (lambda agreed: agreed.config.has_partial_updates, False),
    "is_hive_style": (lambda agreed: agreed.config.is_hive_style, False),
    "is_url_encoded": (lambda agreed: agreed.config.is_url_encoded, False),
    "change_data": (
        lambda agreed: agreed.config.change_data and agreed.config.change_data.value,
        None,
    ),
    "create_schema": (lambda agreed: _columns(agreed.config.create_schema), None),
    "index": (lambda agreed: agreed.config.index and agreed.config.index.value, None),
    "updates_partitions": (lambda agreed: agreed.config.updates_partitions, True),
    "bucket_count": (lambda agreed: agreed.config.bucket_count, None),
    "hash_fields": (lambda agreed: list(agreed.config.hash_fields), []),
    "mode": (lambda agreed: agreed.spec.concurrency.mode.value, "SingleWriter"),
    "conflict_resolution": (
        lambda agreed: _text(agreed.spec.concurrency.conflict_resolution),
        None,
    ),
    "external_writers": (lambda agreed: agreed.spec.concurrency.external_writers, False),
    "acknowledge_order_dependence": (
        lambda agreed: agreed.spec.concurrency.acknowledge_order_dependence,
        False,
    ),
    "clock_skew": (
        lambda agreed: fields.duration_ms(agreed.spec.concurrency.clock_skew),
        _SKEW_MS,
    ),
    "heartbeat_interval": (
        lambda agreed: fields.duration_ms(agreed.spec.concurrency.heartbeat_interval),
        _HEARTBEAT_MS,
    ),
}
"""Each part of form 2: how it is read, and the value that goes without saying.

These values are of the form and never change with a default: one that changed would say that tables
agree that do not.
"""

APART: Final[Mapping[str, str]] = {
    "lock_ref": "the lock's address includes it",
    "conflict_retries": "retries of one writer do not affect other writers",
    "early_conflict_detection": "the moment of detection does not affect other writers",
    "delete_marker": "a HudiTable does not have one",
    "compaction": "writers take it up at their next batch (`batch_settings`)",
    "cleaning": "it selects the process that starts runs, not what they do",
    "archiving": "it selects the process that starts runs, not what they do",
    "deletes_kept": "each compaction may use its own value",
    "metadata_partitions": "it is read from the table",
    "metadata_partitions_inflight": "it is read from the table",
    "metadata_partitions_own": "it is read from the table",
    "chain": "each table has one of its own, which is read from the table",
    "table_id": "each table has one of its own, which is read from the table",
    "has_foreign_writers": "external_writers says it",
    "time_zone": "it is read from the table",
    "drops_partition_columns": "it is read from the table",
    "properties": "it is read from the table",
}
"""Fields of a table's configuration, concurrency and services that are no part, and why."""


def canonical(agreed: Agreed) -> str:
    """Return the canonical form of what all writers of a table agree on."""
    said = {name: read(agreed) for name, (read, unsaid) in _PARTS.items() if read(agreed) != unsaid}
    return json.dumps({"form": FORM, **said}, sort_keys=True, separators=(",", ":"))


def current(agreed: Agreed) -> str:
    """Return the hash that runs carry which are started now."""
    return f"{FORM}-{_digest(canonical(agreed))}"


def earlier(agreed: Agreed) -> str:
    """Return the hash that a run of the same agreement carries from a release before."""
    told = agreed.spec.concurrency.model_dump(
        mode="json",
        include={
            "mode",
            "lock_ref",
            "conflict_resolution",
            "external_writers",
            "acknowledge_order_dependence",
            "clock_skew",
            "heartbeat_interval",
        },
    )
    form = {
        "uri": agreed.uri,
        "lock": agreed.lock,
        # That release had no property for it: its runs say it by concurrency alone.
        "properties": table_config.to_properties(
            dataclasses.replace(agreed.config, has_foreign_writers=True)
        ),
        "concurrency": told,
        "services": agreed.spec.services.model_dump(mode="json", include={"compaction"}),
    }
    return _digest(json.dumps(form, sort_keys=True, default=str))


def parts() -> frozenset[str]:
    """Return the names of what the form holds."""
    return frozenset(_PARTS)


def _columns(avro: str | None) -> object:
    if avro is None:
        return None
    columns = schemas.from_avro(avro).arrow
    return [[column.name, str(column.type), column.nullable] for column in columns]


def _text(value: enum.Enum | None) -> object:
    return None if value is None else value.value


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:LENGTH]
