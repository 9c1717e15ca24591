"""What a Job and its Pods mean: the state of an attempt, as a value.

An attempt has ended when its Job has and none of its pods may still be at work, executors included.
A pod that was to be gone, and is not, is on a node that does not answer: whether it works nobody
knows, and it is never taken for dead.
"""

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hoodie import errors
from hoodie.contract import job_results
from hoodie_operator.api import times
from hoodie_operator.api.resources import Manifest
from hoodie_operator.manifests import naming, obstacles, ownership
from hoodie_operator.reconcile import facts, retries
from hoodie_operator.reconcile.facts import Obstacle

logger = logging.getLogger(__name__)

OVERDUE_MS: Final = 60_000
"""A pod that is to be gone, and is not so long after its grace, is on a node that is silent."""

_OVER: Final = frozenset({"Succeeded", "Failed"})
_OUT_OF_MEMORY: Final = "OOMKilled"
_TAKEN_REASONS: Final = frozenset(
    {"Evicted", "Preempting", "Shutdown", "NodeShutdown", "NodeAffinity", "Terminated"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pod:
    """A pod, taken apart as far as it matters."""

    manifest: Manifest

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])

    @property
    def status(self) -> Mapping[str, object]:
        return self.manifest.get("status") or {}

    @property
    def is_executor(self) -> bool:
        labels = self.manifest["metadata"].get("labels") or {}
        return bool(labels.get(naming.ROLE) == naming.EXECUTOR)

    @property
    def is_over(self) -> bool:
        return self.status.get("phase") in _OVER

    @property
    def is_going(self) -> bool:
        return self.manifest["metadata"].get("deletionTimestamp") is not None

    @property
    def created_ms(self) -> int:
        return times.epoch_ms(self.manifest["metadata"]["creationTimestamp"])

    @property
    def unknown_after_ms(self) -> int | None:
        """For how long it may be going until nobody knows whether it is at work."""
        if self.status.get("phase") == "Unknown" or self.status.get("reason") == "NodeLost":
            return 0
        if not self.is_going:
            return None
        metadata = self.manifest["metadata"]
        return int(metadata.get("deletionGracePeriodSeconds") or 0) * 1000 + OVERDUE_MS

    def condition(self, condition_type: str) -> Manifest | None:
        return obstacles.condition(self.manifest, condition_type)

    @property
    def container(self) -> Manifest:
        """The state of our own container: others may have been put beside it."""
        statuses = self.manifest.get("status", {}).get("containerStatuses") or ()
        name = naming.EXECUTOR if self.is_executor else naming.DRIVER
        ours: Manifest = next((each for each in statuses if each["name"] == name), {})
        state: Manifest = ours.get("state") or {}
        return state


def kept(found: Manifest) -> Manifest:
    """Return what is to be held of a Job or a Pod: how it is, not what it consists of.

    Containers and the like are most of it, and are never asked for again. Volumes are: they name
    the ConfigMap of a Job (`runs.told_by`).
    """
    spec = found.get("spec", {})
    template = spec.get("template")
    if template is None:
        return {**found, "spec": {}}
    volumes = template["spec"].get("volumes") or []
    kept_spec = {"suspend": spec.get("suspend"), "template": {"spec": {"volumes": volumes}}}
    return {**found, "spec": kept_spec}


def is_started(job: Manifest) -> bool:
    """Return whether a Job was ever resumed: one that was not has made no pod.

    Somebody may suspend it later: it has had its pod all the same.
    """
    annotations = job["metadata"].get("annotations") or {}
    return naming.STARTED in annotations or not job["spec"].get("suspend")


def read(
    job: Manifest | None,
    pods: Sequence[Manifest],
    progress: job_results.JobProgress | None,
    now_ms: int,
) -> facts.Run | None:
    """Return the attempt that a Job and Pods belong to; None for none of ours that was started.

    Args:
        job: The Job; None where it is gone and pods of it are left.
        pods: Of the driver and the executors.
        progress: What the attempt told last.
        now_ms: The operator's clock: an attempt that has ended is seen to have ended now.
    """
    if job is not None and not is_started(job):
        job = None
    some = job or next(iter(pods), None)
    run_id = None if some is None else naming.run_id(some)
    if some is None or run_id is None:
        return None
    metadata = some["metadata"]
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    found = [_Pod(manifest=pod) for pod in pods]
    drivers = [pod for pod in found if not pod.is_executor]
    driver = max(drivers, key=lambda pod: (not pod.is_over, pod.created_ms), default=None)
    living = [pod for pod in found if not pod.is_over]
    result = _result(driver)
    is_ended = not living and (job is None or has_ended(job))
    unknown = [pod.unknown_after_ms for pod in living if pod.unknown_after_ms is not None]
    return facts.Run(
        id=run_id,
        protocol_hash=annotations.get(naming.PROTOCOL, ""),
        run_hash=annotations.get(naming.RUN, ""),
        batch_settings_hash=annotations.get(
            naming.GIVEN_BATCH_SETTINGS, annotations.get(naming.BATCH_SETTINGS, "")
        ),
        started_ms=times.epoch_ms(metadata["creationTimestamp"]),
        process="" if driver is None else f"pod {driver.name}",
        table=naming.table_of(some),
        waiting=None if is_ended else _waiting(metadata, driver) or _without_executors(found),
        began_ms=_began_ms(driver),
        unknown_after_ms=min(unknown, default=None),
        is_abandoned=_is_abandoned(job, found),
        is_orphaned=job is not None and ownership.is_orphan(job),
        stop_requested_ms=_number(annotations.get(naming.STOP_REQUESTED)),
        stop_reason=annotations.get(naming.STOP_REASON, ""),
        progress=progress,
        ended_ms=now_ms if is_ended else None,
        result=result if is_ended else None,
        exit_code=_exit_code(driver),
        cause=_cause(driver, has_result=result is not None) if is_ended else None,
    )


def _is_abandoned(job: Manifest | None, pods: Sequence[_Pod]) -> bool:
    """Return whether a driver that has ended has left executors at work.

    Spark's driver removes its executors; one that was killed does not, and they would go with the
    driver's pod only, which stays for what it tells.
    """
    if job is not None and not has_ended(job):
        return False
    living = [pod for pod in pods if not pod.is_over]
    return bool(living) and all(pod.is_executor for pod in living)


def has_ended(job: Manifest) -> bool:
    """Return whether a Job will make no pod any more, and waits for none."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(
        each["type"] in ("Complete", "Failed") and each["status"] == "True" for each in conditions
    )


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _began_ms(driver: _Pod | None) -> int | None:
    if driver is None:
        return None
    state = driver.container
    at = (state.get("running") or state.get("terminated") or {}).get("startedAt")
    return None if at is None else times.epoch_ms(at)


def _exit_code(driver: _Pod | None) -> int | None:
    if driver is None:
        return None
    code = (driver.container.get("terminated") or {}).get("exitCode")
    return None if code is None else int(code)


def _result(driver: _Pod | None) -> job_results.JobResult | None:
    """Return what the driver told at its end; None for nothing, and for what is no result."""
    message = "" if driver is None else (driver.container.get("terminated") or {}).get("message")
    if driver is None or not message:
        return None
    try:
        return job_results.decode_result(str(message).encode(), f"the result of pod {driver.name}")
    except errors.InvalidInputError as error:
        logger.warning("%s", error)
        return None


def _waiting(metadata: Manifest, driver: _Pod | None) -> facts.Waiting | None:
    """Return what an attempt that has not begun waits for; None for one that has."""
    if driver is None:
        since_ms = times.epoch_ms(metadata["creationTimestamp"])
        return facts.Waiting(
            obstacle=Obstacle.NO_POD,
            message=f"see the events of Job {metadata['name']}",
            since_ms=since_ms,
        )
    if _began_ms(driver) is not None:
        return None
    return obstacles.waiting(driver.manifest, driver.container)


def _without_executors(pods: Sequence[_Pod]) -> facts.Waiting | None:
    """Return what keeps all executors of an attempt from work; None where one is at it, or begins.

    Spark waits for them without end, and says so in its log alone.
    """
    living = [pod for pod in pods if pod.is_executor and not pod.is_over and not pod.is_going]
    if any("running" in pod.container for pod in living):
        return None
    waits = [(pod.name, obstacles.waiting(pod.manifest, pod.container)) for pod in living]
    kept_back = [
        dataclasses.replace(each, message=f"executor {name}: {each.message}")
        for name, each in waits
        if each.obstacle is not Obstacle.BEGINNING
    ]
    return min(kept_back, key=lambda each: each.since_ms, default=None)


def _cause(driver: _Pod | None, *, has_result: bool) -> facts.Cause | None:
    """Return why an attempt ended, as far as its pod tells."""
    if driver is None:
        return facts.Cause(kind=retries.INFRASTRUCTURE, message="its pod was deleted")
    disruption = driver.condition("DisruptionTarget")
    reason = str(driver.status.get("reason") or "")
    if disruption is not None and disruption["status"] == "True":
        told = disruption.get("message") or disruption.get("reason") or "disrupted"
        return facts.Cause(kind=retries.INFRASTRUCTURE, message=f"its pod was evicted: {told}")
    if reason in _TAKEN_REASONS:
        told = f"{reason}: {driver.status.get('message') or ''}".strip(": ")
        return facts.Cause(kind=retries.INFRASTRUCTURE, message=f"its pod was evicted: {told}")
    terminated = driver.container.get("terminated") or {}
    if terminated.get("reason") == _OUT_OF_MEMORY and not has_result:
        return facts.Cause(
            kind=errors.OutOfMemoryError.kind,
            message=f"pod {driver.name} was killed because it exceeded its memory limit",
        )
    if not terminated:
        # Its node went, and with it what became of it.
        return facts.Cause(
            kind=retries.INFRASTRUCTURE,
            message="its container has no exit code: its node may have failed",
        )
    return None
