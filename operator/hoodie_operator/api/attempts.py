"""The runs of HudiTables, Writers and TableActions in their status."""

import enum

from pydantic import Field

from hoodie_operator.api import fields

ATTEMPTS_KEPT = 10


class Outcome(enum.Enum):
    """How an attempt ended."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    STOPPED = "Stopped"


class Attempt(fields.Block):
    """One ended attempt of a run."""

    number: int
    start_time: fields.Word
    end_time: fields.Word
    outcome: Outcome
    error_kind: fields.Word | None = Field(
        default=None, description="Class of the error of a failed attempt."
    )
    message: fields.Text | None = None
    commits: int | None = None


class Current(fields.Block):
    """The active attempt."""

    number: int
    start_time: fields.Word
    process: fields.Word | None = Field(default=None, description="Pod or process of the attempt.")
    run_hash: fields.Word | None = Field(
        default=None,
        description="Hash of image, resources and configuration with which it was started.",
    )
    phase: fields.Word | None = None
    done: int | None = None
    total: int | None = None


class Runs(fields.Block):
    """The runs of one object."""

    attempts: int = Field(default=0, description="Number of attempts so far.")
    failures: int = Field(default=0, description="Number of consecutive failures.")
    next_attempt_time: fields.Word | None = None
    basis: fields.Word | None = Field(
        default=None,
        description="Inputs for which failures are counted. A change resets the count.",
    )
    tried_basis: fields.Word | None = Field(
        default=None, description="The basis of the newest attempt."
    )
    memory_percent: int | None = Field(
        default=None,
        description=(
            "Memory of the next attempt, in percent of the declared memory, after attempts that "
            "ran out of memory."
        ),
    )
    current: Current | None = None
    history: tuple[Attempt, ...] | None = Field(
        default=None, max_length=ATTEMPTS_KEPT, description="The newest ended attempts."
    )
