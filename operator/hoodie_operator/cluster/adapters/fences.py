"""The fences that the operator keeps itself: nodes of the ZooKeepers that the locks are in.

Each is written with the number of the lease that this process leads by, so that one that has lost
its lease without knowing changes nothing any more. ZooKeeper's client waits in threads of its own,
so many at once for one ZooKeeper, and for one namespace, whose users say which servers these are.
"""

import dataclasses
from collections.abc import Callable

from hoodie import clock, errors
from hoodie.contract import attempt_fences
from hoodie.transaction import fence_nodes
from hoodie_operator.cluster.adapters import names
from hoodie_operator.cluster.client import api_errors
from hoodie_operator.cluster.control import concurrency_limits

_TRIES = 3
_THREADS_MAX = 128
_OF_NAMESPACE_MAX = 8
_AT_ONCE_MAX = 4
_ANSWER_S = 20.0
_HARMLESS = (
    errors.StorageError,
    errors.InvalidInputError,
    errors.ConflictError,
    errors.ConfigurationError,
)


class Fences:
    """The fences of one leader."""

    def __init__(
        self,
        lease: Callable[[], int],
        waiting_clock: clock.Clock,
        is_leading: Callable[[], bool] = lambda: True,
        found: names.Names | None = None,
    ) -> None:
        """Take who leads.

        Args:
            lease: Tells the number of the lease.
            waiting_clock: For waiting.
            is_leading: Asked before every try of a change.
            found: Looks up servers.
        """
        self._lease = lease
        self._is_leading = is_leading
        self._clock = waiting_clock
        self._names = found or names.Names()
        self._threads = concurrency_limits.BoundedThreadPool(
            "fences",
            in_all=_THREADS_MAX,
            of_share=_OF_NAMESPACE_MAX,
            at_once=_AT_ONCE_MAX,
            limit_s=_ANSWER_S,
        )

    async def admit(
        self, namespace: str, node: attempt_fences.FenceNode, attempt: int, protocol_hash: str
    ) -> None:
        """Let one attempt commit, and no other.

        Raises:
            FencedError: Somebody leads by a later lease.
            NotLeadingError: The lease is not held for certain.
            StorageError: The ZooKeeper does not answer.
            ConfigurationError: It is where the operator does not connect to.
        """
        lease = self._number()
        fence = attempt_fences.Fence(attempt=attempt, protocol_hash=protocol_hash, lease=lease)
        await self._change(
            namespace, node, lambda there: fence_nodes.write(there, fence, self._clock)
        )

    async def close(self, namespace: str, node: attempt_fences.FenceNode, attempt: int) -> None:
        """Let an attempt commit no more; another one that may, still may.

        Raises:
            FencedError: Somebody leads by a later lease.
            NotLeadingError: The lease is not held for certain.
            StorageError: The ZooKeeper does not answer.
            ConfigurationError: It is where the operator does not connect to.
        """
        lease = self._number()
        await self._change(
            namespace, node, lambda there: fence_nodes.close(there, attempt, lease, self._clock)
        )

    async def forget(self, namespace: str, node: attempt_fences.FenceNode, attempt: int) -> None:
        """Remove the fence of an attempt that has ended, if it is still its own.

        One that stays does no harm: it names an attempt that is no more.

        Raises:
            FencedError: Somebody leads by a later lease.
            NotLeadingError: The lease is not held for certain.
        """
        lease = self._number()
        try:
            await self._change(
                namespace,
                node,
                lambda there: fence_nodes.remove(there, attempt, lease, self._clock),
            )
        except _HARMLESS:
            return

    async def _change(
        self,
        namespace: str,
        node: attempt_fences.FenceNode,
        change: Callable[[attempt_fences.FenceNode], None],
    ) -> None:
        for left in range(_TRIES - 1, -1, -1):
            self._number()
            there = await self._found(namespace, node)
            try:
                await self._call(namespace, there, change)
            except errors.ConflictError:
                if not left:
                    raise
            else:
                return

    def _number(self) -> int:
        """Return the number of the lease that we hold for certain.

        It grows while we lead where somebody deletes the Lease, and we make it anew.

        Raises:
            NotLeadingError: It may be another's by now.
        """
        if not self._is_leading():
            raise api_errors.NotLeadingError("the lease is not held for certain any more")
        return self._lease()

    async def _found(
        self, namespace: str, node: attempt_fences.FenceNode
    ) -> attempt_fences.FenceNode:
        """Return a node at addresses of its servers.

        Raises:
            StorageError: None of them is found.
            ConfigurationError: One of them is none to connect to.
        """
        addresses: list[str] = []
        problem: errors.StorageError | None = None
        for server in node.servers:
            try:
                addresses.extend(await self._names.addresses(namespace, server))
            except errors.StorageError as error:
                problem = error
        if not addresses:
            raise errors.StorageError(f"the fence {node.path} cannot be reached: {problem}")
        return dataclasses.replace(node, servers=tuple(addresses))

    async def _call(
        self,
        namespace: str,
        node: attempt_fences.FenceNode,
        change: Callable[[attempt_fences.FenceNode], None],
    ) -> None:
        servers = ",".join(node.servers)
        try:
            await self._threads.call(namespace, servers, lambda: change(node))
        except TimeoutError as error:
            raise errors.StorageError(
                f"the fence {node.path} at {servers} does not answer"
            ) from error
