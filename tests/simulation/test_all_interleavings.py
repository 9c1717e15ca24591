"""T-P09: small models, of two actors on two file groups, explored as far as there is time for.

Every committed write stays readable, whatever the order of the actors' calls;
`make explore` follows all of them. Each rule switched off is shown to break that: the models are
able to tell.
"""

import contextlib
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import pytest

from hoodie import errors
from hoodie.filegroup import slicing, snapshots
from hoodie.maintenance.rollback import execution, orphan_files
from hoodie.model.settings import ConcurrencyMode
from hoodie.timeline import chain, epochs, true_time
from hoodie.timeline.chain import Check
from hoodie.timeline.epochs import Epoch, Head
from hoodie.transaction import preconditions, publication
from hoodie.transaction.client import Client
from hoodie.transaction.heartbeats import Heartbeat
from hoodie.write import conflicts
from support.simulation import chain_models, mutants, schedule, schedule_exploration
from support.simulation.schedule_exploration import Act, Explored, Model, State, explore
from support.simulation.schedule_models import MODELS, THREE
from support.simulation.schedule_world import World

pytestmark = pytest.mark.simulation

RUNS_MAX = 60

collect = chain.Chain.collect
create = chain.Chain._create


def publish_and_create(
    own: chain.Chain, head: Head, epoch: Epoch, content: bytes, check: Check
) -> None:
    own.publish(Head(epoch=epoch, digest=""), check)
    create(own, head, epoch, content, check)


def collect_more(own: chain.Chain, head: Head) -> int:
    collect(own, head)
    if head.epoch.boundary == head.epoch.number - head.epoch.kept:
        own._storage.delete(epochs.path_of(head.epoch.boundary))
    return 0


WEAKENED: Mapping[str, tuple[str, mutants.Patches]] = {
    "no conflict check": (
        "two optimistic writers",
        {(conflicts, "candidates"): lambda *_: ()},
    ),
    "no lock": (
        "two non-blocking writers",
        {
            (schedule.SessionLockProvider, "_holder"): lambda self: None,
            (schedule.SessionLockProvider, "is_held"): lambda self: True,
        },
    ),
    "plans without a lock": (
        "two compactors of bounded plans",
        {
            (schedule.SessionLockProvider, "_holder"): lambda self: None,
            (schedule.SessionLockProvider, "is_held"): lambda self: True,
        },
    ),
    "times that do not grow": (
        "two non-blocking writers",
        {(true_time, "next_reading"): mutants.clock_alone},
    ),
    "slices by requested time": (
        "writer and compactor",
        {(slicing, "_barrier_of"): mutants.by_requested_time},
    ),
    "reads of what is not committed": (
        "writer and reader",
        {(snapshots.CommittedFiles, "is_committed"): lambda self, requested_time: True},
    ),
    "leftovers of the living": (
        "writer and rollback",
        {(orphan_files, "_left"): lambda timeline, taken_back, time, paths: paths},
    ),
    "publication of what was taken back": (
        "writer and rollback",
        {
            (preconditions, "publication_refusal"): lambda facts: None,
            (Heartbeat, "check"): lambda self: None,
        },
    ),
    "rollback of what has completed": (
        "writer and rollback",
        {
            (execution, "target_refusal"): lambda target, status, pending_targets: None,
            (execution, "_end_if_completed"): lambda client, rollback: None,
            (execution, "_check_pending"): lambda timeline, rollback: None,
            (publication, "checked"): mutants.unless_rollback(publication.checked),
        },
    ),
    "chain without a boundary": (
        "chain: creation and collection",
        {(chain.Chain, "_refuse_used"): lambda self, epoch: None},
    ),
    "deletion above the boundary": (
        "chain: creation and collection",
        {(chain.Chain, "collect"): collect_more},
    ),
    "publication before the epoch": (
        "chain: publisher and finisher",
        {(chain.Chain, "_create"): publish_and_create},
    ),
    "head that is not finished": (
        "chain: publisher and finisher",
        {(chain.Chain, "_finished"): lambda self, view, check: view},
    ),
    "reads of what one listing shows": (
        "chain: publisher and reader of pages",
        {(epochs, "prefix"): lambda epoch, names: (names, frozenset())},
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_committed_write_stays_readable(name: str) -> None:
    explored = explore(MODELS[name], RUNS_MAX)
    assert explored.interleavings >= explored.runs / 2


def test_what_a_chain_acknowledges_is_published_once() -> None:
    """In every interleaving; `make explore` follows the larger models of the chain as well."""
    explored = explore(MODELS["chain: publisher and finisher"])
    assert explored.interleavings > explored.runs >= explored.states


def test_two_writers_beside_a_compactor_stay_readable() -> None:
    """T-P04: whatever the first choices are; `make explore` follows more of them."""
    three = replace(MODELS[THREE], choices_max=5)
    explored = explore(three)
    assert explored.interleavings > explored.runs > explored.states


def explore_two(path_of: Callable[[Client], str]) -> Explored:
    """Explore two actors that change a file twice each."""

    def change_twice(world: World, client: Client) -> None:
        del world
        for _ in range(2):
            client.storage.touch(path_of(client))

    actors = {"first": change_twice, "second": change_twice}
    return explore(Model(mode=ConcurrencyMode.OPTIMISTIC, actors=actors))


def test_every_interleaving_is_counted_once() -> None:
    """Of two actors that make two calls each."""
    explored = explore_two(lambda client: "a file")
    assert explored.interleavings == math.comb(4, 2)


def test_calls_on_different_files_are_made_in_one_order() -> None:
    explored = explore_two(lambda client: str(client.author))
    assert explored.interleavings == 1


def turn_first(world: World, client: Client) -> None:
    del world
    client.storage.touch("d/with and without the lock")
    with client.lock.scope():
        client.storage.touch("with the lock")
        client.storage.touch("d/with and without the lock")
    client.storage.list("d")
    client.storage.touch("own")


def turn_second(world: World, client: Client) -> None:
    del world
    with client.lock.scope():
        client.storage.touch("with the lock")
    client.storage.touch("d/with and without the lock")
    with client.lock.scope():
        client.storage.touch("with the lock")
    client.storage.touch("d/listed")


TURNS = Model(mode=ConcurrencyMode.OPTIMISTIC, actors={"first": turn_first, "second": turn_second})


def ends(model: Model, *, is_reducing: bool) -> frozenset[State]:
    """Return what files and answers come to in any interleaving."""
    return explore(model, is_reducing=is_reducing).ends


@pytest.mark.parametrize("model", [TURNS, MODELS["writer and reader"]], ids=["turns", "reader"])
def test_reduction_loses_nothing_that_interleavings_come_to(model: Model) -> None:
    reduced = ends(model, is_reducing=True)
    assert reduced == ends(model, is_reducing=False)
    assert len(reduced) > 1


@pytest.mark.parametrize("seed", range(12))
def test_reduction_loses_nothing_of_three_actors(seed: int) -> None:
    """Each follows a script, and touches some files only if another is there."""
    source = random.Random(seed)
    actors = {name: follow(script(source)) for name in ("first", "second", "third")}
    model = Model(mode=ConcurrencyMode.OPTIMISTIC, actors=actors)
    assert ends(model, is_reducing=True) == ends(model, is_reducing=False)


def test_call_that_is_learnt_late_is_followed() -> None:
    """One that another was made before, as if nobody made it."""
    actors = {
        "first": follow([Line("c")]),
        "second": follow([Line("a", when="a"), Line("a", is_locked=True), Line("b", when="c")]),
        "third": follow([Line("a", is_locked=True), Line("b"), Line("a", when="a")]),
    }
    model = Model(mode=ConcurrencyMode.OPTIMISTIC, actors=actors)
    assert ends(model, is_reducing=True) == ends(model, is_reducing=False)


class Line(NamedTuple):
    """A file to touch, with the lock or without, perhaps only when another is there."""

    path: str
    when: str = ""
    is_locked: bool = False


def script(source: random.Random) -> list[Line]:
    """Return a script of one line or two."""
    return [
        Line(source.choice("abc"), source.choice(("", "", *"abc")), source.random() < 0.3)
        for _ in range(source.choice((1, 2)))
    ]


def follow(lines: Sequence[Line]) -> Act:
    def act(world: World, client: Client) -> None:
        del world
        for line in lines:
            with contextlib.suppress(errors.NotFoundError):
                if line.when:
                    client.storage.stat(line.when)
                with client.lock.scope() if line.is_locked else contextlib.nullcontext():
                    client.storage.touch(line.path)

    return act


depends_on, is_local = schedule_exploration.Call.depends_on, schedule_exploration.Known.is_local


@pytest.mark.parametrize(
    ("owner", "attribute", "wrong"),
    [
        pytest.param(
            schedule_exploration.Call,
            "depends_on",
            lambda call, other: depends_on(call, other) and call.path == other.path,
            id="listings depend on nothing",
        ),
        pytest.param(
            schedule_exploration.Known,
            "is_local",
            lambda known, call, others, has_lock: is_local(known, call, others, has_lock=True),
            id="everybody has the lock",
        ),
        pytest.param(
            schedule_exploration.Known,
            "is_local",
            lambda known, call, others, has_lock: (
                call == schedule_exploration.LOCK
                or is_local(known, call, others, has_lock=has_lock)
            ),
            id="taking the lock is local",
        ),
    ],
)
def test_wrong_reduction_is_noticed(
    owner: type, attribute: str, wrong: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ends(TURNS, is_reducing=False)
    monkeypatch.setattr(owner, attribute, wrong)
    assert ends(TURNS, is_reducing=True) < whole


@pytest.mark.parametrize("name", WEAKENED)
def test_weakened_model_breaks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, patches = WEAKENED[name]
    for (owner, attribute), replacement in patches.items():
        monkeypatch.setattr(owner, attribute, replacement)
    with pytest.raises((AssertionError, errors.FormatError)):
        explore(MODELS[model], None if model in chain_models.MODELS else RUNS_MAX * 20)
