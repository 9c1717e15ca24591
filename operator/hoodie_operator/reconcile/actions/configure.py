"""TableActions of type Configure: a table gets a chain, or none, and admits the engines declared.

Its writes store as much of their changes as it declares.

Done when a run has ended and the table's properties say so. Nothing else runs meanwhile: a write
that began before would be refused when it completes.
"""

from hoodie.contract import job_specs
from hoodie_operator.api import objects
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.states import State
from hoodie_operator.reconcile import effective, facts, interlocks, runs
from hoodie_operator.reconcile.actions.services import WithoutInstant
from hoodie_operator.reconcile.verdicts import Verdict, succeeded
from hoodie_operator.reconcile.world import World


class Configure(WithoutInstant):
    """Changes which engines write a table, and whether it has a chain."""

    def done(
        self, me: objects.Action, seen: facts.TableFacts, found: runs.Situation
    ) -> Verdict | None:
        """Return that the table is as the action's last run made it."""
        if seen.config is None or not runs.has_succeeded(found.status):
            return None
        if (seen.config.chain is not None) is not _has_chain(me):
            return None
        told = "has a chain" if _has_chain(me) else "has no chain"
        admitted = "admits" if seen.config.has_foreign_writers else "excludes"
        mode = seen.config.change_data
        stored = "" if mode is None else f"; its writes store change data of mode {mode.value}"
        return succeeded(f"the table {told} and {admitted} other engines{stored}")

    def work(
        self, me: objects.Action, table: objects.Table, seen: facts.TableFacts
    ) -> job_specs.Work | Verdict:
        """Return a run that changes the table; the rest is as it declares."""
        del seen
        mode = effective.change_data(table.spec)
        has_chain = _has_chain(me)
        return job_specs.ConfigureTable(
            has_chain=has_chain,
            has_foreign_writers=not has_chain or table.spec.concurrency.external_writers,
            change_data="" if mode is None else mode.value,
        )

    def conflict(
        self, world: World, me: objects.Action, table: objects.Table, seen: facts.TableFacts
    ) -> Verdict | None:
        """Return why a run has to wait: for the end of all others, and of pending writes."""
        busy = next(interlocks.others_at_work(world, table, me), None)
        if busy is not None:
            return _blocked(
                Reason.TABLE_BUSY, f"{busy[1]}, expected none while the table's writers change"
            )
        for pending in seen.pending:
            if pending.is_alive:
                return _blocked(
                    Reason.OWNED_ELSEWHERE,
                    f"the heartbeat of instant {pending.requested_time} is alive: it has to end "
                    "before the table's writers change",
                )
        return None


def _has_chain(me: objects.Action) -> bool:
    return me.spec.configure is None or me.spec.configure.chain


def _blocked(reason: Reason, message: str) -> Verdict:
    return Verdict(state=State.BLOCKED, reason=reason, message=message)
