"""TableActions of types DeletePartitions and DeleteRows: rows are deleted, once.

Done when a run has ended well. A run that was killed is followed by one that finds what is left:
partitions that still have rows, rows that match by then. The run and optimistic writers find out
when they complete who was first.

Whether the table's timeline has a commit of the action does not say that it is done: an action of
that name, with another filter, may have been there before.
"""

from abc import ABC, abstractmethod

from hoodie import errors
from hoodie.contract import job_specs
from hoodie.read import where as where_text
from hoodie_operator.api import objects
from hoodie_operator.api.reasons import Reason
from hoodie_operator.reconcile import facts, runs
from hoodie_operator.reconcile.actions.services import WithoutInstant
from hoodie_operator.reconcile.verdicts import Verdict, stalled, succeeded
from hoodie_operator.reconcile.world import World


class _Deletion(WithoutInstant, ABC):
    """What the types share."""

    def done(
        self, me: objects.Action, seen: facts.TableFacts, found: runs.Situation
    ) -> Verdict | None:
        """Return that a run has ended well."""
        del seen
        if not runs.has_succeeded(found.status):
            return None
        return succeeded(self._done_message(me))

    def work(
        self, me: objects.Action, table: objects.Table, seen: facts.TableFacts
    ) -> job_specs.Work | Verdict:
        """Return the run; none of a table whose writers do not block each other."""
        del seen
        if table.spec.is_non_blocking:
            return stalled(
                me,
                Reason.OPERATION_NOT_ALLOWED,
                f"{self._loss(table)} in mode {table.spec.concurrency.mode.value} would be "
                "deleted as well, expected a table of mode SingleWriter or Optimistic",
            )
        return self._work(me)

    def conflict(
        self, world: World, me: objects.Action, table: objects.Table, seen: facts.TableFacts
    ) -> Verdict | None:
        """Return None: it waits for none."""
        del world, me, table, seen
        return None

    @abstractmethod
    def _work(self, me: objects.Action) -> job_specs.Work | Verdict: ...

    @abstractmethod
    def _done_message(self, me: objects.Action) -> str: ...

    @abstractmethod
    def _loss(self, table: objects.Table) -> str:
        """Return what would be lost that writers of the table do meanwhile."""


class DeletePartitions(_Deletion):
    """Retires all file groups of partitions."""

    def _work(self, me: objects.Action) -> job_specs.Work:
        return job_specs.DeletePartitions(partitions=_partitions(me))

    def _done_message(self, me: objects.Action) -> str:
        count = len(_partitions(me))
        noun = "partition has" if count == 1 else "partitions have"
        return f"{count} {noun} no rows of before"

    def _loss(self, table: objects.Table) -> str:
        return f"what writers of HudiTable {table.name} add meanwhile"


class DeleteRows(_Deletion):
    """Deletes the rows that a filter keeps."""

    def _work(self, me: objects.Action) -> job_specs.Work | Verdict:
        assert me.spec.delete_rows is not None, "a rule has it required"
        where = me.spec.delete_rows.where
        try:
            # An API server cannot: no rule of a CRD has a grammar.
            where_text.parse(where)
        except errors.HoodieError as error:
            return stalled(me, Reason.INVALID_SPEC, f"deleteRows.where: {error}")
        return job_specs.DeleteRows(where=where)

    def _done_message(self, me: objects.Action) -> str:
        del me
        return "the rows that matched are deleted"

    def _loss(self, table: objects.Table) -> str:
        return f"rows that writers of HudiTable {table.name} change meanwhile"


def _partitions(me: objects.Action) -> tuple[str, ...]:
    assert me.spec.delete_partitions is not None, "a rule has it required"
    return me.spec.delete_partitions.partitions
