"""Jobs for tests of process handling: they commit to a real timeline, and write no data.

    python -m fake_create|fake_write|fake_compact|fake_drop SPEC.json

`$FAKE_CONTROL` is a JSON file that says how they behave, read anew at each step:

    delay_s      how long each step takes
    held         after how many commits a run waits, a write begun, until this says otherwise: by
                 the writer's id, or for `compaction`
    errors       kinds of errors to end with, one an attempt, by the owner's id
    crash        owners' ids that end without a result
    hang         owners' ids that ignore being told to stop and never end

`$FAKE_CONTROL` with the suffix .journal gets a line for each thing that happens.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from hoodie import clock, errors
from hoodie.contract import attempt_fences, job_results, job_specs
from hoodie.format import instant_names, timeline_avro
from hoodie.model import commits, instants, plans, table_config
from hoodie.model.instants import Action, Instant, InstantTime, State
from hoodie.storage import locations
from hoodie.storage.protocol import Storage
from hoodie.timeline import active, table_properties

CONTROL = Path(os.environ["FAKE_CONTROL"])
JOURNAL = CONTROL.with_suffix(".journal")


def control() -> dict[str, object]:
    return dict(json.loads(CONTROL.read_text()))


def note(*words: object) -> None:
    with JOURNAL.open("a") as file:
        file.write(" ".join(str(word) for word in words) + "\n")


class Job:
    def __init__(self, path: str) -> None:
        self.spec = job_specs.decode_spec(Path(path).read_bytes(), path)
        self.storage: Storage = locations.open_storage(self.spec.table_uri, self.spec.allowed_roots)
        self.owner = self.spec.writer_id or self.spec.action_id or ""
        # What is left of it counts the object's own attempts.
        self.attempt = self.spec.attempt % 1_000_000
        self.result = job_results.JobResult(attempt=self.spec.attempt)

    def tell(self, phase: str, done: int = 0, total: int = 0) -> None:
        assert self.spec.progress_path is not None
        progress = job_results.JobProgress(
            phase=phase, done=done, total=total, updated_ms=clock.SystemClock().now_ms()
        )
        self._replace(self.spec.progress_path, job_results.encode_progress(progress))

    def end(self, error: job_results.JobError | None) -> int:
        fields = {
            name: getattr(self.result, name)
            for name in ("attempt", "commit_count", "skipped_count", "instants")
        }
        result = job_results.JobResult(**fields, error=error)
        self._replace(self.spec.result_path, job_results.encode_result(result))
        note("end", self.owner, self.attempt, error.kind if error else "done")
        return result.exit_code

    def pause(self, name: str = "", commits: int = 0) -> None:
        time.sleep(float(str(control().get("delay_s", 0))))
        while name in (held := dict(control().get("held", {}))) and commits >= held[name]:  # type: ignore[call-overload]
            time.sleep(0.01)

    def misbehave(self) -> None:
        told = control()
        if self.owner in list(told.get("hang", [])):  # type: ignore[call-overload]
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            note("hangs", self.owner, self.attempt)
            time.sleep(600)
        if self.owner in list(told.get("crash", [])):  # type: ignore[call-overload]
            os._exit(3)
        kinds = dict(told.get("errors", {})).get(self.owner, [])  # type: ignore[call-overload]
        if self.attempt <= len(kinds) and kinds[self.attempt - 1]:
            raise RuntimeError(kinds[self.attempt - 1])

    def check_fence(self) -> None:
        assert isinstance(self.spec.fence, attempt_fences.FenceFile)
        fence = attempt_fences.decode_fence(Path(self.spec.fence.path).read_bytes(), "fence")
        if (fence.attempt, fence.protocol_hash) != (self.spec.attempt, self.spec.protocol_hash):
            raise RuntimeError(errors.FencedError.kind)

    def put(self, instant: Instant, content: bytes) -> None:
        self.storage.create(f"{active.DIRECTORY}/{instant_names.file_name(instant)}", content)

    def now(self) -> InstantTime:
        latest = active.load(self.storage).greatest_time
        now = instants.format_time(clock.SystemClock().now_ms())
        return now if latest is None or now > latest else instants.next_time(latest)

    @staticmethod
    def _replace(path: str, content: bytes) -> None:
        partial = Path(f"{path}.partial")
        partial.write_bytes(content)
        partial.replace(path)


def commit(
    job: Job, requested: InstantTime, action: Action, extra: dict[str, str], log_bytes: int
) -> None:
    job.check_fence()
    stat = commits.WriteStat(
        file_id="0",
        partition_path="",
        path="x",
        prev_commit="null",
        records=1,
        inserts=1,
        updates=0,
        deletes=0,
        size_bytes=log_bytes,
        log_files=("x",) if log_bytes else (),
    )
    metadata = commits.CommitMetadata(
        operation="UPSERT" if log_bytes else "COMPACT",
        stats=(stat,),
        extra={commits.SCHEMA_KEY: "", **extra},
        is_compacted=not log_bytes,
    )
    completed = Instant(
        requested_time=requested,
        action=action.completed,
        state=State.COMPLETED,
        completion_time=job.now(),
    )
    job.put(completed, timeline_avro.encode_commit(metadata))
    job.result = job_results.JobResult(
        attempt=job.spec.attempt, commit_count=job.result.commit_count + 1
    )


def create(job: Job) -> None:
    config = table_config.from_properties(job.spec.table_properties)
    job.pause()
    try:
        table_properties.create(job.storage, config, clock.SystemClock())
    except errors.AlreadyExistsError:
        assert isinstance(job.spec.work, job_specs.CreateTable)
        if not job.spec.work.may_adopt:
            raise RuntimeError(errors.AlreadyExistsError.kind) from None


def write(job: Job) -> None:
    work = job.spec.work
    assert isinstance(work, job_specs.WriteBatches)
    assert job.spec.writer_id is not None
    job.tell("starting", 0, len(work.batches))
    for done, batch in enumerate(work.batches):
        job.tell("writing", done, len(work.batches))
        requested = job.now()
        state = {State.REQUESTED: b"", State.INFLIGHT: b""}
        for each, content in state.items():
            job.put(
                Instant(requested_time=requested, action=Action.DELTA_COMMIT, state=each), content
            )
        job.pause(job.owner, done)
        extra = {commits.WRITER_ID_KEY: job.spec.writer_id, commits.BATCH_ID_KEY: batch.id}
        commit(job, requested, Action.DELTA_COMMIT, extra, 100)
        note("commit", job.owner, job.attempt, batch.id.partition("@")[0])


def compact(job: Job) -> None:
    work = job.spec.work
    assert isinstance(work, job_specs.Compact)
    job.tell("planning")
    extra = {commits.ACTION_ID_KEY: job.spec.action_id or ""}
    requested = InstantTime(work.instant_time or job.now())
    if work.instant_time is None:
        plan = plans.CompactionPlan(operations=(), extra=extra)
        job.put(
            Instant(requested_time=requested, action=Action.COMPACTION, state=State.REQUESTED),
            timeline_avro.encode_compaction_plan(plan),
        )
        note("plan", job.owner, job.attempt, requested)
    job.pause("compaction")
    commit(job, requested, Action.COMPACTION, extra, 0)
    note("compact", job.owner, job.attempt, requested)


def drop(job: Job) -> None:
    job.storage.delete_directory("")


def main(perform: Callable[[Job], None]) -> int:
    job = Job(sys.argv[1])
    note("start", job.owner, job.attempt)
    try:
        job.misbehave()
        job.tell("working")
        perform(job)
    except RuntimeError as error:
        return job.end(job_results.JobError(kind=str(error), message="as the test wants it"))
    return job.end(None)
