"""Publishing an action: what must hold is found out, and the completed file created.

All in one lock scope. Source: protocol.md: A write, The table lock (C1, W15, L2).
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from hoodie import errors
from hoodie.model import commits, instants, table_config
from hoodie.timeline import (
    active,
    contents,
    epochs,
    table_properties,
    transitions,
    true_time,
)
from hoodie.transaction import (
    admission,
    authors,
    fencing,
    heartbeats,
    preconditions,
    table_lock,
    writer_batches,
)
from hoodie.transaction.client import Client, OpenAction

logger = logging.getLogger(__name__)

Check = Callable[[table_lock.LockScope, OpenAction], object]
"""Raises when an action must not complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accompaniment:
    """What the epoch that completes an action publishes first.

    Attributes:
        beside: Contents by path, on the timeline of the metadata table.
        properties: Changes of the table's properties, after them; as of `epochs.Change`.
    """

    beside: Mapping[str, bytes] = field(default_factory=dict)
    properties: Mapping[str, str | None] = field(default_factory=dict)


ALONE = Accompaniment()


def checked(client: Client, scope: table_lock.LockScope, opened: OpenAction) -> OpenAction:
    """Return an action with the configuration as it is now; refuse it unless all of C1 holds.

    Raises:
        HoodieError: As `preconditions.publication_refusal` says, or a guard.
    """
    config = _config(client, scope, opened)
    refusal = preconditions.publication_refusal(
        preconditions.PublicationFacts(
            inflight=opened.inflight,
            author=client.author,
            write_id=_recorded_id(opened),
            begun_on=opened.timeline,
            timeline=scope.timeline,
            is_heartbeat_own=_is_heartbeat_own(scope, opened),
            rollback_targets=rollback_targets(client, opened, scope.timeline),
            attempt=fencing.read(client.storage, client.author),
            config=config,
            expected=opened.config,
            is_heartbeat_alive=opened.heartbeat.is_alive(),
        )
    )
    if refusal is not None:
        raise refusal
    client.check_guards()
    return replace(opened, config=config)


def _is_heartbeat_own(scope: table_lock.LockScope, opened: OpenAction) -> bool:
    """Return whether no other process has taken over an action.

    In a table without foreign writers the timeline shows that of a write, whose rollback is an
    epoch. Of two executions of one plan only the heartbeats differ.
    """
    is_on_timeline = scope.is_courtesy and opened.action in instants.WRITES
    return is_on_timeline or opened.heartbeat.is_own()


def _config(
    client: Client, scope: table_lock.LockScope, opened: OpenAction
) -> table_config.TableConfig:
    """Return the table's configuration; a request, unless the chain shows that it is the same."""
    view = scope.view
    is_unchanged = (
        scope.is_courtesy
        and view is not None
        and opened.epoch is not None
        and view.head.epoch.configured <= opened.epoch
    )
    if is_unchanged:
        return opened.config
    return table_properties.load(client.storage, client.clock)


def publish(
    client: Client,
    scope: table_lock.LockScope,
    opened: OpenAction,
    content: bytes,
    accompaniment: Accompaniment = ALONE,
) -> instants.Instant:
    """Take the completion time and create the completed file, after `checked` found nothing.

    Args:
        client: Whose action it is.
        scope: In which it is completed.
        opened: The action.
        content: Of the completed file.
        accompaniment: What is published first, in a table without foreign writers.

    Raises:
        HoodieError: As `transitions.complete`; or lock or heartbeat were lost meanwhile.
        OvertakenError: The table has a chain, and another change was made first.
    """
    try:
        if client.chain is not None:
            return _publish_chained(client, scope, opened, content, accompaniment)
        client.times.rise_above(scope.floor)
        return transitions.complete(
            client.storage,
            opened.inflight,
            content,
            timeline=scope.timeline,
            times=client.times,
            check=admission.holding(scope, opened.heartbeat),
        )
    except errors.StorageError:
        opened.heartbeat.kill("was not published, according to the storage")
        raise
    except errors.OutcomeUnknownError:
        # It may still be on its way to the store: leave it the time until the heartbeat expires.
        opened.heartbeat.doubt("may have been published")
        raise


def put(
    client: Client,
    scope: table_lock.LockScope,
    instant: instants.Instant,
    content: bytes,
    check: Callable[[], None],
    accompaniment: Accompaniment = ALONE,
) -> instants.Instant:
    """Put an instant's file on the timeline of a table with a chain, by the next epoch.

    Args:
        client: Whose change it is.
        scope: In which it was decided.
        instant: In the state that the file puts it into, its newest time given in this scope.
        content: Of the file.
        check: Called right before the epoch is created; raises when it must not be.
        accompaniment: What it publishes first.

    Raises:
        OvertakenError: Another change was made first.
        OutcomeUnknownError: The change is made, and readers will not see it before the next one; or
            whether it is made could not be found out.
        StorageError: It is not made.
    """
    change = epochs.Change(
        id=client.random.uuid(),
        time=active.latest_time(instant),
        author=str(client.author),
        files={transitions.path(instant): content},
        beside=accompaniment.beside,
        properties=accompaniment.properties,
    )
    make(client, scope, change, check)
    return instant


def make(
    client: Client, scope: table_lock.LockScope, change: epochs.Change, check: Callable[[], None]
) -> None:
    """Make a change of a table with a chain, by the next epoch.

    Args:
        client: Whose change it is.
        scope: In which it was decided.
        change: The change.
        check: As in `put`.

    Raises:
        HoodieError: As `put`.
    """
    assert client.chain is not None, client.storage.uri
    assert scope.view is not None, client.storage.uri
    head = client.chain.append(scope.view, change, check)
    try:
        client.chain.publish(head, scope.check)
    except errors.HoodieError as error:
        what = (
            ", ".join((*change.files, *change.removals, *change.withdrawn))
            or "the table's properties"
        )
        raise errors.OutcomeUnknownError(
            f"epoch {head.epoch.number} of {client.storage.uri} has taken effect, but {what} could "
            "not be written: the next change of the table does, unless another engine has changed "
            f"the table by then; {error}"
        ) from error
    try:
        client.chain.collect(head)
    except errors.HoodieError as error:
        logger.warning("%s: old epochs are left: %s", client.storage.uri, error)


def take_number(
    client: Client,
    scope: table_lock.LockScope,
    check: Callable[[], None],
    time: str = "",
    withdrawn: tuple[str, ...] = (),
) -> None:
    """Create the next epoch with nothing else in it: none that was decided before can be created.

    Args:
        client: Whose it is.
        scope: In which it was decided.
        check: As in `put`.
        time: That later epochs give greater ones than; empty for none.
        withdrawn: Paths of the files of a plan that it deletes.

    Raises:
        HoodieError: As `put`.
    """
    nothing = epochs.Change(
        id=client.random.uuid(), time=time, author=str(client.author), withdrawn=withdrawn
    )
    make(client, scope, nothing, check)


def _publish_chained(
    client: Client,
    scope: table_lock.LockScope,
    opened: OpenAction,
    content: bytes,
    accompaniment: Accompaniment,
) -> instants.Instant:
    """Complete an instant by the next epoch; its time is above all that went before (CH4)."""
    completed = transitions.completed(
        opened.inflight, client.time_after(scope, true_time.Parity.EPOCH)
    )
    is_ours = admission.holding(scope, opened.heartbeat)
    put(client, scope, completed, content, is_ours, accompaniment)
    logger.info("%s: %s at %s", client.storage.uri, completed, completed.completion_time)
    return completed


def rollback_targets(
    client: Client, opened: OpenAction, timeline: active.ActiveTimeline
) -> contents.RollbackTargets:
    """Return what rollbacks requested since a write take back; a request for each.

    Nothing takes a rollback back. What had completed when the execution of a plan began took back
    an earlier execution.
    """
    if not opened.action.is_write:
        return {}
    completed = {each.requested_time for each in opened.timeline.instants if each.is_completed}
    found = contents.read_rollback_targets(client.storage, timeline, after=opened.requested_time)
    return {time: target for time, target in found.items() if time not in completed}


def findings_of_others(scope: table_lock.LockScope) -> tuple[str, ...]:
    """Return what is to be said of other engines, after a change was made in a scope (CH13)."""
    view = scope.view
    if view is None:
        return ()
    found = epochs.findings(view, epochs.foreign(view.head.epoch, view.timeline))
    return tuple(each.text for each in found)


def clock_findings(client: Client) -> tuple[str, ...]:
    """Return which instant is ahead of our clock and who wrote it, where that was passed over."""
    suspect = client.times.suspect
    if suspect is None:
        return ()
    writer = "an unknown writer"
    if suspect.is_completed and suspect.action.is_write:
        try:
            extra = contents.read_commit(client.storage, suspect).extra
            writer = extra.get(commits.WRITER_ID_KEY) or extra.get(commits.ACTION_ID_KEY) or writer
        except errors.HoodieError as error:
            logger.warning(
                "%s: the writer of %s is unknown: %s", client.storage.uri, suspect, error
            )
    finding = (
        f"instant {suspect} of {writer} is ahead of this machine's clock by more than "
        f"{client.settings.clock_skew_ms_max} ms; later instants follow it"
    )
    return (finding,)


def ids(client: Client, scope: table_lock.LockScope, opened: OpenAction) -> dict[str, str]:
    """Return what a commit of ours says beside its own metadata, in the scope that publishes it.

    Raises:
        ConflictError: The table has a chain, and holds the batch since the write began.
    """
    found = authors.extra_metadata(client.author, opened.write_id, opened.batch_id)
    ledger = writer_batches.read(client.storage, scope.timeline, opened.ledger)
    writer_id = client.author.writer_id
    if writer_id is not None and opened.batch_id is not None:
        if scope.view is not None and ledger.holds(writer_id, opened.batch_id):
            raise errors.ConflictError(
                f"batch {opened.batch_id} of {client.author} was written by another attempt since "
                f"{opened.requested_time} began"
            )
        known = opened.ledger.batches.get(writer_id, ())
        ledger = ledger.including(writer_id, [*known, opened.batch_id])
    # An empty one, too: whoever looks for it then needs to look no further.
    found[writer_batches.LEDGER_KEY] = writer_batches.encode(ledger.batches)
    found[writer_batches.THROUGH_KEY] = ledger.through
    return found


def confirm_plan(
    client: Client, planned: instants.Instant, planned_on: active.ActiveTimeline
) -> None:
    """Take a plan back that others have overtaken before it was on the timeline.

    It was put there in somebody else's time with the lock, perhaps. What completed since, with no
    greater time, the plan does not know, though its base files would stand for it.

    Raises:
        LockLostError: They have. The plan is gone, unless somebody executes it already: who does
            merges what it has missed, and files may carry its time.
        LockTimeoutError: The lock was not acquired in time; the plan stays as it is.
    """
    with client.lock.scope() as scope:
        if not _is_overtaken(planned, planned_on, scope.timeline):
            return
        lost = f"the {client.lock.description} was lost while {planned} was added to the timeline"
        status = client.heartbeats.look(planned.requested_time)
        is_touched = status.liveness is not heartbeats.Liveness.MISSING
        if is_touched or planned not in scope.timeline.instants:
            raise errors.LockLostError(
                f"{lost}; {status.owner or 'another process'} has executed it"
            )
        scope.check()
        transitions.withdraw(client.storage, planned)
    raise errors.LockLostError(
        f"{lost}, and the timeline has changed since: the plan was withdrawn; plan again"
    )


def _is_overtaken(
    planned: instants.Instant, before: active.ActiveTimeline, now: active.ActiveTimeline
) -> bool:
    """Return whether an instant has a plan's time, or has completed without a greater one.

    Or a clean was planned, which may delete files that the plan names: it did not see the plan.
    """
    time = planned.requested_time
    return any(
        time in {each.requested_time, each.completion_time}
        or each.action is instants.Action.CLEAN
        or (each.completion_time is not None and each.completion_time < time)
        for each in set(now.instants) - set(before.instants)
        if (each.requested_time, each.action.completed) != (time, planned.action.completed)
    )


def _recorded_id(opened: OpenAction) -> str | None:
    """Return the write id that the author's attempt record must name; None for an action beside."""
    return opened.write_id if opened.action.is_write else None
