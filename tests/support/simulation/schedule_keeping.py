"""What savepoints and consumers keep in a simulated table, and whether it is kept.

    saved     a savepoint that its author was told is there, and whose deletion has not begun
    consumed  how far a consumer has read, at most: what it was told, or has asked for last
    holding   a consumer that was told that it is there, and that nothing has passed it

Each file that is deleted is judged when it goes, with what authors had been told by then.
"""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from hoodie.format import timeline_avro
from hoodie.maintenance import savepoints
from hoodie.model import commits, files, instants, results
from hoodie.storage.protocol import Storage
from hoodie.timeline import active, transitions
from support.simulation import schedule, schedule_files

_NEVER = instants.InstantTime("")


@dataclass(slots=True)
class Place:
    """How far a consumer has read.

    Attributes:
        consumed: Completion time.
        until_ms: It holds until then by its limit, if it stays silent.
        is_holding: Whether it was told that it is there, and that nothing has passed it.
    """

    consumed: instants.InstantTime = _NEVER
    until_ms: int = 0
    is_holding: bool = False


@dataclass(frozen=True)
class _Write:
    """A completed write, as its file has it."""

    instant: instants.Instant
    metadata: commits.CommitMetadata

    @property
    def completed(self) -> str:
        return str(self.instant.completion_time)

    @property
    def paths(self) -> frozenset[str]:
        """The files that it names."""
        return frozenset(
            path
            for stat in self.metadata.stats
            for path in (
                stat.path,
                *(files.join(stat.partition_path, name) for name in stat.log_files),
            )
        )


@dataclass(slots=True)
class Keepers:
    """The savepoints and consumers of one table, by what their authors were told."""

    time: schedule.Schedule
    storage: Storage
    is_ordered: bool = False  # Whether a chain orders all that changes the table.
    saved: dict[instants.InstantTime, results.SavepointResult] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)
    _doomed: list[savepoints.Doomed] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def count(self, what: str) -> None:
        """Take down that something was done, so that tests see what runs are worth."""
        self.counts[what] = self.counts.get(what, 0) + 1

    def see_savepoint(self, found: results.SavepointResult, table: Storage) -> None:
        """Take down a savepoint that its author was told is there: its files are."""
        there = {info.path for info in self.storage.list("", is_recursive=True)}
        commit = found.instant.requested_time
        if self._is_doomed(commit):
            return
        missing = found.savepoint.paths - there
        assert not missing, f"{found.instant} names files that are not there: {sorted(missing)}"
        if self.is_ordered:
            self._check_complete(found, table)
        self.saved[commit] = found
        self.count("savepoints")

    @contextlib.contextmanager
    def deleting(self, doomed: savepoints.Doomed) -> Iterator[None]:
        """Take down that savepoints may be gone from now on."""
        self._doomed.append(doomed)
        try:
            yield
        finally:
            self._doomed.remove(doomed)
            now = active.load(self.storage).greatest_time or instants.format_time(0)
            for commit, each in list(self.saved.items()):
                age_ms = instants.parse_time(now) - instants.parse_time(
                    str(each.instant.completion_time)
                )
                is_old = doomed.older_than_ms is not None and age_ms > doomed.older_than_ms
                if commit in doomed.commits or is_old:
                    del self.saved[commit]

    def see_advance(self, name: str, to: instants.InstantTime | None) -> None:
        """Take down up to where a consumer asks to be."""
        place = self.places.setdefault(name, Place())
        place.consumed = max(place.consumed, to or _NEVER)

    def see_advanced(
        self, name: str, consumed: instants.InstantTime, until_ms: int, *, is_passed: bool
    ) -> None:
        """Take down where a consumer was told that it is."""
        place = self.places.setdefault(name, Place())
        place.consumed = max(place.consumed, consumed)
        place.until_ms = until_ms
        place.is_holding = not is_passed
        self.count("passed" if is_passed else "advanced")

    def forget(self, name: str) -> None:
        """Take down that a consumer holds nothing any more."""
        self.places.pop(name, None)

    def holding(self) -> dict[str, Place]:
        """Return the consumers that hold cleaning and archiving now, as they are now."""
        return {
            name: replace(each)
            for name, each in self.places.items()
            if each.is_holding and self.time.now_ms <= each.until_ms
        }

    def see_deletion(self, process: schedule.Process, path: str, timeline: Storage) -> None:
        """Judge a file that is about to be deleted.

        Args:
            process: Which deletes it.
            path: Of the file.
            timeline: The table's storage with the instants that were archived.
        """
        for name in [each for each in self.places if active.consumer_path(each) == path]:
            self.forget(name)
        if path.startswith(".hoodie/"):
            return
        for commit, each in self.saved.items():
            assert path not in each.savepoint.paths or self._is_doomed(commit), (
                f"{process.name} deletes {path}, which the savepoint of {commit} names"
            )
        holding = self.holding()
        if holding and process.name.startswith(("cleaner", "last")):
            self._check_unread(process, path, holding, timeline)

    def check_archived(
        self, archived: Iterable[instants.Instant], before: dict[str, Place]
    ) -> None:
        """Judge what a run of the archiver has archived.

        Args:
            archived: Those instants.
            before: Which consumers held when the run began.
        """
        writes = [each for each in archived if each.action.is_write]
        for name, place in before.items():
            now = self.holding().get(name)
            if now is None:
                continue
            consumed = max(place.consumed, now.consumed)
            for each in writes:
                assert str(each.completion_time) < consumed, (
                    f"{each} was archived, and {name} has read up to {consumed}"
                )

    def check(self, table: Storage) -> None:
        """Check that all savepoints are there that should be, with their files and commits."""
        timeline = active.load(self.storage)
        there = {info.path for info in self.storage.list("", is_recursive=True)}
        for commit, each in self.saved.items():
            assert each.instant in timeline.savepoints, f"{each.instant} is gone"
            assert commit in timeline.write_completion_times, f"{commit} was archived"
            missing = each.savepoint.paths - there
            assert not missing, f"{each.instant} names what is gone: {sorted(missing)}"
            if self.is_ordered:
                self._check_complete(each, table)
        first = min(self.saved, default=None)
        archived = {each.requested_time for each in active.load(table).completed_writes}
        archived -= timeline.write_completion_times.keys()
        assert first is None or first > max(archived, default=""), (
            f"archived up to {max(archived)}, past the savepoint of {first}"
        )

    def _is_doomed(self, commit: instants.InstantTime) -> bool:
        return any(
            commit in each.commits or each.older_than_ms is not None for each in self._doomed
        )

    def _check_complete(self, found: results.SavepointResult, table: Storage) -> None:
        """A savepoint names all that a read as of its commit needs."""
        writes = _writes(table)
        times = {each.instant.requested_time: each for each in writes}
        commit = times[found.instant.requested_time]
        held = {
            instants.InstantTime(line.split()[0])
            for path in found.savepoint.paths
            for line in schedule_files.lines_of(self.storage.read(path)).decode().splitlines()
        }
        expected = {
            each.instant.requested_time
            for each in writes
            if each.completed <= commit.completed
            and each.metadata.operation != commits.Operation.COMPACT.value
        }
        assert expected <= held, f"{found.instant} lacks {sorted(expected - held)}"

    def _check_unread(
        self, process: schedule.Process, path: str, holding: dict[str, Place], table: Storage
    ) -> None:
        """What was written, or replaced, after all that a consumer has read stays."""
        writes = _writes(table)
        author = next((each for each in writes if path in each.paths), None)
        if author is None:
            return
        group = next(
            each.file_id
            for each in author.metadata.stats
            if path == each.path or path.rpartition("/")[2] in each.log_files
        )
        is_base = any(path == each.path and not each.log_files for each in author.metadata.stats)
        replaced = min(
            (
                each.completed
                for each in writes
                if each.instant.requested_time > author.instant.requested_time
                and any(
                    stat.file_id == group and not stat.log_files for stat in each.metadata.stats
                )
            ),
            default="",
        )
        for name, place in holding.items():
            is_unread = author.completed > place.consumed
            is_needed = is_base and replaced >= place.consumed
            is_kept = is_unread or is_needed
            assert not is_kept, (
                f"{process.name} deletes {path} of {author.instant}, replaced at {replaced}: "
                f"{name} has read up to {place.consumed}"
            )


def _writes(table: Storage) -> list[_Write]:
    """Return the completed writes, in the order of their completion."""
    return [
        _Write(each, timeline_avro.decode_commit(table.read(transitions.path(each))))
        for each in active.load(table).completed_writes
    ]
