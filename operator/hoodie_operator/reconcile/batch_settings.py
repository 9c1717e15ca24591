"""What a Writer's runs take up at their next batch, and the hash of it, which their commits carry.

The third hash beside those of `effective`: a change of it stops no run and waits for none. The
form is canonical and holds only what differs from the defaults, as that of `protocols`.
"""

import hashlib
import json
from typing import Final

from hoodie.contract import batch_settings
from hoodie.model import compaction_options
from hoodie_operator.api import compaction_plan, hudi_table, objects
from hoodie_operator.api.conditions import ConditionStatus, Type
from hoodie_operator.api.reasons import Reason
from hoodie_operator.reconcile import facts, protocols
from hoodie_operator.reconcile.verdicts import Statement

FORM: Final = 1


def of_writer(me: objects.Writer, table: objects.Table) -> batch_settings.BatchSettings:
    """Return the settings of a Writer's next batch."""
    compaction = _compaction(me, table)
    form = {"form": FORM, **({"compaction": compaction} if compaction else {})}
    text = json.dumps(form, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()[: protocols.LENGTH]
    return batch_settings.BatchSettings(hash=f"{FORM}-{digest}", compaction=compaction)


def _compaction(me: objects.Writer, table: objects.Table) -> dict[str, str]:
    """Return what a writer plans after its commits, by the core's options; none for nothing."""
    wanted = me.spec.compaction
    is_operators = table.spec.services.compaction is hudi_table.ServiceOwner.OPERATOR
    if wanted is None or not is_operators or table.spec.is_copy_on_write:
        return {}
    options = compaction_options.CompactionOptions(
        is_scheduled_inline=True, delta_commits=wanted.delta_commits
    )
    return {
        **compaction_options.to_properties(options),
        **compaction_plan.properties(wanted.plan),
    }


def is_outdated(run: facts.Run, wanted: batch_settings.BatchSettings) -> bool:
    """Return whether an attempt at work is to be given other settings than it has.

    One that an earlier release started has no hash and reads none: the next attempt has them.
    """
    return run.batch_settings_hash not in ("", wanted.hash)


def pending(
    run: facts.Run | None, wanted: batch_settings.BatchSettings, committed: str | None
) -> tuple[Statement, ...]:
    """Return that an attempt at work has not committed under the current settings yet.

    Args:
        run: The attempt; None when there is none.
        wanted: The settings of the next batch.
        committed: The hash that the writer's newest commit carries; None for no such commit.
    """
    if run is None or not run.batch_settings_hash or committed in (None, wanted.hash):
        return ()
    statement = Statement(
        type=Type.BATCH_SETTINGS_PENDING,
        status=ConditionStatus.TRUE,
        reason=Reason.NEXT_BATCH.value,
        message=(
            f"the newest commit has the batch settings {committed}; the active attempt takes up "
            f"{wanted.hash} at its next batch"
        ),
    )
    return (statement,)
