"""Tables are created, taken over, compacted and dropped by jobs that may be run again."""

import contextlib
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import environment, errors, table
from hoodie.contract import batch_settings, engine_specs, input_sources, job_specs
from hoodie.engine import local, protocol
from hoodie.engine.protocol import Item, Result
from hoodie.format import metadata_avro
from hoodie.model import commits, file_statistics, schemas, settings, table_config
from hoodie.services import dropping
from hoodie.transaction import authors, writer_batches
from hoodie.write import sessions
from hoodie_jobs import cancellation, opening, write
from hoodie_jobs.run import Run
from support.tables import earlier, mirrors
from support.tables.job_workshop import DROP, SCHEMA, Workshop, batches_of, config

COMPACT = job_specs.Compact(step=job_specs.CompactionStep.SCHEDULE_AND_EXECUTE)


def test_table_is_created_once(workshop: Workshop) -> None:
    workshop.write(workshop.file("1", "a,eu,1,x\n"))
    workshop.create()
    assert workshop.rows() == {"a": ("a", "eu", 1, "x")}
    assert workshop.table().config.bucket_count == 4


def test_existing_table_is_not_taken_over_unless_allowed(workshop: Workshop) -> None:
    with pytest.raises(errors.AlreadyExistsError, match="there is already a table"):
        workshop.run(workshop.spec(job_specs.CreateTable(may_adopt=False)))


def test_absent_table_is_not_created_unless_allowed(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    with pytest.raises(errors.NotFoundError):
        workshop.run(workshop.spec(job_specs.CreateTable(may_create=False)))
    assert not Path(workshop.uri).exists()


def _add_column(workshop: Workshop, **column: list[object]) -> None:
    """Have a write add a column to the table."""
    grown = workshop.parquet("grown", {"id": ["a"], "region": ["eu"], **column})
    work = batches_of(grown, source=input_sources.Source(format=input_sources.SourceFormat.PARQUET))
    spec = workshop.spec(work)
    workshop.run(replace(spec, settings=replace(spec.settings, adds_columns=True)))


@pytest.mark.parametrize("columns", [SCHEMA, SCHEMA.append(pa.field("tip", pa.float64()))])
@pytest.mark.parametrize("tells_how_it_began", [True, False])
def test_table_whose_columns_have_grown_is_declared_as_it_began_or_as_it_is(
    workshop: Workshop, columns: pa.Schema, *, tells_how_it_began: bool
) -> None:
    _add_column(workshop, tip=[0.5])
    if not tells_how_it_began:  # As Apache Hudi's writers leave it.
        properties = Path(workshop.uri, ".hoodie", "hoodie.properties")
        lines = properties.read_text().splitlines(keepends=True)
        kept = [line for line in lines if not line.startswith("hoodie.table.create.schema=")]
        assert len(kept) == len(lines) - 1
        properties.write_text("".join(kept))
    workshop.config = replace(
        workshop.config, create_schema=schemas.from_arrow(columns, "orders").avro
    )
    workshop.create()
    assert workshop.table().schema.arrow.names == [*SCHEMA.names, "tip"]


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (SCHEMA.remove(3), "its column 'note' is string, expected no such column"),
        (SCHEMA.append(pa.field("tip", pa.int32())), "its column 'tip' is double, expected int32"),
        (SCHEMA.append(pa.field("tax", pa.int32())), "its column 'tax' is missing, expected int32"),
    ],
)
def test_table_whose_columns_have_grown_is_told_from_one_that_differs(
    workshop: Workshop, columns: pa.Schema, told: str
) -> None:
    _add_column(workshop, tip=[0.5])
    workshop.config = replace(
        workshop.config, create_schema=schemas.from_arrow(columns, "orders").avro
    )
    with pytest.raises(errors.ConfigurationError, match=re.escape(told)):
        workshop.create()


def test_table_that_differs_is_named_with_every_difference(workshop: Workshop) -> None:
    other = SCHEMA.set(2, SCHEMA.field("amount").with_type(pa.int32())).remove(3)
    workshop.config = replace(
        config(), bucket_count=8, create_schema=schemas.from_arrow(other, "orders").avro
    )
    with pytest.raises(errors.ConfigurationError) as caught:
        workshop.create()
    for difference in (
        "its bucket count is 4, expected 8",
        "its column 'amount' is int64, expected int32",
        "its column 'note' is string, expected no such column",
    ):
        assert difference in str(caught.value)


def test_compaction_joins_logs_and_changes_no_row(
    workshop: Workshop, engine: engine_specs.EngineKind
) -> None:
    workshop.write(workshop.file("1", "a,eu,1,x\nb,us,2,y\n"), workshop.file("2", "a,eu,3,\n"))
    before = workshop.rows()

    result = workshop.run(workshop.spec(COMPACT, engine))

    assert workshop.rows() == before
    assert (result.commit_count, result.file_groups, result.records) == (1, 2, 2)
    assert [each.action for each in result.instants] == ["commit"]
    assert all(each.log_files == () and each.base_file for each in workshop.table().slices())


def test_planned_compaction_is_executed_by_another_run(
    workshop: Workshop, engine: engine_specs.EngineKind
) -> None:
    workshop.write(workshop.file("1", "a,eu,1,x\n"))
    planned = workshop.run(
        workshop.spec(job_specs.Compact(step=job_specs.CompactionStep.SCHEDULE), engine)
    )
    [plan] = planned.instants
    assert (plan.action, plan.completion_time, planned.commit_count) == ("compaction", None, 0)
    workshop.write(workshop.file("2", "a,eu,2,y\n"))

    step = job_specs.Compact(
        step=job_specs.CompactionStep.EXECUTE, instant_time=plan.requested_time
    )
    result = workshop.run(workshop.spec(step, engine))

    assert [each.requested_time for each in result.instants] == [plan.requested_time]
    assert workshop.rows() == {"a": ("a", "eu", 2, "y")}
    with pytest.raises(errors.ConflictError):
        workshop.run(workshop.spec(step, engine))


class LosingEngine(local.LocalEngine):
    """Loses an executor when its tasks have written, and cannot know whether they still write."""

    def __init__(self, *, has_tasks_left: bool) -> None:
        super().__init__(1)
        self.has_tasks_left = has_tasks_left

    def map(
        self,
        task: Callable[[Item], Result],
        items: Sequence[Item],
        *,
        progress: protocol.Progress | None = None,
    ) -> list[Result]:
        super().map(task, items, progress=progress)
        raise errors.StorageError("lost an executor")


@pytest.mark.parametrize("has_tasks_left", [False, True])
def test_files_of_a_failed_compaction_stay_while_its_tasks_may_write(
    workshop: Workshop, *, has_tasks_left: bool
) -> None:
    workshop.write(workshop.file("1", "a,eu,1,x\n"))
    env = environment.system(parallelism=1)
    losing = replace(env, engine=LosingEngine(has_tasks_left=has_tasks_left))
    transaction = opening.transaction_of(workshop.spec(COMPACT))
    opened = table.open_table(workshop.uri, losing)
    instant_time = opened.schedule_compaction(transaction)
    assert instant_time is not None

    with pytest.raises(errors.StorageError, match="lost an executor"):
        opened.compact(instant_time, transaction)

    assert any(name.endswith(".parquet") for name in workshop.data_files()) is has_tasks_left
    assert workshop.rows() == {"a": ("a", "eu", 1, "x")}


def test_nothing_to_compact_has_a_reason(workshop: Workshop) -> None:
    result = workshop.run(workshop.spec(COMPACT))
    assert result.reason.startswith("nothing to compact: ")
    assert workshop.table().timeline().instants == ()


def test_bounded_compaction_reports_what_it_left_out(workshop: Workshop) -> None:
    """Two plans are two runs, and the options reach both."""
    rows = "".join(f"{key},eu,1,x\n" for key in "abcdefgh")
    workshop.write(workshop.file("1", rows))
    groups = len(workshop.table().slices())
    assert groups > 1
    bounded = {"hoodie.operator.compaction.file.groups.max": str(groups - 1)}
    for left_out in (1, 0):
        result = workshop.run(workshop.spec(replace(COMPACT, options=bounded)))
        assert (result.error, result.left_out) == (None, left_out)
    assert all(each.log_files == () for each in workshop.table().slices())
    due = {"hoodie.compact.inline.trigger.strategy": "NUM_COMMITS"}
    late = workshop.run(workshop.spec(replace(COMPACT, options=due)))
    assert late.reason == "not due: 0 of 5 delta commits"


def test_write_job_plans_a_compaction_after_the_commit_that_makes_it_due(
    engine: engine_specs.EngineKind, workshop: Workshop
) -> None:
    inline = {
        "hoodie.compact.schedule.inline": "true",
        "hoodie.compact.inline.max.delta.commits": "2",
    }
    files = [workshop.file(name, "a,eu,1,x\n") for name in ("1", "2", "3")]
    result = workshop.run(
        workshop.spec(
            batches_of(*files, settings=batch_settings.BatchSettings(compaction=inline)), engine
        )
    )
    assert (result.error, result.commit_count) == (None, 3)
    timeline = workshop.table().timeline()
    second = timeline.completed_writes[1].completion_time
    pending = [each.requested_time for each in timeline.pending_compactions]
    assert second is not None
    assert [second < each for each in pending] == [True]
    workshop.run(workshop.spec(COMPACT, attempt=2))
    assert workshop.rows() == {"a": ("a", "eu", 1, "x")}


def test_write_job_takes_up_batch_settings_at_its_next_batch(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = workshop.folder / "batch.json"
    files = [workshop.file(name, "a,eu,1,x\n") for name in ("1", "2")]
    first = batch_settings.BatchSettings(hash="1-first")
    inline = {
        "hoodie.compact.schedule.inline": "true",
        "hoodie.compact.inline.max.delta.commits": "1",
    }
    later = batch_settings.BatchSettings(hash="1-later", compaction=inline)
    spec = workshop.spec(batches_of(*files, settings=first), batch_settings_path=str(path))

    def change(*arguments: object) -> None:
        path.write_bytes(batch_settings.encode(later))

    monkeypatch.setattr(write, "_pace", change)
    result = workshop.run(spec)
    assert (result.error, result.commit_count) == (None, 2)
    opened = workshop.table()
    writes = opened.timeline().completed_writes
    carried = [opened.metadata([each])[each].extra[commits.BATCH_SETTINGS_KEY] for each in writes]
    assert carried == ["1-first", "1-later"]
    assert len(opened.timeline().pending_compactions) == 1


@pytest.mark.parametrize("content", [b"", b"{", b'{"compaction": {"hoodie.no.such": "1"}}'])
def test_batch_settings_that_cannot_be_read_change_nothing(
    workshop: Workshop, content: bytes
) -> None:
    path = workshop.folder / "batch.json"
    path.write_bytes(content)
    first = batch_settings.BatchSettings(hash="1-first")
    work = batches_of(workshop.file("1", "a,eu,1,x\n"), settings=first)
    result = workshop.run(workshop.spec(work, batch_settings_path=str(path)))
    assert (result.error, result.commit_count) == (None, 1)
    opened = workshop.table()
    (write_,) = opened.timeline().completed_writes
    assert opened.metadata([write_])[write_].extra[commits.BATCH_SETTINGS_KEY] == "1-first"


def test_dropped_table_leaves_nothing(workshop: Workshop) -> None:
    workshop.write(workshop.file("1", "a,eu,1,x\n"))
    workshop.run(workshop.spec(DROP))
    assert not Path(workshop.uri).exists()
    workshop.run(workshop.spec(DROP, attempt=2))


def test_deletion_tells_how_far_it_is_and_stops_when_told_to(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop.write(workshop.file("1", "a,eu,1,x\n"))
    monkeypatch.setattr(dropping, "_FILES_AT_ONCE", 1)
    told: list[tuple[int, int]] = []
    tell = Run.tell

    def heard(run: Run, phase: str, done: int = 0, total: int = 0) -> None:
        tell(run, phase, done, total)
        if total:
            told.append((done, total))
            if done == 2:
                workshop.stop.request()

    monkeypatch.setattr(Run, "tell", heard)
    with pytest.raises(errors.CancelledError):
        workshop.run(workshop.spec(DROP))
    total = told[0][1]
    assert told == [(0, total), (1, total), (2, total)]
    assert workshop.data_files() == set()
    assert Path(workshop.uri).exists()
    monkeypatch.undo()
    workshop.stop = cancellation.Cancellation()
    workshop.run(workshop.spec(DROP, attempt=2))
    assert not Path(workshop.uri).exists()


def test_interrupted_deletion_goes_on(workshop: Workshop) -> None:
    workshop.write(workshop.file("1", "a,eu,1,x\n"))
    spec = workshop.spec(DROP)
    root = Path(workshop.uri)
    (root / dropping.MARK).parent.mkdir(parents=True, exist_ok=True)
    (root / dropping.MARK).touch()
    (root / ".hoodie" / "hoodie.properties").unlink()

    workshop.run(spec)

    assert not root.exists()


def test_folder_that_is_no_table_is_not_deleted(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    Path(workshop.uri).mkdir()
    (Path(workshop.uri) / "thesis.txt").touch()
    with pytest.raises(errors.InvalidInputError, match=r"not a table, and holds thesis.txt"):
        workshop.run(workshop.spec(DROP))


@pytest.mark.parametrize(
    ("work", "why"),
    [
        (job_specs.DropTable(), "names no HudiTable"),
        (replace(DROP, table_uid=""), "names no HudiTable"),
        (replace(DROP, deletion_policy="Retain"), "has deletionPolicy Retain"),
        (replace(DROP, deletion_policy=""), "has deletionPolicy none"),
        (replace(DROP, is_protected=True), "has deletionProtection"),
    ],
)
def test_deletion_that_no_table_asks_for_in_full_is_refused(
    workshop: Workshop, work: job_specs.DropTable, why: str
) -> None:
    workshop.write(workshop.file("1", "a,eu,1,x\n"))
    with pytest.raises(errors.InvalidInputError, match=why):
        workshop.run(workshop.spec(work))
    assert workshop.rows() == {"a": ("a", "eu", 1, "x")}


@pytest.mark.parametrize(
    "change",
    [{"name": "invoices"}, {"record_key_fields": ("amount",)}, {"partition_fields": ()}],
)
def test_another_table_than_the_declared_one_is_not_deleted(
    workshop: Workshop, change: dict[str, object]
) -> None:
    workshop.write(workshop.file("1", "a,eu,1,x\n"))
    workshop.config = replace(config(), **change)  # type: ignore[arg-type]  # fields of it
    with pytest.raises(errors.ConfigurationError, match="it differs from the declared table"):
        workshop.run(workshop.spec(DROP))
    assert workshop.rows() == {"a": ("a", "eu", 1, "x")}


def test_table_with_columns_that_were_added_is_deleted(workshop: Workshop) -> None:
    fewer = schemas.from_arrow(SCHEMA.remove(3), "orders").avro
    workshop.config = replace(config(), create_schema=fewer)
    workshop.run(workshop.spec(DROP))
    assert not Path(workshop.uri).exists()


@pytest.mark.parametrize("is_begun", [False, True])
def test_table_that_holds_another_one_is_not_deleted(workshop: Workshop, *, is_begun: bool) -> None:
    workshop.write(workshop.file("1", "a,eu,1,x\n"))
    root = Path(workshop.uri)
    other = root / "lake" / "other" / ".hoodie" / "hoodie.properties"
    other.parent.mkdir(parents=True)
    other.write_text("hoodie.table.name=other\n")
    if is_begun:
        (root / dropping.MARK).parent.mkdir(parents=True, exist_ok=True)
        (root / dropping.MARK).touch()
        (root / ".hoodie" / "hoodie.properties").unlink()
    files = sorted(root.rglob("*"))
    with pytest.raises(errors.InvalidInputError, match="another table is in it, at lake/other"):
        workshop.run(workshop.spec(DROP))
    assert sorted(root.rglob("*")) == files


def test_table_that_is_being_written_is_not_deleted(workshop: Workshop) -> None:
    transaction = opening.transaction_of(workshop.spec(batches_of()))
    options = sessions.WriteOptions(operation=commits.Operation.UPSERT, transaction=transaction)
    session = workshop.table().begin_write(options, ["id"])
    assert isinstance(session, sessions.WriteSession)

    with pytest.raises(errors.ConflictError, match="is pending"):
        workshop.run(workshop.spec(DROP))

    session.commit([])
    workshop.run(workshop.spec(DROP, attempt=2))
    assert not Path(workshop.uri).exists()


def fail(workshop: Workshop) -> str:
    """Return the instant of a write that gave up and was not taken back."""
    opened = workshop.table()
    never = settings.FailedWritesPolicy.NEVER
    spec = workshop.spec(job_specs.RollBack(), writer_id="failing")
    options = sessions.WriteOptions(
        operation=commits.Operation.UPSERT,
        transaction=opening.transaction_of(
            replace(spec, settings=replace(spec.settings, failed_writes_policy=never))
        ),
    )
    session = opened.begin_write(options, opened.schema.arrow.names)
    assert isinstance(session, sessions.WriteSession)
    session.abort(has_tasks_left=False)
    return session.requested_time


def test_failed_write_is_taken_back(workshop: Workshop) -> None:
    workshop.write(workshop.file("1", "a,eu,1,x\n"))
    first, second = fail(workshop), fail(workshop)
    result = workshop.run(workshop.spec(job_specs.RollBack(instant_time=first)))
    assert [each.action for each in result.instants] == ["rollback"]
    assert result.findings == (f"rolled back {first} deltacommit",)
    assert [each.requested_time for each in workshop.table().timeline().pending] == [second]
    assert workshop.run(workshop.spec(job_specs.RollBack(), attempt=2)).commit_count == 1
    assert not workshop.table().timeline().pending
    assert workshop.run(workshop.spec(job_specs.RollBack(), attempt=3)).instants == ()
    with pytest.raises(errors.NotFoundError):
        workshop.run(workshop.spec(job_specs.RollBack(instant_time=first), attempt=4))


def test_table_is_configured_for_its_writers(workshop: Workshop) -> None:
    """CH12: a table has a chain from its creation; an action switches it off, and on again."""
    begun = workshop.table().config
    assert begun.chain is not None
    for attempt, (has_chain, has_foreign_writers) in enumerate(
        ((True, False), (False, True), (False, True), (True, True)), start=1
    ):
        work = job_specs.ConfigureTable(
            has_chain=has_chain, has_foreign_writers=has_foreign_writers
        )
        workshop.run(workshop.spec(work, attempt=attempt))
        found = workshop.table().config
        assert (found.chain is not None, found.has_foreign_writers) == (
            has_chain,
            has_foreign_writers,
        )
        workshop.write(workshop.file(f"{attempt}", f"{attempt},eu,1,x\n"))
    assert found.chain != begun.chain


def test_table_is_configured_to_store_changes(workshop: Workshop) -> None:
    for attempt, mode in enumerate(("OP_KEY_ONLY", None, "DATA_BEFORE_AFTER", ""), start=1):
        work = job_specs.ConfigureTable(has_chain=True, has_foreign_writers=False, change_data=mode)
        workshop.run(workshop.spec(work, attempt=attempt))
        found = workshop.table().config.change_data
        expected = "OP_KEY_ONLY" if mode is None else mode
        assert (found.value if found else "") == expected
    wrong = replace(work, change_data="ALL")
    with pytest.raises(errors.InvalidInputError, match="'ALL', expected one of OP_KEY_ONLY"):
        workshop.run(workshop.spec(wrong, attempt=5))


def test_metadata_table_is_made_rebuilt_and_dropped(workshop: Workshop) -> None:
    workshop.write(workshop.file("1", "a,eu,1,x\n"))
    make = job_specs.InitialiseMetadata()
    assert not workshop.run(workshop.spec(make)).reason
    assert workshop.run(workshop.spec(make, attempt=2)).reason == "the table has a metadata table"
    workshop.write(workshop.file("2", "b,eu,1,x\n"), attempt=2)
    assert workshop.table().metadata_status().commits_since_compaction == 2
    workshop.run(workshop.spec(job_specs.InitialiseMetadata(is_rebuilt=True), attempt=3))
    assert workshop.table().metadata_status().commits_since_compaction == 1
    assert workshop.table().validate_metadata().is_right
    drop = job_specs.DropMetadata()
    assert not workshop.run(workshop.spec(drop, attempt=4)).reason
    assert workshop.run(workshop.spec(drop, attempt=5)).reason == "the table has no metadata table"
    assert not workshop.table().metadata_status().partitions


def test_a_mirror_is_made_and_brought_up_to_date(workshop: Workshop) -> None:
    workshop.write(workshop.file("1", "1,r1,1,x\n2,r2,1,x\n"))
    told = workshop.run(workshop.spec(job_specs.Mirror(kept=2)))
    assert "1 snapshot kept, 0 dropped" in told.reason
    workshop.write(workshop.file("2", "1,r1,2,x\n"), attempt=2)
    told = workshop.run(workshop.spec(job_specs.Mirror(kept=2), attempt=2))
    assert "rows in log files alone" in told.findings[0]
    workshop.run(workshop.spec(COMPACT, attempt=3))
    told = workshop.run(workshop.spec(job_specs.Mirror(kept=2), attempt=4))
    assert (told.files, told.findings) == (2, ())
    assert mirrors.rows(Path(workshop.uri)) == mirrors.optimized(workshop.table())


INDEXES = ("column_stats", "bloom_filters")


@pytest.fixture
def indexed(workshop: Workshop) -> Workshop:
    """Return a workshop whose table has rows, a metadata table of files, and no other engine."""
    return _indexed(workshop)


def _indexed(workshop: Workshop) -> Workshop:
    alone = job_specs.ConfigureTable(has_chain=True, has_foreign_writers=False)
    workshop.run(workshop.spec(alone))
    for number in range(3):
        file = workshop.file(f"{number}", f"{number},r{number},1,x\n")
        workshop.write(file, attempt=number + 1)
    workshop.table().initialise_metadata(
        opening.transaction_of(workshop.spec(COMPACT, attempt=2)), has_statistics=False
    )
    return workshop


def test_indexes_are_built_compared_and_dropped(
    indexed: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    phases: list[str] = []
    tell = Run.tell

    def heard(run: Run, phase: str, done: int = 0, total: int = 0) -> None:
        tell(run, phase, done, total)
        phases.append(phase)

    monkeypatch.setattr(Run, "tell", heard)
    build = job_specs.BuildIndexes(names=INDEXES, validation=job_specs.IndexValidation.SAMPLE)
    built = indexed.run(indexed.spec(build, attempt=3))
    (instant,) = built.instants
    assert instant.action == "indexing"
    assert instant.completion_time is not None
    assert built.lock_hold_ms > 0
    assert not built.reason
    assert "publishing" in phases
    assert "comparing r1" in phases
    assert set(INDEXES) < set(indexed.table().config.metadata_partitions)
    assert indexed.table().validate_metadata().is_right
    again = indexed.run(indexed.spec(build, attempt=4))
    assert (again.instants, again.reason) == ((), "column_stats, bloom_filters were ready")
    drop = job_specs.DropIndexes(names=("bloom_filters",))
    assert not indexed.run(indexed.spec(drop, attempt=5)).reason
    assert "bloom_filters" not in indexed.table().config.metadata_partitions
    told = indexed.run(indexed.spec(drop, attempt=6)).reason
    assert told == "the table does not have bloom_filters"


def test_secondary_index_is_built_of_its_column_and_compared(indexed: Workshop) -> None:
    name = "secondary_index_of_region"
    build = job_specs.BuildIndexes(
        names=("record_index", name),
        columns={name: "region"},
        validation=job_specs.IndexValidation.WHOLE,
    )
    (instant,) = indexed.run(indexed.spec(build, attempt=3)).instants
    assert instant.action == "indexing"
    indexed.write(indexed.file("9", "9,r9,1,x\n"), attempt=9)
    assert indexed.table().validate_metadata().is_right
    assert name in indexed.table().config.metadata_partitions


def test_build_that_was_stopped_is_finished_by_the_next_attempt(
    indexed: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = job_specs.BuildIndexes(names=INDEXES)
    tell = Run.tell

    def stop(run: Run, phase: str, done: int = 0, total: int = 0) -> None:
        tell(run, phase, done, total)
        if phase == "publishing":
            indexed.stop.request()

    monkeypatch.setattr(Run, "tell", stop)
    with pytest.raises(errors.CancelledError):
        indexed.run(indexed.spec(build, attempt=3))
    monkeypatch.setattr(Run, "tell", tell)
    (left,) = indexed.table().pending_indexes()
    assert left.plan.names == INDEXES
    indexed.stop = cancellation.Cancellation()
    indexed.write(indexed.file("9", "9,r9,1,x\n"), attempt=9)
    built = indexed.run(indexed.spec(build, attempt=4))
    assert [each.requested_time for each in built.instants] == [left.instant.requested_time]
    assert not indexed.table().pending_indexes()
    assert indexed.table().validate_metadata().is_right


def test_index_that_differs_from_the_table_fails_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole_rows = Workshop(tmp_path)
    whole_rows.config = replace(config(), has_partial_updates=False)
    whole_rows.create()
    indexed = _indexed(whole_rows)
    encode = metadata_avro.encode_statistics

    def lie(
        statistics: file_statistics.ColumnStatistics, written: metadata_avro.RecordType
    ) -> bytes:
        is_amount = statistics.column == "amount"
        return encode(replace(statistics, low=2, high=3) if is_amount else statistics, written)

    monkeypatch.setattr(metadata_avro, "encode_statistics", lie)
    build = job_specs.BuildIndexes(names=("column_stats",))
    indexed.run(indexed.spec(build, attempt=3))
    monkeypatch.undo()
    whole = replace(build, validation=job_specs.IndexValidation.WHOLE)
    with pytest.raises(errors.FormatError, match=r"differs .* in 3 places, .*column amount"):
        indexed.run(indexed.spec(whole, attempt=4))


def test_table_is_kept_small_and_keeps_what_a_savepoint_names(workshop: Workshop) -> None:
    for number in range(6):
        workshop.write(workshop.file(f"{number}", f"a,eu,{number},x\n"), attempt=number + 1)
        workshop.run(workshop.spec(COMPACT, attempt=number + 1))
    saved = workshop.run(workshop.spec(job_specs.CreateSavepoint(comment="x"), attempt=10))
    (savepoint,) = saved.instants
    assert savepoint.action == "savepoint"
    assert saved.files > 0
    again = workshop.run(workshop.spec(job_specs.CreateSavepoint(comment="x"), attempt=11))
    assert again.instants == saved.instants
    assert again.reason
    how = job_specs.Clean(policy=job_specs.CleanPolicy.VERSIONS, retained=1, grace_ms=0)
    before = sorted(Path(workshop.uri).rglob("*.parquet"))
    dry = workshop.run(workshop.spec(replace(how, is_dry_run=True), attempt=12))
    assert sorted(Path(workshop.uri).rglob("*.parquet")) == before
    assert dry.files > 0
    assert dry.bytes > 0
    assert dry.findings[0].endswith(" bytes")
    cleaned = workshop.run(workshop.spec(how, attempt=13))
    assert [each.action for each in cleaned.instants] == ["clean"]
    assert cleaned.files == dry.files
    assert len(sorted(Path(workshop.uri).rglob("*.parquet"))) < len(before)
    bounds = job_specs.Archive(commits_min=2, commits_max=3)
    planned = workshop.run(workshop.spec(replace(bounds, is_dry_run=True), attempt=14))
    archived = workshop.run(workshop.spec(bounds, attempt=15))
    assert archived.archived == planned.archived > 0
    gone = workshop.run(
        workshop.spec(
            job_specs.DeleteSavepoints(commits=(savepoint.requested_time, "20200101000000000")),
            attempt=16,
        )
    )
    assert [each.requested_time for each in gone.instants] == [savepoint.requested_time]
    assert gone.findings == ("commit 20200101000000000 has no savepoint",)
    assert workshop.table().savepoints() == []
    assert workshop.table().read().read_all().num_rows == 1


def test_history_is_trimmed_as_a_spec_says(workshop: Workshop) -> None:
    workshop.run(workshop.spec(job_specs.CreateTable()))
    rows = pa.Table.from_pylist([dict.fromkeys(SCHEMA.names) | {"id": "a", "region": "eu"}], SCHEMA)
    month_ago = table.open_table(workshop.uri, earlier.system(days=30))
    transaction = replace(opening.transaction_of(workshop.spec(COMPACT)), author=authors.Author())
    options = sessions.WriteOptions(operation=commits.Operation.UPSERT, transaction=transaction)
    for _ in range(8):
        month_ago.write(rows, options)
    bounds = job_specs.Archive(commits_min=2, commits_max=3)
    assert workshop.run(workshop.spec(bounds, attempt=2)).archived > 0
    workshop.table().write(rows, options)
    workshop.run(workshop.spec(COMPACT, attempt=3))
    # A table ages by what is written; what the newest commit has replaced may stay.
    workshop.table().write(rows, options)
    how = job_specs.Clean(policy=job_specs.CleanPolicy.VERSIONS, retained=1, grace_ms=0)
    workshop.run(workshop.spec(how, attempt=4))
    workshop.table().write(rows, options)
    trimming = replace(bounds, history_days=7)
    dry = workshop.run(workshop.spec(replace(trimming, is_dry_run=True), attempt=5))
    done = workshop.run(workshop.spec(trimming, attempt=6))
    assert done.trimmed == dry.trimmed > 0
    assert workshop.run(workshop.spec(trimming, attempt=7)).trimmed == 0
    assert workshop.table().read().read_all().num_rows == 1


def test_batch_of_an_archived_commit_is_not_written_again(workshop: Workshop) -> None:
    """More batches than a ledger remembers, whose commits have left the active timeline (WR1)."""
    count = writer_batches.KEPT + 8
    files = [workshop.file(f"{number:03}", f"a,eu,{number},x\n") for number in range(count)]
    workshop.write(*files)
    archived = workshop.run(
        workshop.spec(job_specs.Archive(commits_min=2, commits_max=3), attempt=2)
    )
    assert archived.archived > count - writer_batches.KEPT
    result = workshop.write(*files, attempt=3)
    assert (result.skipped_count, result.commit_count) == (count, 0)
    assert workshop.rows()["a"][2] == count - 1


def test_plan_of_one_attempt_is_executed_by_the_next(
    workshop: Workshop, engine: engine_specs.EngineKind
) -> None:
    """Each attempt claims the record, whichever step it does: an older one is refused from then."""
    workshop.write(workshop.file("1", "a,eu,1,x\n"))
    schedule = job_specs.Compact(step=job_specs.CompactionStep.SCHEDULE)
    [plan] = workshop.run(workshop.spec(schedule, attempt=1)).instants
    execute = job_specs.Compact(
        step=job_specs.CompactionStep.EXECUTE, instant_time=plan.requested_time
    )
    [done] = workshop.run(workshop.spec(execute, engine, attempt=2)).instants
    assert (done.requested_time, done.action) == (plan.requested_time, "commit")
    with pytest.raises(errors.FencedError, match="was replaced by attempt 2"):
        workshop.run(workshop.spec(schedule, attempt=1))


@pytest.mark.parametrize(
    "work",
    [
        job_specs.CreateTable(may_adopt=True),
        batches_of(),
        COMPACT,
        job_specs.Compact(step=job_specs.CompactionStep.SCHEDULE),
        job_specs.Compact(step=job_specs.CompactionStep.EXECUTE, instant_time="20260101000000000"),
        job_specs.RollBack(),
        job_specs.RollBack(instant_time="20260101000000000"),
        job_specs.Clean(policy=job_specs.CleanPolicy.COMMITS, retained=1, grace_ms=0),
        job_specs.Archive(commits_min=20, commits_max=30),
        job_specs.CreateSavepoint(),
        job_specs.DeleteSavepoints(older_than_ms=1),
        job_specs.BuildIndexes(names=("column_stats",)),
        job_specs.DropIndexes(names=("column_stats",)),
        DROP,
    ],
    ids=lambda work: type(work).__name__,
)
def test_every_job_claims_its_attempt_record_first(
    workshop: Workshop, work: job_specs.Work
) -> None:
    """Whatever a job does: an attempt that came later has fenced it off before it does anything."""

    def run(work: job_specs.Work, attempt: int) -> None:
        workshop.run(workshop.spec(work, writer_id="a", action_id=None, attempt=attempt))

    run(job_specs.RollBack(), 2)
    with pytest.raises(errors.FencedError, match="was replaced by attempt 2"):
        run(work, 1)
    with contextlib.suppress(errors.NotFoundError, errors.UnsupportedError):
        run(work, 3)
    if work is not DROP:
        with pytest.raises(errors.FencedError, match="was replaced by attempt 3"):
            run(job_specs.RollBack(), 2)


@pytest.mark.parametrize("table_type", list(table_config.TableType))
def test_partitions_are_deleted_once(tmp_path: Path, table_type: table_config.TableType) -> None:
    workshop = Workshop(tmp_path)
    workshop.config = replace(workshop.config, table_type=table_type)
    workshop.create()
    alone = settings.WriteSettings(clock_wait_ms=0)
    rows = workshop.file("1", "a,eu,1,x\nb,us,2,y\nc,asia,3,z\n")
    workshop.write(rows, settings=alone)
    work = job_specs.DeletePartitions(partitions=("us", "mars", "asia"))
    result = workshop.run(workshop.spec(work, settings=alone))
    assert [each.action for each in result.instants] == ["replacecommit"]
    assert result.findings == ("partition mars has no rows",)
    assert list(workshop.rows()) == ["a"]
    again = workshop.run(workshop.spec(work, settings=alone, attempt=2))
    assert again.commit_count == 0
    assert len(again.findings) == 3
    eu = job_specs.DeletePartitions(partitions=("eu",))
    with pytest.raises(errors.ConfigurationError, match=r"is refused|needs table"):
        workshop.run(workshop.spec(eu, attempt=3))


@pytest.mark.parametrize("table_type", list(table_config.TableType))
@pytest.mark.parametrize("index", [None, table_config.IndexKind.SIMPLE])
def test_rows_that_match_are_deleted_once(
    tmp_path: Path, table_type: table_config.TableType, index: table_config.IndexKind | None
) -> None:
    workshop = Workshop(tmp_path)
    count = None if index else workshop.config.bucket_count
    workshop.config = replace(
        workshop.config, table_type=table_type, index=index, bucket_count=count
    )
    workshop.create()
    optimistic = settings.WriteSettings(
        clock_wait_ms=0, concurrency=settings.ConcurrencyMode.OPTIMISTIC
    )
    rows = workshop.file("1", "a,eu,1,x\nb,us,2,y\nc,asia,3,\nd,eu,4,\n")
    workshop.write(rows, settings=optimistic)

    def spec(where: str, attempt: int, **changes: object) -> job_specs.JobSpec:
        found = {"settings": optimistic, "writer_id": None, "action_id": "forget"} | changes
        return workshop.spec(job_specs.DeleteRows(where=where), attempt=attempt, **found)

    where = "note is null and amount < 4 or region = 'us'"
    result = workshop.run(spec(where, 1))
    assert (result.commit_count, result.deletes) == (1, 2)
    assert sorted(workshop.rows()) == ["a", "d"]
    again = workshop.run(spec(where, 2))
    assert (again.commit_count, again.reason) == (0, "no rows match")
    for wrong, kind, message in (
        ("amount <", errors.InvalidInputError, "amount <"),
        ("nothing = 1", errors.NotFoundError, "there is no column 'nothing'"),
        ("amount = 'x'", errors.InvalidInputError, "amount"),
    ):
        with pytest.raises(kind, match=message):
            workshop.run(spec(wrong, 3))
    non_blocking = replace(optimistic, concurrency=settings.ConcurrencyMode.NON_BLOCKING)
    with pytest.raises(errors.ConfigurationError, match="would be lost"):
        workshop.run(spec("amount = 1", 4, settings=non_blocking))
    assert sorted(workshop.rows()) == ["a", "d"]
