"""What of a table a mirror has, and how far it lags behind.

Terms:
    mirrored   completion time up to which a mirror has followed the table
    state      the base files of the newest file slices as of a completion time

A state is what a read-optimized read returns, so that a compaction brings rows into a mirror. No
state is kept but the mirror's own: each run compares the files of the table with those that the
mirror names, whatever has happened in between.

Nothing here needs PyIceberg: how far a mirror is can be read from its metadata, which are JSON.
Source: docs/mirror.md; docs/adr/0042-an-iceberg-mirror-beside-the-table.md.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from hoodie import errors
from hoodie.filegroup import snapshots
from hoodie.model import files, instants, schemas
from hoodie.read import planning, tasks
from hoodie.services import definition
from hoodie.services.mirrors import names
from hoodie.storage import protocol
from hoodie.transaction import manager

MIRROR_KEY = "hoodie.mirror.version"
MIRROR_VERSION = "1"
INSTANT_KEY = "hoodie.instant"
COMPLETION_KEY = "hoodie.completion-time"
"""Of a snapshot, as of when it is; of the Iceberg table, up to when it has followed the table."""

UNMIRRORED_GROUPS_KEY = "hoodie.unmirrored-file-groups"
UNMIRRORED_BYTES_KEY = "hoodie.unmirrored-log-bytes"

_CATALOG_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}\.metadata\.json", re.ASCII)
_METADATA_NAME = re.compile(r"v(\d{1,9})\.metadata\.json", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmirrored:
    """What of a state is in log files alone.

    Attributes:
        groups: File groups whose newest slice has log files to merge.
        log_bytes: The summed size of these.
    """

    groups: int
    log_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A table as a mirror shows it.

    Attributes:
        completion_time: As of which it is: the newest completed instant's.
        instant: Requested time of the newest write of it; None where the table has no write.
        files: The base files, by partition and file id.
        partitions: Paths of all partitions.
        unmirrored: What it lacks of the table.
        schema: The table's columns, those of each file among them.
        snapshot: What it was taken from.
    """

    completion_time: instants.InstantTime
    instant: instants.InstantTime | None
    files: tuple[files.BaseFile, ...]
    partitions: tuple[str, ...]
    unmirrored: Unmirrored
    schema: schemas.TableSchema
    snapshot: snapshots.Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a mirror is, by its own metadata.

    Attributes:
        completion_time: Up to which it has followed the table.
        instant: Requested time of the newest write that it has; empty for none.
        snapshots: How many are kept.
        unmirrored: What it lacked of the table then.
    """

    completion_time: instants.InstantTime
    instant: str
    snapshots: int
    unmirrored: Unmirrored


def look(target: manager.Target) -> State:
    """Return the state of a table now; lists it, and reads as a read-optimized read plans.

    Raises:
        NotFoundError: The table has no completed instant.
        UnsupportedError: Rows of a slice are in a file outside the table.
    """
    return snapshots.consistent(target.storage, target.config, lambda found: _state(target, found))


def _state(target: manager.Target, snapshot: snapshots.Snapshot) -> State:
    timeline = snapshot.timeline
    times = [each.completion_time for each in timeline.completed if each.completion_time]
    if not times:
        raise errors.NotFoundError(
            f"{target.storage.uri} has no completed instant: expected a write before it is mirrored"
        )
    query = tasks.Query(columns=(schemas.RECORD_KEY,), is_read_optimized=True)
    plan = planning.plan(target.storage.uri, target.config, target.schema, snapshot, query)
    changed = [each for each in plan.slices if each.is_changed]
    written = max(
        timeline.completed_writes, key=lambda each: each.completion_time or "", default=None
    )
    return State(
        completion_time=max(times),
        instant=None if written is None else written.requested_time,
        files=tuple(each.base_file for each in plan.slices if each.base_file is not None),
        partitions=tuple(snapshot.view.partitions()),
        unmirrored=Unmirrored(
            groups=len(changed), log_bytes=sum(each.log_bytes for each in changed)
        ),
        # Read afterwards: it has the columns of whatever has completed.
        schema=definition.load_schema(target.storage, target.config),
        snapshot=snapshot,
    )


def glance(storage: protocol.Storage, consumer: str = names.CONSUMER) -> Progress | None:
    """Return how far a mirror is, by its files; None without one. Two requests.

    Args:
        storage: The table's.
        consumer: The mirror's.

    Raises:
        FormatError: Its metadata are broken, or of an Iceberg table that is no mirror.
    """
    try:
        if consumer == names.CONSUMER:
            newest = newest_version(storage.names(names.FOLDER))
            return None if newest is None else _progress(storage, metadata_path(newest))
        hint = names.catalog_hint_of(consumer)
        name = storage.read(hint).decode(errors="replace")
        if _CATALOG_NAME.fullmatch(name) is None:
            raise errors.FormatError(
                f"{hint} in {storage.uri} names {name!r:.120}, expected metadata of a mirror"
            )
        return _progress(storage, f"{names.folder_of(consumer)}/{name}")
    except errors.NotFoundError:  # Or they are being deleted.
        return None


def _progress(storage: protocol.Storage, path: str) -> Progress:
    """Return what metadata say; a read.

    Raises:
        FormatError: They are broken, or of an Iceberg table that is no mirror.
    """
    try:
        found = json.loads(storage.read(path))
        stated = found["properties"]
        return Progress(
            completion_time=instants.checked_time(stated[COMPLETION_KEY]),
            instant=stated[INSTANT_KEY],
            snapshots=len(found["snapshots"]),
            unmirrored=Unmirrored(
                groups=int(stated[UNMIRRORED_GROUPS_KEY]),
                log_bytes=int(stated[UNMIRRORED_BYTES_KEY]),
            ),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise errors.FormatError(
            f"{path} in {storage.uri} is not the metadata of a mirror of it ({error!r:.120}): "
            f"another program has put an Iceberg table there; move the folder {names.FOLDER} away "
            "to have the table mirrored"
        ) from error


def newest_version(found: Iterable[str]) -> int | None:
    """Return the newest version of metadata among the names of files; None for none."""
    return max(map(int, filter(None, map(_version_of, found))), default=None)


def _version_of(name: str) -> str | None:
    found = _METADATA_NAME.fullmatch(name)
    return found.group(1) if found else None


def metadata_path(version: int) -> str:
    """Return the path of a version of the metadata, below the table's root."""
    return f"{names.FOLDER}/v{version}.metadata.json"
