"""Who leads: one Lease that the leader renews, and whose number fences off earlier leaders.

As client-go does it: a lease that did not change for its duration, by our own clock, is free; who
cannot renew in time ends its process. No clocks of two machines are compared. The number grows from
leader to leader, also when somebody deletes the Lease.

    asked for      renewed                 deadline_s     duration_s - MARGIN_S   duration_s
    |--------------|-----------------------|--------------|-----------------------|-->
    ours: changes may begin ...............|              |                       |
          ... and are answered, or given up ..............|                       |
                   others: the lease has not changed for duration_s, and is free ...... |

What a leader began is over before another begins, but for what the network keeps back from the API
server for longer than our connection lives. That is a change of the version that was read, makes an
object of a name that is used once, or starts a run, which comes to nothing then (`adapters.runs`).
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import Any, Final

from hoodie import backoff, clock, identity
from hoodie_operator.api import resources, times
from hoodie_operator.api.resources import Manifest
from hoodie_operator.cluster.client import api, api_errors

logger = logging.getLogger(__name__)

_TRANSITIONS_MAX: Final = 1_000_000
_SPREAD: Final = 0.2
MARGIN_S: Final = 1.0
"""Between the end of what a leader asked for and the beginning of the next one."""


class LostError(Exception):
    """The lease is not held any more, or not known to be: nothing more may be done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How a lease is held.

    Attributes:
        duration_s: Without a renewal it is free after this long.
        deadline_s: A leader that could not renew for this long gives up; less than the duration.
        pause_s: Between two tries.
    """

    duration_s: int = 15
    deadline_s: float = 10.0
    pause_s: float = 2.0


class Election:
    """One candidate for one lease."""

    def __init__(  # noqa: PLR0913 - what identifies a candidate
        self,
        server: api.Api,
        *,
        namespace: str,
        name: str,
        candidate: str,
        our_clock: clock.Clock,
        random: identity.Random,
        terms: Terms = Terms(),
    ) -> None:
        """Take part; nothing is asked yet.

        Args:
            server: The API server, asked once each time and with a short time-out.
            namespace: Of the Lease.
            name: Of the Lease.
            candidate: Us, like no other process ever.
            our_clock: Its monotonic time is what counts.
            random: For jitter.
            terms: How the lease is held.
        """
        self._api = server
        self._namespace = namespace
        self._name = name
        self._candidate = candidate
        self._clock = our_clock
        self._random = random
        self._terms = terms
        self._seen: tuple[str, int] = ("", -1)
        self._seen_s = 0.0
        self._renewed_s: float | None = None
        self._held: Manifest | None = None

    @property
    def is_held(self) -> bool:
        """Whether the lease is ours for certain: others wait longer than we count."""
        if self._renewed_s is None:
            return False
        return self._clock.monotonic_s() - self._renewed_s < self._terms.deadline_s

    def change_s(self) -> float:
        """Return within how many seconds a change has to be over that begins now; 0 for none."""
        if self._renewed_s is None or not self.is_held:
            return 0.0
        end_s = self._renewed_s + self._terms.duration_s - MARGIN_S
        return end_s - self._clock.monotonic_s()

    @property
    def number(self) -> int:
        """The number of this leadership: above those of all earlier ones."""
        assert self._held is not None
        created_s = times.epoch_ms(self._held["metadata"]["creationTimestamp"]) // 1000
        transitions: int = self._held["spec"].get("leaseTransitions") or 0
        return created_s * _TRANSITIONS_MAX + min(transitions, _TRANSITIONS_MAX - 1)

    async def win(self) -> int:
        """Wait until we lead; return the number of our leadership."""
        while True:
            try:
                if await self.take():
                    logger.info("leading, number %s", self.number)
                    return self.number
            except api_errors.ApiError as error:
                logger.warning("no lease yet: %s", error)
            await self._pause()

    async def keep(self) -> None:
        """Renew the lease for as long as that succeeds.

        Raises:
            LostError: Somebody else has it, or it could not be renewed in time.
        """
        while self.is_held:
            await self._pause()
            try:
                if not await self.take():
                    raise LostError("another process holds the lease")
            except api_errors.ApiError as error:
                logger.warning("the lease was not renewed: %s", error)
        raise LostError(f"the lease was not renewed for {self._terms.deadline_s} s")

    async def release(self) -> None:
        """Let another lead at once; nothing when the lease is not held."""
        if self._held is None or not self.is_held:
            return
        held = self._held
        self._held, self._renewed_s = None, None
        spec = {**held["spec"], "holderIdentity": ""}
        try:
            await self._api.replace({**held, "spec": spec})
        except api_errors.ApiError as error:
            logger.warning("the lease was not released: %s", error)

    async def take(self) -> bool:
        """Take or renew the lease, if it is ours or free; return whether it is ours.

        Raises:
            ApiError: The API server did not answer, or others change the lease all the time.
        """
        try:
            return await self._take_once()
        except (api_errors.AlreadyExistsError, api_errors.ConflictError):
            # The other change may be our own: aiohttp repeats a request whose answer was lost.
            return await self._take_once()

    async def _take_once(self) -> bool:
        asked_s = self._clock.monotonic_s()
        found = await self._api.get(resources.LEASE, self._namespace, self._name)
        if found is None:
            held = await self._api.create(self._lease({}, transitions=0))
        elif self._is_mine_or_free(found):
            held = await self._api.replace(self._taken(found))
        else:
            return False
        self._held, self._renewed_s = held, asked_s
        return True

    def _is_mine_or_free(self, found: Manifest) -> bool:
        holder = found["spec"].get("holderIdentity") or ""
        if holder in ("", self._candidate):
            return True
        seen = (found["metadata"]["uid"], resources.version_of(found))
        if seen != self._seen:
            self._seen, self._seen_s = seen, self._clock.monotonic_s()
        duration_s = found["spec"].get("leaseDurationSeconds") or self._terms.duration_s
        return self._clock.monotonic_s() - self._seen_s > duration_s

    def _taken(self, found: Manifest) -> Manifest:
        spec = found["spec"]
        transitions = spec.get("leaseTransitions") or 0
        if spec.get("holderIdentity") == self._candidate:
            acquired = spec.get("acquireTime")
            return self._lease(found["metadata"], transitions=transitions, acquired=acquired)
        return self._lease(found["metadata"], transitions=transitions + 1)

    def _lease(
        self, metadata: Manifest, *, transitions: int, acquired: str | None = None
    ) -> Manifest:
        now = times.text(self._clock.now_ms()).replace("Z", ".000000Z")
        spec: dict[str, Any] = {
            "holderIdentity": self._candidate,
            "leaseDurationSeconds": self._terms.duration_s,
            "acquireTime": acquired or now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }
        return {
            "apiVersion": resources.LEASE.api_version,
            "kind": resources.LEASE.kind,
            "metadata": {**metadata, "name": self._name, "namespace": self._namespace},
            "spec": spec,
        }

    async def _pause(self) -> None:
        await asyncio.sleep(backoff.jittered(self._terms.pause_s, self._random.uniform(), _SPREAD))
