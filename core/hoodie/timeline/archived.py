"""The archived timeline: instants that were moved out of the active one, in an LSM tree of parquet.

Read on demand, and only the parts of files whose range may hold what is asked for. What is archived
never changes, so an answer stays right while the tree is compacted. The tree's files and names are
in `history_tree`, parts of files in `history_files`, what writes it in `history_writing`. Source:
`ArchivedTimelineLoaderV2.java`; format.md: Archived timeline.
"""

from __future__ import annotations

import bisect
import contextlib
import functools
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from hoodie import deferred, errors
from hoodie.model import instants
from hoodie.storage.protocol import Storage
from hoodie.timeline import history_files, history_tree
from hoodie.timeline.history_tree import TreeFile

with deferred.imports():
    from hoodie.model import results

DIRECTORY = history_tree.DIRECTORY

_COLUMNS = [history_files.TIME, history_files.COMPLETION]
_WRITE_COLUMNS = [*_COLUMNS, "action"]
_INSTANT_COLUMNS = [*_WRITE_COLUMNS, "metadata"]
_WRITES = [each.value for each in instants.Action if each.is_write]
_ATTEMPTS_MAX = 3
_SEARCHES_MAX = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedInstant:
    """An instant of the archive.

    Attributes:
        instant: Completed.
        metadata: What its completed file said; empty for nothing.
    """

    instant: instants.Instant
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """A file that was not opened yet, or a part of one that was."""

    file: history_files.HistoryFile
    part: history_files.Part | None
    first: str
    last: str


class ArchivedTimeline:
    """A table's archive, read as far as anybody asked."""

    def __init__(self, storage: Storage) -> None:
        """Take the table's storage; nothing is read yet."""
        self._storage = storage
        self._files: tuple[TreeFile, ...] | None = None
        self._loaded: dict[str, _CompletionTimes] = {}

    def __reduce__(self) -> tuple[type[DetachedArchive], tuple[()]]:
        """Pickle without the storage: a task is sent what it needs to know, not how to ask."""
        return DetachedArchive, ()

    def completion_time(self, requested_time: instants.InstantTime) -> instants.InstantTime | None:
        """Return when an archived instant completed; None for one that is not there.

        Two or three requests for the manifest the first time, and a part of a file for most times.

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

    def last_write(self, after: instants.InstantTime) -> instants.InstantTime | None:
        """Return the greatest requested time of a write above a given one; None if there is none.

        No request beside those for the manifest if no file reaches that far, else some for each
        that does until a write is found: normally one.

        Raises:
            FormatError: As `completion_time`.
            StorageError: As `completion_time`.
        """
        if self._files is None or any(each.last > after for each in self._files):
            for found in self.newest_first():
                if found.instant.requested_time <= after:
                    break
                if found.instant.action.is_write:
                    return found.instant.requested_time
        return None

    def newest_first(self, before: str | None = None) -> Iterator[ArchivedInstant]:
        """Yield archived instants by requested time, the newest first.

        A part of a file is read once something of its range is asked for, so that a page costs one
        or two.

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

    def oldest_write(self) -> instants.Instant | None:
        """Return the archived write with the smallest requested time; None for none.

        Requests as for the manifest, and three columns of a part of a file, rarely more.

        Raises:
            FormatError: As `completion_time`.
            StorageError: As `completion_time`.
        """
        for _ in range(_ATTEMPTS_MAX):
            with contextlib.suppress(errors.NotFoundError):
                return self._oldest_write(_manifest_files(self._storage))
        raise _vanished(self._storage)

    def writes(self, requested_from: str = "", completed_after: str = "") -> list[instants.Instant]:
        """Return archived writes by requested time, without what they say of themselves.

        A read of each part of a file that may have such a one, three of its columns.

        Args:
            requested_from: Only of this requested time or later ones.
            completed_after: Only those that completed after this time, whenever they began.

        Raises:
            FormatError: As `completion_time`.
            StorageError: As `completion_time`.
        """

        def is_wanted(part: history_files.Part) -> bool:
            return part.last >= requested_from and part.newest > completed_after

        found = {
            each.instant.requested_time: each.instant
            for each in self._in_parts(is_wanted, _WRITE_COLUMNS)
            if each.instant.action.is_write
            and each.instant.requested_time >= requested_from
            and str(each.instant.completion_time) > completed_after
        }
        return [found[time] for time in sorted(found)]

    def contents_of(self, times: Collection[instants.InstantTime]) -> Iterator[ArchivedInstant]:
        """Yield archived instants of some requested times, each once, in any order.

        One part of a file is held at a time.

        Raises:
            FormatError: As `completion_time`.
            StorageError: As `completion_time`.
        """
        wanted = sorted(times)

        def is_wanted(part: history_files.Part) -> bool:
            place = bisect.bisect_left(wanted, part.first)
            return place < len(wanted) and wanted[place] <= part.last

        left = set(times)
        for each in self._in_parts(is_wanted, _INSTANT_COLUMNS):
            if each.instant.requested_time in left:
                left.remove(each.instant.requested_time)
                yield each

    def _in_parts(
        self, is_wanted: Callable[[history_files.Part], bool], columns: Sequence[str]
    ) -> Iterator[ArchivedInstant]:
        """Yield the instants of some parts of all files; some may come twice."""
        done: set[str] = set()
        for _ in range(_ATTEMPTS_MAX):
            try:
                for each in _manifest_files(self._storage):
                    if each.name in done:
                        continue
                    with history_files.HistoryFile(self._storage, each).opened() as opened:
                        for part in opened.parts:
                            if is_wanted(part):
                                yield from _instants(opened.rows([part], columns))
                    done.add(each.name)
            except errors.NotFoundError:
                continue
            return
        raise _vanished(self._storage)

    def _oldest_write(self, files: tuple[TreeFile, ...]) -> instants.Instant | None:
        for each in sorted(files, key=lambda file: file.first):
            with history_files.HistoryFile(self._storage, each).opened() as opened:
                for part in opened.parts:
                    writes = _writes(opened.rows([part], _WRITE_COLUMNS))
                    if writes.num_rows:
                        # One of 14 digits stands for the end of its second, and sorts first.
                        times = writes.column(history_files.TIME)
                        second = history_files.second_of(pc.min(times).as_py())
                        oldest = _instants(writes.filter(pc.starts_with(times, second)))
                        return min((each.instant for each in oldest), key=_requested_time)
        return None

    def _newest_first(
        self, files: tuple[TreeFile, ...], before: str | None
    ) -> Iterator[ArchivedInstant]:
        """Yield the instants of files whose ranges may overlap."""
        whole = (
            _Piece(
                file=history_files.HistoryFile(self._storage, each),
                part=None,
                first=each.first,
                last=each.last,
            )
            for each in files
        )
        left = _ordered(whole, before)
        waiting: dict[str, ArchivedInstant] = {}
        order: list[str] = []
        while left or order:
            while left and (not order or left[-1].last >= order[-1]):
                parts, read = _opened(left.pop())
                if parts:
                    left = _ordered([*left, *parts], before)
                for found in read:
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
                if file.name not in self._loaded:
                    self._loaded[file.name] = _CompletionTimes(self._storage, file)
                completion = self._loaded[file.name].find(requested_time)
                if completion is not None:
                    return instants.checked_time(completion)
        return None


class _CompletionTimes:
    """Completion times of a file's instants, of the parts that were asked for."""

    def __init__(self, storage: Storage, file: TreeFile) -> None:
        self._file = history_files.HistoryFile(storage, file)
        self._parts: tuple[history_files.Part, ...] | None = None
        self._read: set[history_files.Part] = set()
        self._rows: list[pa.Table] = []
        self._found: dict[str, str] = {}
        self._searches = 0

    def find(self, requested_time: str) -> str | None:
        if self._parts is None or self._unread(self._parts, requested_time):
            with self._file.opened() as opened:
                self._parts = opened.parts
                wanted = self._unread(opened.parts, requested_time)
                self._rows.append(opened.rows(wanted, _COLUMNS))
                self._read.update(wanted)
        if requested_time not in self._found and self._searches < _SEARCHES_MAX:
            # Most tables ask for a few: a value of Python for each of thousands would cost more.
            self._searches += 1
            return _search(self._rows, requested_time)
        while self._rows:
            with self._file.named():
                self._found.update(_times(self._rows.pop()))
        return self._found.get(requested_time)

    def _unread(self, parts: Iterable[history_files.Part], time: str) -> list[history_files.Part]:
        return [each for each in parts if each.may_hold(time) and each not in self._read]


def _search(tables: Iterable[pa.Table], requested_time: str) -> str | None:
    """Return the completion time of an instant; its time may be there in 14 digits."""
    short = requested_time.removesuffix(instants.SHORT_ENDING)
    for rows, time in itertools.product(tables, {requested_time, short}):
        place = pc.index(rows.column(history_files.TIME), time).as_py()
        if place >= 0 and rows.column("completionTime")[place].is_valid:
            return str(rows.column("completionTime")[place])
    return None


def _times(rows: pa.Table) -> dict[str, str]:
    requested, completed = (rows.column(name).to_pylist() for name in _COLUMNS)
    return {
        instants.checked_time(requested_time): completion_time
        for requested_time, completion_time in zip(requested, completed, strict=True)
        if requested_time and completion_time
    }


def _ordered(pieces: Iterable[_Piece], before: str | None) -> list[_Piece]:
    """Return what may hold instants before a time, the newest last."""
    return sorted(
        (each for each in pieces if before is None or each.first < before),
        key=lambda piece: piece.last,
    )


def _opened(piece: _Piece) -> tuple[list[_Piece], list[ArchivedInstant]]:
    """Return the parts of a file that has several, or the instants of a part."""
    with piece.file.opened() as opened:
        wanted = opened.parts if piece.part is None else [piece.part]
        if len(wanted) > 1:
            parts = [replace(piece, part=each, first=each.first, last=each.last) for each in wanted]
            return parts, []
        return [], _instants(opened.rows(wanted, _INSTANT_COLUMNS))


def _writes(rows: pa.Table) -> pa.Table:
    """Return those rows of which `_instants` makes writes."""
    has_times = (
        pc.not_equal(pc.fill_null(rows.column(name).cast(pa.string()), ""), "") for name in _COLUMNS
    )
    # Arrow imports pandas for the first array that it makes of a list: not when this is imported.
    is_write = pc.is_in(rows.column("action").cast(pa.string()), value_set=pa.array(_WRITES))
    return rows.filter(functools.reduce(pc.and_, has_times, is_write))


def _requested_time(instant: instants.Instant) -> instants.InstantTime:
    return instant.requested_time


def _instants(rows: pa.Table) -> list[ArchivedInstant]:
    return [
        ArchivedInstant(
            instant=instants.Instant(
                requested_time=instants.checked_time(row["instantTime"]),
                action=instants.Action(row["action"]),
                state=instants.State.COMPLETED,
                completion_time=instants.checked_time(row["completionTime"]),
            ),
            metadata=row.get("metadata") or b"",
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
    opening = history_files.HistoryFile(storage, file)
    with opening.opened() as opened:
        rows = opened.rows(opened.parts, _COLUMNS)
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
