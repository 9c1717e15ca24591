"""Readers in a simulated world that pull increments by positions, beginning with nothing.

After each increment a reader has seen every write that completed up to its position, each once.
Where data files hold rows it holds what a read as of the position returns, unless a write was
published after others had the lock: without a chain it and one of theirs may have brought a key to
two file groups, and then every read has the key twice. A reader begins again where writes that it
has seen were rolled back, as those of whoever published without the lock are, and where files were
cleaned that it needed.
"""

from hoodie import errors
from hoodie.engine import local
from hoodie.filegroup import past, reading, snapshots
from hoodie.model import instants, moments
from hoodie.read import changed_rows, changes, increments, positions
from hoodie.transaction.client import Client
from support.simulation.schedule_world import World

Key = tuple[str, str, str]
"""The file group where keys are repeated, the partition, and the key."""
Row = dict[str, object]


class Pulling:
    """What one process of a reader does."""

    def __init__(self, world: World, client: Client) -> None:
        self._world = world
        self._client = client
        self._begin_again()

    def _begin_again(self) -> None:
        self._position: positions.Position | None = None
        self._seen: set[instants.InstantTime] = set()
        self._held: dict[Key, Row] = {}

    def pull(self) -> None:
        """Pull what changed, and check that nothing is missing."""
        world, gone = self._world, None
        try:
            snapshots.consistent(self._client.storage, world.config, self._pull)
        except errors.GoneError as error:
            gone = error
        if gone is not None:
            may_be = world.is_cleaned or not world.is_ordered
            assert may_be, f"{self._client.author} at {self._position}: {gone}"
            world.time.note(f"{self._client.author} begins again: {gone}")
            self._begin_again()

    def _pull(self, snapshot: snapshots.Snapshot) -> None:
        has_rows = self._world.has_rows
        source = increments.Source(
            storage=self._client.storage,
            config=self._world.config,
            schema=self._world.schema,
            engine=local.LocalEngine(1),
            clock_ms=self._client.clock.now_ms(),
        )
        found = increments.plan(
            source,
            snapshot,
            increments.Wanted(
                since=self._position or positions.BEGINNING,
                has_deletes=has_rows,
                columns=tuple(self._world.schema.arrow.names),
            ),
        )
        held = self._after(source, found) if has_rows else {}
        expected: dict[Key, Row] = {}
        if has_rows:
            self._look_back(source, snapshot)
            expected = self._as_of(source, snapshot, found.position.time)
            assert held == expected or self._world.late, (
                f"{self._client.author}, from {self._position} to {found.position}, holds {held}, "
                f"expected {expected}: {found.writes}"
            )
        new = [each.requested_time for each in found.writes]
        again = self._seen.intersection(new)
        assert not again, f"{self._client.author} at {self._position} saw {again} again"
        seen = self._seen.union(new, self._uncounted(snapshot))
        is_cow = self._world.config.is_copy_on_write
        missed = [
            each
            for each in snapshot.timeline.completed_writes
            if str(each.completion_time) <= found.position.time
            and (is_cow or each.action is not instants.Action.COMMIT)
            and each.requested_time not in seen
        ]
        assert not missed, f"{self._client.author} at {found.position} missed {missed}"
        self._position, self._seen = found.position, seen
        self._held = expected
        self._world.pulls += 1
        self._world.latecomers += len(found.latecomers)

    def _uncounted(self, snapshot: snapshots.Snapshot) -> set[instants.InstantTime]:
        """Return what was published late and was requested before all that the position counts.

        It had been rolled back when that was given out: its files are gone (L2, IN7).
        """
        if self._position is None:
            return set()
        late = {each.requested_time for each in self._world.late}
        since = self._position.since
        return {
            each.requested_time
            for each in snapshot.timeline.completed_writes
            if each.requested_time in late and each.requested_time < since
        }

    def _look_back(self, source: increments.Source, snapshot: snapshots.Snapshot) -> None:
        """Check that the table as of the position before is what it was then (TT1, TT3)."""
        if self._position is None or not self._world.is_ordered:
            return
        moment = moments.Moment(time=self._position.time)
        try:
            past.check_readable(source.storage, snapshot, moment)
        except errors.GoneError:
            return
        again = self._as_of(source, snapshot, moment.time)
        assert again == self._held, (
            f"{self._client.author}: as of {moment.time} there was {self._held}, and now {again}"
        )

    def _after(self, source: increments.Source, found: increments.Increment) -> dict[Key, Row]:
        """Return what the reader holds after an increment."""
        held = dict(self._held)
        if not self._world.repeats_keys:
            self._apply(held, source, found, found.tasks, "")
            return held
        for unit in found.tasks:
            (group,) = {each.group for each in (*unit.before, *unit.after)}
            self._apply(held, source, found, (unit,), group.file_id)
        return held

    def _apply(
        self,
        held: dict[Key, Row],
        source: increments.Source,
        found: increments.Increment,
        units: tuple[changed_rows.UnitTask, ...],
        file_id: str,
    ) -> None:
        """Apply the changes of some units, whose keys may be in other file groups, too."""
        is_global = source.config.has_global_index
        pulled = changes.Changes(
            position=found.position,
            is_snapshot=False,
            columns=changed_rows.schema_of(source.schema, source.schema.arrow.names),
            units=units,
            is_global=is_global,
            storage=source.storage,
            engine=source.engine,
        )
        seen = set()
        for row in pulled.read().read_all().to_pylist():
            change, key = row.pop(changed_rows.CHANGE), (file_id, row["part"], row["id"])
            name = key[2] if is_global else key
            assert name not in seen or self._world.late, f"{name} is there twice"
            seen.add(name)
            if change == changed_rows.DELETE:
                assert key in held or self._world.late, f"{key} was deleted, and was not there"
                held.pop(key, None)
                continue
            for other in [each for each in held if is_global and each[2] == key[2]]:
                del held[other]
            held[key] = row

    def _as_of(
        self, source: increments.Source, snapshot: snapshots.Snapshot, time: instants.InstantTime
    ) -> dict[Key, Row]:
        """Return what the table has as of a time."""
        then = snapshots.as_of(snapshot, moments.Moment(time=time))
        committed = snapshots.CommittedFiles(source.storage, then.known)
        reader = reading.SliceReader(
            source.storage, source.config, source.schema, committed.is_committed
        )
        names = source.schema.arrow.names
        rows: dict[Key, Row] = {}
        for path in then.view.partitions():
            for file_slice in then.view.latest_slices(path):
                file_id = file_slice.group.file_id if self._world.repeats_keys else ""
                for row in reader.read(file_slice, names).to_pylist():
                    rows[file_id, str(row["part"]), str(row["id"])] = row
        return rows
