"""What the fields of all kinds are made of: strict blocks, names, durations, sizes.

Invariants: every text, list and map has a bound, because the API server asks for them to know what
a rule may cost; nothing inside a list item has a default, because that shows as drift in GitOps.
"""

import re
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, WithJsonSchema
from pydantic.alias_generators import to_camel

NAME_PATTERN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
COLUMN_PATTERN: Final = r"^[A-Za-z_][A-Za-z0-9_]*$"
COLUMN_OR_CALL_PATTERN: Final = r"^[A-Za-z_][A-Za-z0-9_]*(\([^\n]*\))?$"
DURATION_PATTERN: Final = r"^[1-9][0-9]{0,8}(ms|s|m|h|d)([0-9]{1,9}(ms|s|m|h|d)){0,4}$"
COLUMN_TYPE_PATTERN: Final = (
    r"^(string|int|long|float|double|boolean|bytes|date|timestamp"
    r"|decimal\([0-9]{1,2}, ?[0-9]{1,2}\))$"
)
SIZE_PATTERN: Final = r"^[0-9]{1,18}(Ki|Mi|Gi|Ti|k|M|G|T)?$"
MEMORY_PATTERN: Final = r"^[1-9][0-9]{0,6}(Mi|Gi|Ti|M|G|T)$"
CPU_PATTERN: Final = r"^([1-9][0-9]{0,2}|[0-9]{1,3}\.[0-9]{1,3}|[1-9][0-9]{0,5}m)$"
OBJECT_PATTERN: Final = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
VARIABLE_PATTERN: Final = r"^[A-Za-z_][A-Za-z0-9_]*$"
FOLDER_PATTERN: Final = r"^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$"
IMAGE_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._:/@-]*$"
DECLARED: Final = "declared"
"""The context of the validation of a manifest, which is stricter than that of what is stored."""

_BYTES_MAX: Final = 10**18
_CORES_MAX: Final = 999

PATTERNS: Final = {
    NAME_PATTERN: "lower-case letters, digits and dashes, with a letter or digit at both ends",
    COLUMN_PATTERN: "letters, digits and underscores, not beginning with a digit",
    COLUMN_OR_CALL_PATTERN: "a column, or a function of one such as lower(name)",
    COLUMN_TYPE_PATTERN: (
        "string, int, long, float, double, boolean, bytes, date, timestamp or decimal(P, S)"
    ),
    DURATION_PATTERN: "a duration such as 30s or 1h30m, not zero",
    SIZE_PATTERN: "a size such as 512Mi or 1000000",
    MEMORY_PATTERN: "an amount of memory such as 512Mi or 2Gi",
    CPU_PATTERN: "a number of cores such as 2, 0.5 or 500m",
    OBJECT_PATTERN: "a name of an object: lower-case letters, digits, dashes and dots",
    VARIABLE_PATTERN: "letters, digits and underscores, not beginning with a digit",
    FOLDER_PATTERN: "an absolute path without trailing slash, none of its parts hidden",
    IMAGE_PATTERN: "a reference of an image, such as registry.example/hudi-operator:0.1",
}
"""What to say of a text that does not have the form."""

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_UNITS_BYTES = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}


class Block(BaseModel):
    """A frozen group of fields, in camel case in manifests; an unknown one is refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, alias_generator=to_camel, validate_by_name=True
    )


ObjectName = Annotated[str, StringConstraints(pattern=NAME_PATTERN, max_length=63)]
"""A name of an object, as Kubernetes takes it for labels."""

ObjectReference = Annotated[str, StringConstraints(pattern=OBJECT_PATTERN, max_length=253)]
"""The name of an object of another's making: a Secret, a claim, a service account."""

Variable = Annotated[str, StringConstraints(pattern=VARIABLE_PATTERN, max_length=128)]
"""The name of an environment variable."""

Folder = Annotated[str, StringConstraints(pattern=FOLDER_PATTERN, max_length=256)]
"""A folder of a container."""

Image = Annotated[str, StringConstraints(pattern=IMAGE_PATTERN, max_length=512)]
"""A container image."""

ColumnName = Annotated[str, StringConstraints(pattern=COLUMN_PATTERN, max_length=128)]

ColumnOrCall = Annotated[str, StringConstraints(pattern=COLUMN_OR_CALL_PATTERN, max_length=256)]
"""A column, or a function of one: `name`, `lower(name)`."""

ColumnType = Annotated[str, StringConstraints(pattern=COLUMN_TYPE_PATTERN, max_length=32)]

TimeZone = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_+/-]*$", max_length=64)]
"""A name of the time zone database: `Europe/Berlin`."""

Duration = Annotated[str, StringConstraints(pattern=DURATION_PATTERN, max_length=32)]
"""A span of time, not zero: `90s`, `1h30m`."""


def _checked_size(size: str | int) -> str | int:
    if isinstance(size, int):
        is_size = 0 <= size <= _BYTES_MAX
    else:
        is_size = re.fullmatch(SIZE_PATTERN, size, re.ASCII) is not None
    if not is_size:
        raise ValueError(f"expected {PATTERNS[SIZE_PATTERN]}")
    return size


Size = Annotated[
    str | int,
    AfterValidator(_checked_size),
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "pattern": SIZE_PATTERN,
            "maxLength": 20,
            "minimum": 0,
            "maximum": _BYTES_MAX,
        }
    ),
]
"""A number of bytes: `512Mi`, `1000000`."""

Memory = Annotated[str, StringConstraints(pattern=MEMORY_PATTERN, max_length=16)]
"""An amount of memory: `512Mi`, `2Gi`."""


def _checked_cpu(cpu: str | int) -> str | int:
    if re.fullmatch(CPU_PATTERN, str(cpu), re.ASCII) is None:
        raise ValueError(f"expected {PATTERNS[CPU_PATTERN]}")
    return cpu


Cpu = Annotated[
    str | int,
    AfterValidator(_checked_cpu),
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "pattern": CPU_PATTERN,
            "minimum": 1,
            "maximum": _CORES_MAX,
        }
    ),
]
"""A number of cores: `2`, `500m`."""

Path = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
"""A URI, or a path; where a relative one begins is told by its field."""

Word = Annotated[str, StringConstraints(max_length=256)]
"""A short text of ours: a name, a time, an instant."""

Text = Annotated[str, StringConstraints(max_length=1024)]
"""A sentence of ours."""

Label = Annotated[str, StringConstraints(max_length=63)]
LabelKey = Annotated[str, StringConstraints(max_length=317)]
Labels = Annotated[dict[LabelKey, Label], Field(max_length=64)]

Settings = Annotated[dict[Word, Word], Field(max_length=64)]
"""Values of `hoodie.*` keys."""


class Reference(Block):
    """Another object of the same namespace."""

    name: ObjectName = Field(description="The object's name.")


def duration_ms(text: str) -> int:
    """Return the milliseconds of a text that has the form of `Duration`."""
    return sum(int(count) * _UNITS_MS[unit] for count, unit in re.findall(r"(\d+)([a-z]+)", text))


def size_bytes(size: str | int) -> int:
    """Return the bytes of a size that has the form of `Size`."""
    if isinstance(size, int):
        return size
    match = re.fullmatch(r"(\d+)([A-Za-z]*)", size, re.ASCII)
    assert match is not None
    return int(match[1]) * _UNITS_BYTES[match[2]]
