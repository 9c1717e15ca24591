"""Columns that another writer changed while ours was at work are kept; T-O17 for our writers."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import errors, table
from hoodie.format import timeline_avro
from hoodie.model import commits, instants, schemas, settings
from hoodie.timeline import contents, schema_history, transitions
from hoodie.write import schema_conflicts, sessions
from support.tables.tables import COLUMNS, CONFIG, SmallTable

ROW = {"id": "1", "part": "p", "a": 1, "b": "x"}
WIDER = COLUMNS.append(pa.field("note", pa.string()))


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    return SmallTable(tmp_path / "t", replace(CONFIG, has_partial_updates=False, bucket_count=1))


def evolve(small: SmallTable, columns: pa.Schema, **extra: str) -> None:
    """Have another writer commit with other columns, and no rows."""
    now_ms = small.env.clock.now_ms()
    completed = instants.Instant(
        requested_time=instants.format_time(now_ms),
        action=instants.Action.DELTA_COMMIT,
        state=instants.State.COMPLETED,
        completion_time=instants.format_time(now_ms + 1),
    )
    metadata = commits.CommitMetadata(
        operation="UPSERT",
        stats=(),
        extra={commits.SCHEMA_KEY: schemas.from_arrow(columns, CONFIG.name).avro, **extra},
    )
    small.env.open_storage(str(small.path)).create(
        transitions.path(completed), timeline_avro.encode_commit(metadata)
    )


def begin(small: SmallTable, **changes: object) -> sessions.WriteSession:
    session = small.table.begin_write(small.options(**changes), list(ROW))
    assert isinstance(session, sessions.WriteSession)
    return session


def commit(small: SmallTable, session: sessions.WriteSession) -> None:
    session.commit(small.write_files(session, [ROW]))


def reopened(small: SmallTable) -> table.Table:
    return table.open_table(str(small.path), small.env)


@pytest.mark.parametrize("mode", settings.ConcurrencyMode)
@pytest.mark.parametrize("is_after_begin", [True, False])
def test_column_added_meanwhile_is_kept(
    small: SmallTable, mode: settings.ConcurrencyMode, is_after_begin: bool
) -> None:
    if is_after_begin:
        session = begin(small, concurrency=mode)
        evolve(small, WIDER)
    else:
        # Since the table was opened, that is.
        evolve(small, WIDER)
        session = begin(small, concurrency=mode)
    commit(small, session)
    found = reopened(small)
    assert found.schema.arrow.names == WIDER.names
    assert found.read().read_all().to_pylist() == [{**ROW, "note": None}]


@pytest.mark.parametrize("is_after_begin", [True, False])
def test_ids_of_columns_are_published_again(small: SmallTable, *, is_after_begin: bool) -> None:
    """Apache Hudi takes them from the newest commit alone; see `schema_history`."""
    session = begin(small) if is_after_begin else None
    evolve(small, COLUMNS, latest_schema="ids")
    small.table = reopened(small)
    commit(small, session or begin(small))
    small.upsert([ROW])
    timeline = small.table.timeline()
    for instant in timeline.completed_writes[-2:]:
        found = contents.read_commit(small.env.open_storage(str(small.path)), instant)
        assert found.extra[schema_history.LATEST_KEY] == "ids"


def test_columns_are_not_added_to_a_history_and_nothing_is_left(small: SmallTable) -> None:
    evolve(small, COLUMNS, latest_schema="ids")
    before = small.table.timeline().instants
    rows = pa.Table.from_pylist([{**ROW, "note": "x"}])
    with pytest.raises(errors.UnsupportedError, match="history"):
        reopened(small).write(rows, small.options(adds_columns=True))
    assert small.table.timeline().instants == before


def test_column_widened_meanwhile_stays_wide(small: SmallTable) -> None:
    position = COLUMNS.get_field_index("a")
    session = begin(small)
    evolve(small, COLUMNS.set(position, pa.field("a", pa.float64())))
    commit(small, session)
    found = reopened(small)
    assert found.schema.arrow.field("a").type == pa.float64()
    assert found.read().read_all().to_pylist() == [{**ROW, "a": 1.0}]


def test_own_columns_are_published_where_that_is_asked_for(small: SmallTable) -> None:
    session = begin(small, keeps_newer_columns=False)
    evolve(small, WIDER)
    commit(small, session)
    assert reopened(small).schema.arrow.names == COLUMNS.names


def test_equal_columns_in_other_words_change_nothing() -> None:
    mine = schemas.from_arrow(COLUMNS, "mine")
    other = schemas.from_arrow(COLUMNS, "other")
    assert schema_conflicts.published(mine, other) is mine
    assert schema_conflicts.published(mine, None) is mine
