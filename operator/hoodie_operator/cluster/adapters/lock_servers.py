"""Lock providers of a cluster: asked by their servers, and served by a StatefulSet if embedded."""

import asyncio
import dataclasses
import functools
from collections.abc import Sequence
from typing import Final

from hoodie import clock, errors
from hoodie_operator.api import configuration, objects, resources
from hoodie_operator.cluster.adapters import names
from hoodie_operator.cluster.adapters.server_diagnosis import ServerDiagnosis
from hoodie_operator.cluster.client import api_errors
from hoodie_operator.cluster.client.api import Api
from hoodie_operator.cluster.control import concurrency_limits
from hoodie_operator.manifests import lock_servers
from hoodie_operator.observing import locks
from hoodie_operator.reconcile import allowances, facts

_THREADS_MAX: Final = 128
_OF_NAMESPACE_MAX: Final = 16
_ANSWER_S: Final = 3.0
"""More than a server takes that answers."""
_KEPT_VOLUME: Final = (
    "its volume is as it was made, and config.lockServers says otherwise: volumeSize and "
    "storageClass hold for new servers"
)
_START_MS: Final = 10_000
"""For so long any server is silent that was made a moment ago."""


class LockServers:
    """The lock servers of one cluster."""

    def __init__(
        self,
        api: Api,
        told: configuration.Configuration,
        operator_clock: clock.Clock,
        found: names.Names | None = None,
        *,
        namespace: str = "",
    ) -> None:
        """Take the API server.

        Args:
            api: Where servers are made.
            told: The operator's configuration.
            operator_clock: For when something was seen.
            found: Looks up servers.
            namespace: Where the operator's own pods are.
        """
        self._namespace = namespace
        self._api = api
        self._told = told
        self._clock = operator_clock
        self._silences = ServerDiagnosis(api, operator_clock)
        self._threads = concurrency_limits.BoundedThreadPool(
            "locks",
            in_all=_THREADS_MAX,
            of_share=_OF_NAMESPACE_MAX,
            at_once=1,
            limit_s=_ANSWER_S,
        )
        self._kept_volumes: set[str] = set()
        self._names = found or names.Names(told.lock_servers.allowed)

    async def look(self, lock: objects.Lock, before: facts.LockFacts | None) -> facts.LockFacts:
        """Return whether a provider answers now; nothing is raised."""
        answer = await self._answer(lock)
        now_ms = self._clock.now_ms()
        if lock.uid in self._kept_volumes:
            answer = dataclasses.replace(answer, message=f"{answer.message}; {_KEPT_VOLUME}")
        seen = locks.seen(answer, lock, before, now_ms)
        is_starting = now_ms - seen.since_ms < _START_MS
        if seen.is_ready or not lock.spec.embedded or is_starting:
            return seen
        told = await self._silences.diagnose(seen.message, lock_servers.server(lock))
        return dataclasses.replace(seen, message=told)

    async def _answer(self, lock: objects.Lock) -> locks.Answer:
        if lock.spec.embedded:
            question = locks.question_zookeeper((lock_servers.address(lock),))
        else:
            found = locks.question(lock.spec)
            if isinstance(found, locks.Answer):
                return found
            question = found
        silences = await asyncio.gather(
            *(
                self._silence(lock.key.namespace, question, server, is_ours=lock.spec.embedded)
                for server in question.servers
            )
        )
        return locks.answered(question, dict(zip(question.servers, silences, strict=True)))

    async def _silence(
        self, namespace: str, question: locks.Question, server: str, *, is_ours: bool
    ) -> str | None:
        """Return why a server cannot be used; of one that is refused nothing is found out."""
        allowed = self._told.lock_servers.allowed
        refused = None if is_ours else allowances.refused_host(server, allowed)
        if refused is not None:
            return refused
        try:
            addresses = await self._names.addresses(namespace, server)
        except errors.ConfigurationError:
            return allowances.REFUSED_ADDRESS
        except errors.StorageError:
            return locks.SILENT
        silence: str | None = locks.SILENT
        for address in addresses:
            try:
                asked = functools.partial(question.silence_of, address)
                silence = await self._threads.call(namespace, address, asked)
            except TimeoutError:
                silence = locks.SILENT
            if silence is None:
                break
        return silence

    async def serve(self, lock: objects.Lock, users: Sequence[objects.Owner]) -> None:
        """See to it that the server of a LockProvider runs as declared.

        Its objects are owned by the LockProvider and its users, and go with the last of them.

        Raises:
            ApiError: It could not be seen to.
        """
        # First, so that the server is open to others at no time.
        await self._api.apply(lock_servers.network_policy(lock, users, self._namespace))
        await self._api.apply(lock_servers.service(lock, users))
        wanted = lock_servers.stateful_set(lock, users, self._told)
        try:
            await self._api.apply(wanted)
        except api_errors.InvalidError as error:
            # Its volume is what cannot be changed. All else can, or is refused again.
            name, namespace = wanted["metadata"]["name"], wanted["metadata"]["namespace"]
            changed = lock_servers.change(wanted)
            try:
                await self._api.merge_patch(resources.STATEFUL_SET, namespace, name, changed)
            except api_errors.NotFoundError:
                raise error from None
            self._kept_volumes.add(lock.uid)
        else:
            self._kept_volumes.discard(lock.uid)
