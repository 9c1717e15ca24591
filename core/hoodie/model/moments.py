"""Moments: which writes a table has as of some time.

Two rules are possible. By ours a write is there from the moment it completes, as RFC-66 says, so
that a read as of a time returns what a read at that time returned. Apache Hudi's readers go by
requested times: a write that began before the time counts, even if it completed after it, so that
what they return for a time may change later.

Source: RFC-66, "Pseudocode for Time Travel Queries", with `<=` where it has `<`;
protocol.md: File slices and reads.
"""

import enum
from dataclasses import dataclass, field

from hoodie.model import instants


class Rule(enum.Enum):
    """By which of its times a write belongs to a moment."""

    COMPLETION = "completion"
    REQUESTED = "requested"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A moment in the history of a table.

    Attributes:
        time: A completion time, or a requested time, as the rule says; included.
        rule: By which time of a write.
        without: Requested times of writes that do not count, though they had completed.
    """

    time: instants.InstantTime
    rule: Rule = Rule.COMPLETION
    without: frozenset[instants.InstantTime] = field(default=frozenset())

    def has(
        self, requested_time: instants.InstantTime, completion_time: instants.InstantTime | None
    ) -> bool:
        """Return whether a completed write was there.

        Args:
            requested_time: Its requested time.
            completion_time: None if it is not known when it completed, as of writes that were
                archived before the oldest that the archive has: it was there.
        """
        if requested_time in self.without:
            return False
        if self.rule is Rule.REQUESTED:
            return requested_time <= self.time
        return completion_time is None or completion_time <= self.time
