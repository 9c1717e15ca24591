"""Jobs as the processes that they are: exit codes, results, signals, resuming after a kill."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hoodie import errors
from hoodie.contract import engine_specs, job_results, job_specs
from hoodie.model import settings
from hoodie_jobs import opening
from support.contracts import lock_process
from support.servers.zookeeper_server import lock_path, zookeeper
from support.tables.job_workshop import Workshop, batches_of

__all__ = ["lock_path", "zookeeper"]

COMPACT = job_specs.Compact(step=job_specs.CompactionStep.SCHEDULE_AND_EXECUTE)
ENGINES = list(engine_specs.EngineKind)
WAIT_S = 180


class Process:
    """A job that runs."""

    def __init__(self, program: str, spec: job_specs.JobSpec) -> None:
        self.result_path = Path(spec.result_path)
        spec_path = self.result_path.with_name("spec.json")
        spec_path.write_bytes(job_specs.encode_spec(spec))
        self.log_path = self.result_path.with_name("log.txt")
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", f"hoodie_jobs.{program}", str(spec_path)],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def end(self) -> tuple[int, job_results.JobResult]:
        code = self.process.wait(WAIT_S)
        return code, job_results.decode_result(self.result_path.read_bytes(), "result")


@pytest.fixture
def started() -> Iterator[list[Process]]:
    processes: list[Process] = []
    yield processes
    for each in processes:
        each.process.kill()
        each.process.wait()


def wait_for_pending(workshop: Workshop, commits: int) -> None:
    """Wait until so many commits are completed and one more is open."""
    deadline_s = time.monotonic() + WAIT_S
    while time.monotonic() < deadline_s:
        timeline = workshop.table().timeline()
        if len(timeline.completed_writes) == commits and timeline.pending:
            return
        time.sleep(0.1)
    raise AssertionError("no write was begun")


@pytest.mark.parametrize("engine", ENGINES)
def test_job_of_each_engine_ends_with_0_and_a_result(
    workshop: Workshop, started: list[Process], engine: engine_specs.EngineKind
) -> None:
    spec = workshop.spec(batches_of(workshop.file("1", "a,eu,1,x\n")), engine)
    started.append(Process("write", spec))

    code, result = started[0].end()

    assert (code, result.error, result.commit_count) == (0, None, 1), started[0].log_path
    assert result.lock_hold_ms > 0
    assert workshop.rows() == {"a": ("a", "eu", 1, "x")}


@pytest.mark.parametrize("engine", ENGINES)
def test_job_that_is_told_to_stop_publishes_nothing_more_and_is_resumed(
    workshop: Workshop, started: list[Process], engine: engine_specs.EngineKind
) -> None:
    first, second = workshop.file("1", "a,eu,1,x\n"), workshop.file("2", "a,eu,2,y\n")
    workshop.write(first)
    paced = batches_of(first, second, commit_interval_ms=600_000)
    started.append(Process("write", workshop.spec(paced, engine, attempt=2)))
    wait_for_pending(workshop, commits=1)

    started[0].process.send_signal(signal.SIGTERM)
    code, result = started[0].end()

    assert code == errors.CancelledError.exit_code
    assert result.error is not None
    assert result.error.kind == "Cancelled"
    assert (result.commit_count, result.skipped_count) == (0, 1)
    assert workshop.rows() == {"a": ("a", "eu", 1, "x")}
    assert workshop.write(first, second, attempt=3).commit_count == 1
    assert workshop.rows() == {"a": ("a", "eu", 2, "y")}


def test_killed_job_is_resumed_at_the_next_batch(
    workshop: Workshop, started: list[Process]
) -> None:
    files = [workshop.file(str(number), f"a,eu,{number},x\n") for number in range(3)]
    workshop.write(files[0])
    paced = batches_of(*files, commit_interval_ms=600_000)
    started.append(Process("write", workshop.spec(paced, attempt=2)))
    wait_for_pending(workshop, commits=1)

    started[0].process.kill()
    started[0].process.wait(WAIT_S)
    result = workshop.write(*files, attempt=3)

    assert (result.skipped_count, result.commit_count) == (1, 2)
    assert workshop.rows() == {"a": ("a", "eu", 2, "x")}


def test_plan_of_a_writer_is_executed_by_a_job_with_the_writers_lock(
    workshop: Workshop, started: list[Process], zookeeper: str, lock_path: str
) -> None:
    """T-C11: the job waits for who has the lock, and the writer's next batch is beside it."""
    lock = f"zookeeper://{zookeeper}{lock_path}"
    workshop.write(workshop.file("1", "a,eu,1,x\n"), lock=lock)
    writer = opening.transaction_of(workshop.spec(batches_of(), lock=lock))
    plan = workshop.table().schedule_compaction(writer)
    assert plan is not None
    workshop.write(workshop.file("2", "a,eu,2,y\n"), lock=lock, attempt=2)

    step = job_specs.Compact(step=job_specs.CompactionStep.EXECUTE, instant_time=plan)
    with lock_process.Process(lock, workshop.uri, "hold", "the writer") as holder:
        holder.holding()
        started.append(Process("compact", workshop.spec(step, lock=lock)))
        with pytest.raises(subprocess.TimeoutExpired):
            started[0].process.wait(4)
        assert plan in {each.requested_time for each in workshop.table().timeline().pending}
    code, result = started[0].end()

    assert (code, result.error, result.commit_count) == (0, None, 1), started[0].log_path
    assert workshop.rows() == {"a": ("a", "eu", 2, "y")}
    (file_slice,) = workshop.table().slices()
    assert (file_slice.base_instant_time, len(file_slice.log_files)) == (plan, 1)


@pytest.mark.parametrize("work", [COMPACT, job_specs.RollBack(), batches_of("1")])
def test_job_without_a_lock_between_processes_is_refused_beside_other_writers(
    workshop: Workshop, work: job_specs.Work
) -> None:
    """T-O19, T-C11, T-O26."""
    before = workshop.data_files()
    for mode in (settings.ConcurrencyMode.OPTIMISTIC, settings.ConcurrencyMode.NON_BLOCKING):
        wanted = settings.WriteSettings(concurrency=mode)
        spec = workshop.spec(work, lock="in-process", settings=wanted)
        with pytest.raises(errors.ConfigurationError, match=f"in-process with {mode.value}"):
            workshop.run(spec)
    assert workshop.data_files() == before
    assert workshop.table().timeline().instants == ()


def test_failure_is_an_exit_code_and_a_result(workshop: Workshop, started: list[Process]) -> None:
    spec = workshop.spec(batches_of(workshop.file("1", "a,eu,one,x\n")))
    started.append(Process("write", spec))
    code, result = started[0].end()
    assert code == errors.InvalidInputError.exit_code
    assert result.error is not None
    assert "column 'amount' has the value 'one'" in result.error.message
    assert "Traceback" not in started[0].log_path.read_text()


def test_program_refuses_work_of_another_kind(workshop: Workshop, started: list[Process]) -> None:
    started.append(Process("compact", workshop.spec(job_specs.CreateTable())))
    assert started[0].end()[0] == errors.InvalidInputError.exit_code


@pytest.mark.parametrize("program", ["create", "write", "compact", "drop"])
def test_program_without_a_spec_tells_its_usage(program: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-P", "-m", f"hoodie_jobs.{program}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT_S,
    )
    assert ended.returncode == errors.EXIT_USAGE
    assert ended.stderr == f"usage: python -m hoodie_jobs.{program} SPEC.json\n"


def test_program_explains_itself() -> None:
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "hoodie_jobs.write", "--help"],
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT_S,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    for told in ("usage: python -m hoodie_jobs.write", "one commit each", "20 InvalidInput"):
        assert told in ended.stdout
