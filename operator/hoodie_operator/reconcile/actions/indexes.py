"""TableActions of types IndexBuild and IndexDrop: indexes are built beside writers, or dropped.

Done when a run has ended well and the table's properties say so; without a run, where there is
nothing to do. A build that was killed leaves its plan on the timeline, which the next run executes.
"""

from typing import Final

from hoodie.contract import job_specs
from hoodie.metadata import index_decisions
from hoodie_operator.api import objects, table_indexes
from hoodie_operator.api.index_request import IndexState
from hoodie_operator.api.reasons import Reason
from hoodie_operator.reconcile import facts, indexes, runs
from hoodie_operator.reconcile.actions import metadata
from hoodie_operator.reconcile.actions.services import WithoutInstant
from hoodie_operator.reconcile.verdicts import Verdict, succeeded
from hoodie_operator.reconcile.world import World

_VALIDATIONS: Final = {
    table_indexes.Validation.NONE: job_specs.IndexValidation.NONE,
    table_indexes.Validation.SAMPLE: job_specs.IndexValidation.SAMPLE,
    table_indexes.Validation.WHOLE: job_specs.IndexValidation.WHOLE,
}


class IndexBuild(WithoutInstant):
    """Builds the indexes that are missing."""

    def planned_instant(self, me: objects.Action, seen: facts.TableFacts) -> str | None:
        """Return the pending plan of the action, or one that it finishes."""
        for each in indexes.pending_builds(seen):
            if each.action_id == me.name or set(each.indexes) & set(_to_build(me)):
                return each.requested_time
        return None

    def done(
        self, me: objects.Action, seen: facts.TableFacts, found: runs.Situation
    ) -> Verdict | None:
        """Return that the indexes are ready."""
        names, request = _to_build(me), _request(me)
        states = indexes.states(seen, names)
        if set(states.values()) != {IndexState.READY}:
            return None
        if not indexes.has_columns(seen, request) or indexes.kind_refusal(me, seen, request):
            return None
        message = f"{', '.join(names)} can be used by readers"
        if runs.has_succeeded(found.status):
            return succeeded(message)
        is_compared = _validation(me) is not table_indexes.Validation.NONE
        if found.status.attempts == 0 and not is_compared:
            return succeeded(message, Reason.NOTHING_TO_DO)
        return None

    def work(
        self, me: objects.Action, table: objects.Table, seen: facts.TableFacts
    ) -> job_specs.Work | Verdict:
        """Return the run, if the table can have the indexes."""
        request = _request(me)
        refused = indexes.build_refusal(me, table, seen, request)
        if refused is not None:
            return refused
        return job_specs.BuildIndexes(
            names=_to_build(me),
            columns=request.secondary,
            validation=_VALIDATIONS[_validation(me)],
            is_partitioned=request.is_partitioned,
            statistics_columns=None if request.columns is None else tuple(request.columns),
        )

    def conflict(
        self, world: World, me: objects.Action, table: objects.Table, seen: facts.TableFacts
    ) -> Verdict | None:
        """Return why a run waits: for one that changes the metadata table, or another build."""
        return metadata.busy(world, me, table) or indexes.build_obstacle(
            world, table, seen, _request(me)
        )


class IndexDrop(WithoutInstant):
    """Drops indexes, and gives up what is being built of them."""

    def done(
        self, me: objects.Action, seen: facts.TableFacts, found: runs.Situation
    ) -> Verdict | None:
        """Return that the table does not have the indexes."""
        names = _to_drop(me)
        if seen.config is None or set(indexes.states(seen, names).values()) != {IndexState.MISSING}:
            return None
        message = f"the table does not have {', '.join(names)}"
        if runs.has_succeeded(found.status):
            return succeeded(message)
        if found.status.attempts == 0:
            return succeeded(message, Reason.NOTHING_TO_DO)
        return None

    def work(
        self, me: objects.Action, table: objects.Table, seen: facts.TableFacts
    ) -> job_specs.Work | Verdict:
        """Return the run, if no index that stays needs them."""
        del table
        names = _to_drop(me)
        assert seen.config is not None, "a table that is ready is there"
        return indexes.drop_refusal(me, seen.config, names) or job_specs.DropIndexes(names=names)

    def conflict(
        self, world: World, me: objects.Action, table: objects.Table, seen: facts.TableFacts
    ) -> Verdict | None:
        """Return why a run waits: for one that changes the metadata table, or a live builder."""
        return metadata.busy(world, me, table) or indexes.drop_obstacle(
            world, table, seen, _to_drop(me)
        )


def _to_build(me: objects.Action) -> tuple[str, ...]:
    assert me.spec.index_build is not None, "a rule has it required"
    return me.spec.index_build.indexes


def _request(me: objects.Action) -> index_decisions.Request:
    how = me.spec.index_build
    assert how is not None, "a rule has it required"
    return index_decisions.Request(
        how.indexes,
        how.statistics_columns,
        secondary=how.columns or {},
        is_partitioned=how.partitioned,
    )


def _validation(me: objects.Action) -> table_indexes.Validation:
    assert me.spec.index_build is not None, "a rule has it required"
    return me.spec.index_build.validation


def _to_drop(me: objects.Action) -> tuple[str, ...]:
    assert me.spec.index_drop is not None, "a rule has it required"
    return me.spec.index_drop.indexes
