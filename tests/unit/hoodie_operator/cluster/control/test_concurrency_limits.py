"""What hangs at one place keeps nobody from another."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from hoodie_operator.cluster.control.concurrency_limits import BoundedThreadPool, KeyedSemaphore

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
    threads = BoundedThreadPool("t", in_all=3, of_share=3, at_once=2, limit_s=LIMIT_S)
    begun = []

    def hang() -> None:
        begun.append(1)
        silence.wait()

    async def run() -> None:
        silent = [threads.call("us", "dead", hang) for _ in range(5)]
        ended = await asyncio.gather(*silent, return_exceptions=True)
        assert [type(each) for each in ended] == [TimeoutError] * 5
        assert await threads.call("us", "alive", lambda: "well") == "well"

    asyncio.run(run())
    assert len(begun) == 2


def test_share_whose_threads_all_hang_leaves_those_of_others(silence: threading.Event) -> None:
    threads = BoundedThreadPool("t", in_all=3, of_share=2, at_once=1, limit_s=LIMIT_S)

    async def run() -> None:
        silent = [threads.call("hostile", f"dead-{number}", silence.wait) for number in range(9)]
        hanging = asyncio.gather(*silent, return_exceptions=True)
        await asyncio.sleep(0)
        assert await threads.call("us", "dead-1", lambda: "well") == "well"
        assert [type(each) for each in await hanging] == [TimeoutError] * 9

    asyncio.run(run())


def test_call_that_had_no_room_in_time_leaves_its_place(silence: threading.Event) -> None:
    threads = BoundedThreadPool("t", in_all=2, of_share=1, at_once=1, limit_s=LIMIT_S)

    async def run() -> None:
        for place in ("a", "b"):
            with pytest.raises(TimeoutError):
                await threads.call("us", place, silence.wait)
        silence.set()
        assert await threads.call("us", "b", lambda: "well") == "well"

    asyncio.run(run())


def test_place_is_free_again_when_what_hung_there_returns(silence: threading.Event) -> None:
    threads = BoundedThreadPool("t", in_all=1, of_share=1, at_once=1, limit_s=LIMIT_S)

    async def run() -> str:
        with pytest.raises(TimeoutError):
            await threads.call("us", "dead", silence.wait)
        silence.set()
        return await threads.call("us", "dead", lambda: "well")

    assert asyncio.run(run()) == "well"


def test_place_that_nobody_is_at_is_forgotten() -> None:
    found = KeyedSemaphore(2)
    held = found.at("a")
    assert found.at("a") is held
    assert found.at("b") is not held
    assert list(found._places) == ["a"]
