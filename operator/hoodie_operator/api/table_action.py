"""TableAction: one run of a table service, which anybody may ask for who works with the table.

What brings a table into being, and what deletes its data, is no TableAction: a HudiTable has those
runs itself. Earlier releases made TableActions for them. Such objects are still stored where a
cluster was upgraded; they are read, and start nothing.
"""

import enum
from typing import Annotated, Final

import pydantic
from pydantic import Field, StringConstraints

from hoodie_operator.api import attempts, conditions, execution, fields, rules


class ActionType(enum.Enum):
    """What is done."""

    COMPACTION = "Compaction"
    ROLLBACK = "Rollback"
    CREATE = "Create"
    DELETE = "Delete"


RETIRED: Final = frozenset({ActionType.CREATE, ActionType.DELETE})
"""Types of earlier releases: read from what is stored, and refused where they are declared."""

_DECLARABLE: Final = tuple(each.value for each in ActionType if each not in RETIRED)


class CompactionParameters(fields.Block):
    """Which compaction."""

    instant: Annotated[str, StringConstraints(pattern=r"^[0-9]{17}$", max_length=17)] | None = (
        Field(
            default=None,
            description="A planned one, by its requested time; by default a new one is planned.",
        )
    )


class RollbackParameters(fields.Block):
    """What is taken back."""

    instant: Annotated[str, StringConstraints(pattern=r"^[0-9]{17}$", max_length=17)] | None = (
        Field(
            default=None,
            description="A pending write, by its requested time; by default all that failed.",
        )
    )


class TableActionSpec(fields.Block):
    """What is done to which table; nothing of it can be changed but suspend."""

    table_ref: fields.Reference
    type: Annotated[
        ActionType,
        pydantic.WithJsonSchema(
            {"type": "string", "enum": list(_DECLARABLE), "description": "What is done."}
        ),
    ]
    compaction: CompactionParameters | None = None
    rollback: RollbackParameters | None = None
    runtime: execution.Runtime = execution.Runtime()
    retry: execution.Retry = execution.Retry()
    time_limit: fields.Duration = Field(
        default="2h", description="An attempt that takes longer is stopped."
    )
    suspend: bool = Field(default=False, description="Stop, and start nothing.")

    @pydantic.field_validator("type", mode="before")
    @classmethod
    def _check_type(cls, value: object, info: pydantic.ValidationInfo) -> object:
        """Refuse a retired type in a manifest: the CRD's enumeration does the same in a cluster."""
        if info.context == fields.DECLARED and value in [each.value for each in RETIRED]:
            raise ValueError(f"expected one of {', '.join(_DECLARABLE)}")
        return value


class ActionResult(fields.Block):
    """What came of it."""

    file_groups: int | None = None
    files: int | None = None
    bytes: int | None = None
    records: int | None = None
    duration_ms: int | None = None
    lock_wait_ms: int | None = None
    lock_hold_ms: int | None = None
    findings: tuple[fields.Text, ...] | None = Field(default=None, max_length=20)


class TableActionStatus(conditions.Status):
    """How far the action is."""

    instant: fields.Word | None = Field(
        default=None, description="The instant that it planned or executes."
    )
    runs: attempts.Runs | None = None
    result: ActionResult | None = None
    finished_time: fields.Word | None = None


RULES: rules.Rules[TableActionSpec] = rules.Rules(
    within=(
        rules.Rule(
            name="compaction-block",
            field="compaction",
            message="goes with type Compaction only",
            cel="!has(self.compaction) || self.type == 'Compaction'",
            holds=lambda spec: spec.compaction is None or spec.type is ActionType.COMPACTION,
        ),
        rules.Rule(
            name="rollback-block",
            field="rollback",
            message="goes with type Rollback only",
            cel="!has(self.rollback) || self.type == 'Rollback'",
            holds=lambda spec: spec.rollback is None or spec.type is ActionType.ROLLBACK,
        ),
        *execution.runtime_rules(lambda spec: spec.runtime),
    ),
    between=(
        rules.immutable("tableRef", lambda spec: spec.table_ref),
        rules.immutable("type", lambda spec: spec.type),
        rules.immutable_optional("compaction", lambda spec: spec.compaction),
        rules.immutable_optional("rollback", lambda spec: spec.rollback),
        rules.immutable("runtime", lambda spec: spec.runtime),
        rules.immutable("retry", lambda spec: spec.retry),
        rules.immutable("timeLimit", lambda spec: spec.time_limit),
    ),
)
