"""Deletes that outlive the compaction that merged them.

A delete with an ordering value holds against rows of smaller values that come after it, for as long
as a log holds it. A base file cannot: what came late would be there or not by when compaction ran.
So a compaction puts the deletes that left nothing of their keys into a log file of its own instant,
which lies on top of its base file: a delete block as any other, to Apache Hudi's readers, too.

The next compaction carries them on, each block with the instant of the compaction that first kept
it, so that their age is known; those that are older than the settings say go (docs/adr/0018).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hoodie.filegroup import merging
from hoodie.model import files, instants

_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a block that was merged comes from.

    Attributes:
        file: The log file.
        instant_time: What the block says.
    """

    file: files.LogFile
    instant_time: instants.InstantTime


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """Which compaction keeps deletes, and for how long.

    Attributes:
        instant_time: The compaction's.
        file_slice: What it merges.
        hours: How long deletes are kept; 0 for not at all.
    """

    instant_time: instants.InstantTime
    file_slice: files.FileSlice
    hours: int

    @property
    def oldest(self) -> int:
        """What was kept first at that time, in milliseconds, or before it, is not kept on."""
        return instants.parse_time(self.instant_time) - self.hours * _HOUR_MS

    def kept_since(self, origin: Origin) -> instants.InstantTime:
        """Return which compaction kept the deletes of a block first: this one, or an earlier."""
        is_kept = origin.file in self.file_slice.kept_deletes
        return origin.instant_time if is_kept else self.instant_time


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptDeletes:
    """Deletes that are kept.

    Attributes:
        instant_time: Of the compaction that first kept them.
        keys: Record keys.
        ordering: Their ordering values, an array for each ordering field.
    """

    instant_time: instants.InstantTime
    keys: pa.Array
    ordering: tuple[pa.Array, ...]


def kept(
    deletes: merging.OrderedDeletes, origins: Sequence[Origin], keeping: Keeping
) -> list[KeptDeletes]:
    """Return what a compaction keeps, oldest first.

    Args:
        deletes: What its merge left.
        origins: One for each block that was merged.
        keeping: Which compaction, and for how long.
    """
    times = [keeping.kept_since(origin) for origin in origins]
    found = []
    for time in sorted(set(times)):
        if instants.parse_time(time) <= keeping.oldest:
            continue
        blocks = [number for number, each in enumerate(times) if each == time]
        rows = pa.array(np.flatnonzero(np.isin(deletes.blocks, blocks)))
        if len(rows):
            found.append(
                KeptDeletes(
                    instant_time=time,
                    keys=deletes.keys.take(rows),
                    ordering=tuple(values.take(rows) for values in deletes.ordering),
                )
            )
    return found
