"""Conditions: the part of a status that people and tools read first.

Exactly as kstatus reads them: `Ready` is always there; all others are there only when True; each
carries the generation it was made for. Which of them stand is told by the state
alone, in `hoodie_operator.api.states`.
"""

import enum
from typing import Annotated

from pydantic import Field, StringConstraints

from hoodie_operator.api import fields

MESSAGE_LENGTH_MAX = 2048


class Type(enum.Enum):
    """The types of conditions."""

    READY = "Ready"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"
    SUSPENDED = "Suspended"
    INTERFERENCE = "Interference"
    RETENTION_DRY_RUN = "RetentionDryRun"
    CONSUMER_PASSED = "ConsumerPassed"
    INSTANTS_STUCK = "InstantsStuck"
    METADATA_TABLE_UNUSABLE = "MetadataTableUnusable"
    EXTERNAL_WRITERS = "ExternalWriters"
    INDEX_BEHIND = "IndexBehind"
    BATCH_SETTINGS_PENDING = "BatchSettingsPending"


class ConditionStatus(enum.Enum):
    """Whether a condition holds."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(fields.Block):
    """One statement about an object."""

    type: Annotated[str, StringConstraints(max_length=64)]
    status: ConditionStatus
    reason: Annotated[str, StringConstraints(max_length=128)]
    message: Annotated[str, StringConstraints(max_length=MESSAGE_LENGTH_MAX)]
    last_transition_time: Annotated[str, StringConstraints(max_length=40)] = Field(
        description="When the status last changed."
    )
    observed_generation: int


class Waiting(fields.Block):
    """What an object waits for, and since when."""

    state: Annotated[str, StringConstraints(max_length=64)]
    reason: Annotated[str, StringConstraints(max_length=128)]
    since: Annotated[str, StringConstraints(max_length=40)]


class Status(fields.Block):
    """The status that all kinds share."""

    observed_generation: int | None = None
    state: Annotated[str, StringConstraints(max_length=64)] | None = Field(
        default=None, description="The state in one word, for people. Programs read the conditions."
    )
    waiting: Waiting | None = None
    conditions: tuple[Condition, ...] | None = Field(
        default=None,
        max_length=8,
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    )

    def condition(self, condition_type: Type) -> Condition | None:
        """Return the condition of that type."""
        for condition in self.conditions or ():
            if condition.type == condition_type.value:
                return condition
        return None

    def is_true(self, condition_type: Type) -> bool:
        """Return whether the condition is there and holds."""
        condition = self.condition(condition_type)
        return condition is not None and condition.status is ConditionStatus.TRUE
