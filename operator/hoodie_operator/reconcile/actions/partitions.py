"""TableActions of type DeletePartitions: all rows of some partitions are deleted.

Done when a run has ended well. A run that was killed is followed by one that finds which partitions
still have rows. The run and optimistic writers of the partitions find out when they complete who
was first.
"""

from hoodie.contract import job_specs
from hoodie_operator.api import objects
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.states import State
from hoodie_operator.reconcile import facts, runs
from hoodie_operator.reconcile.actions.services import WithoutInstant
from hoodie_operator.reconcile.verdicts import Verdict, stalled
from hoodie_operator.reconcile.world import World


class DeletePartitions(WithoutInstant):
    """Retires all file groups of partitions."""

    def done(
        self, me: objects.Action, seen: facts.TableFacts, found: runs.Situation
    ) -> Verdict | None:
        """Return that a run has ended well."""
        del seen
        if not runs.has_succeeded(found.status):
            return None
        count = len(_partitions(me))
        noun = "partition has" if count == 1 else "partitions have"
        return Verdict(
            state=State.SUCCEEDED,
            reason=Reason.SUCCEEDED,
            message=f"{count} {noun} no rows of before",
        )

    def work(
        self, me: objects.Action, table: objects.Table, seen: facts.TableFacts
    ) -> job_specs.Work | Verdict:
        """Return the run; none of a table whose writers add rows without blocking."""
        del seen
        if table.spec.is_non_blocking:
            return stalled(
                me,
                Reason.OPERATION_NOT_ALLOWED,
                f"what writers of HudiTable {table.name} add meanwhile in mode "
                f"{table.spec.concurrency.mode.value} would be deleted as well, expected a table "
                "of mode SingleWriter or Optimistic",
            )
        return job_specs.DeletePartitions(partitions=_partitions(me))

    def conflict(
        self, world: World, me: objects.Action, table: objects.Table, seen: facts.TableFacts
    ) -> Verdict | None:
        """Return None: it waits for none."""
        del world, me, table, seen
        return None


def _partitions(me: objects.Action) -> tuple[str, ...]:
    assert me.spec.delete_partitions is not None, "a rule has it required"
    return me.spec.delete_partitions.partitions
