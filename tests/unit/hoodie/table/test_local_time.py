"""Tables whose timeline is in local time, on the day on which clocks are put back."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hoodie import clock, environment, errors, table
from hoodie.maintenance import consumers, savepoints
from hoodie.maintenance.archiving import planning as archive_planning
from hoodie.maintenance.cleaning.retention import Retention
from hoodie.model import table_config
from hoodie.model.compaction_options import CompactionOptions
from hoodie.model.instants import InstantTime
from support.tables.tables import CONFIG, SmallTable

CHANGE_MS = 1_792_890_000_000
"""Clocks are put back from 03:00 to 02:00 in Berlin, on 2026-10-25."""
MINUTE_MS = 60_000
OVER = 60 + 1 / 60
"""When clocks that lag by the skew have shown the last time that they show twice."""
ROWS = [{"id": key, "part": "p", "a": 1, "b": "x"} for key in "abcd"]


class StoppedClock(clock.SystemClock):
    """A clock that shows a moment, and waits for nothing."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms


class LocalTable(SmallTable):
    """A table in local time, whose writers' clock is set for each step."""

    def __init__(self, path: Path, config: table_config.TableConfig = CONFIG) -> None:
        super().__init__(path, config)
        declare(path, "Europe/Berlin")
        self.set_clock(-120)

    def set_clock(self, minutes: float) -> None:
        """Set the clock to some minutes after the change."""
        at_ms = CHANGE_MS + int(minutes * MINUTE_MS)
        self.env = replace(environment.system(parallelism=1), clock=StoppedClock(at_ms))
        self.table = table.open_table(str(self.path), self.env)


def declare(path: Path, zone: str | None) -> None:
    properties = path / ".hoodie" / "hoodie.properties"
    text = properties.read_text().replace("timezone=UTC", "timezone=LOCAL")
    properties.write_text(text + (f"{table_config.TIME_ZONE_KEY}={zone}\n" if zone else ""))


@pytest.fixture
def local(tmp_path: Path) -> LocalTable:
    return LocalTable(tmp_path / "t")


def test_instants_have_local_times_and_go_on_through_the_repeated_hour(local: LocalTable) -> None:
    times: list[str] = []
    for minutes in (-90, -1, 1, 30, 59, 61):
        local.set_clock(minutes)
        done = local.upsert(ROWS, batch_id=str(minutes))
        times += [done.instant.requested_time, str(done.instant.completion_time)]
    assert times == sorted(times)
    assert [time[:12] for time in times[::2]] == [
        "202610250130",
        "202610250259",
        "202610250259",
        "202610250259",
        "202610250259",
        "202610250301",
    ]
    assert local.rows() == ROWS
    assert not [each for each in local.problems() if "earlier time" in each]


@pytest.mark.parametrize("minutes", [-60, -1, 0, 59, 60])
def test_nothing_is_compacted_or_cleaned_while_times_are_repeated(
    local: LocalTable, minutes: float
) -> None:
    local.upsert(ROWS)
    local.set_clock(minutes)
    service = local.options().transaction
    match = "from 02:00 to 03:00 of 20261025 twice.*Retry then"
    with pytest.raises(errors.RepeatedTimeError, match=match):
        local.table.schedule_compaction(service)
    local.upsert(ROWS)
    local.set_clock(OVER)
    assert local.compact() is not None
    assert local.rows() == ROWS


def test_clean_waits_as_well(local: LocalTable) -> None:
    for minutes in (-100, -90, -80):
        local.set_clock(minutes)
        local.upsert(ROWS)
        assert local.compact() is not None
    local.set_clock(-30)
    local.upsert(ROWS)
    retention = Retention(retained=1, grace_ms=0)
    service = local.options().transaction
    with pytest.raises(
        errors.RepeatedTimeError, match="no compaction or clean is planned for 90 min"
    ):
        local.table.clean(retention, service)
    local.set_clock(OVER)
    assert local.table.clean(retention, service).done
    assert local.rows() == ROWS


def test_nothing_is_planned_at_a_time_that_a_clock_ahead_of_ours_has_begun_to_repeat(
    local: LocalTable,
) -> None:
    """Its time would be above what a JVM gives when that time comes again."""
    local.set_clock(-60)
    local.upsert(ROWS)
    local.set_clock(-60 - 0.1 / 60)
    with pytest.raises(errors.RepeatedTimeError, match="for 120 min"):
        local.table.schedule_compaction(local.options().transaction)
    local.set_clock(OVER)
    assert local.compact() is not None


ARCHIVE = archive_planning.Policy(commits_min=1, commits_max=2, compaction_delta_commits=1)


def test_what_may_be_begun_before_is_not_archived(local: LocalTable) -> None:
    """A JVM's write would lie below what was archived, and its files count before it completes."""
    for minutes in (-100, -90, -80, -50, -40, -30, -20):
        local.set_clock(minutes)
        local.upsert(ROWS)
    first = local.table.timeline().completed_writes
    service = local.options().transaction
    for minutes in (-10, 10, 60 - 1 / 60):
        local.set_clock(minutes)
        (hold,) = (
            each
            for each in local.table.preview_archive(ARCHIVE).holds
            if each.reason is archive_planning.Reason.REPEATED
        )
        # The last one that nothing can be begun before.
        assert hold.below == first[2].requested_time
        local.table.archive(service, ARCHIVE)
        left = local.table.timeline().completed_writes
        assert left == first[2:]
    local.set_clock(60)
    assert not local.table.archive(service, ARCHIVE).archived
    local.set_clock(OVER)
    assert len(local.table.archive(service, ARCHIVE).archived) > 1
    assert local.rows() == ROWS


def test_table_that_ours_alone_write_is_archived_at_any_time(tmp_path: Path) -> None:
    config = replace(CONFIG, chain=table_config.ChainName(id="local"), has_foreign_writers=False)
    local = LocalTable(tmp_path / "t", config)
    for minutes in (-50, -40, -30, 10):
        local.set_clock(minutes)
        local.upsert(ROWS)
    assert len(local.table.archive(local.options().transaction, ARCHIVE).archived) == 3
    assert local.rows() == ROWS


def test_consumer_has_not_read_what_times_may_come_again_before(local: LocalTable) -> None:
    def advance(to: InstantTime | None) -> InstantTime:
        progress = consumers.Progress(to=to)
        return local.table.advance_consumer("c", progress).consumer.consumed

    times = []
    for minutes in (-90, -30, 10):
        local.set_clock(minutes)
        completed = local.upsert(ROWS).instant.completion_time
        assert completed is not None
        times.append(completed)
    before, *repeated = times
    # A new one begins with what is certain.
    assert advance(None) == before
    for minutes in (10, 59, 60.5):
        local.set_clock(minutes)
        for time in repeated:
            with pytest.raises(
                errors.RepeatedTimeError, match=f"Read up to {before}, and the rest"
            ):
                advance(time)
        assert advance(before) == before
    local.set_clock(61)
    assert [advance(time) for time in times] == times


def test_metadata_table_waits_as_well(local: LocalTable) -> None:
    local.table = local.table.initialise_metadata(local.options().transaction)

    def write(minutes: float) -> set[Path]:
        local.set_clock(minutes)
        local.upsert(ROWS, metadata_delta_commits_max=2)
        return set((local.path / ".hoodie/metadata/files").glob("*.hfile"))

    before = write(-110)
    for minutes in (-50, -10, 10, 50):
        assert write(minutes) == before
    assert write(61) > before
    assert local.table.validate_metadata().is_right
    assert local.rows() == ROWS


def test_writer_that_plans_compactions_reports_why_there_is_none(local: LocalTable) -> None:
    planning = CompactionOptions(delta_commits=1, is_scheduled_inline=True)
    local.set_clock(10)
    done = local.table.write(local.data(ROWS), replace(local.options(), compaction=planning))
    assert done.planned_compaction is None
    assert "02:00 to 03:00" in str(done.findings)


def test_table_that_ours_alone_write_is_compacted_at_any_time(tmp_path: Path) -> None:
    config = replace(CONFIG, chain=table_config.ChainName(id="local"), has_foreign_writers=False)
    local = LocalTable(tmp_path / "t", config)
    local.set_clock(-30)
    local.upsert(ROWS)
    assert local.compact() is not None
    local.set_clock(10)
    local.upsert(ROWS)
    assert local.compact() is not None
    assert local.rows() == ROWS


def test_table_that_does_not_say_its_zone_is_read_and_not_written(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t")
    for _ in range(2):
        small.upsert(ROWS)
        assert small.compact() is not None
    small.upsert(ROWS)
    declare(small.path, None)
    small.table = table.open_table(str(small.path), small.env)
    assert small.rows() == ROWS
    service = small.options().transaction
    commit = small.table.timeline().completed_writes[0].requested_time
    changes: list[Callable[[], object]] = [
        lambda: small.upsert(ROWS),
        lambda: small.table.schedule_compaction(service),
        lambda: small.table.clean(Retention(retained=1, grace_ms=0), service),
        lambda: small.table.archive(service),
        lambda: small.table.create_savepoint(savepoints.Wanted(commit=commit), service),
        lambda: small.table.initialise_metadata(service),
        lambda: small.table.configure_chain(service, has_chain=True, has_foreign_writers=True),
    ]
    for change in changes:
        with pytest.raises(errors.UnsupportedError, match="hoodie adopt --time-zone"):
            change()


def test_unknown_zone_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t")
    declare(small.path, "Europe/Nowhere")
    small.table = table.open_table(str(small.path), small.env)
    with pytest.raises(errors.ConfigurationError, match="no time zone 'Europe/Nowhere'"):
        small.upsert(ROWS)
    assert not list((small.path / ".hoodie" / "timeline").glob("*.deltacommit*"))
