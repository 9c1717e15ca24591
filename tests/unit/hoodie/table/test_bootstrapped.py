"""Tables with instants of 14 digits: bootstraps, and timelines of old writers.

A bootstrap's commit is 00000000000001 where rows stay outside the table (METADATA_ONLY), and
00000000000002 where they are copied (FULL_RECORD).
"""

from dataclasses import replace
from pathlib import Path

import pytest

from hoodie import errors, table
from hoodie.format import timeline_avro
from hoodie.model import settings, table_config
from hoodie.read import where
from hoodie.timeline import transitions
from support.tables.tables import CONFIG, SmallTable

ROWS = [{"id": str(n), "part": "p", "a": n, "b": "x"} for n in range(4)]
ALONE = {"concurrency": settings.ConcurrencyMode.SINGLE_WRITER}


def rename_instant(small: SmallTable, name: str) -> None:
    """Give the first write of a table another name, in all files that carry it."""
    instant = small.table.timeline().instants[0]
    for path in sorted(small.path.rglob(f"*{instant.requested_time}*")):
        if path.is_file():
            path.rename(path.with_name(path.name.replace(instant.requested_time, name, 1)))


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    found = SmallTable(tmp_path / "t")
    found.upsert(ROWS, **ALONE)
    return found


def test_full_record_bootstrap_is_read_right_after_it(small: SmallTable) -> None:
    rename_instant(small, "00000000000002")
    assert small.rows() == ROWS
    timeline = small.table.timeline()
    assert list(small.table.metadata(timeline.completed_writes)) == list(timeline.instants)
    # Its metadata names the files as they were before the test.
    expected = ("its file p/", "does not name it")
    assert all(any(text in problem for text in expected) for problem in small.problems())


def test_table_with_an_instant_of_14_digits_is_written_on(small: SmallTable) -> None:
    rename_instant(small, "20200101000000")
    small.upsert([{"id": "0", "part": "p", "a": 7, "b": "y"}])
    small.compact()
    assert small.rows() == [{"id": "0", "part": "p", "a": 7, "b": "y"}, *ROWS[1:]]


def test_rows_outside_the_table_are_refused_not_read_as_nulls(small: SmallTable) -> None:
    only = [{"id": "z", "part": "q", "a": 1, "b": "y"}]
    small.upsert(only, **ALONE)
    rename_instant(small, "00000000000001")
    with pytest.raises(errors.UnsupportedError, match="METADATA_ONLY bootstrap"):
        small.rows()
    with pytest.raises(errors.UnsupportedError, match="METADATA_ONLY bootstrap"):
        small.table.plan_read()
    assert small.rows(where=where.parse("part = 'q'")) == only
    assert any("METADATA_ONLY" in problem for problem in small.problems())


def test_bootstrapped_table_is_not_written(small: SmallTable) -> None:
    properties = small.path / ".hoodie" / "hoodie.properties"
    with properties.open("a") as file:
        file.write(f"{table_config.BOOTSTRAP_BASE_PATH_KEY}=/data/source\n")
    small.table = table.open_table(str(small.path), small.env)
    with pytest.raises(errors.UnsupportedError, match=r"bootstrap\.base\.path=/data/source"):
        small.upsert(ROWS, **ALONE)
    assert small.rows() == ROWS


def test_pending_instant_of_14_digits_is_neither_compacted_nor_taken_back(
    small: SmallTable,
) -> None:
    small.upsert(ROWS)
    planned = small.table.schedule_compaction(small.options().transaction)
    assert planned is not None
    timeline = small.path / ".hoodie" / "timeline"
    old = timeline / f"{planned}.compaction.requested"
    short = planned[:14]
    old.rename(timeline / f"{short}.compaction.requested")
    (pending,) = small.table.timeline().pending
    assert pending.requested_time == f"{short}999"
    assert small.rows() == ROWS
    with pytest.raises(errors.UnsupportedError, match=f"named {short} in its files"):
        small.table.compact(pending.requested_time, small.options(writer_id="c").transaction)
    with pytest.raises(errors.UnsupportedError, match=f"named {short} in its files"):
        small.table.roll_back(pending.requested_time, small.options(writer_id="c").transaction)


def test_base_file_made_of_one_with_an_instant_of_14_digits_hides_nothing(tmp_path: Path) -> None:
    config = replace(
        CONFIG,
        has_partial_updates=False,
        bucket_count=1,
        table_type=table_config.TableType.COPY_ON_WRITE,
    )
    small = SmallTable(tmp_path / "t", config)
    small.upsert(ROWS, **ALONE)
    rename_instant(small, "20200101000000")
    small.upsert(ROWS, **ALONE)
    newest = small.path / transitions.path(small.table.timeline().completed_writes[-1])
    commit = timeline_avro.decode_commit(newest.read_bytes())
    # As Apache Hudi has it.
    stats = tuple(replace(each, prev_commit="20200101000000") for each in commit.stats)
    newest.write_bytes(timeline_avro.encode_commit(replace(commit, stats=stats)))
    assert not [problem for problem in small.problems() if "is hidden by" in problem]
