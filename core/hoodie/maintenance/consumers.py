"""Consumers: readers of increments that say how far they have read, for which cleaning waits.

Terms:
    consumed   completion time up to which a consumer has read; it never moves back
    limit      a consumer that is silent for longer does not hold cleaning back any more
    passed     a clean deleted, or may delete, what was replaced at the consumed time or later

A consumer has a file beside the instants, `.hoodie/timeline/consumer-NAME.json`, so that each
listing that decides a clean shows it, and tables without consumers pay no request. Apache Hudi
reads none of it, and its cleaner passes consumers (`passed_by`).

No lock is needed, and none is relied on. A consumer changes its file by a conditional write, and
looks at the timeline afterwards; a cleaner puts its plan on the timeline, and looks for consumers
afterwards, before it deletes anything. So one of the two sees the other: the cleaner keeps what the
consumer needs, or the consumer sees the clean.

The limit counts from the modification time of the file to the time of the timeline, both by the
storage: neither a clock of a consumer nor one of a cleaner shortens it. Source: protocol.md:
Consumers; docs/adr/0026-consumers-beside-the-instants.md.
"""

import enum
import json
import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hoodie import environment, errors
from hoodie.model import instants, json_values, plans, table_config
from hoodie.storage import protocol
from hoodie.timeline import active, archived, contents
from hoodie.transaction import preconditions

logger = logging.getLogger(__name__)

DAY_MS = 86_400_000
LIMIT_DEFAULT_MS = 7 * DAY_MS
LIMIT_MAX_MS = 3650 * DAY_MS

_VERSION = 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)
_TRIES = 5

_CLOCKS_MS = 60_000
"""Clocks of writers, whose settings a consumer does not know, differ by less."""

Look = Callable[[], active.ActiveTimeline]
"""Reads the table's timeline again."""


class State(enum.Enum):
    """What a consumer's file means to a clean."""

    HOLDING = "holding"
    EXPIRED = "expired"
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The content of a consumer's file.

    Attributes:
        version: Of this format.
        consumer: Its name.
        consumed: Completion time up to which it has read.
        limit_ms: How long it may be silent, in milliseconds.
        updated_at_ms: When it was written, by the clock of that process; for people.
        updated_by: Which process that was; for people.
        update_id: Of this very update: files with equal content have one version on some stores.
        position: At the consumed time (`read.positions`), by which writes are found that complete
            below it later; empty where the consumer keeps none.
    """

    version: int
    consumer: str
    consumed: str
    limit_ms: int
    updated_at_ms: int
    updated_by: str
    update_id: str
    position: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """A declared consumer.

    Attributes:
        name: By its file's name.
        record: None if the file is damaged, or of a later version.
        updated_ms: When the file was last modified, by the storage.
        defect: What is wrong with the file, and what to do; empty for nothing.
    """

    name: str
    record: Record | None
    updated_ms: int = 0
    defect: str = ""

    @property
    def consumed(self) -> instants.InstantTime:
        """How far it has read, of a file that is not damaged."""
        assert self.record is not None, self.name
        return instants.InstantTime(self.record.consumed)

    @property
    def held_until_ms(self) -> int | None:
        """When its hold ends if it stays silent; None while the file is damaged."""
        return None if self.record is None else self.updated_ms + self.record.limit_ms

    def state_at(self, now_ms: int) -> State:
        """Return what it means to a clean.

        Args:
            now_ms: A time that has certainly passed, by timeline and storage, since the epoch.
        """
        until_ms = self.held_until_ms
        if until_ms is None:
            return State.DAMAGED
        return State.EXPIRED if now_ms > until_ms else State.HOLDING


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What a consumer says of itself.

    Attributes:
        to: Completion time up to which it has read; None for where it is, and for a new consumer
            the newest completed instant.
        limit_ms: How long it may be silent; None for what it was, at first seven days.
        expected: Where the caller takes it to be; None if that does not matter.
        position: The position at that time, to go on from; empty for none.
    """

    to: instants.InstantTime | None = None
    limit_ms: int | None = None
    expected: instants.InstantTime | None = None
    position: str = ""

    def __post_init__(self) -> None:
        if self.limit_ms is not None and not 0 < self.limit_ms <= LIMIT_MAX_MS:
            raise errors.InvalidInputError(
                f"the limit of a consumer is {self.limit_ms} ms, expected 1 to {LIMIT_MAX_MS} ms "
                f"({LIMIT_MAX_MS // DAY_MS} days)"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Up to where a consumer can have read.

    Attributes:
        newest: The greatest completion time.
        certain: The greatest one before which no instant completes any more.
    """

    newest: instants.InstantTime
    certain: instants.InstantTime


@dataclass(frozen=True, slots=True, kw_only=True)
class Advanced:
    """What became of an update.

    Attributes:
        consumer: As it is now.
        is_new: Whether this update declared it.
        passed_by: A clean that deleted, or may delete, what the consumer has not read yet: it has
            to read the whole table again.
    """

    consumer: Consumer
    is_new: bool
    passed_by: instants.Instant | None = None


def read_all(storage: protocol.Storage, timeline: active.ActiveTimeline) -> tuple[Consumer, ...]:
    """Return the consumers that a timeline shows, by name; two requests each.

    Args:
        storage: The table's.
        timeline: Of the table; who deletes files reads it after the plan is on the timeline.
    """
    found = (_read(storage, name) for name in timeline.consumers)
    return tuple(each for each in found if each is not None)


def record_of(storage: protocol.Storage, name: str) -> Record | None:
    """Return the record of a consumer; None for one that is not declared. A read.

    Raises:
        InvalidInputError: The name is none.
        FormatError: Its file is damaged.
    """
    found = _fetch(storage, checked_name(name))
    return None if found is None else found[0]


def advance(
    storage: protocol.Storage,
    look: Look,
    name: str,
    progress: Progress,
    env: environment.Environment,
    config: table_config.TableConfig,
) -> Advanced:
    """Record how far a consumer has read; a name without a file is declared by that.

    A listing of the timeline before and after it, a read and a write; two reads for each clean that
    was requested after the consumed time.

    Args:
        storage: The table's.
        look: Reads the timeline.
        name: Of the consumer.
        progress: Up to where, and for how long that holds.
        env: The environment.
        config: The table's configuration.

    Raises:
        InvalidInputError: The name is none; the time is later than all that completed, or would
            move the consumer back; or a new one begins before what is certainly there.
        RepeatedTimeError: Other engines may give the time again, and earlier ones.
        ConflictError: It is elsewhere than expected, or others changed it each time that this was
            tried; or a clean began while a new one was declared, which is declared all the same; or
            what it has not read was archived.
        FormatError: Its file is damaged.
    """
    checked_name(name)
    for _ in range(_TRIES):
        timeline = look()
        before = _fetch(storage, name)
        reach = reach_of(timeline, config, env.clock.now_ms())
        record = _next(storage.uri, before and before[0], name, progress, reach, env)
        if before is None:
            _refuse_passed(storage, timeline, record)
        if _put(storage, before, record):
            break
    else:
        raise errors.ConflictError(
            f"the file of consumer {name} of {storage.uri} was changed by other processes during "
            f"each of {_TRIES} updates: expected one process for a consumer"
        )
    after = look()
    passed_by = passing(storage, after, instants.InstantTime(record.consumed))
    if before is None and passed_by is not None:
        raise errors.ConflictError(
            f"consumer {name} of {storage.uri} was declared at {record.consumed} while {passed_by} "
            "deleted what was replaced since then: advance it to a later time, or remove it"
        )
    if _begins_archived(storage, after, record):
        raise errors.ConflictError(
            f"consumer {name} of {storage.uri} has read up to {record.consumed}, and what has "
            "completed since then was archived: advance it to a later time, or remove it"
        )
    consumer = _read(storage, name) or Consumer(name=name, record=record)
    logger.info("%s: consumer %s has read up to %s", storage.uri, name, record.consumed)
    return Advanced(consumer=consumer, is_new=before is None, passed_by=passed_by)


def remove(storage: protocol.Storage, name: str) -> bool:
    """Remove a consumer, whatever its file holds; False if there is none. Up to two requests.

    A name that no consumer of ours has is removed only if the timeline's directory has its file.
    """
    is_ours = _NAME.fullmatch(name) is not None
    if not is_ours and name not in active.listed(storage).consumers:
        return False
    return storage.delete(active.consumer_path(name))


def checked_name(name: str) -> str:
    """Return the name of a consumer.

    Raises:
        InvalidInputError: It is not fit for the name of a file.
    """
    if _NAME.fullmatch(name) is None:
        raise errors.InvalidInputError(
            f"{name[:80]!r} is not the name of a consumer: expected 1 to 63 letters, digits, `.`, "
            "`_` and `-`, a letter or a digit first"
        )
    return name


def passing(
    storage: protocol.Storage, timeline: active.ActiveTimeline, consumed: instants.InstantTime
) -> instants.Instant | None:
    """Return a clean that passes a consumer; None without one. A read for each later clean.

    A clean deletes nothing that was replaced after it was requested, so that older ones do not
    matter. What counts is its plan, whatever was kept when it was executed: another process may be
    executing it, too.
    """
    for each in reversed(timeline.instants):
        if each.action is not instants.Action.CLEAN or each.requested_time <= consumed:
            continue
        try:
            plan = contents.read_clean_plan(storage, each)
        except errors.NotFoundError:
            continue  # It was withdrawn, or archived.
        except (errors.FormatError, errors.UnsupportedError):
            return each  # What it deletes is not known.
        if plan.file_names and _bound_of(plan, each, timeline) > consumed:
            return each
    return None


def _bound_of(
    plan: plans.CleanPlan, clean: instants.Instant, timeline: active.ActiveTimeline
) -> instants.InstantTime:
    """Return up to which completion time a clean may delete what was replaced."""
    ours = plan.extra.get(plans.BOUND_KEY)
    if ours is not None:
        return instants.InstantTime(ours)
    if plan.earliest_retained is None:
        return clean.requested_time
    retained = plan.earliest_retained.requested_time
    return timeline.completion_time(retained) or clean.requested_time


def reach_of(
    timeline: active.ActiveTimeline, config: table_config.TableConfig, clock_ms: int
) -> Reach:
    """Return up to where a consumer can have read.

    While other engines may give times again, what they complete may lie below what has completed.
    """
    times = [each.completion_time for each in timeline.completed if each.completion_time]
    newest = times[-1] if times else instants.format_time(0)
    repetition = preconditions.coming_repetition(config, clock_ms - _CLOCKS_MS, newest)
    if repetition is None:
        return Reach(newest=newest, certain=newest)
    below = [each for each in times if each < repetition.first]
    return Reach(newest=newest, certain=below[-1] if below else instants.format_time(0))


def _next(
    uri: str,
    before: Record | None,
    name: str,
    progress: Progress,
    reach: Reach,
    env: environment.Environment,
) -> Record:
    """Return the next content of a consumer's file.

    Raises:
        ConflictError: It is elsewhere than expected.
        InvalidInputError: It would move back, or be later than the newest completed instant.
        RepeatedTimeError: It would be later than what completes yet.
    """
    newest = reach.newest
    place = None if before is None else instants.InstantTime(before.consumed)
    if progress.expected is not None and progress.expected != place:
        found = "is not declared" if before is None else f"has read up to {place}"
        raise errors.ConflictError(
            f"consumer {name} of {uri} {found}, expected {progress.expected}: another process "
            "updates it, or it was removed"
        )
    consumed = progress.to or place or reach.certain
    if place is not None and consumed < place:
        assert before is not None
        raise errors.InvalidInputError(
            f"consumer {name} of {uri} has read up to {place}, as {before.updated_by} says: it "
            f"does not move back to {consumed}; use another name to read again what was read"
        )
    if progress.to is not None and consumed > max(newest, place or newest):
        raise errors.InvalidInputError(
            f"consumer {name} cannot have read up to {consumed}: the newest instant of {uri} "
            f"completed at {newest}"
        )
    if progress.to is not None and consumed > max(reach.certain, place or reach.certain):
        raise errors.RepeatedTimeError(
            f"consumer {name} cannot have read {uri} up to {consumed} yet: clocks show that time "
            "twice, and other engines may complete instants before it. Read up to "
            f"{reach.certain}, and the rest again when times are not repeated any more"
        )
    limit_ms = before.limit_ms if before is not None else LIMIT_DEFAULT_MS
    return Record(
        version=_VERSION,
        consumer=name,
        consumed=consumed,
        limit_ms=limit_ms if progress.limit_ms is None else progress.limit_ms,
        updated_at_ms=env.clock.now_ms(),
        updated_by=str(env.process),
        update_id=env.random.uuid(),
        position=_position(before, consumed, progress),
    )


def _position(before: Record | None, consumed: instants.InstantTime, progress: Progress) -> str:
    """Return the position to keep: one that goes with another time is none."""
    if progress.position:
        return progress.position
    return before.position if before is not None and before.consumed == consumed else ""


def _refuse_passed(
    storage: protocol.Storage, timeline: active.ActiveTimeline, record: Record
) -> None:
    """Refuse to declare a consumer of what may be gone.

    Raises:
        InvalidInputError: It begins before the active timeline, or a clean has passed it.
    """
    consumed = instants.InstantTime(record.consumed)
    if _begins_archived(storage, timeline, record):
        start = timeline.start or timeline.first
        raise errors.InvalidInputError(
            f"consumer {record.consumer} would begin at {consumed}, before {start}, with which the "
            f"active timeline of {storage.uri} begins: which files were cleaned since then is not "
            "known; read the table, and begin at a later time"
        )
    passed_by = passing(storage, timeline, consumed)
    if passed_by is not None:
        raise errors.InvalidInputError(
            f"consumer {record.consumer} would begin at {consumed}, and {passed_by} of "
            f"{storage.uri} deletes what was replaced since then: read the table, and begin at a "
            "later time"
        )


def _begins_archived(
    storage: protocol.Storage, timeline: active.ActiveTimeline, record: Record
) -> bool:
    """Return whether writes that a consumer has not read may be archived; a read, at most two."""
    start = timeline.start or timeline.first
    is_before = start is not None and record.consumed < start
    return is_before and archived.newest_manifest(storage) is not None


def _put(storage: protocol.Storage, before: tuple[Record, str] | None, record: Record) -> bool:
    """Write a consumer's file in the place of the one found; False if another came first."""
    path = active.consumer_path(record.consumer)
    content = json_values.encode(record, without=() if record.position else ("position",))
    try:
        if before is None:
            storage.create(path, content)
        else:
            storage.replace(path, content, if_match=before[1])
    except (errors.AlreadyExistsError, errors.ConflictError, errors.StorageError) as error:
        found = _fetch(storage, record.consumer)
        if found is not None and found[0] == record:
            return True  # The answer was lost.
        if isinstance(error, errors.StorageError):
            raise
        return False
    return True


def _fetch(storage: protocol.Storage, name: str) -> tuple[Record, str] | None:
    """Return a consumer's record and the version of its file; None without a file.

    Raises:
        FormatError: It is damaged, or of a later version.
    """
    try:
        content, version = storage.fetch(active.consumer_path(name))
    except errors.NotFoundError:
        return None
    return _decoded(storage.uri, name, content), version


def _read(storage: protocol.Storage, name: str) -> Consumer | None:
    """Return a consumer; None if its file is gone.

    The modification time is asked for after the content, so that it is not older.
    """
    path = active.consumer_path(name)
    try:
        content = storage.read(path)
        updated_ms = storage.stat(path).modified_before_ms
    except errors.NotFoundError:
        return None
    try:
        record = _decoded(storage.uri, name, content)
    except errors.FormatError as error:
        return Consumer(name=name, record=None, updated_ms=updated_ms, defect=str(error))
    return Consumer(name=name, record=record, updated_ms=updated_ms)


def _decoded(uri: str, name: str, content: bytes) -> Record:
    """Return the content of the file of a consumer.

    Raises:
        FormatError: It is damaged, or of a later version.
    """
    path = active.consumer_path(name)
    defect = "; ".join(_defects(name, content, path))
    if defect:
        raise errors.FormatError(
            f"the file of consumer {name!r} in {uri} cannot be read ({defect}): expected version "
            f"{_VERSION}; a later release may read it, or `hoodie consumer remove` removes it"
        )
    return json_values.decode(Record, content, path)


def _defects(name: str, content: bytes, path: str) -> Iterator[str]:
    """Yield what is wrong with a file: it ends with the first."""
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        yield f"{path} is not JSON"
        return
    version = data.get("version") if isinstance(data, dict) else None
    if version != _VERSION:
        yield f"{path} is of version {version!r:.40}"
        return
    try:
        record = json_values.decode(Record, content, path)
        instants.checked_time(record.consumed)
    except errors.InvalidInputError as error:
        yield str(error)
        return
    if record.consumer != name:
        yield f"{path} names consumer {record.consumer!r:.80}"
    if not 0 < record.limit_ms <= LIMIT_MAX_MS:
        yield f"{path} has a limit of {record.limit_ms} ms"
