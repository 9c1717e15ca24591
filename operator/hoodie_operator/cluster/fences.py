"""The fences that the operator keeps itself: nodes of the ZooKeepers that the locks are in.

Each is written with the number of the lease that this process leads by, so that one that has lost
its lease without knowing changes nothing any more. ZooKeeper's client waits in threads of its own,
so many at once for one ZooKeeper.
"""

from collections.abc import Callable

from hoodie import clock, errors
from hoodie.model import jobs
from hoodie.transaction import fence_nodes
from hoodie_operator.cluster import turns

_TRIES = 3
_THREADS_MAX = 64
_AT_ONCE_MAX = 4
_ANSWER_S = 20.0


class Fences:
    """The fences of one leader."""

    def __init__(
        self,
        lease: Callable[[], int],
        waiting_clock: clock.Clock,
        is_leading: Callable[[], bool] = lambda: True,
    ) -> None:
        """Take who leads.

        Args:
            lease: Tells the number of the lease.
            waiting_clock: For waiting.
            is_leading: Asked before every try of a change.
        """
        self._lease = lease
        self._is_leading = is_leading
        self._clock = waiting_clock
        self._threads = turns.Threads(
            "fences", in_all=_THREADS_MAX, at_once=_AT_ONCE_MAX, limit_s=_ANSWER_S
        )

    async def admit(self, node: jobs.FenceNode, attempt: int, protocol_hash: str) -> None:
        """Let one attempt commit, and no other.

        Raises:
            FencedError: Somebody leads by a later lease.
            StorageError: The ZooKeeper does not answer.
        """
        fence = jobs.Fence(attempt=attempt, protocol_hash=protocol_hash, lease=self._lease())
        await self._change(node, lambda: fence_nodes.write(node, fence, self._clock))

    async def close(self, node: jobs.FenceNode, attempt: int) -> None:
        """Let an attempt commit no more; another one that may, still may.

        Raises:
            FencedError: Somebody leads by a later lease.
            StorageError: The ZooKeeper does not answer.
        """
        lease = self._lease()
        await self._change(node, lambda: fence_nodes.close(node, attempt, lease, self._clock))

    async def forget(self, node: jobs.FenceNode, attempt: int) -> None:
        """Remove the fence of an attempt that has ended, if it is still its own.

        One that stays does no harm: it names an attempt that is no more.

        Raises:
            FencedError: Somebody leads by a later lease.
        """
        lease = self._lease()
        try:
            await self._change(node, lambda: fence_nodes.remove(node, attempt, lease, self._clock))
        except (errors.StorageError, errors.InvalidInputError, errors.ConflictError):
            return

    async def _change(self, node: jobs.FenceNode, change: Callable[[], None]) -> None:
        for left in range(_TRIES - 1, -1, -1):
            if not self._is_leading():
                raise errors.FencedError("the lease is not held for certain any more")
            try:
                await self._call(node, change)
            except errors.ConflictError:
                if not left:
                    raise
            else:
                return

    async def _call(self, node: jobs.FenceNode, change: Callable[[], None]) -> None:
        servers = ",".join(node.servers)
        try:
            await self._threads.call(servers, change)
        except TimeoutError as error:
            raise errors.StorageError(
                f"the fence {node.path} at {servers} does not answer"
            ) from error
