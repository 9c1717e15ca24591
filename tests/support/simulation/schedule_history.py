"""Readers of the archived timeline in a simulated world, and what the archive's files are."""

from collections.abc import Callable

from hoodie import errors
from hoodie.model import instants
from hoodie.storage.protocol import Storage
from hoodie.timeline import archived, chain, history_tree, history_writing
from hoodie.transaction.client import Client
from support.simulation import invariants
from support.simulation.schedule_world import World

PAUSE_S = 3.0


class LookingBack:
    """One process that reads the whole timeline again and again."""

    def __init__(self, world: World, reader: Client) -> None:
        """Begin without having seen anything."""
        self._world = world
        self._reader = reader
        self._seen: dict[instants.InstantTime, instants.InstantTime | None] = {}

    def act(
        self, transient: tuple[type[errors.HoodieError], ...], is_done: Callable[[], bool]
    ) -> None:
        """Look until the others are done."""
        while True:
            is_last = is_done()
            try:
                self._look()
                if is_last:
                    return
            except transient as error:
                self._world.time.note(f"{self._reader.author}: {error.kind}: {error}")
            self._reader.clock.sleep_s(PAUSE_S * self._reader.random.uniform())

    def _look(self) -> None:
        """Read the timeline, then the archive: what was acknowledged is in one of them."""
        acknowledged = invariants.acknowledged(self._world.told)
        timeline = chain.load(self._reader.storage, self._world.config)
        found = [
            each.instant for each in archived.ArchivedTimeline(self._reader.storage).newest_first()
        ]
        times = [each.requested_time for each in found]
        assert times == sorted(set(times), reverse=True), f"out of order: {times}"
        then = {each.requested_time: each.completion_time for each in found}
        lost = [each for each in self._seen if self._seen[each] != then.get(each)]
        assert not lost, f"{self._reader.author} has read {lost} in the archive, and does no more"
        before, self._seen = sorted(self._seen), then
        there = then.keys() | timeline.write_completion_times.keys()
        missed = acknowledged - there - self._world.excused
        assert not missed, f"{self._reader.author} sees {missed} on neither timeline"
        if before:
            time = before[int(self._reader.random.uniform() * len(before))]
            looked_up = timeline.completion_time(time)
            if not any(each.requested_time == time and each.action.is_write for each in found):
                return  # A rollback may be archived that is younger than a write which is not.
            assert looked_up == then[time], f"{time}: {looked_up} was looked up, not {then[time]}"


def unlisted(storage: Storage) -> frozenset[str]:
    """Return the names of the archive's files that no kept manifest lists.

    A run leaves what it has merged further at once, and one that dies what it has staged: the next
    run that archives beyond deletes both.
    """
    tree = history_writing.read_tree(storage)
    assert len(tree.manifests) <= history_tree.MANIFESTS_KEPT, f"manifests: {tree.manifests}"
    listed = {
        file.name for each in tree.manifests for file in archived.files_of_manifest(storage, each)
    }
    known = {history_tree.VERSION_PATH, *map(history_tree.manifest_path, tree.manifests)}
    return frozenset(
        info.name
        for info in storage.list(history_tree.DIRECTORY)
        if info.path not in known and info.name not in listed
    )
