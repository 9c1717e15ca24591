"""What the policies of all table services share: target, windows, priority, runtime, history.

A policy says when and how services of its tables run. What a table's services are doing is told on
the HudiTable (`status.services`); a policy sums up.
"""

import enum
from typing import Annotated, Final, TypeVar

from pydantic import Field, StringConstraints

from hoodie_operator.api import conditions, execution, fields, rules


class Match(enum.Enum):
    """Whether one trigger is enough, or all must fire."""

    ANY = "Any"
    ALL = "All"


class TableSelector(fields.Block):
    """Selects tables by their labels."""

    match_labels: fields.Labels = Field(
        min_length=1, description="Labels that a HudiTable must have, all of them."
    )


class Target(fields.Block):
    """The tables of the policy."""

    table_ref: fields.Reference | None = None
    table_selector: TableSelector | None = None


class Day(enum.Enum):
    """A day of the week."""

    MONDAY = "Monday"
    TUESDAY = "Tuesday"
    WEDNESDAY = "Wednesday"
    THURSDAY = "Thursday"
    FRIDAY = "Friday"
    SATURDAY = "Saturday"
    SUNDAY = "Sunday"


_OF_DAY: Final = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"

TimeOfDay = Annotated[str, StringConstraints(pattern=_OF_DAY, max_length=5)]
"""Hours and minutes: `22:30`."""


class Window(fields.Block):
    """A time of day at which runs may start."""

    days: tuple[Day, ...] | None = Field(
        default=None,
        min_length=1,
        max_length=7,
        description="Days on which the window opens. By default every day.",
    )
    start: TimeOfDay = Field(description="When the window opens.")
    end: TimeOfDay = Field(
        description="When the window closes. If not after start, on the next day."
    )


class History(fields.Block):
    """How many finished TableActions the policy keeps, besides the newest one of each table."""

    successful: int = Field(default=10, ge=0, le=1000, description="Of those that succeeded.")
    failed: int = Field(default=5, ge=1, le=1000, description="Of those that failed.")


class StuckAction(enum.Enum):
    """What is done about a write that is stuck."""

    REPORT = "Report"
    ROLL_BACK = "RollBack"


class Stuck(fields.Block):
    """What is done about instants that stay pending."""

    after: fields.Duration = Field(
        default="24h", description="Time after which a pending instant is stuck."
    )
    action: StuckAction = Field(
        default=StuckAction.REPORT,
        description=(
            "With RollBack a stuck write is rolled back if its owner is a Writer of the table "
            "without an active run and its heartbeat has expired. Other stuck instants are only "
            "reported."
        ),
    )
    foreign_writers: tuple[fields.ObjectName, ...] | None = Field(
        default=None,
        min_length=1,
        max_length=64,
        description=(
            "Ids of writers outside the operator whose stuck writes are rolled back, too, once "
            "their heartbeats have expired."
        ),
    )


class Schedule(fields.Block):
    """When and how runs of a service are started."""

    windows: tuple[Window, ...] | None = Field(
        default=None,
        min_length=1,
        max_length=16,
        description="When runs may start. By default at any time.",
    )
    time_zone: fields.TimeZone = Field(default="UTC", description="Time zone of the windows.")
    overdue_after: fields.Duration | None = Field(
        default=None,
        description=(
            "The objective: a service runs within this time once it is due. After it, a run starts "
            "outside the windows too, and an alert is raised. By default a service may be late."
        ),
    )
    priority: int = Field(
        default=0,
        ge=-100,
        le=100,
        description="Runs with a higher priority start first when too many are waiting.",
    )
    max_runs: int | None = Field(
        default=None,
        ge=1,
        le=10_000,
        description="Maximum number of concurrent runs of the policy. By default unlimited.",
    )
    runtime: execution.Runtime = execution.Runtime()
    retry: execution.Retry = execution.Retry()
    time_limit: fields.Duration = Field(
        default="2h", description="Maximum duration of an attempt. A longer attempt is stopped."
    )
    history: History = History()
    stuck: Stuck | None = Field(
        default=None,
        description=(
            "What is done about instants of the policy's services that stay pending: compactions "
            "for a CompactionPolicy, all others for a RetentionPolicy. By default nothing."
        ),
    )
    approval: bool = Field(
        default=False,
        description="Whether each run waits until its TableAction has `approved: true`.",
    )
    suspend: bool = Field(default=False, description="Plan no runs.")


class Policy(Schedule):
    """Which tables, and when and how their runs are started."""

    target: Target


class TableSituation(fields.Block):
    """The state of one service of one table of the policy."""

    table: fields.Word
    service: fields.Word | None = None
    reason: fields.Word
    message: fields.Text
    action: fields.Word | None = Field(default=None, description="The active TableAction.")


class PolicyStatus(conditions.Status):
    """The observed state of the policy and its tables."""

    matched: int | None = None
    running: int | None = None
    overdue: int | None = Field(
        default=None, description="Services that are due for longer than overdueAfter."
    )
    tables: tuple[TableSituation, ...] | None = Field(default=None, max_length=100)


PolicyT = TypeVar("PolicyT", bound=Policy)


def target_rule(_: type[PolicyT]) -> rules.Rule[PolicyT]:
    """Return the rule about the target of policies of a kind."""
    return rules.Rule(
        name="one-target",
        field="target",
        message="needs exactly one of tableRef and tableSelector",
        cel="has(self.target.tableRef) != has(self.target.tableSelector)",
        holds=lambda spec: (spec.target.table_ref is None) != (spec.target.table_selector is None),
    )
