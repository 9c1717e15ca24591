"""Blocks that every kind with runs shares: what they run on, and what happens when they fail."""

import enum
from typing import Annotated

from pydantic import Field, StringConstraints

from hoodie_operator.api import fields


class Engine(enum.Enum):
    """What runs the data-parallel part."""

    LOCAL = "Local"
    SPARK = "Spark"


SparkKey = Annotated[str, StringConstraints(pattern=r"^spark\.[A-Za-z0-9._-]+$", max_length=256)]
SparkValue = Annotated[str, StringConstraints(max_length=2048)]


class Runtime(fields.Block):
    """What runs on which engine."""

    engine: Engine = Field(
        default=Engine.LOCAL, description="Threads of one process, or Apache Spark."
    )
    parallelism: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="Threads, or Spark's local cores; by default what the machine has.",
    )
    spark_conf: dict[SparkKey, SparkValue] | None = Field(
        default=None, max_length=128, description="Spark properties beside those we set."
    )


class Backoff(fields.Block):
    """How long to wait between attempts: doubled after each, with jitter, up to a limit."""

    initial: fields.Duration = "5s"
    max: fields.Duration = "5m"


class Retry(fields.Block):
    """What to do about attempts that failed for a reason that may pass."""

    limit: int = Field(
        default=5,
        ge=0,
        le=100,
        description="Further attempts after a failure; counted anew after each commit.",
    )
    backoff: Backoff = Backoff()
