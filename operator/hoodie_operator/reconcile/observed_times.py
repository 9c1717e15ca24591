"""When what was heard of an attempt or a wait, by the monotonic time of the process that decides.

Silence and grace are counted by it alone. The clocks of API server, nodes and pods may be minutes
apart, and the operator's own may step: none of them says how long an attempt has told nothing. What
was told before this process listened it does not know, so that all counts of a leader that has just
begun begin anew.

What a status tells to be waited for is over when either of two says so: the clock on the wall, so
that a wait goes on where its leader is followed by another one, or what was counted here, so that
it takes its own length at most where the clock of the next leader is behind. One that is ahead ends
it early, once: it tells its own times from there on.
"""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field

from hoodie_operator.api import attempts, conditions, objects, times, writer
from hoodie_operator.reconcile import facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """When is decided about an object.

    Attributes:
        wall_ms: By the operator's clock, as statuses tell times.
        monotonic_ms: By its monotonic time, as of `facts.Heard`.
        waits: What the object's stored status tells to be waited for.
    """

    wall_ms: int
    monotonic_ms: int
    waits: facts.Waits = field(default_factory=facts.Waits)

    def waited_ms(self, since: str, heard: facts.Wait | None) -> int:
        """Return how long something has been waited for, by the longer of two counts.

        Args:
            since: The begin, as a status tells it.
            heard: What this process heard of such a wait; it may be another one.
        """
        told_ms = self.wall_ms - times.epoch_ms(since)
        if heard is None or heard.since != since:
            return told_ms
        return max(told_ms, self.monotonic_ms - heard.heard_ms)


def stamp_run(before: facts.Run | None, run: facts.Run, now_ms: int) -> facts.Run:
    """Return an attempt with when it was heard what of it.

    Args:
        before: What was known of it; None for nothing.
        run: What is known of it now.
        now_ms: Monotonic.
    """
    known = None if before is None else before.heard
    if before is None or known is None:
        return dataclasses.replace(run, heard=_first(run, now_ms))
    goes_on = before.waiting is not None and run.waiting is None
    # Who waited for executors had begun before.
    has_begun = goes_on and before.began_ms is None
    is_news = goes_on or run.progress != before.progress or run.began_ms != before.began_ms
    heard = facts.Heard(
        news_ms=now_ms if is_news else known.news_ms,
        begun_ms=now_ms if has_begun else known.begun_ms,
        waiting_ms=known.waiting_ms if _place(run) == _place(before) else now_ms,
        stop_ms=_since(known.stop_ms, now_ms, is_so=run.stop_requested_ms is not None),
        going_ms=_since(known.going_ms, now_ms, is_so=run.unknown_after_ms is not None),
        ended_ms=_since(known.ended_ms, now_ms, is_so=run.ended_ms is not None),
    )
    return dataclasses.replace(run, heard=heard)


def hear_status(before: facts.Waits | None, status: conditions.Status, now_ms: int) -> facts.Waits:
    """Return the waits that a status tells of, with when they were heard of.

    Args:
        before: What was known of the object's; None for nothing.
        status: The object's.
        now_ms: Monotonic.
    """
    known = before or facts.Waits()
    runs: attempts.Runs | None = getattr(status, "runs", None)
    ended = runs.history[-1].end_time if runs and runs.history else None
    commit: writer.LastCommit | None = getattr(status, "last_commit", None)
    return facts.Waits(
        state=_wait(known.state, status.waiting.since if status.waiting else None, now_ms),
        attempt=_wait(known.attempt, ended if runs and runs.next_attempt_time else None, now_ms),
        commit=_wait(known.commit, commit.completion_time if commit else None, now_ms),
    )


class ObservedStatuses:
    """What the statuses of all objects tell to be waited for; who holds the objects changes it.

    Attributes:
        waits: By the uid of their object.
    """

    def __init__(self) -> None:
        """Have heard nothing yet."""
        self.waits: dict[str, facts.Waits] = {}

    def hear(self, found: objects.AnyObject, now_ms: int) -> None:
        """Hear of an object, as it is now, at a monotonic time."""
        self.waits[found.uid] = hear_status(self.waits.get(found.uid), found.status, now_ms)

    def forget(self, uid: str) -> None:
        """Hold nothing of an object that is gone."""
        self.waits.pop(uid, None)


def last_end_ms(runs: Iterable[facts.Run]) -> int | None:
    """Return when it was heard that the newest of several attempts to end had; None for none."""
    heard = [run.heard.ended_ms for run in runs if run.heard and run.heard.ended_ms is not None]
    return max(heard, default=None)


def _wait(known: facts.Wait | None, since: str | None, now_ms: int) -> facts.Wait | None:
    if since is None or (known is not None and known.since == since):
        return None if since is None else known
    return facts.Wait(since=since, heard_ms=now_ms)


def _first(run: facts.Run, now_ms: int) -> facts.Heard:
    return facts.Heard(
        news_ms=now_ms,
        begun_ms=now_ms,
        waiting_ms=now_ms,
        stop_ms=_since(None, now_ms, is_so=run.stop_requested_ms is not None),
        going_ms=_since(None, now_ms, is_so=run.unknown_after_ms is not None),
        ended_ms=_since(None, now_ms, is_so=run.ended_ms is not None),
    )


def _since(known_ms: int | None, now_ms: int, *, is_so: bool) -> int | None:
    if not is_so:
        return None
    return now_ms if known_ms is None else known_ms


def _place(run: facts.Run) -> bool | None:
    """Return what kind of thing an attempt waits for: each has a time limit of its own."""
    return None if run.waiting is None else run.waiting.is_placed
