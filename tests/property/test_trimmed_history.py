"""Random tables: whatever is trimmed, reads, cleans and savepoints find the same (AR-G)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hypothesis import event, given, settings
from hypothesis import strategies as st

from hoodie.filegroup import group_names, snapshots
from hoodie.format import file_names, instant_names
from hoodie.maintenance.archiving import trimming
from hoodie.maintenance.cleaning import planning, retention
from hoodie.model import files, instants, moments
from hoodie.storage.memory import MemoryStorage
from hoodie.timeline import active, archived
from support.tables import history
from support.tables.tables import CONFIG

DAY_MS = 86_400_000
DAYS = 7
PARTITION = "p"
GROUPS = ("00000000-0000-0000-0000-000000000000-0", "00000001-0000-0000-0000-000000000000-0")


def time_of(day: int) -> instants.InstantTime:
    return instants.format_time(1_700_000_000_000 + day * DAY_MS)


@dataclass(frozen=True)
class Write:
    requested: int
    completed: int | None
    kind: str  # base, log, or log and change data
    groups: tuple[str, ...]  # In which its files are not cleaned.


@dataclass(frozen=True)
class Table:
    writes: list[Write]
    archived_count: int
    saved: int | None  # Of an archived one that a savepoint keeps.
    sizes: list[int]  # How many instants each file of the archive holds.


@st.composite
def tables(draw: st.DrawFn) -> Table:
    days = sorted(draw(st.lists(st.integers(1, 50), min_size=3, max_size=12, unique=True)))
    count = draw(st.integers(1, len(days) - 2))
    writes = []
    for place, day in enumerate(days):
        length = draw(st.sampled_from([0, 0, 0, 1, 5, 20]))
        is_pending = place > count and draw(st.integers(0, 4)) == 0
        kind = draw(st.sampled_from(["base", "base", "log", "change data"]))
        # Most files of archived writes are cleaned.
        one_in = 1 if place >= count else 2 if kind == "base" else 6
        writes.append(
            Write(
                requested=2 * day,
                completed=None if is_pending else 2 * day + 2 * length + 1,
                kind=kind,
                groups=tuple(group for group in GROUPS if draw(st.integers(1, one_in)) == 1),
            )
        )
    saved = draw(st.one_of(st.none(), st.none(), st.integers(0, count - 1)))
    sizes = draw(st.lists(st.integers(1, 3), min_size=count, max_size=count))
    return Table(writes, count, saved, sizes)


def put_instant(storage: MemoryStorage, found: Write, action: instants.Action) -> None:
    requested = instants.Instant(
        requested_time=time_of(found.requested), action=action, state=instants.State.REQUESTED
    )
    states = [replace(requested, state=instants.State.INFLIGHT)]
    if action is not instants.Action.SAVEPOINT:
        states.append(requested)
    if found.completed is not None:
        states.append(
            replace(
                requested,
                state=instants.State.COMPLETED,
                completion_time=time_of(found.completed),
            )
        )
    for each in states:
        storage.create(f"{active.DIRECTORY}/{instant_names.file_name(each)}", b"")


def put_data(storage: MemoryStorage, found: Write) -> None:
    for group in found.groups:
        time, token = time_of(found.requested), "0-0-0"
        name = file_names.log_file_name(group, time, 1, token)
        names = [file_names.base_file_name(group, token, time)] if found.kind == "base" else [name]
        if found.kind == "change data":
            names.append(f"{name}{file_names.CHANGE_DATA}")
        for each in names:
            storage.create(f"{PARTITION}/{each}", b"")


def put(table: Table) -> MemoryStorage:
    storage = MemoryStorage()
    storage.create(files.join(PARTITION, file_names.PARTITION_METADATA), b"")
    for each in table.writes:
        put_data(storage, each)
    stays = table.writes[table.archived_count :]
    if table.saved is not None:
        kept = table.writes[table.saved]
        stays = [kept, *stays]
        put_instant(storage, replace(kept, completed=98), instants.Action.SAVEPOINT)
    for each in stays:
        put_instant(storage, each, instants.Action.COMMIT)
    rows = [
        (time_of(each.requested), time_of(each.completed))
        for each in table.writes[: table.archived_count]
        if each.completed is not None and each not in stays
    ]
    names = []
    for size in table.sizes:
        if rows:
            names.append(history.put_rows(storage, *rows[:size]))
            rows = rows[size:]
    history.put_manifest(storage, 1, *names)
    return storage


def found_in(storage: MemoryStorage) -> Mapping[str, object]:
    """Return all that is decided about a table's files."""
    snapshot = snapshots.take(storage, CONFIG)
    view, timeline = snapshot.view, snapshot.timeline
    found: dict[str, object] = {
        "slices": view.slices(PARTITION),
        "read": view.latest_slices(PARTITION),
        "committed": [snapshot.committed.is_committed(time_of(2 * n)) for n in range(60)],
        "archived": [timeline.is_archived(time_of(2 * n)) for n in range(60)],
    }
    for day in range(0, 100, 7):
        found[f"compaction at {day}"] = view.slices_for_compaction(time_of(day))
        hold = retention.Hold(time=time_of(day), reason="")
        for kept in (1, 2, 3):
            how = retention.Retention(policy=retention.Policy.VERSIONS, retained=kept)
            names = group_names.TableNames(storage, CONFIG)
            removals = planning.removals(snapshot, names, [PARTITION], how, hold)
            found[f"clean before {day} that keeps {kept}"] = removals
    for each in timeline.completed_writes:
        if each.completion_time is not None:
            moment = moments.Moment(time=each.completion_time)
            past = snapshots.as_of(snapshot, moment).view
            found[f"savepoint of {each}"] = past.slices(PARTITION)
    return found


@settings(max_examples=150, deadline=None)
@given(tables())
def test_nothing_that_is_decided_changes_when_history_is_trimmed(table: Table) -> None:
    storage = put(table)
    before = found_in(storage)
    proposal = trimming.propose(storage, CONFIG, DAYS)
    gone = {each.name for each in proposal.files}
    event(f"{len(gone)} files go")
    kept = [each.name for each in archived.newest_files(storage) if each.name not in gone]
    history.put_manifest(storage, 2, *kept)
    for name in gone:
        storage.delete(f"{archived.DIRECTORY}/{name}")
    after = found_in(storage)
    assert after.keys() == before.keys()
    for what, found in before.items():
        assert after[what] == found, what
