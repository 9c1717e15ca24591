"""Whether a stored table is as its HudiTable wants it, in all that can never change.

Of its columns those that it began with: writes may have added others since.
"""

import functools
from collections.abc import Iterable, Mapping, Sequence

from hoodie.model import schemas, table_config
from hoodie_operator.api import hudi_table_status
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.states import State
from hoodie_operator.reconcile import effective
from hoodie_operator.reconcile.verdicts import Verdict

_REMEMBERED_MAX = 16 << 10
_INDEX = (
    table_config.INDEX_KEY,
    table_config.PARTITION_UPDATES_KEY,
    table_config.BUCKET_COUNT_KEY,
    table_config.HASH_FIELDS_KEY,
)
_COMPARED: Mapping[str, str] = {
    "hoodie.table.name": "tableName",
    "hoodie.database.name": "database",
    "hoodie.table.type": "tableType",
    "hoodie.table.version": "tableVersion",
    "hoodie.table.recordkey.fields": "keys.recordFields",
    "hoodie.table.partition.fields": "keys.partitionFields",
    "hoodie.table.ordering.fields": "keys.orderingFields",
    "hoodie.table.precombine.field": "keys.orderingFields",
    "hoodie.record.merge.mode": "merge.mode",
    "hoodie.table.partial.update.mode": "merge.partialUpdates",
    "hoodie.datasource.write.hive_style_partitioning": "keys.hiveStyle",
    "hoodie.datasource.write.partitionpath.urlencode": "keys.urlEncode",
    table_config.INDEX_KEY: "writeIndex.type",
    table_config.PARTITION_UPDATES_KEY: "writeIndex.updatesPartitions",
    table_config.BUCKET_COUNT_KEY: "writeIndex.bucket.count",
    table_config.HASH_FIELDS_KEY: "writeIndex.bucket.fields",
}
"""Properties that can never change, and the fields of a spec that they follow from."""

_IDENTITY = (
    "hoodie.table.name",
    "hoodie.table.type",
    "hoodie.table.recordkey.fields",
    "hoodie.table.partition.fields",
)
"""Properties by which one table is told from another; `hoodie_jobs.drop` compares them, too."""


def mismatches(
    wanted: table_config.TableConfig, stored: table_config.TableConfig
) -> tuple[hudi_table_status.PropertyMismatch, ...]:
    """Return the properties that can never change and that differ."""
    return _mismatches(wanted, stored, _COMPARED)


def _mismatches(
    wanted: table_config.TableConfig, stored: table_config.TableConfig, names: Iterable[str]
) -> tuple[hudi_table_status.PropertyMismatch, ...]:
    desired, actual = table_config.to_properties(wanted), table_config.to_properties(stored)
    found = [
        hudi_table_status.PropertyMismatch(
            property=name, desired=desired.get(name, "")[:1000], actual=actual.get(name, "")[:1000]
        )
        for name in names
        if desired.get(name, "") != actual.get(name, "")
    ]
    if wanted.create_schema is not None and stored.create_schema is not None:
        found += _schema_mismatch(_columns(wanted.create_schema), _columns(stored.create_schema))
    return tuple(found)


def _schema_mismatch(
    declared: Mapping[str, str], began: Mapping[str, str]
) -> list[hudi_table_status.PropertyMismatch]:
    """Return whether a declaration lacks a column that the table began with, or has another type.

    It may name more: those that writes have added since. The run that takes a table over compares
    them with its newest columns.
    """
    differing = [name for name in began if declared.get(name) != began[name]]
    if not differing:
        return []
    desired = (
        f"{name} {declared[name]}" if name in declared else f"no {name}" for name in differing
    )
    actual = (f"{name} {began[name]}" for name in differing)
    return [
        hudi_table_status.PropertyMismatch(
            property="schema", desired=", ".join(desired)[:1000], actual=", ".join(actual)[:1000]
        )
    ]


def _columns(avro: str) -> Mapping[str, str]:
    # What storages hold is not bounded by us: only what is short is remembered.
    return _known_columns(avro) if len(avro) <= _REMEMBERED_MAX else _read_columns(avro)


@functools.lru_cache(maxsize=1024)
def _known_columns(avro: str) -> Mapping[str, str]:
    return _read_columns(avro)


def _read_columns(avro: str) -> Mapping[str, str]:
    return {column.name: str(column.type) for column in schemas.from_avro(avro).arrow}


def another_table(
    wanted: effective.EffectiveTable, stored: table_config.TableConfig
) -> Verdict | None:
    """Return the verdict about a place that holds another table than the declared one.

    Its columns may be others by now, and another engine may have raised its version.
    """
    differing = _mismatches(wanted.config, stored, _IDENTITY)
    return _differing(wanted, [each for each in differing if each.property in _IDENTITY])


def mismatch(
    wanted: effective.EffectiveTable,
    stored: table_config.TableConfig,
    *,
    is_taken_over: bool = True,
) -> Verdict | None:
    """Return the verdict about a stored table that differs; None about one that does not.

    Args:
        wanted: As declared.
        stored: As it is.
        is_taken_over: Whether a run has compared it. Before, it may not say what its index is, as
            Apache Hudi does not: that run looks at the records, or at the names of all files.
    """
    is_told = is_taken_over or stored.states_index
    names = [name for name in _COMPARED if is_told or name not in _INDEX]
    differing = _mismatches(wanted.config, stored, names)
    can_edit = bool(differing) and not is_taken_over
    return _differing(wanted, differing, way_out=_fields_to_set(differing) if can_edit else "")


def _fields_to_set(differing: Sequence[hudi_table_status.PropertyMismatch]) -> str:
    """Return what to do about a table before a run takes it over, when fields can be edited."""
    *others, last = dict.fromkeys(_COMPARED.get(each.property, each.property) for each in differing)
    names = f"{', '.join(others)} and {last}" if others else last
    return f"; set {names} to what the table has"


def _differing(
    wanted: effective.EffectiveTable,
    differing: Sequence[hudi_table_status.PropertyMismatch],
    *,
    way_out: str = "",
) -> Verdict | None:
    if not differing:
        return None
    told = "; ".join(
        f"{each.property} is {each.actual!r}, expected {each.desired!r}" for each in differing
    )
    return Verdict(
        state=State.STALLED,
        reason=Reason.IMMUTABLE_MISMATCH,
        message=f"the table at {wanted.uri} differs: {told}{way_out}",
    )
