"""Attempts as Jobs: started once, stopped, forgotten, asked how far they are.

An attempt is started in four steps, each of which may be repeated: the fence, the ConfigMap, the
Job, which is suspended, and its resumption. Whoever finds the Job resumed finds the attempt
started. A process that is killed between two of them has started nothing; the next decision asks
for the same attempt again.

A request that the network delivers late, under the next leader, starts nothing either
(docs/adr/0016):

    leader            the API server has     next leader
    make, suspended   a Job, suspended       lists all Jobs, and withdraws those that were
    resume, by uid    a Job with a pod       not resumed, before it decides

A Job that is made after that listing is never resumed: its maker has lost the lease by then, and
asks before each change whether it leads. One that was withdrawn cannot be resumed: its uid is gone.
"""

import asyncio
import errno
import http
import logging
from collections.abc import Sequence
from typing import Final

import aiohttp

from hoodie import clock, errors
from hoodie.contract import attempt_fences, job_results
from hoodie_operator.api import configuration, objects, resources
from hoodie_operator.api.resources import Manifest
from hoodie_operator.cluster.adapters import guests, names
from hoodie_operator.cluster.adapters.fences import Fences
from hoodie_operator.cluster.client import api_errors
from hoodie_operator.cluster.client.api import Api
from hoodie_operator.cluster.control.ports import RunOwner
from hoodie_operator.manifests import naming, observed, ownership
from hoodie_operator.manifests import runs as run_manifests
from hoodie_operator.reconcile import effects, facts
from hoodie_operator.reconcile import runs as decided_runs

logger = logging.getLogger(__name__)

_ANSWER_S: Final = 2.0
_ANSWER_BYTES_MAX: Final = 64 * 1024
_TRIES: Final = 8
"""To change a Job that its controller changes as well, or to make one whose name is taken."""

_PAUSE_S: Final = 1.0
_KILL_GRACE_S: Final = 1
"""Never 0: a pod that is taken away from an unreachable node may go on there, unseen."""


class JobRuns:
    """Attempts as Jobs of one cluster."""

    def __init__(
        self,
        api: Api,
        fences: Fences,
        told: configuration.Configuration,
        operator_clock: clock.Clock,
    ) -> None:
        """Take the API server, the fences, and the operator's configuration."""
        self._api = api
        self._fences = fences
        self._told = told
        self._clock = operator_clock
        self._session: aiohttp.ClientSession | None = None
        self._fenced: dict[facts.RunId, attempt_fences.FenceNode] = {}
        # ConfigMaps that were made for attempts whose Job was not seen by who made them.
        self._specs: dict[facts.RunId, set[str]] = {}

    async def close(self) -> None:
        """Close the connections to runs."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def start(
        self, start: effects.StartRun, owner: objects.AnyObject, table: objects.Table
    ) -> Sequence[Manifest]:
        """Fence off earlier attempts and start one, unless it was ever started (`ports.Runs`)."""
        attempt = run_manifests.Attempt(start=start, owner=owner, table=table, told=self._told)
        # An attempt that was started, and stopped since, is not let in again.
        job = await self._started(attempt)
        if job is None:
            fence = run_manifests.fence(start)
            if fence is not None:
                self._fenced[start.id] = fence
                await self._fences.admit(
                    start.id.namespace, fence, start.fence_number, start.table.protocol_hash
                )
            await self._provide_spec(attempt)
            job = await self._resume(attempt, await self._make(attempt))
        await self._remove_specs(start.id, job)
        return [job]

    async def withdraw(self, job: Manifest) -> Manifest | None:
        """Remove a Job that was made and not started (`ports.Runs`).

        What it was to be told goes when its attempt is started indeed.
        """
        metadata = job["metadata"]
        namespace, name, uid = metadata["namespace"], metadata["name"], metadata["uid"]
        for _ in range(_TRIES):
            if observed.is_started(job):
                return job
            self._note_spec(job)
            version = resources.version_of(job)
            try:
                await self._api.delete(
                    resources.JOB, namespace, name,
                    uid=uid, version=version, propagation="Background",
                )  # fmt: skip
            except api_errors.ConflictError:
                there = await self._api.get(resources.JOB, namespace, name)
                if there is None or there["metadata"]["uid"] != uid:
                    return None
                job = there
            else:
                logger.info("Job %s/%s was never started, and is withdrawn", namespace, name)
                return None
        raise api_errors.ConflictError(f"Job {namespace}/{name} is changed again and again")

    def _note_spec(self, job: Manifest) -> None:
        """Have what a Job that goes was to be told go as well, when its attempt is started."""
        run, told_by = ownership.attempt_of_job(job), run_manifests.told_by(job)
        if run is not None and told_by is not None:
            self._specs.setdefault(run, set()).add(told_by)

    async def _make(self, attempt: run_manifests.Attempt) -> Manifest:
        """Make the Job of an attempt, or return the one that was started meanwhile."""
        for _ in range(_TRIES):
            try:
                return await self._api.create(run_manifests.job(attempt))
            except api_errors.AlreadyExistsError:
                # By an earlier try of this very call, whose answer was lost, or an earlier leader.
                started = await self._started(attempt)
                if started is not None:
                    return started
        raise api_errors.AlreadyExistsError(f"Job {attempt.name} is made again and again")

    async def _resume(self, attempt: run_manifests.Attempt, job: Manifest) -> Manifest:
        """Have a Job that was made make its pod.

        Raises:
            ApiError: It was refused; whatever the network still has to deliver comes to nothing.
        """
        if observed.is_started(job):
            return job
        metadata = job["metadata"]
        request = run_manifests.start_request(job, self._clock.now_ms())
        try:
            started = await self._api.merge_patch(
                resources.JOB, metadata["namespace"], metadata["name"], request
            )
        except api_errors.ApiError as error:
            if error.is_outcome_known:
                raise
            found = await self._withdraw_for_certain(job)
            if found is None:
                raise
            started = found
        start = attempt.start
        logger.info("%s: started as Job %s for %s", start.id, attempt.name, start.table.uri)
        return started

    async def _withdraw_for_certain(self, job: Manifest) -> Manifest | None:
        """Withdraw a Job whose resumption may be under way, however long that takes.

        Until then it counts as started (`store.Store.mark_started`).
        """
        while True:
            try:
                return await self.withdraw(job)
            except api_errors.ApiError as error:
                logger.warning("whether a Job was started is not known yet: %s", error)
                await asyncio.sleep(_PAUSE_S)

    async def _remove_specs(self, run: facts.RunId, job: Manifest) -> None:
        """Remove what earlier tries were to be told, whose Jobs are never started any more."""
        left = self._specs.pop(run, set()) - {run_manifests.told_by(job)}
        for name in sorted(left):
            try:
                await self._api.delete(resources.CONFIG_MAP, run.namespace, name)
            except api_errors.ApiError as error:
                # The attempt was started all the same; that goes with its owner.
                logger.warning("%s: %s is left: %s", run, name, error)

    async def _provide_spec(self, attempt: run_manifests.Attempt) -> None:
        """See to it that the ConfigMap of an attempt that has no Job is there.

        One that is there already says the same, if an earlier try has left it. Whether it does is
        not believed: somebody else could have runs do what he likes by making it first. What we
        may not read, we may put anew.

        Raises:
            ApiError: It was refused.
        """
        wanted = run_manifests.config_map(attempt)
        self._specs.setdefault(attempt.start.id, set()).add(wanted["metadata"]["name"])
        await self._put(wanted)

    async def _put(self, config_map: Manifest) -> None:
        """Make a ConfigMap, in place of one of its name."""
        metadata = config_map["metadata"]
        try:
            await self._api.create(config_map)
        except api_errors.AlreadyExistsError:
            await self._api.delete(resources.CONFIG_MAP, metadata["namespace"], metadata["name"])
            await self._api.create(config_map)

    async def give_batch_settings(
        self, given: effects.GiveBatchSettings, owner: objects.AnyObject, job: Manifest
    ) -> Manifest:
        """Have an attempt at work take up settings at its next batch (`ports.Runs`).

        The note on the Job comes last: until it is there the next decision asks for the same.
        """
        await self._put(run_manifests.batch_settings_map(given, owner, job))
        metadata = job["metadata"]
        noted = await self._api.merge_patch(
            resources.JOB,
            metadata["namespace"],
            metadata["name"],
            run_manifests.batch_settings_note(given, job),
        )
        logger.info("%s: has batch settings %s", given.id, given.settings.hash)
        return noted

    async def _started(self, attempt: run_manifests.Attempt) -> Manifest | None:
        """Return the Job of an attempt that was started; one that was not is withdrawn.

        Raises:
            AlreadyExistsError: There is one of that name that is not the attempt's.
        """
        job = await self._job(attempt)
        return None if job is None else await self.withdraw(job)

    async def _job(self, attempt: run_manifests.Attempt) -> Manifest | None:
        """Return the Job of an attempt; None when there is none.

        Raises:
            AlreadyExistsError: There is one of that name that is not the attempt's.
        """
        namespace = attempt.owner.key.namespace
        there = await self._api.get(resources.JOB, namespace, attempt.name)
        if there is not None and not ownership.is_owned_by(there, attempt.start.id):
            raise api_errors.AlreadyExistsError(
                f"Job {namespace}/{attempt.name} belongs to another owner, expected none"
            )
        return there

    async def stop(
        self,
        stop: effects.StopRun,
        of: RunOwner,
        job: Manifest | None,
        pods: Sequence[Manifest],
    ) -> Sequence[Manifest]:
        """Ask an attempt to stop, or end it (`ports.Runs`).

        What pods without a Job may commit until they have ended is up to the fence of the next
        attempt.

        Raises:
            FencedError: Somebody leads by a later lease.
        """
        await self._close_fence(stop, of)
        stopped = () if job is None else (await self._tell_to_stop(stop, job),)
        # A deleted pod gets SIGTERM, and its own grace to end in. A driver has its executors go.
        drivers = [pod for pod in pods if _role(pod) == naming.DRIVER and not _is_over(pod)]
        living = [pod for pod in pods if not _is_over(pod)]
        for pod in living if stop.is_killed or not drivers else drivers:
            await self._delete(pod, _KILL_GRACE_S if stop.is_killed else None)
        return stopped

    async def _close_fence(self, stop: effects.StopRun, of: RunOwner) -> None:
        """Let an attempt commit no more, where its fence is known.

        Who has begun to lead since it was started, and finds its table gone or with another lock,
        does not know it. Such an attempt may complete what it is completing until it has ended, as
        with a fence in the table's storage; whoever comes next waits for that.
        """
        fence = self._fence(stop.id, of)
        if fence is None:
            return
        number = decided_runs.fence_number(of.found, stop.id.attempt)
        try:
            await self._fences.close(stop.id.namespace, fence, number)
        except (errors.StorageError, errors.ConfigurationError) as error:
            # The lock is in the same ZooKeeper: as long as it is silent nothing is completed.
            logger.warning("%s is stopped without its fence: %s", stop.id, error)

    def _fence(self, run: facts.RunId, of: RunOwner) -> attempt_fences.FenceNode | None:
        """Return the fence that the operator keeps for an attempt; None where none is known."""
        if run in self._fenced:
            return self._fenced[run]
        return None if of.table is None else run_manifests.fence_of(of.found, of.table)

    async def _tell_to_stop(self, stop: effects.StopRun, job: Manifest) -> Manifest:
        """Note on a Job that its attempt was told to stop."""
        metadata = job["metadata"]
        annotations = metadata.get("annotations") or {}
        if naming.STOP_REQUESTED not in annotations:
            patch = run_manifests.stop_request(stop, self._clock.now_ms())
            patch["metadata"]["uid"] = metadata["uid"]
            job = await self._api.merge_patch(
                resources.JOB, metadata["namespace"], metadata["name"], patch
            )
            logger.info("%s: stop requested: %s", stop.id, stop.reason)
        return job

    async def _delete(self, pod: Manifest, grace_s: int | None) -> None:
        metadata = pod["metadata"]
        if grace_s is None and metadata.get("deletionTimestamp") is not None:
            return
        try:
            await self._api.delete(
                resources.POD,
                metadata["namespace"],
                metadata["name"],
                uid=metadata["uid"],
                grace_s=grace_s,
            )
        except api_errors.ConflictError:
            logger.debug("pod %s is gone, and another has its name", metadata["name"])

    async def forget(self, run: facts.RunId, of: RunOwner, job: Manifest) -> None:
        """Remove an ended attempt whose end is told in its owner's status (`ports.Runs`)."""
        metadata = job["metadata"]
        fence = self._fence(run, of)
        if fence is not None:
            await self._fences.forget(
                run.namespace, fence, decided_runs.fence_number(of.found, run.attempt)
            )
        self._fenced.pop(run, None)
        await self._remove_specs(run, job)
        told_by = run_manifests.told_by(job)
        if told_by is not None:
            await self._api.delete(resources.CONFIG_MAP, metadata["namespace"], told_by)
        if run_manifests.has_batch_settings_map(job):
            name = naming.batch_settings(run)
            await self._api.delete(resources.CONFIG_MAP, metadata["namespace"], name)
        await self._api.delete(
            resources.JOB,
            metadata["namespace"],
            metadata["name"],
            uid=metadata["uid"],
            propagation="Background",
        )

    async def progress(
        self, job: Manifest, pods: Sequence[Manifest]
    ) -> job_results.JobProgress | str | None:
        """Return what a running attempt tells of itself; nothing is raised (`ports.Runs`)."""
        address = next((found for pod in pods if (found := _address(pod)) is not None), None)
        if address is None:
            return None
        if self._session is None:
            self._session = guests.session(names.Names(), _ANSWER_S)
        try:
            async with self._session.get(
                f"http://{address}/progress", allow_redirects=False
            ) as answer:
                content = await answer.content.read(_ANSWER_BYTES_MAX)
            if answer.status == http.HTTPStatus.OK:
                return job_results.decode_progress(content, job["metadata"]["name"])
        except TimeoutError:
            return f"{address} (no answer within {_ANSWER_S:.0f} s)"
        except (aiohttp.ClientError, OSError, errors.HoodieError) as error:
            logger.debug("%s reports no progress: %s", job["metadata"]["name"], error)
            # Refused by the pod itself: nothing listens there yet.
            is_refused = getattr(error, "errno", None) == errno.ECONNREFUSED
            return None if is_refused else f"{address} ({type(error).__name__})"
        # A run that has nothing to tell yet answers so.
        is_early = answer.status == http.HTTPStatus.NO_CONTENT
        return None if is_early else f"{address} (it answers {answer.status})"

    def read(
        self,
        job: Manifest | None,
        pods: Sequence[Manifest],
        progress: job_results.JobProgress | None,
        now_ms: int,
    ) -> facts.Run | None:
        """Return what a Job and the Pods of its attempt mean; see `manifests.observed.read`."""
        return observed.read(job, pods, progress, now_ms)


def _role(pod: Manifest) -> str | None:
    role: str | None = (pod["metadata"].get("labels") or {}).get(naming.ROLE)
    return role


def _is_over(pod: Manifest) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _address(pod: Manifest) -> str | None:
    """Return where a driver at work tells of its progress."""
    status = pod.get("status") or {}
    if _role(pod) != naming.DRIVER or status.get("phase") != "Running":
        return None
    address = status.get("podIP")
    if not address:
        return None
    host = f"[{address}]" if ":" in address else address
    return f"{host}:{run_manifests.PROGRESS_PORT}"
