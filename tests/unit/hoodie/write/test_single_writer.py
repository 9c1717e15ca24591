"""Single writers that overlap, one of them wrongly judged dead: no acknowledged row is lost."""

from dataclasses import replace
from pathlib import Path

import pytest

from hoodie import errors
from hoodie.model import settings, table_config
from hoodie.transaction import admission
from hoodie.write import sessions
from support.tables.tables import CONFIG, SmallTable

SINGLE = settings.ConcurrencyMode.SINGLE_WRITER
NON_BLOCKING = settings.ConcurrencyMode.NON_BLOCKING


def row(key: str, a: int) -> dict[str, object]:
    return {"id": key, "part": "p", "a": a, "b": None}


def begin(
    small: SmallTable,
    writer_id: str,
    concurrency: settings.ConcurrencyMode = SINGLE,
) -> sessions.WriteSession:
    options = small.options(
        writer_id=writer_id,
        concurrency=concurrency,
        failed_writes_policy=settings.FailedWritesPolicy.NEVER,
    )
    session = small.table.begin_write(options, ["id", "part", "a", "b"])
    assert isinstance(session, sessions.WriteSession)
    return session


@pytest.fixture
def _others_are_judged_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a write begin as if every other writer were dead."""
    monkeypatch.setattr(admission, "_companions", lambda *_: {})


def table_of(tmp_path: Path, table_type: table_config.TableType) -> SmallTable:
    config = replace(CONFIG, has_partial_updates=False, bucket_count=1, table_type=table_type)
    return SmallTable(tmp_path / "t", config)


@pytest.mark.usefixtures("_others_are_judged_dead")
@pytest.mark.parametrize("is_seeded", [True, False])
@pytest.mark.parametrize("table_type", table_config.TableType)
def test_second_of_two_single_writers_of_a_file_group_loses(
    tmp_path: Path, table_type: table_config.TableType, is_seeded: bool
) -> None:
    """K2: conflict resolution is the second line of defence behind the verdict on liveness."""
    small = table_of(tmp_path, table_type)
    if is_seeded:
        small.upsert([row("seed", 0)], concurrency=SINGLE)
    first, second = begin(small, "first"), begin(small, "second")
    first_stats = small.write_files(first, [row("1", 1)])
    second_stats = small.write_files(second, [row("2", 2)])
    first.commit(first_stats)
    with pytest.raises(errors.WriteConflictError, match=r"'second'.*'first'"):
        second.commit(second_stats)
    expected = {"1", "seed"} if is_seeded else {"1"}
    assert {found["id"] for found in small.rows()} == expected
    small.upsert([row("2", 2)], concurrency=SINGLE)
    assert {found["id"] for found in small.rows()} == {*expected, "2"}
    assert small.problems() == []


@pytest.mark.usefixtures("_others_are_judged_dead")
@pytest.mark.parametrize("starts_first", [SINGLE, NON_BLOCKING])
@pytest.mark.parametrize("completes_first", [SINGLE, NON_BLOCKING])
def test_base_file_of_a_single_writer_hides_no_log_file(
    tmp_path: Path,
    starts_first: settings.ConcurrencyMode,
    completes_first: settings.ConcurrencyMode,
) -> None:
    """A log file that completes later lies on top; one that completed before is a conflict."""
    small = table_of(tmp_path, table_config.TableType.MERGE_ON_READ)
    modes = [SINGLE, NON_BLOCKING]
    opened = {
        mode: begin(small, mode.name, mode)
        for mode in sorted(modes, key=lambda mode: mode is not starts_first)
    }
    stats = {mode: small.write_files(opened[mode], [row(mode.name, 1)]) for mode in modes}
    assert not stats[SINGLE][0].log_files
    acknowledged = set()
    for mode in sorted(modes, key=lambda mode: mode is not completes_first):
        try:
            opened[mode].commit(stats[mode])
            acknowledged.add(mode.name)
        except errors.WriteConflictError:
            assert mode is SINGLE
    assert completes_first.name in acknowledged
    assert {found["id"] for found in small.rows()} == acknowledged
    small.table.roll_back_failed(small.options().transaction)
    assert small.problems() == []
