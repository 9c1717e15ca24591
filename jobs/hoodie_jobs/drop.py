"""Delete a table and everything below its root: `python -m hoodie_jobs.drop SPEC.json`.

Under the table lock a mark is put and the properties go: from then on nobody finds a table there.
The data follows, `.hoodie` last, so that a deletion that was killed is known as such and goes
on. A folder that holds anything but is no table is refused.
"""

import logging
import sys
from collections.abc import Sequence

from hoodie import environment, errors
from hoodie.model import jobs
from hoodie.storage import protocol
from hoodie.timeline import table_properties
from hoodie.write import sessions
from hoodie_jobs import opening, program
from hoodie_jobs.run import Run

logger = logging.getLogger(__name__)

MARK = ".hoodie/.hudi_operator/dropped"
_TABLE_PREFIX = ".hoodie/"
_FILES_AT_ONCE = 500


def perform(run: Run) -> None:
    """Delete the table; nothing to do where nothing is.

    Raises:
        ConflictError: Somebody alive is changing the table.
        InvalidInputError: What is there is no table.
    """
    outside = opening.environment_of(run.spec)
    storage = outside.open_storage(run.spec.table_uri)
    run.tell("looking for the table")
    try:
        _unpublish(run, storage, outside)
    except errors.NotFoundError:
        _check_remnant(storage)
    paths = [info.path for info in storage.list("", is_recursive=True)]
    # The mark survives until nothing else does.
    _delete(run, storage, sorted((path for path in paths if path != MARK), key=_is_of_table))
    storage.delete_directory("")
    logger.info("%s: deleted %d files", storage.uri, len(paths))


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


def _unpublish(run: Run, storage: protocol.Storage, outside: environment.Environment) -> None:
    """Make the table one that nobody can open any more."""
    opened = opening.open_table(run.spec)
    transaction = opening.transaction_of(run.spec)
    provider = sessions.open_lock(storage, transaction, outside)
    try:
        target = sessions.Target(storage=storage, config=opened.config, schema=opened.schema)
        client = sessions.open_client(target, provider, transaction, outside)
        with client.lock.scope() as scope:
            for pending in scope.timeline.pending:
                sighting = client.heartbeats.look(pending.requested_time)
                if sighting.liveness.is_alive:
                    raise errors.ConflictError(
                        f"{storage.uri} is not deleted: {pending} is pending, and its writer gave "
                        f"a sign of life {sighting.silence_ms} ms ago"
                    )
            client.check_guards()
            scope.check()
            _put_mark(storage)
            storage.delete_all([table_properties.BACKUP_PATH, table_properties.PATH])
        times = client.lock.times
        run.add(lock_wait_ms=times.wait_ms, lock_hold_ms=times.hold_ms)
    finally:
        provider.close()


def _put_mark(storage: protocol.Storage) -> None:
    try:
        storage.create(MARK, b"")
    except errors.AlreadyExistsError:
        logger.debug("%s: was being deleted before", storage.uri)


def _check_remnant(storage: protocol.Storage) -> None:
    """Refuse a folder that is not what an interrupted deletion leaves."""
    paths = {info.path for info in storage.list("", is_recursive=True)}
    foreign = sorted(path for path in paths if not path.startswith(_TABLE_PREFIX))
    if foreign and MARK not in paths:
        raise errors.InvalidInputError(
            f"{storage.uri} is not deleted: it is no table, and holds {foreign[0]}"
        )


if __name__ == "__main__":
    sys.exit(program.main(sys.argv[1:], {jobs.DropTable: perform}))
