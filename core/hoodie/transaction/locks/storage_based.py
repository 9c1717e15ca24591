"""The lease of a storage-based lock: a file of the table, changed by conditional writes (RFC-91).

It needs no server but the table's own storage, object stores included, and excludes the writers of
Apache Hudi that have its `StorageBasedLockProvider`.

- Every lease has other bytes than all before it, so its bytes tell whose write it was.
- The fencing token is the end of the lease when it was taken, made greater than the one before.
- A lease counts as over half a second after its end, by the clock of who wants it: the clocks of
  the writers may not differ by more than that.

Source: `org.apache.hudi.client.transaction.lock.StorageBasedLockProvider`.
"""

import dataclasses

from hoodie import clock, errors
from hoodie.storage.protocol import Storage
from hoodie.transaction.locks import leases, storage_audit, storage_lock_file
from hoodie.transaction.locks.addresses import StorageAddress
from hoodie.transaction.locks.leases import Seen
from hoodie.transaction.locks.protocol import LockOwner
from hoodie.transaction.locks.storage_lock_file import Lease

_CLOCK_DRIFT_MS = 500


class StorageLeases:
    """The lease of one table."""

    def __init__(
        self, address: StorageAddress, files: Storage, owner: LockOwner, lease_clock: clock.Clock
    ) -> None:
        """Take the times of the lease, the table, who we are, and the clock that leases are by."""
        self._address = address
        self._files = files
        self._owner = owner
        self._clock = lease_clock
        self._audit: storage_audit.Audit | None = None

    @property
    def description(self) -> str:
        """The lock in words."""
        return f"storage lock {self._files.uri}/{storage_lock_file.PATH}"

    @property
    def owner_text(self) -> str:
        """The `owner` in our leases."""
        return leases.owner_text(self._owner)

    @property
    def lease_s(self) -> float:
        """How long a lease is."""
        return self._address.validity_s

    @property
    def renew_interval_s(self) -> float:
        """How often it is renewed."""
        return self._address.renew_interval_s

    def look(self) -> Seen | None:
        """Read the file."""
        # The version first: if the content is a newer one, a write by this version is refused.
        try:
            version = self._files.stat(storage_lock_file.PATH).version
            content = self._files.read(storage_lock_file.PATH)
        except errors.NotFoundError:
            return None
        name = f"{self._files.uri}/{storage_lock_file.PATH}"
        return self._seen(version, storage_lock_file.decode(content, name))

    def _seen(self, version: str, lease: Lease) -> Seen:
        left_s = (lease.valid_until_ms - self._clock.now_ms()) / 1000
        return Seen(
            version=version,
            owner=lease.owner,
            is_given_back=lease.is_expired,
            token=lease.valid_until_ms,
            until=f"whose lease has {left_s:.1f} s left",
        )

    def is_over(self, seen: Seen) -> bool:
        """Compare the end of the lease with our clock."""
        return self._clock.now_ms() > seen.token + _CLOCK_DRIFT_MS

    def take(self, before: Seen | None) -> Seen | None:
        """Write a lease of ours."""
        return self._write(self._next_lease(before), before)

    def renew(self, held: Seen) -> Seen | None:
        """Write a later end."""
        return self._write(self._next_lease(held), held)

    def give_back(self, held: Seen) -> Seen | None:
        """Write that it is expired."""
        lease = Lease(is_expired=True, valid_until_ms=held.token, owner=held.owner)
        return self._write(lease, held)

    def last_sign_ms(self) -> int | None:
        """Return when the file was last written."""
        try:
            return self._files.stat(storage_lock_file.PATH).modified_ms
        except errors.NotFoundError:
            return None

    def _next_lease(self, before: Seen | None) -> Lease:
        until_ms = self._clock.now_ms() + self._validity_ms
        last_ms = 0 if before is None else before.token
        return Lease(
            is_expired=False, valid_until_ms=max(until_ms, last_ms + 1), owner=self.owner_text
        )

    @property
    def _validity_ms(self) -> int:
        return round(self._address.validity_s * 1000)

    def _write(self, lease: Lease, before: Seen | None) -> Seen | None:
        content = storage_lock_file.encode(lease)
        try:
            if before is None:
                info = self._files.create(storage_lock_file.PATH, content)
            else:
                info = self._files.replace(storage_lock_file.PATH, content, if_match=before.version)
        except (errors.AlreadyExistsError, errors.ConflictError):
            return self._echo(lease)
        except errors.StorageError:
            echo = self._echo(lease)
            if echo is None:
                raise
            return echo
        return self._seen(info.version, lease)

    def _echo(self, lease: Lease) -> Seen | None:
        now = self.look()
        wanted = self._seen("", lease)
        if now is None or dataclasses.replace(now, version="", until=wanted.until) != wanted:
            return None
        return now

    def note(self, event: leases.Event) -> None:
        """Add a line to the audit log, where the table has one; a request to know that."""
        now_ms = self._clock.now_ms()
        if event is leases.Event.START and storage_audit.is_enabled(self._files):
            self._audit = storage_audit.Audit(
                self._files,
                owner_id=self._owner.id,
                owner=self.owner_text,
                start_ms=now_ms,
                validity_ms=self._validity_ms,
            )
        if self._audit is not None:
            self._audit.record(event.value, now_ms)
        if event is leases.Event.END:
            self._audit = None

    def close(self) -> None:
        """Do nothing: a storage has no connection of ours."""
