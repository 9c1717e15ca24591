"""Markers: made before each data file, so that whatever a write leaves behind can be found.

    .hoodie/.temp/{requested time}/{partition path}/{data file}.marker.CREATE

Empty files, called direct markers in Apache Hudi, whose rollback finds the files of a failed write
only by them. A data file without its marker first would stay for ever, and count as committed once
the archive moves past its instant (format.md: Visibility).

Spark writers may let their timeline server keep the markers instead, as lines of a few files that
it rewrites in place, so that a crash can leave one of them cut off:

    .hoodie/.temp/{requested time}/MARKERS.type     TIMELINE_SERVER_BASED
    .hoodie/.temp/{requested time}/MARKERS{n}       {partition path}/{data file}.marker.CREATE

Source: `DirectWriteMarkers.java`, `MarkerDirState.java`, `MarkerUtils.java`; format.md: Visibility.
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from hoodie import errors
from hoodie.format import file_names
from hoodie.model import commits, files, instants
from hoodie.storage.protocol import Storage
from hoodie.transaction import layout

logger = logging.getLogger(__name__)

Check = Callable[[], None]
"""Raises when whoever deletes may not be the only one at work on the instant any more: it was
paused for so long that its heartbeat expired. Makes no request."""

_SERVER_TYPE = "MARKERS.type"
_SERVER_FILE = re.compile(r"MARKERS\d+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """What the markers of an instant tell.

    Attributes:
        paths: Data files that have a marker, sorted; below the table's root.
        is_complete: Whether these are all files that the instant can have. Not so where there is no
            marker at all, which may have been lost, and not where a timeline server kept them.
    """

    paths: tuple[str, ...]
    is_complete: bool


def mark(storage: Storage, requested_time: instants.InstantTime, data_path: str) -> None:
    """Make a data file's marker; before the first byte of the file is written. Idempotent.

    Args:
        storage: The table's.
        requested_time: Of the instant that the file is written for.
        data_path: Below the table's root.
    """
    path = _marker_path(requested_time, data_path)
    try:
        storage.create(path, b"")
    except errors.AlreadyExistsError:
        logger.debug("%s/%s: marked already", storage.uri, path)


def marked_files(storage: Storage, requested_time: instants.InstantTime) -> list[str]:
    """Return the paths of all data files that an instant has markers of, sorted; as `find`."""
    return list(find(storage, requested_time).paths)


def find(storage: Storage, requested_time: instants.InstantTime) -> Marked:
    """Return what an instant's markers tell.

    One recursive listing, and a read for each file of a timeline server.
    """
    directory = directory_of(requested_time)
    names = [
        info.path.removeprefix(f"{directory}/")
        for info in storage.list(directory, is_recursive=True)
    ]
    kept_by_server = [name for name in names if _SERVER_FILE.fullmatch(name)]
    lines = [
        line for name in kept_by_server for line in _read_lines(storage, f"{directory}/{name}")
    ]
    paths = {file_names.marked_file(name) for name in (*names, *lines)} - {None}
    has_server = bool(kept_by_server) or _SERVER_TYPE in names
    return Marked(
        paths=tuple(sorted(path for path in paths if path is not None)),
        is_complete=bool(paths) and not has_server,
    )


def _read_lines(storage: Storage, path: str) -> list[str]:
    try:
        text = storage.read(path).decode(errors="replace")
    except errors.NotFoundError:
        return []  # Its writer has just completed, or was rolled back.
    return text.splitlines()


def unclaimed(marked: Iterable[str], stats: Iterable[commits.WriteStat]) -> list[str]:
    """Return the marked files that no write stat names: what failed tasks left behind."""
    claimed = {path for stat in stats for path in paths_of(stat)}
    return [path for path in marked if path not in claimed]


def finalise(
    storage: Storage,
    requested_time: instants.InstantTime,
    stats: Iterable[commits.WriteStat],
    check: Check,
    stage: int | None = None,
) -> int:
    """Delete the data files that an instant has markers of but no stat (W13); return how many.

    One listing of the write's own markers, and a request for each file deleted.

    Args:
        storage: The table's.
        requested_time: The instant.
        stats: Of all its tasks that succeeded.
        check: Called before each deletion.
        stage: Of the execution whose files are deleted; None for all that the instant had.
    """
    leftovers = unclaimed(_of_stage(marked_files(storage, requested_time), stage), stats)
    _delete_each(storage, leftovers, check)
    if leftovers:
        logger.info(
            "%s: %s: deleted %d files of failed tasks", storage.uri, requested_time, len(leftovers)
        )
    return len(leftovers)


def delete_data_files(
    storage: Storage,
    requested_time: instants.InstantTime,
    check: Check,
    stage: int | None = None,
) -> int:
    """Delete every data file that an instant has a marker of, then those markers; return how many.

    A crash on the way leaves the markers of all files that may still be there. Only what was listed
    in the beginning is deleted: should another execute the instant by now, its files, whose names
    differ, stay.

    Args:
        storage: The table's.
        requested_time: The instant.
        check: Called before each deletion.
        stage: Of the execution whose files are deleted; None for all that the instant had.
    """
    marked = _of_stage(marked_files(storage, requested_time), stage)
    _delete_each(storage, marked, check)
    _delete_each(storage, [_marker_path(requested_time, path) for path in marked], check)
    return len(marked)


def _of_stage(marked: list[str], stage: int | None) -> list[str]:
    """Return the files of one execution, by the middle of their write tokens."""
    if stage is None:
        return marked
    parsed = ((path, file_names.parse(file_names.as_log_file(path), 0)) for path in marked)
    return [
        path
        for path, found in parsed
        if found is not None and found.write_token.split("-")[1:2] == [str(stage)]
    ]


def _delete_each(storage: Storage, paths: Iterable[str], check: Check) -> None:
    for path in paths:
        check()
        storage.delete(path)


def delete(storage: Storage, requested_time: instants.InstantTime) -> None:
    """Delete all of an instant's markers, when nobody else can be at work on it."""
    storage.delete_directory(directory_of(requested_time))


def _marker_path(requested_time: instants.InstantTime, data_path: str) -> str:
    return f"{directory_of(requested_time)}/{file_names.marker_name(data_path)}"


def directory_of(requested_time: instants.InstantTime) -> str:
    """Return the directory of an instant's markers."""
    return f"{layout.MARKERS}/{requested_time}"


def paths_of(stat: commits.WriteStat) -> list[str]:
    """Return the files that a write stat names as its own, those of change data too."""
    return [*data_paths_of(stat), *(each.path for each in stat.change_data)]


def data_paths_of(stat: commits.WriteStat) -> list[str]:
    """Return those of them that file slices are made of."""
    return [stat.path, *(files.join(stat.partition_path, name) for name in stat.log_files)]


def missing(storage: Storage, stats: Iterable[commits.WriteStat]) -> Iterator[str]:
    """Yield the data files that write stats name and the table lacks; a request for each file."""
    for stat in stats:
        for path in paths_of(stat):
            try:
                storage.stat(path)
            except errors.NotFoundError:
                yield path
