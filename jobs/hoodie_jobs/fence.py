"""The fence that whoever starts attempts keeps: whether this attempt may still commit.

It names the current attempt of a run and the hash of what all writers of the table must agree on. A
job looks at it in the lock scope of each completion, beside the author's attempt record in the
table: so it can be stopped from outside, and none works by rules changed meanwhile.
"""

from collections.abc import Callable
from typing import assert_never

from hoodie import clock, errors
from hoodie.contract import attempt_fences, job_specs
from hoodie.transaction import fence_nodes
from hoodie_jobs import files


def guard(spec: job_specs.JobSpec) -> Callable[[], None]:
    """Return the check to make before each completion.

    The check raises:
        FencedError: The fence names another attempt or another hash, or is gone.
        StorageError: It cannot be read.
    """

    def check() -> None:
        match spec.fence:
            case None:
                return
            case attempt_fences.FenceFile(path=path):
                _check(spec, _in_file(spec, path))
            case attempt_fences.FenceNode():
                found = fence_nodes.read(spec.fence, clock.SystemClock())
                if found is None:
                    raise _lost(spec, f"{spec.fence.path}: there is no such node")
                _check(spec, found)
            case _:
                assert_never(spec.fence)

    return check


def _in_file(spec: job_specs.JobSpec, path: str) -> attempt_fences.Fence:
    try:
        return attempt_fences.decode_fence(files.read(path), path)
    except errors.NotFoundError as error:
        raise _lost(spec, str(error)) from error


def _lost(spec: job_specs.JobSpec, why: str) -> errors.FencedError:
    return errors.FencedError(f"attempt {spec.attempt} has lost its fence: {why}")


def _check(spec: job_specs.JobSpec, fence: attempt_fences.Fence) -> None:
    if fence.attempt != spec.attempt:
        raise errors.FencedError(
            f"attempt {spec.attempt} may not commit: attempt {fence.attempt} is the current one"
        )
    if fence.protocol_hash != spec.protocol_hash:
        raise errors.FencedError(
            f"attempt {spec.attempt} may not commit: it has the table's configuration "
            f"{spec.protocol_hash}, the current one is {fence.protocol_hash}"
        )
