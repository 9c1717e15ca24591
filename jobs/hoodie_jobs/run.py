"""One run of a job: its spec, how far it has come, and what it has done so far."""

import dataclasses
import logging
from typing import Any

from hoodie import clock, errors
from hoodie.contract import job_results, job_specs
from hoodie.model import instants, results
from hoodie_jobs import cancellation, files

logger = logging.getLogger(__name__)

_LOG_GAP_S = 5.0


class Run:
    """What the parts of a job share.

    The result grows as instants complete, so that a run that fails tells what it did before.
    """

    def __init__(
        self,
        spec: job_specs.JobSpec,
        system_clock: clock.Clock,
        stop: cancellation.Cancellation,
    ) -> None:
        self.spec = spec
        self.clock = system_clock
        self.cancellation = stop
        self.result = job_results.JobResult(attempt=spec.attempt)
        self.progress: job_results.JobProgress | None = None
        self._start_s = system_clock.monotonic_s()
        self._logged_phase = ""
        self._logged_s = 0.0

    @property
    def elapsed_ms(self) -> int:
        """Milliseconds since the run began."""
        return int((self.clock.monotonic_s() - self._start_s) * 1000)

    def tell(self, phase: str, done: int = 0, total: int = 0) -> None:
        """Tell whoever watches how far the run is; the log hears of a phase every few seconds."""
        now_s = self.clock.monotonic_s()
        if phase != self._logged_phase or now_s > self._logged_s + _LOG_GAP_S:
            self._logged_phase, self._logged_s = phase, now_s
            count = f" {done}/{total}" if total else ""
            logger.info("%s: %s%s", self.spec.table_uri, phase, count)
        self.progress = job_results.JobProgress(
            phase=phase, done=done, total=total, updated_ms=self.clock.now_ms()
        )
        if self.spec.progress_path is None:
            return
        try:
            content = job_results.encode_progress(self.progress)
            files.replace(self.spec.progress_path, content, is_durable=False)
        except errors.StorageError as error:
            # Nobody being able to watch is no reason to stop.
            logger.warning("cannot report progress: %s", error)

    def add(self, *, instant: job_results.CommittedInstant | None = None, **amounts: int) -> None:
        """Add amounts to the result's counters of these names, and an instant to its instants."""
        # The fields are all int, which replace() cannot know.
        changes: dict[str, Any] = {
            name: getattr(self.result, name) + amount for name, amount in amounts.items()
        }
        if instant is not None:
            changes["instants"] = (*self.result.instants, instant)
        self.result = dataclasses.replace(self.result, **changes)

    def complete(self, instant: instants.Instant, **amounts: int) -> None:
        """Add a completed instant to the result, and amounts as `add` does."""
        committed = job_results.CommittedInstant(
            requested_time=instant.requested_time,
            completion_time=instant.completion_time,
            action=instant.action.value,
        )
        self.add(instant=committed, commit_count=1, **amounts)

    def record(self, commit: results.CommitResult) -> None:
        """Add a commit to the result."""
        self.add(
            instant=job_results.CommittedInstant(
                requested_time=commit.instant.requested_time,
                completion_time=commit.instant.completion_time,
                action=commit.instant.action.value,
                batch_id=commit.batch_id,
            ),
            commit_count=1,
            records=commit.records,
            deletes=commit.deletes,
            files=commit.file_count,
            bytes=commit.size_bytes,
            lock_wait_ms=commit.lock_wait_ms,
            lock_hold_ms=commit.lock_hold_ms,
        )
        for finding in commit.findings:
            self.find(finding)

    def find(self, finding: str) -> None:
        """Add something that the user should know though nothing failed."""
        if finding not in self.result.findings:
            logger.warning("%s: %s", self.spec.table_uri, finding)
            self.result = dataclasses.replace(
                self.result, findings=(*self.result.findings, finding)
            )

    def explain(self, reason: str) -> None:
        """Add why nothing was done."""
        logger.info("%s: %s", self.spec.table_uri, reason)
        self.result = dataclasses.replace(self.result, reason=reason)

    def finish(
        self, error: job_results.JobError | None, memory_bytes_max: int
    ) -> job_results.JobResult:
        """Put the result where the spec says and return it.

        Raises:
            StorageError: A file cannot be written.
        """
        self.result = dataclasses.replace(
            self.result,
            error=error,
            duration_ms=self.elapsed_ms,
            memory_bytes_max=memory_bytes_max,
        )
        content = job_results.encode_result(self.result)
        if self.spec.termination_path is not None:
            files.write_into(self.spec.termination_path, content)
        if self.spec.result_path is not None:
            files.replace(self.spec.result_path, content, is_durable=True)
        return self.result
