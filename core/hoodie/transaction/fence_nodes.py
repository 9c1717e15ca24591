"""Fences as nodes of a ZooKeeper, beside the locks of tables, never below one.

Whoever starts attempts writes a node: which attempt may commit, and with which number the writer
leads. Of several who believe to lead, one with a lower number changes nothing that one with a
higher number wrote: a node is replaced in the version that was read, or not at all.
"""

import dataclasses
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import kazoo.exceptions

from hoodie import clock, errors
from hoodie.contract import attempt_fences
from hoodie.transaction.locks import zookeeper_connection, zookeeper_session
from hoodie.transaction.locks.addresses import ZooKeeperAddress

FOLDER_SUFFIX = ".fences"
"""No name of a table, and so of no lock, holds a dot."""

_TABLE_DIGITS = 16
_ANSWER_S = 15.0
_SESSION_S = 10.0
_LIMITS = zookeeper_connection.AnswerLimits(frame_bytes=64 << 10, session_bytes=256 << 10)
"""A fence has some hundred bytes, and is read and changed by a handful of answers."""


def address(
    lock: ZooKeeperAddress, lock_path: str, table_uri: str, owner: str
) -> attempt_fences.FenceNode:
    """Return the node of a writer or an action beside the lock of its table.

    Tables of one name in several places may share a lock, as Apache Hudi names it by base path and
    table name; their fences must differ, or the attempts of one would fence off those of another.

    Args:
        lock: The lock's address.
        lock_path: Of its node.
        table_uri: The table's root, normalised.
        owner: The writer or action, by a name without slash that all its attempts share.
    """
    table = hashlib.sha256(table_uri.encode()).hexdigest()[:_TABLE_DIGITS]
    path = f"{lock_path}{FOLDER_SUFFIX}/{table}.{owner}"
    return attempt_fences.FenceNode(servers=lock.servers, path=path)


def read(node: attempt_fences.FenceNode, waiting_clock: clock.Clock) -> attempt_fences.Fence | None:
    """Return what a node says now; None when there is none.

    Raises:
        StorageError: The servers do not answer.
        InvalidInputError: What is there is no fence.
    """
    with _session(node, waiting_clock) as (session, by_s):
        found = session.node(node.path, by_s)
        return None if found is None else attempt_fences.decode_fence(found.content, node.path)


def write(
    node: attempt_fences.FenceNode, fence: attempt_fences.Fence, waiting_clock: clock.Clock
) -> None:
    """Make a node say which attempt may commit. Idempotent.

    Raises:
        FencedError: Somebody who leads with a higher number wrote it.
        ConflictError: It was changed meanwhile.
        StorageError: The servers do not answer; it may be written.
        InvalidInputError: What is there is no fence.
    """
    content = attempt_fences.encode_fence(fence)
    with _change(node, fence.lease, waiting_clock) as found:
        if found.stored is None:
            found.session.create_lasting(node.path, content, found.by_s)
        elif found.stored != fence:
            found.session.replace(node.path, content, found.version, found.by_s)


def close(
    node: attempt_fences.FenceNode, attempt: int, lease: int, waiting_clock: clock.Clock
) -> None:
    """Make a node that lets one attempt commit let none; nothing where it says otherwise.

    Args:
        node: Which.
        attempt: Which may commit no more.
        lease: The number that the caller leads with.
        waiting_clock: For waiting.

    Raises:
        FencedError: Somebody who leads with a higher number wrote it.
        ConflictError: It was changed meanwhile.
        StorageError: The servers do not answer; it may be closed.
        InvalidInputError: What is there is no fence.
    """
    with _change(node, lease, waiting_clock) as found:
        if found.stored is not None and found.stored.attempt == attempt:
            closed = attempt_fences.encode_fence(
                dataclasses.replace(found.stored, attempt=0, lease=lease)
            )
            found.session.replace(node.path, closed, found.version, found.by_s)


def remove(
    node: attempt_fences.FenceNode, attempt: int, lease: int, waiting_clock: clock.Clock
) -> None:
    """Delete a node that lets an attempt commit, or none; nothing where it says otherwise.

    Args:
        node: Which.
        attempt: Which has ended.
        lease: The number that the caller leads with.
        waiting_clock: For waiting.

    Raises:
        FencedError: Somebody who leads with a higher number wrote it.
        ConflictError: It was changed meanwhile.
        StorageError: The servers do not answer; it may be deleted.
        InvalidInputError: What is there is no fence.
    """
    with _change(node, lease, waiting_clock) as found:
        if found.stored is not None and found.stored.attempt in (0, attempt):
            found.session.delete(node.path, found.by_s, found.version)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A node that is to be changed.

    Attributes:
        session: By which.
        by_s: Until when its answers are waited for.
        stored: What it says; None when there is none.
        version: In which it was read, and is changed.
    """

    session: zookeeper_session.Session
    by_s: float
    stored: attempt_fences.Fence | None
    version: int


@contextmanager
def _change(
    node: attempt_fences.FenceNode, lease: int, waiting_clock: clock.Clock
) -> Iterator[_Found]:
    """Read a node that who leads with a number is to change, and tell how that may fail."""
    with _session(node, waiting_clock) as (session, by_s):
        found = session.node(node.path, by_s)
        stored = None if found is None else attempt_fences.decode_fence(found.content, node.path)
        if stored is not None and stored.lease > lease:
            raise errors.FencedError(
                f"{node.path}: the leader of lease {lease} may not change what the one of lease "
                f"{stored.lease} wrote"
            )
        version = 0 if found is None else found.version
        with _conflicts(node):
            yield _Found(session=session, by_s=by_s, stored=stored, version=version)


@contextmanager
def _conflicts(node: attempt_fences.FenceNode) -> Iterator[None]:
    try:
        yield
    except (
        kazoo.exceptions.NodeExistsError,
        kazoo.exceptions.BadVersionError,
        kazoo.exceptions.NoNodeError,
    ) as error:
        raise errors.ConflictError(f"{node.path}: was changed meanwhile") from error


@contextmanager
def _session(
    node: attempt_fences.FenceNode, waiting_clock: clock.Clock
) -> Iterator[tuple[zookeeper_session.Session, float]]:
    """Open a session, and say until when its answers are waited for."""
    by_s = waiting_clock.monotonic_s() + _ANSWER_S
    session = zookeeper_session.Session(
        ",".join(node.servers), _SESSION_S, waiting_clock, lambda: None, _LIMITS
    )
    try:
        session.await_connection(by_s)
        yield session, by_s
    except (kazoo.exceptions.KazooException, zookeeper_session.TimedOutError) as error:
        raise errors.StorageError(
            f"the fence {node.path} at {','.join(node.servers)} does not answer: "
            f"{type(error).__name__}"
        ) from error
    finally:
        session.close()
