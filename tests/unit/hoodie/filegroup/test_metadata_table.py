"""Tables whose files are taken from a metadata table that was made by hand."""

import logging
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from hoodie import environment, table
from hoodie.filegroup import metadata_listing, metadata_table
from hoodie.format.metadata_avro import ALL_PARTITIONS
from hoodie.model import instants
from hoodie.storage import counted
from hoodie.timeline import active
from support.tables.metadata_tables import GROUP, MadeMetadata, Sizes
from support.tables.tables import CONFIG, SmallTable

ROWS = [{"id": str(n), "part": f"p{n % 3}", "a": n, "b": "x"} for n in range(12)]
NONE: Sizes = {}


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    made = SmallTable(tmp_path / "t")
    made.upsert(ROWS)
    made.upsert(ROWS[:6])
    return made


@pytest.fixture
def made(small: SmallTable) -> MadeMetadata:
    return MadeMetadata(small.path)


def rows_of(opened: table.Table) -> list[dict[str, object]]:
    found = opened.read().read_all().to_pylist()
    return sorted(found, key=lambda row: int(row["id"]))


def is_used(made: MadeMetadata) -> bool:
    return made.opened().explain_read().has_metadata_table


def sizes_of(made: MadeMetadata, partition_path: str) -> dict[str, Sizes]:
    """Return the record of a partition, as the metadata table has it."""
    storage = environment.system(parallelism=1).open_storage(str(made.path))
    found = metadata_table.MetadataTable(storage, active.load(storage))
    files = metadata_listing.Files(found.partition(metadata_table.FILES))
    data_files = files.files(partition_path)
    return {partition_path: {each.name: each.size_bytes for each in data_files}}


def everything(made: MadeMetadata) -> dict[str, Sizes]:
    found: dict[str, Sizes] = {ALL_PARTITIONS: dict.fromkeys(("p0", "p1", "p2"), 0)}
    for partition in ("p0", "p1", "p2"):
        found |= sizes_of(made, partition)
    return found


def later(made: MadeMetadata, step_ms: int) -> str:
    """Return a time after all on the timelines."""
    timeline = active.load(environment.system(parallelism=1).open_storage(str(made.path)))
    assert timeline.greatest_time is not None
    return instants.format_time(instants.parse_time(timeline.greatest_time) + step_ms)


def test_rows_are_read_by_the_files_in_it(made: MadeMetadata) -> None:
    assert is_used(made)
    assert rows_of(made.opened()) == ROWS
    found = made.opened().validate_metadata()
    assert (found.is_right, found.files_read) == (True, 0)
    assert found.files > 3


def test_table_without_partitions(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "flat", replace(CONFIG, partition_fields=()))
    small.upsert(ROWS)
    made = MadeMetadata(small.path)
    assert is_used(made)
    assert rows_of(made.opened()) == ROWS


def test_partitions_are_not_listed(made: MadeMetadata) -> None:
    counts: Counter[str] = Counter()
    env = environment.system(parallelism=1)
    storage = counted.counted(env.open_storage(str(made.path)), counts)
    opened = table.open_table(str(made.path), replace(env, open_storage=lambda uri: storage))
    counts.clear()
    opened.plan_read()
    # The timeline twice and once more for cleans, and that of the metadata table; a partition of
    # that, and its log files at once; without a base file there, the commit that made it.
    assert counts == {"names": 4, "list": 1, "read_buffers": 1, "read": 1}


@pytest.mark.parametrize("held_bytes_max", [0, metadata_table.HELD_BYTES_MAX])
def test_log_files_follow_the_base_file(
    made: MadeMetadata,
    small: SmallTable,
    held_bytes_max: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metadata_table, "HELD_BYTES_MAX", held_bytes_max)
    made.compact(later(made, 1), later(made, 2), everything(made))
    for each in (made.folder / metadata_table.FILES).glob(".*.log.*"):
        each.unlink()
    assert is_used(made)
    assert rows_of(made.opened()) == ROWS
    with made.hidden():
        small.upsert([{"id": "20", "part": "p4", "a": 1, "b": "y"}])
    made.catch_up()
    assert is_used(made)
    assert len(rows_of(made.opened())) == len(ROWS) + 1


def test_what_a_pending_write_logged_does_not_count(made: MadeMetadata, small: SmallTable) -> None:
    with made.hidden():
        session = small.table.begin_write(small.options("other"), small.table.schema.arrow.names)
    gone = dict.fromkeys(sizes_of(made, "p0")["p0"])
    made.log(session.task.instant_time, later(made, 1), {"p0": gone, ALL_PARTITIONS: {"p0": None}})
    assert is_used(made)
    assert rows_of(made.opened()) == ROWS


def test_what_did_not_complete_there_does_not_count(made: MadeMetadata) -> None:
    gone = dict.fromkeys(sizes_of(made, "p0")["p0"])
    made.log(later(made, 1), None, {"p0": gone})
    assert is_used(made)
    assert rows_of(made.opened()) == ROWS


def test_deleted_key_is_gone_until_it_is_written_again(made: MadeMetadata) -> None:
    before = sizes_of(made, "p0")
    made.compact(later(made, 1), later(made, 2), everything(made))
    made.log(later(made, 3), later(made, 4), {"p1": NONE}, deleted=["p0"])
    assert sizes_of(made, "p0") == {"p0": {}}
    made.log(later(made, 5), later(made, 6), before)
    assert sizes_of(made, "p0") == before


def test_names_that_lead_elsewhere_are_left_out(made: MadeMetadata) -> None:
    name = "00000000-0_0-0-0_20260101000000000.parquet"
    strange: Sizes = {f"../{name}": 1, f"/{name}": 1, f"p1/{name}": 1, "": 1, "..": 1}
    before = sizes_of(made, "p0")
    made.log(later(made, 1), later(made, 2), {"p0": strange})
    assert sizes_of(made, "p0") == before
    assert rows_of(made.opened()) == ROWS


def test_table_that_was_written_without_it_is_listed(
    made: MadeMetadata, small: SmallTable, caplog: pytest.LogCaptureFixture
) -> None:
    with made.hidden():
        small.upsert([{"id": "20", "part": "p4", "a": 1, "b": "y"}])
    with caplog.at_level(logging.WARNING):
        assert len(rows_of(made.opened())) == len(ROWS) + 1
    assert "the table was changed without it" in caplog.text
    status = made.opened().metadata_status()
    assert status.problem is not None
    assert [each.name for each in status.partitions] == ["files"]


def test_archived_commits_of_it_are_not_missed(made: MadeMetadata) -> None:
    # The first commit left its timeline, and is older than all that is there.
    timeline = made.folder / active.DIRECTORY
    first = min(each.name[:17] for each in timeline.iterdir())
    made.compact(later(made, 1), later(made, 2), everything(made))
    for each in timeline.glob(f"{first}*"):
        each.unlink()
    assert is_used(made)
    assert rows_of(made.opened()) == ROWS


def test_file_without_a_schema_is_refused(made: MadeMetadata) -> None:
    path = made.compact(later(made, 1), later(made, 2), everything(made))
    assert path.name.startswith(GROUP)
    path.write_bytes(b"x" * 5000)
    assert not is_used(made)
    assert rows_of(made.opened()) == ROWS
