"""Compactions of a writer: planned, and executed if it is asked for, after each of its commits.

Invariant: the commit has taken effect, so that nothing that fails here fails the write; it becomes
a finding. Source: `BaseHoodieTableServiceClient.java`, `runTableServicesInline` (1.2.0).
"""

import logging
from dataclasses import dataclass, replace

from hoodie import deferred, environment, errors
from hoodie.maintenance.findings import caught
from hoodie.model import compaction_options, instants
from hoodie.timeline import chain
from hoodie.transaction import authors, manager

with deferred.imports():
    from hoodie.maintenance import table_service
    from hoodie.maintenance.compaction import planning, service

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What was done after a commit.

    Attributes:
        planned: The compaction that was planned; None for none.
        findings: What went wrong, or holds compactions back.
    """

    planned: instants.InstantTime | None = None
    findings: tuple[str, ...] = ()


def after_commit(
    target: manager.Target,
    options: compaction_options.CompactionOptions,
    transaction: manager.TransactionOptions,
    env: environment.Environment,
) -> Done:
    """Plan a compaction after a commit where the options say so; execute what is pending likewise.

    A writer waits for its trigger. Where none is set, the commits since the last request count:
    Apache Hudi counts them since the last completed compaction, but plans none while one is
    pending. Not due is no finding; too many pending compactions are one.

    Args:
        target: The table.
        options: Of compaction.
        transaction: The writer's; the compaction is on behalf of no writer.
        env: Time, ids, threads.
    """
    if not options.is_planned_by_writer or target.config.is_copy_on_write:
        return Done()
    # Not as the writer: its next write may begin while another process executes the plan.
    own = replace(transaction, author=authors.Author())
    findings: list[str] = []
    if options.is_inline:
        caught("pending compactions", findings, lambda: _execute_pending(target, own, env))
    trigger = options.trigger or compaction_options.Trigger.NUM_COMMITS_AFTER_LAST_REQUEST
    planned: list[instants.InstantTime] = []

    def plan() -> None:
        found = service.schedule(target, replace(options, trigger=trigger), own, env)
        if found.instant is not None:
            planned.append(found.instant)
        elif found.outcome == planning.Outcome.TOO_MANY_PENDING.value:
            findings.append(f"no compaction is planned: {found.outcome}: {found.message}")

    caught("compaction is not planned", findings, plan)
    instant = planned[0] if planned else None
    if options.is_inline and instant is not None:

        def execute() -> None:
            table_service.execute(service.Compaction(), target, instant, own, env)

        caught(f"compaction {instant} stays pending", findings, execute)
    return Done(planned=instant, findings=tuple(findings))


def _execute_pending(
    target: manager.Target, own: manager.TransactionOptions, env: environment.Environment
) -> None:
    for each in chain.load(target.storage, target.config).pending_compactions:
        try:
            table_service.execute(service.Compaction(), target, each.requested_time, own, env)
        except errors.ConflictError:
            # The one that executes it, or has done so meanwhile, is alive.
            logger.info("%s: %s is executed elsewhere", target.storage.uri, each)
