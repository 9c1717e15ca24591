"""Indexes that are built beside writers: their names, and how a build is checked."""

import enum
from typing import Annotated, Final

from pydantic import AfterValidator, Field, WithJsonSchema

from hoodie.metadata import index_decisions

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


class Validation(enum.Enum):
    """How much of the metadata table is compared with the table before the indexes are ready."""

    NONE = "None"
    SAMPLE = "Sample"
    WHOLE = "Whole"
