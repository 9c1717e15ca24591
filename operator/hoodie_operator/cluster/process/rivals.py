"""Other operators at work in our namespaces: releases whose Leases are not ours.

Each leads by a Lease of its own and decides about the same objects. No run is started twice by
that, since both name it alike; but they configure observers and lock servers each in its own way.
The API server records by whom a Job was made (`api.Api`), and a leader is told of every new one.
"""

import logging
from typing import Final

from hoodie_operator.api import resources
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.resources import Manifest
from hoodie_operator.cluster.control import events
from hoodie_operator.manifests import ownership

logger = logging.getLogger(__name__)

_PREFIX: Final = f"{resources.MANAGER}@"
_LENGTH_MAX: Final = 128
"""Of what the API server takes as the name of who makes something."""


def creator(namespace: str, lease: str) -> str:
    """Return as whom the operator of a Lease makes objects."""
    return f"{_PREFIX}{namespace}/{lease}"[:_LENGTH_MAX]


class Rivals:
    """Tells once of each other operator that makes Jobs of runs where we lead."""

    def __init__(self, ours: str, recorder: events.Recorder) -> None:
        """Know of none.

        Args:
            ours: As whom we make objects.
            recorder: Tells of events.
        """
        self._ours = ours
        self._recorder = recorder
        self._told: set[tuple[str, str]] = set()

    def hear(self, change: str | None, manifest: Manifest) -> None:
        """Hear of a change of an object, before who set its fields is forgotten."""
        if change != "ADDED" or resources.of(manifest) != resources.JOB:
            return
        run = ownership.attempt_of_job(manifest)
        other = _other_maker(manifest, self._ours)
        if run is None or other is None or (run.namespace, other) in self._told:
            return
        self._told.add((run.namespace, other))
        message = (
            f"the operator of Lease {other.removeprefix(_PREFIX)} works in this namespace as well "
            f"as that of Lease {self._ours.removeprefix(_PREFIX)}: give each namespaces of its "
            "own (config.watchNamespaces)"
        )
        logger.warning("namespace %s: %s", run.namespace, message)
        self._recorder.record(
            events.Happened(
                about=run.owner,
                uid=run.uid,
                reason=Reason.OTHER_OPERATOR.value,
                message=message,
                is_warning=True,
            )
        )


def _other_maker(job: Manifest, ours: str) -> str | None:
    """Return which other operator made a Job; None for ourselves, and for no operator at all."""
    recorded = job["metadata"].get("managedFields") or ()
    makers = (str(each.get("manager", "")) for each in recorded)
    return next((each for each in makers if each.startswith(_PREFIX) and each != ours), None)
