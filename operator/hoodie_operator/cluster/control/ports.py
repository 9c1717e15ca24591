"""What the controller has done by others: runs, observers and locks, as protocols.

The controller decides about one object at a time; what is asked for here is awaited beside its
decisions, never twice at once for one object. Whatever is made at the API server is returned as it
was answered: the next decision knows it before the watch tells. Refusals are raised as they came
(`cluster.client.api_errors`); the controller tells of them, waits, and decides anew.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from hoodie.contract import job_results
from hoodie.model import settings
from hoodie_operator.api import objects
from hoodie_operator.api.resources import Manifest
from hoodie_operator.reconcile import effective, effects, facts


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLook:
    """A table to look at.

    Attributes:
        table: The HudiTable, whose namespace and storage block say who may look.
        uri: Its normalised place.
        settings: By which heartbeats are judged.
    """

    table: objects.Table
    uri: str
    settings: settings.WriteSettings


class Observers(Protocol):
    """Those who read storages: one for each identity (namespace, account, secrets, volumes)."""

    def observer_of(self, table: objects.Table) -> str:
        """Return what tells the observer of a table from all others."""
        ...

    async def look_at_tables(
        self, looks: Sequence[TableLook]
    ) -> Mapping[str, facts.TableFacts | None]:
        """Return what tables tell now, by the uid of their HudiTable.

        All observers concerned are asked at once, each with one question. A table whose observer
        gives no answer has a transient problem in its facts, or None where an observer only
        starts. Nothing is raised.
        """
        ...

    async def look_at_source(
        self, writer: objects.Writer, table: objects.Table
    ) -> facts.SourceFacts | None:
        """Return what a Writer's source tells now; None while its observer starts."""
        ...

    async def keep(self, tables: Sequence[objects.Table]) -> None:
        """See to it that the observers of these tables run, as declared, and no others.

        Called when what is declared has changed and every few minutes.

        Raises:
            ApiError: One of them could not be seen to.
        """
        ...


class Locks(Protocol):
    """Lock providers, and the lock servers that are ours."""

    async def look(self, lock: objects.Lock, before: facts.LockFacts | None) -> facts.LockFacts:
        """Return whether a provider answers now; nothing is raised."""
        ...

    async def serve(self, lock: objects.Lock, users: Sequence[objects.Owner]) -> None:
        """See to it that the server of a LockProvider runs as declared.

        Its objects are owned by the LockProvider and its users, and go with the last of them.

        Raises:
            ApiError: It could not be seen to.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOwner:
    """Whose an attempt is.

    Attributes:
        found: The Writer or TableAction.
        table: What runs of its table are told now; None while it has no such configuration.
    """

    found: objects.AnyObject
    table: effective.EffectiveTable | None


class Runs(Protocol):
    """Attempts as Jobs."""

    async def start(
        self, start: effects.StartRun, owner: objects.AnyObject, table: objects.Table
    ) -> Sequence[Manifest]:
        """Fence off earlier attempts and start one, unless it was ever started.

        Returns:
            The Job as it now is at the API server.

        Raises:
            ApiError: It was refused, or whether it was started is not known.
            HoodieError: The fence could not be set.
        """
        ...

    async def withdraw(self, job: Manifest) -> Manifest | None:
        """Remove a Job that was made and not started; from here on it cannot be.

        Returns:
            The Job as it now is where it was started after all; else None.

        Raises:
            ApiError: It was refused, or there was no answer.
        """
        ...

    async def stop(
        self,
        stop: effects.StopRun,
        of: RunOwner,
        job: Manifest | None,
        pods: Sequence[Manifest],
    ) -> Sequence[Manifest]:
        """Ask an attempt to stop, or end it; from here on it may not commit either.

        Args:
            stop: Which, and how.
            of: Whose it is.
            job: None where it is gone and Pods of it are left, which are ended.
            pods: Of the attempt.

        Returns:
            The Job as it now is at the API server; nothing where there is none.

        Raises:
            ApiError: It was refused, or there was no answer.
            HoodieError: The fence could not be set.
        """
        ...

    async def give_batch_settings(
        self, given: effects.GiveBatchSettings, owner: objects.AnyObject, job: Manifest
    ) -> Manifest:
        """Have an attempt at work take up settings at its next batch.

        Returns:
            The Job as it now is at the API server.

        Raises:
            ApiError: It was refused, or there was no answer.
        """
        ...

    async def forget(self, run: facts.RunId, of: RunOwner, job: Manifest) -> None:
        """Remove an ended attempt whose end is told in its owner's status.

        Raises:
            ApiError: It was refused, or there was no answer.
        """
        ...

    async def progress(
        self, job: Manifest, pods: Sequence[Manifest]
    ) -> job_results.JobProgress | str | None:
        """Return what a running attempt tells of itself; nothing is raised.

        Returns:
            What it tells; where it was asked, and how, if the network was in the way; None when it
            has nothing to tell yet.
        """
        ...

    def read(
        self,
        job: Manifest | None,
        pods: Sequence[Manifest],
        progress: job_results.JobProgress | None,
        now_ms: int,
    ) -> facts.Run | None:
        """Return what a Job and the Pods of its attempt mean. Pure; None for no Job of ours.

        Args:
            job: The Job; None where it is gone and Pods of it are left.
            pods: Those of its driver and executors.
            progress: What the attempt told last.
            now_ms: The operator's clock.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapters:
    """What a leader works through.

    Attributes:
        runs: Attempts as Jobs.
        observers: Observe tables and sources.
        locks: Observe and serve lock providers.
    """

    runs: Runs
    observers: Observers
    locks: Locks
