"""A table from creation to compaction, through its door."""

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hoodie import environment, errors, table
from hoodie.model import commits, predicates, results, schemas, settings, table_config
from hoodie.model.instants import Action, Instant
from hoodie.read import where
from hoodie.storage import local
from hoodie.timeline import transitions
from hoodie.write import batches, tasks, write_task
from support.tables.tables import COLUMNS, CONFIG, SmallTable

EVENT_TIME = replace(
    CONFIG,
    has_partial_updates=False,
    ordering_fields=("ts",),
    merge_mode=table_config.MergeMode.EVENT_TIME,
)


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    return SmallTable(tmp_path / "small")


def test_columns_of_two_writers_join_before_and_after_compaction(small: SmallTable) -> None:
    """T-N14."""
    small.upsert([{"id": "1", "part": "p", "a": 1}, {"id": "2", "part": "q", "a": 2}])
    small.upsert([{"id": "1", "part": "p", "b": "x"}], writer_id="v")
    expected = [
        {"id": "1", "part": "p", "a": 1, "b": "x"},
        {"id": "2", "part": "q", "a": 2, "b": None},
    ]
    assert small.rows() == expected
    assert small.compact() is not None
    assert small.rows() == expected
    assert small.rows(is_read_optimized=True) == expected
    assert small.problems() == []


def test_nothing_to_compact_is_no_plan(small: SmallTable) -> None:
    assert small.compact() is None
    small.upsert([{"id": "1", "part": "p", "a": 1}])
    assert small.compact() is not None
    assert small.compact() is None
    assert len(small.table.timeline().instants) == 2


def test_deleted_rows_are_gone_and_may_come_back(small: SmallTable) -> None:
    small.upsert([{"id": "1", "part": "p", "a": 1, "b": "x"}])
    small.delete([{"id": "1", "part": "p"}])
    assert small.rows() == []
    small.upsert([{"id": "1", "part": "p", "a": 7}])
    assert small.rows() == [{"id": "1", "part": "p", "a": 7, "b": None}]
    small.compact()
    assert small.rows() == [{"id": "1", "part": "p", "a": 7, "b": None}]


def test_batch_is_written_once(small: SmallTable) -> None:
    rows = [{"id": "1", "part": "p", "a": 1}]
    assert isinstance(small.upsert(rows, batch_id="b1"), results.CommitResult)
    assert isinstance(small.upsert(rows, batch_id="b1"), results.AlreadyCommitted)
    assert len(small.table.timeline().completed_writes) == 1
    assert small.table.committed_batches("w") == {"b1"}


def test_event_time_keeps_the_greater_ordering_value(tmp_path: Path) -> None:
    """T-N13."""
    small = SmallTable(tmp_path / "t", EVENT_TIME, ts="int64")
    row = {"id": "1", "part": "p", "a": 1, "b": "x", "ts": 5}
    small.upsert([row])
    small.upsert([row | {"a": 2, "ts": 4}])
    assert small.rows() == [row]
    small.delete([{"id": "1", "part": "p", "ts": 4}])
    assert small.rows() == [row]
    small.delete([{"id": "1", "part": "p"}])
    assert small.rows() == []


def test_single_writer_makes_base_files_for_new_buckets_only(small: SmallTable) -> None:
    alone = {"concurrency": settings.ConcurrencyMode.SINGLE_WRITER}
    row = {"id": "1", "part": "p", "a": 1, "b": "x"}
    small.upsert([row], **alone)
    (first,) = small.table.slices()
    assert first.base_file is not None
    assert not first.log_files
    small.upsert([row | {"a": 2}], **alone)
    (second,) = small.table.slices()
    assert second.base_file == first.base_file
    assert len(second.log_files) == 1
    assert small.rows() == [row | {"a": 2}]
    assert small.problems() == []


def test_repeated_key_in_a_batch_is_merged_in_order(small: SmallTable) -> None:
    rows = [{"id": "1", "part": "p", "a": 1, "b": "x"}, {"id": "1", "part": "p", "a": 2, "b": None}]
    small.upsert(rows, concurrency=settings.ConcurrencyMode.SINGLE_WRITER)
    assert small.rows() == [{"id": "1", "part": "p", "a": 2, "b": "x"}]


def test_filters_and_columns_are_applied_after_merging(small: SmallTable) -> None:
    small.upsert([{"id": str(n), "part": "p" if n % 2 else "q", "a": n} for n in range(10)])
    small.compact()
    small.upsert([{"id": "3", "part": "p", "a": 30}])
    assert small.rows(columns=["id", "a"], where=where.parse("a > 8 and part = 'p'")) == [
        {"id": "3", "a": 30},
        {"id": "9", "a": 9},
    ]
    assert small.rows(columns=["a"], where=where.parse("id = '3'")) == [{"a": 30}]
    assert small.rows(where=where.parse("a = 3")) == []


def test_log_blocks_may_be_avro(small: SmallTable) -> None:
    avro = {"log_block_format": settings.LogBlockFormat.AVRO}
    small.upsert([{"id": "1", "part": "p", "a": 1, "b": "ä"}], **avro)
    small.upsert([{"id": "1", "part": "p", "a": 2}], **avro)
    assert small.rows() == [{"id": "1", "part": "p", "a": 2, "b": "ä"}]


def test_log_file_that_is_full_rolls_over(small: SmallTable) -> None:
    """T-N04."""
    rows = [{"id": str(n), "part": "p", "a": n} for n in range(100)]
    small.upsert(rows, log_file_bytes_max=1, log_block_bytes_max=1000)
    versions = {log.version for each in small.table.slices() for log in each.log_files}
    assert len(versions) > 1
    assert len(small.rows()) == 100
    assert small.problems() == []


def test_unfitting_data_writes_nothing(small: SmallTable) -> None:
    for rows, message in [
        ([{"id": None, "part": "p", "a": 1}], "id"),
        ([{"id": "1", "a": 1}], "part"),
    ]:
        with pytest.raises(errors.InvalidInputError, match=message):
            small.upsert(rows)
    data = pa.table({"id": ["1"], "part": ["p"], "c": [1]})
    with pytest.raises(errors.InvalidInputError, match="'c' is not in the table"):
        small.table.write(data, small.options())
    assert small.table.timeline().instants == ()


def test_table_whose_metadata_table_is_gone_is_not_written(small: SmallTable) -> None:
    path = small.path / ".hoodie" / "hoodie.properties"
    path.write_text(path.read_text() + "hoodie.table.metadata.partitions=files\n")
    with pytest.raises(errors.ConflictError, match="presence of a metadata table"):
        small.upsert([{"id": "1", "part": "p", "a": 1}])
    small.table = table.open_table(str(small.path), small.env)
    with pytest.raises(errors.FormatError, match="hoodie metadata init --rebuild"):
        small.upsert([{"id": "1", "part": "p", "a": 1}])
    assert not small.table.timeline().completed_writes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"record_key_fields": ("nope",)}, "record key field 'nope' is not a column"),
        ({"partition_fields": ("nope",)}, "partition field 'nope'"),
        ({"ordering_fields": ("a",)}, "goes with merging by event time"),
        ({"merge_mode": table_config.MergeMode.EVENT_TIME}, "needs an ordering field"),
    ],
)
def test_definition_that_contradicts_itself_is_refused(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    schema = schemas.from_arrow(COLUMNS, "t")
    with pytest.raises(errors.InvalidInputError, match=message):
        table.create_table(
            str(tmp_path / "t"), replace(CONFIG, **changes), schema, environment.system()
        )
    assert not (tmp_path / "t" / ".hoodie").exists()


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        ({"type": "long", "logicalType": "timestamp-nanos"}, 'timestamp-nanos of "long"'),
        ({"type": "int", "logicalType": "timestamp-micros"}, 'timestamp-micros of "int"'),
        ({"type": {"type": "long"}, "logicalType": "timestamp-micros"}, "timestamp-micros of {"),
        ({"type": "array", "items": {"type": "long", "logicalType": "nanos"}}, 'nanos of "long"'),
        ({"type": "long", "logicalType": ["date"]}, "date"),
    ],
)
def test_table_is_not_created_with_a_logical_type_that_readers_ignore(
    tmp_path: Path, kind: object, named: str
) -> None:
    fields = [{"name": "id", "type": "string"}, {"name": "at", "type": ["null", kind]}]
    schema = schemas.from_avro(json.dumps({"type": "record", "name": "r", "fields": fields}))
    config = table_config.TableConfig(name="t", record_key_fields=("id",), bucket_count=1)
    with pytest.raises(errors.UnsupportedError, match="at: ") as caught:
        table.create_table(str(tmp_path / "t"), config, schema, environment.system())
    assert named in str(caught.value)
    assert not (tmp_path / "t" / ".hoodie").exists()


def test_table_is_created_with_every_logical_type_that_is_kept(tmp_path: Path) -> None:
    kinds = [
        {"type": "int", "logicalType": "date"},
        {"type": "long", "logicalType": "timestamp-millis"},
        {"type": "long", "logicalType": "local-timestamp-micros"},
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        {"type": "string", "logicalType": "uuid"},
    ]
    fields = [{"name": f"c{n}", "type": ["null", kind]} for n, kind in enumerate(kinds)]
    fields.append({"name": "id", "type": "string"})
    schema = schemas.from_avro(json.dumps({"type": "record", "name": "r", "fields": fields}))
    config = table_config.TableConfig(name="t", record_key_fields=("id",), bucket_count=1)
    created = table.create_table(str(tmp_path / "t"), config, schema, environment.system())
    assert created.schema.arrow == schema.arrow


def test_table_is_created_once(small: SmallTable) -> None:
    with pytest.raises(errors.AlreadyExistsError):
        SmallTable(small.path)


@pytest.mark.parametrize("version", [8, 9])
def test_both_versions_are_opened_as_they_were_created(tmp_path: Path, version: int) -> None:
    SmallTable(tmp_path / "t", replace(CONFIG, version=version))
    opened = table.open_table(str(tmp_path / "t"), environment.system())
    assert opened.config.version == version
    assert opened.config.has_partial_updates
    assert opened.config.bucket_count == 2
    assert opened.schema.arrow == COLUMNS


def test_two_active_writers_of_one_column_are_refused(small: SmallTable) -> None:
    session = small.table.begin_write(small.options("one"), ["id", "part", "a"])
    assert not isinstance(session, results.AlreadyCommitted)
    with pytest.raises(errors.ConfigurationError, match="both write columns a"):
        small.upsert([{"id": "1", "part": "p", "a": 1}], writer_id="two")
    small.upsert([{"id": "1", "part": "p", "b": "x"}], writer_id="three")
    with pytest.raises(errors.ConflictError):
        small.upsert([{"id": "1", "part": "p", "a": 1}], writer_id="one")
    session.abort(has_tasks_left=False)
    small.upsert([{"id": "1", "part": "p", "a": 1}], writer_id="two")
    assert small.rows() == [{"id": "1", "part": "p", "a": 1, "b": "x"}]
    # The aborted instant went by a rollback, whose own times are greater: its time is never free.
    timeline = small.table.timeline()
    assert timeline.find(session.requested_time) is None
    assert [each.action for each in timeline.instants].count(Action.ROLLBACK) == 1
    assert not timeline.pending
    assert small.problems() == []


def test_late_commit_falls_behind_the_compaction_planned_meanwhile(small: SmallTable) -> None:
    """T-N06, T-N10."""
    # RFC-66: the plan takes only what completed before it; what completes later is merged on top.
    small.upsert([{"id": "1", "part": "p", "a": 1}])
    session = small.table.begin_write(small.options("late"), ["id", "part", "b"])
    assert not isinstance(session, results.AlreadyCommitted)
    stats = _stats(small, session.task, [{"id": "1", "part": "p", "b": "late"}])
    assert small.compact() is not None
    assert small.rows() == [{"id": "1", "part": "p", "a": 1, "b": None}]
    session.commit(stats)
    assert small.rows() == [{"id": "1", "part": "p", "a": 1, "b": "late"}]
    (found,) = small.table.slices()
    assert found.base_file is not None
    assert len(found.log_files) == 1
    assert small.problems() == []


def _stats(
    small: SmallTable, task: write_task.WriteTask, rows: list[dict[str, object]]
) -> list[commits.Written]:
    batch = batches.prepare(small.data(rows), task.config, task.schema, task.operation)
    storage = small.env.open_storage(small.table.uri)
    return tasks.run(task, batch, write_task.WriteToken(), storage, small.env.engine)


@pytest.mark.parametrize(
    "filter_",
    [
        "id = '1'",
        pc.field("id") == "1",
        [("id", "=", "1")],
        predicates.Not("id = '1'"),  # type: ignore[arg-type] # what a user may pass
        predicates.And((predicates.IsNull("id"), None)),  # type: ignore[arg-type] # as above
    ],
)
def test_filter_that_is_no_predicate_is_refused_with_a_way_to_make_one(
    small: SmallTable, filter_: object
) -> None:
    small.upsert([{"id": "1", "part": "p"}])
    with pytest.raises(errors.InvalidInputError, match=r"hoodie\.read\.where\.parse"):
        small.table.read(where=filter_)  # type: ignore[arg-type] # as above


def test_one_text_is_no_list_of_columns(small: SmallTable) -> None:
    with pytest.raises(errors.InvalidInputError, match=r"such as \['id'\]"):
        small.table.read("id")


def test_data_frame_is_written_and_what_is_none_is_refused(small: SmallTable) -> None:
    frame = pd.DataFrame({"id": ["1", "2"], "part": ["p", "q"], "a": [1, 2]})
    small.table.write(frame, small.options())
    assert [row["a"] for row in small.rows()] == [1, 2]
    batch = pa.record_batch({"id": ["3"], "part": ["p"], "a": [3]})
    small.table.write(batch, small.options())
    assert [row["a"] for row in small.rows()] == [1, 2, 3]
    with pytest.raises(errors.InvalidInputError, match=r"is a list, expected a pyarrow\.Table"):
        small.table.write([{"id": "4"}], small.options())  # type: ignore[arg-type] # as above


class Archived(local.LocalStorage):
    """The table's storage, on which an instant is archived right before it is read."""

    def __init__(self, root: str, instant: Instant) -> None:
        super().__init__(root)
        self._archived = transitions.path(instant)

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        if path == self._archived:
            self.delete(path)
        return super().read(path, offset=offset, length=length)


def opened_while_archived(small: SmallTable, index: int) -> tuple[table.Table, Instant]:
    """Return the table as opened where one of two commits is archived when it is read."""
    for number in range(2):
        small.upsert([{"id": "1", "part": "p", "a": number}], batch_id=f"b{number}")
    instant = small.table.timeline().completed_writes[index]
    env = replace(small.env, open_storage=lambda uri: Archived(uri, instant))
    return table.open_table(str(small.path), env), instant


def test_table_is_opened_while_its_newest_write_is_taken_off(small: SmallTable) -> None:
    opened, _ = opened_while_archived(small, 1)
    assert opened.schema == small.table.schema


def test_batches_are_told_while_an_instant_is_archived(small: SmallTable) -> None:
    opened, _ = opened_while_archived(small, 0)
    assert opened.committed_batches("w") == {"b0", "b1"}


def test_metadata_of_an_instant_that_was_archived_since_is_left_out(small: SmallTable) -> None:
    opened, archived = opened_while_archived(small, 0)
    instants = opened.timeline().completed_writes
    assert set(opened.metadata(instants)) == set(instants) - {archived}


def test_check_finds_nothing_wrong_in_an_instant_that_is_archived_meanwhile(
    small: SmallTable,
) -> None:
    opened, archived = opened_while_archived(small, 0)
    found = [each.subject for each in opened.check(small.options().transaction.settings)]
    assert str(archived) not in found
