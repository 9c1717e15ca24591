"""Cleaning: what goes, what holds it back, and what a clean leaves when it dies."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hoodie import errors, table
from hoodie.engine import local
from hoodie.filegroup import listing
from hoodie.format import clean_avro, file_names, savepoint_avro
from hoodie.maintenance.archiving import planning as archive_planning
from hoodie.maintenance.cleaning import planning, retention
from hoodie.maintenance.cleaning.retention import Policy, Retention
from hoodie.model import files, instants, plans, settings, table_config, time_zones
from hoodie.model.instants import Action, Instant, InstantTime, State
from hoodie.timeline import active, transitions
from hoodie.write import sessions
from support.tables.tables import CONFIG, SmallTable

COW = replace(CONFIG, table_type=table_config.TableType.COPY_ON_WRITE)
GROUP = files.FileGroupId("p", "0")
HOUR_MS = 3_600_000


def time(number: int) -> InstantTime:
    return instants.format_time(1_800_000_000_000 + number * 60_000)


def write(requested: int, completed: int | None = None, action: Action = Action.COMMIT) -> Instant:
    return Instant(
        requested_time=time(requested),
        action=action,
        state=State.INFLIGHT if completed is None else State.COMPLETED,
        completion_time=None if completed is None else time(completed),
    )


def timeline_of(*found: Instant) -> active.ActiveTimeline:
    return active.from_files(found)


def bound(timeline: active.ActiveTimeline, now: int = 100, **changes: object) -> retention.Hold:
    clock = retention.Clock(
        now=time(now),
        now_ms=instants.parse_time(time(now)),
        shown_at={
            each.requested_time: each.completion_time
            for each in timeline.completed_writes
            if each.completion_time
        },
    )
    return retention.bound(timeline, Retention(**{"grace_ms": 0, **changes}), clock)  # type: ignore[arg-type] # by name


class TestBound:
    """T-X01, T-X02, T-X03: the earliest of all that hold cleaning back."""

    def test_newest_commits_stay(self) -> None:
        timeline = timeline_of(*(write(n, n + 1) for n in range(0, 20, 2)))
        assert bound(timeline, retained=3).time == time(15)
        assert bound(timeline, retained=9).time == time(3)

    @pytest.mark.parametrize("retained", [10, 11])
    def test_nothing_goes_while_all_commits_are_kept(self, retained: int) -> None:
        timeline = timeline_of(*(write(n, n + 1) for n in range(0, 20, 2)))
        assert bound(timeline, retained=retained).time == ""

    def test_commits_count_in_the_order_of_their_completion(self) -> None:
        timeline = timeline_of(write(0, 30), write(2, 5), write(4, 6))
        assert bound(timeline, retained=1).time == time(30)
        assert bound(timeline, retained=2).time == time(6)

    def test_hours_count_from_the_newest_time_of_the_timeline(self) -> None:
        timeline = timeline_of(write(0, 1))
        hold = bound(timeline, now=120, policy=Policy.HOURS, retained=1)
        assert time(60) < hold.time <= instants.next_time(time(60))

    @pytest.mark.parametrize("policy", Policy)
    def test_grace_holds_back_every_policy(self, policy: Policy) -> None:
        timeline = timeline_of(*(write(n, n + 1) for n in range(0, 200, 2)))
        hold = bound(timeline, now=200, policy=policy, retained=1, grace_ms=3 * HOUR_MS)
        assert hold.time == time(21)  # The first commit that was shown later than that.
        assert "grace" in hold.reason

    def test_grace_begins_when_a_completed_file_is_there(self) -> None:
        """Until then readers need what it replaces, whatever its completion time says."""
        timeline = timeline_of(*(write(n, n + 1) for n in range(0, 200, 2)))
        late = instants.parse_time(time(150))
        modified_ms = {
            each: late if each.completion_time == time(51) else instants.parse_time(at)
            for each in timeline.completed
            if (at := each.completion_time)
        }
        clock = retention.clock_of(timeline, modified_ms)
        how = Retention(retained=1, grace_ms=HOUR_MS)
        assert retention.bound(timeline, how, clock).time == time(51)

    @pytest.mark.parametrize("policy", [Policy.HOURS, Policy.VERSIONS])
    @pytest.mark.parametrize(
        ("change_ms", "after_min"),
        [
            (1_774_746_000_000, 5),  # Clocks are put forward, from 02:00 to 03:00.
            (1_774_746_000_000, 59),
            (1_792_890_000_000, 5),  # Clocks are put back, from 03:00 to 02:00.
            (1_792_890_000_000, 59),
            (1_792_890_000_000, 65),
            (1_792_890_000_000, 110),
        ],
    )
    def test_hours_and_grace_are_not_shorter_when_clocks_are_changed(
        self, change_ms: int, after_min: int, policy: Policy
    ) -> None:
        zone = time_zones.TimeZone("Europe/Berlin")
        now_ms = change_ms + after_min * 60_000
        moments_ms = [now_ms - minutes * 60_000 for minutes in range(0, 240, 5)]
        shown = {
            replace(write(-number, 0), completion_time=zone.format(ms)): ms
            for number, ms in enumerate(moments_ms)
        }
        timeline = timeline_of(*shown)
        grace_ms = HOUR_MS if policy is Policy.VERSIONS else 0
        how = Retention(policy=policy, retained=1, grace_ms=grace_ms)
        clock = replace(
            retention.clock_of(timeline, shown, zone), now=zone.format(now_ms), now_ms=now_ms
        )
        hold = retention.bound(timeline, how, clock)
        recent = [each for each, ms in shown.items() if now_ms - ms < HOUR_MS]
        assert all(str(each.completion_time) >= hold.time for each in recent)

    def test_cleaner_does_not_look_at_its_own_clock(self) -> None:
        timeline = timeline_of(write(0, 1), write(2, 3))
        newest = timeline.completed[-1]
        early_ms = instants.parse_time(time(2))
        assert retention.clock_of(timeline, {}).now == time(3)
        assert retention.clock_of(timeline, {newest: early_ms}).now == time(2)
        assert retention.clock_of(timeline, {newest: early_ms + 10 * HOUR_MS}).now == time(3)

    @pytest.mark.parametrize(
        "action",
        [
            Action.COMMIT,
            Action.DELTA_COMMIT,
            Action.REPLACE_COMMIT,
            Action.COMPACTION,
            Action.LOG_COMPACTION,
            Action.CLUSTERING,
            Action.INDEXING,
        ],
    )
    def test_pending_instant_holds_back_what_was_replaced_since_it_began(
        self, action: Action
    ) -> None:
        timeline = timeline_of(*(write(n, n + 1) for n in range(0, 20, 2)), write(7, action=action))
        hold = bound(timeline, retained=1)
        assert hold.time == time(7)
        assert action.value in hold.reason

    @pytest.mark.parametrize("action", [Action.CLEAN, Action.ROLLBACK, Action.SAVEPOINT])
    def test_pending_instant_that_reads_nothing_old_holds_back_nothing(
        self, action: Action
    ) -> None:
        timeline = timeline_of(*(write(n, n + 1) for n in range(0, 20, 2)), write(7, action=action))
        assert bound(timeline, retained=1).time == time(19)

    def test_first_retained_write_is_the_first_by_requested_time(self) -> None:
        """What Apache Hudi's next clean has to look at begins with it."""
        timeline = timeline_of(write(0, 30), write(2, 5), write(4, 6), write(8, 9))
        found = retention.earliest_retained(timeline, time(6))
        assert found is not None
        assert found.requested_time == time(0)

    def test_first_retained_write_is_before_all_that_may_complete_yet(self) -> None:
        """A pending clustering or compaction retires files when it completes, with its old time."""
        pending = write(6, action=Action.CLUSTERING)
        found = retention.earliest_retained(
            timeline_of(write(2, 3), write(4, 5), pending, write(8, 9)), time(9)
        )
        assert found is not None
        assert found.requested_time == time(4)
        assert retention.earliest_retained(timeline_of(pending, write(8, 9)), time(9)) is None

    @pytest.mark.parametrize(
        "wrong", [{"retained": 0}, {"grace_ms": -1}, {"files_max": 0}], ids=str
    )
    def test_retention_of_nothing_is_refused(self, wrong: dict[str, int]) -> None:
        with pytest.raises(errors.ConfigurationError, match=next(iter(wrong))):
            Retention(**wrong)  # type: ignore[arg-type] # by name


def base(number: int) -> files.BaseFile:
    return files.BaseFile(
        group=GROUP,
        name=f"0_0-0-0_{time(number)}.parquet",
        instant_time=time(number),
        write_token="0-0-0",
        size_bytes=1,
    )


def slice_of(number: int, *, has_base: bool = True) -> files.FileSlice:
    return files.FileSlice(
        group=GROUP,
        base_instant_time=time(number),
        base_file=base(number) if has_base else None,
        log_files=(),
    )


def replaced_times(slices: Sequence[files.FileSlice], newer_kept: int = 1) -> dict[str, str]:
    completed = {time(n): time(n + 1) for n in range(0, 100, 2)}
    found = planning.replaced(slices, completed.get, newer_kept)
    return {each.base_instant_time: when for each, when in found}


class TestReplaced:
    def test_slice_is_replaced_when_the_next_base_file_completes(self) -> None:
        slices = [slice_of(4), slice_of(2), slice_of(0)]
        assert replaced_times(slices) == {time(2): time(5), time(0): time(3)}

    def test_versions_are_counted_in_base_files(self) -> None:
        slices = [slice_of(6), slice_of(4), slice_of(2), slice_of(0)]
        assert replaced_times(slices, 2) == {time(2): time(7), time(0): time(5)}

    def test_slice_of_log_files_behind_a_pending_compaction_replaces_nothing(self) -> None:
        slices = [slice_of(6, has_base=False), slice_of(4), slice_of(2)]
        assert replaced_times(slices) == {time(2): time(5)}

    def test_base_file_of_unknown_completion_replaces_nothing(self) -> None:
        slices = [slice_of(5), slice_of(2), slice_of(0)]
        assert replaced_times(slices) == {time(0): time(3)}

    def test_group_of_log_files_alone_stays(self) -> None:
        assert replaced_times([slice_of(2, has_base=False)]) == {}


def removal(number: int, name: str = "") -> planning.Removal:
    return planning.Removal(
        partition_path="", replaced_at=time(number), names=(name or f"f{number}",)
    )


class TestCap:
    HOLD = retention.Hold(time=time(90), reason="the policy")

    def test_what_was_replaced_first_goes_first(self) -> None:
        found = [removal(5), removal(3), removal(7)]
        kept, hold = planning.capped(found, self.HOLD, 2)
        assert [each.replaced_at for each in kept] == [time(3), time(5)]
        assert hold.time == time(7)

    def test_what_was_replaced_at_one_time_goes_together(self) -> None:
        found = [removal(3, "a"), removal(3, "b"), removal(3, "c"), removal(7)]
        kept, hold = planning.capped(found, self.HOLD, 2)
        assert len(kept) == 3
        assert hold.time == time(7)

    def test_few_files_are_not_capped(self) -> None:
        assert planning.capped([removal(3)], self.HOLD, 1) == ([removal(3)], self.HOLD)

    def test_bound_stays_if_all_was_replaced_at_one_time(self) -> None:
        found = [removal(3, "a"), removal(3, "b")]
        assert planning.capped(found, self.HOLD, 1) == (found, self.HOLD)


class TestStillHolds:
    """What was decided without the lock is asked again in the lock scope."""

    BEFORE = timeline_of(*(write(n, n + 1) for n in range(0, 20, 2)))
    HOLD = retention.Hold(time=time(10), reason="the policy")
    PROPOSAL = planning.Proposal(
        timeline=BEFORE,
        clock=retention.Clock(now=time(20), now_ms=0, shown_at={}),
        policy=Policy.COMMITS,
        hold=HOLD,
        removals=(removal(3),),
        earliest_retained=None,
        savepoints=(time(4),),
        commits_seen=None,
        partitions_seen=1,
        left_out=0,
        protected=0,
    )

    def holds(
        self,
        timeline: active.ActiveTimeline = BEFORE,
        hold: int = 10,
        savepoints: Sequence[InstantTime] = (time(4),),
    ) -> bool:
        bound_now = retention.Hold(time=time(hold), reason="now")
        return planning.still_holds(self.PROPOSAL, timeline, bound_now, savepoints)

    def test_more_commits_do_no_harm(self) -> None:
        later = timeline_of(*(write(n, n + 1) for n in range(0, 30, 2)))
        assert self.holds()
        assert self.holds(later, hold=20)

    def test_bound_that_moved_back_does(self) -> None:
        assert not self.holds(hold=9)

    def test_savepoint_that_came_or_went_does(self) -> None:
        assert not self.holds(savepoints=())
        assert not self.holds(savepoints=(time(4), time(6)))

    def test_replacement_that_was_rolled_back_does(self) -> None:
        without = timeline_of(*(write(n, n + 1) for n in range(0, 20, 2) if n != 4))
        assert not self.holds(without)

    def test_replacement_that_was_archived_does_not(self) -> None:
        assert self.holds(timeline_of(*(write(n, n + 1) for n in range(6, 20, 2))))


NOW = Retention(grace_ms=0, retained=1)


class Cleaned(SmallTable):
    """A small table, of several optimistic writers where it is copy-on-write."""

    def options(self, writer_id: str = "w", **changes: object) -> sessions.WriteOptions:  # type: ignore[override] # by name
        if self.table.config.is_copy_on_write:
            changes.setdefault("concurrency", settings.ConcurrencyMode.OPTIMISTIC)
        return super().options(writer_id, **changes)  # type: ignore[arg-type] # by name


def filled(path: Path, config: table_config.TableConfig = CONFIG, writes: int = 4) -> Cleaned:
    small = Cleaned(path, config)
    for number in range(writes):
        small.upsert(rows(number))
        if not config.is_copy_on_write:
            small.compact()
    return small


def rows(number: int) -> list[dict[str, object]]:
    return [{"id": str(n), "part": "pq"[n % 2], "a": number} for n in range(6)]


def data_files(small: Cleaned) -> set[str]:
    found = (str(each.relative_to(small.path)) for each in small.path.rglob("*.*"))
    return {each for each in found if ".hoodie" not in each}


def paths(found: Iterable[planning.Removal]) -> set[str]:
    return {path for each in found for path in each.paths}


KINDS = pytest.mark.parametrize("config", [CONFIG, COW], ids=["mor", "cow"])


class TestCleaning:
    @KINDS
    def test_what_was_proposed_goes_and_all_rows_stay(
        self, config: table_config.TableConfig, tmp_path: Path
    ) -> None:
        small = filled(tmp_path / "t", config)
        before, all_rows = data_files(small), small.rows()
        proposed = paths(small.table.propose_clean(NOW).removals)
        assert proposed
        (done,) = small.table.clean(NOW, small.options().transaction).done
        assert set(done.deleted) == proposed
        assert data_files(small) == before - proposed
        assert small.rows() == all_rows
        assert not small.problems()

    @KINDS
    def test_change_data_goes_with_the_slice_of_its_write(
        self, config: table_config.TableConfig, tmp_path: Path
    ) -> None:
        """Apache Hudi writes such files; no read of rows looks at them."""
        small = filled(tmp_path / "t", config)
        bases = {each for each in data_files(small) if each.endswith(".parquet")}
        gone = paths(small.table.propose_clean(NOW).removals)
        for path in bases:
            partition_path, _, name = path.rpartition("/")
            file_id, _, time_and_end = name.split("_")
            log = f".{file_id}_{time_and_end.removesuffix('.parquet')}.log.1_0-0-0.cdc"
            (small.path / partition_path / log).touch()
        change_data = {each for each in data_files(small) if each.endswith(".cdc")}
        removed = paths(small.table.propose_clean(NOW).removals) & change_data
        assert len(removed) == len(gone & bases) > 0
        small.table.clean(NOW, small.options().transaction)
        assert {each for each in data_files(small) if each.endswith(".cdc")} == (
            change_data - removed
        )

    @KINDS
    def test_next_clean_looks_only_where_commits_were(
        self, config: table_config.TableConfig, tmp_path: Path
    ) -> None:
        small = filled(tmp_path / "t", config)
        assert small.table.propose_clean(NOW).commits_seen is None
        for number in (5, 6, 7):
            small.table.clean(NOW, small.options().transaction)
            small.upsert([{"id": "0", "part": "p", "a": number}])
            if not config.is_copy_on_write:
                small.compact()
        proposal = small.table.propose_clean(NOW)
        assert proposal.commits_seen is not None
        assert proposal.partitions_seen == 1
        assert proposal.removals
        whole = small.table.propose_clean(replace(NOW, policy=Policy.VERSIONS))
        assert paths(proposal.removals) <= paths(whole.removals)

    def test_nothing_is_recorded_where_nothing_goes(self, tmp_path: Path) -> None:
        small = filled(tmp_path / "t", COW, writes=1)
        found = small.table.clean(NOW, small.options().transaction)
        assert not found.done
        assert "the newest commit is kept" in found.held_by
        assert not [each for each in small.table.timeline().instants if each.action is Action.CLEAN]

    def test_start_moves_though_nothing_goes(self, tmp_path: Path) -> None:
        """Where many commits replaced nothing, the next clean does not look at them again."""
        small = filled(tmp_path / "t", COW, writes=3)
        small.table.clean(NOW, small.options().transaction)
        for number in range(planning.EMPTY_AFTER + 2):
            small.upsert([{"id": str(number), "part": f"new{number}", "a": 1}])
            if not number:
                small.table.clean(NOW, small.options().transaction)
        assert not small.table.propose_clean(replace(NOW, files_max=1)).removals
        (done,) = small.table.clean(NOW, small.options().transaction).done
        assert not done.deleted
        assert small.table.propose_clean(NOW).commits_seen == 0

    def test_log_file_that_completed_after_a_base_file_was_requested_stays(
        self, tmp_path: Path
    ) -> None:
        """2.11: its name says that it is older than the base file which is kept."""
        small = Cleaned(tmp_path / "t")
        small.upsert([{"id": "0", "part": "p", "a": 1}])
        late = small.table.begin_write(small.options("late"), ["id", "part", "a"])
        written = small.write_files(late, [{"id": "0", "part": "p", "a": 7}])
        transaction = small.options().transaction
        planned = small.table.schedule_compaction(transaction)
        assert planned is not None
        late.commit(written)
        small.table.compact(planned, transaction)
        small.upsert([{"id": "2", "part": "q", "a": 3}])
        small.table.clean(NOW, transaction)
        assert [row["a"] for row in small.rows()] == [7, 3]
        assert any(late.requested_time in each for each in data_files(small))

    def test_begun_write_holds_back_what_it_may_read(self, tmp_path: Path) -> None:
        """T-X02."""
        small = filled(tmp_path / "t", COW, writes=1)
        begun = small.table.begin_write(small.options("slow"), ["id", "part", "a"])
        for number in range(3):
            small.upsert(rows(number))
        proposal = small.table.propose_clean(NOW)
        assert not proposal.removals
        assert begun.requested_time in proposal.hold.reason
        begun.abort(has_tasks_left=False)

    def test_clean_that_died_is_finished_by_the_next(self, tmp_path: Path) -> None:
        """T-X04: it goes on, and plans nothing beside it."""
        small = filled(tmp_path / "t", COW)
        proposed = paths(small.table.propose_clean(NOW).removals)
        before = data_files(small)
        dying = table.open_table(str(small.path), replace(small.env, engine=DyingEngine(1)))
        with pytest.raises(DyingError):
            dying.clean(NOW, small.options().transaction)
        (pending,) = small.table.timeline().pending_of(Action.CLEAN)
        assert pending.state is State.INFLIGHT
        found = small.table.clean(NOW, small.options().transaction)
        assert [each.instant.requested_time for each in found.done] == [pending.requested_time]
        assert data_files(small) == before - proposed

    @pytest.mark.parametrize("index", [None, "column_stats"], ids=["same", "indexed-meanwhile"])
    def test_clean_is_recorded_though_writes_that_it_knows_were_archived(
        self, index: str | None, tmp_path: Path
    ) -> None:
        """It looks up the columns whose statistics go with the files."""
        small = filled(tmp_path / "t", COW)
        transaction = small.options().transaction
        small.table = small.table.initialise_metadata(transaction, has_statistics=index is None)

        def archive() -> None:
            for number in range(3):
                small.upsert(rows(number))
            policy = archive_planning.Policy(commits_min=1, commits_max=2)
            assert small.table.archive(transaction, policy).archived
            if index is not None:
                small.table.build_index([index], transaction)

        busy = replace(small.env, engine=LateEngine(1, archive))
        (done,) = table.open_table(str(small.path), busy).clean(NOW, transaction).done
        assert done.deleted
        assert not small.problems()

    def test_clean_of_an_append_only_table_is_recorded_once(self, tmp_path: Path) -> None:
        """Or each one would list the whole table, and replace commits could not be archived."""
        small = Cleaned(tmp_path / "t", COW)
        for number in range(planning.EMPTY_AFTER + 2):
            small.upsert([{"id": str(number), "part": f"new{number}", "a": 1}])
        (done,) = small.table.clean(NOW, small.options().transaction).done
        assert not done.deleted
        assert small.table.propose_clean(NOW).commits_seen == 0

    def test_savepoints_that_keep_files_of_a_plan_are_recorded(self, tmp_path: Path) -> None:
        """Once one is deleted, the next clean looks at the whole table."""
        small = filled(tmp_path / "t", COW)
        proposal = small.table.propose_clean(NOW)
        dying = table.open_table(str(small.path), replace(small.env, engine=DyingEngine(1)))
        with pytest.raises(DyingError):
            dying.clean(NOW, small.options().transaction)
        kept = file_names.parse(proposal.removals[0].paths[0], 0)
        assert kept is not None
        put_savepoint(small, kept)
        done = small.table.clean(NOW, small.options().transaction).done[0]
        assert kept.path not in done.deleted
        assert any(kept.path in finding for finding in done.findings)
        assert kept.path in data_files(small)
        for each in small.path.glob(".hoodie/timeline/*savepoint*"):
            each.unlink()
        assert kept.path in paths(small.table.propose_clean(NOW).removals)

    @pytest.mark.parametrize("name", ["clean.requested", "clean.inflight"])
    def test_clean_without_a_plan_is_removed(self, name: str, tmp_path: Path) -> None:
        """A crashed engine leaves an empty plan; an executor may begin after all was archived."""
        small = filled(tmp_path / "t", COW)
        path = small.path / f".hoodie/timeline/20200101000000000.{name}"
        path.touch()
        os.utime(path, (0, 0))
        assert small.table.clean(NOW, small.options().transaction).done
        assert not path.exists()

    def test_empty_completed_clean_tells_nothing(self, tmp_path: Path) -> None:
        small = filled(tmp_path / "t", COW)
        (small.path / ".hoodie/timeline/20200101000000000_20200101000000001.clean").touch()
        assert small.table.propose_clean(NOW).commits_seen is None

    def test_plan_of_another_engine_that_deletes_what_is_read_is_not_executed(
        self, tmp_path: Path
    ) -> None:
        small = filled(tmp_path / "t", COW)
        proposal = small.table.propose_clean(NOW)
        newest = max(data_files(small), key=lambda path: path.rpartition("_")[2])
        partition_path, _, name = newest.rpartition("/")
        put_plan(small, proposal, {partition_path: (name,)})
        with pytest.raises(errors.ConflictError, match="which is in use"):
            small.table.clean(NOW, small.options().transaction)
        assert newest in data_files(small)

    def test_read_that_lists_after_a_clean_looks_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """T-C08: its timeline is of before; what it needs is gone, and no listing tells.

        The simulation found that reads returned less without a word.
        """
        small = filled(tmp_path / "t", COW, writes=2)
        of_table = listing.of_table

        def list_late(*arguments: object) -> listing.Listing:
            monkeypatch.undo()
            small.upsert(rows(8))
            small.upsert(rows(9))
            assert small.table.clean(NOW, small.options().transaction).done
            return of_table(*arguments)  # type: ignore[arg-type] # passed on as they are

        monkeypatch.setattr(listing, "of_table", list_late)
        assert {row["a"] for row in small.rows()} == {9}
        assert len(small.rows()) == 6

    def test_files_of_a_failed_write_are_left_to_its_rollback(self, tmp_path: Path) -> None:
        small = filled(tmp_path / "t", COW)
        begun = small.table.begin_write(small.options("dead"), ["id", "part", "a"])
        small.write_files(begun, [{"id": "0", "part": "p", "a": 9}])
        begun.abort(has_tasks_left=True)
        left = {each for each in data_files(small) if begun.requested_time in each}
        assert left
        assert not left & paths(small.table.propose_clean(NOW).removals)


def put_plan(
    small: Cleaned, proposal: planning.Proposal, names: dict[str, tuple[str, ...]]
) -> None:
    """Put a plan on the timeline as another engine does, which says nothing of us."""
    plan = replace(proposal.plan({}), file_names=names)
    storage = small.env.open_storage(str(small.path))
    requested = Instant(
        requested_time=InstantTime(f"{proposal.timeline.greatest_time}"[:-1] + "9"),
        action=Action.CLEAN,
        state=State.REQUESTED,
    )
    storage.create(transitions.path(requested), clean_avro.encode_plan(plan, storage.uri))


def put_savepoint(small: Cleaned, kept: files.BaseFile | files.LogFile) -> None:
    """Create a savepoint as another engine does, beside a pending clean."""
    commit = small.table.timeline().find(kept.instant_time)
    assert commit is not None
    savepoint = plans.Savepoint(
        by="", comment="", saved_at_ms=0, file_names={kept.group.partition_path: (kept.name,)}
    )
    completed = replace(commit, action=Action.SAVEPOINT)
    storage = small.env.open_storage(str(small.path))
    storage.create(transitions.path(completed), savepoint_avro.encode(savepoint))


class LateEngine(local.LocalEngine):
    """An engine before whose first task something happens, once."""

    def __init__(self, parallelism: int, happens: Callable[[], None]) -> None:
        super().__init__(parallelism)
        self.happens = happens

    def map(self, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 # passed on
        happens, self.happens = self.happens, lambda: None
        happens()
        return super().map(*arguments, **options)


class DyingError(Exception):
    """The process dies."""


class DyingEngine(local.LocalEngine):
    """An engine whose process dies before its first task."""

    def map(self, *_: object, **__: object) -> list[object]:  # type: ignore[override] # never called as one
        raise DyingError
