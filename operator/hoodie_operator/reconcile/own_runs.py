"""The runs that a HudiTable has of its own: its creation or adoption, and the deletion of its data.

They follow from the HudiTable alone, its spec, its storage and that it is being deleted. Nothing
else starts them: no TableAction, and no owner reference, name or label of any object. Of both there
is never more than one attempt at work, and an attempt for the one is stopped before the other's.
"""

import enum
from typing import Final

from hoodie.contract import job_specs
from hoodie_operator.api import execution, fields, objects
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.states import State
from hoodie_operator.reconcile import effective, facts, interlocks, runs
from hoodie_operator.reconcile.verdicts import Verdict
from hoodie_operator.reconcile.world import World

_RUNTIME: Final = execution.Runtime()
_RETRY: Final = execution.Retry()
_SILENCE_MS: Final = fields.duration_ms("2h")
"""For so long one of them may tell of no progress; a large table takes its time in all."""

_UNEVENTFUL: Final = frozenset({Reason.STARTING, Reason.RUNNING, Reason.CONFIRMING})
"""What is told of every run on its way to success."""


class Purpose(enum.Enum):
    """What such a run is for; its run hash begins with it."""

    CREATION = "create"
    DELETION = "delete"


def situation(
    world: World,
    table: objects.Table,
    purpose: Purpose,
    resolved: effective.EffectiveTable | Verdict,
) -> runs.Situation:
    """Return where the table's own runs are.

    Args:
        world: Everything.
        table: The table.
        purpose: What the next run would be for.
        resolved: The table's effective configuration, or why it has none now.
    """
    deadlines = runs.deadlines(world, _SILENCE_MS)
    previous = table.status.runs
    is_known = isinstance(resolved, effective.EffectiveTable)
    protocol_hash = resolved.protocol_hash if isinstance(resolved, effective.EffectiveTable) else ""
    basis = runs.basis(
        table,
        [purpose.value, str(table.generation), protocol_hash],
        previous.basis if previous else None,
        is_known=is_known,
    )
    return runs.situation(world, table, previous, _RETRY, deadlines, basis)


def is_for(world: World, table: objects.Table, purpose: Purpose) -> bool:
    """Return whether the newest attempt was started for a purpose, as the attempt itself tells."""
    known = world.runs(table)
    return bool(known) and known[-1].run_hash.startswith(f"{purpose.value}-")


def is_recorded(table: objects.Table, run: facts.Run) -> bool:
    """Return whether the status has all that follows from an attempt, so that its Job may go.

    Once the table is there no creation is started again, whether a Job of one is left or not. A
    deletion is recorded by nothing but its Job: the object goes with it.
    """
    is_creation = run.run_hash.startswith(f"{Purpose.CREATION.value}-")
    return not run.is_running and bool(table.status.provisioned) and is_creation


def has_succeeded(
    world: World, table: objects.Table, found: runs.Situation, purpose: Purpose
) -> bool:
    """Return whether what is wanted now was done, as the newest attempt tells.

    What a deletion has done is the same whatever it was told. A creation was one of the table as it
    is declared now; an operator that was killed as soon as it had started it has noted no basis.
    """
    if not is_for(world, table, purpose) or not runs.has_succeeded(found.status):
        return False
    return purpose is Purpose.DELETION or found.status.tried_basis in (None, found.status.basis)


def watch(
    world: World,
    table: objects.Table,
    found: runs.Situation,
    resolved: effective.EffectiveTable | Verdict,
    unwanted: str | None,
) -> runs.Outcome:
    """Return what to do about the attempt at work, of which there must be one.

    Args:
        world: Everything.
        table: The table.
        found: Where its own runs are.
        resolved: The table's effective configuration, or why it has none now.
        unwanted: Why it is to end, as its purpose has it; None when it may go on.
    """
    why = unwanted or _outdated(world, table, found, resolved)
    return runs.stop_unwanted(found, why) if why else runs.advance(found, None)


def _outdated(
    world: World,
    table: objects.Table,
    found: runs.Situation,
    resolved: effective.EffectiveTable | Verdict,
) -> str | None:
    assert found.run is not None
    if isinstance(resolved, Verdict):
        return None
    if not resolved.agrees_with(found.run.protocol_hash):
        return f"the shared settings of HudiTable {table.name} changed"
    purpose = found.run.run_hash.partition("-")[0]
    run_hash = f"{purpose}-{_run_hash(world, table, resolved)}"
    return runs.OVERTAKEN if runs.is_overtaken(found.run, run_hash) else None


def _run_hash(world: World, table: objects.Table, wanted: effective.EffectiveTable) -> str:
    return effective.run_hash(table, wanted, _RUNTIME, world.limits.run_defaults)


def go_on(
    world: World,
    table: objects.Table,
    found: runs.Situation,
    wanted: effective.EffectiveTable,
    work: job_specs.CreateTable | job_specs.DropTable,
) -> runs.Outcome:
    """Return what to do where no attempt is at work and something is left to do.

    Args:
        world: Everything.
        table: The table.
        found: Where its own runs are.
        wanted: The table's effective configuration.
        work: What an attempt would do.
    """
    purpose = Purpose.CREATION if isinstance(work, job_specs.CreateTable) else Purpose.DELETION
    busy = interlocks.check_alone(world, table, wanted, table)
    if busy is not None:
        return runs.Outcome(effects=[], verdict=busy, status=found.status)
    job = runs.Job(
        table=wanted,
        work=work,
        runtime=_RUNTIME,
        run_hash=f"{purpose.value}-{_run_hash(world, table, wanted)}",
        # Its attempts are fenced; no TableAction has a name with a slash.
        action_id=f"{table.key.kind}/{table.name}",
    )
    return runs.advance(found, job)


def told(verdict: Verdict, state: State, reason: Reason) -> Verdict:
    """Return the verdict about a table from the one about its run.

    Args:
        verdict: About the run.
        state: Of the table while it has such a run.
        reason: The usual one; what is in the run's way has its own.
    """
    if verdict.state is State.STALLED:
        return verdict
    return Verdict(
        state=state,
        reason=reason if verdict.reason in _UNEVENTFUL else verdict.reason,
        message=verdict.message,
    )
