"""Which attempt of a run may commit: written by the process that starts attempts, read by jobs.

A fence is a file, or a node of the ZooKeeper that holds the table lock.
"""

from dataclasses import dataclass
from typing import TypeAlias

from hoodie.model import json_values


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceFile:
    """A file with a `Fence`, written by the process that starts attempts.

    Attributes:
        path: Absolute.
    """

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceNode:
    """A ZooKeeper node with a `Fence`, written by the process that starts attempts.

    Attributes:
        servers: `host:port` of each.
        path: Of the node.
    """

    servers: tuple[str, ...]
    path: str


FenceAddress: TypeAlias = FenceFile | FenceNode
"""Where the operator, which starts the attempts, says which one may commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """Which attempt may commit, and under which protocol.

    Attributes:
        attempt: The current attempt; 0 for none.
        protocol_hash: The table's current hash.
        lease: The number of the leader's lease who wrote it, among several operators; a leader
            with a lower one may not change it any more.
    """

    attempt: int
    protocol_hash: str
    lease: int = 0


def encode_fence(fence: Fence) -> bytes:
    """Return the content of a fence file."""
    return json_values.encode(fence)


def decode_fence(content: bytes, source: str) -> Fence:
    """Return the fence in a file's content.

    Raises:
        InvalidInputError: The content does not fit.
    """
    return json_values.decode(Fence, content, source)
