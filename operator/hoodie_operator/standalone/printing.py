"""`get`, `describe` and `validate`: what a state folder holds, printed as kubectl prints it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from hoodie import errors
from hoodie_operator.api import documents, json_paths, kinds, manifests, objects, times
from hoodie_operator.api.states import State

_PLURALS: Mapping[str, str] = {"y": "ies", "x": "es"}
"""Endings of the plurals of words that do not take an s, by their last letters."""

_ALIASES: Mapping[str, kinds.Kind] = {
    alias: kind
    for kind in kinds.KINDS
    for alias in (
        kind.singular,
        kind.plural,
        *kind.short_names,
        kind.short_word,
        f"{kind.short_word.removesuffix('y')}{_PLURALS.get(kind.short_word[-1], 's')}",
    )
}
ALL = "all"
"""In place of a kind: those of all kinds."""

_NONE = "<none>"
_GAP = "   "


def kind_named(name: str) -> kinds.Kind:
    """Return the kind of a name as people write it: `tables`, `hw`, `CompactionPolicy`.

    Raises:
        InvalidInputError: No kind has it.
    """
    kind = _ALIASES.get(name.lower())
    if kind is None:
        raise errors.InvalidInputError(
            f"{name!r} is not a kind, expected tables, writers, actions, policies, indexes or locks"
        )
    return kind


def get(found: Sequence[objects.AnyObject], kind: kinds.Kind, *, is_wide: bool, now_ms: int) -> str:
    """Return objects of one kind as a table of text."""
    if not found:
        return f"No {kind.plural} found.\n"
    columns = columns_of(kind, is_wide=is_wide)
    # Most people have one namespace, and no use for its name.
    has_namespaces = {each.key.namespace for each in found} != {objects.DEFAULT_NAMESPACE}
    rows = [["NAMESPACE", "NAME", *(column.name.upper() for column in columns)]]
    rows += [[each.key.namespace, each.name, *cells_of(each, columns, now_ms)] for each in found]
    return _aligned(rows if has_namespaces else [row[1:] for row in rows])


def columns_of(kind: kinds.Kind | None, *, is_wide: bool) -> list[kinds.PrinterColumn]:
    """Return the columns that are printed of a kind, or those that all kinds have."""
    columns = kinds.COMMON_COLUMNS if kind is None else kind.columns
    return [column for column in columns if is_wide or not column.is_wide]


def cells_of(
    found: objects.AnyObject, columns: Sequence[kinds.PrinterColumn], now_ms: int
) -> list[str]:
    """Return what is printed of an object in columns."""
    document = documents.to_document(found)
    return [_cell(document, column, now_ms) for column in columns]


def get_all(found: Sequence[objects.AnyObject], *, is_wide: bool, now_ms: int) -> str:
    """Return objects as a table of text for each kind that there are some of, by their kinds."""
    tables = []
    for kind in kinds.KINDS:
        own = [each for each in found if each.key.kind == kind.name]
        if own:
            heading = f"{kind.plural}:\n"
            tables.append(heading + get(own, kind, is_wide=is_wide, now_ms=now_ms))
    return "\n".join(tables) or "Nothing found.\n"


def get_json(found: Sequence[objects.AnyObject], *, is_one: bool) -> str:
    """Return objects as Kubernetes' JSON list, or the one that was asked for as it is."""
    items = [documents.to_document(each) for each in found]
    document = (
        items[0]
        if is_one and len(items) == 1
        else {"apiVersion": "v1", "kind": "List", "items": items}
    )
    return json.dumps(document, indent=2) + "\n"


def describe(
    found: objects.AnyObject,
    owned: Sequence[objects.AnyObject],
    refused: Sequence[manifests.Problem],
    log: Path | None,
) -> str:
    """Return everything about one object.

    Args:
        found: The object.
        owned: What was made for it.
        refused: What of its manifest was refused; the spec is the one before.
        log: Where the output of its newest attempt is; None when it had none.
    """
    document = documents.to_document(found)
    status: dict[str, Any] = dict(document["status"])
    standing = status.pop("conditions", [])
    status.pop("waiting", None)
    runs = status.pop("runs", None)
    metadata = document["metadata"]
    lines = [
        f"Name:         {found.name}",
        f"Namespace:    {found.key.namespace}",
        f"Kind:         {found.key.kind}",
        f"Labels:       {_labels(metadata.get('labels'))}",
        f"UID:          {found.uid}",
        f"Generation:   {found.generation}",
        f"Created:      {metadata['creationTimestamp']}",
    ]
    if found.owner is not None:
        lines.append(f"Made for:     {found.owner.kind}/{found.owner.name}")
    if found.is_deleting:
        lines.append(f"Deleting:     since {metadata['deletionTimestamp']}")
    lines += [f"Refused:      {each}" for each in refused]
    text = "\n".join(lines) + "\n"
    text += "Spec:\n" + _indented(document["spec"])
    text += "Status:\n" + _indented(status)
    if runs:
        text += _runs(runs, found.status.state, log)
    text += _conditions(standing)
    if owned:
        text += "Made for it:\n"
        rows = [["NAME", "KIND", "STATE"]]
        rows += [[each.name, each.key.kind, each.status.state or _NONE] for each in owned]
        text += _aligned(rows, "  ")
    return text


def _runs(runs: Mapping[str, Any], state: str | None, log: Path | None) -> str:
    text = f"Runs:         {_counted(runs.get('attempts', 0), 'attempt')}"
    if failures := runs.get("failures", 0):
        text += f", {_counted(failures, 'failure')} in a row"
    # In other states nothing is begun then: it is the time before which nothing would be.
    if state == State.BACKING_OFF.value and runs.get("nextAttemptTime"):
        text += f", next at {runs['nextAttemptTime']}"
    text += "\n"
    rows = [["ATTEMPT", "STARTED", "ENDED", "OUTCOME", "COMMITS", "MESSAGE"]]
    for each in runs.get("history", []):
        commits = each.get("commits")
        rows.append(
            [
                str(each["number"]),
                each["startTime"],
                each["endTime"],
                each["outcome"],
                _NONE if commits is None else str(commits),
                ": ".join(part for part in (each.get("errorKind"), each.get("message")) if part),
            ]
        )
    current = runs.get("current")
    if current:
        done = f" {current['done']}/{current['total']}" if current.get("total") else ""
        told = f"{current.get('phase', 'starting')}{done}"
        rows.append(
            [
                str(current["number"]),
                current["startTime"],
                "",
                "active",
                "",
                f"{told} ({current.get('process', 'unknown')})",
            ]
        )
    if len(rows) > 1:
        text += _aligned(rows, "  ")
    if log is not None:
        text += f"  Log:        {log}\n"
    return text


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _conditions(standing: Sequence[Mapping[str, Any]]) -> str:
    if not standing:
        return "Conditions:   none; not reconciled yet\n"
    rows = [["TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"]]
    rows += [
        [each["type"], each["status"], each["reason"], each["lastTransitionTime"], each["message"]]
        for each in standing
    ]
    return "Conditions:\n" + _aligned(rows, "  ")


def _labels(labels: Mapping[str, str] | None) -> str:
    return ", ".join(f"{key}={value}" for key, value in (labels or {}).items()) or _NONE


def _indented(data: object) -> str:
    if not data:
        return f"  {_NONE}\n"
    text: str = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100)
    return "".join(f"  {line}\n" for line in text.splitlines())


def _cell(document: Mapping[str, Any], column: kinds.PrinterColumn, now_ms: int) -> str:
    value = json_paths.value_at(document, column.path)
    if value is None:
        return _NONE
    if column.type == "date":
        return times.span(max(0, now_ms - times.epoch_ms(str(value)))).replace(" ", "")
    if isinstance(value, list):
        return json.dumps(value, separators=(",", ":"))
    return " ".join(str(value).split())


def _aligned(rows: Sequence[Sequence[str]], indent: str = "") -> str:
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    lines = (
        indent + _GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )
    return "".join(f"{line.rstrip()}\n" for line in lines)
