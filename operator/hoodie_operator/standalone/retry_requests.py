"""Requests for another attempt, which anybody leaves in a state folder and its owner takes up.

    STATE/retries/KIND/NAMESPACE.NAME    the time at which it was asked for

They wait for an operator where none runs. On Kubernetes the annotation of the same effect is set.
"""

from collections.abc import Iterator
from pathlib import Path

from hoodie_operator.api import conditions, kinds, objects, states, times
from hoodie_operator.api.conditions import Type
from hoodie_operator.standalone import state_files

_FOLDER = "retries"


def leave(state: Path, key: objects.ObjectKey, now_ms: int) -> None:
    """Ask for another attempt of an object.

    Raises:
        StorageError: The folder cannot be written.
    """
    # Two within a second are one: nothing fails faster.
    state_files.replace(_path(state, key), times.text(now_ms).encode())


def take(state: Path) -> Iterator[tuple[objects.ObjectKey, str]]:
    """Return what was asked for, and when; what the caller has done with it is taken away."""
    for kind in kinds.KINDS:
        for path in sorted((state / _FOLDER / kind.name).glob("[!.]*")):
            namespace, _, name = path.name.partition(".")
            request = (state_files.read(path) or b"").decode(errors="replace")
            yield objects.ObjectKey(kind=kind.name, namespace=namespace, name=name), request
            path.unlink(missing_ok=True)


def is_due(status: conditions.Status) -> bool:
    """Return whether another attempt would be made of something, or made sooner, if asked for."""
    runs = getattr(status, "runs", None)
    if runs is None or not runs.attempts or runs.current is not None:
        return False
    return status.is_true(Type.STALLED) or status.state == states.State.BACKING_OFF.value


def _path(state: Path, key: objects.ObjectKey) -> Path:
    return state / _FOLDER / key.kind / f"{key.namespace}.{key.name}"
