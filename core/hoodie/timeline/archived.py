"""The archived timeline: instants that were moved out of the active one, in an LSM tree of parquet.

Read on demand, and only the files whose range may hold what is asked for. What is archived never
changes, so an answer stays right while the tree is compacted. The tree's files and names are in
`history_tree`, what writes it in `history_writing`. Source: `ArchivedTimelineLoaderV2.java`;
format.md: Archived timeline.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from hoodie import errors
from hoodie.model import instants, results
from hoodie.storage.protocol import Storage
from hoodie.timeline import history_tree
from hoodie.timeline.history_tree import TreeFile

DIRECTORY = history_tree.DIRECTORY

_COLUMNS = ["instantTime", "completionTime"]
_INSTANT_COLUMNS = [*_COLUMNS, "action", "metadata"]
_ATTEMPTS_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedInstant:
    """An instant of the archive.

    Attributes:
        instant: Completed.
        metadata: What its completed file said; empty for nothing.
    """

    instant: instants.Instant
    metadata: bytes


class ArchivedTimeline:
    """A table's archive, read as far as anybody asked."""

    def __init__(self, storage: Storage) -> None:
        """Take the table's storage; nothing is read yet."""
        self._storage = storage
        self._files: tuple[TreeFile, ...] | None = None
        self._loaded: dict[str, dict[str, str]] = {}

    def __reduce__(self) -> "tuple[type[DetachedArchive], tuple[()]]":
        """Pickle without the storage: a task is sent what it needs to know, not how to ask."""
        return DetachedArchive, ()

    def completion_time(self, requested_time: instants.InstantTime) -> instants.InstantTime | None:
        """Return when an archived instant completed; None for one that is not there.

        Two or three requests for the manifest the first time, and one file for most times.

        Raises:
            FormatError: Manifest or file are not what they should be.
            StorageError: Files vanish as fast as manifests name them.
        """
        for _ in range(_ATTEMPTS_MAX):
            try:
                if self._files is None:
                    self._files = _manifest_files(self._storage)
                return self._find(requested_time, self._files)
            except errors.NotFoundError:
                # The tree was compacted and cleaned since: a newer manifest names other files.
                self._files = None
        raise _vanished(self._storage)

    def newest_first(self, before: str | None = None) -> Iterator[ArchivedInstant]:
        """Yield archived instants by requested time, the newest first.

        A file is read once something of its range is asked for, so that a page costs a file or two.

        Args:
            before: Only instants with a smaller requested time; None for all.

        Raises:
            FormatError: As `completion_time`.
            StorageError: As `completion_time`.
        """
        for _ in range(_ATTEMPTS_MAX):
            try:
                for found in self._newest_first(_manifest_files(self._storage), before):
                    before = found.instant.requested_time
                    yield found
            except errors.NotFoundError:
                continue
            return
        raise _vanished(self._storage)

    def _newest_first(
        self, files: tuple[TreeFile, ...], before: str | None
    ) -> Iterator[ArchivedInstant]:
        """Yield the instants of files whose ranges may overlap."""
        left = sorted(
            (each for each in files if before is None or each.first < before),
            key=lambda file: file.last,
        )
        waiting: dict[str, ArchivedInstant] = {}
        order: list[str] = []
        while left or order:
            while left and (not order or left[-1].last >= order[-1]):
                for found in self._instants(left.pop()):
                    time = found.instant.requested_time
                    if before is None or time < before:
                        waiting.setdefault(time, found)
                order = sorted(waiting)
            if order:
                yield waiting.pop(order.pop())

    def _find(
        self, requested_time: instants.InstantTime, files: tuple[TreeFile, ...]
    ) -> instants.InstantTime | None:
        for file in files:
            if file.may_hold(requested_time):
                completion = self._completion_times(file).get(requested_time)
                if completion is not None:
                    return instants.checked_time(completion)
        return None

    def _completion_times(self, file: TreeFile) -> dict[str, str]:
        if file.name not in self._loaded:
            rows = _rows(self._storage, file, _COLUMNS)
            with _naming(file):
                requested, completed = (rows.column(name).to_pylist() for name in _COLUMNS)
                self._loaded[file.name] = {
                    instants.checked_time(requested_time): completion_time
                    for requested_time, completion_time in zip(requested, completed, strict=True)
                    if requested_time and completion_time
                }
        return self._loaded[file.name]

    def _instants(self, file: TreeFile) -> list[ArchivedInstant]:
        rows = _rows(self._storage, file, _INSTANT_COLUMNS)
        with _naming(file):
            return [
                ArchivedInstant(
                    instant=instants.Instant(
                        requested_time=instants.checked_time(row["instantTime"]),
                        action=instants.Action(row["action"]),
                        state=instants.State.COMPLETED,
                        completion_time=instants.checked_time(row["completionTime"]),
                    ),
                    metadata=row["metadata"] or b"",
                )
                for row in rows.to_pylist()
                if row["instantTime"] and row["completionTime"]
            ]


class DetachedArchive:
    """What an archive becomes in another process: slices are made before tasks are sent."""

    def completion_time(self, requested_time: instants.InstantTime) -> instants.InstantTime | None:
        """Refuse to guess."""
        raise AssertionError(f"completion time of {requested_time} asked for away from the archive")


def newest_manifest(storage: Storage) -> int | None:
    """Return the number of the manifest that counts; None when nothing was archived yet.

    A read; a listing as well while `_version_` is absent.
    """
    try:
        number = history_tree.version_of(storage.read(history_tree.VERSION_PATH))
    except errors.NotFoundError:
        number = None
    if number is not None:
        return number
    numbers = (history_tree.manifest_number(info.name) for info in storage.list(DIRECTORY))
    return max((number for number in numbers if number is not None), default=None)


def files_of_manifest(storage: Storage, number: int) -> tuple[TreeFile, ...]:
    """Return the files that a manifest lists; a read.

    Raises:
        FormatError: It is none.
        NotFoundError: It is gone.
    """
    path = history_tree.manifest_path(number)
    return history_tree.decode_manifest(storage.read(path), path)


def newest_files(storage: Storage) -> tuple[TreeFile, ...]:
    """Return the files of the newest manifest; none when nothing was archived yet.

    Two requests; three while `_version_` is absent.

    Raises:
        FormatError: The manifest is damaged.
        StorageError: Manifests vanish as fast as they are named.
    """
    for _ in range(_ATTEMPTS_MAX):
        with contextlib.suppress(errors.NotFoundError):
            return _manifest_files(storage)
    raise _vanished(storage)


def content_of(storage: Storage, file: TreeFile) -> results.HistoryFile:
    """Return what a file holds; two of its columns are read.

    Raises:
        FormatError: It is damaged.
        NotFoundError: It is gone.
    """
    rows = _rows(storage, file, _COLUMNS)
    with _naming(file):
        times = [
            instants.checked_time(time)
            for name in _COLUMNS
            for time in rows.column(name).to_pylist()
            if time
        ]
    return results.HistoryFile(
        name=file.name,
        first=file.first,
        last=file.last,
        newest=max([file.last, *times]),
        count=len(rows),
    )


def _vanished(storage: Storage) -> errors.StorageError:
    return errors.StorageError(
        f"{storage.uri}/{DIRECTORY}: files that the newest manifest names are missing"
    )


def _manifest_files(storage: Storage) -> tuple[TreeFile, ...]:
    """Return the files of the newest manifest; none when nothing was archived yet.

    Raises:
        NotFoundError: The manifest is gone: there must be a newer one.
    """
    number = newest_manifest(storage)
    return () if number is None else files_of_manifest(storage, number)


def _rows(storage: Storage, file: TreeFile, columns: list[str]) -> pa.Table:
    with _naming(file), storage.open_input(file.path) as source:
        return pq.read_table(source, columns=columns)


@contextlib.contextmanager
def _naming(file: TreeFile) -> Iterator[None]:
    """Name the file in errors of Arrow and of values."""
    try:
        yield
    except (pa.ArrowException, KeyError, TypeError, ValueError) as error:
        raise errors.FormatError(f"{file.path} is not a file of an archive: {error}") from error
