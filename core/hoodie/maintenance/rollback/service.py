"""Rollback as a table service: one instant, or everything that failed, and what it left behind.

Source: protocol.md: Rollback.
"""

from contextlib import closing
from dataclasses import replace

from hoodie import environment
from hoodie.maintenance.rollback import failed_writes, orphan_files
from hoodie.model import instants, results
from hoodie.timeline import active
from hoodie.transaction import manager


def roll_back(
    target: manager.Target,
    requested_time: instants.InstantTime,
    transaction: manager.TransactionOptions,
    env: environment.Environment,
) -> results.RollbackResult:
    """Take one pending write or compaction back, or go on with one pending rollback.

    Raises:
        NotFoundError: There is no such instant.
        ConflictError: It has completed, or somebody alive works on it or takes it back.
        UnsupportedError: It is nothing that can be taken back.
        HoodieError: It stays pending, and may be taken back by another try.
    """
    with closing(manager.open_client(target, transaction, env)) as client:
        return failed_writes.roll_back(client, target.config, requested_time)


def roll_back_failed(
    target: manager.Target,
    transaction: manager.TransactionOptions,
    env: environment.Environment,
) -> results.RollbackResults:
    """Take back everything whose owner is dead, and remove what ended instants left behind.

    What a lazy clean does first. Compactions stay: they are executed again.

    Raises:
        HoodieError: Storage or lock failed, or a plan cannot be read; the rest was not tried.
    """
    with closing(manager.open_client(target, transaction, env)) as client:
        timeline = active.listed(target.storage)
        found = failed_writes.roll_back_all(client, target.config, timeline)
        return replace(found, leftovers=orphan_files.sweep(client))
