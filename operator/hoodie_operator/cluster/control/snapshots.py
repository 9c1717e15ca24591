"""The world as a decision takes it: the objects of the store and the facts of `object_states`."""

from typing import cast

from hoodie import clock
from hoodie_operator.api import hudi_table, objects, table_action, writer
from hoodie_operator.cluster.control import object_states
from hoodie_operator.cluster.informer import store
from hoodie_operator.reconcile import (
    effective,
    facts,
    gates,
    hudi_tables,
    observations,
    verdicts,
    world,
)


class Snapshots:
    """Makes the world of each decision."""

    def __init__(
        self,
        known: store.Store,
        states: object_states.ObjectStates,
        limits: world.Limits,
        our_clock: clock.Clock,
    ) -> None:
        """Make none yet.

        Args:
            known: The objects and attempts.
            states: What was observed and refused.
            limits: The operator's settings.
            our_clock: The operator's.
        """
        self._store = known
        self._states = states
        self._limits = limits
        self._clock = our_clock

    def take(self) -> world.World:
        """Return the world as it is now; it holds until the next `await`."""
        return world.World(
            now_ms=self._clock.now_ms(),
            monotonic_ms=clock.monotonic_ms(self._clock),
            limits=self._limits,
            by_key=self._store.by_key,
            seen=facts.Facts(
                tables=self._states.tables,
                sources=self._states.sources,
                locks=self._states.locks,
                runs=self._store.runs,
                at_work=self._store.runs_at_work,
                refusals=self._states.refusals,
                waits=self._store.waits,
            ),
        )

    def may_be_observed(self, table: objects.Table) -> bool:
        """Return whether an observer may run for a table and observe it."""
        return observations.may_be_observed(self.take(), table)

    def effective_table(self, found: objects.AnyObject) -> effective.EffectiveTable | None:
        """Return the table configuration that runs of an object get now; None where none holds."""
        wanted: effective.EffectiveTable | verdicts.Verdict | None = None
        if isinstance(found.spec, hudi_table.HudiTableSpec):
            wanted = hudi_tables.resolve(self.take(), cast("objects.Table", found))
        elif isinstance(found.spec, writer.WriterSpec | table_action.TableActionSpec):
            wanted = gates.target(self.take(), cast("gates.Runner", found)).wanted
        return wanted if isinstance(wanted, effective.EffectiveTable) else None
