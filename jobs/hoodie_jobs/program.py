"""The frame around every job: spec in, signals, errors, result and exit code out.

    python -m hoodie_jobs.write SPEC.json

The log goes to stderr. It names table and instants, and holds no secret, and no record's content
but for the one value that an error about bad input has to name.
"""

import logging
import resource
import sys
import textwrap
import time
from collections.abc import Callable, Mapping, Sequence

from hoodie import clock, errors
from hoodie.contract import job_results, job_specs
from hoodie_jobs import cancellation, files, progress_server
from hoodie_jobs.run import Run

logger = logging.getLogger(__name__)

Perform = Callable[[Run], None]

_HELP_WIDTH = 100
_TRACEBACK_HEADER = "Traceback (most recent call last):\n"


def main(arguments: Sequence[str], performs: Mapping[type, Perform]) -> int:
    """Run a job and return its exit code.

    Args:
        arguments: Of the command line, without the program: the path of the spec.
        performs: What does each kind of work that the program is for, in the main thread.
    """
    _configure_log()
    if arguments and arguments[0] in ("-h", "--help"):
        sys.stdout.write(_help())
        return errors.EXIT_DONE
    if len(arguments) != 1 or arguments[0].startswith("-"):
        sys.stderr.write(_usage())
        return errors.EXIT_USAGE
    try:
        spec = job_specs.decode_spec(files.read(arguments[0]), arguments[0])
    except errors.HoodieError as error:
        logger.error("%s", error)  # noqa: TRY400 - what the caller did wrong needs no traceback
        return error.exit_code
    stop = cancellation.Cancellation()
    stop.listen()
    run = Run(spec, clock.SystemClock(), stop)
    with progress_server.serving(run):
        failure = _failure(run, performs)
    try:
        result = run.finish(failure, _memory_bytes_max())
    except errors.StorageError as unwritten:
        logger.error("cannot write the result: %s", unwritten)  # noqa: TRY400 - a reported error is no bug
        return unwritten.exit_code
    logger.info(
        "%s: ended after %.1f s with %s",
        spec.table_uri,
        result.duration_ms / 1000,
        failure.kind if failure else "success",
    )
    return result.exit_code


def _failure(run: Run, performs: Mapping[type, Perform]) -> job_results.JobError | None:
    """Do the work and return what went wrong, logged."""
    try:
        _perform(run, performs)
    except errors.HoodieError as error:
        logger.error("%s: %s: %s", run.spec.table_uri, error.kind, error)  # noqa: TRY400 - a reported error is no bug
        return job_results.JobError(kind=error.kind, message=_one_line(error))
    except MemoryError:
        logger.exception("%s: out of memory", run.spec.table_uri)
        kind = errors.OutOfMemoryError.kind
        return job_results.JobError(kind=kind, message="the process ran out of memory")
    except Exception as error:
        # What a stop broke off is no bug, whatever it is reported as by the engine.
        if run.cancellation.is_requested:
            logger.warning("%s: stopped: %s", run.spec.table_uri, _one_line(error))
            return job_results.JobError(
                kind=errors.CancelledError.kind, message="the run was asked to stop"
            )
        logger.exception(
            "%s: unexpected error, in this program or in its engine", run.spec.table_uri
        )
        message = f"{type(error).__name__}: {_one_line(error)}"
        return job_results.JobError(kind=errors.HoodieError.kind, message=message)
    return None


def _perform(run: Run, performs: Mapping[type, Perform]) -> None:
    perform = performs.get(type(run.spec.work))
    if perform is None:
        raise errors.InvalidInputError(
            f"the spec's work is {type(run.spec.work).__name__}, expected "
            f"{' or '.join(kind.__name__ for kind in performs)}"
        )
    perform(run)


def _one_line(error: Exception) -> str:
    """Return the first line of a message; of a traceback in it, the line that names the error."""
    _, header, text = str(error).rpartition(_TRACEBACK_HEADER)
    # Below the header the frames are indented, and the error is not.
    found = [line for line in text.splitlines() if not (header and line.startswith(" "))]
    lines = [line.strip() for line in found if line.strip()]
    return lines[0] if lines else type(error).__name__


def _memory_bytes_max() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _usage() -> str:
    module = sys.modules["__main__"].__spec__
    return f"usage: python -m {module.name if module else 'hoodie_jobs'} SPEC.json\n"


def _help() -> str:
    """Return what the program does, and what its caller has to know."""
    by_code = sorted(errors.EXIT_CODES.items(), key=lambda each: each[1])
    codes = ", ".join(f"{code} {kind}" for kind, code in by_code)
    explained = textwrap.fill(
        "SPEC.json holds a JobSpec (hoodie/contract/job_specs.py). The log goes to stderr. "
        "Progress and result are written to the files that the spec names. "
        f"Exit codes: 0 success, 2 usage, {codes}.",
        width=_HELP_WIDTH,
    )
    return f"{_usage()}\n{sys.modules['__main__'].__doc__}\n{explained}\n"


def _configure_log() -> None:
    formatter = logging.Formatter("%(asctime)sZ %(levelname)s %(name)s: %(message)s")
    formatter.converter = time.gmtime
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    for package in ("hoodie", "hoodie_jobs"):
        logging.getLogger(package).setLevel(logging.INFO)
