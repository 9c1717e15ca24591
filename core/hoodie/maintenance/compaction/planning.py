"""The plan of a compaction: which file slices, and with which of their log files.

Invariants:
    - a plan takes only log files completed before the plan's own instant, so that what completes
      later falls into the slice that begins at the instant (RFC-66);
    - no file group is in two pending plans;
    - what has log files and is in no plan, or has some behind one, is named by its partition in the
      plan: planning finds it again, and so does Apache Hudi's, which is incremental;
    - a plan is immutable;
    - what is merged is all of the slice that ends at the plan's instant, also what the plan missed:
      the base file hides it.

Source: RFC-66; `BaseHoodieCompactionPlanGenerator.java` (1.2.0).
"""

import enum
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from hoodie.filegroup import snapshots
from hoodie.maintenance.compaction import incremental, strategies, triggers
from hoodie.model import compaction_options, files, instants, plans

logger = logging.getLogger(__name__)


class Outcome(enum.Enum):
    """What was decided about a compaction."""

    PLANNED = "planned"
    NOT_DUE = "not due"
    TOO_MANY_PENDING = "too many pending compactions"
    NOTHING_TO_COMPACT = "nothing to compact"
    NOTHING_CHOSEN = "nothing chosen"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to compact, or why nothing.

    Attributes:
        outcome: In a word.
        message: With numbers.
        plan: What to request; set exactly when the outcome is PLANNED.
        selection: Of all candidates; empty where they were not looked at.
    """

    outcome: Outcome
    message: str
    plan: plans.CompactionPlan | None = None
    selection: strategies.Selection = strategies.NOTHING


def decide(
    snapshot: snapshots.Snapshot,
    requested_time: instants.InstantTime,
    options: compaction_options.CompactionOptions,
) -> Decision:
    """Return what a compaction that is requested at a time takes, or why there is to be none.

    Lists the table only where the trigger and the limit of pending compactions allow one, or, where
    planning is incremental, partitions of it.

    Args:
        snapshot: As of the request.
        requested_time: The plan's, above all times on the timeline.
        options: Trigger, strategies and bounds.
    """
    verdict = triggers.evaluate(snapshot.timeline, requested_time, options)
    if not verdict.is_due:
        return Decision(outcome=Outcome.NOT_DUE, message=verdict.message)
    pending = sorted(snapshot.compactions)
    if len(pending) >= options.pending_max:
        return Decision(
            outcome=Outcome.TOO_MANY_PENDING,
            message=(
                f"{len(pending)} compactions are pending, the oldest {pending[0]}, expected fewer "
                f"than {options.pending_max} ({compaction_options.MAX_KEY}): run one first"
            ),
        )
    view = snapshot.view
    partitions = incremental.partitions(snapshot) if options.is_incremental else None
    slices = changed(view.slices_for_compaction(requested_time, partitions))
    if not slices:
        return Decision(
            outcome=Outcome.NOTHING_TO_COMPACT,
            message="no file group outside pending compactions has log files to merge",
        )
    selection = strategies.select(map(strategies.candidate_of, slices), options, requested_time)
    if not selection.taken:
        names = ", ".join(each.value for each in options.strategies)
        return Decision(
            outcome=Outcome.NOTHING_CHOSEN,
            message=f"strategy {names} chose none of {len(slices)} file groups",
            selection=selection,
        )
    behind = changed(view.slices_behind_compactions(requested_time))
    plan = replace(
        _plan(slices, selection, behind), extra=incremental.recorded(snapshot, requested_time)
    )
    message = f"{len(selection.taken)} of {len(slices)} file groups"
    return Decision(outcome=Outcome.PLANNED, message=message, plan=plan, selection=selection)


def changed(slices: Iterable[files.FileSlice]) -> list[files.FileSlice]:
    """Return those with more to merge than kept deletes."""
    return [each for each in slices if each.is_changed]


def _plan(
    slices: Sequence[files.FileSlice],
    selection: strategies.Selection,
    behind: Sequence[files.FileSlice],
) -> plans.CompactionPlan:
    """Return the plan of a selection, with the partitions that it misses something of.

    Apache Hudi's next plan looks at no others but those with commits since: without them it leaves
    what is missed alone until the partition is written again. It records fewer, see
    `docs/protocol.md`: Compaction.
    """
    by_group = {each.group: each for each in slices}
    missed = [candidate.group for candidate, _ in selection.others]
    missed += [each.group for each in behind]
    return plans.CompactionPlan(
        operations=tuple(_operation(by_group[each.group], each) for each in selection.taken),
        missed_partitions=tuple(sorted({group.partition_path for group in missed})),
    )


def plan_to_execute(
    snapshot: snapshots.Snapshot, requested_time: instants.InstantTime
) -> plans.CompactionPlan:
    """Return the plan of a pending compaction, with all log files of its slices.

    The planner may have been paused until it had lost the lock, and have missed some that completed
    meanwhile. Since the plan is on the timeline nothing completes before its instant.

    Args:
        snapshot: Taken since then.
        requested_time: The compaction's.
    """
    plan = snapshot.compactions[requested_time]
    slices = snapshot.view.slices_below(requested_time)
    found = {each.group: each for each in slices}
    operations = []
    for operation in plan.operations:
        file_slice = found.get(operation.group)
        names = tuple(log.name for log in file_slice.log_files) if file_slice else ()
        if file_slice and set(names) > set(operation.log_file_names):
            logger.warning(
                "%s: the plan misses some files of %s", operation.group, ", ".join(names)
            )
            metrics = _metrics(strategies.candidate_of(file_slice))
            operations.append(replace(operation, log_file_names=names, metrics=metrics))
        else:
            operations.append(operation)
    return replace(plan, operations=tuple(operations))


def _operation(
    file_slice: files.FileSlice, candidate: strategies.Candidate
) -> plans.CompactionOperation:
    base = file_slice.base_file
    return plans.CompactionOperation(
        group=file_slice.group,
        base_instant_time=file_slice.base_instant_time,
        base_file_name=base.name if base else None,
        log_file_names=tuple(log.name for log in file_slice.log_files),
        metrics=_metrics(candidate),
    )


def _metrics(candidate: strategies.Candidate) -> dict[str, float]:
    """Return sizes as Apache Hudi's plans have them. Source: `FileSliceMetricUtils.java`."""
    return {
        "TOTAL_LOG_FILES": float(candidate.log_files),
        plans.LOG_BYTES: float(candidate.log_bytes),
        "TOTAL_IO_READ_MB": float(candidate.read_mib),
        "TOTAL_IO_WRITE_MB": float(candidate.write_mib),
        "TOTAL_IO_MB": float(candidate.io_mib),
    }
