"""Indexes that are built beside writers: their names, and how a build is checked."""

import enum
from collections.abc import Sequence
from typing import Annotated, Final

from pydantic import AfterValidator, Field, WithJsonSchema

from hoodie.metadata import index_decisions
from hoodie.model import key_changes

NAMES: Final = tuple(index_decisions.BUILDABLE)


def _checked_name(name: str) -> str:
    if name not in NAMES:
        raise ValueError(f"expected one of {', '.join(NAMES)}")
    return name


IndexName = Annotated[
    str,
    AfterValidator(_checked_name),
    WithJsonSchema({"type": "string", "enum": list(NAMES)}),
]
"""A partition of a metadata table."""

IndexNames = Annotated[tuple[IndexName, ...], Field(min_length=1, max_length=len(NAMES))]


PARTITIONED: Final = (
    "Whether record_index is one of each partition, which has a key once in each of them, and not "
    "of the whole table."
)


def may_be_partitioned(names: Sequence[str], is_partitioned: bool) -> bool:
    """Return whether indexes can be one of each partition, where that is asked for."""
    return not is_partitioned or key_changes.RECORD_INDEX in names


class Validation(enum.Enum):
    """How much of the metadata table is compared with the table before the indexes are ready."""

    NONE = "None"
    SAMPLE = "Sample"
    WHOLE = "Whole"
