"""A compaction on Spark: the job of `hoodie_jobs` as a process of its own."""

import importlib.util
import logging
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from hoodie import errors
from hoodie.cli import progress, run_settings
from hoodie.contract import engine_specs, job_results, job_specs

logger = logging.getLogger(__name__)

MODULE = "hoodie_jobs.compact"
_POLL_S = 0.3
_LOG_LINES_SHOWN = 20


def compact(
    table_uri: str,
    work: job_specs.Compact,
    run: run_settings.RunSettings,
    display: progress.Display,
) -> job_results.JobResult:
    """Run a compaction job to its end and return its result.

    Raises:
        ConfigurationError: Spark is not installed.
        HoodieError: What the job failed with, of its class.
    """
    check_installed()
    with tempfile.TemporaryDirectory(prefix="hoodie-compact-") as folder:
        place = Path(folder)
        spec = _spec(table_uri, work, run, place)
        (place / "spec.json").write_bytes(job_specs.encode_spec(spec))
        code, log = _run(place, display)
        return _result(place, code, log)


def check_installed() -> None:
    """Refuse to start a job that could not run.

    Raises:
        ConfigurationError: A package is missing.
    """
    for package in ("pyspark", "hoodie_jobs"):
        if importlib.util.find_spec(package) is None:
            raise errors.ConfigurationError(
                f"--engine spark needs the package {package}, expected an installation with "
                "hudi-operator[jobs]"
            )


def _spec(
    table_uri: str, work: job_specs.Compact, run: run_settings.RunSettings, place: Path
) -> job_specs.JobSpec:
    return job_specs.JobSpec(
        table_uri=table_uri,
        allowed_roots=(),
        table_properties=dict(run.facts),
        settings=run.settings,
        lock=str(run.lock),
        protocol_hash="",
        writer_id=None,
        action_id=None,
        attempt=1,
        fence=None,
        work=work,
        engine=engine_specs.EngineSpec(kind=engine_specs.EngineKind.SPARK),
        progress_path=str(place / "progress.json"),
        result_path=str(place / "result.json"),
    )


def _run(place: Path, display: progress.Display) -> tuple[int, str]:
    """Run the job, its progress shown, and return its exit code and the end of its log."""
    command = [sys.executable, "-m", MODULE, str(place / "spec.json")]
    log_path = place / "log"
    with log_path.open("wb") as log:
        # The log is long and Spark's: it is shown when the job fails without a result.
        process = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603 - our own program
        try:
            while not _has_ended(process):
                _show(place / "progress.json", display)
        except KeyboardInterrupt:
            # The job had the signal too, from the terminal, and ends what it may.
            process.wait()
            raise
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    text = log_path.read_text(encoding="utf-8", errors="replace")
    logger.debug("the job's log:\n%s", text)
    return process.returncode, "\n".join(text.splitlines()[-_LOG_LINES_SHOWN:])


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(_POLL_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def _show(path: Path, display: progress.Display) -> None:
    try:
        told = job_results.decode_progress(path.read_bytes(), str(path))
    except (OSError, errors.InvalidInputError):
        display.phase("starting Spark")
        return
    display.phase(told.phase)
    if told.total:
        display.count(told.done, told.total, "file groups")


def _result(place: Path, code: int, log: str) -> job_results.JobResult:
    path = place / "result.json"
    if not path.exists():
        logger.error("the end of the job's log: %s", log)
        raise errors.StorageError(f"the Spark job ended with exit code {code} and without a result")
    return checked(job_results.decode_result(path.read_bytes(), "the Spark job's result"))


def checked(result: job_results.JobResult) -> job_results.JobResult:
    """Return the result of a job that did what it was asked for.

    Raises:
        HoodieError: What the job failed with, of its class.
    """
    if result.error is None:
        return result
    raise _classes().get(result.error.kind, errors.HoodieError)(result.error.message)


def _classes() -> Mapping[str, type[errors.HoodieError]]:
    pending: list[type[errors.HoodieError]] = [errors.HoodieError]
    classes = {}
    while pending:
        cls = pending.pop()
        classes[cls.kind] = cls
        pending += cls.__subclasses__()
    return classes
