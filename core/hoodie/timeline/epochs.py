"""Epochs as values: what the files of a chain say, and what follows from one and a timeline.

    .hoodie/.aux/epoch/{number, 20 digits}              an epoch: the whole intent, as JSON
    .hoodie/.aux/epoch/staged/{number}.{id}.{place}     content too large to stand in one

Terms:
    known     of an epoch: the completed instants that its author saw on the timeline
    foreign   completed by none of our epochs; another engine did
    annulled  of the epoch before: what it was to publish, and nobody will, since another engine has
              changed the table in the meantime

An author of ours sees all that epochs before have published. So a completed instant that an epoch
neither knows nor publishes is foreign; where its time is not greater, it has slipped in: either was
made without the lock, and neither was checked for conflicts with the other (CH13).

Source: the user's rules CH1 to CH16; protocol.md: The chain.
"""

import bisect
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from hoodie import errors
from hoodie.format import instant_names
from hoodie.model import instants, json_values, table_config
from hoodie.timeline import active, history_tree, metadata_timelines

DIRECTORY = ".hoodie/.aux/epoch"
STAGED = f"{DIRECTORY}/staged"

KEPT = 100
"""So many epochs a chain keeps at least: more than others create while a process is at work."""

KNOWN_MAX = 200
"""So many completed instants an epoch lists, the newest: that more slip in late is not expected."""

FINDINGS_MAX = 20
"""So many findings an epoch carries on, the newest."""

REMOVED_MAX = 50
"""So many removed savepoints an epoch carries on, the newest."""

_DIGITS = 20

ARCHIVED = (*instants.WRITES, instants.Action.CLEAN, instants.Action.ROLLBACK)
"""Completed actions that are archived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """A file that an epoch publishes.

    Attributes:
        path: Below the table's root.
        digest: SHA-256 of its content, in hexadecimal digits.
        content: In base64; empty where it is staged.
        staged: Path of the staged content; empty where it is not.
    """

    path: str
    digest: str
    content: str = ""
    staged: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What another engine did that the table's users should know.

    Attributes:
        number: Of the epoch that it is about.
        text: A sentence.
    """

    number: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """A change of the table, as its file says it.

    Attributes:
        version: Of this format.
        chain: Id of the chain.
        number: Counts from 0, which is the table's creation.
        id: Of this try to create it.
        previous: Digest of the file of the epoch before; empty for the first.
        time: The greatest time that an epoch has given so far; empty for none.
        boundary: Epochs with smaller numbers may be gone.
        kept: How many epochs the chain keeps at least; carried on from its first one.
        author: Whose change it is, for messages.
        beside: What it publishes first, on the timeline of the metadata table.
        publications: What it publishes, in that order.
        properties: What it changes in the table's properties; None removes a key.
        configured: Number of the newest epoch that has changed properties.
        is_last: Whether it ends the chain: the table has none from then on.
        removals: Paths of the completed files of savepoints that it deletes.
        removed: Names of those that epochs before have deleted, the newest: if one is there again,
            a process that was paused has published it once more.
        withdrawn: Paths of the files of a plan to build an index that it deletes: from then on
            nobody executes it.
        since: Instants that completed later stand in `known`; empty for all.
        known: Names of the files of completed instants on the timeline that it was decided on.
        foreign: Those of them that are foreign, and that the epoch before did not know.
        annulled: Paths of the epoch before that it annuls.
        findings: About epochs that are kept.
        earlier: Ids of the chains that the table had before.
        archived_below: Requested time below which everything was archived that may be; empty for
            none. It only grows.
    """

    version: int
    chain: str
    number: int
    id: str
    previous: str
    time: str
    boundary: int
    kept: int
    author: str
    beside: tuple[Publication, ...] = ()
    publications: tuple[Publication, ...] = ()
    properties: Mapping[str, str | None] = field(default_factory=dict)
    configured: int = 0
    is_last: bool = False
    removals: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    withdrawn: tuple[str, ...] = ()
    since: str = ""
    known: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    annulled: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    earlier: tuple[str, ...] = ()
    archived_below: str = ""

    @property
    def is_archiving(self) -> bool:
        """Whether it publishes a manifest of the archive."""
        return any(is_manifest(each.path) for each in self.publications)

    @property
    def names(self) -> frozenset[str]:
        """Of the files of instants that it publishes."""
        return frozenset(_name(each.path) for each in self.publications)

    @property
    def gone(self) -> frozenset[str]:
        """Names of the files of savepoints, and of a plan, that are none any more."""
        return frozenset((*map(_name, self.deleted), *self.removed))

    @property
    def deleted(self) -> tuple[str, ...]:
        """Paths of the files that it deletes, in that order."""
        return *self.removals, *self.withdrawn


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """An epoch, and the digest of its file."""

    epoch: Epoch
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a change is decided on.

    Attributes:
        head: The newest epoch.
        timeline: Read after it, with what it publishes.
        has_foreign_writers: Whether the table says that other engines write it.
        annulled: Paths that it was to publish, and that nobody will.
    """

    head: Head
    timeline: active.ActiveTimeline
    has_foreign_writers: bool
    annulled: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is to be the next epoch.

    Attributes:
        id: Fresh for each try.
        time: That it gives, above the one of the head; empty where it gives none.
        author: Whose it is.
        files: Contents to publish by path.
        beside: The same of files that are published before, on the metadata table's timeline.
        properties: As in `Epoch`.
        is_last: As in `Epoch`.
        removals: As in `Epoch`.
        withdrawn: As in `Epoch`.
        archived_below: As in `Epoch`; empty where it archives nothing.
    """

    id: str
    time: str
    author: str
    files: Mapping[str, bytes] = field(default_factory=dict)
    beside: Mapping[str, bytes] = field(default_factory=dict)
    properties: Mapping[str, str | None] = field(default_factory=dict)
    is_last: bool = False
    removals: tuple[str, ...] = ()
    withdrawn: tuple[str, ...] = ()
    archived_below: str = ""


def beginning(name: table_config.ChainName, author: str, kept: int = KEPT) -> Epoch:
    """Return the epoch that the chain of a new table begins with.

    Args:
        name: Of the chain.
        author: Who begins it.
        kept: How many epochs it keeps at least.
    """
    return Epoch(
        version=name.version,
        chain=name.id,
        number=0,
        id=name.id,
        previous="",
        time="",
        boundary=0,
        kept=kept,
        author=author,
    )


def beginning_after(
    before: Head | None,
    name: table_config.ChainName,
    author: str,
    timeline: active.ActiveTimeline,
    properties: Mapping[str, str | None],
) -> Epoch:
    """Return the epoch that a chain of a table begins with that has none.

    Args:
        before: The last epoch of the table's earlier chain; None if it had none.
        name: Of the chain.
        author: Who begins it.
        timeline: Of the table.
        properties: By which the table has the chain.
    """
    since, known = _known(timeline)
    first = beginning(name, author)
    if before is not None:
        earlier = before.epoch
        first = replace(
            first,
            number=earlier.number + 1,
            previous=before.digest,
            boundary=earlier.boundary,
            kept=earlier.kept,
            earlier=(*earlier.earlier, earlier.chain),
            removed=_removed(earlier, ()),
            archived_below=earlier.archived_below,
        )
    return _with_version(
        first,
        time=timeline.greatest_time or "",
        properties=properties,
        configured=first.number,
        since=since,
        known=known,
    )


def following(
    view: View,
    change: Change,
    publications: Iterable[Publication],
    beside: Iterable[Publication] = (),
) -> Epoch:
    """Return the epoch that makes a change."""
    before = view.head.epoch
    since, known = _known(view.timeline, change.removals)
    others = foreign(before, view.timeline)
    number = before.number + 1
    boundary = _boundary(before)
    kept = [each for each in before.findings if each.number >= boundary]
    epoch = Epoch(
        version=table_config.CHAIN_VERSION,
        chain=before.chain,
        number=number,
        id=change.id,
        previous=view.head.digest,
        time=change.time or before.time,
        boundary=boundary,
        kept=before.kept,
        author=change.author,
        beside=tuple(beside),
        publications=tuple(publications),
        properties=change.properties,
        configured=number if change.properties else before.configured,
        is_last=change.is_last,
        removals=change.removals,
        removed=_removed(before, view.annulled),
        withdrawn=change.withdrawn,
        since=since,
        known=known,
        foreign=tuple(map(instant_names.file_name, others)),
        annulled=view.annulled,
        findings=(*kept, *findings(view, others))[-FINDINGS_MAX:],
        earlier=before.earlier,
        archived_below=max(before.archived_below, change.archived_below),
    )
    return _with_version(epoch)


_SINCE = {2: ("removals", "removed", "archived_below"), 3: ("beside",), 4: ("withdrawn",)}
"""Fields that epochs have from a version on."""


def _with_version(epoch: Epoch, **changes: object) -> Epoch:
    """Return an epoch of the version that its fields need."""
    changed = replace(epoch, **changes)  # type: ignore[arg-type] # by name
    needed = (
        version
        for version, names in _SINCE.items()
        if any(getattr(changed, each) for each in names)
    )
    return replace(changed, version=max(needed, default=table_config.CHAIN_VERSION))


def _boundary(before: Epoch) -> int:
    """Return the boundary after an epoch; it moves by as many epochs at once as are kept."""
    number = before.number + 1
    return number - before.kept if number - before.boundary >= 2 * before.kept else before.boundary


def _removed(before: Epoch, annulled: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the savepoints that an epoch and those before it have deleted."""
    kept = set(map(_name, annulled))
    found = (*before.removed, *map(_name, before.removals))
    return tuple(each for each in found if each not in kept)[-REMOVED_MAX:]


def lacking(epoch: Epoch, timeline: active.ActiveTimeline) -> tuple[Publication, ...]:
    """Return what an epoch publishes and a timeline lacks."""
    return tuple(
        each
        for each in epoch.publications
        if (instant := instant_names.parse(_name(each.path))) is None
        or not timeline.has_file(instant)
    )


def remaining(epoch: Epoch, timeline: active.ActiveTimeline) -> tuple[str, ...]:
    """Return the paths of the files that an epoch deletes, or one before, and a timeline has."""
    if not epoch.gone:
        return ()
    names = frozenset(map(instant_names.file_name, (*timeline.completed, *timeline.files)))
    # A plan stays one until the last file is gone, and an executor begins with an inflight one.
    found = [each for each in epoch.deleted if _name(each) in names]
    return *found, *(f"{active.DIRECTORY}/{each}" for each in epoch.removed if each in names)


def foreign(epoch: Epoch, timeline: active.ActiveTimeline) -> tuple[instants.Instant, ...]:
    """Return the completed instants on a timeline that an epoch neither knows nor publishes.

    Another engine completed them; or an epoch of ours that came later, where it is not the newest.
    """
    accounted = {*epoch.known, *epoch.names, *epoch.gone}
    return tuple(
        each
        for each in active.completed_after(timeline, epoch.since)
        if instant_names.file_name(each) not in accounted
    )


def findings(view: View, others: Iterable[instants.Instant]) -> tuple[Finding, ...]:
    """Return what other engines did since an epoch that the table's users should know.

    Args:
        view: With the epoch as its head.
        others: The foreign instants.
    """
    epoch = view.head.epoch
    found = []
    for each in others:
        what = f"{each}, at {each.completion_time},"
        if not view.has_foreign_writers:
            found.append(
                f"{what} was completed by another engine, expected none to write a table with "
                f"{table_config.FOREIGN_WRITERS_KEY}=false"
            )
        elif str(each.completion_time) <= epoch.time:
            found.append(
                f"{what} was completed by another engine at the same time as epoch "
                f"{epoch.number}, {_shown(epoch)}: one of them did not hold the table lock, and "
                "conflicts between them were not looked for; or the table is in local time, and "
                "clocks were put back between them"
            )
    found.extend(
        f"{_name(path)} of epoch {epoch.number}, by {epoch.author}, was not "
        f"{'deleted' if _name(path) in epoch.gone else 'published'}: another engine changed the "
        "table before that"
        for path in view.annulled
    )
    return tuple(Finding(number=epoch.number, text=text) for text in found)


def _shown(epoch: Epoch) -> str:
    return f"{', '.join(sorted(epoch.names)) or 'a change'} by {epoch.author}"


def prefix(epoch: Epoch, names: frozenset[str]) -> tuple[frozenset[str], frozenset[str]]:
    """Return what readers are to see of a listing, and what it should have and lacks.

    What the epoch itself publishes may not be there yet; later epochs may have published more.

    Args:
        epoch: Of a table without foreign writers, read before.
        names: Of the timeline's files.
    """
    accounted = {*epoch.known, *epoch.names}
    seen = {each for each in names if active.completion_of(each) <= epoch.since} | (
        names & accounted
    )
    return frozenset(seen) - epoch.gone, frozenset(epoch.known) - names


def obstacle(epoch: Epoch, timeline: active.ActiveTimeline) -> str | None:
    """Return why what a timeline lacks of an epoch must not be published; None if nothing is.

    Only another engine can be in the way: it decides without knowing of the epoch. What it has
    completed or planned since may be in conflict; and it takes instants back, or off the timeline.

    Args:
        epoch: The newest, not published.
        timeline: Read after the epoch was.
    """
    others = foreign(epoch, timeline)
    if others:
        return f"{others[-1]} was completed by another engine in the meantime"
    for each in timeline.instants:
        if each.requested_time > epoch.time and each.action not in instants.WRITES:
            return f"{each} was requested by another engine in the meantime"
    for instant in completing(epoch, timeline):
        if not _is_inflight(instant, timeline):
            return f"{instant.requested_time} is no longer inflight"
    return None


def completing(epoch: Epoch, timeline: active.ActiveTimeline) -> tuple[instants.Instant, ...]:
    """Return the instants that an epoch completes and a timeline shows as pending."""
    found = (instant_names.parse(_name(each.path)) for each in lacking(epoch, timeline))
    return tuple(each for each in found if each is not None and each.is_completed)


def is_manifest(path: str) -> bool:
    """Return whether a path is that of a manifest of the archive."""
    return history_tree.manifest_number_of_path(path) is not None


def doubtful(epoch: Epoch, timeline: active.ActiveTimeline) -> tuple[instants.Instant, ...]:
    """Return the files below what was archived that an epoch does not know to be there still.

    The archive decides which of them it holds. Actions that are never archived are left out.

    Args:
        epoch: The newest.
        timeline: Read after it was.
    """
    known = frozenset[str]() if epoch.is_archiving else frozenset(epoch.known)
    older = timeline.files[: _count_below(timeline, epoch.archived_below)]
    kept = {
        (each.requested_time, each.action)
        for each in older
        if each.is_completed and instant_names.file_name(each) in known
    }
    return tuple(
        each
        for each in older
        if each.action.completed in ARCHIVED
        and (each.requested_time, each.action.completed) not in kept
    )


def _count_below(timeline: active.ActiveTimeline, archived_below: str) -> int:
    return bisect.bisect_left(
        timeline.files, archived_below, key=lambda each: str(each.requested_time)
    )


def is_over(epoch: Epoch, file: instants.Instant, timeline: active.ActiveTimeline) -> bool:
    """Return whether a doubtful file is of an instant that was archived, or taken back.

    A request to the archive, and some more for the first.
    """
    if timeline.archive.completion_time(file.requested_time) is not None:
        return True
    return (
        file.is_completed
        and instant_names.file_name(file) not in epoch.known
        and is_alone(file, timeline)
    )


def is_archived(path: str, timeline: active.ActiveTimeline) -> bool:
    """Return whether the instant that had a file, by its path or name, is in the archive by now."""
    instant = instant_names.parse(_name(path))
    if instant is None:
        return False
    return timeline.archive.completion_time(instant.requested_time) is not None


def is_archived_as(path: str, timeline: active.ActiveTimeline) -> bool:
    """Return whether the archive has an instant as a completed file, by its path, names it."""
    instant = instant_names.parse(_name(path))
    if instant is None or instant.completion_time is None:
        return False
    return timeline.archive.completion_time(instant.requested_time) == instant.completion_time


def is_alone(completed: instants.Instant, timeline: active.ActiveTimeline) -> bool:
    """Return whether nothing but its last file is left of an instant, as no author leaves it.

    A savepoint has the requested time of a commit, and an inflight file of its own.
    """
    is_savepoint = completed.action is instants.Action.SAVEPOINT
    return not any(
        each.is_pending
        and each.requested_time == completed.requested_time
        and (each.action is instants.Action.SAVEPOINT) is is_savepoint
        for each in timeline.files
    )


def _is_inflight(completed: instants.Instant, timeline: active.ActiveTimeline) -> bool:
    return any(
        each.requested_time == completed.requested_time
        and each.state is instants.State.INFLIGHT
        and each.action.completed is completed.action
        for each in timeline.files
    )


def _known(
    timeline: active.ActiveTimeline, removals: Iterable[str] = ()
) -> tuple[str, tuple[str, ...]]:
    """Return the names of the newest completed instants, and the time after which they are all."""
    dropped, newest = timeline.completed[:-KNOWN_MAX], timeline.completed[-KNOWN_MAX:]
    since = dropped[-1].completion_time if dropped else None
    gone = set(map(_name, removals))
    names = map(instant_names.file_name, newest)
    return since or "", tuple(each for each in names if each not in gone)


def encoded(epoch: Epoch) -> bytes:
    """Return the content of an epoch's file, as the releases read it that know its version."""
    later = [each for version, names in _SINCE.items() if version > epoch.version for each in names]
    return json_values.encode(epoch, without=later)


def decoded(content: bytes, source: str) -> Head:
    """Return the epoch in a file.

    Raises:
        FormatError: It is damaged, or publishes what no epoch does.
        UnsupportedError: It is of a later version.
    """
    try:
        epoch = json_values.decode(Epoch, content, source)
    except errors.InvalidInputError as error:
        version = _version(content)
        if version is not None and version > table_config.CHAIN_VERSION_NEWEST:
            raise errors.UnsupportedError(
                f"{source} is of version {version}, expected "
                f"{table_config.CHAIN_VERSION_NEWEST} at most: "
                "a later release of this project has written it"
            ) from error
        raise errors.FormatError(f"{error}") from error
    if epoch.version > table_config.CHAIN_VERSION_NEWEST:
        raise errors.UnsupportedError(
            f"{source} is of version {epoch.version}, expected "
            f"{table_config.CHAIN_VERSION_NEWEST} at most"
        )
    _check_fields(epoch, source)
    return Head(epoch=epoch, digest=digest(content))


def _check_fields(epoch: Epoch, source: str) -> None:
    """Refuse an epoch that does what none does.

    Raises:
        FormatError: It is damaged, or hostile.
    """
    if epoch.archived_below:
        _check_time(epoch.archived_below, source)
    if epoch.kept < 1:
        raise errors.FormatError(f"{source} keeps {epoch.kept} epochs, expected one at least")
    for each in (*epoch.beside, *epoch.publications):
        directory, _, name = each.path.rpartition("/")
        staged, _, _ = each.staged.rpartition("/")
        is_instant = instant_names.parse(name) is not None
        if each in epoch.beside:
            is_right = is_instant and directory == metadata_timelines.TIMELINE
        else:
            is_right = (is_instant and directory == active.DIRECTORY) or is_manifest(each.path)
        if not is_right:
            raise errors.FormatError(
                f"{source} publishes {each.path!r}, expected an instant's file, or a manifest"
            )
        if staged not in ("", STAGED):
            raise errors.FormatError(f"{source} has content in {each.staged!r}")
    _check_deleted(epoch, source)


def _check_deleted(epoch: Epoch, source: str) -> None:
    for path in (*epoch.removals, *(f"{active.DIRECTORY}/{each}" for each in epoch.removed)):
        directory, _, name = path.rpartition("/")
        instant = instant_names.parse(name)
        is_savepoint = instant is not None and instant.action is instants.Action.SAVEPOINT
        if directory != active.DIRECTORY or not is_savepoint:
            raise errors.FormatError(f"{source} deletes {path!r}, expected a savepoint's file")
    for path in epoch.withdrawn:
        if not _is_of_plan(path):
            raise errors.FormatError(
                f"{source} deletes {path!r}, expected a file of a plan to build an index"
            )


def _is_of_plan(path: str) -> bool:
    directory, _, name = path.rpartition("/")
    instant = instant_names.parse(name)
    return (
        directory == active.DIRECTORY
        and instant is not None
        and instant.action is instants.Action.INDEXING
        and instant.is_pending
    )


def _check_time(text: str, source: str) -> None:
    try:
        instants.checked_time(text)
    except errors.InvalidInputError as error:
        raise errors.FormatError(f"{source}: archived_below: {error}") from error


def path_of(number: int) -> str:
    """Return the path of an epoch's file."""
    return f"{DIRECTORY}/{number:0{_DIGITS}d}"


def staged_path(number: int, change: Change, place: int) -> str:
    """Return where a content is staged that is too large for an epoch's file."""
    return f"{STAGED}/{number:0{_DIGITS}d}.{change.id}.{place}"


def number_of(name: str) -> int | None:
    """Return the number of an epoch's file, or of content that was staged for it."""
    digits = name.partition(".")[0]
    return int(digits) if len(digits) == _DIGITS and digits.isdecimal() else None


def digest(content: bytes) -> str:
    """Return what tells a content from any other."""
    return hashlib.sha256(content).hexdigest()


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _version(content: bytes) -> int | None:
    """Return the version of an epoch that is not understood; None where it does not say."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return None
    version = found.get("version") if isinstance(found, dict) else None
    return version if isinstance(version, int) else None
