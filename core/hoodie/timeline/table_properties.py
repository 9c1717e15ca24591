"""`.hoodie/hoodie.properties`: how it is made, read and changed so that a crash loses nothing.

    make    the layout's directories first, the properties last: a table is there when they are
    change  under the table lock: a backup of the old content, the new content in one step, a look
            at what was stored, the backup away

Others delete the old file before they write the new one, so a reader that finds none, or half of
one, takes the backup and tries again. Whoever changes the properties first mends what a crash left.
Source: `HoodieTableConfig.modify`, `ConfigUtils.recoverIfNeeded`, `fetchConfigs`;
format.md: Table properties; protocol.md: Table configuration (TC1).
"""

import functools
import logging
from collections.abc import Callable, Mapping

from hoodie import clock, errors
from hoodie.format import properties
from hoodie.model import instants, table_config
from hoodie.storage.protocol import Storage

logger = logging.getLogger(__name__)

PATH = ".hoodie/hoodie.properties"
BACKUP_PATH = f"{PATH}.backup"

_DIRECTORIES = (
    ".hoodie/timeline",
    ".hoodie/timeline/history",
    ".hoodie/.aux/.bootstrap/.partitions",
    ".hoodie/.aux/.bootstrap/.fileids",
    ".hoodie/.schema",
    ".hoodie/.temp",
)
_ROUNDS_MAX = 5
_ROUND_GAP_S = 1.0


def create(
    storage: Storage, config: table_config.TableConfig, table_clock: clock.Clock
) -> table_config.TableConfig:
    """Create a table; return its configuration as stored.

    Of several racing calls one creates it, with one configuration.

    Raises:
        AlreadyExistsError: There is a table.
    """
    if is_table(storage):
        raise errors.AlreadyExistsError(f"there already is a table in {storage.uri}")
    stored = table_config.to_properties(config)
    create_with(storage, stored, table_clock)
    return table_config.from_properties(stored)


def create_with(storage: Storage, stored: Mapping[str, str], table_clock: clock.Clock) -> None:
    """Create what a table consists of before its first write.

    Args:
        storage: The table's.
        stored: All its properties.
        table_clock: For the comment in the file.

    Raises:
        AlreadyExistsError: There are properties already.
    """
    for directory in _DIRECTORIES:
        _make_directory(storage, directory)
    content = properties.encode(stored, [_comment("Properties saved on", table_clock)])
    try:
        storage.create(PATH, content)
    except (errors.AlreadyExistsError, errors.StorageError) as error:
        if _read(storage, PATH) != content:
            raise
        logger.warning("%s: properties were created though the answer was lost", storage.uri)
        del error


def is_table(storage: Storage) -> bool:
    """Return whether a place holds a table; two requests at most."""
    return _exists(storage, PATH) or _exists(storage, BACKUP_PATH)


def load(storage: Storage, table_clock: clock.Clock) -> table_config.TableConfig:
    """Read the configuration, or its backup while somebody changes it; one request normally.

    Raises:
        NotFoundError: There is no table.
        FormatError: What is there is no valid configuration, for some seconds by now.
        UnsupportedError: The table uses something that we do not read.
    """
    broken: errors.FormatError | None = None
    for round_number in range(_ROUNDS_MAX):
        for path in (PATH, BACKUP_PATH):
            content = _read(storage, path)
            if content is None:
                continue
            try:
                return _config_of(content)
            except errors.FormatError as error:
                broken = error
        if broken is None and round_number:
            # Both were absent twice; a change under way would have been met one way or the other.
            raise errors.NotFoundError(f"there is no table in {storage.uri}: it has no {PATH}")
        if broken is not None and round_number < _ROUNDS_MAX - 1:
            table_clock.sleep_s(_ROUND_GAP_S)
    assert broken is not None
    raise broken


def has_metadata_table(storage: Storage) -> bool:
    """Return whether the table has a metadata table, or is being given one; a request normally.

    For the holder of the lock: nobody changes the properties meanwhile.
    """
    content = _read(storage, PATH)
    if not _is_valid(content):
        content = _read(storage, BACKUP_PATH)
    found = properties.decode(content or b"")
    keys = (table_config.METADATA_PARTITIONS_KEY, table_config.METADATA_PARTITIONS_INFLIGHT_KEY)
    return any(found.get(key) for key in keys)


def names_ready(storage: Storage, partition: str) -> bool:
    """Return whether a partition of the metadata table is ready; a request.

    For those who asked it just now. Where the properties are being changed it is said not to be.

    Raises:
        UnsupportedError: The table uses something that we do not read.
    """
    content = _read(storage, PATH)
    if content is None or not _is_valid(content):
        return False
    return partition in _config_of(content).metadata_partitions


@functools.lru_cache(maxsize=64)
def _config_of(content: bytes) -> table_config.TableConfig:
    """Return the configuration in a file; every lock scope reads it, and it hardly ever changes."""
    return table_config.from_properties(properties.decode(content))


def update(
    storage: Storage,
    changes: Mapping[str, str | None],
    table_clock: clock.Clock,
    check: Callable[[], None],
) -> table_config.TableConfig:
    """Change properties, keeping the others as they are stored; return the configuration.

    A crash anywhere leaves the old or the new properties, for every reader.

    Args:
        storage: The table's.
        changes: New values by key; None removes the key.
        table_clock: For the comment in the file.
        check: Called before the properties change; raises when the table lock, which the caller
            holds, is lost.

    Raises:
        ConflictError: Somebody changes them at the same time, without our lock.
        FormatError: Neither they nor their backup are valid.
    """
    return _update(storage, changes, _comment("Updated at", table_clock), check)


def put(
    storage: Storage,
    changes: Mapping[str, str | None],
    epoch: int,
    check: Callable[[], None],
) -> None:
    """Change properties as an epoch of the table's chain says: once, and not after a later one's.

    Several may do so at the same time, with the same bytes (CH14).

    Args:
        storage: The table's.
        changes: As of `update`.
        epoch: Its number.
        check: As of `update`.

    Raises:
        HoodieError: As `update`.
    """
    comment = f"Updated by epoch {epoch}"
    for _ in range(_ROUNDS_MAX):
        try:
            _update(storage, changes, comment, check, epoch)
        except (errors.AlreadyExistsError, errors.ConflictError, errors.NotFoundError) as error:
            logger.info("%s: epoch %d is looked at again: %s", storage.uri, epoch, error)
        else:
            return
    _update(storage, changes, comment, check, epoch)


def _update(
    storage: Storage,
    changes: Mapping[str, str | None],
    comment: str,
    check: Callable[[], None],
    epoch: int | None = None,
) -> table_config.TableConfig:
    recover(storage)
    info = storage.stat(PATH)
    old = storage.read(PATH)
    known = properties.decode(old)
    merged: dict[str, str | None] = {**known, **changes}
    if epoch is not None:
        if table_config.epoch_of(known) >= epoch:
            return table_config.from_properties(known)
        merged[table_config.EPOCH_KEY] = str(epoch)
    stored = {key: value for key, value in merged.items() if value is not None}
    config = table_config.from_properties(stored)
    check()
    _create_backup(storage, old)
    content = properties.encode(stored, [comment])
    try:
        storage.replace(PATH, content, if_match=info.version)
    except (errors.ConflictError, errors.StorageError):
        if _read(storage, PATH) != content:
            raise
    if _read(storage, PATH) != content:
        raise errors.ConflictError(f"{storage.uri}/{PATH} was changed by another at the same time")
    storage.delete(BACKUP_PATH)
    return config


def recover(storage: Storage) -> None:
    """Finish or take back a change of the properties that broke off; the caller holds the lock.

    Raises:
        FormatError: Neither they nor their backup are valid.
        NotFoundError: There is neither.
    """
    backup = _read(storage, BACKUP_PATH)
    if backup is None:
        return
    if not _is_valid(_read(storage, PATH)):
        if not _is_valid(backup):
            raise errors.FormatError(
                f"{storage.uri}: neither {PATH} nor its backup is a valid configuration"
            )
        logger.warning("%s: properties are restored from their backup", storage.uri)
        storage.delete(PATH)
        storage.create(PATH, backup)
    storage.delete(BACKUP_PATH)


def _create_backup(storage: Storage, content: bytes) -> None:
    """Create the backup; one that is there with this content is fine.

    Raises:
        ConflictError: Another changes the properties.
        StorageError: Not done.
    """
    try:
        storage.create(BACKUP_PATH, content)
    except (errors.AlreadyExistsError, errors.StorageError) as error:
        if _read(storage, BACKUP_PATH) == content:
            return
        if isinstance(error, errors.AlreadyExistsError):
            raise errors.ConflictError(
                f"{storage.uri}/{PATH} is being changed by another at the same time; retry"
            ) from error
        raise


def _is_valid(content: bytes | None) -> bool:
    """Return whether it is a configuration, even one that we do not support."""
    if content is None:
        return False
    try:
        table_config.from_properties(properties.decode(content))
    except errors.FormatError:
        return False
    except errors.UnsupportedError:
        pass
    return True


def _comment(event: str, table_clock: clock.Clock) -> str:
    return f"{event} {instants.format_time(table_clock.now_ms())}Z"


def _read(storage: Storage, path: str) -> bytes | None:
    try:
        return storage.read(path)
    except errors.NotFoundError:
        return None


def _exists(storage: Storage, path: str) -> bool:
    try:
        storage.stat(path)
    except errors.NotFoundError:
        return False
    return True


def _make_directory(storage: Storage, directory: str) -> None:
    """Make a directory, where the storage knows any: it stays when its only file goes."""
    name = f"{directory}/.layout"
    storage.touch(name)
    storage.delete(name)
