"""The fence: whether this attempt may still commit.

It tells which attempt of a run is the current one, and, where whoever starts attempts keeps it,
the hash of what all writers of the table must agree on. A job looks at it in the lock scope of each
completion, so that of two attempts of a run only the newer one publishes, and none works by rules
changed meanwhile.
"""

from collections.abc import Callable
from typing import assert_never

from hoodie import clock, errors
from hoodie.model import jobs
from hoodie.storage.protocol import Storage
from hoodie.transaction import fence_nodes, fence_records
from hoodie_jobs import files


def claim(spec: jobs.JobSpec, storage: Storage) -> None:
    """Become the current attempt, where nobody else tells which one that is.

    To be done before the job looks at what is committed.

    Raises:
        FencedError: There is a later attempt.
    """
    if isinstance(spec.fence, jobs.FenceRecord):
        fence_records.claim(storage, spec.fence.owner, spec.attempt)


def guard(spec: jobs.JobSpec, open_storage: Callable[[str], Storage]) -> Callable[[], None]:
    """Return the check to make before each completion.

    The check raises:
        FencedError: The fence names another attempt or another hash, or is gone.
        StorageError: It cannot be read.
    """

    def check() -> None:
        match spec.fence:
            case None:
                return
            case jobs.FenceRecord(owner=owner):
                fence_records.check(open_storage(spec.table_uri), owner, spec.attempt)
            case jobs.FenceFile(path=path):
                _check(spec, _in_file(spec, path))
            case jobs.FenceNode():
                found = fence_nodes.read(spec.fence, clock.SystemClock())
                if found is None:
                    raise _lost(spec, f"{spec.fence.path}: there is no such node")
                _check(spec, found)
            case _:
                assert_never(spec.fence)

    return check


def _in_file(spec: jobs.JobSpec, path: str) -> jobs.Fence:
    try:
        return jobs.decode_fence(files.read(path), path)
    except errors.NotFoundError as error:
        raise _lost(spec, str(error)) from error


def _lost(spec: jobs.JobSpec, why: str) -> errors.FencedError:
    return errors.FencedError(f"attempt {spec.attempt} has lost its fence: {why}")


def _check(spec: jobs.JobSpec, fence: jobs.Fence) -> None:
    if fence.attempt != spec.attempt:
        raise errors.FencedError(
            f"attempt {spec.attempt} may not commit: attempt {fence.attempt} is the current one"
        )
    if fence.protocol_hash != spec.protocol_hash:
        raise errors.FencedError(
            f"attempt {spec.attempt} may not commit: it works by the table's configuration "
            f"{spec.protocol_hash}, the current one is {fence.protocol_hash}"
        )
