"""TableActions of type Mirror: the table's mirror in Iceberg is made, or brought up to date.

Done when a run has ended well: done twice it is done once.
"""

from hoodie.contract import job_specs
from hoodie_operator.api import objects, table_action
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.states import State
from hoodie_operator.reconcile import facts, interlocks, runs
from hoodie_operator.reconcile.actions.services import WithoutInstant
from hoodie_operator.reconcile.verdicts import Verdict, succeeded
from hoodie_operator.reconcile.world import World


class Mirror(WithoutInstant):
    """Registers the table's base files in an Iceberg table beside it."""

    def done(
        self, me: objects.Action, seen: facts.TableFacts, found: runs.Situation
    ) -> Verdict | None:
        """Return that a run has ended well."""
        del seen
        if not runs.has_succeeded(found.status):
            return None
        result = me.status.result
        files = 0 if result is None else result.files or 0
        return succeeded(f"the mirror names {files} base file{'' if files == 1 else 's'}")

    def work(
        self, me: objects.Action, table: objects.Table, seen: facts.TableFacts
    ) -> job_specs.Work | Verdict:
        """Return the run."""
        del table, seen
        how = me.spec.mirror or table_action.MirrorParameters()
        catalog = how.catalog
        return job_specs.Mirror(
            kept=how.keep_snapshots,
            catalog=None if catalog is None else catalog.name,
            table=None if catalog is None else catalog.table,
        )

    def conflict(
        self, world: World, me: objects.Action, table: objects.Table, seen: facts.TableFacts
    ) -> Verdict | None:
        """Return why a run waits: of two at once one would work in vain."""
        del seen
        other = interlocks.other_at_work(world, table, me, (me.spec.type,))
        if other is None:
            return None
        return Verdict(
            state=State.BLOCKED,
            reason=Reason.TABLE_BUSY,
            message=f"{other.key} has an active run, expected one at a time",
        )
