"""Whether a stored table is as its HudiTable wants it, in all that can never change."""

from hoodie.model import schemas, table_config
from hoodie_operator.api import hudi_table
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.states import State
from hoodie_operator.reconcile import effective
from hoodie_operator.reconcile.verdicts import Verdict

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
    desired, actual = table_config.to_properties(wanted), table_config.to_properties(stored)
    if wanted.create_schema is not None and stored.create_schema is not None:
        desired["schema"] = _columns(wanted.create_schema)
        actual["schema"] = _columns(stored.create_schema)
    return tuple(
        hudi_table.PropertyMismatch(
            property=name, desired=desired.get(name, "")[:1000], actual=actual.get(name, "")[:1000]
        )
        for name in (*_COMPARED, "schema")
        if desired.get(name, "") != actual.get(name, "")
    )


def _columns(avro: str) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in schemas.from_avro(avro).arrow)


def mismatch(wanted: effective.EffectiveTable, stored: table_config.TableConfig) -> Verdict | None:
    """Return the verdict about a stored table that differs; None about one that does not."""
    differing = mismatches(wanted.config, stored)
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
