"""What HudiTables, Writers and TableActions tell of their runs."""

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
        default=None, description="Class of the error, if it failed."
    )
    message: fields.Text | None = None
    commits: int | None = None


class Current(fields.Block):
    """The attempt that is at work."""

    number: int
    start_time: fields.Word
    process: fields.Word | None = Field(default=None, description="Where it runs.")
    run_hash: fields.Word | None = Field(
        default=None, description="Of image, resources and configuration, as it was started with."
    )
    phase: fields.Word | None = None
    done: int | None = None
    total: int | None = None


class Runs(fields.Block):
    """The runs of one object."""

    attempts: int = Field(default=0, description="All attempts so far.")
    failures: int = Field(default=0, description="Consecutive failures.")
    next_attempt_time: fields.Word | None = None
    basis: fields.Word | None = Field(
        default=None,
        description="What the failures are counted for; when it changes, they are not.",
    )
    tried_basis: fields.Word | None = Field(
        default=None, description="The basis that the newest attempt was started for."
    )
    memory_percent: int | None = Field(
        default=None,
        description=(
            "How much of the declared memory the next attempt gets, after some ran out of it."
        ),
    )
    current: Current | None = None
    history: tuple[Attempt, ...] | None = Field(
        default=None, max_length=ATTEMPTS_KEPT, description="The newest ended attempts."
    )
