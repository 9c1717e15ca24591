"""The audit log of a storage-based lock: who held it from when to when, one file a holding.

It is written where `.hoodie/.locks/audit_enabled.json` says so, which Apache Hudi's procedure
`set_audit_lock` writes, in the form that its `validate_audit_lock` reads: a line of JSON each for
START, every RENEW and END, in `.hoodie/.locks/audit/<start in ms>_<owner id>.jsonl`. A file is
written anew with each line, as object stores have it. A failure to write it is logged and no more.

Source: `org.apache.hudi.client.transaction.lock.audit.StorageLockProviderAuditService`.
"""

import json
import logging

from hoodie import errors
from hoodie.storage.protocol import Storage
from hoodie.transaction.locks import storage_lock_file

logger = logging.getLogger(__name__)

CONFIGURATION_PATH = f"{storage_lock_file.DIRECTORY}/audit_enabled.json"
_ENABLED = "STORAGE_LOCK_AUDIT_SERVICE_ENABLED"


class Audit:
    """The file of one holding."""

    def __init__(
        self, files: Storage, *, owner_id: str, owner: str, start_ms: int, validity_ms: int
    ) -> None:
        """Take the table, and the holding.

        Args:
            files: The table.
            owner_id: For the file's name.
            owner: As in the lock file.
            start_ms: When the lock was taken.
            validity_ms: Of its lease.
        """
        self._files = files
        self._owner = owner
        self._start_ms = start_ms
        self._validity_ms = validity_ms
        self._path = f"{storage_lock_file.DIRECTORY}/audit/{start_ms}_{owner_id}.jsonl"
        self._content = b""
        self._version: str | None = None

    def record(self, event: str, at_ms: int) -> None:
        """Add a line for START, RENEW or END; one request, or two where the store has it so."""
        # In the order that a java.util.HashMap gives these keys.
        fields = {
            "transactionStartTime": self._start_ms,
            "lockHeld": True,
            "state": event,
            "lockExpiration": at_ms + self._validity_ms,
            "ownerId": self._owner,
            "timestamp": at_ms,
        }
        line = json.dumps(fields, separators=(",", ":"), ensure_ascii=False)
        self._content += f"{line}\n".encode()
        try:
            if self._version is None:
                info = self._files.create(self._path, self._content)
            else:
                info = self._files.replace(self._path, self._content, if_match=self._version)
            self._version = info.version
        except errors.HoodieError as error:
            logger.warning("%s has no %s: %s", self._path, event, error)


def is_enabled(files: Storage) -> bool:
    """Return whether the table's locks are to be audited; one request."""
    try:
        enabled = json.loads(files.read(CONFIGURATION_PATH))[_ENABLED]
    except errors.NotFoundError:
        return False
    except (errors.HoodieError, ValueError, KeyError, TypeError) as error:
        logger.warning("locks are not audited: %s: %s", CONFIGURATION_PATH, error)
        return False
    return enabled in (True, "true")
