"""Indexes built where other engines write as well; each call of a builder is in simulation."""

import itertools
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from hoodie import errors
from hoodie.filegroup import metadata_table
from hoodie.format import indexing_avro, instant_names, metadata_avro, timeline_avro
from hoodie.format.metadata_avro import RecordType
from hoodie.metadata import index_sharing
from hoodie.model import commits, files, instants, plans, results, table_config
from hoodie.model.file_statistics import BLOOM_FILTERS, COLUMN_STATS, PARTITION_STATS
from hoodie.read import where as filters
from hoodie.timeline import (
    contents,
    index_definitions,
    metadata_timelines,
    table_properties,
    transitions,
)
from hoodie.transaction import layout
from support.tables import foreign_writes
from support.tables.indexed_tables import ALL, BESIDE, KINDS, Indexed, rows_of
from support.tables.tables import CONFIG

SHARED = [kind for kind in KINDS if kind.startswith("shared")]
EACH_KIND = pytest.mark.parametrize("kind", SHARED)


class ForeignWrite:
    """A write in flight that nothing shows to be of ours, as one of another engine."""

    def __init__(self, indexed: Indexed, first: int, last: int, a: int = 0) -> None:
        small, rows = indexed.small, rows_of(first, last, a)
        options = small.options(f"jvm {first}", **{**indexed.more, **BESIDE})
        session = small.table.begin_write(options, list(rows[0]))
        assert not isinstance(session, results.AlreadyCommitted)
        self._session = session
        self._stats = small.write_files(session, rows)
        self._anonymous = foreign_writes.Anonymous(small, session.requested_time)
        self.instant, self.own = self._anonymous.instant, self._anonymous.own
        self.is_pending = True

    def complete(self) -> None:
        """Complete it by the properties that are there now."""
        self._anonymous.restore()
        self.is_pending = False
        self._session.commit(self._stats)


def is_named(indexed: Indexed, name: str) -> bool:
    """Return whether the properties name a partition as inflight."""
    return name in indexed.opened().config.metadata_partitions_inflight


def put_properties(indexed: Indexed, changes: Mapping[str, str | None]) -> None:
    """Change a table's properties as another engine does."""
    env, path = indexed.small.env, str(indexed.small.path)
    table_properties.update(env.open_storage(path), changes, env.clock, lambda: None)


def on(text: str, *happenings: Callable[[], object]) -> tuple[list[str], Callable[[str], None]]:
    """Return what is heard, and who does things one after another when it hears a text."""
    heard: list[str] = []
    left = list(happenings)

    def hear(what: str) -> None:
        heard.append(what)
        if left and text in what:
            left.pop(0)()

    return heard, hear


def put_pending(storage_path: Path, action: instants.Action, content: bytes, *, name: str) -> Path:
    """Put a requested instant of another engine on a timeline; return its file."""
    instant = instants.Instant(
        requested_time=instants.InstantTime(name),
        action=action,
        state=instants.State.REQUESTED,
    )
    path = storage_path / ".hoodie" / "timeline" / instant_names.file_name(instant)
    path.write_bytes(content)
    return path


@EACH_KIND
def test_write_of_another_engine_in_flight_is_waited_for(kind: str, tmp_path: Path) -> None:
    """T-I02, T-I08, T-I11: what it did not log is in the index."""
    indexed = Indexed(tmp_path / "t", KINDS[kind])
    foreign = ForeignWrite(indexed, 20, 26, 7)
    heard, hear = on("waiting", foreign.complete)
    assert set(indexed.build(hear=hear).built) == set(indexed.names)
    assert not [each for each in heard if "naming" in each]
    [waited] = [each for each in heard if "waiting" in each]
    assert waited.startswith(f"waiting: {foreign.instant} is pending, of another engine")
    assert len(indexed.small.rows(where=filters.parse("a > 20"))) == 6
    indexed.check()


def test_write_that_begins_before_the_lock_is_taken_is_waited_for(tmp_path: Path) -> None:
    """T-I09: what was seen without the lock does not count."""
    indexed = Indexed(tmp_path / "t", CONFIG)
    begun: list[ForeignWrite] = []

    def hear(what: str) -> None:
        if what == "publishing" and not begun:
            begun.append(ForeignWrite(indexed, 20, 26, 7))
        elif what.startswith("waiting"):
            begun[0].complete()

    indexed.build(hear=hear)
    assert begun
    indexed.check()


@EACH_KIND
def test_build_that_waits_in_vain_is_given_up(kind: str, tmp_path: Path) -> None:
    """T-I13: the properties and the timeline are as before."""
    indexed = Indexed(tmp_path / "t", KINDS[kind])
    foreign = ForeignWrite(indexed, 20, 26)
    transaction = indexed.small.options(index_wait_s=0).transaction
    with pytest.raises(
        errors.ConflictError,
        match=r"indexing.* is given up after 0 s: .* is pending, of another engine",
    ):
        indexed.small.table.build_index(indexed.names, transaction)
    opened = indexed.opened()
    assert opened.config.metadata_partitions == ("files",)
    assert not opened.pending_indexes()
    foreign.complete()
    assert indexed.build().built == indexed.names
    indexed.check()


@EACH_KIND
def test_writes_of_another_engine_that_overlap_without_end_do_not_hold_an_index_up(
    kind: str, tmp_path: Path
) -> None:
    """ADR 0051: those that began before it was inflight are waited for, and no later one."""
    indexed = Indexed(tmp_path / "t", KINDS[kind])
    numbers = itertools.count(20)  # Of rows of another partition each.
    pending = [ForeignWrite(indexed, first := next(numbers), first + 1, 7)]
    heard: list[str] = []

    def hear(what: str) -> None:
        heard.append(what)
        if what.startswith("waiting"):
            first = next(numbers)
            pending.append(ForeignWrite(indexed, first, first + 1, 7))
            pending.pop(0).complete()

    result = indexed.build(hear=hear)
    assert set(result.built) == set(indexed.names), heard
    assert [each for each in heard if each.startswith("naming")]
    assert pending
    for each in pending:
        each.complete()
    indexed.check()


def test_index_that_another_makes_while_it_is_inflight_is_its_own(tmp_path: Path) -> None:
    """T-I16: a writer of Apache Hudi makes what is not ready, if its option is on."""
    indexed = Indexed(tmp_path / "t", CONFIG)
    foreign = ForeignWrite(indexed, 20, 23)
    heard: list[str] = []

    def hear(what: str) -> None:
        heard.append(what)
        if is_named(indexed, BLOOM_FILTERS) and foreign.is_pending:
            foreign.complete()
            put_properties(
                indexed,
                {
                    table_config.METADATA_PARTITIONS_KEY: f"files,{BLOOM_FILTERS}",
                    table_config.METADATA_PARTITIONS_INFLIGHT_KEY: None,
                },
            )

    assert indexed.build(BLOOM_FILTERS, hear=hear).built == (), heard
    opened = indexed.opened()
    assert opened.config.metadata_partitions == ("files", BLOOM_FILTERS)
    assert not opened.config.metadata_partitions_own
    assert not opened.pending_indexes()


def test_file_groups_that_another_has_made_while_it_was_inflight_are_deleted(
    tmp_path: Path,
) -> None:
    """It died while it made the index itself: keys would be looked for in its file groups, too."""
    indexed = Indexed(tmp_path / "t", CONFIG)
    foreign = ForeignWrite(indexed, 20, 23)
    left: list[Path] = []

    def hear(what: str) -> None:
        if what.startswith("waiting") and is_named(indexed, COLUMN_STATS) and not left:
            left.append(stray(indexed))
            foreign.complete()

    assert indexed.build(COLUMN_STATS, hear=hear).built == (COLUMN_STATS,)
    assert left
    assert not left[0].exists()
    assert indexed.opened().validate_metadata().is_right


def test_builder_that_dies_while_an_index_is_inflight_is_followed_by_another(
    tmp_path: Path,
) -> None:
    """What it has left is made again, beside a write that has logged there."""
    indexed = Indexed(tmp_path / "t", CONFIG)
    foreign = ForeignWrite(indexed, 20, 23)

    def die(what: str) -> None:
        if is_named(indexed, BLOOM_FILTERS):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        indexed.build(BLOOM_FILTERS, hear=die)
    indexed.small.upsert(rows_of(3, 5, 40), **BESIDE)
    later = ForeignWrite(indexed, 30, 33)
    foreign.complete()
    heard, hear = on("waiting", later.complete)
    assert indexed.build(BLOOM_FILTERS, hear=hear).built == (BLOOM_FILTERS,), heard
    assert indexed.opened().validate_metadata().is_right
    indexed.build()
    indexed.check()


def test_partition_statistics_are_inflight_only_beside_ready_ones_of_files(tmp_path: Path) -> None:
    """Else no write of Apache Hudi 1.2.0 completes: all are built, one after the other."""
    indexed = Indexed(tmp_path / "t", CONFIG)
    pending = [ForeignWrite(indexed, 20, 23)]
    inflight: list[tuple[str, ...]] = []

    def hear(what: str) -> None:
        if not what.startswith("waiting"):
            return
        found = indexed.opened().config.metadata_partitions_inflight
        if found and found not in inflight:
            inflight.append(found)
            first = 30 + 3 * len(inflight)
            pending.append(ForeignWrite(indexed, first, first + 3))
            pending.pop(0).complete()

    result = indexed.build(hear=hear)
    assert result.built == (COLUMN_STATS, BLOOM_FILTERS, PARTITION_STATS)
    assert inflight == [(BLOOM_FILTERS, COLUMN_STATS), (PARTITION_STATS,)]
    assert len(pending) == 1
    pending[0].complete()
    indexed.check()


def test_plan_of_several_indexes_is_divided_once_it_has_to_wait(tmp_path: Path) -> None:
    """ADR 0053: no write was pending when it was made, and they overlap from then on."""
    indexed = Indexed(tmp_path / "t", CONFIG)
    numbers = iter(range(20, 40))  # They would overlap without end.
    pending: list[ForeignWrite] = []
    planned: list[str] = []

    def begin() -> None:
        first = next(numbers)
        pending.append(ForeignWrite(indexed, first, first + 1, 7))

    def hear(what: str) -> None:
        if what.startswith("planning"):
            planned.append(what.removeprefix("planning "))
        if what.startswith("waiting"):
            begin()
            pending.pop(0).complete()
        elif not pending:
            begin()

    result = indexed.build(hear=hear)
    assert result.built == (COLUMN_STATS, BLOOM_FILTERS, PARTITION_STATS)
    every = f"{COLUMN_STATS}, {PARTITION_STATS}, {BLOOM_FILTERS}"
    assert planned == [every, f"{COLUMN_STATS}, {BLOOM_FILTERS}", PARTITION_STATS]
    for each in pending:
        each.complete()
    indexed.check()


@pytest.mark.parametrize("extra", [{}, {commits.WRITE_ID_KEY: "w"}], ids=["theirs", "ours"])
def test_plan_is_waited_for_once_another_may_execute_it(
    extra: Mapping[str, str], tmp_path: Path
) -> None:
    """Whoever has made it: Apache Hudi executes plans of ours, too."""
    indexed = Indexed(tmp_path / "t", CONFIG)
    indexed.upsert(3, 7)
    content = timeline_avro.encode_compaction_plan(plans.CompactionPlan(operations=(), extra=extra))
    greatest = indexed.opened().timeline().greatest_time
    assert greatest is not None
    plan = put_pending(
        indexed.small.path, instants.Action.COMPACTION, content, name=str(int(greatest) + 1)
    )
    heard, hear = on("nothing")
    indexed.build(hear=hear)
    assert not [each for each in heard if "waiting" in each]
    plan.with_name(plan.name.replace("requested", "inflight")).write_bytes(b"")
    indexed.small.table = indexed.opened()
    indexed.drop(*ALL)
    with pytest.raises(errors.ConflictError, match=r"compaction.* is pending, of another engine"):
        indexed.opened().build_index(ALL, indexed.small.options(index_wait_s=0).transaction)


def test_plan_whose_executor_of_ours_has_died_is_waited_for(tmp_path: Path) -> None:
    """Another engine executes it again, beside a heartbeat that names ours."""
    indexed = Indexed(tmp_path / "t", CONFIG)
    content = timeline_avro.encode_compaction_plan(
        plans.CompactionPlan(operations=(), extra={commits.WRITE_ID_KEY: "w"})
    )
    greatest = indexed.opened().timeline().greatest_time
    assert greatest is not None
    time = str(int(greatest) + 1)
    plan = put_pending(indexed.small.path, instants.Action.COMPACTION, content, name=time)
    plan.with_name(plan.name.replace("requested", "inflight")).write_bytes(b"")
    foreign = ForeignWrite(indexed, 20, 26)
    owner = next(text for path, text in foreign.own.items() if path.startswith(layout.HEARTBEATS))
    foreign.complete()
    heartbeat = indexed.small.path / layout.HEARTBEATS / time
    heartbeat.write_bytes(owner)
    transaction = indexed.small.options(index_wait_s=0).transaction
    os.utime(heartbeat, (0, 0))
    with pytest.raises(errors.ConflictError, match=rf"{time} compaction inflight is pending"):
        indexed.small.table.build_index([COLUMN_STATS], transaction)
    os.utime(heartbeat)
    indexed.small.table.build_index([COLUMN_STATS], transaction)


def test_statistics_that_are_defined_anew_meanwhile_are_those_of_the_index(tmp_path: Path) -> None:
    """As another engine may do; those of version 1 do not say of which type a column is."""
    indexed = Indexed(tmp_path / "t", CONFIG)
    indexed.build(COLUMN_STATS)
    indexed.small.table = indexed.opened()
    definitions = tmp_path / "t" / index_definitions.PATH

    def redefine() -> None:
        document = json.loads(definitions.read_text())
        document["indexDefinitions"][COLUMN_STATS]["version"] = "V1"
        definitions.write_text(json.dumps(document))

    _, hear = on("publishing", redefine)
    indexed.build(PARTITION_STATS, hear=hear)
    found = metadata_table.MetadataTable(
        indexed.small.env.open_storage(str(tmp_path / "t")), indexed.opened().timeline()
    )
    keys = found.partition(PARTITION_STATS).with_prefixes([""])
    types = {
        each.value_type
        for values in keys.values()
        if (each := metadata_avro.decode_statistics(values[-1], "", RecordType.PARTITION_STATS))
    }
    assert types == {None}


def test_partition_statistics_are_not_built_without_those_of_files(tmp_path: Path) -> None:
    """These were dropped meanwhile."""
    indexed = Indexed(tmp_path / "t", CONFIG)
    indexed.build(COLUMN_STATS)
    indexed.small.table = indexed.opened()
    _, hear = on("publishing", lambda: indexed.drop(COLUMN_STATS))
    with pytest.raises(errors.InvalidInputError, match="column_stats, which is missing"):
        indexed.build(PARTITION_STATS, hear=hear)
    opened = indexed.opened()
    assert opened.config.metadata_partitions == ("files",)
    assert not opened.pending_indexes()


def test_more_changes_than_are_looked_into_under_the_lock_take_another_round(
    tmp_path: Path,
) -> None:
    indexed = Indexed(tmp_path / "t", CONFIG)

    def change() -> None:
        for number in range(index_sharing.CHANGES_UNDER_LOCK_MAX + 1):
            indexed.upsert(number, number + 2, 50)

    heard, hear = on("publishing", change)
    indexed.build(hear=hear)
    assert [each for each in heard if "waiting" in each] == [
        "waiting: 11 changes have completed meanwhile"
    ]
    indexed.check()


def test_index_that_another_makes_meanwhile_is_not_made_twice(tmp_path: Path) -> None:
    """T-I16: as a writer of Apache Hudi does whose option is on."""
    indexed = Indexed(tmp_path / "t", CONFIG)

    def remake() -> None:
        transaction = indexed.small.options().transaction
        indexed.opened().initialise_metadata(transaction, is_rebuilt=True)

    _, hear = on("publishing", remake)
    assert indexed.build(hear=hear).built == (BLOOM_FILTERS,)
    indexed.check()
    assert not indexed.opened().pending_indexes()


def test_columns_that_are_added_meanwhile_are_in_the_index(tmp_path: Path) -> None:
    indexed = Indexed(tmp_path / "t", CONFIG)

    def grow() -> None:
        wider = indexed.small.data(rows_of(0, 1)).append_column("c", [[1.5]])
        indexed.small.table.write(wider, indexed.small.options(adds_columns=True))

    _, hear = on("publishing", grow)
    indexed.build(hear=hear)
    indexed.check()
    defined = index_definitions.of_statistics(indexed.small.env.open_storage(str(tmp_path / "t")))
    assert defined is not None
    assert "c" in defined.columns


def stray(indexed: Indexed) -> Path:
    """Put a file of a partition there that another engine has dropped, of a fifth file group."""
    group = files.FileGroupId(COLUMN_STATS, metadata_table.file_id(COLUMN_STATS, 4))
    folder = indexed.small.path / metadata_timelines.DIRECTORY / COLUMN_STATS
    folder.mkdir(exist_ok=True)
    path = folder / f"{group.file_id}_0-0-0_00000000000000001.hfile"
    path.write_bytes(b"not read")
    return path


def test_files_of_a_partition_that_was_dropped_are_deleted_first(tmp_path: Path) -> None:
    """T-I19: their file groups would count, and keys be looked for in others."""
    indexed = Indexed(tmp_path / "t", CONFIG)
    left = stray(indexed)
    indexed.build()
    assert not left.exists()
    indexed.check()


def put_compaction_with(indexed: Indexed, left: Path) -> Path:
    group = files.FileGroupId(COLUMN_STATS, metadata_table.file_id(COLUMN_STATS, 4))
    operation = plans.CompactionOperation(
        group=group,
        base_instant_time=instants.InstantTime("00000000000000001"),
        base_file_name=left.name,
        log_file_names=(),
    )
    content = timeline_avro.encode_compaction_plan(
        plans.CompactionPlan(operations=(operation,), extra={})
    )
    beside = indexed.small.path / metadata_timelines.DIRECTORY
    return put_pending(beside, instants.Action.COMPACTION, content, name="20200101000000000")


def test_files_that_a_pending_compaction_has_are_waited_for(tmp_path: Path) -> None:
    """Its executor would fail without them, and with it every write of that engine."""
    indexed = Indexed(tmp_path / "t", CONFIG)
    left = stray(indexed)
    plan = put_compaction_with(indexed, left)
    transaction = indexed.small.options(index_wait_s=0).transaction
    with pytest.raises(errors.ConflictError, match="and has what is left of column_stats"):
        indexed.small.table.build_index([COLUMN_STATS], transaction)
    assert left.exists()
    _, hear = on("waiting", plan.unlink)
    indexed.build(hear=hear)
    assert not left.exists()
    indexed.check()


def test_drop_leaves_files_that_a_pending_compaction_has(tmp_path: Path) -> None:
    indexed = Indexed(tmp_path / "t", CONFIG)
    indexed.build()
    indexed.small.table = indexed.opened()
    left = stray(indexed)
    plan = put_compaction_with(indexed, left)
    assert indexed.drop(*ALL) == tuple(sorted(ALL))
    assert left.exists()
    assert indexed.opened().config.metadata_partitions == ("files",)
    plan.unlink()
    indexed.small.table = indexed.opened()
    indexed.build()
    indexed.check()


def test_drop_deletes_the_files(tmp_path: Path) -> None:
    indexed = Indexed(tmp_path / "t", CONFIG)
    indexed.build()
    indexed.small.table = indexed.opened()
    indexed.drop(*ALL)
    beside = tmp_path / "t" / metadata_timelines.DIRECTORY
    assert not [each for name in ALL for each in (beside / name).glob("*.hfile")]
    assert indexed.opened().validate_metadata().is_right


def test_plan_of_another_engine_is_left_to_it(tmp_path: Path) -> None:
    indexed = Indexed(tmp_path / "t", CONFIG)
    partition = plans.IndexedPartition(name=COLUMN_STATS, through="")
    content = indexing_avro.encode_plan(plans.Indexing(partitions=(partition,)))
    path = indexed.small.path
    put_pending(path, instants.Action.INDEXING, content, name="20200101000000000")
    with pytest.raises(errors.ConflictError, match="planned by another engine, which builds col"):
        indexed.build()
    assert indexed.drop(COLUMN_STATS) == (COLUMN_STATS,)
    indexed.build()
    indexed.check()


def test_filters_that_are_too_long_are_not_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_sharing, "FILTER_BYTES_MAX", 1000)
    indexed = Indexed(tmp_path / "t", CONFIG)
    with pytest.raises(errors.UnsupportedError, match="more than 0 MiB, which is the most"):
        indexed.build()
    assert not indexed.opened().pending_indexes()
    assert indexed.build(COLUMN_STATS).built == (COLUMN_STATS,)


def test_what_a_builder_that_died_has_left_is_taken_off(tmp_path: Path) -> None:
    """It died in the scope, before the delta commit was complete."""
    indexed = Indexed(tmp_path / "t", CONFIG)
    stray(indexed)
    small = indexed.small
    beside = metadata_timelines.opened(small.env.open_storage(str(small.path)))
    own = commits.CommitMetadata(
        operation=commits.Operation.BULK_INSERT.value, stats=(), extra={commits.WRITE_ID_KEY: "w"}
    )
    pending = []
    for name, metadata in (
        ("20200101000000000", own),
        ("20200101000000001", replace(own, extra={})),
        ("20200101000000002", None),
    ):
        time = instants.InstantTime(name)
        action = instants.Action.DELTA_COMMIT
        requested = transitions.request(beside, time, action, b"", lambda: True)
        if metadata is not None:
            content = timeline_avro.encode_commit(metadata)
            requested = transitions.start(beside, requested, content, lambda: True)
            assert contents.is_of_ours(beside, requested) is (metadata is own)
        pending.append(requested)
    indexed.build()
    there = [small.path / metadata_timelines.DIRECTORY / transitions.path(each) for each in pending]
    assert [each.exists() for each in there] == [False, True, False]
    there[1].unlink()
    there[1].with_name(there[1].name.replace("inflight", "requested")).unlink()
    indexed.check()
