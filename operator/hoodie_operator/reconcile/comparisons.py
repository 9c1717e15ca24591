"""Whether a stored table is as its HudiTable wants it, in all that can never change."""

import functools
from collections.abc import Iterable

from hoodie.model import schemas, table_config
from hoodie_operator.api import hudi_table
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.states import State
from hoodie_operator.reconcile import effective
from hoodie_operator.reconcile.verdicts import Verdict

_BUCKETS = frozenset({table_config.BUCKET_COUNT_KEY, table_config.HASH_FIELDS_KEY})
# Properties that can never change, and what tells of them in messages.
_COMPARED = (
    "hoodie.table.name",
    "hoodie.database.name",
    "hoodie.table.type",
    "hoodie.table.version",
    "hoodie.table.recordkey.fields",
    "hoodie.table.partition.fields",
    "hoodie.table.ordering.fields",
    "hoodie.table.precombine.field",
    "hoodie.record.merge.mode",
    "hoodie.table.partial.update.mode",
    "hoodie.datasource.write.hive_style_partitioning",
    "hoodie.datasource.write.partitionpath.urlencode",
    table_config.BUCKET_COUNT_KEY,
    table_config.HASH_FIELDS_KEY,
)


def mismatches(
    wanted: table_config.TableConfig, stored: table_config.TableConfig
) -> tuple[hudi_table.PropertyMismatch, ...]:
    """Return the properties that can never change and that differ."""
    return _mismatches(wanted, stored, _COMPARED)


def _mismatches(
    wanted: table_config.TableConfig, stored: table_config.TableConfig, names: Iterable[str]
) -> tuple[hudi_table.PropertyMismatch, ...]:
    desired, actual = table_config.to_properties(wanted), table_config.to_properties(stored)
    if wanted.create_schema is not None and stored.create_schema is not None:
        desired["schema"] = _columns(wanted.create_schema)
        actual["schema"] = _columns(stored.create_schema)
    return tuple(
        hudi_table.PropertyMismatch(
            property=name, desired=desired.get(name, "")[:1000], actual=actual.get(name, "")[:1000]
        )
        for name in (*names, "schema")
        if desired.get(name, "") != actual.get(name, "")
    )


@functools.lru_cache(maxsize=4096)
def _columns(avro: str) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in schemas.from_avro(avro).arrow)


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
        is_taken_over: Whether a run has compared it. Before, it may not say what its buckets are,
            as Apache Hudi does not: that run looks at the records.
    """
    is_told = is_taken_over or stored.bucket_count is not None
    names = [name for name in _COMPARED if is_told or name not in _BUCKETS]
    differing = _mismatches(wanted.config, stored, names)
    if not differing:
        return None
    told = "; ".join(
        f"{each.property} is {each.actual!r}, expected {each.desired!r}" for each in differing
    )
    return Verdict(
        state=State.STALLED,
        reason=Reason.IMMUTABLE_MISMATCH,
        message=f"the table at {wanted.uri} differs: {told}",
    )
