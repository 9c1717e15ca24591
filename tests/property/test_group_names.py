"""What is decided about a table by the names of its files agrees with the file-system view."""

from dataclasses import dataclass, replace

from hypothesis import event, given, settings
from hypothesis import strategies as st

from hoodie.filegroup import group_files, group_names, listing, snapshots
from hoodie.format import file_names
from hoodie.model import files, instants, moments, plans
from hoodie.storage.memory import MemoryStorage
from hoodie.timeline import active
from support.tables.tables import CONFIG

PARTITION = "p"
GROUPS = ("0-0", "1-0")


def time_of(tick: int) -> instants.InstantTime:
    return instants.InstantTime(f"20260101{tick:09d}")


@dataclass(frozen=True)
class Write:
    """An instant; what it wrote, or is to write, into some file groups."""

    requested: int
    completed: int | None
    kind: str  # base, log, change data, compaction (which has no file yet), junk
    tokens: tuple[tuple[str, str], ...]  # a file group, and the write token of a file in it


@dataclass(frozen=True)
class Table:
    writes: list[Write]
    retired: dict[str, int]


@st.composite
def tables(draw: st.DrawFn) -> Table:
    ticks = draw(st.lists(st.integers(1, 60), min_size=1, max_size=12, unique=True))
    tokens = st.tuples(st.sampled_from(GROUPS), st.sampled_from(("0-0-0", "1-0-0")))
    writes = [
        Write(
            requested=tick,
            # Often just when another was requested, which decides the slice of a log file.
            completed=draw(
                st.none()
                | st.integers(tick, tick + 30)
                | st.sampled_from([each for each in ticks if each >= tick])
            ),
            kind=draw(
                st.sampled_from(("base", "log", "log", "log", "change data", "compaction", "junk"))
            ),
            tokens=tuple(draw(st.lists(tokens, min_size=1, max_size=3, unique=True))),
        )
        for tick in ticks
    ]
    return Table(writes, draw(st.dictionaries(st.sampled_from(GROUPS), st.integers(0, 40))))


def name_of(write: Write, file_id: str, token: str) -> str:
    time = time_of(write.requested)
    match write.kind:
        case "base":
            return file_names.base_file_name(file_id, token, time)
        case "log":
            return file_names.log_file_name(file_id, time, 1, token)
        case "change data":
            log = file_names.log_file_name(file_id, time, 1, token)
            return f"{log}{file_names.CHANGE_DATA}"
        case _:
            return f"{file_id}_{token}_{time}.orc"


def group(file_id: str) -> files.FileGroupId:
    return files.FileGroupId(PARTITION, file_id)


def snapshot_of(table: Table, storage: MemoryStorage) -> snapshots.Snapshot:
    """Return a snapshot; which tokens of an instant count is not recorded, so all do."""
    found, compactions = [], {}
    for each in table.writes:
        is_compaction = each.kind == "compaction"
        action = instants.Action.COMPACTION if is_compaction else instants.Action.DELTA_COMMIT
        is_pending = each.completed is None or is_compaction
        state = instants.State.REQUESTED if is_pending else instants.State.COMPLETED
        found.append(
            instants.Instant(
                requested_time=time_of(each.requested),
                action=action,
                state=state,
                completion_time=None if is_pending else time_of(each.completed or 0),
            )
        )
        if is_compaction:
            operations = tuple(
                plans.CompactionOperation(
                    group=group(file_id),
                    base_instant_time="",
                    base_file_name=None,
                    log_file_names=(),
                )
                for file_id in sorted({file_id for file_id, _ in each.tokens})
            )
            compactions[time_of(each.requested)] = plans.CompactionPlan(operations=operations)
            continue
        for file_id, token in each.tokens:
            storage.create(f"{PARTITION}/{name_of(each, file_id, token)}", b"")
    timeline = active.from_files(found)
    return snapshots.Snapshot(
        timeline=timeline,
        listing=listing.StorageListing(storage),
        committed=snapshots.CommittedFiles(storage, snapshots.committed_instants(timeline)),
        compactions=compactions,
        replaced={group(file_id): time_of(tick) for file_id, tick in table.retired.items()},
        bucket_count=None,
        hashing_configs=lambda: (),
        touched=lambda _: frozenset(),
        executed_plan=lambda _: plans.CompactionPlan(operations=()),
    )


@settings(max_examples=300, deadline=None)
@given(tables())
def test_slices_by_name_are_those_of_the_view(table: Table) -> None:
    storage = MemoryStorage()
    snapshot = snapshot_of(table, storage)
    view = snapshot.view
    expected = [
        (each.group, each.base_instant_time, frozenset(file.name for file in each.data_files))
        for slices in view.slices(PARTITION)
        for each in slices
    ]
    read = {
        each.group: frozenset(file.name for file in each.data_files)
        for each in view.latest_slices(PARTITION)
    }
    found, merged = [], {}
    names = group_names.TableNames(storage, CONFIG)
    for alike in group_names.NamesView(snapshot).alike(names.groups(PARTITION)):
        event(f"{len(alike.groups)} groups alike")
        for one in alike.groups:
            of_one = replace(alike, groups=[one])
            of_slices = [frozenset(of_one.names_of(each)) for each in alike.slices]
            if any(of_slices):
                times = (each.base_instant_time for each in alike.slices)
                found += zip([one.group] * len(of_slices), times, of_slices, strict=False)
            if any(of_slices[: alike.merged]):
                merged[one.group] = frozenset().union(*of_slices[: alike.merged])
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert merged == read


@given(st.lists(st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]))))
def test_any_names_are_taken_apart(names: list[str]) -> None:
    check_among(names)


TIMES = st.sampled_from(("20260101000000000", "20260101000000", "2026"))
NAMES = st.builds(
    lambda dot, file_id, token, time, log, end: f"{dot}{file_id}{token}_{time}{log}{end}",
    st.sampled_from(("", ".")),
    st.sampled_from(("a-0", "a_b", "\n", "", ".")),
    st.sampled_from(("", "_0-0-0")),
    TIMES,
    st.sampled_from(("", ".log.1", ".log.1_0-0-0", ".log.12")),
    st.sampled_from(("", ".parquet", ".cdc", "\n", ".orc", ".crc", ".parquet.cdc")),
)


@settings(max_examples=300)
@given(st.lists(NAMES, unique=True))
def test_names_much_like_those_of_data_files_are_taken_apart(names: list[str]) -> None:
    check_among(names)


def check_among(names: list[str]) -> None:
    """Check that many names say what each of them says."""
    found = file_names.data_files_among(names)
    parts = {
        name: (kind, file_id, time)
        for kind, by_file_id in (
            (files.BaseFile, found.base_files),
            (files.LogFile, found.log_files),
            (None, found.change_data),
        )
        for file_id, by_instant in by_file_id.items()
        for time, same in by_instant.items()
        for name in same
    }
    assert all(file_names.is_data_file(name) for name in parts)
    for name in names:
        parsed = file_names.parse_new(f"p/{name}", 0)
        kind: type | None = type(parsed)
        if name.endswith(file_names.CHANGE_DATA):
            plain = file_names.parse_new(f"p/{name.removesuffix(file_names.CHANGE_DATA)}", 0)
            parsed, kind = (plain, None) if isinstance(plain, files.LogFile) else (None, None)
        if parsed is None:
            assert name not in parts
        else:
            assert parts[name] == (kind, parsed.group.file_id, parsed.instant_time)


@settings(max_examples=300, deadline=None)
@given(tables(), st.integers(0, 100))
def test_newest_slices_of_a_moment_are_found_by_their_times(table: Table, tick: int) -> None:
    """What is left out of file groups, whatever the moment, is in none of their newest slices."""
    snapshot = snapshot_of(table, MemoryStorage())
    then = snapshots.as_of(snapshot, moments.Moment(time=time_of(tick)))
    then = replace(then, replaced=snapshot.replaced)
    grouped = group_files.GroupFiles(snapshot.listing, snapshot.timeline.completion_time)
    moment = group_files.Moment(time=time_of(tick), is_committed=then.committed.is_committed)
    found = grouped.at([group(each) for each in GROUPS], moment)
    some = [each for same in found.values() for each in same]
    left = replace(then, listing=group_files.OfGroups(snapshot.listing, some))
    assert left.view.latest_slices(PARTITION) == then.view.latest_slices(PARTITION)
    there = snapshot.listing.files(PARTITION)
    event(f"{len(there) - len(some)} files left out")
