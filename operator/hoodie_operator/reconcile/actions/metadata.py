"""TableActions of types MetadataInit and MetadataDrop: the metadata table is made, or removed.

Done when a run has ended well and the table's properties say so; without a run, where there is
nothing to do. Writers go on meanwhile: their runs find out under the table lock.
"""

from abc import ABC, abstractmethod
from typing import Final

from hoodie.contract import job_specs
from hoodie_operator.api import objects
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.states import State
from hoodie_operator.api.table_action import ActionType
from hoodie_operator.reconcile import facts, interlocks, runs
from hoodie_operator.reconcile.actions.services import WithoutInstant
from hoodie_operator.reconcile.verdicts import Verdict, succeeded
from hoodie_operator.reconcile.world import World

TYPES: Final = frozenset({ActionType.METADATA_INIT, ActionType.METADATA_DROP})
"""They make the metadata table, or remove it."""

EXCLUSIVE: Final = TYPES | {ActionType.INDEX_BUILD, ActionType.INDEX_DROP}
"""They change which partitions the metadata table has: one runs on a table at a time."""


def busy(world: World, me: objects.Action, table: objects.Table) -> Verdict | None:
    """Return why a run waits: for another one that changes which partitions there are."""
    other = interlocks.other_at_work(world, table, me, EXCLUSIVE)
    if other is None:
        return None
    return Verdict(
        state=State.BLOCKED,
        reason=Reason.TABLE_BUSY,
        message=f"{other.key} has an active run, expected one at a time",
    )


class _OfMetadata(WithoutInstant, ABC):
    """What the types share."""

    def done(
        self, me: objects.Action, seen: facts.TableFacts, found: runs.Situation
    ) -> Verdict | None:
        """Return that the table is as the action wants it."""
        if seen.config is None:
            return None
        partitions = seen.config.metadata_partitions
        names = f"a metadata table with {', '.join(partitions)}" if partitions else ""
        message = f"the table has {names or 'no metadata table'}"
        if runs.has_succeeded(found.status) and self._is_reached(seen):
            return succeeded(message)
        if found.status.attempts == 0 and self._is_idle(me, seen):
            return succeeded(message, Reason.NOTHING_TO_DO)
        return None

    @abstractmethod
    def work(
        self, me: objects.Action, table: objects.Table, seen: facts.TableFacts
    ) -> job_specs.Work | Verdict:
        """Return the run."""

    def conflict(
        self, world: World, me: objects.Action, table: objects.Table, seen: facts.TableFacts
    ) -> Verdict | None:
        """Return why a run waits: for another one that changes the metadata table."""
        del seen
        return busy(world, me, table)

    @abstractmethod
    def _is_reached(self, seen: facts.TableFacts) -> bool: ...

    def _is_idle(self, me: objects.Action, seen: facts.TableFacts) -> bool:
        del me
        return self._is_reached(seen)


class MetadataInit(_OfMetadata):
    """Makes the metadata table from what is on storage."""

    def work(
        self, me: objects.Action, table: objects.Table, seen: facts.TableFacts
    ) -> job_specs.Work | Verdict:
        """Return the run."""
        del table, seen
        return job_specs.InitialiseMetadata(is_rebuilt=_is_rebuild(me))

    def _is_reached(self, seen: facts.TableFacts) -> bool:
        return seen.config is not None and bool(seen.config.metadata_partitions)

    def _is_idle(self, me: objects.Action, seen: facts.TableFacts) -> bool:
        return not _is_rebuild(me) and self._is_reached(seen)


class MetadataDrop(_OfMetadata):
    """Removes the metadata table, whichever engine made it."""

    def work(
        self, me: objects.Action, table: objects.Table, seen: facts.TableFacts
    ) -> job_specs.Work | Verdict:
        """Return the run."""
        del me, table, seen
        return job_specs.DropMetadata()

    def _is_reached(self, seen: facts.TableFacts) -> bool:
        config = seen.config
        return config is not None and not (
            config.metadata_partitions or config.metadata_partitions_inflight
        )


def _is_rebuild(me: objects.Action) -> bool:
    return me.spec.metadata_init is not None and me.spec.metadata_init.rebuild
