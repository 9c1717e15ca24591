"""What applying manifests would change, as values: objects that are new, changed and gone."""

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hoodie_operator.api import documents, objects
from hoodie_operator.standalone import applying


class Change(enum.Enum):
    """What would become of an object."""

    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """One field with another value.

    Attributes:
        path: Such as `spec.keys.recordFields`; a list is one value.
        before: As JSON has it; None where it was not set.
        after: None where it will not be set.
    """

    path: str
    before: object
    after: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What would become of one object.

    Attributes:
        key: Which.
        change: What.
        fields: Of a changed one what differs.
    """

    key: objects.ObjectKey
    change: Change
    fields: Sequence[FieldChange] = ()


def differences(
    stored: Mapping[objects.ObjectKey, objects.AnyObject], changes: applying.Changes
) -> list[Difference]:
    """Return what changes do to the objects that are stored, in the order of the changes."""
    return [_difference(stored.get(found.key), found) for found in changes.put]


def _difference(before: objects.AnyObject | None, after: objects.AnyObject) -> Difference:
    if before is None:
        return Difference(key=after.key, change=Change.CREATED)
    if after.is_deleting:
        return Difference(key=after.key, change=Change.DELETED)
    fields = tuple(_fields(_declared(before), _declared(after), ""))
    return Difference(key=after.key, change=Change.CHANGED, fields=fields)


def _declared(found: objects.AnyObject) -> dict[str, Any]:
    """Return what a manifest says of an object."""
    document = documents.to_document(found)
    return {"labels": document["metadata"].get("labels", {}), "spec": document["spec"]}


def _fields(
    before: Mapping[str, Any], after: Mapping[str, Any], path: str
) -> Iterator[FieldChange]:
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name), after.get(name)
        place = f"{path}.{name}" if path else name
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from _fields(old, new, place)
        elif old != new:
            yield FieldChange(path=place, before=old, after=new)
