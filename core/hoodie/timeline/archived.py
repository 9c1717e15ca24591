"""The archived timeline: instants that were moved out of the active one, in an LSM tree of parquet.

In `.hoodie/timeline/history/`:

    _version_                       number of the newest manifest; absent while that changes
    manifest_{n}                    JSON: {"files": [{"fileName": ..., "fileLen": ...}, ...]}
    {first}_{last}_{level}.parquet  a row an action; only files that the manifest lists count

Read on demand, and only the files whose range may hold what is asked for. What is archived never
changes, so an answer stays right while the tree is compacted. Source: `LSMTimeline.java`,
`ArchivedTimelineLoaderV2.java`; format.md: Archived timeline.
"""

import json
import re
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from hoodie import errors
from hoodie.model import instants
from hoodie.storage.protocol import Storage

DIRECTORY = ".hoodie/timeline/history"

_VERSION = f"{DIRECTORY}/_version_"
_MANIFEST = re.compile(r"manifest_(\d+)", re.ASCII)
_FILE = re.compile(r"(?P<first>\d+)_(?P<last>\d+)_\d\.parquet", re.ASCII)
_COLUMNS = ["instantTime", "completionTime"]
_ATTEMPTS_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """One parquet file of the tree, with the requested times of its first and last row."""

    name: str
    first: str
    last: str

    def may_hold(self, time: str) -> bool:
        return self.first <= time <= self.last


class ArchivedTimeline:
    """A table's archive, read as far as anybody asked."""

    def __init__(self, storage: Storage) -> None:
        """Take the table's storage; nothing is read yet."""
        self._storage = storage
        self._files: tuple[_File, ...] | None = None
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
        raise errors.StorageError(
            f"{self._storage.uri}/{DIRECTORY}: files that the newest manifest names are missing"
        )

    def _find(
        self, requested_time: instants.InstantTime, files: tuple[_File, ...]
    ) -> instants.InstantTime | None:
        for file in files:
            if file.may_hold(requested_time):
                completion = self._completion_times(file).get(requested_time)
                if completion is not None:
                    return instants.checked_time(completion)
        return None

    def _completion_times(self, file: _File) -> dict[str, str]:
        if file.name not in self._loaded:
            path = f"{DIRECTORY}/{file.name}"
            try:
                with self._storage.open_input(path) as source:
                    rows = pq.read_table(source, columns=_COLUMNS)
                requested, completed = (rows.column(name).to_pylist() for name in _COLUMNS)
                self._loaded[file.name] = {
                    instants.checked_time(requested_time): completion_time
                    for requested_time, completion_time in zip(requested, completed, strict=True)
                    if requested_time and completion_time
                }
            except (pa.ArrowException, KeyError, ValueError) as error:
                raise errors.FormatError(f"{path} is not a file of an archive: {error}") from error
        return self._loaded[file.name]


class DetachedArchive:
    """What an archive becomes in another process: slices are made before tasks are sent."""

    def completion_time(self, requested_time: instants.InstantTime) -> instants.InstantTime | None:
        """Refuse to guess."""
        raise AssertionError(f"completion time of {requested_time} asked for away from the archive")


def _manifest_files(storage: Storage) -> tuple[_File, ...]:
    """Return the files of the newest manifest; none when nothing was archived yet.

    Raises:
        NotFoundError: The manifest is gone: there must be a newer one.
    """
    number = _newest_manifest(storage)
    if number is None:
        return ()
    path = f"{DIRECTORY}/manifest_{number}"
    try:
        entries = json.loads(storage.read(path))["files"]
        return tuple(_parse_file(entry["fileName"]) for entry in entries)
    except (KeyError, TypeError, ValueError) as error:
        raise errors.FormatError(f"{path} is not a manifest of an archive: {error}") from error


def _newest_manifest(storage: Storage) -> int | None:
    try:
        text = storage.read(_VERSION).decode("ascii", errors="replace").strip()
    except errors.NotFoundError:
        text = ""
    if text.isdecimal():
        return int(text)
    matches = (_MANIFEST.fullmatch(info.name) for info in storage.list(DIRECTORY))
    return max((int(match[1]) for match in matches if match), default=None)


def _parse_file(name: str) -> _File:
    match = _FILE.fullmatch(name)
    if match is None:
        raise ValueError(f"{name!r} does not match {{first}}_{{last}}_{{level}}.parquet")
    first, last = (instants.checked_time(match[each]) for each in ("first", "last"))
    return _File(name=name, first=first, last=last)
