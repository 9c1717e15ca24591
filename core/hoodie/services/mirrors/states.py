"""What of a table a mirror has, and how far it lags behind.

Terms:
    mirrored   completion time up to which a mirror has followed the table
    state      the base files of the newest file slices as of a completion time
    lag        writes that completed since, and file groups whose newest rows are in logs alone

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
from hoodie.storage import protocol
from hoodie.timeline import active
from hoodie.transaction import manager

FOLDER = "metadata"
"""Where a mirror lies below the table's root: where engines look for metadata of Iceberg."""

CONSUMER = "iceberg-mirror"
"""The consumer by which cleaning keeps the files that kept snapshots name."""

MIRROR_KEY = "hoodie.mirror.version"
MIRROR_VERSION = "1"
INSTANT_KEY = "hoodie.instant"
COMPLETION_KEY = "hoodie.completion-time"
"""Of a snapshot, as of when it is; of the Iceberg table, up to when it has followed the table."""

UNMIRRORED_GROUPS_KEY = "hoodie.unmirrored-file-groups"
UNMIRRORED_BYTES_KEY = "hoodie.unmirrored-log-bytes"

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
        version: Of its metadata.
        completion_time: Up to which it has followed the table.
        instant: Requested time of the newest write that it has; empty for none.
        snapshots: How many are kept.
        unmirrored: What it lacked of the table then.
    """

    version: int
    completion_time: instants.InstantTime
    instant: str
    snapshots: int
    unmirrored: Unmirrored


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """How far a mirror is behind its table.

    Attributes:
        writes: Completed writes on the timeline that it has not followed.
        since: Completion time of the first of these; None for none.
        unmirrored: What was in log files alone when it was last brought up to date.
    """

    writes: int
    since: instants.InstantTime | None
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


def glance(storage: protocol.Storage) -> Progress | None:
    """Return how far the mirror in a table's folder is; None without one. Two requests.

    Raises:
        FormatError: Its metadata are broken, or of an Iceberg table that is no mirror.
    """
    newest = newest_version(storage.names(FOLDER))
    return None if newest is None else progress_of(storage, newest)


def progress_of(storage: protocol.Storage, version: int) -> Progress:
    """Return what the metadata of a version say; a read.

    Raises:
        FormatError: They are broken, or of an Iceberg table that is no mirror.
    """
    path = metadata_path(version)
    try:
        found = json.loads(storage.read(path))
        stated = found["properties"]
        return Progress(
            version=version,
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
            f"another program has put an Iceberg table there; move the folder {FOLDER} away to "
            "have the table mirrored"
        ) from error


def lag_of(progress: Progress | None, timeline: active.ActiveTimeline) -> Lag:
    """Return how far a mirror is behind.

    Args:
        progress: How far it is; None for a mirror that is not there: all writes are missing.
        timeline: The table's.
    """
    mirrored = "" if progress is None else progress.completion_time
    missing = sorted(
        each.completion_time
        for each in timeline.completed_writes
        if each.completion_time and each.completion_time > mirrored
    )
    return Lag(
        writes=len(missing),
        since=missing[0] if missing else None,
        unmirrored=Unmirrored(groups=0, log_bytes=0) if progress is None else progress.unmirrored,
    )


def newest_version(names: Iterable[str]) -> int | None:
    """Return the newest version of metadata among the names of files; None for none."""
    return max(map(int, filter(None, map(_version_of, names))), default=None)


def _version_of(name: str) -> str | None:
    found = _METADATA_NAME.fullmatch(name)
    return found.group(1) if found else None


def metadata_path(version: int) -> str:
    """Return the path of a version of the metadata, below the table's root."""
    return f"{FOLDER}/v{version}.metadata.json"
