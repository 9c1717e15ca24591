"""How an instant moves from state to state: the only place that creates and deletes its files.

In a table with a chain (`chain`) the files of COMPLETE, and of a REQUEST with a plan, are published
by an epoch instead; the table of events holds there, too.

    state      event     becomes    what is done
    -          REQUEST   requested  create the requested file: the plan, or nothing
    requested  START     inflight   create the inflight file: the workload profile, or nothing
    inflight   COMPLETE  completed  take the completion time, create the completed file
    inflight   REVERT    requested  delete the inflight file; the plan is executed again
    requested  WITHDRAW  -          delete the requested file; no data file is left of it
    completed  REOPEN    inflight   delete the completed file, which appeared too late to count, or
                                    is of a savepoint that ends
    -          SAVE      inflight   create the inflight file of a savepoint, which has no other
    inflight   FORGET    -          delete the inflight file of a savepoint

All but START belong into a scope of the table lock, since others decide on what they change (L1);
of requested and inflight nobody makes a difference who does not own the instant's heartbeat.

A time that was on the timeline is never free again, because files may carry it: WITHDRAW is for a
rollback, whose own times are greater and stay, and for a plan that nobody has touched.

A name is created once: whoever finds it taken looks whether the content is its own, because the
answer to an earlier try may have been lost. An empty file does not tell, so its creator passes a
proof of its own. A creation that was not answered, and left no file, may leave one yet: it is asked
for once more, and whichever of the two comes first tells for good. Source: `ActiveTimelineV2.java`;
protocol.md: State on storage, A write.
"""

import contextlib
import enum
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from hoodie import errors
from hoodie.format import instant_names
from hoodie.model import instants
from hoodie.storage.protocol import Storage
from hoodie.timeline import active, true_time

logger = logging.getLogger(__name__)

_DELETED_AT_ONCE = 10_000
"""So many files are deleted by one call, in a second or so."""


class Event(enum.Enum):
    """What moves an instant."""

    REQUEST = "request"
    START = "start"
    COMPLETE = "complete"
    REVERT = "revert"
    WITHDRAW = "withdraw"
    REOPEN = "reopen"
    SAVE = "save"
    FORGET = "forget"


TRANSITIONS: Mapping[tuple[instants.State | None, Event], instants.State | None] = {
    (None, Event.REQUEST): instants.State.REQUESTED,
    (instants.State.REQUESTED, Event.START): instants.State.INFLIGHT,
    (instants.State.INFLIGHT, Event.COMPLETE): instants.State.COMPLETED,
    (instants.State.INFLIGHT, Event.REVERT): instants.State.REQUESTED,
    (instants.State.REQUESTED, Event.WITHDRAW): None,
    (instants.State.COMPLETED, Event.REOPEN): instants.State.INFLIGHT,
    (None, Event.SAVE): instants.State.INFLIGHT,
    (instants.State.INFLIGHT, Event.FORGET): None,
}
"""The state that an event leads to; None is an instant that is not there. Others are our bugs."""

Proof = Callable[[], bool]
"""Tells whether an instant is the caller's, from something other than the instant's own file."""


def path(instant: instants.Instant) -> str:
    """Return the path of the file that puts an instant into its state."""
    return f"{active.DIRECTORY}/{instant_names.file_name(instant)}"


def request(
    storage: Storage,
    requested_time: instants.InstantTime,
    action: instants.Action,
    content: bytes,
    proof: Proof,
    check: Callable[[], None] = lambda: None,
) -> instants.Instant:
    """Put an instant on the timeline; under the lock, with a time generated in the same scope.

    Args:
        storage: The table's.
        requested_time: Its name.
        action: What it will do.
        content: The plan; empty for commits and delta commits.
        proof: Asked when a file of that name is there and empty.
        check: Called before a creation that was not answered is asked for once more; raises when it
            must not be.

    Raises:
        ConflictError: The name is taken by another.
        OutcomeUnknownError: Neither done nor not done, as far as could be found out.
        StorageError: Not done.
    """
    requested = instants.Instant(
        requested_time=requested_time, action=action, state=_next(None, Event.REQUEST)
    )
    _create(storage, requested, content, proof, check)
    return requested


def start(
    storage: Storage, requested: instants.Instant, content: bytes, proof: Proof
) -> instants.Instant:
    """Make a requested instant inflight.

    Args:
        storage: The table's.
        requested: The instant.
        content: The workload profile; empty for table services.
        proof: Asked when an inflight file is there and empty.

    Raises:
        ConflictError: Somebody else made it inflight.
        OutcomeUnknownError: Neither done nor not done, as far as could be found out.
        StorageError: Not done.
    """
    inflight = requested.pending_in(_next(requested.state, Event.START))
    _create(storage, inflight, content, proof)
    return inflight


def complete(
    storage: Storage,
    inflight: instants.Instant,
    content: bytes,
    *,
    timeline: active.ActiveTimeline,
    times: true_time.TimeGenerator,
    check: Callable[[], None],
) -> instants.Instant:
    """Complete an instant: take the completion time and publish it; nothing else does (T2).

    Args:
        storage: The table's.
        inflight: The instant.
        content: Its metadata, with something in it that no other try has.
        timeline: Read in the scope of the table lock that the caller holds.
        times: Gives the completion time, waiting as it must.
        check: Called right before the file is created; raises when it must not be.

    Raises:
        ClockSkewError: No completion time can be given; nothing is published.
        ConflictError: Another file has the name; nothing is published.
        OutcomeUnknownError: Neither published nor not, as far as could be found out.
        StorageError: The storage failed, and the file is not there.
    """
    completion_time = times.generate(timeline)
    try:
        return complete_at(storage, inflight, completion_time, content, check)
    except errors.OutcomeUnknownError:
        # It may appear later, and nobody sees its time until then.
        times.wait_out(completion_time)
        raise


def complete_at(
    storage: Storage,
    inflight: instants.Instant,
    completion_time: instants.InstantTime,
    content: bytes,
    check: Callable[[], None],
) -> instants.Instant:
    """Complete an instant as `complete`, at a time that the caller has taken in the same scope.

    Raises:
        HoodieError: As `complete`.
    """
    done = completed(inflight, completion_time)
    assert content, done
    check()
    _create(storage, done, content, lambda: False, check)
    logger.info("%s: %s at %s", storage.uri, done, done.completion_time)
    return done


def completed(
    inflight: instants.Instant, completion_time: instants.InstantTime
) -> instants.Instant:
    """Return an instant as it is once it is completed."""
    return replace(
        inflight,
        action=inflight.action.completed,
        state=_next(inflight.state, Event.COMPLETE),
        completion_time=completion_time,
    )


def revert(storage: Storage, inflight: instants.Instant) -> instants.Instant:
    """Make an inflight instant requested again; done already is fine."""
    requested = inflight.pending_in(_next(inflight.state, Event.REVERT))
    storage.delete(path(inflight))
    return requested


def reopen(storage: Storage, completed: instants.Instant) -> None:
    """Make an instant inflight again that a rollback took back before it completed."""
    assert TRANSITIONS[completed.state, Event.REOPEN] is instants.State.INFLIGHT
    storage.delete(path(completed))


def withdraw(storage: Storage, requested: instants.Instant) -> None:
    """Take a requested instant off the timeline; done already is fine."""
    assert TRANSITIONS[requested.state, Event.WITHDRAW] is None
    storage.delete(path(requested))


def save(storage: Storage, requested_time: instants.InstantTime) -> instants.Instant:
    """Begin a savepoint of a commit; begun already, by whichever process, is fine.

    Raises:
        StorageError: Not done, or it is unknown whether it is.
    """
    inflight = instants.Instant(
        requested_time=requested_time,
        action=instants.Action.SAVEPOINT,
        state=_next(None, Event.SAVE),
    )
    with contextlib.suppress(errors.AlreadyExistsError):
        storage.create(path(inflight), b"")
    return inflight


def forget(storage: Storage, inflight: instants.Instant) -> None:
    """Take a savepoint off the timeline that is not completed; done already is fine."""
    assert inflight.action is instants.Action.SAVEPOINT, inflight
    assert TRANSITIONS[inflight.state, Event.FORGET] is None
    storage.delete(path(inflight))


def take_off(
    storage: Storage, archived: Iterable[instants.Instant], check: Callable[[], object]
) -> None:
    """Delete files of archived instants: pending ones first, then completed, the oldest first.

    Args:
        storage: The table's.
        archived: The files.
        check: Called right before each deletion of a completed one; of pending ones, which have no
            order, before each of many at once.
    """
    ordered = sorted(archived, key=str)
    pending = [path(each) for each in ordered if each.is_pending]
    for first in range(0, len(pending), _DELETED_AT_ONCE):
        check()
        storage.delete_unordered(pending[first : first + _DELETED_AT_ONCE])
    completed = (path(each) for each in ordered if each.is_completed)
    storage.delete_ordered(_checked(completed, check))


def _checked(paths: Iterable[str], check: Callable[[], object]) -> Iterator[str]:
    """Yield paths; each after a check, as it is asked for."""
    for each in paths:
        check()
        yield each


def _next(state: instants.State | None, event: Event) -> instants.State:
    following = TRANSITIONS.get((state, event))
    assert following is not None, (state, event)
    return following


def _create(
    storage: Storage,
    instant: instants.Instant,
    content: bytes,
    proof: Proof,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Create an instant's file, and find out what happened when the storage does not say."""
    try:
        _create_once(storage, instant, content, proof)
    except errors.UnansweredError as unanswered:
        logger.warning("%s: %s: creation is retried: %s", storage.uri, instant, unanswered)
        try:
            check()
            _create_once(storage, instant, content, proof)
        except errors.ConflictError:
            raise  # The name is another's, for the first call as well.
        except errors.HoodieError as error:
            raise _doubt(storage, instant, error) from error


def _create_once(storage: Storage, instant: instants.Instant, content: bytes, proof: Proof) -> None:
    try:
        storage.create(path(instant), content)
    except (errors.AlreadyExistsError, errors.StorageError) as error:
        # Taken may be by us, too: the client repeats a call to which no answer came.
        try:
            is_done = _is_own(storage, instant, content, proof)
        except errors.StorageError:
            raise _doubt(storage, instant, error) from error
        if not is_done and isinstance(error, errors.AlreadyExistsError):
            raise errors.ConflictError(
                f"instant {instant} of {storage.uri} already exists, created by another process"
            ) from error
        if not is_done:
            raise
        if isinstance(error, errors.AlreadyExistsError) and not content:
            # As a rule an earlier execution of the plan has left it.
            logger.info("%s: %s was there already", storage.uri, instant)
        else:
            logger.warning("%s: %s was created though the answer was lost", storage.uri, instant)


def _doubt(
    storage: Storage, instant: instants.Instant, error: errors.HoodieError
) -> errors.OutcomeUnknownError:
    return errors.OutcomeUnknownError(
        f"it is unknown whether instant {instant} of {storage.uri} was created: {error}"
    )


def _is_own(storage: Storage, instant: instants.Instant, content: bytes, proof: Proof) -> bool:
    try:
        found = storage.read(path(instant))
    except errors.NotFoundError:
        return False
    return found == content and (bool(content) or proof())
