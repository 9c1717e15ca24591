"""What a job reports: progress while it runs, and one result at its end.

A result is put in place by rename, as the last act of the job. It never proves a commit: whether an
instant completed is read from the timeline, where the commit's extra metadata names writer, action,
attempt and batch (`hoodie.model.commits`).
"""

from dataclasses import dataclass, replace

from hoodie import errors
from hoodie.model import instants, json_values

RESULT_BYTES_MAX = 3072
"""A longer result would be cut where it is a pod's termination message."""

_MESSAGE_LENGTH_MAX = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """How far a job has come.

    Attributes:
        phase: A word or two: `starting Spark`, `writing`, `waiting for lock`.
        done: Finished items: batches of a write, file groups of a compaction.
        total: All items; 0 while not known.
        updated_ms: When this was reported, milliseconds since the epoch.
    """

    phase: str
    done: int
    total: int
    updated_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedInstant:
    """One instant that the job took part in.

    Attributes:
        requested_time: Its name.
        completion_time: None for a plan that was only requested.
        action: As on the timeline: deltacommit, commit, compaction.
        batch_id: The batch it holds, of a writer's run.
    """

    requested_time: instants.InstantTime
    completion_time: instants.InstantTime | None
    action: str
    batch_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobError:
    """Why a job failed.

    Attributes:
        kind: Of the class in `hoodie.errors`, or `Internal`.
        message: One line.
    """

    kind: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """The report of a job at its end.

    Attributes:
        attempt: As in its spec.
        error: None when everything asked for was done.
        instants: In the order of their completion; the oldest are left out when there are more
            than fit, see `commit_count`.
        commit_count: All commits of this attempt.
        skipped_count: Batches that the timeline held already.
        records: Rows written, deletes not counted.
        deletes: Keys deleted.
        files: Data files written; of a rollback or a clean, deleted; of a savepoint, kept.
        bytes: Their summed size.
        file_groups: File groups compacted, of a compaction.
        left_out: File groups, or files of a clean, that did not fit into its plan.
        archived: Instants moved out of the active timeline, or that would be.
        trimmed: Instants deleted from the archived timeline, or that would be.
        reason: Why nothing was planned, or what keeps the rest; empty if neither applies.
        duration_ms: From start to end.
        read_ms: Spent reading and preparing input.
        write_ms: Spent merging, encoding and writing data.
        lock_wait_ms: Summed waits for the table lock.
        lock_hold_ms: Summed times it was held.
        memory_bytes_max: Peak of resident memory of the job's own process; 0 where unknown.
        findings: What the operator's user should know though nothing failed.
    """

    attempt: int
    error: JobError | None = None
    instants: tuple[CommittedInstant, ...] = ()
    commit_count: int = 0
    skipped_count: int = 0
    records: int = 0
    deletes: int = 0
    files: int = 0
    bytes: int = 0
    file_groups: int = 0
    left_out: int = 0
    archived: int = 0
    trimmed: int = 0
    reason: str = ""
    duration_ms: int = 0
    read_ms: int = 0
    write_ms: int = 0
    lock_wait_ms: int = 0
    lock_hold_ms: int = 0
    memory_bytes_max: int = 0
    findings: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """What the process that gives this result exits with."""
        if self.error is None:
            return errors.EXIT_DONE
        return errors.EXIT_CODES.get(self.error.kind, errors.EXIT_INTERNAL)


def encode_result(result: JobResult) -> bytes:
    """Return the content of a result file, at most `RESULT_BYTES_MAX` long.

    What does not fit is left out: first the oldest instants, then the last findings, then the end
    of the error's message.
    """
    error = result.error
    if error is not None and len(error.message) > _MESSAGE_LENGTH_MAX:
        error = replace(error, message=error.message[: _MESSAGE_LENGTH_MAX - 3] + "...")
        result = replace(result, error=error)
    while len(content := json_values.encode(result)) > RESULT_BYTES_MAX:
        if result.instants:
            result = replace(result, instants=result.instants[1:])
        elif result.findings:
            result = replace(result, findings=result.findings[:-1])
        else:
            assert result.error is not None, "numbers alone are never that long"
            message = result.error.message
            result = replace(result, error=replace(result.error, message=message[:-32]))
    return content


def decode_result(content: bytes, source: str) -> JobResult:
    """Return the result in a file's content.

    Raises:
        InvalidInputError: The content does not fit.
    """
    return json_values.decode(JobResult, content, source)


def encode_progress(progress: JobProgress) -> bytes:
    """Return the content of a progress file."""
    return json_values.encode(progress)


def decode_progress(content: bytes, source: str) -> JobProgress:
    """Return the progress in a file's content.

    Raises:
        InvalidInputError: The content does not fit.
    """
    return json_values.decode(JobProgress, content, source)
