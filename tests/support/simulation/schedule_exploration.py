"""All interleavings of a few actors, one run for each that may differ from those before (T-P09).

At every call of a storage or a lock anybody may go on who can; each possibility is followed.
Nothing else is left open: time stands still, nothing fails, ids come from each process's own seed.

    state   the files, who holds the lock, and of each actor all answers it was given: what it does
            next follows from them. Two interleavings that come to one state go on alike, so the
            second is not followed any further.

    local   a call that commutes with all that others may do before it is made: none of their
            calls looks at what it changes, or changes what it looks at. Who has the lock need only
            ask about what others do before they want it; and giving it back is always local

Who is about to make a local call makes it, and no other's turn is tried before: all comes to the
same either way (partial-order reduction, with ample sets of one call). Who wants a lock that is
held has no turn. Which calls others make later is learnt from the runs: if one turns out to have
been taken for local wrongly, all begins anew with what is known by then. So in the end none was,
since the first call that refutes it in any interleaving is made in one of those that are followed,
too.

The states and the steps between them form a graph without circles; the number of its paths is the
number of interleavings that were explored. Each stands for those that differ from it in the moments
of local calls.
"""

import functools
import math
import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self, cast

from hoodie import errors
from hoodie.model import settings
from hoodie.storage.memory import MemoryStore
from hoodie.storage.protocol import FileInfo, Storage
from hoodie.transaction import layout
from hoodie.transaction.client import Client
from support.simulation import chance, faulty_storage, schedule
from support.simulation.schedule_world import SETTINGS, World

State = tuple[object, ...]
Act = Callable[[World, Client], None]

LEARNING_RUNS = 300
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
        is_swept: Whether anybody sweeps leftovers.
        is_lying: Whether the lock is given to everybody at once; the table then has a chain.
        choices_max: So many choices of who goes on are followed, each to its end by the first that
            can; None for all.
        check: Called with the world at every end; raises when something is wrong there.
        is_reducible: Whether calls that commute may be made in one order only: not where an actor
            changes what is no file, as by killing another.
        page_names: How many names a page of a listing has; None for listings that are atomic.
        epochs_kept: How many epochs the chain keeps at least.
    """

    mode: settings.ConcurrencyMode
    actors: Mapping[str, Act]
    prepare: Act | None = None
    is_taken_for_dead: bool = False
    is_swept: bool = False
    is_lying: bool = False
    choices_max: int | None = None
    check: Callable[[World], None] = lambda world: None
    is_reducible: bool = True
    page_names: int | None = None
    epochs_kept: int = 3


@dataclass(frozen=True, kw_only=True)
class Explored:
    """What was found.

    Attributes:
        states: How many there are in which it matters which actor goes on.
        runs: How many were made to find them.
        interleavings: How many there are in all, of those states.
        ends: What files, and what the actors were answered, came to in any.
    """

    states: int
    runs: int
    interleavings: int
    ends: frozenset[State] = field(repr=False)


class Call(NamedTuple):
    """What an actor is about to do.

    Attributes:
        path: What it looks at or changes; None for the lock, which is taken or given back.
        is_listing: Whether it looks at all that begins with the path.
        is_change: Whether it changes it; of the lock, whether it gives it back.
        is_unlisted: Whether a listing of the whole table leaves the path out.
    """

    path: str | None
    is_listing: bool = False
    is_change: bool = False
    is_unlisted: bool = False

    def depends_on(self, other: "Call") -> bool:
        """Return whether the order of two calls may matter."""
        if self.path is None or other.path is None:
            return (
                False  # A lock is not asked about: to take it depends on all, to give it on none.
            )
        if not (self.is_change or other.is_change):
            return False
        return self.path == other.path or self._lists(other) or other._lists(self)

    def _lists(self, other: "Call") -> bool:
        assert self.path is not None
        assert other.path is not None
        if not self.is_listing or not other.path.startswith(self.path):
            return False
        return bool(self.path) or not other.is_unlisted


LOCK = Call(None)
_UNLOCK = Call(None, is_change=True)
_LOOKS = ("stat", "read", "open")
_OWN_FOLDER = ".hoodie/"
_SWEPT = (f"{layout.HEARTBEATS}/", f"{layout.MARKERS}/")


@dataclass
class _Position:
    """How far an actor has come.

    Attributes:
        calls: How many of storage it has made.
        locks: How often it has taken the lock.
    """

    calls: int = 0
    locks: int = 0


class _Trust(NamedTuple):
    """That an actor makes no call any more that depends on a given one.

    Attributes:
        call: The given one, another's.
        locks_max: Once it has taken the lock more often than that, it may.
    """

    call: Call
    locks_max: float


class Known:
    """Which calls actors make, and as which of all of theirs at last."""

    def __init__(self, *, is_reducing: bool, is_lock_lying: bool = False) -> None:
        self.is_reducing = is_reducing
        self._is_lock_lying = is_lock_lying
        self._last: dict[str, dict[tuple[Call, int], int]] = defaultdict(dict)
        self._trusted: dict[str, dict[_Trust, int]] = defaultdict(dict)
        self.is_refuted = False
        """Whether a call was taken for local that is none."""
        self._is_lock_exclusive = not is_lock_lying

    def note(self, actor: str, position: _Position, call: Call) -> None:
        """Take down a call that an actor makes."""
        if self._last[actor].get((call, position.locks), -1) >= position.calls:
            return
        self._last[actor][call, position.locks] = position.calls
        # What others did before, since this actor was trusted not to make such a call any more.
        self.is_refuted |= any(
            position.calls >= since
            and position.locks <= trust.locks_max
            and call.depends_on(trust.call)
            for trust, since in self._trusted[actor].items()
        )

    def note_shared_lock(self) -> None:
        """Take down that the lock was given to somebody while another had it."""
        self.is_refuted |= self._is_lock_exclusive
        self._is_lock_exclusive = False

    def forget_trust(self) -> None:
        """Begin anew with what is known of calls."""
        self._trusted.clear()
        self.is_refuted = False

    def is_local(self, call: Call, others: Mapping[str, _Position], *, has_lock: bool) -> bool:
        """Return whether none of others makes a call any more before it that depends on it.

        Args:
            call: What somebody is about to do.
            others: How far all but that one have come.
            has_lock: Whether that one has the lock: none of others gets it before the call.
        """
        if self._is_lock_lying and call in (LOCK, _UNLOCK):
            return True
        if call == LOCK:
            return False
        if call == _UNLOCK:
            return self._is_lock_exclusive
        trusts = {}
        for other, position in others.items():
            is_waiting = has_lock and self._is_lock_exclusive
            trust = _Trust(call, position.locks if is_waiting else math.inf)
            if any(
                last >= position.calls and locks <= trust.locks_max and call.depends_on(theirs)
                for (theirs, locks), last in self._last[other].items()
            ):
                return False
            trusts[other] = trust
        for other, trust in trusts.items():
            since = others[other].calls
            self._trusted[other][trust] = min(since, self._trusted[other].get(trust, since))
        return True


@dataclass
class _Graph:
    """Which state follows which; None is the end of a run."""

    begin: State | None = None
    following: dict[State, dict[str, State | None]] = field(default_factory=dict)
    ends: set[State] = field(default_factory=set)

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

    def __init__(self, way: Sequence[str], graph: _Graph, choices_max: int | None) -> None:
        self.world: _ModelWorld | None = None
        self.deviations: dict[chance.Key, chance.Answer] = {}
        self.other_ways: list[tuple[str, ...]] = []
        self._way = way
        self._gone: list[str] = []
        self._graph = graph
        self._choices_max = choices_max
        self._before: tuple[State, str] | None = None

    def draw(
        self, asking: chance.Asking, question: str, calm: chance.Answer, sample: chance.Sample
    ) -> chance.Answer:
        del asking, question, sample
        return calm

    def choose(self, asking: chance.Asking, question: str, calm: str, ready: Sequence[str]) -> str:
        del asking, question, calm
        if self.world is None or self.world.is_over:
            return ready[0]
        ready = [each for each in ready if not self.world.is_waiting(each)] or ready
        local = next((each for each in ready if self.world.is_local(each)), None)
        if local is not None:
            return local
        if len(ready) == 1:
            return ready[0]
        position = len(self._gone)
        state = self.world.state(ready)
        if self._choices_max is not None:
            if position == self._choices_max:
                return ready[0]
            # From the same one more is followed, if it is come to sooner.
            state = (position, *state)
        self.arrive(state)
        if position < len(self._way):
            chosen = self._way[position]
            if chosen not in ready:
                assert self.world.known.is_refuted  # By what was learnt since, on another way.
                chosen = ready[0]
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
        if path == layout.PROBE and path in self.files:
            return self.files[path].info
        self._version = self._versions[path] = self._versions.get(path, 0) + 1
        return super().put(path, content)

    def fingerprint(self) -> int:
        return hash(frozenset((file.info, file.content) for file in self.files.values()))


class _Announcing(faulty_storage.FaultyStorage):
    """A storage that tells of each call before it is made, and once it is.

    A listing of the whole table leaves out what nobody looks for in it: of the library's own folder
    all but what is swept, if anybody sweeps. So it does not depend on what happens there.
    """

    def announce_to(self, world: "_ModelWorld", answers: "_Answers") -> Self:
        self._answers = answers
        self._announced = world.announced
        self._positions = world.positions
        self._known = world.known
        self._is_swept = world.model.is_swept
        return self

    def list(self, directory: str, *, is_recursive: bool = False) -> "list[FileInfo]":
        found = super().list(directory, is_recursive=is_recursive)
        return found if directory else [info for info in found if not self._is_unlisted(info.path)]

    def _paged(
        self,
        call: str,
        everything: Callable[[], Sequence[faulty_storage.Listed]],
        name: Callable[[faulty_storage.Listed], str],
        factor: int,
    ) -> "list[faulty_storage.Listed]":
        def noted() -> Sequence[faulty_storage.Listed]:
            found = everything()
            if self._page_names is not None:
                self._answers.note(tuple(found))  # What comes after depends on each page.
            return found

        return super()._paged(call, noted, name, factor)

    def _is_unlisted(self, path: str) -> bool:
        return path.startswith(_OWN_FOLDER) and not (self._is_swept and path.startswith(_SWEPT))

    def _parsed(self, text: str) -> Call:
        """Return the call that a faulty storage tells of."""
        name, _, path = text.removesuffix(faulty_storage.NEXT_PAGE).partition(" ")
        if name == "list":
            return Call(f"{path}/" if path else "", is_listing=True)
        # While time stands still, touching the clock changes nothing.
        is_look = name in _LOOKS or path == layout.PROBE
        return Call(path, is_change=not is_look, is_unlisted=self._is_unlisted(path))

    def _step(self, call: str) -> None:
        parsed = self._parsed(call)
        self._announced[self._process.name] = parsed
        super()._step(call)
        position = self._positions[self._process.name]
        self._known.note(self._process.name, position, parsed)
        position.calls += 1
        del self._announced[self._process.name]


class _AnnouncingLock(schedule.SessionLockProvider):
    """A lock that tells of what is done to it."""

    def announce_to(self, world: "_ModelWorld") -> Self:
        self._world = world
        return self

    def acquire(self, wait_s: float) -> None:
        super().acquire(wait_s)
        self._world.positions[self.process.name].locks += 1

    def _holder(self) -> schedule.SessionLockProvider | None:
        self._world.announced[self.process.name] = LOCK
        holder = super()._holder()
        del self._world.announced[self.process.name]
        if holder is None and self._world.lock.holder is not None:
            self._world.known.note_shared_lock()
        return holder

    def release(self) -> None:
        self._world.announced[self.process.name] = _UNLOCK
        super().release()
        del self._world.announced[self.process.name]


class _Answers:
    """All answers that an actor was given, as one number."""

    def __init__(self) -> None:
        self.value = 0

    def note(self, answer: object) -> None:
        found = answer if isinstance(answer, (*_VALUES, tuple)) else type(answer).__name__
        self.value = hash((self.value, found))


class _Observed:
    """A storage that takes down all its answers, and a lock."""

    def __init__(self, inner: object, answers: _Answers) -> None:
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
                self._answers.note(error.kind)
                raise
            self._answers.note(tuple(answer) if isinstance(answer, list) else answer)
            return answer

        return call


class _ModelWorld(World):
    """A world in which time stands still."""

    def __init__(
        self, model: Model, chances: chance.Chance, known: Known, troupe: schedule.Troupe
    ) -> None:
        time = schedule.Schedule(0, chances=chances, step_ms_max=0, troupe=troupe)
        self.files = _Store(schedule.VirtualClock(time))
        self.answers: dict[str, _Answers] = {}
        self.is_over = False
        self.model = model
        self.known = known
        self.announced: dict[str, Call] = {}
        self.positions: dict[str, _Position] = defaultdict(_Position)
        self.begun: set[str] = set()
        write_settings = replace(SETTINGS, concurrency=model.mode)
        super().__init__(
            time,
            write_settings=write_settings,
            store=self.files,
            is_lying=model.is_lying,
            epochs_kept=model.epochs_kept,
        )
        self.storage.touch(layout.PROBE)
        self.page_names = model.page_names

    def storage_of(self, process: schedule.Process) -> Storage:
        answers = self.answers.setdefault(process.name, _Answers())
        storage = _Announcing(self.storage, process, self.faults, self, page_names=self.page_names)
        storage.announce_to(self, answers)
        return cast("Storage", _Observed(storage, answers))

    def lock_of(self, process: schedule.Process) -> schedule.SessionLockProvider:
        return _AnnouncingLock(self.lock, process).announce_to(self)

    def begin(self, actor: str, act: Act, client: Client) -> None:
        self.begun.add(actor)
        act(self, client)

    def has_lock(self, actor: str) -> bool:
        return self.lock.holder is not None and self.lock.holder.process.name == actor

    def is_waiting(self, actor: str) -> bool:
        """Return whether an actor wants the lock while another has it."""
        if not self.known.is_reducing:
            return False
        is_held = self.lock.holder is not None and not self.has_lock(actor) and not self.is_lying
        return is_held and self.announced.get(actor) == LOCK

    def is_local(self, actor: str) -> bool:
        """Return whether an actor is about to make a local call, or to begin."""
        if not self.known.is_reducing:
            return False
        if actor not in self.begun:
            return True
        call = self.announced.get(actor)
        others = {each: self.positions[each] for each in self.model.actors if each != actor}
        return call is not None and self.known.is_local(call, others, has_lock=self.has_lock(actor))

    def end(self) -> State:
        return self.files.fingerprint(), *(self.answers[each].value for each in self.model.actors)

    def state(self, ready: Sequence[str]) -> State:
        holder = None
        if self.lock.holder is not None and not self.is_lying:
            holder = self.lock.holder.process.name
        # Steps, too: one may be to look at a lock that is held, to which there is no answer.
        actors = tuple(
            (self.answers[process.name].value, process.steps)
            for process in self.time.processes.values()
        )
        return (self.files.fingerprint(), holder, actors, tuple(sorted(ready)))


def explore(model: Model, runs_max: int | None = None, *, is_reducing: bool = True) -> Explored:
    """Follow every interleaving of a model to its end.

    Args:
        model: The actors.
        runs_max: Follow some of them only, chosen from all parts of the graph.
        is_reducing: Whether to follow one only for all that differ in local calls.

    Raises:
        AssertionError: Something is wrong; the message holds the steps that led there.
    """
    is_reducing = is_reducing and model.is_reducible
    known = Known(is_reducing=is_reducing, is_lock_lying=model.is_lying)
    with schedule.Troupe() as troupe:
        if runs_max is None and is_reducing:
            # Runs from all parts of the graph teach the most, and going on after a refutation.
            _explore(model, known, LEARNING_RUNS, troupe, is_learning=True)
            known.forget_trust()
        while True:
            explored = _explore(model, known, runs_max, troupe)
            if not known.is_refuted:
                return explored
            known.forget_trust()


def _explore(
    model: Model,
    known: Known,
    runs_max: int | None,
    troupe: schedule.Troupe,
    *,
    is_learning: bool = False,
) -> Explored:
    graph = _Graph()
    ways: list[tuple[str, ...]] = [()]
    source = random.Random(0)
    runs = 0
    while ways and runs != runs_max and (is_learning or not known.is_refuted):
        # The newest way is the shortest to replay; of a part only, it would be the end of one run.
        number = len(ways) - 1 if runs_max is None else source.randrange(len(ways))
        chances = _FollowingChance(ways.pop(number), graph, model.choices_max)
        runs += 1
        end = _run(model, chances, known, troupe)
        if end is not None:
            chances.arrive(None)
            graph.ends.add(end)
        ways += chances.other_ways
    return Explored(
        states=len(graph.following),
        runs=runs,
        interleavings=graph.count_paths(),
        ends=frozenset(graph.ends),
    )


def _run(
    model: Model,
    chances: _FollowingChance,
    known: Known,
    troupe: schedule.Troupe,
) -> State | None:
    """Make one run; return its end, if it went there."""
    world = _ModelWorld(model, chances, known, troupe)
    if model.prepare is not None:
        model.prepare(world, world.writer("before"))
    if model.is_taken_for_dead:
        world.time.is_proved_dead = lambda process: True  # type: ignore[method-assign] # a lie
        world.witness.may_misjudge = True
    for name, act in model.actors.items():
        process = world.process(name)
        client = world.client(process)
        world.time.spawn(name, process, functools.partial(world.begin, name, act, client))
    chances.world = world
    try:
        world.time.run()
        world.is_over = True
        end = world.end()
        model.check(world)
    except Pruned:
        return None
    except AssertionError as error:
        steps = "\n".join(world.time.history)
        raise AssertionError(f"{error}\n{steps}") from error
    return end
