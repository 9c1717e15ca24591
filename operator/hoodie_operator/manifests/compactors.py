"""The memory of a compactor's pod, and how its process divides it.

Where the plan is known that is what the plan needs, up to the default limit of runs; memory that a
runtime states stands as it is. The process merges as many file groups at once as fit, each within
its part, so that a plan of any size is executed in the memory that there is.
"""

import dataclasses
from dataclasses import dataclass

from hoodie.contract import engine_specs, job_specs
from hoodie.maintenance.compaction import memory
from hoodie.model import settings
from hoodie_operator.api import execution
from hoodie_operator.manifests import pods
from hoodie_operator.reconcile import effects

_MEBIBYTE = 1 << 20
_SLICE_BYTES = settings.WriteSettings().compaction_memory_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """How a process divides its memory.

    Attributes:
        threads: So many file groups are merged at once.
        slice_bytes: What each may take.
    """

    threads: int
    slice_bytes: int


def is_local(start: effects.StartRun) -> bool:
    """Return whether a run merges file groups in its own process."""
    is_compaction = isinstance(start.work, job_specs.Compact)
    return is_compaction and start.engine.kind is engine_specs.EngineKind.LOCAL


def sized(start: effects.StartRun, default: execution.Resources) -> execution.Resources:
    """Return the resources of a run that merges file groups in its own process."""
    given = start.runtime.resources or default
    if start.plan_size is None or _memory_of(start.runtime.resources) is not None:
        return given
    limit = _memory_of(default)
    if limit is None:
        return given
    limit_bytes = pods.mebibytes(limit) * _MEBIBYTE
    parts = _divided(limit_bytes, start)
    needed = memory.needed(start.plan_size, parts.slice_bytes, parts.threads)
    amount = f"{-(-min(needed, limit_bytes) // _MEBIBYTE)}Mi"
    return execution.Resources(
        requests=given.requests.model_copy(update={"memory": amount}),
        limits=given.limits.model_copy(update={"memory": amount}),
    )


def divided(
    given: execution.Resources, spec: job_specs.JobSpec, start: effects.StartRun
) -> job_specs.JobSpec:
    """Return the spec of a run that merges in its own process, with its share of memory."""
    found = _memory_of(given)
    if found is None:
        return spec
    parts = _divided(pods.mebibytes(found) * _MEBIBYTE, start)
    return dataclasses.replace(
        spec,
        settings=dataclasses.replace(spec.settings, compaction_memory_bytes=parts.slice_bytes),
        engine=dataclasses.replace(spec.engine, parallelism=parts.threads),
    )


def _divided(memory_bytes: int, start: effects.StartRun) -> Division:
    least = settings.COMPACTION_MEMORY_BYTES_MIN
    left = max(least, memory_bytes - memory.PROCESS_BYTES)
    size = start.plan_size
    part = _SLICE_BYTES if size is None else memory.needed_by_slice(size, _SLICE_BYTES)
    threads = start.runtime.parallelism
    threads = left // part if threads is None else min(threads, left // least)
    if size is not None:
        threads = min(threads, size.file_groups)
    threads = max(1, threads)
    return Division(threads=threads, slice_bytes=left // threads)


def _memory_of(given: execution.Resources | None) -> str | None:
    """Return the memory that a pod may take."""
    return None if given is None else given.limits.memory or given.requests.memory
