"""The tree of the archived timeline as values: its files, manifests, merges, and what is garbage.

In `.hoodie/timeline/history/`:

    _version_                       number of the newest manifest; absent while that changes
    manifest_{n}                    JSON: {"files": [{"fileName": ..., "fileLen": ...}, ...]}
    {first}_{last}_{level}.parquet  a row an action; only files that the manifest lists count

A run of the archiver adds a file of level 0. Ten files of one level are merged into one of the
next. Source: `LSMTimeline.java`, `LSMTimelineWriter.java`; format.md: Archived timeline.
"""

import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from hoodie import errors
from hoodie.model import instants

DIRECTORY = ".hoodie/timeline/history"
VERSION_PATH = f"{DIRECTORY}/_version_"

BATCH_SIZE = 10
"""So many files of one level are merged into one of the next (`hoodie.timeline.compaction`)."""

MERGED_BYTES_MAX = 128 << 20
"""Files are merged up to this sum of their sizes: a merge is held in memory."""

MANIFESTS_KEPT = 3
"""So many of the newest manifests stay, for readers that have read an older `_version_`."""

LEVEL_MAX = 9
"""The level is one digit in a file's name."""

NUMBER_MAX = 10**18 - 1
"""The greatest number of a manifest."""

_NUMBER = re.compile(r"\d{1,18}", re.ASCII)
_MANIFEST = re.compile(r"manifest_(\d{1,18})", re.ASCII)
_FILE = re.compile(r"(?P<first>\d+)_(?P<last>\d+)_(?P<level>\d)\.parquet", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeFile:
    """One parquet file of the tree.

    Attributes:
        name: Below the tree's directory.
        first: Requested time of its first row.
        last: Requested time of its last row.
        level: 0 for what an archiver wrote, one more for each merge.
        size_bytes: Its length, as a manifest or a listing says.
    """

    name: str
    first: instants.InstantTime
    last: instants.InstantTime
    level: int
    size_bytes: int = 0

    @property
    def path(self) -> str:
        """Below the table's root."""
        return f"{DIRECTORY}/{self.name}"

    def may_hold(self, time: str) -> bool:
        """Return whether an instant of that requested time may be in it."""
        return self.first <= time <= self.last


def file_of(first: str, last: str, level: int, size_bytes: int = 0) -> TreeFile:
    """Return a file of this range, in 14 or 17 digits, and level.

    Raises:
        InvalidInputError: A time is none.
    """
    assert 0 <= level <= LEVEL_MAX, level
    return TreeFile(
        name=f"{first}_{last}_{level}.parquet",
        first=instants.checked_time(first),
        last=instants.checked_time(last),
        level=level,
        size_bytes=size_bytes,
    )


def parse_file(name: str, size_bytes: int = 0) -> TreeFile | None:
    """Return the file that a name stands for; None for any other name."""
    match = _FILE.fullmatch(name)
    if match is None:
        return None
    try:
        first, last = (instants.checked_time(match[each]) for each in ("first", "last"))
    except errors.InvalidInputError:
        return None
    return TreeFile(
        name=name, first=first, last=last, level=int(match["level"]), size_bytes=size_bytes
    )


def manifest_path(number: int) -> str:
    """Return the path of a manifest."""
    return f"{DIRECTORY}/manifest_{number}"


def manifest_number(name: str) -> int | None:
    """Return the number in a manifest's name; None for any other name."""
    match = _MANIFEST.fullmatch(name)
    return int(match[1]) if match else None


def manifest_number_of_path(path: str) -> int | None:
    """Return the number of the manifest at a path below the table's root; None for any other."""
    directory, _, name = path.rpartition("/")
    return manifest_number(name) if directory == DIRECTORY else None


def version_of(content: bytes) -> int | None:
    """Return the number that `_version_` says; None where it says none."""
    text = content.decode("ascii", errors="replace").strip()
    return int(text) if _NUMBER.fullmatch(text) else None


def encode_manifest(files: Iterable[TreeFile]) -> bytes:
    """Return the content of a manifest that lists files, in that order."""
    entries = [{"fileName": each.name, "fileLen": each.size_bytes} for each in files]
    return json.dumps({"files": entries}, indent=2).encode("ascii")


def decode_manifest(content: bytes, source: str) -> tuple[TreeFile, ...]:
    """Return the files that a manifest lists.

    Raises:
        FormatError: It is no manifest.
    """
    try:
        entries = json.loads(content)["files"]
        found = [_entry(each["fileName"], each["fileLen"]) for each in entries]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise errors.FormatError(f"{source} is not a manifest of an archive: {error}") from error
    return tuple(found)


def _entry(name: object, size_bytes: object) -> TreeFile:
    is_text = isinstance(name, str) and isinstance(size_bytes, int)
    found = parse_file(str(name), int(str(size_bytes))) if is_text else None
    if found is None:
        raise ValueError(f"{name!r} does not match {{first}}_{{last}}_{{level}}.parquet")
    return found


def to_merge(
    files: Iterable[TreeFile], batch_size: int = BATCH_SIZE, bytes_max: int = MERGED_BYTES_MAX
) -> tuple[TreeFile, ...]:
    """Return the files to merge next into one of the next level; none if no level is full.

    Neighbours by name, so that merged files keep modest ranges; of the lowest full level.

    Args:
        files: That the manifest lists.
        batch_size: So many files make a level full; as many are merged at most.
        bytes_max: Of their sizes together; a single file above it stays as it is.
    """
    levels: dict[int, list[TreeFile]] = {}
    for each in sorted(files, key=lambda file: file.name):
        levels.setdefault(each.level, []).append(each)
    for level in sorted(levels):
        found = levels[level]
        if level < LEVEL_MAX and len(found) >= batch_size:
            batch = _neighbours(found, batch_size, bytes_max)
            if batch:
                return batch
    return ()


def _neighbours(files: Sequence[TreeFile], batch_size: int, bytes_max: int) -> tuple[TreeFile, ...]:
    """Return the first run of at least two files that fit together."""
    batch: list[TreeFile] = []
    for each in files:
        is_full = len(batch) == batch_size
        if is_full or sum(file.size_bytes for file in batch) + each.size_bytes > bytes_max:
            if len(batch) > 1:
                return tuple(batch)
            batch = []
        if each.size_bytes <= bytes_max:
            batch.append(each)
    return tuple(batch) if len(batch) > 1 else ()


def garbage(
    found: Iterable[TreeFile],
    newest: Collection[TreeFile],
    kept: Iterable[TreeFile],
    archived_below: str,
) -> tuple[TreeFile, ...]:
    """Return the files that no kept manifest lists, and that no process writes any more.

    A process that was paused may be about to publish a manifest with a file that it found under
    this name. Of level 0 it is one that begins with an instant which is not archived yet; of a
    higher level one whose sources are still listed.

    Args:
        found: On storage, listed before the newest manifest was published.
        newest: Listed by the newest manifest.
        kept: Listed by a kept manifest.
        archived_below: Requested time below which everything was archived by that manifest.
    """
    referenced = {each.name for each in kept} | {each.name for each in newest}
    return tuple(
        each
        for each in found
        if each.name not in referenced and not _may_be_used(each, newest, archived_below)
    )


def _may_be_used(file: TreeFile, newest: Iterable[TreeFile], archived_below: str) -> bool:
    if file.level == 0:
        return file.last >= archived_below
    return any(each.level < file.level and each.first == file.first for each in newest)
