"""What every job opens by its spec: the machine's environment, the table, input within bounds."""

import dataclasses
from collections.abc import Iterable

from hoodie import environment, errors, table
from hoodie.engine import protocol
from hoodie.model import jobs, settings
from hoodie.storage import locations
from hoodie.transaction import authors
from hoodie.transaction.locks import address_texts, addresses
from hoodie.write import sessions
from hoodie_jobs import fence


def environment_of(spec: jobs.JobSpec) -> environment.Environment:
    """Return the machine's environment, bounded as the spec says."""
    return environment.system(parallelism=spec.engine.parallelism, allowed_roots=spec.allowed_roots)


def open_table(spec: jobs.JobSpec, engine: protocol.Engine | None = None) -> table.Table:
    """Open the spec's table as its run's current attempt: every job that changes one begins so.

    Args:
        spec: The job's.
        engine: Does the table's parallel work; the environment's if none is given.

    Raises:
        ConfigurationError: As of `transaction_of`: what cannot be written is not read either.
        FencedError: There is a later attempt.
        NotFoundError: There is none.
        InvalidInputError: It is outside the allowed roots.
    """
    _lock_of(spec)
    outside = environment_of(spec)
    if engine is not None:
        outside = dataclasses.replace(outside, engine=engine)
    opened = table.open_table(spec.table_uri, outside)
    # Not before it is known to be a table: nothing is left behind where there is none.
    fence.claim(spec, outside.open_storage(spec.table_uri))
    return opened


def transaction_of(spec: jobs.JobSpec) -> sessions.TransactionOptions:
    """Return on whose behalf, and how, the run changes the table.

    Raises:
        ConfigurationError: There may be other writers, and the lock excludes no other process.
        InvalidInputError: The lock's address is none.
    """
    return sessions.TransactionOptions(
        settings=spec.settings,
        lock=_lock_of(spec),
        author=authors.Author(
            writer_id=spec.writer_id, action_id=spec.action_id, attempt=spec.attempt
        ),
        guards=(fence.guard(spec, environment_of(spec).open_storage),),
    )


def _lock_of(spec: jobs.JobSpec) -> addresses.LockAddress:
    lock = address_texts.parse(spec.lock)
    is_alone = spec.settings.concurrency is settings.ConcurrencyMode.SINGLE_WRITER
    if not is_alone and isinstance(lock, addresses.InProcessAddress):
        raise errors.ConfigurationError(
            f"the lock is {lock} with {spec.settings.concurrency.value}: other writers are other "
            "processes, expected a lock that they share"
        )
    return lock


def check_files(spec: jobs.JobSpec, files: Iterable[str]) -> None:
    """Refuse input from outside the allowed roots, symbolic links resolved.

    Raises:
        InvalidInputError: A file is outside.
    """
    for path in files:
        locations.check_allowed(locations.resolve(path), spec.allowed_roots)
