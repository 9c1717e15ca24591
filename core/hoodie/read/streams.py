"""The rows of several read tasks, one stream, read ahead by threads of this process."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from hoodie.engine import ahead
from hoodie.read import tasks

_AHEAD_BYTES = 256 << 20
"""What a read holds for a caller who is slower: half of the largest base file, decoded, so that two
threads need not wait for each other."""


def batches(planned: Sequence[tasks.ReadTask], threads: int) -> Iterator[pa.RecordBatch]:
    """Yield the batches of all tasks in their order, some of them read ahead.

    Args:
        planned: The tasks.
        threads: So many tasks are worked on at once.

    Raises:
        HoodieError: As `tasks.run`.
    """
    bound = ahead.Bound(size_of=_size_bytes, size_max=_AHEAD_BYTES)
    return ahead.streams(tasks.run, planned, threads, bound)


def _size_bytes(batch: pa.RecordBatch) -> int:
    return int(batch.nbytes)
