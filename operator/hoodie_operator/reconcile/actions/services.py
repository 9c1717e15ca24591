"""What `table_actions` asks of each type of TableAction."""

from typing import Protocol

from hoodie.contract import job_specs
from hoodie_operator.api import objects
from hoodie_operator.reconcile import facts, runs
from hoodie_operator.reconcile.verdicts import Verdict
from hoodie_operator.reconcile.world import World


class ActionService(Protocol):
    """One type of TableAction. Pure, as all decisions."""

    def named_instant(self, me: objects.Action) -> str | None:
        """Return the instant that an action names in its spec; None where it names none."""
        ...

    def planned_instant(self, me: objects.Action, seen: facts.TableFacts) -> str | None:
        """Return the pending instant that an attempt of the action planned and did not finish."""
        ...

    def done(
        self, me: objects.Action, seen: facts.TableFacts, found: runs.Situation
    ) -> Verdict | None:
        """Return that the action is done, as the timeline shows; None when it is not."""
        ...

    def work(
        self, me: objects.Action, table: objects.Table, seen: facts.TableFacts
    ) -> job_specs.Work | Verdict:
        """Return what a run does, or why there is nothing that one could do."""
        ...

    def conflict(
        self, world: World, me: objects.Action, table: objects.Table, seen: facts.TableFacts
    ) -> Verdict | None:
        """Return why a run waits for another one of its table; None when it need not.

        That a table takes one run at a time is checked for all types (`interlocks.check_alone`).
        """
        ...


class WithoutInstant:
    """An action of a type that neither names an instant nor plans one."""

    def named_instant(self, me: objects.Action) -> str | None:
        """Return None: its spec names none."""
        del me
        return None

    def planned_instant(self, me: objects.Action, seen: facts.TableFacts) -> str | None:
        """Return None: no attempt leaves a plan."""
        del me, seen
        return None
