"""Deleting the records that a filter keeps: all of them, and none that was changed meanwhile."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import errors
from hoodie.model import commits, predicates, results, schemas, settings, table_config
from hoodie.model.predicates import Comparator
from hoodie.transaction import manager
from hoodie.write import sessions
from support.tables.tables import CONFIG, SmallTable

OPTIMISTIC = settings.ConcurrencyMode.OPTIMISTIC
DELETE = commits.Operation.DELETE
ROWS = [{"id": str(n), "part": "pq"[n % 2], "a": n, "b": "old"} for n in range(8)]
LARGE = predicates.Compare("a", Comparator.GE, 5)


def made(
    path: Path,
    kind: table_config.TableType = table_config.TableType.MERGE_ON_READ,
    index: table_config.IndexKind | None = None,
) -> SmallTable:
    config = replace(CONFIG, table_type=kind, index=index, has_partial_updates=False)
    small = SmallTable(path / "t", config if index is None else replace(config, bucket_count=None))
    small.upsert(ROWS, concurrency=OPTIMISTIC)
    return small


def ids(small: SmallTable) -> str:
    return "".join(str(row["id"]) for row in small.rows())


@pytest.mark.parametrize("index", [None, table_config.IndexKind.SIMPLE])
@pytest.mark.parametrize("mode", [OPTIMISTIC, settings.ConcurrencyMode.SINGLE_WRITER])
@pytest.mark.parametrize("kind", table_config.TableType)
def test_rows_that_match_are_deleted_and_no_others(
    tmp_path: Path,
    kind: table_config.TableType,
    mode: settings.ConcurrencyMode,
    index: table_config.IndexKind | None,
) -> None:
    small = made(tmp_path, kind, index)
    options = small.options(operation=DELETE, concurrency=mode)
    done = small.table.delete_where(LARGE, options)
    assert isinstance(done, results.CommitResult)
    assert (ids(small), done.deletes) == ("01234", 3)
    in_p = predicates.Compare("part", Comparator.EQ, "p")
    assert small.table.delete_where(in_p, options)
    assert ids(small) == "13"
    before = small.table.timeline().files
    assert small.table.delete_where(LARGE, options) is None
    assert small.table.timeline().files == before
    small.upsert(ROWS[5:], concurrency=mode)
    assert ids(small) == "13567"
    assert small.problems() == []


def test_batch_that_the_table_holds_is_not_deleted_again(tmp_path: Path) -> None:
    small = made(tmp_path)
    options = small.options(operation=DELETE, batch_id="clear", concurrency=OPTIMISTIC)
    assert isinstance(small.table.delete_where(LARGE, options), results.CommitResult)
    small.upsert(ROWS, concurrency=OPTIMISTIC)
    assert isinstance(small.table.delete_where(LARGE, options), results.AlreadyCommitted)
    assert ids(small) == "01234567"


def selecting(small: SmallTable, meanwhile: Callable[[], object]) -> Callable[[], pa.Table]:
    """Return a look at the rows of LARGE that is followed by something, once."""
    waiting = [meanwhile]

    def select() -> pa.Table:
        found = small.table.read([schemas.RECORD_KEY, schemas.PARTITION_PATH], LARGE).read_all()
        if waiting:
            waiting.pop()()
        return found

    return select


@pytest.mark.parametrize("kind", table_config.TableType)
def test_row_that_another_writer_changes_meanwhile_is_looked_at_again(
    tmp_path: Path, kind: table_config.TableType
) -> None:
    """It does not match any more, and is not deleted; without retries nothing is."""
    small = made(tmp_path, kind)
    target = manager.Target(
        storage=small.env.open_storage(str(small.path)),
        config=small.table.config,
        schema=small.table.schema,
    )

    def change() -> None:
        small.upsert([{**ROWS[6], "a": 0}], writer_id="other", concurrency=OPTIMISTIC)

    def delete(retries: int) -> results.WriteResult | None:
        options = small.options(
            operation=DELETE, concurrency=OPTIMISTIC, conflict_retries_max=retries
        )
        return sessions.delete_selected(target, selecting(small, change), options, small.env)

    with pytest.raises(errors.WriteConflictError):
        delete(0)
    assert ids(small) == "01234567"
    small.upsert(ROWS[6:7], concurrency=OPTIMISTIC)
    assert delete(1)
    assert ids(small) == "012346"
    assert small.problems() == []


def test_non_blocking_writers_do_not_delete_by_a_filter(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t")
    small.upsert(ROWS)
    with pytest.raises(errors.ConfigurationError, match="would be lost"):
        small.table.delete_where(LARGE, small.options(operation=DELETE))
    assert ids(small) == "01234567"


def test_filter_that_does_not_fit_deletes_nothing(tmp_path: Path) -> None:
    small = made(tmp_path)
    options = small.options(operation=DELETE, concurrency=OPTIMISTIC)
    unknown = predicates.Compare("nothing", Comparator.EQ, 1)
    with pytest.raises(errors.NotFoundError, match="nothing"):
        small.table.delete_where(unknown, options)
    with pytest.raises(errors.InvalidInputError):
        small.table.delete_where(predicates.Compare("a", Comparator.EQ, "text"), options)
    assert ids(small) == "01234567"
    assert not small.table.timeline().pending
