"""Bounded plans, several at once, back-pressure, and the plans that writers make."""

from concurrent import futures
from dataclasses import replace
from pathlib import Path

import pytest

from hoodie import errors
from hoodie.format import timeline_avro
from hoodie.maintenance.compaction import planning, service
from hoodie.model import (
    compaction_options,
    files,
    instants,
    plans,
    results,
    settings,
    table_config,
)
from hoodie.model.compaction_options import CompactionOptions, Strategy, Trigger
from hoodie.transaction import authors, manager
from support.tables.tables import CONFIG, SmallTable

ANY = CompactionOptions()
ONE = CompactionOptions(file_groups_max=1)
AS_WRITER = CompactionOptions(is_scheduled_inline=True, delta_commits=2)


class Planned(SmallTable):
    """A table whose compactions are planned in several ways."""

    @property
    def service(self) -> manager.TransactionOptions:
        return replace(self.options().transaction, author=authors.Author())

    def put(self, *places: str, a: int = 1) -> None:
        """Write rows `partition/key`."""
        split = [place.split("/") for place in places]
        self.upsert([{"id": key, "part": part, "a": a, "b": "x"} for part, key in split])

    def put_as(self, options: CompactionOptions, a: int, **changes: object) -> results.CommitResult:
        rows = [{"id": key, "part": "p", "a": a} for key in "abcd"]
        done = self.table.write(
            self.data(rows), replace(self.options(**changes), compaction=options)
        )
        assert isinstance(done, results.CommitResult)
        return done

    def plan(self, options: CompactionOptions = ANY) -> results.ScheduleResult:
        return self.table.plan_compaction(self.service, options)

    def operations(self, instant: instants.InstantTime | None) -> list[files.FileGroupId]:
        return [each.group for each in self.stored(instant).operations]

    def stored(self, instant: instants.InstantTime | None) -> plans.CompactionPlan:
        path = self.path / ".hoodie" / "timeline" / f"{instant}.compaction.requested"
        return timeline_avro.decode_compaction_plan(path.read_bytes())

    @property
    def groups(self) -> set[files.FileGroupId]:
        return {each.group for each in self.table.slices()}


@pytest.fixture
def small(tmp_path: Path) -> Planned:
    """Return a table with four file groups, two a partition."""
    made = Planned(tmp_path / "t")
    made.put("p/a", "p/b", "p/c", "q/a", "q/b", "q/c")
    assert len(made.groups) == 4
    return made


def test_what_a_bounded_plan_leaves_out_is_in_the_next_ones(small: Planned) -> None:
    found = [small.plan(ONE) for _ in range(4)]
    assert [each.file_groups for each in found] == [1] * 4
    assert [each.left_out for each in found] == [3, 2, 1, 0]
    groups = [group for each in found for group in small.operations(each.instant)]
    assert sorted(groups) == sorted(small.groups)
    last = small.plan(ONE)
    assert (last.instant, last.outcome) == (None, "nothing to compact")
    for each in reversed(found):
        assert each.instant is not None
        small.table.compact(each.instant, small.service)
    assert all(each.log_files == () for each in small.table.slices())
    assert len(small.rows()) == 6
    assert small.problems() == []


def test_plan_names_the_partitions_that_it_leaves_log_files_in(small: Planned) -> None:
    first = small.plan(ONE)
    (taken,) = small.operations(first.instant)
    assert small.stored(first.instant).missed_partitions == ("p", "q")
    small.put(f"{taken.partition_path}/a", f"{taken.partition_path}/b", "r/a", a=2)
    rest = small.plan()
    assert rest.left_out == 0
    # The one group that is in the first plan has log files behind it.
    assert taken not in small.operations(rest.instant)
    assert small.stored(rest.instant).missed_partitions == (taken.partition_path,)


def test_plan_of_everything_names_no_partition(small: Planned) -> None:
    assert small.stored(small.plan().instant).missed_partitions == ()


def test_kept_deletes_alone_make_no_partition_missed(tmp_path: Path) -> None:
    config = replace(
        table_config.TableConfig(name="events", record_key_fields=("id",)),
        partition_fields=("part",),
        ordering_fields=("a",),
        merge_mode=table_config.MergeMode.EVENT_TIME,
        bucket_count=1,
    )
    events = Planned(tmp_path / "t", config)
    events.put("p/x", "p/y")
    events.delete([{"id": "x", "part": "p", "a": 5}])
    events.compact()
    (kept,) = events.table.slices()
    assert kept.kept_deletes
    events.put("q/z")
    assert events.stored(events.plan().instant).missed_partitions == ()


def test_nothing_is_planned_while_too_many_compactions_are_pending(small: Planned) -> None:
    """T-C12: neither by hand nor by a trigger; it says so by name."""
    limited = replace(ONE, pending_max=2)
    first = small.plan(limited)
    assert small.plan(limited).instant is not None
    held = small.plan(limited)
    assert (held.instant, held.outcome) == (None, "too many pending compactions")
    assert held.message == (
        f"2 compactions are pending, the oldest {first.instant}, expected fewer than 2 "
        "(hoodie.operator.compaction.pending.max): run one first"
    )
    assert first.instant is not None
    small.table.compact(first.instant, small.service)
    assert small.plan(limited).instant is not None


def test_trigger_is_asked_at_the_time_of_the_plan(small: Planned) -> None:
    two = CompactionOptions(trigger=Trigger.NUM_COMMITS, delta_commits=2)
    found = small.plan(two)
    assert (found.outcome, found.message) == ("not due", "1 of 2 delta commits")
    small.put("p/a", a=2)
    assert small.plan(two).file_groups == 4


def test_strategy_that_wants_nothing_says_so(small: Planned) -> None:
    options = CompactionOptions(strategies=(Strategy.PARTITION_REGEX,), partition_regex="^x")
    found = small.plan(options)
    assert found.instant is None
    assert (found.outcome, found.message) == (
        "nothing chosen",
        "strategy partition-regex chose none of 4 file groups",
    )


def test_preview_is_what_is_planned_and_writes_nothing(small: Planned) -> None:
    options = replace(ONE, strategies=(Strategy.LOG_COUNT,))
    before = sorted(path for path in small.path.rglob("*"))
    shown = small.table.preview_compaction(options)
    assert sorted(path for path in small.path.rglob("*")) == before
    assert shown.plan is not None
    found = small.plan(options)
    assert small.stored(found.instant).operations == shown.plan.operations
    assert len(shown.selection.others) == 3


def test_copy_on_write_table_is_refused(tmp_path: Path) -> None:
    config = table_config.TableConfig(
        name="t",
        record_key_fields=("id",),
        bucket_count=1,
        table_type=table_config.TableType.COPY_ON_WRITE,
    )
    small = Planned(tmp_path / "t", config)
    for act in (small.plan, lambda: small.table.preview_compaction(ANY)):
        with pytest.raises(errors.ConfigurationError, match="MERGE_ON_READ to compact"):
            act()


def test_metrics_of_a_group_without_base_file_count_a_new_one(small: Planned) -> None:
    """So does Apache Hudi (`tests/conformance/test_compaction_plans.py`)."""
    small.put("p/a", "p/b", a=2)
    for operation in small.stored(small.plan().instant).operations:
        folder = small.path / operation.group.partition_path
        sizes = [(folder / name).stat().st_size for name in operation.log_file_names]
        assert operation.metrics == {
            "TOTAL_LOG_FILES": len(sizes),
            "TOTAL_LOG_FILES_SIZE": sum(sizes),
            "TOTAL_IO_READ_MB": 0,
            "TOTAL_IO_WRITE_MB": 120,
            "TOTAL_IO_MB": 120,
        }


@pytest.fixture
def written(tmp_path: Path) -> Planned:
    return Planned(tmp_path / "t")


def test_writer_plans_after_the_commit_that_makes_it_due(written: Planned) -> None:
    assert written.put_as(AS_WRITER, 1).planned_compaction is None
    second = written.put_as(AS_WRITER, 2)
    assert second.planned_compaction is not None
    assert second.findings == ()
    assert second.instant.completion_time is not None
    assert second.instant.completion_time < second.planned_compaction
    (pending,) = written.table.timeline().pending_compactions
    assert pending.requested_time == second.planned_compaction
    # The writer goes on meanwhile, in a next attempt too, and the plan is anybody's.
    written.put_as(AS_WRITER, 3)
    written.table.compact(second.planned_compaction, written.service)
    assert {row["a"] for row in written.rows()} == {3}
    assert written.problems() == []


def test_writer_that_compacts_inline_executes_what_it_plans(written: Planned) -> None:
    inline = replace(AS_WRITER, is_scheduled_inline=False, is_inline=True)
    left = written.put_as(AS_WRITER, 1) and written.put_as(AS_WRITER, 2).planned_compaction
    assert left is not None
    assert written.put_as(inline, 3).planned_compaction is None
    done = written.put_as(inline, 4)
    assert done.planned_compaction is not None
    assert done.findings == ()
    timeline = written.table.timeline()
    assert timeline.pending == ()
    compactions = [
        w.requested_time for w in timeline.completed_writes if w.action.value == "commit"
    ]
    assert compactions == [left, done.planned_compaction]
    assert all(each.log_files == () for each in written.table.slices())


@pytest.mark.parametrize("mode", settings.ConcurrencyMode)
def test_single_optimistic_and_non_blocking_writers_plan(
    mode: settings.ConcurrencyMode, written: Planned
) -> None:
    once = replace(AS_WRITER, delta_commits=1)
    for a in (1, 2):
        done = written.put_as(once, a, concurrency=mode)
        assert done.findings == ()
    assert written.table.timeline().pending_compactions


def test_writer_reports_that_too_many_compactions_are_pending(written: Planned) -> None:
    """T-C12: the write succeeds, no further plan is made, and a finding says why."""
    one = replace(AS_WRITER, delta_commits=1, file_groups_max=1, pending_max=1)
    assert written.put_as(one, 1).planned_compaction is not None
    held = written.put_as(one, 2)
    assert held.planned_compaction is None
    (finding,) = held.findings
    assert finding.startswith("no compaction is planned: too many pending compactions: 1 ")
    assert len(written.table.timeline().pending_compactions) == 1


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (errors.StorageError("the store is full"), "compaction is not planned: the store is full"),
        (ZeroDivisionError("x"), "compaction is not planned: ZeroDivisionError: x"),
    ],
)
def test_failure_to_plan_is_a_finding_of_a_write_that_took_effect(
    error: Exception, expected: str, written: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(planning, "decide", fail)
    done = written.put_as(replace(AS_WRITER, delta_commits=1), 1)
    assert done.findings == (expected,)
    assert {row["a"] for row in written.rows()} == {1}
    assert written.table.timeline().pending == ()


def test_inline_execution_that_fails_leaves_the_plan(
    written: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise errors.StorageError("no space left")

    inline = CompactionOptions(is_inline=True, delta_commits=1)
    with monkeypatch.context() as patched:
        patched.setattr(service.Compaction, "run", fail)
        done = written.put_as(inline, 1)
    assert done.findings == (f"compaction {done.planned_compaction} stays pending: no space left",)
    assert written.put_as(inline, 2).findings == ()
    assert written.table.timeline().pending == ()
    assert {row["a"] for row in written.rows()} == {2}
    assert written.problems() == []


def test_write_without_the_option_plans_nothing(written: Planned) -> None:
    for a in range(6):
        done = written.put_as(ANY, a)
        assert (done.planned_compaction, done.findings) == (None, ())
    assert written.table.timeline().pending == ()


def test_two_planners_at_once_take_no_file_group_twice(
    small: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second waits for the lock, and sees the plan of the first."""
    decide = planning.decide
    other: list[results.ScheduleResult] = []

    def decide_after_another(*arguments: object) -> planning.Decision:
        found = decide(*arguments)  # type: ignore[arg-type] # passed on as they are
        monkeypatch.undo()
        quick = replace(small.service.settings, lock_wait_ms=50)
        with pytest.raises(errors.LockTimeoutError):
            other.append(small.table.plan_compaction(replace(small.service, settings=quick), ONE))
        return found

    monkeypatch.setattr(planning, "decide", decide_after_another)
    first = small.plan(ONE)
    second = small.plan(ONE)
    assert other == []
    assert set(small.operations(first.instant)).isdisjoint(small.operations(second.instant))


def test_writers_that_plan_at_once_never_plan_a_file_group_twice(tmp_path: Path) -> None:
    """P2, P4: plans of one file group each, all of them executed afterwards."""
    written = Planned(tmp_path / "t", replace(CONFIG, bucket_count=8))
    inline = CompactionOptions(
        is_scheduled_inline=True, delta_commits=1, file_groups_max=1, pending_max=3
    )

    def write(number: int) -> tuple[str, ...]:
        rows = [{"id": f"{number}-{key}", "part": "p", "a": key} for key in range(8)]
        options = replace(
            written.options(f"w{number}", acknowledges_order_dependence=True), compaction=inline
        )
        done = [written.table.write(written.data(rows), options) for _ in range(4)]
        return tuple(f for each in done for f in getattr(each, "findings", ()))

    with futures.ThreadPoolExecutor(4) as threads:
        findings = [each for found in threads.map(write, range(4)) for each in found]
    assert all("too many pending compactions: 3 " in each for each in findings), findings
    pending = written.table.timeline().pending_compactions
    assert len(pending) == 3
    assert findings
    groups = [group for each in pending for group in written.operations(each.requested_time)]
    assert len(groups) == len(set(groups)) == len(pending)
    for each in pending:
        written.table.compact(each.requested_time, written.service)
    written.compact()
    assert len(written.rows()) == 32
    assert all(each.log_files == () for each in written.table.slices())
    assert written.problems() == []


def test_options_of_apache_hudis_writer_mean_the_same() -> None:
    found = compaction_options.from_properties(
        {
            "hoodie.compact.inline": "true",
            "hoodie.compact.inline.max.delta.commits": "3",
            "hoodie.compaction.target.io": "1024",
        }
    )
    assert found == CompactionOptions(is_inline=True, delta_commits=3, target_io_mib=1024)
