"""Helpers of a leader for tests on an API server alone: Jobs that are suspended, a lake in memory.

A run is at work until the test says that it has ended; what it did is then in the lake. Everything
that goes over the API server is real: Jobs, their labels, conflicts, refusals.
"""

import dataclasses
import hashlib
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from hoodie import clock
from hoodie.contract import input_sources, job_results, job_specs
from hoodie.model import instants, table_config
from hoodie_operator.api import configuration, objects, resources, times
from hoodie_operator.api.resources import Manifest
from hoodie_operator.cluster.adapters import lock_servers
from hoodie_operator.cluster.client import api, api_errors
from hoodie_operator.cluster.control import ports
from hoodie_operator.manifests import naming
from hoodie_operator.reconcile import effects, facts

ENDED = "test.hudi.dev/ended"
SUCCESS = "success"
_FIRST_MS = 1_700_000_000_000
_FILES = ((facts.SourceFile(path="/1.csv", token="1.csv@0"),),)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class By:
    """For whom a run works, as its job is told."""

    writer_id: str | None
    action_id: str | None


class Lake:
    """What is in the storage: a folder, so that operators of several processes share it.

    Attributes:
        folder: It.
        ends_at_once: Whether runs have done their work as soon as they are started.
    """

    def __init__(self, folder: Path, *, ends_at_once: bool = True) -> None:
        self.ends_at_once = ends_at_once
        self.folder = folder
        self._read: dict[Path, tuple[tuple[int, ...], object]] = {}
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def started(self) -> list[str]:
        """The attempts whose Jobs were made, one entry for each time."""
        log = self.folder / "started"
        return log.read_text().split() if log.exists() else []

    def note_asked(self, start: effects.StartRun) -> None:
        """Note what a Job is asked for, before it can be seen."""
        _replace(self._asked(naming.run(start.id)), start)

    def asked(self, job: str) -> effects.StartRun:
        """Return what the Job of a name is asked for."""
        return cast("effects.StartRun", pickle.loads(self._asked(job).read_bytes()))

    def note_started(self, start: effects.StartRun) -> None:
        """Note that the Job of an attempt was made."""
        with (self.folder / "started").open("a") as log:
            log.write(f"{start.id}\n")

    def table(self, uri: str) -> table_config.TableConfig | None:
        """Return the table at a place; None when there is none."""
        return cast("table_config.TableConfig | None", self._newest(self._path(uri)))

    def commits(self, uri: str) -> tuple[facts.Commit, ...]:
        """Return what was written into the table at a place, and compacted."""
        found = self._newest(self._path(uri).with_suffix(".commits"))
        return cast("tuple[facts.Commit, ...]", found or ())

    def work(self, start: effects.StartRun) -> None:
        """Have done what a run is started for."""
        by = By(writer_id=start.writer_id, action_id=start.action_id)
        self.do(start.work, start.table.uri, start.table.config, by)

    def do(self, work: job_specs.Work, uri: str, config: table_config.TableConfig, by: By) -> None:
        """Have done what a run is for."""
        match work:
            case job_specs.CreateTable():
                made = ("files",) if work.has_metadata_table else ()
                _replace(self._path(uri), dataclasses.replace(config, metadata_partitions=made))
            case job_specs.DropTable():
                self._path(uri).unlink(missing_ok=True)
            case job_specs.WriteBatches():
                for batch in work.batches:
                    self._commit(uri, by, batch)
            case job_specs.Compact():
                self._commit(uri, by, None)
            case job_specs.BuildIndexes():
                self._have_indexes(uri, added=work.names, columns=work.statistics_columns)
            case job_specs.DropIndexes():
                self._have_indexes(uri, dropped=work.names)

    def _have_indexes(
        self,
        uri: str,
        *,
        added: Sequence[str] = (),
        dropped: Sequence[str] = (),
        columns: Sequence[str] | None = None,
    ) -> None:
        before = self.table(uri)
        assert before is not None, f"there is no table at {uri}"
        names = {*before.metadata_partitions, *added} - {*dropped}
        properties = dict(before.properties)
        if columns is not None:
            properties[table_config.STATISTICS_COLUMNS_KEY] = ",".join(columns)
        after = dataclasses.replace(
            before, metadata_partitions=tuple(sorted(names)), properties=properties
        )
        _replace(self._path(uri), after)

    def _commit(self, uri: str, by: By, batch: input_sources.Batch | None) -> None:
        before = self.commits(uri)
        # No two instants share a time: each commit takes two.
        requested_ms = _FIRST_MS + 2 * len(before)
        commit = facts.Commit(
            requested_time=instants.format_time(requested_ms),
            completion_time=instants.format_time(requested_ms + 1),
            action=(
                instants.Action.COMMIT if batch is None else instants.Action.DELTA_COMMIT
            ).value,
            is_compaction=batch is None,
            writer_id=by.writer_id,
            action_id=by.action_id,
            batch_id=None if batch is None else batch.id,
            files=() if batch is None else batch.tokens,
            log_bytes=0 if batch is None else 1,
        )
        _replace(self._path(uri).with_suffix(".commits"), (*before, commit))

    def _newest(self, path: Path) -> object:
        """Return what a file holds, None without one; it is read anew where it was replaced.

        Where many tables are looked at, that is to cost little beside the operator itself.
        """
        try:
            told = path.stat()
            version = (told.st_ino, told.st_mtime_ns, told.st_size)
            known = self._read.get(path)
            if known is None or known[0] != version:
                known = self._read[path] = (version, pickle.loads(path.read_bytes()))
        except FileNotFoundError:
            return None
        return known[1]

    def _asked(self, job: str) -> Path:
        return self.folder / f"{job}.asked"

    def _path(self, uri: str) -> Path:
        return self.folder / f"{hashlib.sha256(uri.encode()).hexdigest()[:16]}.table"


def _replace(path: Path, content: object) -> None:
    written = path.with_name(f"{path.name}.written")
    written.write_bytes(pickle.dumps(content))
    written.replace(path)


class FakeRuns:
    """Runs as suspended Jobs."""

    def __init__(self, server: api.Api, lake: Lake) -> None:
        self._api = server
        self._lake = lake

    async def start(
        self, start: effects.StartRun, owner: objects.AnyObject, table: objects.Table
    ) -> Sequence[Manifest]:
        job = _job(start, owner, table)
        self._lake.note_asked(start)
        try:
            made = await self._api.create(job)
            self._lake.note_started(start)
        except api_errors.AlreadyExistsError:
            known = await self._api.get(resources.JOB, owner.key.namespace, naming.run(start.id))
            made = known or job
        if self._lake.ends_at_once:
            self._lake.work(start)
            made = await self.end(made)
        return [made]

    async def end(self, job: Manifest, how: str = SUCCESS) -> Manifest:
        """Have a run ended."""
        metadata = job["metadata"]
        patch = {"metadata": {"annotations": {ENDED: how}}}
        return await self._api.merge_patch(
            resources.JOB, metadata["namespace"], metadata["name"], patch
        )

    async def withdraw(self, job: Manifest) -> Manifest | None:
        return job

    async def stop(
        self,
        stop: effects.StopRun,
        of: ports.RunOwner,
        job: Manifest | None,
        pods: Sequence[Manifest],
    ) -> Sequence[Manifest]:
        del stop, of, pods
        return [] if job is None else [await self.end(job, "Cancelled")]

    async def give_batch_settings(
        self, given: effects.GiveBatchSettings, owner: objects.AnyObject, job: Manifest
    ) -> Manifest:
        del given, owner
        return job

    async def forget(self, run: facts.RunId, of: ports.RunOwner, job: Manifest) -> None:
        del run, of
        metadata = job["metadata"]
        await self._api.delete(
            resources.JOB, metadata["namespace"], metadata["name"], propagation="Background"
        )

    async def progress(
        self, job: Manifest, pods: Sequence[Manifest]
    ) -> job_results.JobProgress | str | None:
        del job, pods
        return None

    def read(
        self,
        job: Manifest | None,
        pods: Sequence[Manifest],
        progress: job_results.JobProgress | None,
        now_ms: int,
    ) -> facts.Run | None:
        return read_run(job, pods, progress, now_ms)


def read_run(
    job: Manifest | None,
    pods: Sequence[Manifest],
    progress: job_results.JobProgress | None,
    now_ms: int,
) -> facts.Run | None:
    """Return what a Job of these tests means."""
    del pods
    run_id = None if job is None else naming.run_id(job)
    if job is None or run_id is None:
        return None
    annotations = job["metadata"].get("annotations") or {}
    how = annotations.get(ENDED)
    error = None if how in (None, SUCCESS) else job_results.JobError(kind=how, message="as told")
    return facts.Run(
        id=run_id,
        protocol_hash=annotations[naming.PROTOCOL],
        run_hash=annotations.get(naming.RUN, ""),
        started_ms=times.epoch_ms(job["metadata"]["creationTimestamp"]),
        process="a test",
        progress=progress,
        ended_ms=None if how is None else now_ms,
        result=None if how is None else job_results.JobResult(attempt=run_id.attempt, error=error),
    )


class FakeObservers:
    """Observers that look at the lake."""

    def __init__(self, lake: Lake, our_clock: clock.Clock) -> None:
        self._lake = lake
        self._clock = our_clock

    def observer_of(self, table: objects.Table) -> str:
        return table.key.namespace

    async def look_at_tables(
        self, looks: Sequence[ports.TableLook]
    ) -> Mapping[str, facts.TableFacts | None]:
        now_ms = clock.monotonic_ms(self._clock)
        return {
            look.table.uid: facts.TableFacts(
                observed_ms=now_ms,
                config=self._lake.table(look.uri),
                commits=self._lake.commits(look.uri),
            )
            for look in looks
        }

    async def look_at_source(
        self, writer: objects.Writer, table: objects.Table
    ) -> facts.SourceFacts | None:
        del table
        return facts.SourceFacts(
            generation=writer.generation, observed_ms=clock.monotonic_ms(self._clock), groups=_FILES
        )

    async def keep(self, tables: Sequence[objects.Table]) -> None:
        del tables


class FakeLocks:
    """Lock providers that answer, and need no server."""

    def __init__(self, our_clock: clock.Clock) -> None:
        self._clock = our_clock

    async def look(self, lock: objects.Lock, before: facts.LockFacts | None) -> facts.LockFacts:
        named = lock.spec.zookeeper and lock.spec.zookeeper.servers
        return before or facts.LockFacts(
            generation=lock.generation,
            is_ready=True,
            servers=tuple(named or ("zk:2181",)),
            message="it answers",
            since_ms=self._clock.now_ms(),
        )

    async def serve(self, lock: objects.Lock, users: Sequence[objects.Owner]) -> None:
        del lock, users


class ServedLocks(FakeLocks):
    """Lock providers that answer; those that are embedded are served as the operator does it."""

    def __init__(self, server: api.Api, our_clock: clock.Clock) -> None:
        super().__init__(our_clock)
        told = configuration.parse(b"dataRoots: [/data]", "operator.yaml")
        self._servers = lock_servers.LockServers(server, told, our_clock)

    async def serve(self, lock: objects.Lock, users: Sequence[objects.Owner]) -> None:
        await self._servers.serve(lock, users)


def helpers(
    server: api.Api, lake: Lake, runs: ports.Runs, our_clock: clock.Clock
) -> ports.Adapters:
    """Return the helpers of a leader on a lake."""
    return ports.Adapters(
        runs=runs,
        observers=FakeObservers(lake, our_clock),
        locks=ServedLocks(server, our_clock),
    )


def _job(start: effects.StartRun, owner: objects.AnyObject, table: objects.Table) -> Manifest:
    labels = naming.run_labels(start.id, table.name)
    container = {"name": "run", "image": "none"}
    return {
        "apiVersion": resources.JOB.api_version,
        "kind": resources.JOB.kind,
        "metadata": {
            "name": naming.run(start.id),
            "namespace": owner.key.namespace,
            "labels": labels,
            "annotations": {
                naming.PROTOCOL: start.table.protocol_hash,
                naming.RUN: start.run_hash,
                naming.STARTED: "1",
            },
            "ownerReferences": [naming.owner_reference(owner)],
        },
        "spec": {
            "suspend": True,
            "template": {
                "metadata": {"labels": labels},
                "spec": {"restartPolicy": "Never", "containers": [container]},
            },
        },
    }
