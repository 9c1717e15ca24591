"""Which batches a table holds of which writer, so that each is written once (rule WR1).

A commit names its writer and batch in its extra metadata. Beside that every commit of ours carries
the ledger: under `LEDGER_KEY` a JSON object of each writer's newest batch ids, oldest first. It is
merged under the lock from the newest commit that has one, so neither archiving nor other writers
lose it, and a look at one commit normally tells whether a batch is there.

A commit that was published after its lock had been lost does not know what completed meanwhile,
though its completion time may be the greater. So each commit says up to which completion time its
ledger knows all writes (`THROUGH_KEY`); those between that and its own are asked as well.

A completed write that a pending rollback takes back may stand or go. Ledgers leave it out, and know
no write that completed later: so it is asked itself, until the rollback has ended.

The newest `KEPT` batches of a writer are remembered; `committed` knows all, those of archived
commits (`archived_batches`) too.
"""

import functools
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from hoodie import deferred, errors
from hoodie.model import commits, instants
from hoodie.storage.protocol import Storage
from hoodie.timeline import active, contents
from hoodie.transaction import authors, fencing

with deferred.imports():
    from hoodie.transaction import archived_batches

LEDGER_KEY = "hoodie.operator.batches"
"""Extra metadata key of commits: the ledger."""

THROUGH_KEY = "hoodie.operator.batches.through"
"""Extra metadata key of commits: the greatest completion time that the ledger takes into account;
empty where there was none. Apache Hudi carries on the newest value that is not empty. A commit
without one knows no write but those of its ledger."""

CARRIED_KEYS = (LEDGER_KEY, THROUGH_KEY)
"""What commits of Apache Hudi should carry on (`hoodie.write.rolling.metadata.keys`)."""

KEPT = 64

_FIRST, _NEVER = "0" * 17, "9" * 17
"""Times before and after all others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The newest batches of each writer as of some timeline.

    Attributes:
        batches: Batch ids by writer id, oldest first.
        sources: The completed instants it was found in; none when no commit has one.
        through: Completion time of the newest write it takes into account; empty for none.
        found_in: What was read to find it.
    """

    batches: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sources: tuple[instants.Instant, ...] = ()
    through: str = ""
    found_in: Mapping[instants.Instant, commits.CommitMetadata] = field(
        default_factory=dict, compare=False
    )

    def last(self, writer_id: str) -> str | None:
        """Return a writer's newest batch."""
        batches = self.batches.get(writer_id)
        return batches[-1] if batches else None

    def holds(self, writer_id: str, batch_id: str) -> bool:
        """Return whether a batch is known to be there."""
        return batch_id in self.batches.get(writer_id, ())

    def including(self, writer_id: str, batch_ids: Iterable[str]) -> "Ledger":
        """Return a ledger that holds these batches of a writer, too; new ones are the newest."""
        held = self.batches.get(writer_id, ())
        added = [batch_id for batch_id in batch_ids if batch_id not in held]
        return replace(self, batches={**self.batches, writer_id: (*held, *added)[-KEPT:]})

    def upon(self, older: "Ledger") -> "Ledger":
        """Return what this ledger and an older one hold together, through the same as this one."""
        merged = older
        for writer_id, batch_ids in self.batches.items():
            merged = merged.including(writer_id, batch_ids)
        sources = (*self.sources, *older.sources)
        return Ledger(batches=merged.batches, sources=sources, through=self.through)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBatches:
    """What an author that begins a write must know of the batches before it.

    Attributes:
        ledger: With the author's own that completed late.
        earlier: What the author's attempt record has to pass on.
        contested: The author's, of writes that have completed and that rollbacks take back.
    """

    ledger: Ledger = field(default_factory=Ledger)
    earlier: fencing.EarlierBatches = field(default_factory=fencing.EarlierBatches)
    contested: frozenset[str] = frozenset()

    def hold(self, author: authors.Author, batch_id: str) -> bool:
        """Return whether the table holds a batch of the author already, or may hold it."""
        if author.writer_id is None:
            return False
        return batch_id in self.contested or self.ledger.holds(author.writer_id, batch_id)


def read(storage: Storage, timeline: active.ActiveTimeline, known: Ledger | None = None) -> Ledger:
    """Return the ledger as of a timeline.

    Reads one commit when the newest is ours, and knew of the one before; else goes back to the
    newest one that is, and to those that it did not know, but not beyond what is known already. A
    request for each pending rollback.

    Args:
        storage: The table's.
        timeline: Read under the lock, if the answer is to stay true.
        known: An earlier ledger of the same table.

    Raises:
        FormatError: A commit's metadata is broken.
    """
    return _read(storage, timeline, contested(storage, timeline), known)


def _read(
    storage: Storage,
    timeline: active.ActiveTimeline,
    contested: Collection[instants.Instant],
    known: Ledger | None = None,
) -> Ledger:
    """Return the ledger as of a timeline, without the writes that rollbacks take back."""
    writes = [each for each in timeline.completed_writes if each not in contested]
    limit = min((str(each.completion_time) for each in contested), default=_NEVER)
    before = [str(each.completion_time) for each in writes if str(each.completion_time) < limit]
    through = before[-1] if before else _FIRST if contested else ""
    # What is known is of no use once a commit it stood in was taken back.
    if known is not None and not all(map(timeline.has_file, known.sources)):
        known = None
    found = Ledger(through=through)
    read_now = {}
    covered: str | None = None  # Completion time up to which the newest ledger knows all writes.
    for instant in reversed(writes):
        completed = str(instant.completion_time)
        if covered is not None and completed <= covered:
            break
        if known is not None and completed <= known.through:
            found = found.upon(known)
            break
        read_now[instant] = contents.read_commit(storage, instant)
        extra = read_now[instant].extra
        if LEDGER_KEY in extra:
            batches = decode(extra[LEDGER_KEY], str(instant))
            found = found.upon(Ledger(batches=batches, sources=(instant,)))
            if covered is None:
                covered = extra.get(THROUGH_KEY)
    return replace(found, found_in=read_now)


def known_to(
    storage: Storage,
    timeline: active.ActiveTimeline,
    author: authors.Author,
    attempt: fencing.StoredRecord | None,
) -> KnownBatches:
    """Return the batches as of a timeline, those included that the ledger does not hold yet.

    One that appeared late, its writer having been paused, may be unknown to the newest commit, and
    stays so until a commit of the same author, even when it is archived. A read for the ledger, and
    one for each of these; what is recorded of archived ones where one may be among them.

    Args:
        storage: The table's.
        timeline: Read under the lock.
        author: Who begins a write.
        attempt: The author's record.

    Raises:
        FormatError: A commit's metadata is broken.
    """
    taken_back = contested(storage, timeline)
    ledger = _read(storage, timeline, taken_back)
    writer_id = author.writer_id
    if writer_id is None or attempt is None:
        return KnownBatches(ledger=ledger)
    record = attempt.record
    late = [batch for batch in record.late_batches if not ledger.holds(writer_id, batch)]
    archived = functools.cache(lambda: archived_batches.load(storage).get(writer_id, ()))
    pending = {}
    recorded = {**record.pending_batches, record.requested_time: record.batch_id}
    for time, batch_id in recorded.items():
        if not batch_id or ledger.holds(writer_id, batch_id):
            continue
        write = timeline.find(instants.checked_time(time))
        if write is None:
            if timeline.is_archived(instants.checked_time(time)) and batch_id in archived():
                late.append(batch_id)
            continue
        if not write.is_completed or write in taken_back:
            pending[time] = batch_id
        elif _is_of_batch(storage, write, writer_id, batch_id):
            late.append(batch_id)
    return KnownBatches(
        ledger=ledger.including(writer_id, late) if late else ledger,
        earlier=fencing.EarlierBatches(late=tuple(late), pending=pending),
        contested=frozenset(_own_batches(storage, taken_back, writer_id)),
    )


def contested(storage: Storage, timeline: active.ActiveTimeline) -> tuple[instants.Instant, ...]:
    """Return the completed writes that pending rollbacks take back; a request for each of these."""
    first = instants.InstantTime("")
    targets = contents.read_rollback_targets(storage, timeline, first, is_pending_only=True)
    taken = set(targets.values())
    return tuple(each for each in timeline.completed_writes if each.requested_time in taken)


def _own_batches(
    storage: Storage, writes: Iterable[instants.Instant], writer_id: str
) -> Iterator[str]:
    """Yield the batches of a writer that some commits hold; a request for each commit."""
    for instant in writes:
        extra = contents.read_commit(storage, instant).extra
        if extra.get(commits.WRITER_ID_KEY) == writer_id and commits.BATCH_ID_KEY in extra:
            yield extra[commits.BATCH_ID_KEY]


def committed(storage: Storage, timeline: active.ActiveTimeline, writer_id: str) -> frozenset[str]:
    """Return all batches of a writer that the timeline, archived commits included, holds.

    Reads every commit of the active timeline and what is recorded of archived ones: for the start
    of a run, not for each write.

    Raises:
        FormatError: A commit's metadata is broken.
    """
    found = set(archived_batches.load(storage).get(writer_id, ()))
    has_ledger = False
    taken_back = contested(storage, timeline)
    for instant in reversed(timeline.completed_writes):
        if instant in taken_back:
            continue
        extra = contents.read_commit(storage, instant).extra
        if extra.get(commits.WRITER_ID_KEY) == writer_id and commits.BATCH_ID_KEY in extra:
            found.add(extra[commits.BATCH_ID_KEY])
        if LEDGER_KEY in extra and not has_ledger:
            has_ledger = True
            found.update(decode(extra[LEDGER_KEY], str(instant)).get(writer_id, ()))
    return frozenset(found)


def encode(batches: Mapping[str, tuple[str, ...]]) -> str:
    """Return the text of a ledger."""
    return json.dumps(batches, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def decode(text: str, source: str) -> Mapping[str, tuple[str, ...]]:
    """Return the ledger in a text.

    Raises:
        FormatError: It is none.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise errors.FormatError(f"{source}: {LEDGER_KEY} is not JSON: {error}") from error
    if not isinstance(data, dict) or not all(
        isinstance(batches, list) and all(isinstance(batch, str) for batch in batches)
        for batches in data.values()
    ):
        raise errors.FormatError(f"{source}: {LEDGER_KEY} is not an object of lists of texts")
    return {writer_id: tuple(batches) for writer_id, batches in data.items()}


def _is_of_batch(storage: Storage, found: instants.Instant, writer_id: str, batch_id: str) -> bool:
    """Return whether what completed with a recorded time is the recorded write.

    The record is there before the instant is: whose author lost the lock in between has written
    nothing, and somebody else's instant may have the time by now. (The simulation found that.) The
    record's write id does not tell: it is taken out when a write is given up.
    """
    if not found.action.is_write:
        return False
    extra = contents.read_commit(storage, found).extra
    return (extra.get(commits.WRITER_ID_KEY), extra.get(commits.BATCH_ID_KEY)) == (
        writer_id,
        batch_id,
    )
