"""Sees every change of a simulated table as it is made, and what its author could know by then.

What a table looks like in the end does not tell a rule that held from one that happened not to be
needed. So each change is judged when it takes effect, by what was true when its author last looked:

    asked    when the call was made; what an author checks right before a call it checks then
    taken    when the author's present holding of the lock began; the timeline was read after that
    listed   when the author last listed the timeline

Later news an author cannot have: what it does in ignorance of it is judged in the end, by
`invariants`. A change that a store carries out late was asked for in time, and is not judged here.
"""

import contextlib
from collections.abc import Iterator

from hoodie import errors
from hoodie.filegroup import snapshots
from hoodie.format import file_names, instant_names, timeline_avro
from hoodie.model import commits, files, instants, table_config
from hoodie.storage.memory import MemoryStorage
from hoodie.timeline import active, contents, epochs, transitions
from hoodie.transaction import heartbeats, layout, markers
from hoodie.transaction.client import Client, OpenAction
from support.simulation import invariants, schedule

_HEARTBEATS = f"{layout.HEARTBEATS}/"
_DRIFT_MS = 20
"""How far a process's clock and the store's may be apart over a heartbeat's expiry."""


class RuleBrokenError(AssertionError):
    """Somebody did what it could have known it must not do."""


_PARTITIONED = table_config.TableConfig(
    name="t", record_key_fields=("id",), partition_fields=("part",)
)


class Witness:
    """Judges the changes of one table."""

    def __init__(
        self,
        time: schedule.Schedule,
        storage: MemoryStorage,
        lock: schedule.SessionLock,
        expiry_ms: int,
    ) -> None:
        self._time = time
        self._storage = storage
        self._lock = lock
        self._expiry_ms = expiry_ms
        self._owners: set[tuple[str, str]] = set()  # Heartbeat files, and who has had them.
        self._taken_over: dict[str, tuple[str, int]] = {}  # By whom last, and when.
        self.known_at_begin: dict[instants.InstantTime, frozenset[instants.InstantTime]] = {}
        """Of each write that conflicts with others: the writes that it knew when it began."""
        self._creators: dict[str, str] = {}  # Of files of the timeline.
        self._decided: dict[str, tuple[str, int]] = {}
        """By whom, and when, it was decided that a file of the timeline is to be: by its epoch."""
        self._foreign_since_ms: int | None = None
        """Since when the table has what ours do not maintain."""
        self.may_misjudge = False
        """Whether living processes are taken for dead, so that nothing follows from a takeover."""
        self.has_one_writer = False
        """Whether writers begin one at a time."""

    def see_begin(self, writer: Client, opened: OpenAction) -> None:
        """Judge a write that has just begun, by the timeline that it began on.

        WR1: a batch that this timeline shows is not begun again, whoever wrote it, and however late
        its completed file appeared; but for one that had been taken back by then, whose files are
        gone.
        """
        writer_id, batch_id = writer.author.writer_id, opened.batch_id
        if batch_id is None:
            return
        for other in opened.timeline.completed_writes:
            try:
                extra = self._metadata(other).extra
            except errors.NotFoundError:
                continue  # It was taken back since.
            held = extra.get(commits.WRITER_ID_KEY), extra.get(commits.BATCH_ID_KEY)
            changed_ms = self._changed_ms(transitions.path(other))
            self._require(
                held != (writer_id, batch_id)
                or self._was_taken_back(other.requested_time, changed_ms),
                f"WR1: {writer_id} begins {opened.requested} for {batch_id}, which {other} holds",
            )

    @contextlib.contextmanager
    def seeing_abort(self, process: schedule.Process, opened: OpenAction) -> Iterator[None]:
        """Judge an abort, if none of its calls failed and its lock was not lost.

        R4: who finds its write taken back leaves no file of it behind.
        """
        failures = process.failures
        yield
        taken_ms = self._lock.taken_ms.get(process.name)
        if taken_ms is None or process.failures != failures or self._lock.was_lost(process):
            return
        time = opened.requested_time
        # A late inflight file puts it on the timeline again, to be taken back again.
        if self._timeline().find(time) is not None or not self._was_taken_back(time, taken_ms):
            return
        marked = markers.marked_files(self._storage, time)
        for path, changed_ms in self._data_files(time):
            self._require(
                path not in marked or changed_ms >= taken_ms,
                f"R4: {process.name} gives up {time}, which was taken back, and leaves {path}",
            )

    def see_rolled_back(
        self, process: schedule.Process, rollback: instants.Instant, target: instants.InstantTime
    ) -> None:
        """Judge a rollback that has just ended, if none of its calls failed.

        R9: of what its target had when it was completed, heartbeat and markers are gone.
        """
        try:
            completed_ms = self._changed_ms(transitions.path(rollback))
        except errors.NotFoundError:
            return  # It was archived since.
        beat = heartbeats.path_of(target)
        found = [*self._storage.list(layout.HEARTBEATS)]
        found += self._storage.list(markers.directory_of(target), is_recursive=True)
        left = [
            info.path
            for info in found
            if info.modified_ms < completed_ms
            and (info.path == beat or not info.path.startswith(_HEARTBEATS))
        ]
        self._require(not left, f"R9: {process.name} has taken {target} back, and leaves {left}")

    def see_start(self, process: schedule.Process, opened: OpenAction) -> None:
        """P1: a plan is executed from the start, after what a dead executor left was taken away."""
        path = transitions.path(opened.inflight)
        begun_ms = self._changed_ms(path)
        beat = heartbeats.path_of(opened.requested_time)
        owner, since_ms = self._taken_over.get(beat, (process.name, 0))
        self._require(
            self._creators.get(path) == process.name
            or owner == process.name
            or since_ms > process.asked_ms,
            f"P1: {process.name} goes on with {opened.inflight}, which {owner} has begun",
        )
        self._require(
            begun_ms >= self._lock.taken_ms[process.name],
            f"P1: {process.name} goes on with {opened.inflight}, which another began to execute",
        )

    def see_configuration(self, *, is_ours_to_write: bool) -> None:
        """Take down that another engine has changed what the table has."""
        self._foreign_since_ms = None if is_ours_to_write else self._time.now_ms

    def see_any_creation(self, process: schedule.Process, path: str, is_late: bool) -> None:
        """Take down who has created a file, however late."""
        if path.startswith(f"{epochs.DIRECTORY}/") and epochs.STAGED not in path:
            found = epochs.decoded(self._storage.read(path), path)
            # What was asked for in time, and took effect later, is not judged.
            decided = "" if is_late else process.name, process.asked_ms
            self._decided |= {each.path: decided for each in found.epoch.publications}
        if instant_at(path) is not None:
            self._creators[path] = process.name

    def see_creation(self, process: schedule.Process, path: str) -> None:
        """Judge a file that was just created."""
        if process.is_spared:
            return
        self._owners.add((path, process.name))
        if path.startswith(_HEARTBEATS):
            self._taken_over[path] = process.name, self._time.now_ms
            self._see_execution(process, path)
        instant = instant_at(path)
        if instant is None or instant.state is instants.State.INFLIGHT:
            return
        self._require(
            self._has_lock_when_asked(process),
            f"L2: {process.name} has created {instant} without the lock",
        )
        decider, _ = self._decided.get(path, (process.name, 0))
        if decider != process.name:
            return  # It finishes what another has decided.
        if instant.is_completed:
            self._see_completion(process, instant)
        elif instant.action is instants.Action.ROLLBACK:
            self._see_rollback_request(process, instant)
        elif instant.action in instants.WRITES:
            self._see_write_request(process, instant)

    def has_just_decided(self, process: schedule.Process, path: str) -> bool:
        """Return whether a process has decided on a file that it creates since it has the lock."""
        if path not in self._decided:
            return True
        decider, decided_ms = self._decided[path]
        return decider == process.name and decided_ms >= self._lock.taken_ms.get(decider, 0)

    def see_replacement(self, process: schedule.Process, path: str) -> None:
        """Judge a file that is about to be replaced: a heartbeat is taken over from the dead."""
        if not path.startswith(_HEARTBEATS):
            return
        self._owners.add((path, process.name))
        self._taken_over[path] = process.name, self._time.now_ms
        self._see_execution(process, path)
        self._require(
            self.may_misjudge or not self._is_alive(path),
            f"P1: {process.name} takes {path} from somebody who is alive",
        )

    def see_touch(self, process: schedule.Process, path: str) -> None:
        """Judge a file that is about to be touched: a heart that was silent is dead for good."""
        if not path.startswith(_HEARTBEATS):
            return
        silence_ms = self._silence_ms(path, self._time.now_ms)
        self._require(
            silence_ms is None or silence_ms < self._expiry_ms + _DRIFT_MS,
            f"C2: {process.name} touches {path} after {silence_ms} ms of silence",
        )

    def see_deletion(self, process: schedule.Process, path: str) -> None:
        """Judge a file that is about to be deleted."""
        if path.startswith(_HEARTBEATS):
            self._see_heartbeat_deletion(process, path)
        elif not path.startswith(".hoodie/"):
            self._see_data_deletion(process, path)

    def _see_completion(self, process: schedule.Process, completed: instants.Instant) -> None:
        if completed.action is instants.Action.SAVEPOINT:
            self._see_once(process, completed)  # No heartbeat, and no data file of its own.
            return
        taken_ms = self._lock.taken_ms[process.name]
        beat = heartbeats.path_of(completed.requested_time)
        _, decided_ms = self._decided.get(
            transitions.path(completed), (process.name, process.asked_ms)
        )
        silence_ms = self._silence_ms(beat, decided_ms)
        self._require(
            silence_ms is None or silence_ms < self._expiry_ms + _DRIFT_MS,
            f"C1: {process.name} completes {completed} after a silence of {silence_ms} ms",
        )
        owner, since_ms = self._taken_over.get(beat, (process.name, 0))
        self._require(
            owner == process.name or since_ms > taken_ms,
            f"C1: {process.name} completes {completed}, which {owner} has taken over",
        )
        self._see_once(process, completed)
        self._see_other_engines(process, completed, taken_ms)
        if completed.action is instants.Action.ROLLBACK:
            self._see_rollback(process, completed, taken_ms)
        else:
            self._see_write(process, completed, taken_ms)

    def _see_once(self, process: schedule.Process, completed: instants.Instant) -> None:
        taken_ms = self._lock.taken_ms[process.name]
        for other in self._completed_files(completed.requested_time):
            self._require(
                other == completed
                or other.action is not completed.action
                or self._changed_ms(transitions.path(other)) > taken_ms,
                f"I9: {process.name} completes {completed}, which {other} shows as completed",
            )

    def _see_other_engines(
        self, process: schedule.Process, completed: instants.Instant, taken_ms: int
    ) -> None:
        """C1: nothing completes that a restore has overtaken, nor on a table that is not ours."""
        since_ms = self._foreign_since_ms
        self._require(
            since_ms is None or since_ms > taken_ms,
            f"C1: {process.name} completes {completed} on a table that has a metadata table",
        )
        beat = heartbeats.path_of(completed.requested_time)
        _, begun_ms = self._taken_over.get(beat, ("", 0))
        for restore in self._timeline().instants:
            if restore.action is not instants.Action.RESTORE:
                continue
            requested = restore.pending_in(instants.State.REQUESTED)
            is_seen = self._changed_ms(transitions.path(requested)) <= taken_ms
            is_over = (
                restore.is_completed and self._changed_ms(transitions.path(restore)) <= begun_ms
            )
            self._require(
                is_over or not is_seen,
                f"C1: {process.name} completes {completed}, which {restore} has overtaken",
            )

    def _see_write(
        self, process: schedule.Process, completed: instants.Instant, taken_ms: int
    ) -> None:
        """W13: of the data files that it has markers of, those are left that the commit names."""
        metadata = self._metadata(completed)
        named = _named(metadata)
        marked = markers.marked_files(self._storage, completed.requested_time)
        for path, changed_ms in self._data_files(completed.requested_time):
            self._require(
                path in named or path not in marked or changed_ms >= taken_ms,
                f"W13: {process.name} completes {completed}, which does not name {path}",
            )
        known = self.known_at_begin.get(completed.requested_time)
        # A plan whose author lost the lock may have the time of a write.
        is_compaction = metadata.operation == commits.Operation.COMPACT.value
        if known is not None and not is_compaction:
            self._see_conflicts(process, completed, taken_ms, known)

    def _see_conflicts(
        self,
        process: schedule.Process,
        completed: instants.Instant,
        taken_ms: int,
        known: frozenset[instants.InstantTime],
    ) -> None:
        """I3, O2: nothing is completed over a write that was not known when it began."""
        mine = _groups(self._metadata(completed))
        for other in self._timeline().completed_writes:
            if other.requested_time in known or other.requested_time == completed.requested_time:
                continue
            metadata = self._metadata(other)
            is_before = self._changed_ms(transitions.path(other)) <= taken_ms
            is_compaction = metadata.operation == commits.Operation.COMPACT.value
            self._require(
                not is_before or is_compaction or not (mine & _groups(metadata)),
                f"I3: {process.name} completes {completed} over {other}, which it did not know",
            )

    def _see_rollback(
        self, process: schedule.Process, completed: instants.Instant, taken_ms: int
    ) -> None:
        requested_time = contents.read_rollback_target(self._storage, completed)
        if requested_time is None:
            return
        for other in self._completed_targets(requested_time):
            self._require(
                self._changed_ms(transitions.path(other)) > taken_ms,
                f"R-D: {process.name} completes {completed}, whose target is {other}",
            )
        target = self._timeline().find(requested_time)
        is_write = target is not None and target.action in instants.WRITES
        self._require(
            not (is_write and self._is_requested(requested_time, taken_ms)),
            f"R7: {process.name} completes {completed} while its target is {target}",
        )
        begun_ms = self._changed_ms(contents.rollback_plan_path(completed))
        marked = markers.marked_files(self._storage, requested_time)
        for path, changed_ms in self._data_files(requested_time):
            is_kept = target is not None and not is_write  # A compaction is executed anew.
            self._require(
                is_kept or path not in marked or changed_ms >= begun_ms,
                f"R4: {process.name} completes {completed}, and leaves {path}",
            )

    def _see_rollback_request(self, process: schedule.Process, requested: instants.Instant) -> None:
        target = contents.read_rollback_target(self._storage, requested)
        if target is None:
            return
        taken_ms = self._lock.taken_ms[process.name]
        for other in self._completed_targets(target):
            self._require(
                self._changed_ms(transitions.path(other)) > taken_ms,
                f"R-A: {process.name} requests {requested} of {other}",
            )
        timeline = self._timeline()
        for other in timeline.pending_of(instants.Action.ROLLBACK):
            is_same = (
                other.requested_time != requested.requested_time
                and contents.read_rollback_target(self._storage, other) == target
                and self._changed_ms(contents.rollback_plan_path(other)) <= taken_ms
            )
            self._require(
                not is_same,
                f"R-A: {process.name} requests {requested} of {target}, as {other} does",
            )
        self._require(
            self.may_misjudge or not self._is_alive(heartbeats.path_of(target)),
            f"R-A: {process.name} requests {requested} of {target}, whose owner is alive",
        )

    def _see_write_request(self, process: schedule.Process, requested: instants.Instant) -> None:
        """A single writer does not begin beside another that it could see at work."""
        if not self.has_one_writer or self.may_misjudge:
            return
        taken_ms = self._lock.taken_ms[process.name]
        own = self._author(heartbeats.path_of(requested.requested_time))
        for other in self._timeline().pending_of(*instants.WRITES):
            beat = heartbeats.path_of(other.requested_time)
            self._require(
                other.requested_time == requested.requested_time
                or not self._is_requested(other.requested_time, taken_ms)
                or self._author(beat) in ("", own)
                or not self._is_alive(beat),
                f"single writer: {process.name} begins {requested} beside {other}",
            )

    def _see_execution(self, process: schedule.Process, path: str) -> None:
        """P1: nobody begins to execute what a rollback that it could see takes back."""
        time = instants.InstantTime(path.removeprefix(_HEARTBEATS))
        timeline = self._timeline()
        found = timeline.find(time)
        if found is None or found.action is not instants.Action.COMPACTION:
            return
        taken_ms = self._lock.taken_ms[process.name]
        for rollback in timeline.pending_of(instants.Action.ROLLBACK):
            self._require(
                contents.read_rollback_target(self._storage, rollback) != time
                or self._changed_ms(contents.rollback_plan_path(rollback)) > taken_ms,
                f"P1: {process.name} executes {found}, which {rollback} takes back",
            )

    def _see_heartbeat_deletion(self, process: schedule.Process, path: str) -> None:
        owner = self._owner(path)
        # Who had it once, and was paused, may not know that it has it no more.
        is_former_owner = owner is process or (path, process.name) in self._owners
        if owner is None or is_former_owner or self.may_misjudge:
            return
        self._require(
            not self._is_alive(path),
            f"H: {process.name} deletes the heartbeat of {owner.name}, which is at work",
        )
        time = instants.InstantTime(path.removeprefix(_HEARTBEATS))
        found = self._timeline().find(time)
        self._require(
            found is None or not (found.is_pending and self._is_requested(time, process.listed_ms)),
            f"H: {process.name} deletes the heartbeat of {owner.name}, whose {found} is pending",
        )

    def _see_data_deletion(self, process: schedule.Process, path: str) -> None:
        """C3, R-D, X1: what a commit names stays, for whoever can have seen the commit.

        A clean on the timeline may delete it, but not what a read of the table as it is needs.
        """
        parsed = file_names.parse(path, 0)
        if parsed is None:
            return
        if path in invariants.cleaned(self._storage, timeline := self._timeline()):
            found = snapshots.take(self._storage, _PARTITIONED, timeline)
            needed = found.view.latest_slices(parsed.group.partition_path)
            self._require(
                not any(path == file.path for each in needed for file in each.data_files),
                f"X1: {process.name} deletes {path}, which is read",
            )
            return
        for completed in self._completed_files(parsed.instant_time):
            is_seen = self._changed_ms(transitions.path(completed)) <= process.listed_ms
            self._require(
                not is_seen or path not in _named(self._metadata(completed)),
                f"R-D: {process.name} deletes {path} of {completed}, which it has seen",
            )

    def _has_lock_when_asked(self, process: schedule.Process) -> bool:
        lost_ms = self._lock.lost_ms.get(process.name)
        return process.name in self._lock.taken_ms and (
            lost_ms is None or lost_ms >= process.asked_ms
        )

    def _is_alive(self, path: str) -> bool:
        """Return whether a heartbeat's owner lives, and was not silent when somebody looked."""
        owner = self._owner(path)
        silence_ms = self._silence_ms(path, self._time.now_ms)
        is_dead = owner is None or owner.is_dead
        return not is_dead and silence_ms is not None and silence_ms < self._expiry_ms

    def _owner(self, path: str) -> schedule.Process | None:
        try:
            found = heartbeats.decode_owner(self._storage.read(path), path)
        except errors.NotFoundError:
            return None
        return None if found is None else self._time.processes.get(found.process.pid)

    def _author(self, path: str) -> str:
        """Return the name of the attempt record of a heartbeat's owner; empty for none."""
        try:
            found = heartbeats.decode_owner(self._storage.read(path), path)
        except errors.NotFoundError:
            return ""
        return "" if found is None else found.author

    def _was_taken_back(self, time: instants.InstantTime, before_ms: int) -> bool:
        """Return whether a rollback of an instant had been completed by some moment."""
        return any(
            each.action is instants.Action.ROLLBACK
            and each.is_completed
            and self._changed_ms(transitions.path(each)) <= before_ms
            and contents.read_rollback_target(self._storage, each) == time
            for each in self._timeline().instants
        )

    def _silence_ms(self, path: str, at_ms: int) -> int | None:
        try:
            return at_ms - self._storage.stat(path).modified_ms
        except errors.NotFoundError:
            return None

    def _changed_ms(self, path: str) -> int:
        return self._storage.stat(path).modified_ms

    def _timeline(self) -> active.ActiveTimeline:
        return active.load(self._storage)

    def _completed_files(self, requested_time: instants.InstantTime) -> list[instants.Instant]:
        """Return the completed files of a write, compaction or rollback."""
        return [
            each
            for each in self._timeline().files
            if each.requested_time == requested_time and each.is_completed
        ]

    def _completed_targets(self, requested_time: instants.InstantTime) -> list[instants.Instant]:
        """Return the completed files of what a rollback takes back; a rollback is nothing such."""
        found = self._completed_files(requested_time)
        return [each for each in found if each.action is not instants.Action.ROLLBACK]

    def _is_requested(self, time: instants.InstantTime, since_ms: int) -> bool:
        """Return whether a requested file is there, and was; an inflight file alone may be late."""
        return any(
            each.requested_time == time
            and each.state is instants.State.REQUESTED
            and self._changed_ms(transitions.path(each)) <= since_ms
            for each in self._timeline().files
        )

    def _data_files(self, requested_time: instants.InstantTime) -> Iterator[tuple[str, int]]:
        for info in self._storage.list("", is_recursive=True):
            if not info.path.startswith(".hoodie/") and f"_{requested_time}." in info.path:
                yield info.path, info.modified_ms

    def _metadata(self, completed: instants.Instant) -> commits.CommitMetadata:
        return timeline_avro.decode_commit(self._storage.read(transitions.path(completed)))

    def _require(self, holds: bool, message: str) -> None:
        if not holds:
            error = RuleBrokenError(message)
            if self._time.is_running:
                self._time.stop(error)
            raise error


def instant_at(path: str) -> instants.Instant | None:
    """Return the instant and state that a path stands for; None for any other file."""
    directory, _, name = path.rpartition("/")
    return instant_names.parse(name) if directory == active.DIRECTORY else None


def _groups(metadata: commits.CommitMetadata) -> frozenset[tuple[str, str]]:
    """Return the file groups that a commit wrote to."""
    return frozenset((stat.partition_path, stat.file_id) for stat in metadata.stats)


def _named(metadata: commits.CommitMetadata) -> frozenset[str]:
    """Return the data files that a commit names."""
    return frozenset(
        path
        for stat in metadata.stats
        for path in (
            stat.path,
            *(files.join(stat.partition_path, name) for name in stat.log_files),
        )
    )
