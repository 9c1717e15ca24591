"""Writing the tree of the archived timeline: rows of instants, merges, and `_version_`.

    stage    a parquet file, under its final name; it counts once a manifest lists it
    raise    `_version_` to a manifest that is there; it is never lowered
    clean    manifests older than the newest three, then files that none of the others lists

A file is written in row groups of some thousand instants, so that a reader of one of them reads one
group, and a merge holds a few at a time.

A file that is there under the name of one to stage was left by a run that died, or is of one that
runs at the same time. Where the lock excludes nobody it is used if it holds the same rows, and is
never replaced: another may be about to publish it. Source: `LSMTimelineWriter.java`,
`MetadataConversionUtils.createLSMTimelineInstant`; format.md: Archived timeline.
"""

import io
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hoodie import errors
from hoodie.model import instants
from hoodie.storage.protocol import Storage
from hoodie.timeline import active, archived, history_files, history_tree, transitions
from hoodie.timeline.history_tree import TreeFile

logger = logging.getLogger(__name__)

Check = Callable[[], None]
"""Called right before something is changed; raises when it must not be."""

_ROW_VERSION = 1
_RAISES_MAX = 10

PART_ROWS_MAX = 10_000
"""A row group holds so many instants at most."""

PART_BYTES_MAX = 32 << 20
"""A row group holds about so many bytes at most, before they are compressed."""

_KEY = (history_files.TIME, "action")

_GZIP_LEVEL = 3
"""The highest level makes these files a sixth smaller, and takes four times as long."""

_READ_AT_ONCE = 500
"""The contents of so many instants are there twice for a moment: as bytes, and as rows."""

_MERGED_AT_ONCE = 1_000
"""A merge takes so many rows at a time."""

SCHEMA = pa.schema(
    [
        ("instantTime", pa.string()),
        ("completionTime", pa.string()),
        ("action", pa.string()),
        ("metadata", pa.binary()),
        ("plan", pa.binary()),
        pa.field("version", pa.int32(), nullable=False),
    ]
)

_PLANNED = (
    instants.Action.COMPACTION,
    instants.Action.LOG_COMPACTION,
    instants.Action.CLEAN,
)
_REPLACING = (instants.Action.REPLACE_COMMIT, instants.Action.CLUSTERING)
_WITH_PLAN = frozenset((*_PLANNED, *_REPLACING))


class NameTakenError(errors.ConflictError):
    """Another file has the name of one to stage, and must not be replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The tree as it was at one moment.

    Attributes:
        number: Of the manifest that counts; None where nothing was archived yet.
        files: That it lists.
        manifests: Numbers of all manifests on storage.
        found: All parquet files on storage.
    """

    number: int | None
    files: tuple[TreeFile, ...]
    manifests: tuple[int, ...]
    found: tuple[TreeFile, ...]

    @property
    def number_next(self) -> int:
        """A number that no manifest on storage has.

        Raises:
            FormatError: One has a number that none of an archive has.
        """
        number = max((*self.manifests, self.number or 0)) + 1
        if number > history_tree.NUMBER_MAX:
            raise errors.FormatError(
                f"{history_tree.manifest_path(number - 1)} has the greatest number that a manifest "
                "may have: it is not of an archive; remove it, and correct _version_"
            )
        return number


def read_tree(storage: Storage) -> Tree:
    """Return the tree: a listing, and a read of `_version_` and of its manifest.

    Raises:
        FormatError: The manifest is damaged.
        NotFoundError: It is gone: the tree was changed meanwhile.
    """
    infos = storage.list(history_tree.DIRECTORY)
    number = archived.newest_manifest(storage)
    numbers = (history_tree.manifest_number(info.name) for info in infos)
    files = (history_tree.parse_file(info.name, info.size_bytes) for info in infos)
    return Tree(
        number=number,
        files=() if number is None else archived.files_of_manifest(storage, number),
        manifests=tuple(sorted(each for each in numbers if each is not None)),
        found=tuple(each for each in files if each is not None),
    )


def rows_of(
    storage: Storage, timeline: active.ActiveTimeline, completed: Iterable[instants.Instant]
) -> pa.Table:
    """Return the rows that archive instants, by requested time; two or three reads each.

    Raises:
        NotFoundError: The completed file of one is gone.
    """
    pending: dict[tuple[str, instants.Action], list[instants.Instant]] = {}
    for each in timeline.files:
        if each.action in _WITH_PLAN and each.is_pending:
            key = (each.requested_time, each.action.completed)
            pending.setdefault(key, []).append(each)
    ordered = sorted(completed, key=lambda instant: instant.requested_time)
    contents = storage.read_all(map(transitions.path, ordered))
    pieces = [SCHEMA.empty_table()]
    for first in range(0, len(ordered), _READ_AT_ONCE):
        some = ordered[first : first + _READ_AT_ONCE]
        metadata, plans = [], []
        for each, content in zip(some, contents, strict=False):  # Contents go on to the next ones.
            metadata.append(content or None)
            plans.append(_plan(storage, pending.get((each.requested_time, each.action), ())))
        columns = {
            history_files.TIME: [each.short_name or each.requested_time for each in some],
            "completionTime": [each.short_completion or each.completion_time for each in some],
            "action": [each.action.value for each in some],
            "metadata": metadata,
            "plan": plans,
            "version": [_ROW_VERSION] * len(some),
        }
        pieces.append(pa.table(columns, SCHEMA))
    return pa.concat_tables(pieces)


def _plan(storage: Storage, pending: Iterable[instants.Instant]) -> bytes | None:
    """Return the plan of an instant whose pending files these are; None for one without."""
    plan: bytes | None = None
    for each in pending:
        is_requested = each.state is instants.State.REQUESTED
        if each.action in _REPLACING or (each.action in _PLANNED and is_requested):
            try:
                plan = storage.read(transitions.path(each)) or plan
            except errors.NotFoundError:
                continue  # A run that died has deleted it.
    return plan


def stage(
    storage: Storage, rows: pa.Table, check: Check, level: int = 0, *, may_replace: bool
) -> TreeFile:
    """Put rows into a file of the tree, which no manifest lists yet.

    Args:
        storage: The table's.
        rows: By requested time.
        check: Called right before the file is created or replaced.
        level: The file's.
        may_replace: Whether a file of that name with other rows is replaced; under a lock that
            excludes others it is of a run that died.

    Raises:
        NameTakenError: It may not be replaced.
    """
    return _stage(storage, _encoded([rows]), check, level, may_replace=may_replace)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Encoded:
    """The content of a file, and the requested times of its first and last row."""

    content: bytes
    first: str
    last: str


def _encoded(pieces: Iterable[pa.Table]) -> _Encoded:
    """Return the file with these rows, in row groups of a limited size."""
    stream = io.BytesIO()
    ends: list[str] = []
    with pq.ParquetWriter(
        stream,
        SCHEMA,
        compression="gzip",  # As Apache Hudi's; any reader of it has that.
        compression_level=_GZIP_LEVEL,
        use_dictionary=["action"],  # Contents of instants differ.
        write_statistics=[*_KEY, "completionTime"],
    ) as writer:
        for part in _parts(pieces):
            writer.write_table(part)
            times = part.column(history_files.TIME)
            ends += [times[0].as_py(), times[len(part) - 1].as_py()]
    return _Encoded(content=stream.getvalue(), first=ends[0], last=ends[-1])


def _parts(pieces: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the same rows in tables that make a row group each."""
    waiting: list[pa.Table] = []
    size = count = 0
    for piece in itertools.chain.from_iterable(map(_small, pieces)):
        is_full = size + piece.nbytes > PART_BYTES_MAX or count + len(piece) > PART_ROWS_MAX
        if waiting and is_full:
            yield pa.concat_tables(waiting)
            waiting, size, count = [], 0, 0
        waiting.append(piece)
        size += piece.nbytes
        count += len(piece)
    if waiting:
        yield pa.concat_tables(waiting)


def _small(rows: pa.Table) -> Iterator[pa.Table]:
    """Yield the same rows, in tables of about a tenth of a row group at most."""
    bytes_a_row = max(1, rows.nbytes // max(1, len(rows)))
    step = max(1, min(PART_ROWS_MAX, PART_BYTES_MAX // bytes_a_row) // 10)
    for first in range(0, len(rows), step):
        yield rows.slice(first, step)


def _stage(
    storage: Storage, encoded: _Encoded, check: Check, level: int, *, may_replace: bool
) -> TreeFile:
    content = encoded.content
    found = history_tree.file_of(encoded.first, encoded.last, level, len(content))
    check()
    try:
        storage.create(found.path, content)
    except (errors.AlreadyExistsError, errors.StorageError) as error:
        try:
            there, version = storage.fetch(found.path)
        except errors.NotFoundError:
            raise errors.StorageError(
                f"{storage.uri}/{found.path} was not created, or another run deleted it: {error}"
            ) from error
        if _same(there, content):
            return replace(found, size_bytes=len(there))
        if not may_replace:
            raise NameTakenError(
                f"{storage.uri}/{found.path} is of another run, with other instants"
            ) from error
        check()
        storage.replace(found.path, content, if_match=version)
    return found


def _same(content: bytes, ours: bytes) -> bool:
    """Return whether a file holds the same rows as ours, perhaps in other row groups."""
    if content == ours:
        return True
    try:
        return all(
            theirs is not None and theirs.equals(our)
            for theirs, our in itertools.zip_longest(_in_batches(content), _in_batches(ours))
        )
    except (pa.ArrowException, KeyError, ValueError):
        return False


def _in_batches(content: bytes) -> Iterator[pa.Table]:
    """Yield all rows, `_MERGED_AT_ONCE` at a time."""
    parquet = pq.ParquetFile(pa.BufferReader(content))
    waiting = SCHEMA.empty_table()
    for batch in parquet.iter_batches(_MERGED_AT_ONCE, columns=SCHEMA.names):
        waiting = pa.concat_tables([waiting, pa.Table.from_batches([batch]).cast(SCHEMA)])
        while len(waiting) >= _MERGED_AT_ONCE:
            yield waiting.slice(0, _MERGED_AT_ONCE)
            waiting = waiting.slice(_MERGED_AT_ONCE)
    if len(waiting):
        yield waiting


def merge(
    storage: Storage, sources: Sequence[TreeFile], check: Check, *, may_replace: bool
) -> TreeFile:
    """Put the rows of files of one level into a file of the next; the first of equal rows counts.

    Their times are in memory, and the row groups that hold the next rows.

    Raises:
        FormatError: One is damaged.
        NameTakenError: As `stage`.
        NotFoundError: One is gone.
    """
    encoded = _encoded(_merged([history_files.HistoryFile(storage, each) for each in sources]))
    return _stage(storage, encoded, check, sources[0].level + 1, may_replace=may_replace)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """A row group of a source; `first` is the place of its first row among those of all sources."""

    source: history_files.HistoryFile
    part: history_files.Part
    first: int


def _merged(sources: Sequence[history_files.HistoryFile]) -> Iterator[pa.Table]:
    """Yield the rows of files in their order, each once, some at a time."""
    groups: list[_Group] = []
    keys: list[pa.Table] = []
    for source in sources:
        with source.opened() as opened:
            for part in opened.parts:
                first = groups[-1].first + groups[-1].part.row_count if groups else 0
                groups.append(_Group(source=source, part=part, first=first))
            keys.append(opened.rows(opened.parts, _KEY))
    firsts = np.array([each.first for each in groups])
    places = _order(pa.concat_tables(keys))
    held: dict[int, pa.Table] = {}
    for begin in range(0, len(places), _MERGED_AT_ONCE):
        wanted = places[begin : begin + _MERGED_AT_ONCE]
        numbers = np.searchsorted(firsts, wanted, side="right") - 1
        used = np.unique(numbers).tolist()
        held = {each: held[each] if each in held else _rows(groups[each]) for each in used}
        taken = pa.concat_tables(
            held[each].take(wanted[numbers == each] - groups[each].first) for each in used
        )
        yield taken.take(np.argsort(np.argsort(numbers, kind="stable"), kind="stable"))


def _order(keys: pa.Table) -> np.ndarray:
    """Return the places of rows by time and action; of equal ones the first."""
    numbered = keys.append_column("place", pa.array(np.arange(len(keys))))
    ordered = numbered.sort_by([(name, "ascending") for name in (*_KEY, "place")])
    is_new = np.ones(len(keys), dtype=bool)
    if len(keys) > 1:
        changes = [
            pc.not_equal(ordered[name].slice(1), ordered[name].slice(0, len(keys) - 1))
            for name in _KEY
        ]
        is_new[1:] = pc.or_(*changes).to_numpy()
    places: np.ndarray = ordered["place"].to_numpy()[is_new]
    return places


def _rows(group: _Group) -> pa.Table:
    with group.source.opened() as opened:
        return opened.rows([group.part], SCHEMA.names).cast(SCHEMA)


def with_levels_merged(
    storage: Storage,
    files: tuple[TreeFile, ...],
    batch_size: int,
    check: Check,
    *,
    may_replace: bool,
) -> tuple[TreeFile, ...]:
    """Return the files of the tree after full levels were merged; a read of each that is.

    Args:
        storage: The table's.
        files: Of the tree, with what was added.
        batch_size: So many files make a level full.
        check: As of `stage`.
        may_replace: As of `stage`.
    """
    while sources := history_tree.to_merge(files, batch_size):
        try:
            made = merge(storage, sources, check, may_replace=may_replace)
        except NameTakenError as error:
            logger.warning("%s: a level is not merged: %s", storage.uri, error)
            return files
        files = (*(each for each in files if each not in sources), made)
    return files


def put_manifest(storage: Storage, path: str, content: bytes, check: Check) -> None:
    """Have a manifest with this content at its path, in place of what a run that died left there.

    A request, and two more where there is one already.
    """
    try:
        storage.create(path, content)
    except errors.AlreadyExistsError:
        try:
            there, version = storage.fetch(path)
            if there != content:
                check()
                storage.replace(path, content, if_match=version)
        except (errors.ConflictError, errors.NotFoundError) as error:
            # Another process has put it there, and a later run has deleted it by now.
            logger.info("%s/%s is published by another: %s", storage.uri, path, error)


def raise_version(storage: Storage, number: int, check: Check) -> None:
    """Have `_version_` say this number, or a greater one; two requests, or one.

    Raises:
        StorageError: The storage failed, or the version changes faster than it can be read.
    """
    content = str(number).encode("ascii")
    for _ in range(_RAISES_MAX):
        try:
            there, version = storage.fetch(history_tree.VERSION_PATH)
            known = history_tree.version_of(there)
            if known is not None and known >= number:
                return
            check()
            storage.replace(history_tree.VERSION_PATH, content, if_match=version)
        except (errors.NotFoundError, errors.ConflictError):
            check()
            try:
                storage.create(history_tree.VERSION_PATH, content)
            except errors.AlreadyExistsError:
                continue
        return
    raise errors.StorageError(
        f"{storage.uri}/{history_tree.VERSION_PATH} changed during each of {_RAISES_MAX} tries"
    )


def clean(storage: Storage, before: Tree, number: int, archived_below: str, check: Check) -> int:
    """Delete old manifests, then what none of the others lists; return how many files that were.

    Args:
        storage: The table's.
        before: The tree before the newest manifest was published.
        number: Of the newest manifest.
        archived_below: As of `history_tree.garbage`.
        check: Called right before each deletion.

    Raises:
        StorageError: The storage failed; the next run deletes what is left.
    """
    manifests = sorted({*before.manifests, number})
    old = [each for each in manifests if each < number][: -(history_tree.MANIFESTS_KEPT - 1)]
    newest = archived.files_of_manifest(storage, number)
    kept = list(newest)
    for each in manifests:
        if each not in old and each < number:
            try:
                kept += archived.files_of_manifest(storage, each)
            except errors.NotFoundError:
                continue
    count = 0
    paths = [history_tree.manifest_path(each) for each in old]
    paths += [
        each.path for each in history_tree.garbage(before.found, newest, kept, archived_below)
    ]
    for path in paths:
        check()
        count += storage.delete(path)
    return count
