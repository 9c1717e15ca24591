"""Delete a table and everything below its root: `python -m hoodie_jobs.drop SPEC.json`.

The decision to delete is checked once more here. The spec has to say which HudiTable is being
deleted, that its policy is to delete the data, and that nothing protects it; the table that is
there has to be the one that the spec describes, and no other table may be below its root.

Under the table lock a mark is put and the properties go: from then on no table is found there.
The data follows, `.hoodie` last, so that a deletion that was killed is known as such and goes
on. A folder that holds anything but is no table is refused.
"""

import logging
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, Final

from hoodie import environment, errors, table
from hoodie.contract import job_specs
from hoodie.model import table_config
from hoodie.storage import protocol
from hoodie.timeline import table_properties
from hoodie.transaction import admission, manager
from hoodie_jobs import opening, program
from hoodie_jobs.run import Run

logger = logging.getLogger(__name__)

MARK = ".hoodie/.hudi_operator/dropped"
_TABLE_PREFIX = ".hoodie/"
_FILES_AT_ONCE = 500
_IDENTITY: Final[dict[str, Callable[[table_config.TableConfig], Any]]] = {
    "name": lambda config: config.name,
    "type": lambda config: config.table_type.value,
    "record key": lambda config: config.record_key_fields,
    "partition fields": lambda config: config.partition_fields,
}
"""What no write and no other engine ever changes of a table."""


def perform(run: Run) -> None:
    """Delete the table; nothing to do where nothing is.

    Raises:
        ConfigurationError: The table that is there is another one than is to be deleted.
        ConflictError: Somebody alive is changing the table.
        InvalidInputError: The spec does not ask for a deletion, or what is there is no table, or
            holds another one.
    """
    _check_wanted(run.spec)
    env = opening.environment_of(run.spec)
    storage = env.open_storage(run.spec.table_uri)
    run.tell("opening the table")
    _check_alone(storage)
    try:
        opened = opening.open_table(run.spec)
    except errors.NotFoundError:
        _check_remnant(storage)
    else:
        _check_identity(run.spec, opened)
        _unpublish(run, storage, opened, env)
    paths = [info.path for info in storage.list("", is_recursive=True)]
    # The mark survives until nothing else does.
    _delete(run, storage, sorted((path for path in paths if path != MARK), key=_is_of_table))
    storage.delete_directory("")
    logger.info("%s: deleted %d files", storage.uri, len(paths))


def _check_wanted(spec: job_specs.JobSpec) -> None:
    """Refuse to delete what no HudiTable asks to delete."""
    work = spec.work
    assert isinstance(work, job_specs.DropTable)
    why = ""
    if not work.table_uid:
        why = "the spec names no HudiTable that is being deleted"
    elif work.deletion_policy != job_specs.DELETE:
        why = f"its HudiTable has deletionPolicy {work.deletion_policy or 'none'}"
    elif work.is_protected:
        why = "its HudiTable has deletionProtection"
    if why:
        raise errors.InvalidInputError(
            f"{spec.table_uri} is not deleted: {why}, expected deletionPolicy {job_specs.DELETE} "
            "without deletionProtection"
        )


def _check_alone(storage: protocol.Storage) -> None:
    """Refuse a place in which there is another table: its files would go as well."""
    for info in storage.list("", is_recursive=True):
        is_below = not info.path.startswith(_TABLE_PREFIX)
        if is_below and info.path.endswith(f"/{table_properties.PATH}"):
            other = info.path.removesuffix(f"/{table_properties.PATH}")
            raise errors.InvalidInputError(
                f"{storage.uri} is not deleted: another table is in it, at {other}"
            )


def _check_identity(spec: job_specs.JobSpec, opened: table.Table) -> None:
    """Refuse a table that is not the one that the spec describes."""
    expected = table_config.from_properties(spec.table_properties)
    differences = [
        f"its {name} is {value(opened.config)!r}, expected {value(expected)!r}"
        for name, value in _IDENTITY.items()
        if value(opened.config) != value(expected)
    ]
    if differences:
        raise errors.ConfigurationError(
            f"{opened.uri} is not deleted: it differs from the declared table: "
            f"{'; '.join(differences)}"
        )


def _is_of_table(path: str) -> bool:
    """Return whether a file is no data, which goes first."""
    return path.startswith(_TABLE_PREFIX)


def _delete(run: Run, storage: protocol.Storage, paths: Sequence[str]) -> None:
    """Delete files in their order, and tell how far that is.

    Raises:
        CancelledError: Somebody asked to stop; the next attempt goes on.
    """
    for start in range(0, len(paths), _FILES_AT_ONCE):
        run.tell("deleting the data", start, len(paths))
        run.cancellation.check()
        storage.delete_all(paths[start : start + _FILES_AT_ONCE])


def _unpublish(
    run: Run, storage: protocol.Storage, opened: table.Table, env: environment.Environment
) -> None:
    """Make the table one that cannot be opened any more."""
    transaction = opening.transaction_of(run.spec)
    target = manager.Target(storage=storage, config=opened.config, schema=opened.schema)
    with closing(manager.open_client(target, transaction, env)) as client:
        with client.lock.scope() as scope:
            for pending in scope.timeline.pending:
                status = client.heartbeats.look(pending.requested_time)
                if status.liveness.is_alive:
                    raise errors.ConflictError(
                        f"{storage.uri} is not deleted: {pending} is pending, and its writer's "
                        f"last heartbeat was {status.silence_ms} ms ago"
                    )
            admission.admit_attempt(client)
            client.check_guards()
            scope.check()
            _put_mark(storage)
            storage.delete_all([table_properties.BACKUP_PATH, table_properties.PATH])
        times = client.lock.times
        run.add(lock_wait_ms=times.wait_ms, lock_hold_ms=times.hold_ms)


def _put_mark(storage: protocol.Storage) -> None:
    try:
        storage.create(MARK, b"")
    except errors.AlreadyExistsError:
        logger.debug("%s: continuing an interrupted deletion", storage.uri)


def _check_remnant(storage: protocol.Storage) -> None:
    """Refuse a folder that is not what an interrupted deletion leaves."""
    paths = {info.path for info in storage.list("", is_recursive=True)}
    foreign = sorted(path for path in paths if not path.startswith(_TABLE_PREFIX))
    if foreign and MARK not in paths:
        raise errors.InvalidInputError(
            f"{storage.uri} is not deleted: it is not a table, and holds {foreign[0]}"
        )


if __name__ == "__main__":
    sys.exit(program.main(sys.argv[1:], {job_specs.DropTable: perform}))
