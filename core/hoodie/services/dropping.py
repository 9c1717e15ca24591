"""A table that is deleted, with everything below its root.

    begin   under the lock: a mark is put, and the properties go; no table is found there any more
    delete  the data, `.hoodie` last, and last of all the mark

A deletion that was killed is known by its mark and goes on. A folder that holds anything but is no
table is refused, and so is a table with another one in it, whose files would go as well.

A HudiTable that created or adopted a table has an attempt record there (`transaction.fencing`),
which no other program has. So such a table was managed by the operator, and may be yet. Records of
other actions say nothing of that.
"""

import logging
from collections.abc import Callable, Iterable
from contextlib import closing

from hoodie import environment, errors
from hoodie.storage import protocol
from hoodie.timeline import table_properties
from hoodie.transaction import authors, client, layout, manager, table_lock

logger = logging.getLogger(__name__)

MARK = ".hoodie/.hudi_operator/dropped"
_TABLE_PREFIX = ".hoodie/"
_FILES_AT_ONCE = 500
_OWN_RUNS = "HudiTable/"
"""What ids of a HudiTable's own runs begin with (`contract.job_specs`)."""


def check_alone(storage: protocol.Storage) -> list[protocol.FileInfo]:
    """Refuse a place in which there is another table, whose files would go as well.

    Returns:
        All files that would go.

    Raises:
        InvalidInputError: There is one.
    """
    infos = storage.list("", is_recursive=True)
    for info in infos:
        is_below = not info.path.startswith(_TABLE_PREFIX)
        if is_below and info.path.endswith(f"/{table_properties.PATH}"):
            other = info.path.removesuffix(f"/{table_properties.PATH}")
            raise errors.InvalidInputError(
                f"{storage.uri} is not deleted: another table is in it, at {other}"
            )
    return infos


def hudi_tables(infos: Iterable[protocol.FileInfo]) -> list[str]:
    """Return the names of HudiTables of the operator that have created or adopted a table.

    Args:
        infos: The table's files.
    """
    prefix = f"{layout.ATTEMPTS}/"
    names = (each.path.removeprefix(prefix) for each in infos if each.path.startswith(prefix))
    actions = (authors.action_of(name) or "" for name in names)
    return sorted(
        action.removeprefix(_OWN_RUNS) for action in actions if action.startswith(_OWN_RUNS)
    )


def check_remnant(storage: protocol.Storage) -> None:
    """Refuse a folder that is not what an interrupted deletion leaves.

    Raises:
        InvalidInputError: It holds anything else.
    """
    paths = {info.path for info in storage.list("", is_recursive=True)}
    foreign = sorted(path for path in paths if not path.startswith(_TABLE_PREFIX))
    if foreign and MARK not in paths:
        raise errors.InvalidInputError(
            f"{storage.uri} is not deleted: it is not a table, and holds {foreign[0]}"
        )


def is_begun(storage: protocol.Storage) -> bool:
    """Return whether a deletion of a table was interrupted here."""
    try:
        storage.stat(MARK)
    except errors.NotFoundError:
        return False
    return True


def begin(
    target: manager.Target,
    transaction: manager.TransactionOptions,
    env: environment.Environment,
    admit: Callable[[client.Client], object] = lambda _: None,
) -> table_lock.LockTimes:
    """Make a table one that cannot be opened any more; return what the lock took.

    Args:
        target: The table.
        transaction: On whose behalf, and its lock.
        env: Time and ids.
        admit: Asked under the lock; raises where the table has to stay.

    Raises:
        ConflictError: Somebody alive is changing the table.
    """
    storage = target.storage
    with closing(manager.open_client(target, transaction, env)) as opened:
        with opened.lock.scope() as scope:
            for pending in scope.timeline.pending:
                status = opened.heartbeats.look(pending.requested_time)
                if status.liveness.is_alive:
                    raise errors.ConflictError(
                        f"{storage.uri} is not deleted: {pending} is pending, and its writer's "
                        f"last heartbeat was {status.silence_ms} ms ago"
                    )
            admit(opened)
            opened.check_guards()
            scope.check()
            _put_mark(storage)
            storage.delete_all([table_properties.BACKUP_PATH, table_properties.PATH])
        return opened.lock.times


def delete(storage: protocol.Storage, report: Callable[[int, int], object]) -> int:
    """Delete all files of a table that was begun with, and return their number.

    Args:
        storage: The table's.
        report: Told how many of how many files are deleted; what it raises ends the deletion, and
            another one goes on.
    """
    paths = [info.path for info in storage.list("", is_recursive=True)]
    # The mark survives until nothing else does.
    ordered = sorted((path for path in paths if path != MARK), key=_is_of_table)
    for start in range(0, len(ordered), _FILES_AT_ONCE):
        report(start, len(ordered))
        storage.delete_all(ordered[start : start + _FILES_AT_ONCE])
    storage.delete_directory("")
    logger.info("%s: deleted %d files", storage.uri, len(paths))
    return len(paths)


def _is_of_table(path: str) -> bool:
    """Return whether a file is no data, which goes first."""
    return path.startswith(_TABLE_PREFIX)


def _put_mark(storage: protocol.Storage) -> None:
    try:
        storage.create(MARK, b"")
    except errors.AlreadyExistsError:
        logger.debug("%s: continuing an interrupted deletion", storage.uri)
