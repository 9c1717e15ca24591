"""Why lock servers and observers do not answer, as far as the API server tells: it is asked then.

Nothing is asked about who answers. However many tables and sources wait for one that is silent, it
is asked about once in some seconds.
"""

import asyncio
import logging
from typing import Final

from hoodie import clock
from hoodie_operator.api import resources
from hoodie_operator.cluster.client import api_errors
from hoodie_operator.cluster.client.api import Api
from hoodie_operator.cluster.control import concurrency_limits
from hoodie_operator.manifests import obstacles

logger = logging.getLogger(__name__)

_AGAIN_S: Final = 15.0
_LIMIT_S: Final = 3.0
_LIVING: Final = "status.phase!=Succeeded,status.phase!=Failed"
"""Pods that were evicted are left by a Deployment, as many as there were."""


class ServerDiagnosis:
    """Asks about the pods of servers that do not answer."""

    def __init__(self, api: Api, our_clock: clock.Clock) -> None:
        """Know nothing yet."""
        self._api = api
        self._clock = our_clock
        self._turns = concurrency_limits.KeyedSemaphore(1)
        self._told: dict[obstacles.Server, tuple[float, str]] = {}

    async def diagnose(self, message: str, server: obstacles.Server) -> str:
        """Return a message about a silent server with what keeps its pod from answering.

        Nothing is raised: where that is not to be had, it is the message alone.
        """
        why = await self._why(server)
        return f"{message}; {why}" if why else message

    async def _why(self, server: obstacles.Server) -> str:
        async with self._turns.at(f"{server.resource} {server.namespace}/{server.name}"):
            since_s = self._clock.monotonic_s() - _AGAIN_S
            known = self._told.get(server)
            if known is not None and known[0] > since_s:
                return known[1]
            why = ""
            try:
                async with asyncio.timeout(_LIMIT_S):
                    why = await self._ask(server)
            except (api_errors.ApiError, TimeoutError) as error:
                logger.debug("cannot find out why %s is silent: %r", server.name, error)
            self._told = {each: told for each, told in self._told.items() if told[0] > since_s} | {
                server: (self._clock.monotonic_s(), why)
            }
            return why

    async def _ask(self, server: obstacles.Server) -> str:
        """Ask by one request, or by two where there is no pod.

        Raises:
            ApiError: There is no answer.
        """
        pods = await self._api.some(resources.POD, server.namespace, server.labels, _LIVING)
        if pods:
            return obstacles.silence(server, pods)
        if server.resource is not resources.DEPLOYMENT:
            # The conditions of a StatefulSet are empty, and it is not ours to read.
            return obstacles.without_pod(server, None)
        made_by = await self._api.some(server.resource, server.namespace, server.labels)
        return obstacles.without_pod(server, next(iter(made_by), None))
