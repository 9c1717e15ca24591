"""The fence: whether this attempt may still commit.

Whoever starts attempts writes the current one's number, and the hash of what all writers of the
table must agree on, into a file. A job reads it in the lock scope of each completion, so that of
two attempts of a run only the newer one publishes, and none works by rules changed meanwhile.
"""

from collections.abc import Callable

from hoodie import errors
from hoodie.model import jobs
from hoodie_jobs import files


def guard(spec: jobs.JobSpec) -> Callable[[], None]:
    """Return the check to make before each completion.

    The check raises:
        FencedError: The fence names another attempt or another hash, or is gone.
        StorageError: It cannot be read.
    """

    def check() -> None:
        if spec.fence_path is not None:
            _check(spec, spec.fence_path)

    return check


def _check(spec: jobs.JobSpec, path: str) -> None:
    try:
        fence = jobs.decode_fence(files.read(path), path)
    except errors.NotFoundError as error:
        raise errors.FencedError(f"attempt {spec.attempt} has lost its fence: {error}") from error
    if fence.attempt != spec.attempt:
        raise errors.FencedError(
            f"attempt {spec.attempt} may not commit: attempt {fence.attempt} is the current one"
        )
    if fence.protocol_hash != spec.protocol_hash:
        raise errors.FencedError(
            f"attempt {spec.attempt} may not commit: it works by the table's configuration "
            f"{spec.protocol_hash}, the current one is {fence.protocol_hash}"
        )
