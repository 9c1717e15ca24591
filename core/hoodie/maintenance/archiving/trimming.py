"""Trimming the archived timeline: files of its tree that are too old are not listed any more.

    propose   a horizon, on a timeline and a listing of the table made after it; without the lock
    decide    under the lock: the horizon by the timeline as it is now, and which of the files that
              were found are still listed
    publish   a manifest without them, as archiving does
    clean     old manifests, and files that none lists: readers by an older manifest go on, so that
              the files go when two more manifests were published

A file goes as a whole, once all its instants were requested and completed before the horizon. A run
that dies leaves a published manifest that the next process finishes, or nothing. Source: none;
Apache Hudi 1.2.0 trims nothing. protocol.md: Archiving (AR-G, AR-H).
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace

from hoodie import errors
from hoodie.filegroup import listing
from hoodie.maintenance.archiving import horizon, manifests
from hoodie.maintenance.archiving.planning import Hold
from hoodie.maintenance.cleaning import service as cleaning
from hoodie.model import instants, plans, results, table_config
from hoodie.storage.protocol import Storage
from hoodie.timeline import active, archived, chain, contents, history_tree, history_writing
from hoodie.transaction import admission, table_lock
from hoodie.transaction.client import Client

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What may be trimmed.

    Attributes:
        latest: The horizon that bounds it.
        facts: On which it was found, the data files left aside; None where nothing is old enough.
        files: All older than that, the oldest first.
        holds: What keeps older files than the policy asks for.
    """

    latest: instants.InstantTime
    facts: horizon.Facts | None = None
    files: tuple[results.HistoryFile, ...] = ()
    holds: tuple[Hold, ...] = ()


def propose(storage: Storage, config: table_config.TableConfig, days: int) -> Proposal:
    """Return what of the history may go, if so many days of it are kept; nothing is changed.

    Requests: those of a timeline, a listing of it, and two for the manifest. Where a file is old
    enough, a listing of the whole table, a request for each rollback and each clean on the
    timeline, and a read of each file that may go.

    Raises:
        FormatError: The history is damaged.
    """
    timeline = chain.load(storage, config)
    latest = horizon.wanted(cleaning.clock_of(storage, config, timeline).now, days)
    old = [each for each in archived.newest_files(storage) if each.last < latest]
    if not old:
        return Proposal(latest=latest)
    facts = _facts(storage, timeline)
    data_files = tuple(_data_files(listing.of_table(storage, config)))
    found = horizon.horizon_of(replace(facts, data_files=data_files), latest)
    kept = [each.last for each in old if each.last >= found.time]
    read = [_content(storage, each) for each in old if each.last < found.time]
    there = [each for each in read if each is not None]
    return Proposal(
        latest=found.time,
        facts=facts,
        files=tuple(
            sorted(
                (each for each in there if each.newest < found.time), key=lambda file: file.first
            )
        ),
        holds=tuple(each for each in found.holds if kept and (each.below or "") <= max(kept)),
    )


def _content(storage: Storage, file: history_tree.TreeFile) -> results.HistoryFile | None:
    """Return what a file of the tree holds; None if another process has merged or trimmed it."""
    try:
        return archived.content_of(storage, file)
    except errors.NotFoundError:
        return None


def _data_files(found: listing.Listing) -> Iterator[listing.DataFile]:
    for path in found.partitions():
        yield from found.files(path)
        yield from found.change_data(path)


def _facts(
    storage: Storage, timeline: active.ActiveTimeline, known: horizon.Facts | None = None
) -> horizon.Facts:
    """Return what a horizon stands on, but for the data files.

    A request for each rollback and clean; for those that are not known, if some are.
    """
    rolled_back = dict(known.rolled_back) if known else {}
    retained = dict(known.retained) if known else {}
    for each in timeline.instants:
        time = each.requested_time
        if each.action is instants.Action.ROLLBACK and time not in rolled_back:
            rolled_back[time] = contents.read_rollback_target(storage, each)
        elif each.action is instants.Action.CLEAN and time not in retained:
            retained[time] = _retained(storage, each)
    return horizon.Facts(timeline=timeline, rolled_back=rolled_back, retained=retained)


def _retained(storage: Storage, clean: instants.Instant) -> instants.InstantTime | None:
    """Return the first commit that a clean retained; None if consumers do not need it."""
    try:
        plan = contents.read_clean_plan(storage, clean)
    except (errors.NotFoundError, errors.FormatError, errors.UnsupportedError):
        return None  # What it deletes is not known: consumers count it as passing them.
    if plans.BOUND_KEY in plan.extra or plan.earliest_retained is None:
        return None
    return plan.earliest_retained.requested_time


def trim(
    client: Client, config: table_config.TableConfig, days: int
) -> tuple[tuple[results.HistoryFile, ...], tuple[Hold, ...]]:
    """Trim the history to so many days; return the files that went, and what keeps older ones.

    Raises:
        ConflictError: The table is being restored, or its configuration has changed.
        HoodieError: Storage or lock failed; what was published is finished by the next run.
    """
    proposal = propose(client.storage, config, days)
    if not proposal.files:
        return (), proposal.holds
    gone = client.lock.decide(lambda scope: _run(client, scope, config, proposal))
    return gone, proposal.holds


def _run(
    client: Client,
    scope: table_lock.LockScope,
    config: table_config.TableConfig,
    proposal: Proposal,
) -> tuple[results.HistoryFile, ...]:
    """Trim in a scope of the table lock; return what went."""
    admission.admit_table(client, scope, config)
    admission.admit_attempt(client)
    admission.admit_reliance(client, scope.timeline)
    tree = history_writing.read_tree(client.storage)
    facts = _facts(client.storage, scope.timeline, proposal.facts)
    now = horizon.horizon_of(facts, proposal.latest)
    listed = {each.name for each in tree.files}
    gone = tuple(each for each in proposal.files if each.newest < now.time and each.name in listed)
    if not gone:
        return ()
    names = {each.name for each in gone}
    kept = [each for each in tree.files if each.name not in names]
    # No write on the timeline is older than its first one.
    archived_below = str(scope.timeline.first or "")
    number = manifests.publish(client, scope, tree, kept, archived_below)
    logger.info(
        "%s: trimmed the history before %s: %d instants",
        client.storage.uri,
        now.time,
        sum(each.count for each in gone),
    )
    manifests.clean(client, scope, tree, number, archived_below)
    return gone
