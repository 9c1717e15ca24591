"""How long a build of indexes will still take: its phases, weighed by what is known of the files.

A phase that is at work is measured by its own pace. What one that is still to come takes follows
from the lengths of files, by costs that are estimated, and from how long the build
has needed so far beside these. Nothing is decided by it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hoodie.filegroup import listing
from hoodie.model import (
    expression_indexes,
    file_statistics,
    files,
    key_changes,
    secondary_indexes,
)

STATISTICS = "reading statistics"
FILTERS = "reading bloom filters"
KEYS = "reading record keys"
KEYS_WRITTEN = "writing the record index"

_STATISTICS_S = 0.003
_FILTER_S = 0.012
_KEYS_S = 4e-9
_KEYS_WRITTEN_S = 6e-9
_PAIRS_S = 8e-9
_PAIRS_WRITTEN_S = 8e-9
"""Of a file, and of a byte of files: estimates, of which only the proportions matter."""


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase of a build.

    Attributes:
        name: What a reporter is told.
        cost_s: What it takes by the estimates, in seconds.
    """

    name: str
    cost_s: float


def reading_name(column: str) -> str:
    """Return the phase in which the values of a secondary index are read."""
    return f"reading {column}"


def writing_name(partition: str) -> str:
    """Return the phase in which the pairs of a secondary index are written."""
    return f"writing {partition}"


def phases(
    names: Sequence[str],
    definitions: Sequence[secondary_indexes.Definition],
    data_files: Mapping[str, Sequence[listing.DataFile]],
    slices: Sequence[files.FileSlice],
) -> tuple[Phase, ...]:
    """Return the phases of a build in their order.

    Args:
        names: The indexes.
        definitions: Of the secondary indexes among them.
        data_files: Those that count, by partition path.
        slices: The newest slices.
    """
    every = [each for found in data_files.values() for each in found]
    bases = sum(isinstance(each, files.BaseFile) for each in every)
    size_bytes = sum(each.size_bytes for one in slices for each in one.data_files)
    found = []
    of_statistics = {file_statistics.COLUMN_STATS, file_statistics.PARTITION_STATS}
    if of_statistics.intersection(names) or any(map(expression_indexes.is_one, names)):
        found.append(Phase(STATISTICS, len(every) * _STATISTICS_S))
    if file_statistics.BLOOM_FILTERS in names:
        found.append(Phase(FILTERS, bases * _FILTER_S))
    for each in definitions:
        found.append(Phase(reading_name(each.column), size_bytes * _PAIRS_S))
        found.append(Phase(writing_name(each.partition), size_bytes * _PAIRS_WRITTEN_S))
    if key_changes.RECORD_INDEX in names:
        found.append(Phase(KEYS, size_bytes * _KEYS_S))
        found.append(Phase(KEYS_WRITTEN, size_bytes * _KEYS_WRITTEN_S))
    return tuple(found)


def left_s(
    expected: Sequence[Phase], number: int, spent_s: Sequence[float], done: float | None
) -> float | None:
    """Return how many seconds a build will still take; None where nothing is known of it.

    Args:
        expected: Its phases.
        number: Of the one that is at work.
        spent_s: What each has taken up to that one, and it so far.
        done: How much of it is done, of 1; None where it does not say.
    """
    here, share = expected[number], done or 0.0
    known_s = sum(each.cost_s for each in expected[:number]) + share * here.cost_s
    # What one that does not say how far it is has taken tells nothing.
    taken_s = sum(spent_s[:number]) + (spent_s[number] if share else 0.0)
    pace = taken_s / known_s if known_s > 0 and taken_s > 0 else None
    if share:
        of_this = spent_s[number] * (1 - share) / share
    elif pace is None:
        return None
    else:
        of_this = max(0.0, here.cost_s * pace - spent_s[number])
    rest = sum(each.cost_s for each in expected[number + 1 :])
    if not rest:
        return of_this
    return None if pace is None else of_this + rest * pace
