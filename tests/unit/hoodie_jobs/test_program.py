"""Every end of a run is a result file and an exit code, and the two agree."""

import logging
import socket
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from hoodie import errors
from hoodie.contract import engine_specs, job_results, job_specs
from hoodie.model import settings
from hoodie_jobs import program
from hoodie_jobs.run import Run


@pytest.fixture(autouse=True)
def log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)
    monkeypatch.setattr("hoodie_jobs.cancellation.Cancellation.listen", lambda _: None)


def run(
    folder: Path, perform: Callable[[Run], None], **changes: object
) -> tuple[int, job_results.JobResult]:
    spec = job_specs.JobSpec(
        **{  # type: ignore[arg-type] # what a test varies
            "table_uri": "file:///tables/flights",
            "allowed_roots": [],
            "table_properties": {},
            "settings": settings.WriteSettings(),
            "lock": "filesystem",
            "protocol_hash": "",
            "writer_id": None,
            "action_id": "compact-1",
            "attempt": 3,
            "fence": None,
            "work": job_specs.Compact(step=job_specs.CompactionStep.SCHEDULE),
            "engine": engine_specs.EngineSpec(),
            "progress_path": str(folder / "progress.json"),
            "result_path": str(folder / "result.json"),
            **changes,
        }
    )
    (folder / "spec.json").write_bytes(job_specs.encode_spec(spec))
    code = program.main([str(folder / "spec.json")], {job_specs.Compact: perform})
    return code, job_results.decode_result((folder / "result.json").read_bytes(), "result")


def test_work_that_is_done_ends_with_0(tmp_path: Path) -> None:
    def perform(run: Run) -> None:
        run.tell("compacting", 1, 2)
        run.add(records=3, file_groups=1)
        run.add(records=4)

    code, result = run(tmp_path, perform)

    assert (code, result.error, result.attempt) == (0, None, 3)
    assert (result.records, result.file_groups) == (7, 1)
    assert result.memory_bytes_max > 0
    progress = job_results.decode_progress((tmp_path / "progress.json").read_bytes(), "progress")
    assert (progress.phase, progress.done, progress.total) == ("compacting", 1, 2)
    assert {path.name for path in tmp_path.iterdir()} == {
        "spec.json",
        "progress.json",
        "result.json",
    }


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (errors.ConflictError("instant 1\ntaken"), "Conflict", 10),
        (errors.FencedError("attempt 4 is current"), "Fenced", 13),
        (errors.InvalidInputError("column"), "InvalidInput", 20),
        (errors.CancelledError("the run was asked to stop"), "Cancelled", 41),
        (MemoryError(), "OutOfMemory", 40),
        (ZeroDivisionError("division by zero"), "Internal", 70),
    ],
)
def test_failure_is_told_by_kind_and_exit_code(
    tmp_path: Path, error: Exception, kind: str, code: int
) -> None:
    def perform(run: Run) -> None:
        run.add(commit_count=1)
        raise error

    ended, result = run(tmp_path, perform)

    assert result.error is not None
    assert (result.error.kind, ended, result.exit_code) == (kind, code, code)
    assert "\n" not in result.error.message
    assert result.commit_count == 1


_OF_A_WORKER = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/opt/pyspark/worker.py", line 4327, in invoke_udf
    run_process()
    ^^^^^^^^^^^^^
OSError: [Errno 28] No space left on device

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/opt/hoodie_jobs/spark/data_source.py", line 139, in batches
    for batch in tasks.run(task):
ValueError: 7 is no file slice
of this table
"""


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (_OF_A_WORKER, "RuntimeError: ValueError: 7 is no file slice"),
        ("Traceback (most recent call last):\n  cut", "RuntimeError: RuntimeError"),
        ("\n  the JVM has exited\n  at once", "RuntimeError: the JVM has exited"),
    ],
)
def test_unexpected_failure_of_a_worker_is_named_without_its_frames(
    tmp_path: Path, message: str, shown: str
) -> None:
    def perform(_: Run) -> None:
        raise RuntimeError(message)

    _, result = run(tmp_path, perform)
    assert result.error is not None
    assert result.error.message == shown


def test_what_breaks_because_of_a_stop_is_a_cancelled_run(tmp_path: Path) -> None:
    def perform(run: Run) -> None:
        run.cancellation.request()
        raise ConnectionError("the JVM has exited")

    assert run(tmp_path, perform)[0] == errors.CancelledError.exit_code


def test_work_of_another_kind_is_refused(tmp_path: Path) -> None:
    code, result = run(tmp_path, lambda _: None, work=job_specs.CreateTable())
    assert code == errors.InvalidInputError.exit_code
    assert result.error is not None
    assert "CreateTable, expected Compact" in result.error.message


@pytest.mark.parametrize("arguments", [[], ["--verbose"], ["a", "b"]])
def test_wrong_arguments_are_told(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(arguments, {}) == errors.EXIT_USAGE
    assert "SPEC.json" in capsys.readouterr().err


def test_missing_or_bad_spec_ends_with_the_code_of_its_error(tmp_path: Path) -> None:
    assert program.main([str(tmp_path / "none")], {}) == errors.NotFoundError.exit_code
    (tmp_path / "bad").write_text("{}")
    assert program.main([str(tmp_path / "bad")], {}) == errors.InvalidInputError.exit_code


def test_result_is_written_into_a_file_that_cannot_be_replaced(tmp_path: Path) -> None:
    message = tmp_path / "termination-log"
    message.write_bytes(b"x" * 5000)
    before = message.stat().st_ino
    _, result = run(tmp_path, lambda _: None, termination_path=str(message))
    assert job_results.decode_result(message.read_bytes(), "message") == result
    assert message.stat().st_ino == before


def test_progress_is_answered_as_long_as_the_work_goes_on(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}/progress"
    told = []

    def perform(run: Run) -> None:
        with urllib.request.urlopen(address, timeout=5) as answer:
            told.append((answer.status, answer.read()))
        run.tell("writing", 1, 2)
        with urllib.request.urlopen(address, timeout=5) as answer:
            told.append((answer.status, answer.read()))
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{address}/else", timeout=5)

    code, _ = run(tmp_path, perform, progress_port=port)
    assert code == 0
    assert told[0] == (204, b"")
    progress = job_results.decode_progress(told[1][1], "answer")
    assert (progress.phase, progress.done, progress.total) == ("writing", 1, 2)
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=5)


def test_port_that_is_taken_stops_no_run(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        code, result = run(tmp_path, lambda _: None, progress_port=taken.getsockname()[1])
    assert (code, result.error) == (0, None)
