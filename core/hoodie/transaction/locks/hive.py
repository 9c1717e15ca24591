"""A lock of a Hive Metastore: an exclusive one of a table, as Apache Hudi's provider takes it.

Database and table need not exist. The metastore gives each request a number, and the lock to the
lowest that is left; so the number is the fencing token. A holder that sends no heartbeat loses the
lock after the metastore's `hive.txn.timeout` (300 s), where the metastore runs the service that
sees to it. `is_held` asks the metastore, which counts as a heartbeat as well.

A request is undone when its waiting is over or its answer was lost: left standing, it would be
given the lock in its turn.

Source: `org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider`,
`org.apache.hadoop.hive.metastore.txn.TxnHandler`.
"""

import logging
import threading  # noqa: TID251 - heartbeats are sent from a thread of their own
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import thriftpy2.protocol.exc
import thriftpy2.rpc
import thriftpy2.thrift
import thriftpy2.transport

from hoodie import clock, errors, identity
from hoodie.background.protocol import Background, Periodic
from hoodie.transaction.locks import inspection, leases, polling
from hoodie.transaction.locks.addresses import HiveAddress, session_s
from hoodie.transaction.locks.hive_thrift import types
from hoodie.transaction.locks.inspection import Holding, Liveness
from hoodie.transaction.locks.protocol import LockOwner, LockProvider

logger = logging.getLogger(__name__)

_LOST_ANSWERS = (
    OSError,
    thriftpy2.protocol.exc.TProtocolException,
    thriftpy2.thrift.TApplicationException,
    thriftpy2.transport.TTransportException,
)
_UNKNOWN_AGENT = (None, "", "Unknown")

Request = Callable[[Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hold:
    lock_id: int
    heartbeats: Periodic


class HiveLock:
    """One transaction's access; it connects when it first takes the lock."""

    def __init__(
        self,
        address: HiveAddress,
        owner: LockOwner,
        *,
        waiting_clock: clock.Clock,
        random: identity.Random,
        background: Background,
    ) -> None:
        """Take the metastore and the table's name there, and who we are."""
        self._address = address
        self._owner = owner
        self._agent = leases.owner_text(owner)
        self._clock = waiting_clock
        self._random = random
        self._background = background
        self._speaking = threading.Lock()
        self._client: Any = None
        self._hold: _Hold | None = None
        self._is_in_line = False  # Or may be: a request was sent since the last was undone.

    @property
    def description(self) -> str:
        """The lock in words."""
        servers = ",".join(self._address.servers)
        return f"Hive Metastore lock {self._address.database}.{self._address.table} at {servers}"

    def acquire(self, wait_s: float) -> None:
        """Take the lock, waiting no longer than that for others."""
        if self._hold is not None:
            raise errors.InvalidInputError(f"{self._owner} already holds the {self.description}")
        waiting = polling.Waiting(self._address.polling, wait_s, self._clock, self._random)
        try:
            lock_id = self._stand_in_line(waiting)
            if lock_id is not None:
                self._hold = self._begin_heartbeats(lock_id)
                return
            refusal = self._holder()
        except BaseException:
            self._withdraw()
            raise
        self._withdraw()
        raise errors.LockTimeoutError(
            f"{self._owner} timed out after {wait_s:g} s waiting for the {self.description}: "
            f"{refusal}"
        )

    def _begin_heartbeats(self, lock_id: int) -> _Hold:
        heartbeats = self._background.every(
            self._address.heartbeat_s,
            lambda: self._beat_on(lock_id),
            name=f"heartbeat of {self.description}",
        )
        return _Hold(lock_id=lock_id, heartbeats=heartbeats)

    def _stand_in_line(self, waiting: polling.Waiting) -> int | None:
        """Return the number of our request once it has the lock; None when waiting is over."""
        component = types.LockComponent(
            type=types.LockType.EXCLUSIVE,
            level=types.LockLevel.TABLE,
            dbname=self._address.database,
            tablename=self._address.table,
        )
        request = types.LockRequest(
            component=[component],
            user="hoodie",
            hostname=self._owner.process.host,
            agentInfo=self._agent,
        )
        answer = self._enqueue(request)
        while answer.state != types.LockState.ACQUIRED:
            if not waiting.pause():
                return None
            lock_id = answer.lockid
            try:
                answer = self._check(lock_id)
            except types.NoSuchLockException:
                # The metastore had no heartbeat of it for too long.
                answer = self._enqueue(request)
        return int(answer.lockid)

    def _enqueue(self, request: Any) -> Any:  # noqa: ANN401 - thriftpy2 has no types
        def lock(client: Any) -> Any:  # noqa: ANN401 - thriftpy2 has no types
            self._is_in_line = True
            return client.lock(request)

        return self._ask(lock)

    def _check(self, lock_id: int) -> Any:  # noqa: ANN401 - thriftpy2 has no types
        request = types.CheckLockRequest(lockid=lock_id)
        return self._ask(lambda client: client.check_lock(request))

    def _line(self) -> list[Any]:
        """Return the requests for the lock, the holder's first."""
        request = types.ShowLocksRequest(
            dbname=self._address.database, tablename=self._address.table
        )
        found = self._ask(lambda client: client.show_locks(request)).locks
        return sorted(found, key=lambda each: (each.state, each.lockid))

    def holding(self) -> Holding | None:
        """Return whose request has the lock."""
        line = self._line()
        if not line or line[0].state != types.LockState.ACQUIRED:
            return None
        found = line[0]
        return Holding(
            holder=replace(inspection.holder_of(_name(found)), id=str(found.lockid)),
            since_ms=found.acquiredat,
            silence_ms=max(0, self._clock.now_ms() - found.lastheartbeat),
            patience_s=session_s(self._address),
            liveness=Liveness.MAYBE,
            evidence="the metastore has its request, and ends requests without heartbeats",
            release="the holder releases it, or sends no heartbeat for hive.txn.timeout of the "
            "metastore",
            version=f"{found.lockid} {found.lastheartbeat}",
        )

    def take_away(self, found: Holding) -> bool:
        """Undo exactly the request that was seen."""
        now = self.holding()
        if now is None or now.version != found.version:
            return False
        self._undo(int(found.holder.id))
        return True

    def _holder(self) -> str:
        others = [each for each in self._line() if each.agentInfo != self._agent]
        if not others:
            return "it was released just now"
        return f"held by {_name(others[0])}"

    def _withdraw(self) -> None:
        """Undo our requests, whose numbers we may not know; nothing when none was sent."""
        if not self._is_in_line:
            return
        self._is_in_line = False
        try:
            for each in self._line():
                if each.agentInfo == self._agent:
                    self._undo(each.lockid)
        except errors.HoodieError as error:
            logger.warning(
                "%s may still be queued for the %s: %s", self._owner, self.description, error
            )

    def _undo(self, lock_id: int) -> None:
        """Undo a request; nothing when it is not there any more."""
        request = types.UnlockRequest(lockid=lock_id)
        with suppress(types.NoSuchLockException):
            self._ask(lambda client: client.unlock(request))

    def _beat(self, lock_id: int) -> bool:
        """Say that we live, and return whether the request is still there."""
        request = types.HeartbeatRequest(lockid=lock_id)
        try:
            self._ask(lambda client: client.heartbeat(request))
        except types.NoSuchLockException:
            return False
        return True

    def _beat_on(self, lock_id: int) -> bool:
        try:
            is_there = self._beat(lock_id)
        except errors.HoodieError as error:
            logger.warning("a heartbeat failed and will be retried: %s", error)
            return True
        if not is_there:
            logger.error(
                "%s lost the %s: it sent no heartbeat for too long", self._owner, self.description
            )
        return is_there

    def release(self) -> None:
        """Give the lock back, if it is still ours."""
        hold, self._hold = self._hold, None
        if hold is None:
            raise errors.InvalidInputError(f"{self._owner} does not hold the {self.description}")
        hold.heartbeats.stop()
        try:
            is_there = self._give_back(hold.lock_id)
        except errors.StorageError:
            is_there = self._give_back(hold.lock_id)  # By another connection.
        if not is_there:
            logger.warning("%s had lost the %s before releasing it", self._owner, self.description)

    def _give_back(self, lock_id: int) -> bool:
        # Hive does not say whether there was a lock to undo.
        is_there = self._beat(lock_id)
        self._undo(lock_id)
        return is_there

    def is_held(self) -> bool:
        """Return whether the metastore says so; False while it does not answer."""
        hold = self._hold
        if hold is None:
            return False
        try:
            answer = self._check(hold.lock_id)
        except (types.NoSuchLockException, errors.HoodieError):
            return False
        return bool(answer.state == types.LockState.ACQUIRED)

    @property
    def fencing_token(self) -> int:
        """The number of our request."""
        if self._hold is None:
            raise errors.LockLostError(f"{self._owner} does not hold the {self.description}")
        return self._hold.lock_id

    def close(self) -> None:
        """Give the lock back if it is taken, and close the connection."""
        try:
            if self._hold is not None:
                self.release()
        finally:
            with self._speaking:
                self._disconnect()

    def _ask(self, request: Request) -> Any:  # noqa: ANN401 - thriftpy2 has no types
        """Make one call; a connection whose call failed is not used again.

        Raises:
            StorageError: There was no answer, or the metastore failed.
        """
        with self._speaking:
            try:
                if self._client is None:
                    self._client = self._connect()
                return request(self._client)
            except _LOST_ANSWERS as error:
                self._disconnect()
                raise errors.StorageError(
                    f"the {self.description} does not answer {self._owner}: "
                    f"{type(error).__name__}: {error}"
                ) from error

    def _connect(self) -> Any:  # noqa: ANN401 - thriftpy2 has no types
        failure: Exception = OSError("no server")
        for server in self._address.servers:
            host, _, port = server.rpartition(":")
            try:
                return thriftpy2.rpc.make_client(
                    types.ThriftHiveMetastore,
                    host.strip("[]"),
                    int(port),
                    timeout=round(self._address.timeout_s * 1000),
                )
            except _LOST_ANSWERS as error:
                failure = error
        raise failure

    def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()


def _name(request: Any) -> str:  # noqa: ANN401 - thriftpy2 has no types
    if request.agentInfo in _UNKNOWN_AGENT:
        return f"{request.user} on {request.hostname}"
    return str(request.agentInfo)


def open_hive_lock(
    address: HiveAddress,
    owner: LockOwner,
    *,
    waiting_clock: clock.Clock,
    random: identity.Random,
    background: Background,
) -> LockProvider:
    """Return one access to a metastore's lock; nothing is asked yet."""
    return HiveLock(
        address, owner, waiting_clock=waiting_clock, random=random, background=background
    )
