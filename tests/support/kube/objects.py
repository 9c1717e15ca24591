"""Objects of our kinds on an API server: their paths, and what is said of one that is proposed."""

import contextlib
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hoodie_operator.api import group, kinds
from support.kube import api

Sentences = set[tuple[str, str]]
"""What is wrong: the path of a field, and the sentence."""

_INVALID = 422
# Each refusal of a rule reads `Invalid value: "object": SENTENCE` or, without a value, `Invalid
# value: SENTENCE`.
_HEAD = "Invalid value: "


def collection(kind: kinds.Kind, namespace: str) -> str:
    """Return the path of a kind's objects."""
    return f"/apis/{group.API_VERSION}/namespaces/{namespace}/{kind.plural}"


def path(kind: kinds.Kind, namespace: str, name: str) -> str:
    """Return the path of one object."""
    return f"{collection(kind, namespace)}/{name}"


def document(kind: kinds.Kind, name: str, spec: object) -> dict[str, Any]:
    """Return an object as it is created or applied."""
    return {
        "apiVersion": group.API_VERSION,
        "kind": kind.name,
        "metadata": {"name": name},
        "spec": spec,
    }


def propose(
    server: api.Api, kind: kinds.Kind, spec: object, namespace: str = "default"
) -> api.Answer:
    """Ask for a new object, strictly, that is not stored."""
    with proposing(server, kind, namespace) as ask:
        return ask(spec)


@contextlib.contextmanager
def proposing(
    server: api.Api, kind: kinds.Kind, namespace: str = "default"
) -> Iterator[Callable[[object], api.Answer]]:
    """Give what proposes a spec as `propose` does, for thousands of them."""
    query = "dryRun=All&fieldValidation=Strict"
    with server.creating(f"{collection(kind, namespace)}?{query}") as create:
        yield lambda spec: create(document(kind, f"proposed-{uuid.uuid4().hex[:10]}", spec))


def propose_change(
    server: api.Api, kind: kinds.Kind, stored: Mapping[str, Any], spec: object
) -> api.Answer:
    """Ask for another spec of a stored object, which is not stored."""
    metadata = stored["metadata"]
    where = path(kind, metadata["namespace"], metadata["name"])
    changed = {**stored, "spec": spec}
    return server.request("PUT", f"{where}?dryRun=All&fieldValidation=Strict", changed)


def sentences(answer: api.Answer) -> Sentences:
    """Return what an answer says is wrong, by field; empty if it accepts."""
    if answer.is_accepted:
        return set()
    assert answer.status == _INVALID, answer.message
    causes = answer.body["details"]["causes"]
    return {(cause["field"], _sentence(cause["message"])) for cause in causes}


def _sentence(message: str) -> str:
    told = message.removeprefix(_HEAD)
    return told.removeprefix('"object": ')
