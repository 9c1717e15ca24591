"""Events: what happened to an object, once, and counted when it happens again.

Of each object one Event stands for one reason and message; its name is made of them, so that a
second operator, or one that was started anew, counts on instead of adding another. Each object may
tell so much at once and then so often; what is too much is left out: the conditions tell, too.
"""

import asyncio
import hashlib
import logging
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from hoodie import clock
from hoodie_operator.api import conditions, group, objects, resources, times
from hoodie_operator.api.conditions import Type
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.resources import Manifest
from hoodie_operator.cluster.client import api, api_errors

logger = logging.getLogger(__name__)

BURST: Final = 10
PERIOD_S: Final = 30.0
"""Of each object so many events at once, then one in this time."""

_OF_CLUSTER: Final = "default"
"""Where the API server keeps events of what has no namespace."""

_WAITING_MAX: Final = 1000
_BUCKETS_MAX: Final = 10_000
_MESSAGE_LENGTH_MAX: Final = 1000
_NAME_LENGTH_MAX: Final = 200
_WARNINGS: Final = frozenset(
    reason.value
    for reason in (
        Reason.BACKING_OFF,
        Reason.STORAGE_UNREACHABLE,
        Reason.LOCK_UNREACHABLE,
        Reason.API_REFUSED,
        Reason.FENCED_OFF,
        Reason.POD_NOT_CREATED,
        Reason.UNSCHEDULABLE,
        Reason.IMAGE_NOT_PULLED,
        Reason.CONTAINER_NOT_CREATED,
        Reason.DATA_KEPT,
    )
)
"""Reasons of waiting that somebody should look at, beside all that an object is stalled for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """What happened to an object.

    Attributes:
        about: Which.
        uid: Of it.
        reason: Of the catalogue.
        message: For people.
        is_warning: Whether somebody should look.
    """

    about: objects.ObjectKey
    uid: str
    reason: str
    message: str
    is_warning: bool


def of_change(before: conditions.Status, after: objects.AnyObject) -> Happened | None:
    """Return what a change of status means to who looks on; None when it is no news.

    A new state or reason is; another message alone is not, since some of them count.
    """
    ready = after.status.condition(Type.READY)
    old = before.condition(Type.READY)
    if ready is None or (
        old is not None and (before.state, old.reason) == (after.status.state, ready.reason)
    ):
        return None
    state = after.status.state or ""
    return Happened(
        about=after.key,
        uid=after.uid,
        reason=ready.reason,
        message=ready.message if state == ready.reason else f"{state}: {ready.message}",
        is_warning=after.status.is_true(Type.STALLED) or ready.reason in _WARNINGS,
    )


class Recorder:
    """Tells of events beside everything else; what cannot be told is left out."""

    def __init__(self, server: api.Api, our_clock: clock.Clock, instance: str) -> None:
        """Take the API server.

        Args:
            server: Who keeps the events.
            our_clock: For times and limits.
            instance: This process, by name.
        """
        self._api = server
        self._clock = our_clock
        self._instance = instance
        self._waiting: asyncio.Queue[Happened] = asyncio.Queue(_WAITING_MAX)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def record(self, happened: Happened) -> bool:
        """Tell of an event soon; return whether it will be, or is one too many."""
        if not self._is_allowed(happened.uid):
            return False
        try:
            self._waiting.put_nowait(happened)
        except asyncio.QueueFull:
            return False
        return True

    async def run(self) -> None:
        """Tell of events as they come, for ever."""
        while True:
            happened = await self._waiting.get()
            try:
                await self._record(happened)
            except api_errors.ApiError as error:
                logger.info("event %s of %s: %s", happened.reason, happened.about, error)

    async def _record(self, happened: Happened) -> None:
        event = self._event(happened)
        try:
            await self._create(event)
        except api_errors.NamespaceEndingError:
            if not happened.is_warning:
                raise
            # Nothing is kept there; what is told of the Namespace itself is kept elsewhere.
            await self._create(_of_namespace(event))

    async def _create(self, event: Manifest) -> None:
        try:
            await self._api.create(event)
        except api_errors.AlreadyExistsError:
            metadata = event["metadata"]
            place = (resources.EVENT, metadata["namespace"], metadata["name"])
            known = await self._api.get(*place)
            count = 1 if known is None else known.get("count") or 1
            again = {"count": count + 1, "lastTimestamp": event["lastTimestamp"]}
            await self._api.merge_patch(*place, again)

    def _event(self, happened: Happened) -> Manifest:
        about = happened.about
        now = times.text(self._clock.now_ms())
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": _name(happened), "namespace": about.namespace},
            "involvedObject": {
                "apiVersion": group.API_VERSION,
                "kind": about.kind,
                "name": about.name,
                "namespace": about.namespace,
                "uid": happened.uid,
            },
            "type": "Warning" if happened.is_warning else "Normal",
            "reason": happened.reason,
            "message": happened.message[:_MESSAGE_LENGTH_MAX],
            "source": {"component": resources.MANAGER},
            "reportingComponent": resources.MANAGER,
            "reportingInstance": self._instance,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }

    def _is_allowed(self, uid: str) -> bool:
        """Take one from an object's bucket of tokens, which fills up again with time."""
        now_s = self._clock.monotonic_s()
        left, filled_s = self._buckets.pop(uid, (float(BURST), now_s))
        left = min(float(BURST), left + (now_s - filled_s) / PERIOD_S)
        is_allowed = left >= 1
        self._buckets[uid] = (left - 1 if is_allowed else left, now_s)
        if len(self._buckets) > _BUCKETS_MAX:
            self._buckets.popitem(last=False)
        return is_allowed


def _of_namespace(event: Manifest) -> Manifest:
    """Return an event as one of the object's Namespace."""
    name = event["metadata"]["namespace"]
    return {
        **event,
        "metadata": {**event["metadata"], "namespace": _OF_CLUSTER},
        "involvedObject": {"apiVersion": "v1", "kind": "Namespace", "name": name},
    }


def _name(happened: Happened) -> str:
    content = "\0".join((happened.uid, happened.reason, happened.message))
    digest = hashlib.sha256(content.encode()).hexdigest()[:16]
    return f"{happened.about.name[:_NAME_LENGTH_MAX]}.{digest}"
