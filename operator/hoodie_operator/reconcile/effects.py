"""What a decision asks the outside to do; every effect may be carried out again without harm."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from hoodie.contract import batch_settings, engine_specs, job_specs
from hoodie.maintenance.compaction import memory
from hoodie_operator.api import conditions, execution, fields, objects
from hoodie_operator.reconcile import effective, facts

_ENGINES = {
    execution.Engine.LOCAL: engine_specs.EngineKind.LOCAL,
    execution.Engine.SPARK: engine_specs.EngineKind.SPARK,
}

_PROGRAMS: Final[Mapping[type, str]] = {
    job_specs.CreateTable: "hoodie_jobs.create",
    job_specs.WriteBatches: "hoodie_jobs.write",
    job_specs.Compact: "hoodie_jobs.compact",
    job_specs.RollBack: "hoodie_jobs.rollback",
    job_specs.Clean: "hoodie_jobs.clean",
    job_specs.Archive: "hoodie_jobs.archive",
    job_specs.CreateSavepoint: "hoodie_jobs.savepoint",
    job_specs.DeleteSavepoints: "hoodie_jobs.savepoint",
    job_specs.DeletePartitions: "hoodie_jobs.deletions",
    job_specs.DeleteRows: "hoodie_jobs.deletions",
    job_specs.ConfigureTable: "hoodie_jobs.configure",
    job_specs.InitialiseMetadata: "hoodie_jobs.metadata",
    job_specs.DropMetadata: "hoodie_jobs.metadata",
    job_specs.BuildIndexes: "hoodie_jobs.index",
    job_specs.DropIndexes: "hoodie_jobs.index",
    job_specs.Mirror: "hoodie_jobs.mirror",
    job_specs.DropTable: "hoodie_jobs.drop",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRun:
    """Start an attempt, unless one of this id was ever started.

    Attributes:
        id: Which.
        fence_number: Higher than that of every earlier attempt for the same writer or action, of
            an earlier object of the same name, too.
        table: What every run of the table is told.
        work: What to do.
        runtime: What on.
        run_hash: See `effective`.
        memory_percent: How much of the declared memory it gets, 100 for just that: more after
            attempts that ran out of it.
        writer_id: Of a Writer's run.
        action_id: Of a TableAction's run, or a HudiTable's own.
        plan_size: Of the planned compaction that it executes; None where there is none yet.
    """

    id: facts.RunId
    fence_number: int
    table: effective.EffectiveTable
    work: job_specs.Work
    runtime: execution.Runtime
    run_hash: str
    memory_percent: int
    writer_id: str | None
    action_id: str | None
    plan_size: memory.PlanSize | None = None

    @property
    def batch_settings_hash(self) -> str:
        """Of the settings that it begins with; empty for work that has no batches."""
        work = self.work
        return work.settings.hash if isinstance(work, job_specs.WriteBatches) else ""

    @property
    def program(self) -> str:
        """The module that does the work."""
        return _PROGRAMS[type(self.work)]

    @property
    def engine(self) -> engine_specs.EngineSpec:
        """What a job is told of its runtime."""
        return engine_specs.EngineSpec(
            kind=_ENGINES[self.runtime.engine],
            parallelism=self.runtime.parallelism,
            spark_conf=self.runtime.spark_conf or {},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRun:
    """Ask an attempt to stop; kill it when it was asked before and its grace is over.

    Attributes:
        id: Which.
        is_killed: Whether its grace is over.
        reason: For people.
    """

    id: facts.RunId
    is_killed: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveBatchSettings:
    """Give an attempt at work the settings that it takes up at its next batch."""

    id: facts.RunId
    settings: batch_settings.BatchSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class SetStatus:
    """Make this the status of an object; nothing when it is already."""

    key: objects.ObjectKey
    uid: str
    status: conditions.Status


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateObject:
    """Create an object, unless one of its key is there."""

    key: objects.ObjectKey
    owner: objects.Owner
    spec: fields.Block


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveObject:
    """Remove an object that is to go, or that nobody needs any more, and what it owns."""

    key: objects.ObjectKey
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeLock:
    """See to it that a lock server of our own runs for a LockProvider.

    Attributes:
        key: Of the LockProvider.
        uid: Of it.
        users: HudiTables whose locks it serves: it stays for as long as one of them does.
    """

    key: objects.ObjectKey
    uid: str
    users: Sequence[objects.Owner] = ()


Effect: TypeAlias = (
    StartRun | StopRun | GiveBatchSettings | SetStatus | CreateObject | RemoveObject | ServeLock
)
