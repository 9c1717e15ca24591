"""What is built next, and up to which write there is no hole: decisions on values."""

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

from hoodie import errors
from hoodie.metadata import index_decisions, upkeep
from hoodie.metadata.index_decisions import Build, Execute, Finish, GiveUp, Nothing, Schedule
from hoodie.model import instants, plans, table_config
from hoodie.model.file_statistics import BLOOM_FILTERS, COLUMN_STATS, PARTITION_STATS
from hoodie.model.instants import Action, State
from hoodie.model.key_changes import RECORD_INDEX
from hoodie.timeline import active

CONFIG = table_config.TableConfig(
    name="t",
    record_key_fields=("id",),
    partition_fields=("part",),
    metadata_partitions=("files",),
    has_foreign_writers=False,
)


def time(number: int) -> instants.InstantTime:
    return instants.InstantTime(f"20260101{number:09d}")


def of(number: int, action: Action, state: State) -> instants.Instant:
    """Return the n-th instant; a completed one completes right after it was requested."""
    done = action.completed if state is State.COMPLETED else action
    completion = instants.InstantTime(f"{time(number)[:-1]}9") if state is State.COMPLETED else None
    return instants.Instant(
        requested_time=time(number), action=done, state=state, completion_time=completion
    )


def timeline(*found: instants.Instant) -> active.ActiveTimeline:
    return active.from_files(found)


def done(number: int, action: Action = Action.DELTA_COMMIT) -> instants.Instant:
    return of(number * 10, action, State.COMPLETED)


def inflight(number: int, action: Action = Action.DELTA_COMMIT) -> instants.Instant:
    return of(number * 10, action, State.INFLIGHT)


def requested(number: int, action: Action) -> instants.Instant:
    return of(number * 10, action, State.REQUESTED)


def test_base_instant_is_the_last_without_a_hole_before_it() -> None:
    """T-I11: C1 to C8 of the RFC, of which C5 is in flight."""
    commits = [done(number) for number in (1, 2, 3, 4, 6, 7, 8)]
    assert index_decisions.base_instant(timeline(*commits, inflight(5))) == time(40)
    assert index_decisions.base_instant(timeline(*commits, done(5))) == time(80)
    assert index_decisions.base_instant(timeline(inflight(5))) == ""
    assert index_decisions.base_instant(timeline()) == ""


def test_base_instant_is_one_of_writes() -> None:
    """T-I12: the delta commits of the RFC, of which the sixth is the last before a compaction."""
    found = timeline(
        *map(done, (1, 2, 3)),
        inflight(4, Action.CLEAN),
        *map(done, (5, 6)),
        requested(7, Action.COMPACTION),
        done(8),
        requested(9, Action.INDEXING),
        inflight(10),
    )
    assert index_decisions.base_instant(found) == time(60)


def planned(*names: str, number: int = 1) -> Build:
    partitions = tuple(plans.IndexedPartition(name=name, through="") for name in names)
    instant = requested(number, Action.INDEXING)
    return Build(instant=instant, plan=plans.Indexing(partitions=partitions))


STATISTICS = planned(COLUMN_STATS)
BOTH = planned(COLUMN_STATS, BLOOM_FILTERS)
OF_PARTITIONS = planned(PARTITION_STATS)
OF_VALUES = planned("secondary_index_x")
STEPS = {
    "nothing is there": (
        (BLOOM_FILTERS, COLUMN_STATS),
        (),
        (),
        Schedule((COLUMN_STATS, BLOOM_FILTERS)),
    ),
    "a part is ready": (
        (COLUMN_STATS, BLOOM_FILTERS),
        (COLUMN_STATS,),
        (),
        Schedule((BLOOM_FILTERS,)),
    ),
    "all is ready": ((COLUMN_STATS,), (COLUMN_STATS,), (), Nothing()),
    "planned": ((COLUMN_STATS,), (), (STATISTICS,), Execute(STATISTICS)),
    "a part is planned": ((COLUMN_STATS, BLOOM_FILTERS), (), (STATISTICS,), Execute(STATISTICS)),
    "planned, and ready since": (
        (COLUMN_STATS,),
        (COLUMN_STATS,),
        (STATISTICS,),
        GiveUp(STATISTICS),
    ),
    "planned, and what it stands on was dropped since": (
        (COLUMN_STATS, PARTITION_STATS),
        (),
        (OF_PARTITIONS,),
        GiveUp(OF_PARTITIONS),
    ),
    "planned, and what it stands on is ready": (
        (PARTITION_STATS,),
        (COLUMN_STATS,),
        (OF_PARTITIONS,),
        Execute(OF_PARTITIONS),
    ),
    "a secondary index is planned, and its record index was dropped since": (
        (RECORD_INDEX, "secondary_index_x"),
        (),
        (OF_VALUES,),
        GiveUp(OF_VALUES),
    ),
    "others are planned, and all is ready": (
        (BLOOM_FILTERS,),
        (BLOOM_FILTERS,),
        (STATISTICS,),
        Nothing(),
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_next_step_follows_from_plans_and_properties(name: str) -> None:
    """T-I05."""
    names, ready, builds, step = STEPS[name]
    config = replace(CONFIG, metadata_partitions=("files", *ready))
    assert index_decisions.next_step(index_decisions.Request(names), config, builds) == step


@pytest.mark.parametrize(
    ("ready", "step"),
    [
        ((COLUMN_STATS, BLOOM_FILTERS), Finish(BOTH)),
        # One of them was dropped since.
        ((COLUMN_STATS,), GiveUp(BOTH)),
    ],
)
@pytest.mark.parametrize("names", [(COLUMN_STATS, BLOOM_FILTERS), (RECORD_INDEX,)])
def test_action_whose_own_builder_made_its_indexes_ready_is_completed(
    names: Sequence[str], ready: Sequence[str], step: index_decisions.Step
) -> None:
    """T-I04: it died before it did so; whatever is asked for now."""
    by = {table_config.METADATA_PARTITIONS_BUILT_BY_KEY: BOTH.instant.requested_time}
    config = replace(CONFIG, metadata_partitions=("files", *ready), properties=by)
    assert index_decisions.next_step(index_decisions.Request(names), config, (BOTH,)) == step
    other = replace(config, properties={key: time(99) for key in by})
    assert index_decisions.next_step(index_decisions.Request(names), other, (BOTH,)) == GiveUp(BOTH)


@pytest.mark.parametrize(
    ("names", "build"), [((BLOOM_FILTERS,), STATISTICS), ((COLUMN_STATS,), BOTH)]
)
def test_other_indexes_that_are_being_built_are_a_conflict(
    names: Sequence[str], build: Build
) -> None:
    with pytest.raises(errors.ConflictError, match="expected no other index"):
        index_decisions.next_step(index_decisions.Request(names), CONFIG, (build,))


def test_properties_without_an_index_name_it_no_more() -> None:
    config = replace(
        CONFIG,
        metadata_partitions=("files", COLUMN_STATS),
        metadata_partitions_inflight=(BLOOM_FILTERS,),
    )
    assert index_decisions.without((PARTITION_STATS,), config) == {}
    assert index_decisions.without((COLUMN_STATS,), config) == {
        table_config.METADATA_PARTITIONS_KEY: "files"
    }
    assert index_decisions.without((BLOOM_FILTERS,), config) == {
        table_config.METADATA_PARTITIONS_INFLIGHT_KEY: None
    }


def test_timeline_of_a_metadata_table_stays_while_an_index_is_built() -> None:
    """T-I14: and until three compactions have what was logged in it."""
    compactions = [done(number, Action.COMMIT) for number in (10, 20, 30, 40)]
    own = timeline(*map(done, range(1, 9)), *compactions)
    of_data = timeline(done(50))
    assert len(upkeep.archivable(own, of_data)) > 0
    assert not upkeep.archivable(own, timeline(done(50), requested(51, Action.INDEXING)))
    assert not upkeep.archivable(own, timeline(done(50), done(25, Action.INDEXING)))
    assert upkeep.archivable(own, timeline(done(50), done(5, Action.INDEXING)))


COLUMNS = pa.schema([("id", pa.string()), ("part", pa.string()), ("at", pa.timestamp("us"))])
OF_A = "secondary_index_a"
COLUMN_REFUSALS = {
    "good": ({OF_A: "id"}, {}, None),
    "known": ({}, {OF_A: "id"}, None),
    "the same": ({OF_A: "id"}, {OF_A: "id"}, None),
    "none": ({}, {}, "was given no column, expected one"),
    "another": ({OF_A: "id"}, {OF_A: "part"}, "is of the column part, and not of id"),
    "of another index": ({COLUMN_STATS: "id"}, {OF_A: "id"}, "is that of column_stats"),
    "missing": ({OF_A: "c"}, {}, "has no column 'c'"),
    "of a type that is not indexed": (
        {OF_A: "at"},
        {},
        "expected a column of texts, integers, dates, or times",
    ),
    "in paths alone": ({OF_A: "part"}, {}, "data files of t do not have the column part"),
}


@pytest.mark.parametrize("name", COLUMN_REFUSALS)
def test_secondary_index_is_of_a_column_of_data_files_and_of_a_type_that_is_indexed(
    name: str,
) -> None:
    columns, known, expected = COLUMN_REFUSALS[name]
    request = index_decisions.Request(names=(OF_A,), secondary=columns)
    config = replace(CONFIG, drops_partition_columns=True)
    found = index_decisions.secondary_columns_refusal(request, known, config, COLUMNS)
    assert (found is None) is (expected is None)
    assert expected is None or expected in str(found)


SHARED = replace(CONFIG, has_foreign_writers=True)


@pytest.mark.parametrize(
    ("config", "names", "is_refused"),
    [
        (SHARED, (COLUMN_STATS, BLOOM_FILTERS), True),
        (SHARED, (COLUMN_STATS, RECORD_INDEX), False),
        (CONFIG, (BLOOM_FILTERS,), False),
        (replace(SHARED, metadata_partitions=("files", BLOOM_FILTERS)), (BLOOM_FILTERS,), False),
        (replace(SHARED, table_type=table_config.TableType.COPY_ON_WRITE), (BLOOM_FILTERS,), False),
    ],
)
def test_filters_by_which_other_engines_miss_rows_of_log_files_are_not_built(
    config: table_config.TableConfig, names: Sequence[str], is_refused: bool
) -> None:
    assert (index_decisions.readers_refusal(names, config) is not None) is is_refused


def test_indexes_of_files_may_be_inflight_beside_writes_of_other_engines() -> None:
    """ADR 0051: statistics of partitions beside ready ones of files."""
    stated = replace(CONFIG, metadata_partitions=("files", COLUMN_STATS))
    for names, before, since in (
        ([BLOOM_FILTERS], True, True),
        ([COLUMN_STATS, BLOOM_FILTERS], True, True),
        ([PARTITION_STATS], False, True),
        ([COLUMN_STATS, PARTITION_STATS], False, True),
        ([RECORD_INDEX], True, True),
        ([BLOOM_FILTERS, RECORD_INDEX], False, False),
        ([RECORD_INDEX, "secondary_index_a"], False, False),
        (["expr_index_a"], False, False),
    ):
        assert index_decisions.may_begin(names, CONFIG) is before, names
        assert index_decisions.may_begin(names, stated) is since, names


def test_files_of_a_record_index_that_this_project_has_begun_stay() -> None:
    """ADR 0052: some may be of writes that are pending."""
    own = replace(CONFIG, metadata_partitions_own=(RECORD_INDEX, BLOOM_FILTERS))
    assert index_decisions.keeps_files([RECORD_INDEX], own)
    assert not index_decisions.keeps_files([BLOOM_FILTERS], own)
    assert not index_decisions.keeps_files([RECORD_INDEX, COLUMN_STATS], own)
    assert not index_decisions.keeps_files([RECORD_INDEX], CONFIG)


def test_indexes_that_need_not_wait_are_built_first() -> None:
    wanted = (COLUMN_STATS, PARTITION_STATS, BLOOM_FILTERS, RECORD_INDEX)
    assert index_decisions.first_of(wanted, CONFIG) == [COLUMN_STATS, BLOOM_FILTERS]
    stated = replace(CONFIG, metadata_partitions=("files", COLUMN_STATS, BLOOM_FILTERS))
    assert index_decisions.first_of(wanted[1:], stated)[:1] == [PARTITION_STATS]
    of_keys = (RECORD_INDEX, "secondary_index_a")
    assert index_decisions.first_of(of_keys, stated) == [RECORD_INDEX]
    assert index_decisions.first_of(of_keys[1:], stated) == of_keys[1:]


def test_what_began_after_the_partitions_were_inflight_is_not_waited_for() -> None:
    at_work = [inflight(1), inflight(2)]
    assert index_decisions.waited_for(at_work, None) == at_work
    begun = index_decisions.Begun(config=CONFIG, awaited=frozenset({time(10), time(30)}))
    assert index_decisions.waited_for(at_work, begun) == [inflight(1)]


def test_partition_that_is_ready_and_was_not_published_by_the_action_is_of_another() -> None:
    published = {
        table_config.METADATA_PARTITIONS_KEY: f"files,{BLOOM_FILTERS}",
        table_config.METADATA_PARTITIONS_OWN_KEY: f"{BLOOM_FILTERS},{COLUMN_STATS}",
    }
    own = (BLOOM_FILTERS, COLUMN_STATS)

    def made(config: table_config.TableConfig) -> Sequence[str]:
        return index_decisions.made_by_others([BLOOM_FILTERS, COLUMN_STATS], config, time(1))

    config = replace(CONFIG, properties=published, metadata_partitions_own=own)
    assert made(config) == [BLOOM_FILTERS]
    built_by = {table_config.METADATA_PARTITIONS_BUILT_BY_KEY: time(1)}
    assert made(replace(config, properties=published | built_by)) == []
    confirmed = replace(CONFIG, metadata_partitions=("files", COLUMN_STATS), properties=built_by)
    assert made(confirmed) == [COLUMN_STATS]
