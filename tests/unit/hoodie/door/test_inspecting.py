"""`Table.inspect`, `Table.maintain`, and what a notebook shows."""

import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodie
from hoodie import errors
from hoodie.model import instants

COLUMNS = {"id": pa.string(), "city": pa.string(), "n": pa.int64(), "f": pa.float64()}
CITIES = ["Oslo", "Rome"]
ROWS = [{"id": str(n), "city": CITIES[n % 2], "n": n, "f": n / 2} for n in range(20)]


@pytest.fixture
def trips(tmp_path: Path) -> hoodie.Table:
    made = hoodie.create_table(
        tmp_path / "t",
        COLUMNS,
        "id",
        partition_by="city",
        buckets=2,
        foreign_writers=False,
        writer_id="etl",
        settings={"hoodie.compact.inline.max.delta.commits": "1"},
    )
    made.upsert(ROWS, batch_id="b1")
    made.upsert(ROWS[:3], batch_id="b2")
    made.delete("n = 1")
    return made


def wait_for_clock(trips: hoodie.Table) -> None:
    """Wait until clocks have passed the times of the table, which may be ahead of them."""
    newest = max(each.completion_time or "" for each in trips.timeline().completed_writes)
    while time.time() * 1000 < instants.parse_time(newest) + 2:
        time.sleep(0.001)


def test_timeline_says_what_writes_did(trips: hoodie.Table) -> None:
    found = trips.inspect.timeline().to_pylist()
    assert [each["operation"] for each in found] == ["DELETE", "UPSERT", "UPSERT"]
    assert [each["batch"] for each in found] == [None, "b2", "b1"]
    assert [(each["rows"], each["deletes"]) for each in found] == [(0, 1), (3, 0), (20, 0)]
    assert {each["writer"] for each in found} == {"etl"}
    assert all(each["completed"] > each["requested"] for each in found)
    assert trips.inspect.timeline(limit=1).num_rows == 1
    trips.maintain.clean(keep_versions=1, grace_minutes=0)
    assert trips.inspect.timeline(limit=1).num_rows == 1


def test_files_of_the_newest_slices(trips: hoodie.Table) -> None:
    slices = trips.inspect.slices()
    listed = trips.inspect.files()
    partitions = trips.inspect.partitions().to_pylist()
    assert slices.num_rows == 4
    root = Path(trips.uri.removeprefix("file://"))
    for each in listed.to_pylist():
        assert (root / each["path"]).stat().st_size == each["size_bytes"]
    logs = pc.sum(slices["log_files"]).as_py()
    assert listed.filter(pc.field("kind") == "log").num_rows == logs > 0
    assert listed.filter(pc.field("kind") == "base").num_rows == 4
    # A base file that is alone is read by any reader of parquet.
    alone = listed.filter(pc.field("is_alone"))
    changed = slices.filter(pc.field("log_files") > 0)
    assert alone.num_rows == 4 - changed.num_rows
    assert [each["partition"] for each in partitions] == CITIES
    assert sum(each["base_bytes"] for each in partitions) == pc.sum(slices["base_bytes"]).as_py()
    assert sum(each["log_files"] for each in partitions) == logs


def test_writers_are_those_of_the_timeline(trips: hoodie.Table) -> None:
    hoodie.open_table(trips.uri).upsert(ROWS[5:6])
    found = {each["writer"]: each for each in trips.inspect.writers().to_pylist()}
    assert (found["etl"]["commits"], found["etl"]["last_batch"]) == (3, None)
    assert (found[None]["commits"], found[None]["pending"]) == (1, 0)


def test_statistics_are_the_ranges_of_merged_slices(trips: hoodie.Table) -> None:
    with pytest.raises(errors.NotFoundError, match="has no column statistics: make a metadata"):
        trips.inspect.statistics()
    trips.maintain.make_metadata_table()
    trips.refresh().upsert([{**ROWS[0], "n": 500}])
    found = trips.inspect.statistics(["n"])
    assert found.num_rows == 4
    highs = {int(each) for each in found["high"].to_pylist()}
    assert 500 in highs
    for each in found.to_pylist():
        of_slice = trips.scan(["n"], f"city = '{each['partition']}'").to_arrow()["n"].to_pylist()
        assert int(each["low"]) <= min(of_slice) + 20
        assert each["is_known"]
        assert not each["has_nulls"]
    assert set(trips.inspect.statistics()["column"].to_pylist()) == set(COLUMNS)
    with pytest.raises(errors.NotFoundError, match="there is no column 'no'"):
        trips.inspect.statistics(["no"])


def test_dry_runs_change_nothing(trips: hoodie.Table) -> None:
    before = trips.inspect.timeline()
    services = trips.maintain
    found = [
        services.compact(dry_run=True),
        services.clean(keep_versions=1, grace_minutes=0, dry_run=True),
        services.archive(keep_min=1, keep_max=2, dry_run=True),
        services.roll_back(dry_run=True),
        services.savepoint("why", dry_run=True),
        services.make_metadata_table(dry_run=True),
        services.drop_index("record_index", dry_run=True),
    ]
    assert all(each.is_dry_run and each.summary and not each.instants for each in found)
    assert repr(found[0]).startswith("compact, dry run: ")
    assert trips.inspect.timeline() == before
    newest = trips.timeline().completed_writes[-1].requested_time
    assert newest in found[4].summary


def test_services_do_what_their_dry_runs_say(trips: hoodie.Table) -> None:
    rows = trips.scan().count()
    planned = trips.maintain.compact(dry_run=True)
    done = trips.maintain.compact()
    assert planned.detail.plan is not None
    assert f"merged {len(planned.detail.plan.operations)} file groups" in done.summary
    assert trips.maintain.compact().instants == ()
    # A clean takes the time from the newest commit, as its file's time and its name agree on it.
    wait_for_clock(trips)
    trips.refresh().upsert(ROWS[5:6])
    would = trips.maintain.clean(keep_versions=1, grace_minutes=0, dry_run=True)
    cleaned = trips.maintain.clean(keep_versions=1, grace_minutes=0)
    count = sum(len(each.names) for each in would.detail.removals)
    assert count == sum(len(each.deleted) for each in cleaned.detail.done) > 0
    assert f"would delete {count} files" in would.summary
    archived = trips.maintain.archive(keep_min=1, keep_max=2, dry_run=True)
    assert len(trips.maintain.archive(keep_min=1, keep_max=2).detail.archived) == len(
        archived.detail.chosen
    )
    assert "rolled back 0 writes" in repr(trips.maintain.roll_back())
    assert trips.scan().count() == rows == 19


def test_savepoints_are_made_and_deleted(trips: hoodie.Table) -> None:
    done = trips.maintain.savepoint("before the migration")
    (instant,) = done.instants
    assert trips.maintain.delete_savepoint(instant, dry_run=True).summary.endswith(instant)
    assert trips.maintain.delete_savepoint(instant).instants == (instant,)
    for is_dry in (True, False):
        with pytest.raises(errors.NotFoundError, match=f"{instant} of .* has no savepoint"):
            trips.maintain.delete_savepoint(instant, dry_run=is_dry)
    with pytest.raises(errors.NotFoundError, match="there is no commit 20200101000000000"):
        trips.maintain.savepoint(instant="20200101000000000", dry_run=True)


def test_indexes_are_built_and_dropped(trips: hoodie.Table) -> None:
    with pytest.raises(errors.NotFoundError, match="no metadata table"):
        trips.maintain.build_index("record_index", dry_run=True)
    trips.maintain.make_metadata_table()
    with pytest.raises(errors.AlreadyExistsError, match="has a metadata table"):
        trips.maintain.make_metadata_table(dry_run=True)
    assert trips.maintain.build_index("record_index", dry_run=True).summary.endswith("record_index")
    assert trips.maintain.build_index("record_index").summary == "built record_index"
    assert "record_index" in trips.config.metadata_partitions
    assert "look-ups in a record index: 1 of" in repr(trips.scan(where="id = '7'").explain())
    assert trips.maintain.drop_index("record_index").summary == "dropped record_index"
    assert "record_index" not in trips.config.metadata_partitions
    other = hoodie.open_table(trips.uri)
    assert trips.maintain.build_index("record_index").instants
    assert other.maintain.build_index("record_index").summary.endswith("all were ready")
    with pytest.raises(errors.InvalidInputError):
        trips.maintain.build_index("nope", dry_run=True)
    with pytest.raises(errors.InvalidInputError, match="record_index of the whole table"):
        trips.maintain.build_index("record_index", partitioned=True)
    trips.maintain.drop_index("record_index")
    assert trips.maintain.build_index("record_index", partitioned=True).instants
    assert trips.has_partitioned_record_index()


def test_clean_takes_one_measure(trips: hoodie.Table) -> None:
    with pytest.raises(errors.InvalidInputError, match="at most one of keep_commits, keep_hours"):
        trips.maintain.clean(keep_commits=1, keep_hours=2)


def test_columns_that_another_writer_added_are_seen_after_a_refresh(trips: hoodie.Table) -> None:
    other = hoodie.open_table(
        trips.uri, settings={"hoodie.datasource.write.reconcile.schema": "true"}
    )
    other.upsert(pa.table({"id": ["new"], "city": ["Oslo"], "n": [1], "f": [1.0], "tip": [2.5]}))
    assert trips.refresh() is trips
    assert trips.scan(["tip"], "id = 'new'").to_arrow().to_pylist() == [{"tip": 2.5}]


def test_parts_of_a_table_show_what_they_have(trips: hoodie.Table) -> None:
    assert repr(trips.inspect).startswith(f"<Inspection of {trips.uri}: timeline, ")
    assert repr(trips.maintain).startswith(f"<Maintenance of {trips.uri}: compact, ")


def test_notebook_shows_columns_and_commits(trips: hoodie.Table) -> None:
    shown = trips._repr_html_()
    assert "<td>city</td><td>string</td><td>partition</td>" in shown
    assert "<td>id</td><td>string</td><td>record key</td>" in shown
    assert "<td>DELETE</td>" in shown
    assert "<script" not in shown


def test_notebook_shows_the_columns_of_a_table_that_is_gone(
    trips: hoodie.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise errors.StorageError("<gone>")

    monkeypatch.setattr(trips, "timeline", fail)
    assert trips._repr_html_().endswith("<p>&lt;gone&gt;</p>")
