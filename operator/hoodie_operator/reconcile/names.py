"""Names of objects that are made, not declared: deterministic, so that none is made twice."""

import hashlib
import re

from hoodie_operator.api import objects, table_action

_LENGTH_MAX = 63
_MAKER_LENGTH = 4
_EDITION = rf"(?:g[0-9]+(?:-[0-9a-f]{{{_MAKER_LENGTH}}})?|d[0-9a-f]+)"
_BASIS = re.compile(rf"-([0-9]{{17}})(?:-rest)?-{_EDITION}$", re.ASCII)


def action(table: objects.Table, action_type: table_action.ActionType, basis: str) -> str:
    """Return the name of a TableAction.

    Args:
        table: The table; its uid is part of the name, so that a table made anew has its own.
        action_type: What is done.
        basis: The pending instant, or the last completed one when the action makes the instant.
    """
    tail = f"-{action_type.value.lower()}-{table.uid[:6].lower()}-{basis}"
    head = table.name
    if len(head) + len(tail) > _LENGTH_MAX:
        digest = hashlib.sha256(head.encode()).hexdigest()[:6]
        head = f"{head[: _LENGTH_MAX - len(tail) - 7]}-{digest}"
    return head + tail


def edition(policy: objects.Policy) -> str:
    """Return what changes in the names of a policy's TableActions with the policy and its rules.

    Part of its uid: what another policy has tried at the same commit is not this one's.
    """
    maker = hashlib.sha256(policy.uid.encode()).hexdigest()[:_MAKER_LENGTH]
    return f"g{policy.generation}-{maker}"


def basis(name: str) -> str | None:
    """Return the instant in the name of a TableAction that `action` made; None for none."""
    found = _BASIS.search(name)
    return None if found is None else found[1]


def owner(owning: objects.AnyObject) -> objects.Owner:
    """Return the reference by which an object owns another."""
    return objects.Owner(kind=owning.key.kind, name=owning.name, uid=owning.uid)
