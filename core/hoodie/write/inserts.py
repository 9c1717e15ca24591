"""Which file groups take new rows, in a table whose writers look keys up.

    small files      base files below `small_file_bytes`, the smallest first, each up to
                     `base_file_bytes_max`: it is written again with the rows added
    new file groups  for the rest, of even sizes, none above `base_file_bytes_max`

Inserts become base files in tables of both types, as with Apache Hudi: its simple and bloom indexes
do not look for keys in log files. So in a merge-on-read table only file groups without log files
count as small. All rows of a key go to one file group. Keys are taken in the order of their first
rows: that of the batch, or that by which a bulk insert sorts its rows.

The size of a row is that in the largest base files of the partition, footers left out, which would
count for much in small ones; without files it is that in memory, which is more. Source:
`UpsertPartitioner.java`, `SparkUpsertDeltaCommitPartitioner.java` (1.2.0).
"""

import itertools
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallFile:
    """A base file that takes more rows.

    Attributes:
        file_id: Of its file group.
        size_bytes: Its length.
    """

    file_id: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What decides how many rows a file takes.

    Attributes:
        row_bytes: Of a row in a base file, about.
        file_bytes_max: Of a base file, about.
    """

    row_bytes: float
    file_bytes_max: int

    def rows_in(self, size_bytes: int) -> int:
        """Return how many rows take so many bytes."""
        return max(0, int(size_bytes / max(self.row_bytes, 1e-9)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The keys that one file group takes.

    Attributes:
        file_id: Of a small file's group; None for a new one.
        count: How many.
    """

    file_id: str | None
    count: int


def new_file_id(write_id: str, task: int, number: int) -> str:
    """Return the id of a new file group: as random as the write's, the same in each attempt.

    Args:
        write_id: Of the write; a UUID.
        task: Of those that write, the number of the one that makes the group.
        number: Of the group among those of the task.
    """
    return f"{uuid.uuid5(uuid.UUID(write_id), str(task))}-{number}"


def shares(count: int, small_files: Sequence[SmallFile], sizes: Sizes) -> Iterator[Share]:
    """Yield the file groups that take new keys, in the order of the keys; each takes some.

    Args:
        count: How many keys there are.
        small_files: Those that may take some.
        sizes: Of rows and files.
    """
    left = count
    for small in sorted(small_files, key=lambda each: (each.size_bytes, each.file_id)):
        taken = min(left, sizes.rows_in(sizes.file_bytes_max - small.size_bytes))
        if taken:
            yield Share(file_id=small.file_id, count=taken)
            left -= taken
    if left:
        new = -(-left // max(1, sizes.rows_in(sizes.file_bytes_max)))
        ends = [left * number // new for number in range(new + 1)]
        for start, end in itertools.pairwise(ends):
            yield Share(file_id=None, count=end - start)


def numbers_of(keys: Counts, taken: Sequence[Share]) -> Counts:
    """Return for each row which of the shares it is in.

    Args:
        keys: The number of each row's key, from 0 on in the order of their first rows.
        taken: All shares of these keys.
    """
    ends = np.cumsum([each.count for each in taken], dtype=np.int64)
    return np.searchsorted(ends, keys, side="right").astype(np.int64)
