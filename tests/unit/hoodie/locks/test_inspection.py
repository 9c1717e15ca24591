"""What proves that a lock's holder lives or died, and who may take the lock from it."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from hoodie import errors
from hoodie.transaction.locks import inspection
from hoodie.transaction.locks.inspection import Holder, Holding, Liveness

HELD = Holding(
    holder=Holder(id="1", name="writer a"),
    since_ms=None,
    liveness=Liveness.MAYBE,
    evidence="a holder",
    release="it gives it back",
    version="v1",
)


class Seconds:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def now_ms(self) -> int:
        return int(self.now_s * 1000)

    def monotonic_s(self) -> float:
        return self.now_s

    def sleep_s(self, seconds: float) -> None:
        self.now_s += seconds


class Scripted:
    """A lock that is seen in one state after the other, the last one for ever."""

    def __init__(self, states: Sequence[Holding | None]) -> None:
        self.states = list(states)

    def holding(self) -> Holding | None:
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    def take_away(self, found: Holding) -> bool:
        raise AssertionError(found)


def liveness(states: Sequence[Holding | None], watch_s: float) -> Liveness | None:
    found = inspection.watched(Scripted(states), watch_s, Seconds())
    return None if found is None else found.liveness


def test_holder_that_is_not_watched_may_be_alive() -> None:
    assert liveness([HELD, replace(HELD, version="v2")], 0) is Liveness.MAYBE


def test_sign_of_life_while_watched_proves_life() -> None:
    assert liveness([HELD, HELD, replace(HELD, version="v2")], 5) is Liveness.ALIVE


@pytest.mark.parametrize(("patience_s", "expected"), [(3, Liveness.DEAD), (9, Liveness.MAYBE)])
def test_silence_beyond_the_servers_patience_proves_death(
    patience_s: float, expected: Liveness
) -> None:
    assert liveness([replace(HELD, patience_s=patience_s)], 5) is expected


def test_silence_proves_nothing_where_no_sign_of_life_is_left() -> None:
    assert liveness([HELD], 1000) is Liveness.MAYBE


def test_lock_that_is_given_back_while_watched_is_free() -> None:
    assert liveness([HELD, None, HELD], 5) is None


def test_another_holder_is_no_sign_of_life_of_the_first() -> None:
    other = replace(HELD, holder=Holder(id="2", name="writer b"), version="v2")
    found = inspection.watched(Scripted([HELD, other]), 5, Seconds())
    assert found == other


def test_what_provider_proves_ends_watching_at_once() -> None:
    clock = Seconds()
    inspection.watched(Scripted([replace(HELD, liveness=Liveness.DEAD)]), 5, clock)
    assert clock.now_s == 0


@pytest.mark.parametrize(
    ("found", "holder_id", "is_refused"),
    [
        (Liveness.DEAD, None, False),
        (Liveness.MAYBE, None, True),
        (Liveness.ALIVE, None, True),
        (Liveness.ALIVE, "1", False),
        (Liveness.MAYBE, "1", False),
        (Liveness.DEAD, "2", True),
    ],
)
def test_lock_is_broken_of_the_dead_and_of_who_is_named(
    found: Liveness, holder_id: str | None, is_refused: bool
) -> None:
    refusal = inspection.break_refusal(replace(HELD, liveness=found), holder_id)
    assert isinstance(refusal, errors.ConflictError) is is_refused


@pytest.mark.parametrize(
    ("text", "holder"),
    [
        (
            "writer a (b) (pid 7 on h-1) 0e7c9a52-6a4e-4a44-8f0f-6d6f4f9a7d10",
            Holder(
                id="0e7c9a52-6a4e-4a44-8f0f-6d6f4f9a7d10", name="writer a (b)", host="h-1", pid=7
            ),
        ),
        ("w (pid 7 on h)", Holder(id="w (pid 7 on h)", name="w", host="h", pid=7)),
        ("application_id=app-1", Holder(id="application_id=app-1", name="application_id=app-1")),
    ],
)
def test_holder_is_read_from_what_owners_write(text: str, holder: Holder) -> None:
    assert inspection.holder_of(text) == holder
