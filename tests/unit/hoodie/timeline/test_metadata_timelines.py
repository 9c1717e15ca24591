"""Which changes of the data a metadata table has."""

import pytest

from hoodie.model.instants import Action, Instant, InstantTime, State
from hoodie.timeline import active, metadata_timelines

FIRST = metadata_timelines.FIRST_TIMES[0]


def delta_commit(requested_time: str, completion_time: str) -> Instant:
    return Instant(
        requested_time=InstantTime(requested_time),
        action=Action.DELTA_COMMIT,
        state=State.COMPLETED,
        completion_time=InstantTime(completion_time),
    )


def of(*found: tuple[str, str]) -> active.ActiveTimeline:
    return active.from_files([delta_commit(*each) for each in found])


BEFORE = ("20260405015956262", "20260405015956506")
MADE = (FIRST, "20260405015958489")
LATER = ("20260405020001000", "20260405020002000")
GOES_BACK = ("20260405013005463", "20260405013005705")
"""Of a JVM whose clock was put back from 02:00 to 01:30 after the metadata table was made."""


@pytest.mark.parametrize(
    ("of_data", "beside", "lacking"),
    [
        ([BEFORE], [MADE], None),
        ([BEFORE, LATER], [MADE], LATER),
        ([BEFORE, LATER], [MADE, LATER], None),
        ([BEFORE, GOES_BACK], [MADE, GOES_BACK], None),
        ([BEFORE, GOES_BACK, LATER], [MADE, GOES_BACK], LATER),
    ],
    ids=["was made of it", "behind", "has it", "clocks were put back", "behind since then"],
)
def test_change_that_completed_after_the_making_may_be_lacking(
    of_data: list[tuple[str, str]],
    beside: list[tuple[str, str]],
    lacking: tuple[str, str] | None,
) -> None:
    found = metadata_timelines.lacking(of(*beside), of(*of_data))
    assert found == (None if lacking is None else delta_commit(*lacking))
