"""Rollback as a table service: one instant, or everything that failed, and what it left behind.

The protocol is `hoodie.transaction.rollbacks`, the plan `hoodie.maintenance.rollback`. Source:
concurrency 2.9.
"""

from dataclasses import replace

from hoodie import environment
from hoodie.model import instants, results
from hoodie.timeline import active
from hoodie.transaction import leftovers
from hoodie.write import failed_writes, sessions


def roll_back(
    target: sessions.Target,
    requested_time: instants.InstantTime,
    transaction: sessions.TransactionOptions,
    outside: environment.Environment,
) -> results.RollbackResult:
    """Take one pending write or compaction back, or go on with one pending rollback.

    Raises:
        NotFoundError: There is no such instant.
        ConflictError: It has completed, or somebody alive works on it or takes it back.
        UnsupportedError: It is nothing that can be taken back.
        HoodieError: It stays pending, and may be taken back by another try.
    """
    provider = sessions.open_lock(target.storage, transaction, outside)
    try:
        client = sessions.open_client(target, provider, transaction, outside)
        return failed_writes.roll_back(client, target.config, requested_time)
    finally:
        provider.close()


def roll_back_failed(
    target: sessions.Target,
    transaction: sessions.TransactionOptions,
    outside: environment.Environment,
) -> results.RollbackResults:
    """Take back everything whose owner is dead, and remove what ended instants left behind.

    What a lazy clean does first. Compactions stay: they are executed anew.

    Raises:
        HoodieError: Storage or lock failed, or a plan cannot be read; the rest was not tried.
    """
    provider = sessions.open_lock(target.storage, transaction, outside)
    try:
        client = sessions.open_client(target, provider, transaction, outside)
        timeline = active.listed(target.storage)
        found = failed_writes.roll_back_all(client, target.config, timeline)
        return replace(found, leftovers=leftovers.sweep(client))
    finally:
        provider.close()
