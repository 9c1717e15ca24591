"""Consumers in a simulated world: each reads increments, says how far it is, and goes on."""

from collections.abc import Callable

from hoodie import environment, errors
from hoodie.engine import local
from hoodie.maintenance import consumers
from hoodie.model import instants
from hoodie.timeline import active, chain, contents
from hoodie.transaction import markers
from hoodie.transaction.client import Client
from support.simulation.schedule_world import World

LIMITS_MS = (consumers.LIMIT_DEFAULT_MS, consumers.LIMIT_DEFAULT_MS, 6_000)
PAUSE_S = 3.0
REMOVAL_RATE = 0.1


def remove_all(world: World) -> None:
    """Remove all that there are."""
    for name in active.load(world.storage).consumers:
        world.keepers.forget(name)
        consumers.remove(world.storage, name)


class Consumption:
    """What one process of a consumer does."""

    def __init__(self, world: World, client: Client) -> None:
        self._world = world
        self._client = client
        self._name = client.author.writer_id or "consumer"
        self._consumed: instants.InstantTime | None = None
        self._start: instants.InstantTime | None = None
        self._seen: set[instants.InstantTime] = set()
        number = int(client.random.uniform() * len(LIMITS_MS))
        self._limit_ms = LIMITS_MS[number]

    def act(
        self, transient: tuple[type[errors.HoodieError], ...], is_done: Callable[[], bool]
    ) -> None:
        """Read what is new, until the others are done."""
        while True:
            is_last = is_done()
            try:
                if self._consumed is None:
                    self._declare()
                self._read()
                if is_last:
                    return
                if self._client.random.uniform() < REMOVAL_RATE:
                    self._remove()
            except (*transient, errors.InvalidInputError, errors.NotFoundError) as error:
                # What it would read is gone, or its predecessor has read on: it begins where
                # its file is, or with what is there now.
                self._world.time.note(f"{self._client.author}: {error.kind}: {error}")
                self._consumed = None
            self._client.clock.sleep_s(PAUSE_S * self._client.random.uniform())

    def _look(self) -> active.ActiveTimeline:
        return chain.load(self._client.storage, self._world.config)

    def _read(self) -> None:
        """Read all that has completed since, with every file of it."""
        storage = self._client.storage
        new = active.completed_after(self._look(), str(self._consumed))
        for each in new:
            if each.action.is_write:
                for stat in contents.read_commit(storage, each).stats:
                    for path in markers.paths_of(stat):
                        storage.read(path)
        if new:
            self._advance(new[-1].completion_time)
            self._seen |= {each.requested_time for each in new}
            self._check_nothing_missed()

    def _declare(self) -> None:
        """Begin where the file is, or with what is there now."""
        try:
            self._advance(None)
        except errors.ConflictError:
            self._remove()  # What it would begin with is gone.
            raise

    def _advance(self, to: instants.InstantTime | None) -> None:
        begun_ms = self._world.time.now_ms
        self._world.keepers.see_advance(self._name, to)
        progress = consumers.Progress(
            to=to, limit_ms=self._limit_ms, expected=self._consumed if to else None
        )
        advanced = consumers.advance(
            self._client.storage,
            self._look,
            self._name,
            progress,
            self._environment,
            self._world.config,
        )
        # Another process of this consumer may be further by now.
        consumed = to or advanced.consumer.consumed
        self._world.keepers.see_advanced(
            self._name,
            consumed,
            begun_ms + self._limit_ms,
            is_passed=advanced.passed_by is not None,
        )
        if to is None:
            self._start, self._seen = consumed, set()
        self._consumed = consumed
        if advanced.passed_by is not None:
            self._remove()

    @property
    def _environment(self) -> environment.Environment:
        process = self._world.process_of(self._client)
        return environment.Environment(
            open_storage=lambda _: self._client.storage,
            clock=process.clock,
            random=process.random,
            background=process.background,
            engine=local.LocalEngine(),
            process=process.process,
        )

    def _remove(self) -> None:
        self._world.keepers.forget(self._name)
        self._consumed = None
        consumers.remove(self._client.storage, self._name)

    def _check_nothing_missed(self) -> None:
        """I6: it has read all that completed between where it began and where it is."""
        if not self._world.is_ordered and self._world.wall is None:
            return
        missed = [
            each
            for each in self._world.timeline.completed_writes
            if str(self._start) < str(each.completion_time) <= str(self._consumed)
            and each.requested_time not in self._seen
            and each not in self._world.late
        ]
        assert not missed, f"{self._name} has read up to {self._consumed} without {missed}"
