"""Judges the changes of a simulated table's metadata table as they are made.

    before   a change of the data completes after its delta commit, which names files that are there
    after    a write leaves the timeline after its delta commit, unless that came later
    above    the times of writes and of delta commits are above all times of both timelines, where a
             lock keeps their authors apart

What an author could not know when it took the lock is not judged here, nor what a store carries out
late, nor what is done after others had the lock, in a table without a chain.
"""

from hoodie import errors
from hoodie.format import instant_names, timeline_avro
from hoodie.model import instants
from hoodie.storage.memory import MemoryStorage
from hoodie.timeline import active, metadata_timelines, transitions
from support.simulation import schedule, schedule_witness

_LOGGED = (instants.Action.DELTA_COMMIT,)
_CHANGES = (*instants.WRITES, instants.Action.COMPACTION, instants.Action.CLEAN)


class MetadataJudge:
    """Judges the changes of one table."""

    def __init__(self, time: schedule.Schedule, storage: MemoryStorage, *, has_lock: bool) -> None:
        self._time = time
        self._has_lock = has_lock
        self._storage = storage
        self._beside = metadata_timelines.opened(storage)

    def see_creation(self, process: schedule.Process, path: str, taken_ms: int) -> None:
        """Judge a file that was just created by a process that took the lock at some moment."""
        of_data = schedule_witness.instant_at(path)
        if of_data is not None and of_data.is_completed and of_data.action.completed in _CHANGES:
            self._see_change(process, of_data)
        directory, _, name = path.rpartition("/")
        beside = instant_names.parse(name) if directory == metadata_timelines.TIMELINE else None
        if beside is not None and beside.is_completed and beside.action in _LOGGED:
            self._see_files(process, beside)
            self._see_time(process, beside, taken_ms)
        if (
            of_data is not None
            and of_data.state is instants.State.REQUESTED
            and of_data.action in instants.WRITES
        ):
            self._see_time(process, of_data, taken_ms)

    def see_deletion(self, process: schedule.Process, path: str, taken_ms: int) -> None:
        """Judge a file that is about to be deleted: a write leaves the timeline."""
        gone = schedule_witness.instant_at(path)
        if gone is None or gone.state is not instants.State.REQUESTED:
            return
        if gone.action not in instants.WRITES:
            return
        time = gone.requested_time
        timeline = active.listed(self._storage)
        if any(each.requested_time == time for each in timeline.completed):
            return  # It is about to be archived.
        if timeline.archive.completion_time(time) is not None:
            return
        for each in active.listed(self._beside).completed:
            self._require(
                each.requested_time != time or self._changed_ms(each) >= taken_ms,
                f"M-C: {process.name} takes {gone} off, whose delta commit is there",
            )

    def _see_change(self, process: schedule.Process, completed: instants.Instant) -> None:
        beside = active.listed(self._beside)
        time = completed.requested_time
        self._require(
            beside.write_completion_times.get(time, "") < str(completed.completion_time),
            f"M4: {process.name} completes {completed} before its delta commit",
        )
        self._require(
            time in beside.write_completion_times
            or beside.archive.completion_time(time) is not None
            or str(completed.completion_time) < str(beside.completed[0].completion_time),
            f"M4: {process.name} completes {completed}, which the metadata table lacks",
        )

    def _see_files(self, process: schedule.Process, completed: instants.Instant) -> None:
        commit = timeline_avro.decode_commit(self._beside.read(transitions.path(completed)))
        for stat in commit.stats:
            try:
                size_bytes = self._beside.stat(stat.path).size_bytes
            except errors.NotFoundError:
                size_bytes = -1
            self._require(
                size_bytes == stat.size_bytes,
                f"M3: {process.name} completes {completed} of the metadata table, which names "
                f"{stat.path}, of which {size_bytes} bytes are there",
            )

    def _see_time(self, process: schedule.Process, new: instants.Instant, taken_ms: int) -> None:
        if not self._has_lock or process.name.startswith("jvm"):  # Which looks at no timeline.
            return
        for storage in (self._storage, self._beside):
            for each in active.listed(storage).files:
                is_known = storage.stat(transitions.path(each)).modified_ms < taken_ms
                is_other = each.requested_time != new.requested_time
                self._require(
                    not (is_known and is_other)
                    or active.latest_time(each) < active.latest_time(new),
                    f"M-E: {process.name} gives {new} a time that is not above {each}",
                )

    def _changed_ms(self, beside: instants.Instant) -> int:
        return self._beside.stat(transitions.path(beside)).modified_ms

    def _require(self, holds: bool, message: str) -> None:
        if not holds:
            error = schedule_witness.RuleBrokenError(message)
            if self._time.is_running:
                self._time.stop(error)
            raise error
