"""Objects of every kind in every state with every reason, as an API server stores them."""

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hoodie_operator.api import documents, kinds, objects
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.states import Row, State
from hoodie_operator.reconcile import observed_times, verdicts
from support.operators import rule_examples

GENERATION = 3
_NOW_MS = 1_763_700_000_000
_NOW = observed_times.Now(wall_ms=_NOW_MS, monotonic_ms=_NOW_MS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """An object in a state, and what the table says of it."""

    kind: kinds.Kind
    state: State
    reason: Reason
    row: Row
    document: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.kind.name}-{self.state.value}-{self.reason.value}"


def every() -> Iterator[Recorded]:
    """Return one object for each kind, state and reason."""
    for kind in kinds.KINDS:
        for state, row in kind.states.items():
            for reason in sorted(row.reasons, key=lambda each: each.value):
                document = _document(
                    kind, verdicts.Verdict(state=state, reason=reason, message="m")
                )
                if state is State.DELETING:
                    document["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
                yield Recorded(kind=kind, state=state, reason=reason, row=row, document=document)


def unseen(kind: kinds.Kind) -> dict[str, Any]:
    """Return an object that no operator has looked at."""
    found = _object(kind)
    document = documents.to_document(found)
    document.pop("status", None)
    return document


def _object(kind: kinds.Kind) -> objects.AnyObject:
    spec = kind.spec.model_validate_json(json.dumps(rule_examples.VALID[kind.name]))
    return objects.Object(
        key=objects.ObjectKey(kind=kind.name, namespace="sales", name="orders"),
        uid="uid-1",
        generation=GENERATION,
        created_ms=_NOW_MS,
        labels={},
        spec=spec,
        status=kind.status(),
    )


def _document(kind: kinds.Kind, verdict: verdicts.Verdict) -> dict[str, Any]:
    found = _object(kind)
    status = verdicts.stated(found.status, found, verdict, _NOW)
    return documents.to_document(dataclasses.replace(found, status=status))
