"""All interleavings of a few actors, one run for each that may differ from those before (T-P09).

At every call of a storage or a lock anybody may go on who can; each possibility is followed.
Nothing else is left open: time stands still, nothing fails, ids come from each process's own seed.

    state   the files, who holds the lock, and of each actor all answers it was given: what it does
            next follows from them. Two interleavings that come to one state go on alike, so the
            second is not followed any further.

The states and the steps between them form a graph without circles; the number of its paths is the
number of interleavings that were explored.
"""

import functools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from hoodie import errors
from hoodie.model import settings
from hoodie.storage.memory import MemoryStore
from hoodie.storage.protocol import FileInfo, Storage
from hoodie.transaction.client import Client
from support import chance, schedule
from support.schedule_world import SETTINGS, World

State = tuple[object, ...]
Act = Callable[[World, Client], None]

_VALUES = (str, bytes, bool, int, FileInfo, type(None))


class Pruned(BaseException):
    """The run has come to a state that is known."""


@dataclass(frozen=True, kw_only=True)
class Model:
    """A few actors on one table.

    Attributes:
        mode: Of the writers.
        actors: What each does, by its name.
        prepare: Done before they begin.
        is_taken_for_dead: Whether everybody takes everybody for dead who works on something.
    """

    mode: settings.ConcurrencyMode
    actors: Mapping[str, Act]
    prepare: Act | None = None
    is_taken_for_dead: bool = False


@dataclass(kw_only=True)
class Explored:
    """What was found.

    Attributes:
        states: How many there are in which more than one actor could go on.
        runs: How many were made to find them.
        interleavings: How many there are in all, of those states.
    """

    states: int = 0
    runs: int = 0
    interleavings: int = 0


@dataclass
class _Graph:
    """Which state follows which; None is the end of a run."""

    begin: State | None = None
    following: dict[State, dict[str, State | None]] = field(default_factory=dict)

    def count_paths(self) -> int:
        @functools.cache
        def paths_from(state: State | None) -> int:
            if state is None:
                return 1
            followed = self.following.get(state, {})  # None where only a part was explored.
            return sum(paths_from(each) for each in followed.values())

        return paths_from(self.begin)


class _FollowingChance:
    """Goes a given way, and from its end on the first one that was not gone yet."""

    def __init__(self, way: Sequence[str], graph: _Graph) -> None:
        self.world: _ModelWorld | None = None
        self.deviations: dict[chance.Key, chance.Answer] = {}
        self.other_ways: list[tuple[str, ...]] = []
        self._way = way
        self._gone: list[str] = []
        self._graph = graph
        self._before: tuple[State, str] | None = None

    def draw(self, key: chance.Key, calm: chance.Answer, sample: chance.Sample) -> chance.Answer:
        del key, sample
        return calm

    def choose(self, key: chance.Key, calm: str, ready: Sequence[str]) -> str:
        del key, calm
        if self.world is None or self.world.is_over:
            return ready[0]
        state = self.world.state(ready)
        self.arrive(state)
        position = len(self._gone)
        if position < len(self._way):
            chosen = self._way[position]
        elif state in self._graph.following:
            self.world.is_over = True
            self.world.time.stop(Pruned())
            return ready[0]
        else:
            chosen = ready[0]
            self.other_ways += [(*self._gone, other) for other in ready[1:]]
        self._graph.following.setdefault(state, {})
        self._before = (state, chosen)
        self._gone.append(chosen)
        return chosen

    def arrive(self, state: State | None) -> None:
        """Take down what follows the step made last."""
        if self._before is not None:
            before, chosen = self._before
            self._graph.following[before][chosen] = state
        elif self._graph.begin is None:
            self._graph.begin = state


class _Store(MemoryStore):
    """Counts versions by file, so that they tell nothing of what happened to other files."""

    def __init__(self, clock: schedule.VirtualClock) -> None:
        super().__init__(clock)
        self._versions: dict[str, int] = {}

    def put(self, path: str, content: bytes) -> FileInfo:
        self._version = self._versions[path] = self._versions.get(path, 0) + 1
        return super().put(path, content)

    def fingerprint(self) -> int:
        return hash(frozenset((file.info, file.content) for file in self.files.values()))


class _Observed:
    """A storage that takes down all its answers, and a lock."""

    def __init__(self, inner: object, answers: list[int]) -> None:
        self._inner = inner
        self._answers = answers

    def __getattr__(self, name: str) -> object:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def call(*arguments: object, **named: object) -> object:
            try:
                answer = found(*arguments, **named)
            except errors.HoodieError as error:
                self._note(error.kind)
                raise
            self._note(tuple(answer) if isinstance(answer, list) else answer)
            return answer

        return call

    def _note(self, answer: object) -> None:
        value = answer if isinstance(answer, (*_VALUES, tuple)) else type(answer).__name__
        self._answers[0] = hash((self._answers[0], value))


class _ModelWorld(World):
    """A world in which time stands still."""

    def __init__(self, model: Model, chances: chance.Chance) -> None:
        time = schedule.Schedule(0, chances=chances, step_ms_max=0)
        self.files = _Store(schedule.VirtualClock(time))
        self.answers: dict[str, list[int]] = {}
        self.is_over = False
        write_settings = replace(SETTINGS, concurrency=model.mode)
        super().__init__(time, write_settings=write_settings, store=self.files)

    def storage_of(self, process: schedule.Process) -> Storage:
        answers = self.answers.setdefault(process.name, [0])
        return cast("Storage", _Observed(super().storage_of(process), answers))

    def state(self, ready: Sequence[str]) -> State:
        holder = self.lock.holder.process.name if self.lock.holder else None
        # Steps, too: one may be to look at a lock that is held, to which there is no answer.
        actors = tuple(
            (self.answers[process.name][0], process.steps)
            for process in self.time.processes.values()
        )
        return (self.files.fingerprint(), holder, actors, tuple(sorted(ready)))


def explore(model: Model, check: Callable[[World], None], runs_max: int | None = None) -> Explored:
    """Follow every interleaving of a model to its end.

    Args:
        model: The actors.
        check: Called with the world at every end; raises when something is wrong there.
        runs_max: Follow some of them only, chosen from all parts of the graph.

    Raises:
        AssertionError: Something is wrong; the message holds the steps that led there.
    """
    graph = _Graph()
    ways: list[tuple[str, ...]] = [()]
    source = random.Random(0)
    runs = 0
    while ways and runs != runs_max:
        # The newest way is the shortest to replay; of a part only, it would be the end of one run.
        number = len(ways) - 1 if runs_max is None else source.randrange(len(ways))
        chances = _FollowingChance(ways.pop(number), graph)
        runs += 1
        if _run(model, chances, check):
            chances.arrive(None)
        ways += chances.other_ways
    return Explored(states=len(graph.following), runs=runs, interleavings=graph.count_paths())


def _run(model: Model, chances: _FollowingChance, check: Callable[[World], None]) -> bool:
    """Make one run; return whether it went to its end."""
    world = _ModelWorld(model, chances)
    if model.prepare is not None:
        model.prepare(world, world.writer("before"))
    if model.is_taken_for_dead:
        world.time.is_proved_dead = lambda process: True  # type: ignore[method-assign] # a lie
    for name, act in model.actors.items():
        process = world.process(name)
        client = world.client(process)
        world.time.spawn(name, process, functools.partial(act, world, client))
    chances.world = world
    try:
        world.time.run()
        world.is_over = True
        check(world)
    except Pruned:
        return False
    except AssertionError as error:
        steps = "\n".join(world.time.history)
        raise AssertionError(f"{error}\n{steps}") from error
    return True
