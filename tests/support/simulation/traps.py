"""Ambushes that go together: each trap leads to one place of the protocol where a check is needed.

Most checks have others beside them. That one of them alone matters takes two or three troubles in
the right order, which ambushes drawn one by one meet once in ten thousand runs.
"""

from dataclasses import dataclass

from support.simulation.ambushes import Ambush, Call, Trouble


@dataclass(frozen=True, kw_only=True)
class Trap:
    """Some ambushes, and what they need.

    Attributes:
        victim: Whom they wait for.
        in_wait: The ambushes.
        has_slow_beats: Whether the answers to heartbeats take long.
        has_rows: Whether data files hold rows.
    """

    victim: str
    in_wait: tuple[Ambush, ...]
    has_slow_beats: bool = False
    has_rows: bool = False


def _always(kind: str, call: Call, trouble: Trouble, times: int = 1) -> Ambush:
    return Ambush(kind=kind, call=call, trouble=trouble, rate=1.0, times=times)


def _often(kind: str, call: Call, trouble: Trouble, times: int = 2) -> Ambush:
    return Ambush(kind=kind, call=call, trouble=trouble, rate=0.5, times=times)


ROLLED_BACK_AND_ARCHIVED = (
    _often("w", Call.WRITE_DATA, Trouble.WRONG_VERDICT, 4),
    _often("janitor", Call.END_HEARTBEAT, Trouble.CRASH, 4),
)
"""A write is taken back while its author lives, whose heartbeat is left."""

TRAPS = (
    # Takes a plan over whose executor has died, and loses its lock before the heartbeat is its own.
    Trap(
        victim="compactor",
        in_wait=(
            _always("compactor", Call.WRITE_DATA, Trouble.CRASH),
            _often("compactor", Call.BEGIN_HEARTBEAT, Trouble.LOST_LOCK),
            _often("compactor", Call.DELETE_MARKER, Trouble.CRASH),
        ),
    ),
    # Is taken for dead, and replaced, while it deletes the files of failed tasks.
    Trap(
        victim="compactor",
        in_wait=(
            _often("compactor", Call.WRITE_DATA, Trouble.LOST_LOCK, 4),
            _always("compactor", Call.LIST_MARKERS, Trouble.WRONG_VERDICT),
        ),
    ),
    # The same in an abort, while its successor, which has published, has left its markers.
    Trap(
        victim="compactor",
        in_wait=(
            _often("compactor", Call.WRITE_DATA, Trouble.FAILURE, 1),
            _often("compactor", Call.END_HEARTBEAT, Trouble.LOST_LOCK, 4),
            _always("compactor", Call.LIST_MARKERS, Trouble.WRONG_VERDICT),
        ),
    ),
    # Two executions of one plan publish while they have lost the lock.
    Trap(
        victim="compactor",
        in_wait=(_always("compactor", Call.COMPLETE, Trouble.WRONG_VERDICT, 2),),
    ),
    # Asks what became of its publication while its successor deletes its files.
    Trap(
        victim="compactor",
        in_wait=(
            _always("compactor", Call.COMPLETE, Trouble.WRONG_VERDICT),
            _always("compactor", Call.DELETE_DATA, Trouble.LOST_LOCK),
        ),
    ),
    # Begins an execution that another has begun.
    Trap(
        victim="compactor",
        in_wait=(_always("compactor", Call.START, Trouble.WRONG_VERDICT),),
    ),
    # Plans while others complete, and cannot take the plan back before it is executed.
    Trap(
        victim="compactor",
        in_wait=(
            _often("compactor", Call.REQUEST, Trouble.LOST_LOCK),
            _often("compactor", Call.LIST_TIMELINE, Trouble.FAILURE, 4),
        ),
    ),
    # Writes until its heart has beaten once or twice; then has its lock, but no answers of the
    # storage until the heartbeat has expired.
    Trap(
        victim="w",
        in_wait=(
            _often("w", Call.WRITE_DATA, Trouble.LOST_LOCK, 4),
            _often("", Call.LIST_MARKERS, Trouble.CUT_OFF),
        ),
        has_slow_beats=True,
    ),
    # Is taken for dead while it publishes, asks what became of that while its files are about to be
    # deleted, and while others write who have read its commit.
    Trap(
        victim="w",
        in_wait=(
            _often("w", Call.COMPLETE, Trouble.WRONG_VERDICT),
            _often("w", Call.WRITE_DATA, Trouble.LOST_LOCK, 4),
            _always("janitor", Call.DELETE_DATA, Trouble.LOST_LOCK, 4),
            _often("janitor", Call.TAKE_OFF, Trouble.CRASH),
        ),
    ),
    # Loses its lock while it publishes, and others publish.
    Trap(victim="w", in_wait=(_often("w", Call.COMPLETE, Trouble.LOST_LOCK, 4),)),
    # Leaves a log file of kept deletes behind, which its successor does not name.
    Trap(
        victim="compactor",
        in_wait=(_often("compactor", Call.WRITE_DATA, Trouble.WRONG_VERDICT),),
        has_rows=True,
    ),
    # Dies again and again while it publishes, and what it asked for appears later.
    Trap(
        victim="w",
        in_wait=(_always("w0", Call.COMPLETE, Trouble.LATE_CRASH, 4),),
    ),
)
