"""Which batches a table holds of which writer, so that each is written once (rule WR1).

A commit names its writer and batch in its extra metadata. Beside that every commit of ours carries
the ledger: under `LEDGER_KEY` a JSON object of each writer's newest batch ids, oldest first. It is
merged under the lock from the newest commit that has one, so neither archiving nor other writers
lose it, and a look at one commit normally tells whether a batch is there.

The newest `KEPT` batches of a writer are remembered; `committed` knows all of the active timeline.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from hoodie import errors
from hoodie.format import timeline_avro
from hoodie.model import commits, instants, jobs
from hoodie.storage.protocol import Storage
from hoodie.timeline import active, transitions

LEDGER_KEY = "hoodie.operator.batches"
"""Extra metadata key of commits: the ledger."""

KEPT = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The newest batches of each writer as of some timeline.

    Attributes:
        batches: Batch ids by writer id, oldest first.
        source: The completed instant it was found in; None when no commit has one.
        through: Completion time of the newest write it takes into account; empty for none.
    """

    batches: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    source: instants.Instant | None = None
    through: str = ""

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


def read(storage: Storage, timeline: active.ActiveTimeline, known: Ledger | None = None) -> Ledger:
    """Return the ledger as of a timeline.

    Reads one commit when the newest is ours; else goes back to the newest one that is, but not
    beyond what is known already.

    Args:
        storage: The table's.
        timeline: Read under the lock, if the answer is to stay true.
        known: An earlier ledger of the same table.

    Raises:
        FormatError: A commit's metadata is broken.
    """
    writes = timeline.completed_writes
    through = str(writes[-1].completion_time) if writes else ""
    # What is known is of no use once the commit it stood in was taken back.
    if known is not None and known.source is not None and not timeline.has_file(known.source):
        known = None
    for instant in reversed(writes):
        if known is not None and str(instant.completion_time) <= known.through:
            return replace(known, through=through)
        extra = read_metadata(storage, instant).extra
        if LEDGER_KEY in extra:
            batches = decode(extra[LEDGER_KEY], str(instant))
            return Ledger(batches=batches, source=instant, through=through)
    return Ledger(through=through)


def committed(storage: Storage, timeline: active.ActiveTimeline, writer_id: str) -> frozenset[str]:
    """Return all batches of a writer that the active timeline, or the ledger, holds.

    Reads every commit of the active timeline: for the start of a run, not for each write.

    Raises:
        FormatError: A commit's metadata is broken.
    """
    found: set[str] = set()
    has_ledger = False
    for instant in reversed(timeline.completed_writes):
        extra = read_metadata(storage, instant).extra
        if extra.get(jobs.WRITER_ID_KEY) == writer_id and jobs.BATCH_ID_KEY in extra:
            found.add(extra[jobs.BATCH_ID_KEY])
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
        raise errors.FormatError(f"{source}: {LEDGER_KEY} is no JSON: {error}") from error
    if not isinstance(data, dict) or not all(
        isinstance(batches, list) and all(isinstance(batch, str) for batch in batches)
        for batches in data.values()
    ):
        raise errors.FormatError(f"{source}: {LEDGER_KEY} is no object of lists of texts")
    return {writer_id: tuple(batches) for writer_id, batches in data.items()}


def read_metadata(storage: Storage, completed: instants.Instant) -> commits.CommitMetadata:
    """Return the metadata of a completed write."""
    path = transitions.path(completed)
    return timeline_avro.decode_commit(storage.read(path), path)
