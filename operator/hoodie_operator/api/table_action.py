"""TableAction: one run of a table service, which users and policies create.

Creating a table and deleting its data are not TableActions: a HudiTable has those runs itself.
Earlier releases made TableActions for them. An upgraded cluster may still store such objects: they
are read, and start nothing.
"""

import enum
from collections.abc import Callable, Mapping
from typing import Annotated, Final

import pydantic
from pydantic import Field, StringConstraints

from hoodie_operator.api import attempts, compaction_plan, conditions, execution, fields, rules


class ActionType(enum.Enum):
    """What is done."""

    COMPACTION = "Compaction"
    ROLLBACK = "Rollback"
    CONFIGURE = "Configure"
    CREATE = "Create"
    DELETE = "Delete"


RETIRED: Final = frozenset({ActionType.CREATE, ActionType.DELETE})
"""Types of earlier releases: read from what is stored, and refused where they are declared."""

_DECLARABLE: Final = tuple(each.value for each in ActionType if each not in RETIRED)


class CompactionParameters(fields.Block):
    """Parameters of a compaction."""

    instant: Annotated[str, StringConstraints(pattern=r"^[0-9]{17}$", max_length=17)] | None = (
        Field(
            default=None,
            description=(
                "Requested time of a pending compaction to execute. By default a new compaction "
                "is planned."
            ),
        )
    )
    plan: compaction_plan.Plan | None = Field(
        default=None,
        description="Strategies and bounds of the plan. By default it takes all file groups.",
    )


class RollbackParameters(fields.Block):
    """Parameters of a rollback."""

    instant: Annotated[str, StringConstraints(pattern=r"^[0-9]{17}$", max_length=17)] | None = (
        Field(
            default=None,
            description=(
                "Requested time of a pending write to roll back. By default all failed writes."
            ),
        )
    )


class ConfigureParameters(fields.Block):
    """Parameters of a change of the table's configuration."""

    chain: bool = Field(
        default=True,
        description=(
            "Whether a chain orders all changes of the table. With a chain, other engines are "
            "admitted as the table's concurrency.externalWriters says; without one, always."
        ),
    )


class TableActionSpec(fields.Block):
    """What is done to which table. Only suspend can be changed."""

    table_ref: fields.Reference
    type: Annotated[
        ActionType,
        pydantic.WithJsonSchema(
            {"type": "string", "enum": list(_DECLARABLE), "description": "What is done."}
        ),
    ]
    compaction: CompactionParameters | None = None
    rollback: RollbackParameters | None = None
    configure: ConfigureParameters | None = None
    runtime: execution.Runtime = execution.Runtime()
    retry: execution.Retry = execution.Retry()
    time_limit: fields.Duration = Field(
        default="2h", description="Maximum duration of an attempt. A longer attempt is stopped."
    )
    suspend: bool = Field(default=False, description="Stop the active run, and start none.")

    @pydantic.field_validator("type", mode="before")
    @classmethod
    def _check_type(cls, value: object, info: pydantic.ValidationInfo) -> object:
        """Refuse a retired type in a manifest: the CRD's enumeration does the same in a cluster."""
        if info.context == fields.DECLARED and value in [each.value for each in RETIRED]:
            raise ValueError(f"expected one of {', '.join(_DECLARABLE)}")
        return value


class ActionResult(fields.Block):
    """The result of the action."""

    file_groups: int | None = None
    left_out: int | None = Field(
        default=None, description="Number of file groups that did not fit into the plan."
    )
    files: int | None = None
    bytes: int | None = None
    records: int | None = None
    duration_ms: int | None = None
    lock_wait_ms: int | None = None
    lock_hold_ms: int | None = None
    findings: tuple[fields.Text, ...] | None = Field(default=None, max_length=20)


class TableActionStatus(conditions.Status):
    """The observed state of the action."""

    instant: fields.Word | None = Field(
        default=None, description="The instant that the action has planned or executes."
    )
    runs: attempts.Runs | None = None
    result: ActionResult | None = None
    finished_time: fields.Word | None = None


_PARAMETERS: Final[Mapping[ActionType, Callable[[TableActionSpec], fields.Block | None]]] = {
    ActionType.COMPACTION: lambda spec: spec.compaction,
    ActionType.ROLLBACK: lambda spec: spec.rollback,
    ActionType.CONFIGURE: lambda spec: spec.configure,
}
"""The parameters of each type, in the field of its name, which goes with that type only."""


def _goes_with(
    action_type: ActionType, get: Callable[[TableActionSpec], fields.Block | None]
) -> rules.Rule[TableActionSpec]:
    field = action_type.value.lower()
    return rules.Rule(
        name=f"{field}-block",
        field=field,
        message=f"is valid with type {action_type.value} only",
        cel=f"!has(self.{field}) || self.type == '{action_type.value}'",
        holds=lambda spec: get(spec) is None or spec.type is action_type,
    )


def _plan(spec: TableActionSpec) -> compaction_plan.Plan | None:
    return None if spec.compaction is None else spec.compaction.plan


RULES: rules.Rules[TableActionSpec] = rules.Rules(
    within=(
        *(_goes_with(action_type, get) for action_type, get in _PARAMETERS.items()),
        rules.Rule(
            name="instant-or-plan",
            field="compaction",
            message="has instant and plan, expected one of them: the plan of an instant is fixed",
            cel=(
                "!has(self.compaction) || !has(self.compaction.instant) "
                "|| !has(self.compaction.plan)"
            ),
            holds=lambda spec: (
                spec.compaction is None
                or spec.compaction.instant is None
                or spec.compaction.plan is None
            ),
        ),
        *compaction_plan.plan_rules("compaction.plan", _plan),
        *execution.runtime_rules(lambda spec: spec.runtime),
    ),
    between=(
        rules.immutable("tableRef", lambda spec: spec.table_ref),
        rules.immutable("type", lambda spec: spec.type),
        *(
            rules.immutable_optional(action_type.value.lower(), get)
            for action_type, get in _PARAMETERS.items()
        ),
        rules.immutable("runtime", lambda spec: spec.runtime),
        rules.immutable("retry", lambda spec: spec.retry),
        rules.immutable("timeLimit", lambda spec: spec.time_limit),
    ),
)
