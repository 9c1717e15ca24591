"""What every job opens by its spec: the machine's environment, the table, input within bounds."""

import dataclasses
from collections.abc import Iterable

from hoodie import environment, errors, table
from hoodie.contract import job_specs
from hoodie.engine import protocol
from hoodie.model import settings
from hoodie.storage import locations
from hoodie.transaction import authors, fencing, manager
from hoodie.transaction.locks import address_texts, addresses
from hoodie_jobs import fence


def environment_of(spec: job_specs.JobSpec) -> environment.Environment:
    """Return the machine's environment, bounded as the spec says."""
    return environment.system(parallelism=spec.engine.parallelism, allowed_roots=spec.allowed_roots)


def open_table(spec: job_specs.JobSpec, engine: protocol.Engine | None = None) -> table.Table:
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
    env = environment_of(spec)
    if engine is not None:
        env = dataclasses.replace(env, engine=engine)
    opened = table.open_table(spec.table_uri, env)
    # Not before it is known to be a table: nothing is left behind where there is none.
    fencing.claim(env.open_storage(spec.table_uri), _author_of(spec), env.process)
    return opened


def transaction_of(spec: job_specs.JobSpec) -> manager.TransactionOptions:
    """Return on whose behalf, and how, the run changes the table.

    Raises:
        ConfigurationError: There may be other writers, and the lock excludes no other process.
        InvalidInputError: The lock's address is none.
    """
    return manager.TransactionOptions(
        settings=spec.settings,
        lock=_lock_of(spec),
        author=_author_of(spec),
        guards=(fence.guard(spec),),
    )


def _author_of(spec: job_specs.JobSpec) -> authors.Author:
    return authors.Author(writer_id=spec.writer_id, action_id=spec.action_id, attempt=spec.attempt)


def _lock_of(spec: job_specs.JobSpec) -> addresses.LockAddress:
    lock = address_texts.parse(spec.lock)
    is_alone = spec.settings.concurrency is settings.ConcurrencyMode.SINGLE_WRITER
    if not is_alone and isinstance(lock, addresses.InProcessAddress):
        raise errors.ConfigurationError(
            f"the lock is {lock} with {spec.settings.concurrency.value}: other writers are other "
            "processes, expected a lock that they share"
        )
    return lock


def check_files(spec: job_specs.JobSpec, files: Iterable[str]) -> None:
    """Refuse input from outside the allowed roots, symbolic links resolved.

    Raises:
        InvalidInputError: A file is outside.
    """
    for path in files:
        locations.check_allowed(locations.resolve(path), spec.allowed_roots)
