"""Times that tasks of a read are sent."""

import pickle

import pytest

from hoodie.model import sent_times
from hoodie.model.instants import InstantTime, format_time, parse_time

FIRST = parse_time(InstantTime("20261128093012345"))
TIMES = [format_time(FIRST + number * 60_007) for number in range(500)]
PAIRS = dict(zip(TIMES[::2], TIMES[1::2], strict=True))


@pytest.mark.parametrize("pairs", [{}, PAIRS], ids=["none", "many"])
def test_completion_times_are_the_same_afterwards(pairs: dict[InstantTime, InstantTime]) -> None:
    sent = sent_times.CompletionTimes(pairs)
    assert pickle.loads(pickle.dumps(sent)) == sent == pairs


@pytest.mark.parametrize("names", [(), ("20130101000000",), tuple(TIMES)], ids=len)
def test_names_are_the_same_afterwards(names: tuple[str, ...]) -> None:
    sent = sent_times.Names(names)
    assert pickle.loads(pickle.dumps(sent)) == sent == names


def test_they_are_a_third_of_the_plain_ones_at_most_and_sent_once() -> None:
    sent, plain = sent_times.CompletionTimes(PAIRS), len(pickle.dumps(PAIRS))
    assert len(pickle.dumps(sent)) < plain / 3
    assert len(pickle.dumps((sent, sent))) < plain / 3 + 100
    assert len(pickle.dumps(sent_times.Names(TIMES))) < len(pickle.dumps(TIMES)) / 3
