"""Which file groups a plan takes, in which order, within which bound (T-C02)."""

import time
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.maintenance.compaction import strategies
from hoodie.maintenance.compaction.strategies import MEBIBYTE, Candidate, Choice
from hoodie.model import compaction_options, files, instants
from hoodie.model.compaction_options import CompactionOptions, Strategy

NOW = instants.InstantTime("20261121120000000")
HUDI = "org.apache.hudi.table.action.compact.strategy."


def group(name: str, logs: int = 1, log_mib: float = 1, base_mib: int = 0) -> Candidate:
    """Return a candidate; its name is `partition:id`."""
    partition, _, file_id = name.rpartition(":")
    return Candidate(
        group=files.FileGroupId(partition, file_id),
        log_files=logs,
        log_bytes=int(log_mib * MEBIBYTE),
        base_bytes=base_mib * MEBIBYTE,
    )


def taken(found: strategies.Selection) -> list[str]:
    return [f"{each.group.partition_path}:{each.group.file_id}" for each in found.taken]


def others(found: strategies.Selection) -> dict[str, Choice]:
    return {f"{e.group.partition_path}:{e.group.file_id}": why for e, why in found.others}


def select(candidates: list[Candidate], *chosen: Strategy, **changes: object) -> list[str]:
    return taken(selection(candidates, *chosen, **changes))


def selection(
    candidates: list[Candidate], *chosen: Strategy, **changes: object
) -> strategies.Selection:
    options = CompactionOptions(strategies=chosen, **changes)  # type: ignore[arg-type] # by name
    return strategies.select(candidates, options, NOW)


FIVE = [
    group("p:a", logs=2, log_mib=10, base_mib=100),
    group("p:b", logs=9, log_mib=5, base_mib=10),
    group("p:c", logs=1, log_mib=30, base_mib=400),
    group("q:d", logs=4, log_mib=1, base_mib=1),
    group("q:e", logs=3, log_mib=2),
]


def test_log_size_takes_the_largest_first_and_none_below_the_threshold() -> None:
    found = selection(FIVE, Strategy.LOG_SIZE, log_bytes_min=2 * MEBIBYTE)
    assert taken(found) == ["p:c", "p:a", "p:b", "q:e"]
    assert others(found) == {"q:d": Choice.BELOW_THRESHOLD}
    assert found.left_out == 0


def test_log_count_takes_the_most_first_and_none_below_the_threshold() -> None:
    assert select(FIVE, Strategy.LOG_COUNT, log_files_min=2) == ["p:b", "q:d", "q:e", "p:a"]


def test_log_ratio_takes_groups_without_base_file_first() -> None:
    found = selection(FIVE, Strategy.LOG_RATIO, log_ratio_min=0.1)
    assert taken(found) == ["q:e", "q:d", "p:b", "p:a"]
    assert others(found) == {"p:c": Choice.BELOW_THRESHOLD}


def test_bound_of_io_may_be_exceeded_by_the_last() -> None:
    """Reads and writes count; a base file that is not there yet counts as one of 120 MiB."""
    assert [each.io_mib for each in FIVE] == [210, 25, 830, 3, 122]
    assert select(FIVE, Strategy.BOUNDED_IO, target_io_mib=210) == ["p:a"]
    assert select(FIVE, Strategy.BOUNDED_IO, target_io_mib=211) == ["p:a", "p:b"]
    assert select(FIVE, Strategy.BOUNDED_IO, target_io_mib=236) == ["p:a", "p:b", "p:c"]
    found = selection(FIVE, Strategy.LOG_SIZE, target_io_mib=1)
    assert taken(found) == ["p:c"]
    assert set(others(found).values()) == {Choice.BOUND}
    assert found.left_out == 4


def test_unbounded_takes_everything_whatever_the_bound_of_io() -> None:
    assert len(select(FIVE, Strategy.UNBOUNDED, target_io_mib=1)) == 5


DAYS = [
    group("2026/11/21:today"),
    group("2026/11/11:ten"),
    group("2026/11/10:eleven"),
    group("2025/01/01:old"),
    group("2027/01/01:ahead"),
]


def test_day_based_takes_the_newest_partitions_newest_first() -> None:
    found = selection(DAYS, Strategy.DAY_BASED, partitions_max=3)
    assert taken(found) == ["2027/01/01:ahead", "2026/11/21:today", "2026/11/11:ten"]
    assert set(others(found).values()) == {Choice.PARTITION}


def test_recent_and_old_partitions_are_each_others_complement() -> None:
    recent = select(DAYS, Strategy.RECENT_PARTITIONS)
    assert recent == ["2027/01/01:ahead", "2026/11/21:today", "2026/11/11:ten"]
    assert select(DAYS, Strategy.OLD_PARTITIONS) == ["2026/11/10:eleven", "2025/01/01:old"]
    assert select(DAYS, Strategy.RECENT_PARTITIONS, target_io_mib=1) == recent


def test_age_beyond_the_calendar_makes_every_partition_recent() -> None:
    assert len(select(DAYS, Strategy.RECENT_PARTITIONS, partitions_max=10**17)) == 5


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("2026/11/21", date(2026, 11, 21)),
        ("2026/1/2", date(2026, 1, 2)),
        ("2026-11-21", date(2026, 11, 21)),
        ("year=2026/month=11/day=21", date(2026, 11, 21)),
        ("dt=2026-11-21/hour=05", date(2026, 11, 21)),
        ("2026/11/21/05", date(2026, 11, 21)),
        ("2026/13/21", None),
        ("2026/02/30", None),
        ("0000/01/01", None),
        ("2026/11/211", None),
        ("eu/2026/11/21", None),
        ("__HIVE_DEFAULT_PARTITION__", None),
        ("", None),
        ("२०२६/11/21", None),
    ],
)
def test_date_of_a_partition(path: str, expected: date | None) -> None:
    assert strategies.partition_date(path) == expected


def test_partition_without_a_date_is_older_than_all() -> None:
    mixed = [group("__HIVE_DEFAULT_PARTITION__:x"), group("2026/11/21:today")]
    assert select(mixed, Strategy.DAY_BASED) == ["2026/11/21:today", "__HIVE_DEFAULT_PARTITION__:x"]
    assert select(mixed, Strategy.RECENT_PARTITIONS) == ["2026/11/21:today"]
    assert select(mixed, Strategy.OLD_PARTITIONS) == ["__HIVE_DEFAULT_PARTITION__:x"]


def test_table_without_dates_has_old_partitions_only() -> None:
    undated = [group("north:x"), group("south:y")]
    assert select(undated, Strategy.DAY_BASED, partitions_max=1) == ["north:x"]
    assert select(undated, Strategy.RECENT_PARTITIONS) == []
    assert select(undated, Strategy.OLD_PARTITIONS) == ["north:x", "south:y"]


def test_regular_expression_is_looked_for_in_the_partition_path() -> None:
    """Anywhere in it, as `Pattern.asPredicate` does."""
    assert select(FIVE, Strategy.PARTITION_REGEX, partition_regex="^q$") == ["q:d", "q:e"]
    assert select(DAYS, Strategy.PARTITION_REGEX, partition_regex="11/1") == [
        "2026/11/10:eleven",
        "2026/11/11:ten",
    ]
    assert select([group(":x")], Strategy.PARTITION_REGEX) == [":x"]


def test_hostile_expression_takes_no_time() -> None:
    """Of a backtracking matcher it takes longer than the universe has been there."""
    hostile = compaction_options.parse_pattern("(a*)*(a|aa)+b$")
    begin = time.perf_counter()
    assert (
        select([group(f"{'a' * 5000}:x")], Strategy.PARTITION_REGEX, partition_regex=hostile) == []
    )
    assert time.perf_counter() - begin < 5


def test_path_that_is_no_text_is_searched_all_the_same() -> None:
    assert select([group("p\udcff:x")], Strategy.PARTITION_REGEX, partition_regex="p") == [
        "p\udcff:x"
    ]


def test_several_strategies_are_a_pipeline() -> None:
    """All must agree; each sees the order and the choice of the one before."""
    both = (Strategy.LOG_COUNT, Strategy.LOG_SIZE)
    assert select(FIVE, *both, log_files_min=3, log_bytes_min=2 * MEBIBYTE) == ["p:b", "q:e"]
    # The bound is reached in the order of the first, and only then the second orders.
    assert select(FIVE, *both, target_io_mib=26) == ["p:b", "q:d"]
    assert select(FIVE, *reversed(both), target_io_mib=26) == ["p:c"]
    days = (Strategy.DAY_BASED, Strategy.PARTITION_REGEX)
    assert select(DAYS, *days, partitions_max=1, partition_regex="2026") == []
    assert select(DAYS, *reversed(days), partitions_max=1, partition_regex="2026") == [
        "2026/11/21:today"
    ]


def test_plan_of_so_many_file_groups() -> None:
    found = selection(FIVE, Strategy.LOG_SIZE, file_groups_max=2)
    assert taken(found) == ["p:c", "p:a"]
    assert found.left_out == 3


def test_plan_of_so_many_bytes_has_one_file_group_at_least() -> None:
    """A file group that is larger than the bound would otherwise never be compacted."""
    of = {each.group.file_id: each.read_bytes // MEBIBYTE for each in FIVE}
    assert of == {"a": 110, "b": 15, "c": 430, "d": 2, "e": 2}
    assert select(FIVE, Strategy.LOG_SIZE, bytes_max=1) == ["p:c"]
    assert select(FIVE, Strategy.LOG_SIZE, bytes_max=540 * MEBIBYTE - 1) == ["p:c"]
    assert select(FIVE, Strategy.LOG_SIZE, bytes_max=540 * MEBIBYTE) == ["p:c", "p:a"]


@given(
    candidates=st.lists(
        st.builds(
            group,
            st.from_regex(r"(2026/11/[12][0-9]|x|):[a-e]", fullmatch=True),
            st.integers(1, 5),
            st.integers(0, 300),
            st.integers(0, 300),
        ),
        unique_by=lambda each: each.group,
    ),
    chosen=st.lists(
        st.sampled_from([each for each in Strategy if "partitions" not in each.value]),
        min_size=1,
        unique=True,
    ),
    groups_max=st.integers(1, 4),
    io=st.integers(1, 500),
)
def test_plans_one_after_the_other_take_every_file_group_once(
    candidates: list[Candidate], chosen: list[Strategy], groups_max: int, io: int
) -> None:
    """Nothing that was left out is forgotten, and every plan takes something."""
    left, plans = list(candidates), []
    while left:
        found = selection(left, *chosen, file_groups_max=groups_max, target_io_mib=io)
        assert {*found.taken, *(each for each, _ in found.others)} == set(left)
        assert len(found.taken) <= groups_max
        if not found.taken:
            assert found.left_out == 0
            break
        plans.append(found.taken)
        left = [each for each, why in found.others if why is Choice.BOUND]
    assert len({each for plan in plans for each in plan}) == sum(map(len, plans))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{HUDI}LogFileSizeBasedCompactionStrategy", (Strategy.LOG_SIZE,)),
        ("DayBasedCompactionStrategy", (Strategy.DAY_BASED,)),
        (f"{HUDI}BoundedPartitionAwareCompactionStrategy", (Strategy.RECENT_PARTITIONS,)),
        ("UnBoundedPartitionAwareCompactionStrategy", (Strategy.OLD_PARTITIONS,)),
        (
            f"{HUDI}PartitionRegexBasedCompactionStrategy, {HUDI}LogFileNumBasedCompactionStrategy",
            (Strategy.PARTITION_REGEX, Strategy.LOG_COUNT),
        ),
        ("bounded-io,unbounded", (Strategy.BOUNDED_IO, Strategy.UNBOUNDED)),
    ],
)
def test_strategies_are_read_by_class_and_by_name(
    text: str, expected: tuple[Strategy, ...]
) -> None:
    assert compaction_options.parse_strategies(text) == expected
