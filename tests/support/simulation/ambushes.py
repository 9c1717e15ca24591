"""Trouble at the few calls where it does harm, which chance meets once in ten thousand runs.

    ambush   a kind of process, a kind of call, and what befalls the process as it makes the call
    victim   the process that it befalls; its checks before the call have passed

Most checks of the protocol stand right before a call that others see. So the moment at which one of
them is needed is always the same: the check has passed, the call is made, and before it takes
effect others go on. Chance that strikes at every call alike rarely strikes there.
"""

import enum
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from support.simulation import schedule


class Call(enum.Enum):
    """A kind of call, by what it says."""

    REQUEST = r"create \.hoodie/timeline/\S+\.requested"
    START = r"create \.hoodie/timeline/\S+inflight"
    COMPLETE = r"create \.hoodie/timeline/\d+_\d+\."
    TAKE_OFF = r"delete \.hoodie/timeline/"
    LIST_TIMELINE = r"list \.hoodie/timeline$"
    BEGIN_HEARTBEAT = r"(create|replace) \.hoodie/\.heartbeat/"
    LOOK_AT_HEARTBEAT = r"(read|stat) \.hoodie/\.heartbeat/"
    END_HEARTBEAT = r"delete \.hoodie/\.heartbeat/"
    LIST_MARKERS = r"list \.hoodie/\.temp/"
    DELETE_MARKER = r"delete \.hoodie/\.temp/"
    WRITE_DATA = r"(open_write|close) p/"
    DELETE_DATA = r"delete p/"
    # Of the metadata table:
    REQUEST_BESIDE = r"create \.hoodie/metadata/\.hoodie/timeline/\S+\.requested"
    START_BESIDE = r"create \.hoodie/metadata/\.hoodie/timeline/\S+inflight"
    WRITE_BESIDE = r"(open_write|close) \.hoodie/metadata/"
    COMPLETE_BESIDE = r"create \.hoodie/metadata/\.hoodie/timeline/\d+_\d+\."
    LIST_BESIDE = r"list \.hoodie/metadata/"
    READ_BESIDE = r"(read|stat) \.hoodie/metadata/"
    TAKE_OFF_BESIDE = r"delete \.hoodie/metadata/"
    CONFIGURE = r"(create|replace) \.hoodie/hoodie\.properties"


OF_METADATA = tuple(each for each in Call if each.name.endswith("BESIDE"))
OF_CONFIGURATION = (Call.CONFIGURE,)
OF_DATA = tuple(each for each in Call if each not in (*OF_METADATA, *OF_CONFIGURATION))


class Trouble(enum.Enum):
    """What befalls the victim."""

    LOST_LOCK = "loses its lock"  # And is held up for a moment; without a lock it is that alone.
    WRONG_VERDICT = "is taken for dead"  # For good, though it is only held up for some seconds.
    CUT_OFF = "is not answered for long"  # Nor are its heartbeats; its lock it keeps.
    LONG_PAUSE = "is held up"  # Until its lock is lost, and perhaps its heartbeat.
    FAILURE = "fails"
    CRASH = "dies"
    LATE_FAILURE = "is not answered"  # The call takes effect later.
    LATE_CRASH = "dies, and the store goes on"  # So does this one's.


_HELD_UP_MS = {
    Trouble.LOST_LOCK: (1, 1_500),
    Trouble.WRONG_VERDICT: (1, 4_000),
    Trouble.CUT_OFF: (4_000, 10_000),
    Trouble.LONG_PAUSE: (3_000, 10_000),
}
"""Long enough for others to do something; a heartbeat expires during long pauses alone."""


@dataclass(frozen=True, kw_only=True)
class Ambush:
    """What waits for whom, where.

    Attributes:
        kind: How names of its victims begin; empty for everybody.
        call: At which they are met.
        trouble: What befalls them.
        rate: How often, of all such calls.
        times: At most, in a run.
    """

    kind: str
    call: Call
    trouble: Trouble
    rate: float
    times: int

    def is_met_by(self, process: schedule.Process, call: str) -> bool:
        """Return whether a process has come to the place."""
        return process.name.startswith(self.kind) and re.match(self.call.value, call) is not None

    def sample(self, source: random.Random) -> int:
        """Return how long the victim is held up, or 0 if it passes by unharmed."""
        if source.random() >= self.rate:
            return 0
        return source.randint(*_HELD_UP_MS.get(self.trouble, (1, 2)))


def drawn(
    source: random.Random,
    kinds: Sequence[str],
    troubles: Sequence[Trouble],
    calls: Sequence[Call] = OF_DATA,
) -> Ambush:
    """Return an ambush that chance chooses, of these kinds of victims, troubles and calls."""
    return Ambush(
        kind=source.choice(kinds),
        call=source.choice(calls),
        trouble=source.choice(troubles),
        rate=source.choice((0.2, 0.5, 1.0)),
        times=source.choice((1, 2, 4)),
    )
