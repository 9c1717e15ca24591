"""The history of a table's columns as Apache Hudi keeps it for schema evolution on read.

`ALTER TABLE` with `hoodie.schema.on.read.enable` gives every column an id, inner fields too, that
stays when the column is renamed; `.hoodie/.schema` holds all versions of the schema. We find the
columns of files by their names, which is right until a column is renamed, or its name goes to
another one. Source: `SerDeHelper.java`, `FileBasedInternalSchemaStorageManager.java` (1.2.0).
"""

import contextlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from hoodie import errors
from hoodie.model import instants
from hoodie.storage.protocol import FileInfo, Storage

LATEST_KEY = "latest_schema"
"""Extra metadata key of commits: the newest version; absent in tables without such a history."""

_DIRECTORY = ".hoodie/.schema"
_COMPLETED_SUFFIX = ".schemacommit"


def check_names(storage: Storage, latest: str) -> None:
    """Refuse a table whose columns' names are not what they were in some file.

    Apache Hudi completes the file of a change before the commit that makes it: a change that failed
    in between, or is under way, has its version in the newest file, and counts for nothing.

    Args:
        storage: The table's.
        latest: The version of the newest completed write, as its metadata has it.

    Raises:
        UnsupportedError: A column was renamed, or its name is another column's now.
        FormatError: The history is damaged.
    """
    files = _files(storage)
    if not files:
        return
    newest = max(files, key=lambda info: info.name)
    try:
        last = int(json.loads(latest)["version_id"])
        versions = json.loads(storage.read(newest.path))["schemas"]
        columns = [
            pair
            for version in versions
            if int(version["version_id"]) <= last
            for pair in _columns(version, "")
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise errors.FormatError(f"{newest.path} is not a schema history: {error!r}") from error
    names: dict[int, str] = {}
    ids: dict[str, int] = {}
    for number, name in columns:
        if names.setdefault(number, name) != name:
            raise errors.UnsupportedError(
                f"column {name!r} was renamed to {names[number]!r}: tables with renamed columns "
                "are not supported"
            )
        if ids.setdefault(name, number) != number:
            raise errors.UnsupportedError(
                f"column {name!r} was dropped and added again: tables with such columns are not "
                "read"
            )


def carry(
    storage: Storage,
    archived: Collection[instants.InstantTime],
    kept: Mapping[instants.InstantTime, str],
    check: Callable[[], None],
) -> None:
    """Keep a history for Apache Hudi, which takes that of the newest commit on the timeline.

    Call it before commits leave the timeline. Where the newest history is one of theirs, the first
    later commit gets it as well. A listing, and a read and a write where that is so.

    Args:
        storage: The table's.
        archived: Requested times of completed commits that are about to go.
        kept: Completion times of those that stay, by requested time.
        check: Called before the write.
    """
    by_time = {instants.InstantTime(info.name.partition("_")[0]): info for info in _files(storage)}
    # What a rollback has taken off may have left a file.
    newest = max(by_time.keys() & {*archived, *kept}, default=None)
    if newest is None or newest in kept:
        return
    heir = min((each for each in kept if each > newest), default=None)
    if heir is None:
        return
    content = storage.read(by_time[newest].path)
    check()
    with contextlib.suppress(errors.AlreadyExistsError):
        storage.create(f"{_DIRECTORY}/{heir}_{kept[heir]}{_COMPLETED_SUFFIX}", content)


def _files(storage: Storage) -> list[FileInfo]:
    return [info for info in storage.list(_DIRECTORY) if info.name.endswith(_COMPLETED_SUFFIX)]


def _columns(kind: Mapping[str, Any], prefix: str) -> Iterator[tuple[int, str]]:
    """Yield the id and the full name of each column in a version, inner fields included."""
    for field in kind.get("fields", ()):
        name = f"{prefix}{field['name']}"
        yield int(field["id"]), name
        yield from _inner(field["type"], name)
    for part in ("element", "value"):
        yield from _inner(kind.get(part, ""), f"{prefix}{part}")


def _inner(kind: Mapping[str, Any] | str, name: str) -> Iterator[tuple[int, str]]:
    if not isinstance(kind, str):
        yield from _columns(kind, f"{name}.")
