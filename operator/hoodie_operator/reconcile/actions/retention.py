"""TableActions of types Clean, Archive, CreateSavepoint and DeleteSavepoints.

Done when a run has ended well: each does what is left to do and is done twice without harm, what a
killed one has planned included.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection

from hoodie.contract import job_specs
from hoodie_operator.api import fields, hudi_table, objects, retention_policy
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.states import State
from hoodie_operator.api.table_action import ActionType
from hoodie_operator.reconcile import facts, interlocks, runs
from hoodie_operator.reconcile.verdicts import Verdict, stalled, succeeded
from hoodie_operator.reconcile.world import World


class _Retention(ABC):
    """What the types share."""

    def named_instant(self, me: objects.Action) -> str | None:
        """Return None: a run makes its instant."""
        del me
        return None

    def planned_instant(self, me: objects.Action, seen: facts.TableFacts) -> str | None:
        """Return the instant that a run of the action has told of."""
        del seen
        return me.status.instant

    def done(
        self, me: objects.Action, seen: facts.TableFacts, found: runs.Situation
    ) -> Verdict | None:
        """Return that a run has ended well."""
        del seen
        if not runs.has_succeeded(found.status):
            return None
        return succeeded(self._message(me))

    def work(
        self, me: objects.Action, table: objects.Table, seen: facts.TableFacts
    ) -> job_specs.Work | Verdict:
        """Return the run, if the table leaves the service to the operator."""
        del seen
        if self._owner(table) is hudi_table.ServiceOwner.DISABLED and not me.spec.dry_run:
            return stalled(
                me, Reason.DISABLED, f"the service is Disabled in HudiTable {table.name}"
            )
        return self._work(me)

    def conflict(
        self, world: World, me: objects.Action, table: objects.Table, seen: facts.TableFacts
    ) -> Verdict | None:
        """Return why a run waits: for another action that it excludes."""
        del seen
        other = interlocks.other_at_work(world, table, me, self._excluded(me))
        if other is None:
            return None
        return _busy(f"{other.key} has an active run, expected one at a time")

    def _excluded(self, me: objects.Action) -> Collection[ActionType]:
        """Return the types of which no action runs beside it."""
        return (me.spec.type,)

    def _message(self, me: objects.Action) -> str:
        return "nothing was changed" if me.spec.dry_run else "done"

    def _owner(self, table: objects.Table) -> hudi_table.ServiceOwner | None:
        del table
        return None

    @abstractmethod
    def _work(self, me: objects.Action) -> job_specs.Work: ...


class Clean(_Retention):
    """Deletes file versions that no reader needs any more."""

    def _owner(self, table: objects.Table) -> hudi_table.ServiceOwner | None:
        return table.spec.services.cleaning

    def _message(self, me: objects.Action) -> str:
        result = me.status.result
        files = 0 if result is None else result.files or 0
        would = "would delete" if me.spec.dry_run else "deleted"
        return f"{would} {files} file{'' if files == 1 else 's'}"

    def _work(self, me: objects.Action) -> job_specs.Work:
        how = me.spec.clean
        assert how is not None, "a rule has it required"
        policy, retained = _kept(how.keep)
        return job_specs.Clean(
            policy=policy,
            retained=retained,
            grace_ms=fields.duration_ms(how.reader_grace),
            files_max=how.max_files,
            is_dry_run=me.spec.dry_run,
        )


def _kept(keep: retention_policy.Keep) -> tuple[job_specs.CleanPolicy, int]:
    if keep.commits is not None:
        return job_specs.CleanPolicy.COMMITS, keep.commits
    if keep.hours is not None:
        return job_specs.CleanPolicy.HOURS, keep.hours
    assert keep.versions is not None, "a rule has one of them required"
    return job_specs.CleanPolicy.VERSIONS, keep.versions


class Archive(_Retention):
    """Moves old instants out of the active timeline, and trims the history."""

    def _owner(self, table: objects.Table) -> hudi_table.ServiceOwner | None:
        return table.spec.services.archiving

    def _message(self, me: objects.Action) -> str:
        result = me.status.result
        count = 0 if result is None else result.archived or 0
        would = "would archive" if me.spec.dry_run else "archived"
        message = f"{would} {count} instant{'' if count == 1 else 's'}"
        trimmed = None if result is None else result.trimmed
        if not trimmed:
            return message
        would = "would delete" if me.spec.dry_run else "deleted"
        return f"{message}, {would} {trimmed} of the history"

    def _work(self, me: objects.Action) -> job_specs.Work:
        min_commits, max_commits = retention_policy.COMMITS_MIN, retention_policy.COMMITS_MAX
        how = me.spec.archive
        return job_specs.Archive(
            commits_min=min_commits if how is None else how.min_commits,
            commits_max=max_commits if how is None else how.max_commits,
            clean_retained=None if how is None else how.readable_commits,
            history_days=None if how is None else how.history_days,
            is_dry_run=me.spec.dry_run,
        )


class _OfSavepoints(_Retention):
    """What creates or deletes savepoints: a commit has one, whatever number of objects keep it."""

    def _excluded(self, me: objects.Action) -> Collection[ActionType]:
        del me
        return (ActionType.CREATE_SAVEPOINT, ActionType.DELETE_SAVEPOINTS)


class CreateSavepoint(_OfSavepoints):
    """Has the table keep the files of a commit."""

    def _message(self, me: objects.Action) -> str:
        return f"the files of commit {me.status.instant} are kept"

    def _work(self, me: objects.Action) -> job_specs.Work:
        how = me.spec.create_savepoint
        return job_specs.CreateSavepoint(
            commit=None if how is None else how.commit, comment="" if how is None else how.comment
        )


class DeleteSavepoints(_OfSavepoints):
    """Deletes savepoints of the table."""

    def conflict(
        self, world: World, me: objects.Action, table: objects.Table, seen: facts.TableFacts
    ) -> Verdict | None:
        """Return why a run waits: which savepoint another action has made may not be known yet."""
        creation = interlocks.untold_creation(world, table)
        if creation is not None:
            return _busy(f"{creation.key} may have created a savepoint, and has not ended")
        return super().conflict(world, me, table, seen)

    def _work(self, me: objects.Action) -> job_specs.Work:
        how = me.spec.delete_savepoints
        assert how is not None, "a rule has it required"
        older = how.older_than
        return job_specs.DeleteSavepoints(
            commits=how.commits or (),
            older_than_ms=None if older is None else fields.duration_ms(older),
        )


def _busy(message: str) -> Verdict:
    return Verdict(state=State.BLOCKED, reason=Reason.TABLE_BUSY, message=message)
