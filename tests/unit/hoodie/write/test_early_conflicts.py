"""Conflicts that are found before data is written; T-E* of docs/tests.md."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from hoodie import errors
from hoodie.model import commits, instants, settings
from hoodie.model.settings import EarlyDetection
from hoodie.transaction import authors, markers
from hoodie.write import sessions
from support.tables.tables import CONFIG, SmallTable

OPTIMISTIC = settings.ConcurrencyMode.OPTIMISTIC
ROW = {"id": "1", "part": "p", "a": 1, "b": None}
ELSEWHERE = {"id": "1", "part": "q", "a": 1, "b": None}
Stats = list[commits.Written]


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    return SmallTable(tmp_path / "t", replace(CONFIG, has_partial_updates=False, bucket_count=1))


def begin(small: SmallTable, writer_id: str, **changes: object) -> sessions.WriteSession:
    chosen = {"concurrency": OPTIMISTIC, "detects_conflicts_early": True, **changes}
    session = small.table.begin_write(small.options(writer_id=writer_id, **chosen), list(ROW))
    assert isinstance(session, sessions.WriteSession)
    return session


def data_files(small: SmallTable, session: sessions.WriteSession) -> list[str]:
    return [path.name for path in small.path.rglob(f".*{session.requested_time}.log.*")]


def marker_files(small: SmallTable, time: instants.InstantTime) -> list[Path]:
    return list((small.path / ".hoodie" / ".temp" / time).rglob("*.marker.*"))


@pytest.mark.parametrize("strategy", EarlyDetection)
def test_later_write_gives_way_before_it_writes_data(
    small: SmallTable, strategy: EarlyDetection
) -> None:
    """T-E01."""
    first = begin(small, "first", early_detection=strategy)
    second = begin(small, "second", early_detection=strategy)
    stats = small.write_files(first, [ROW])
    with pytest.raises(errors.WriteConflictError) as caught:
        small.write_files(second, [ROW])
    for named in ("writer first", "writer second", first.requested_time, second.requested_time):
        assert named in str(caught.value)
    assert "file group p/" in str(caught.value)
    assert (data_files(small, second), marker_files(small, second.requested_time)) == ([], [])
    second.abort(has_tasks_left=False)
    first.commit(stats)
    assert small.rows() == [ROW]


def test_earlier_write_goes_on(small: SmallTable) -> None:
    """So that of two that meet one at least is left: never do both give way."""
    first, second = begin(small, "first"), begin(small, "second")
    small.write_files(second, [ROW])
    first.commit(small.write_files(first, [ROW]))
    second.abort(has_tasks_left=False)
    assert small.rows() == [ROW]


def test_writes_of_different_file_groups_do_not_meet(small: SmallTable) -> None:
    first, second = begin(small, "first"), begin(small, "second")
    stats = small.write_files(first, [ROW])
    second.commit(small.write_files(second, [ELSEWHERE]))
    first.commit(stats)
    assert small.rows() == [ROW, ELSEWHERE]


def test_dead_writers_markers_stop_nobody(small: SmallTable) -> None:
    """T-E02."""
    first, second = begin(small, "first"), begin(small, "second")
    small.write_files(first, [ROW])
    heartbeat = small.path / ".hoodie" / ".heartbeat" / first.requested_time
    heartbeat.unlink()
    second.commit(small.write_files(second, [ROW]))
    first.abort(has_tasks_left=True)


@pytest.mark.parametrize(
    ("strategy", "is_found_early"),
    [(EarlyDetection.SIMPLE, False), (EarlyDetection.TRANSACTIONAL, True)],
)
def test_race_of_two_who_look_before_either_marks(
    small: SmallTable,
    monkeypatch: pytest.MonkeyPatch,
    strategy: EarlyDetection,
    is_found_early: bool,
) -> None:
    """T-E03, T-E04, O5.

    first    looks, sees nothing, and waits at a gate before it makes its marker
    second   simple: looks, sees nothing, marks        transactional: waits for first's lock scope
    gate     opens
    """
    first = begin(small, "first", early_detection=strategy)
    second = begin(small, "second", early_detection=strategy)
    gate, is_at_gate = threading.Event(), threading.Event()
    mark = markers.mark

    def mark_late(storage: object, time: instants.InstantTime, path: str) -> None:
        if time == first.requested_time:
            is_at_gate.set()
            assert gate.wait(30)
        mark(storage, time, path)  # type: ignore[arg-type] # passed on

    monkeypatch.setattr(markers, "mark", mark_late)
    with ThreadPoolExecutor(2) as threads:
        of_first = threads.submit(small.write_files, first, [ROW])
        assert is_at_gate.wait(30)
        of_second = threads.submit(small.write_files, second, [ROW])
        try:
            _wait_while_it_can_go_on(of_second, 1 if is_found_early else 30)
        finally:
            gate.set()
        stats = of_first.result()
        if is_found_early:
            with pytest.raises(errors.WriteConflictError, match="no data of it was written"):
                of_second.result()
            assert data_files(small, second) == []
            second.abort(has_tasks_left=False)
            first.commit(stats)
        else:
            second.commit(of_second.result())
            with pytest.raises(errors.WriteConflictError, match="both wrote to"):
                first.commit(stats)
    assert small.rows() == [ROW]
    assert small.problems() == []


def _wait_while_it_can_go_on(of_second: "Future[Stats]", wait_s: float) -> None:
    """Wait for its end, or until it has waited for the lock for some time."""
    ended = threading.Event()
    of_second.add_done_callback(lambda _: ended.set())
    ended.wait(wait_s)


@pytest.mark.parametrize("checks_commits", [True, False])
def test_write_that_committed_meanwhile_is_found_early_where_that_is_asked_for(
    small: SmallTable, checks_commits: bool
) -> None:
    """T-E05."""
    first = begin(small, "first")
    second = begin(small, "second", early_checks_commits=checks_commits)
    won = first.commit(small.write_files(first, [ROW]))
    if checks_commits:
        with pytest.raises(errors.WriteConflictError, match=str(won.instant)):
            small.write_files(second, [ROW])
        assert data_files(small, second) == []
        second.abort(has_tasks_left=False)
    else:
        stats = small.write_files(second, [ROW])
        with pytest.raises(errors.WriteConflictError, match="both wrote to"):
            second.commit(stats)


def test_commit_from_before_the_begin_is_no_conflict(small: SmallTable) -> None:
    first = begin(small, "first")
    first.commit(small.write_files(first, [ROW]))
    second = begin(small, "second", early_checks_commits=True)
    second.commit(small.write_files(second, [ROW]))


@pytest.mark.parametrize(
    "mode", [settings.ConcurrencyMode.SINGLE_WRITER, settings.ConcurrencyMode.NON_BLOCKING]
)
def test_detection_without_optimistic_writers_is_refused(
    small: SmallTable, mode: settings.ConcurrencyMode
) -> None:
    """T-E06."""
    with pytest.raises(errors.ConfigurationError, match=rf"early\.conflict.*{mode.value}"):
        begin(small, "w", concurrency=mode)
    assert not small.table.timeline().instants


def test_table_services_are_neither_stopped_nor_looked_at(small: SmallTable) -> None:
    """T-E07."""
    chosen = {"concurrency": OPTIMISTIC, "detects_conflicts_early": True}
    small.upsert([ROW], **chosen)
    service = replace(small.options(**chosen).transaction, author=authors.Author())
    planned = small.table.schedule_compaction(service)
    assert planned is not None
    writer = begin(small, "w")
    stats = small.write_files(writer, [ROW])
    small.table.compact(planned, service)
    writer.commit(stats)
    assert small.rows() == [ROW]


def test_markers_of_a_timeline_server_are_seen(small: SmallTable) -> None:
    """As Apache Hudi's writers in Spark keep them; such a writer's heartbeat names nobody."""
    small.upsert([ROW], concurrency=OPTIMISTIC)
    (slice_,) = small.table.slices()
    time = instants.format_time(small.env.clock.now_ms())
    (small.path / ".hoodie" / "timeline" / f"{time}.deltacommit.requested").touch()
    (small.path / ".hoodie" / "timeline" / f"{time}.deltacommit.inflight").touch()
    (small.path / ".hoodie" / ".heartbeat" / time).touch()
    folder = small.path / ".hoodie" / ".temp" / time
    folder.mkdir(parents=True)
    (folder / "MARKERS.type").write_text("TIMELINE_SERVER_BASED")
    log_file = f".{slice_.group.file_id}_{time}.log.1_0-1-2"
    (folder / "MARKERS3").write_text(f"p/{log_file}.marker.CREATE\n")
    second = begin(small, "second", failed_writes_policy=settings.FailedWritesPolicy.NEVER)
    with pytest.raises(errors.WriteConflictError, match=f"{time} deltacommit inflight of another"):
        small.write_files(second, [ROW])
    second.abort(has_tasks_left=False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("simple-direct-marker", EarlyDetection.SIMPLE),
        (
            "org.apache.hudi.table.marker.SimpleDirectMarkerBasedDetectionStrategy",
            EarlyDetection.SIMPLE,
        ),
        (
            "org.apache.hudi.table.marker.SimpleTransactionDirectMarkerBasedDetectionStrategy",
            EarlyDetection.TRANSACTIONAL,
        ),
    ],
)
def test_strategy_is_named_as_apache_hudi_names_it_or_short(
    text: str, expected: EarlyDetection
) -> None:
    key = "hoodie.write.concurrency.early.conflict.detection.strategy"
    assert settings.from_properties({key: text}).early_detection is expected


def test_strategy_of_the_timeline_server_is_refused() -> None:
    key = "hoodie.write.concurrency.early.conflict.detection.strategy"
    name = (
        "org.apache.hudi.timeline.service.handlers.marker.AsyncTimelineServerBasedDetectionStrategy"
    )
    with pytest.raises(errors.ConfigurationError, match="our markers are direct"):
        settings.from_properties({key: name})
