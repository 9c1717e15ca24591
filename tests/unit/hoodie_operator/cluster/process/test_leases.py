"""One leads at a time, whoever is slow, paused or cut off; numbers only grow."""

import asyncio
import contextlib
import copy
import random
from collections.abc import Coroutine
from typing import Any

import pytest

from hoodie_operator.api.resources import Manifest, Resource
from hoodie_operator.cluster.client import api_errors
from hoodie_operator.cluster.process import leases
from support.simulation.moved_clock import MovedClock


class Chance:
    """No jitter."""

    def uuid(self) -> str:
        return "u"

    def uniform(self) -> float:
        return 0.5


class Server:
    """Leases with the API server's optimistic locking."""

    def __init__(self, clock: MovedClock) -> None:
        self.lease: Manifest | None = None
        self.cut: set[str] = set()
        self.sent_twice: set[str] = set()
        self._clock = clock
        self._versions = 0
        self._uids = 0

    def of(self, candidate: str) -> "Account":
        return Account(self, candidate)

    def put(self, lease: Manifest) -> Manifest:
        self._versions += 1
        lease = copy.deepcopy(lease)
        lease["metadata"]["resourceVersion"] = str(self._versions)
        self.lease = lease
        return copy.deepcopy(lease)

    def made(self, lease: Manifest) -> Manifest:
        self._uids += 1
        created = f"2026-01-01T00:{int(self._clock.now_s) % 3600 // 60:02d}:00Z"
        metadata = {**lease["metadata"], "uid": f"u{self._uids}", "creationTimestamp": created}
        return self.put({**lease, "metadata": metadata})


class Account:
    """What an election asks of the API server."""

    def __init__(self, server: Server, name: str) -> None:
        self._server = server
        self._name = name

    def _check(self) -> None:
        if self._name in self._server.cut:
            raise api_errors.UnavailableError("cut")

    async def get(self, resource: Resource, namespace: str, name: str) -> Manifest | None:
        del resource, namespace, name
        self._check()
        return copy.deepcopy(self._server.lease)

    async def create(self, manifest: Manifest) -> Manifest:
        self._check()
        if self._server.lease is not None:
            raise api_errors.AlreadyExistsError("there")
        return self._server.made(manifest)

    async def replace(self, manifest: Manifest) -> Manifest:
        self._check()
        held = self._server.lease
        if held is None:
            raise api_errors.NotFoundError("gone")
        if held["metadata"]["resourceVersion"] != manifest["metadata"]["resourceVersion"]:
            raise api_errors.ConflictError("moved on")
        made = self._server.put(manifest)
        if self._name in self._server.sent_twice:
            self._server.sent_twice.remove(self._name)
            return await self.replace(manifest)
        return made


def _election(server: Server, clock: MovedClock, name: str) -> leases.Election:
    return leases.Election(
        server.of(name),  # type: ignore[arg-type]  # what it asks for
        namespace="n",
        name="l",
        candidate=name,
        our_clock=clock,
        random=Chance(),
    )


def _try(election: leases.Election) -> bool:
    """Try once to take or renew the lease."""
    return _done(election.take())


def _done(work: Coroutine[Any, Any, bool]) -> bool:
    return asyncio.run(work)


def test_second_candidate_waits_until_the_lease_was_silent_for_its_duration() -> None:
    clock = MovedClock()
    server = Server(clock)
    first, second = _election(server, clock, "a"), _election(server, clock, "b")
    assert _try(first)
    assert not _try(second)
    clock.now_s += 14
    assert not _try(second)
    clock.now_s += 2
    assert not first.is_held
    assert _try(second)
    assert second.number > first.number
    assert not _try(first)


def test_renewing_keeps_the_number() -> None:
    clock = MovedClock()
    server = Server(clock)
    election = _election(server, clock, "a")
    assert _try(election)
    number = election.number
    for _ in range(5):
        clock.now_s += 5
        assert election.is_held
        assert _try(election)
    assert election.number == number


def test_renewal_that_is_sent_twice_since_its_answer_was_lost_is_a_renewal() -> None:
    clock = MovedClock()
    server = Server(clock)
    election = _election(server, clock, "a")
    assert _try(election)
    number = election.number
    server.sent_twice.add("a")
    clock.now_s += 9
    assert _try(election)
    clock.now_s += 9
    assert election.is_held
    assert election.number == number


def test_released_lease_is_free_at_once_and_its_next_number_is_higher() -> None:
    clock = MovedClock()
    server = Server(clock)
    first, second = _election(server, clock, "a"), _election(server, clock, "b")
    assert _try(first)
    number = first.number
    asyncio.run(first.release())
    assert not first.is_held
    assert _try(second)
    assert second.number > number


def test_number_grows_when_somebody_deleted_the_lease() -> None:
    clock = MovedClock()
    server = Server(clock)
    first, second = _election(server, clock, "a"), _election(server, clock, "b")
    for _ in range(3):
        assert _try(first)
        asyncio.run(first.release())
        assert _try(second)
        asyncio.run(second.release())
    assert _try(first)
    number = first.number
    server.lease = None
    clock.now_s += 60
    assert _try(second)
    assert second.number > number


def test_who_cannot_renew_in_time_gives_up_before_another_may_begin() -> None:
    clock = MovedClock()
    server = Server(clock)
    election = _election(server, clock, "a")
    assert _try(election)
    server.cut.add("a")
    clock.now_s += 9.9
    assert election.is_held
    clock.now_s += 0.2
    assert not election.is_held
    with pytest.raises(leases.LostError):
        asyncio.run(election.keep())


@pytest.mark.parametrize("seed", range(100))
def test_what_a_leader_began_is_over_before_another_leads(seed: int) -> None:
    chance = random.Random(seed)
    clock = MovedClock()
    server = Server(clock)
    elections = {name: _election(server, clock, name) for name in "ab"}
    ends_s: dict[str, float] = {"a": 0.0, "b": 0.0}
    for _ in range(200):
        clock.now_s += chance.choice((0.0, 0.1, 0.5, 2.0, 4.9, 14.2))
        name, other = chance.choice(("ab", "ba"))
        if chance.random() < 0.2:
            server.cut ^= {name}
        with contextlib.suppress(api_errors.UnavailableError):
            _try(elections[name])
        change_s = elections[name].change_s()
        if change_s > 0:
            assert elections[name].is_held
            assert clock.now_s > ends_s[other]
            # It takes as long as it may.
            ends_s[name] = clock.now_s + change_s
    assert max(ends_s.values()) > 0


def test_who_has_let_the_lease_go_changes_nothing() -> None:
    clock = MovedClock()
    election = _election(Server(clock), clock, "a")
    assert election.change_s() == 0
    assert _try(election)
    assert election.change_s() == 14
    clock.now_s += 9.9
    assert election.change_s() == pytest.approx(4.1)
    clock.now_s += 0.2
    assert election.change_s() == 0


@pytest.mark.parametrize("seed", range(100))
def test_never_do_two_hold_it(seed: int) -> None:
    chance = random.Random(seed)
    clock = MovedClock()
    server = Server(clock)
    elections = {name: _election(server, clock, name) for name in "abc"}
    highest, leader = 0, ""
    for _ in range(150):
        clock.now_s += chance.choice((0.0, 0.5, 2.0, 6.0, 11.0))
        name = chance.choice("abc")
        if chance.random() < 0.2:
            server.cut ^= {name}
        with contextlib.suppress(api_errors.UnavailableError):
            _try(elections[name])
        held = [each for each, election in elections.items() if election.is_held]
        assert len(held) <= 1
        if held and held[0] != leader:
            leader = held[0]
            assert elections[leader].number > highest
            highest = elections[leader].number
