"""What hangs at one place keeps nobody from another."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from hoodie_operator.cluster import turns

LIMIT_S = 1.0
"""Far more than a call takes that does not hang, on a busy machine, too."""


@pytest.fixture
def silence() -> Iterator[threading.Event]:
    """What calls hang at, until the test has ended."""
    found = threading.Event()
    yield found
    found.set()


def test_place_that_hangs_takes_so_many_threads_and_keeps_nobody_from_others(
    silence: threading.Event,
) -> None:
    threads = turns.Threads("t", in_all=3, at_once=2, limit_s=LIMIT_S)
    begun = []

    def hang() -> None:
        begun.append(1)
        silence.wait()

    async def run() -> None:
        silent = [threads.call("dead", hang) for _ in range(5)]
        ended = await asyncio.gather(*silent, return_exceptions=True)
        assert [type(each) for each in ended] == [TimeoutError] * 5
        assert await threads.call("alive", lambda: "well") == "well"

    asyncio.run(run())
    assert len(begun) == 2


def test_place_is_free_again_when_what_hung_there_returns(silence: threading.Event) -> None:
    threads = turns.Threads("t", in_all=1, at_once=1, limit_s=LIMIT_S)

    async def run() -> str:
        with pytest.raises(TimeoutError):
            await threads.call("dead", silence.wait)
        silence.set()
        return await threads.call("dead", lambda: "well")

    assert asyncio.run(run()) == "well"


def test_place_that_nobody_is_at_is_forgotten() -> None:
    found = turns.Turns(2)
    held = found.at("a")
    assert found.at("a") is held
    assert found.at("b") is not held
    assert list(found._places) == ["a"]
