"""When a compaction is due: each trigger right below its bound and at it (T-C01)."""

from dataclasses import replace

import pytest

from hoodie import errors
from hoodie.maintenance.compaction import triggers
from hoodie.model import compaction_options
from hoodie.model.compaction_options import CompactionOptions, Trigger
from hoodie.model.instants import Action, Instant, InstantTime, State, parse_time
from hoodie.timeline import active

BY_THREE = CompactionOptions(delta_commits=3, delta_seconds=20)


def time(second: int, ms: int = 0) -> InstantTime:
    return InstantTime(f"202606010000{second:02d}{ms:03d}")


def done(
    requested: int, completed: int, action: Action = Action.DELTA_COMMIT, ms: int = 0
) -> Instant:
    return Instant(
        requested_time=time(requested, ms),
        action=action,
        state=State.COMPLETED,
        completion_time=time(completed),
    )


def requested(second: int, action: Action = Action.COMPACTION) -> Instant:
    return Instant(requested_time=time(second), action=action, state=State.REQUESTED)


def is_due(
    trigger: Trigger | None,
    *instants: Instant,
    at: InstantTime = time(59),  # noqa: B008 - a constant
    options: CompactionOptions = BY_THREE,
) -> bool:
    timeline = active.from_files(instants)
    return triggers.evaluate(timeline, at, replace(options, trigger=trigger)).is_due


DELTAS = (done(1, 2), done(3, 4), done(5, 6))


@pytest.mark.parametrize("trigger", [Trigger.NUM_COMMITS, Trigger.NUM_COMMITS_AFTER_LAST_REQUEST])
def test_commits_fire_at_their_number(trigger: Trigger) -> None:
    assert not is_due(trigger, *DELTAS[:2])
    assert is_due(trigger, *DELTAS)


@pytest.mark.parametrize("trigger", [Trigger.NUM_COMMITS, Trigger.NUM_COMMITS_AFTER_LAST_REQUEST])
def test_commits_before_a_completed_compaction_do_not_count(trigger: Trigger) -> None:
    compacted = (*DELTAS, done(10, 12, Action.COMMIT))
    assert not is_due(trigger, *compacted, done(13, 14), done(15, 16))
    assert is_due(trigger, *compacted, done(13, 14), done(15, 16), done(17, 18))


def test_commit_that_completed_after_the_plan_was_requested_counts() -> None:
    """It is in no plan yet, though it was requested earlier than the plan."""
    late = (done(9, 11), done(13, 14), done(15, 16))
    for trigger in (Trigger.NUM_COMMITS, Trigger.NUM_COMMITS_AFTER_LAST_REQUEST):
        assert is_due(trigger, *DELTAS, done(10, 12, Action.COMMIT), *late)


def test_pending_compaction_counts_as_the_last_only_after_its_request() -> None:
    planned = (*DELTAS, requested(10), done(13, 14))
    assert is_due(Trigger.NUM_COMMITS, *planned)
    assert not is_due(Trigger.NUM_COMMITS_AFTER_LAST_REQUEST, *planned)
    more = (*planned, done(15, 16), done(17, 18))
    assert is_due(Trigger.NUM_COMMITS_AFTER_LAST_REQUEST, *more)


def test_latest_of_requested_and_completed_compactions_counts() -> None:
    """Apache Hudi takes any pending one for the last, also an older one."""
    known = (*DELTAS, requested(10), done(13, 14), done(20, 22, Action.COMMIT))
    assert not is_due(Trigger.NUM_COMMITS_AFTER_LAST_REQUEST, *known, done(23, 24), done(25, 26))


def test_time_since_the_first_delta_commit_fires_at_the_second() -> None:
    """Milliseconds are cut off on both sides, as Apache Hudi does."""
    first = done(10, 11, ms=900)
    assert not is_due(Trigger.TIME_ELAPSED, first, at=time(29, 999))
    assert is_due(Trigger.TIME_ELAPSED, first, at=time(30))


def test_time_since_a_compaction_counts_from_its_request() -> None:
    known = (*DELTAS, done(10, 25, Action.COMMIT), done(26, 27))
    assert not is_due(Trigger.TIME_ELAPSED, *known, at=time(29, 999))
    assert is_due(Trigger.TIME_ELAPSED, *known, at=time(30))


def test_both_and_either() -> None:
    few, many = DELTAS[:2], DELTAS
    early, late = time(20), time(21)
    expected = {
        (few, early): (False, False),
        (few, late): (False, True),
        (many, early): (False, True),
        (many, late): (True, True),
    }
    for (known, at), (both, either) in expected.items():
        assert is_due(Trigger.NUM_AND_TIME, *known, at=at) is both
        assert is_due(Trigger.NUM_OR_TIME, *known, at=at) is either


@pytest.mark.parametrize("trigger", Trigger)
def test_nothing_fires_without_a_completed_delta_commit(trigger: Trigger) -> None:
    pending = tuple(requested(each, Action.DELTA_COMMIT) for each in range(1, 9))
    assert not is_due(trigger, *pending)
    assert not is_due(trigger)


def test_without_a_trigger_a_compaction_is_always_due() -> None:
    assert is_due(None)


def test_clock_that_jumped_back_does_not_fire_by_time() -> None:
    """The plan's time is above all on the timeline, but a wrong one must not fire either."""
    assert not is_due(Trigger.TIME_ELAPSED, done(40, 41), at=time(1))


def test_message_says_how_far_a_trigger_is() -> None:
    options = replace(BY_THREE, trigger=Trigger.NUM_OR_TIME)
    found = triggers.evaluate(active.from_files(DELTAS[:2]), time(11), options)
    assert found.message == "2 of 3 delta commits or 10 of 20 seconds"
    assert parse_time(time(11)) - parse_time(time(1)) == 10_000


@pytest.mark.parametrize("text", ["NUM_OR_TIME", "num_or_time", "num-or-time"])
def test_trigger_is_read_in_either_form(text: str) -> None:
    assert compaction_options.parse_trigger(text) is Trigger.NUM_OR_TIME


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hoodie.compact.inline.trigger.strategy", "SOMETIMES"),
        ("hoodie.compact.inline.max.delta.commits", "0"),
        ("hoodie.compact.inline.max.delta.commits", "٣"),
        ("hoodie.compact.inline.max.delta.seconds", "-1"),
        ("hoodie.compact.inline.max.delta.seconds", "9" * 5000),
        ("hoodie.compaction.strategy", "LogFileSizeBasedCompactionStrategy,Mine"),
        ("hoodie.compaction.strategy", ""),
        ("hoodie.compaction.strategy", "log-size,LogFileSizeBasedCompactionStrategy"),
        ("hoodie.operator.compaction.log.ratio.min", "nan"),
        ("hoodie.operator.compaction.log.ratio.min", "inf"),
        ("hoodie.compaction.partition.path.regex", "("),
        ("hoodie.compaction.partition.path.regex", "(?=a)"),
        ("hoodie.compaction.partition.path.regex", r"(a)\1"),
        ("hoodie.compaction.partition.path.regex", "((a{100}){100}){100}"),
        ("hoodie.compaction.partition.path.regex", "a" * 1001),
        ("hoodie.compaction.partition.path.regex", "\udcff"),
        ("hoodie.compact.inline", "perhaps"),
    ],
)
def test_value_that_is_none_of_its_key_is_refused(name: str, text: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=name):
        compaction_options.from_properties({name: text})


def test_options_survive_their_properties() -> None:
    options = CompactionOptions(
        trigger=Trigger.NUM_AND_TIME,
        delta_commits=7,
        strategies=(compaction_options.Strategy.DAY_BASED, compaction_options.Strategy.LOG_RATIO),
        log_ratio_min=0.25,
        partition_regex="^a,b=",
        file_groups_max=3,
        bytes_max=1 << 40,
        pending_max=1,
        is_scheduled_inline=True,
    )
    assert compaction_options.from_properties(compaction_options.to_properties(options)) == options
    assert compaction_options.to_properties(CompactionOptions()) == {}


@pytest.mark.parametrize("key", compaction_options.KEYS, ids=lambda key: key.name)
def test_every_default_is_a_value_of_its_key(key: compaction_options.settings.Key) -> None:
    with pytest.raises(ValueError, match="expected"):
        key.parse("(neither this nor that")
    default = getattr(compaction_options.DEFAULTS, key.field or "")
    if default is not None:
        assert key.parse(compaction_options.text_of(default)) == default


def test_every_option_has_a_key() -> None:
    assert {key.field for key in compaction_options.KEYS} == set(
        CompactionOptions.__dataclass_fields__
    )
