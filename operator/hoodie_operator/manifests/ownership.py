"""Whose a Job or a Pod is: by references and names as we, Kubernetes and Spark give them.

    object of ours <- Job (its controller; its name tells owner and attempt)
    Job            <- driver's Pod (made by the Job controller)
    driver's Pod   <- executors' Pods (made by Spark)

Labels find them and say nothing more: anybody may copy labels. All of a run is in the namespace of
its owner. Whoever may make Jobs or Pods there may forge references as well, and can hold up what is
in that namespace, where he may take all it has anyway; he reaches nothing elsewhere.

Where the parent of a Pod is not known (not yet, or not any more), or was taken from it (`kubectl
delete --cascade=orphan`), the Pod counts: a run that is overlooked would have another beside it.
"""

from collections.abc import Mapping
from typing import Final

from hoodie_operator.api import group
from hoodie_operator.api.resources import Manifest
from hoodie_operator.manifests import naming
from hoodie_operator.reconcile import facts

_GENERATED_LENGTH: Final = 5
_GENERATED_BASE_MAX: Final = 63 - _GENERATED_LENGTH
"""Kubernetes adds so many characters to the name of a Job for each of its pods, cut if need be."""


def attempt_of_job(job: Manifest) -> facts.RunId | None:
    """Return the attempt that a Job is; None for one that is not ours.

    One without any controller may be an orphan, see `is_orphan`.
    """
    run = naming.run_id(job)
    if run is None or job["metadata"]["name"] != naming.run(run):
        return None
    return run if is_orphan(job) or is_owned_by(job, run) else None


def attempt_of_pod(pod: Manifest) -> facts.RunId | None:
    """Return the attempt that a Pod names its parent by; `pods_of` looks at the parent itself."""
    run = naming.run_id(pod)
    if run is None:
        return None
    controller = _controller(pod)
    if controller is None:
        is_ours = _is_named(pod["metadata"]["name"], run, is_executor=_is_executor(pod))
    elif _is_executor(pod):
        is_ours = naming.is_a(controller, "", "Pod") and _is_named(
            controller["name"], run, is_executor=False
        )
    else:
        is_ours = naming.is_a(controller, "batch", "Job") and controller["name"] == naming.run(run)
    return run if is_ours else None


def pods_of(pods: Mapping[str, Manifest], foreign_job: str | None) -> tuple[Manifest, ...]:
    """Return those Pods that are an attempt's, as far as their parents are known.

    Args:
        pods: Of which `attempt_of_pod` is the attempt, by uid.
        foreign_job: The uid of a Job that has the attempt's name, and is not the attempt.
    """
    return tuple(
        pod for pod in pods.values() if foreign_job is None or _job_of(pod, pods) != foreign_job
    )


def is_owned_by(found: Manifest, run: facts.RunId) -> bool:
    """Return whether the owner of an attempt controls a Job or a ConfigMap of its namespace."""
    controller = _controller(found)
    return (
        controller is not None
        and naming.run_id(found) == run
        and naming.is_a(controller, group.GROUP, run.kind)
        and (controller["name"], controller["uid"]) == (run.name, run.uid)
    )


def is_orphan(found: Manifest) -> bool:
    """Return whether nothing controls an object: its owner was deleted without it, or never was."""
    return _controller(found) is None


def _job_of(pod: Manifest, pods: Mapping[str, Manifest]) -> str | None:
    """Return the uid of the Job that a Pod comes from; None where that is not known."""
    controller = _controller(pod)
    if controller is None:
        return None
    if not _is_executor(pod):
        return str(controller["uid"])
    driver = pods.get(controller["uid"])
    return None if driver is None or _is_executor(driver) else _job_of(driver, pods)


def _controller(found: Manifest) -> Manifest | None:
    references: list[Manifest] = found["metadata"].get("ownerReferences") or []
    return next((each for each in references if each.get("controller")), None)


def _is_executor(pod: Manifest) -> bool:
    return bool(pod["metadata"]["labels"].get(naming.ROLE) == naming.EXECUTOR)


def _is_named(name: str, run: facts.RunId, *, is_executor: bool) -> bool:
    """Return whether a Pod of an attempt may have a name."""
    if is_executor:
        return name.startswith(f"{naming.executors(run)}-exec-")
    base = f"{naming.run(run)}-"[:_GENERATED_BASE_MAX]
    return name.startswith(base) and len(name) == len(base) + _GENERATED_LENGTH
