"""Which file groups a plan takes: strategies, as functions of candidates and the day of the plan.

Terms:
    candidate   a file group with something to compact, in no pending plan
    passed over a strategy does not want it: another plan with the same options would not either
    left out    a bound was reached: the next plan with the same options takes it

Two phases, as in Apache Hudi. First each strategy chooses among the partitions and orders them,
then each chooses among the candidates of what is left and orders those; several strategies are a
pipeline. What all bound in common comes last.

A date is the beginning of a partition's path, keys of Hive's style left out: `2026/11/21`,
`2026-11-21`, `year=2026/month=11/day=21`, `dt=2026-11-21/hour=05`. Apache Hudi fails on a table in
which one partition has none; here such a partition counts as older than all.

Source: `hudi-client-common`, `table/action/compact/strategy/` (1.2.0).
"""

import enum
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from hoodie.model import compaction_options, files, instants

Strategy = compaction_options.Strategy
Options = compaction_options.CompactionOptions

MEBIBYTE = 1 << 20
NEW_BASE_FILE_BYTES = 120 * MEBIBYTE
"""What a base file is taken to have where there is none yet: `hoodie.parquet.max.file.size`."""

_DATE = re.compile(r"(\d{4})[/-](\d{1,2})[/-](\d{1,2})(?!\d)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A file group that a plan may take.

    Attributes:
        group: The file group.
        log_files: So many log files are to be merged.
        log_bytes: Their summed size.
        base_bytes: Size of the base file; 0 for none.
    """

    group: files.FileGroupId
    log_files: int
    log_bytes: int
    base_bytes: int

    @property
    def read_bytes(self) -> int:
        """What the compaction reads."""
        return self.log_bytes + self.base_bytes

    @property
    def read_mib(self) -> int:
        """What the compaction reads, in whole MiB."""
        return self.read_bytes // MEBIBYTE

    @property
    def write_mib(self) -> int:
        """What it is taken to write, in whole MiB."""
        return (self.base_bytes or NEW_BASE_FILE_BYTES) // MEBIBYTE

    @property
    def io_mib(self) -> int:
        """What it reads and writes, in whole MiB."""
        return self.read_mib + self.write_mib

    @property
    def log_ratio(self) -> float:
        """The size of the log files as a part of the base file; infinite where there is none."""
        return self.log_bytes / self.base_bytes if self.base_bytes else float("inf")


def candidate_of(file_slice: files.FileSlice) -> Candidate:
    """Return a file slice as a candidate."""
    return Candidate(
        group=file_slice.group,
        log_files=len(file_slice.log_files),
        log_bytes=file_slice.log_bytes,
        base_bytes=file_slice.base_file.size_bytes if file_slice.base_file else 0,
    )


class Choice(enum.Enum):
    """What becomes of a candidate, and why."""

    TAKEN = "taken"
    PARTITION = "partition not chosen"
    BELOW_THRESHOLD = "below threshold"
    BOUND = "plan is full"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What strategies chose.

    Attributes:
        taken: In the order of the plan.
        others: The other candidates, and why they were not taken.
    """

    taken: tuple[Candidate, ...]
    others: tuple[tuple[Candidate, Choice], ...]

    @property
    def left_out(self) -> int:
        """So many file groups were not taken because the plan is full."""
        return sum(choice is Choice.BOUND for _, choice in self.others)


NOTHING = Selection(taken=(), others=())
"""Of a table that was not looked at."""


@dataclass(frozen=True, slots=True)
class _Round:
    """What candidates are left of, after a step of the pipeline."""

    kept: Sequence[Candidate]
    dropped: Sequence[Candidate] = ()
    why: Choice = Choice.BELOW_THRESHOLD
    cut: Sequence[Candidate] = ()


def select(
    candidates: Iterable[Candidate], options: Options, requested_time: instants.InstantTime
) -> Selection:
    """Return which candidates a plan takes.

    Args:
        candidates: One a file group, in any order.
        options: Strategies, their thresholds, and bounds.
        requested_time: The plan's; today is its day.
    """
    # By texts: to compare values of a class takes ten times as long, and the lock is held.
    left = sorted(candidates, key=lambda each: (each.group.partition_path, each.group.file_id))
    today = date(int(requested_time[:4]), int(requested_time[4:6]), int(requested_time[6:8]))
    others: list[tuple[Candidate, Choice]] = []
    by_partition: dict[str, list[Candidate]] = {}
    for each in left:
        by_partition.setdefault(each.group.partition_path, []).append(each)
    partitions = list(by_partition)
    for strategy in options.strategies:
        partitions = _PARTITIONS.get(strategy, _all_partitions)(partitions, options, today)
    chosen = set(partitions)
    for path, same in by_partition.items():
        if path not in chosen:
            others += [(each, Choice.PARTITION) for each in same]
    left = [each for path in partitions for each in by_partition[path]]
    steps = [_CANDIDATES.get(strategy, _all_candidates) for strategy in options.strategies]
    for step in (*steps, _within_bounds):
        found = step(left, options)
        others += [(each, found.why) for each in found.dropped]
        others += [(each, Choice.BOUND) for each in found.cut]
        left = list(found.kept)
    assert len({each.group for each in left}) == len(left), "a plan has a file group once"
    return Selection(taken=tuple(left), others=tuple(others))


def partition_date(path: str) -> date | None:
    """Return the date that a partition's path begins with; None for none."""
    values = "/".join(segment.rpartition("=")[2] for segment in path.split("/"))
    found = _DATE.match(values)
    if found is None:
        return None
    try:
        return date(int(found[1]), int(found[2]), int(found[3]))
    except ValueError:
        return None


def _dates(paths: Iterable[str]) -> dict[str, date]:
    """Return the date of each partition, newest first; the oldest of all for those without."""
    dated = {path: partition_date(path) or date.min for path in paths}
    return dict(sorted(dated.items(), key=lambda item: item[1], reverse=True))


def _all_partitions(paths: list[str], _options: Options, _today: date) -> list[str]:
    return paths


def _newest(paths: list[str], options: Options, _today: date) -> list[str]:
    return list(_dates(paths))[: options.partitions_max]


def _recent(paths: list[str], options: Options, today: date) -> list[str]:
    earliest = _earliest(options, today)
    dates = _dates(paths)
    return [path for path, day in dates.items() if day >= earliest]


def _old(paths: list[str], options: Options, today: date) -> list[str]:
    earliest = _earliest(options, today)
    dates = _dates(paths)
    return [path for path, day in dates.items() if day < earliest]


def _earliest(options: Options, today: date) -> date:
    """Return the day that separates recent partitions from old ones; it is recent itself."""
    days = min(options.partitions_max, (today - date.min).days - 1)
    return today - timedelta(days=days)


def _matching(paths: list[str], options: Options, _today: date) -> list[str]:
    found = compaction_options.matching(tuple(paths), options.partition_regex)
    return [path for path, is_match in zip(paths, found, strict=True) if is_match]


_PARTITIONS: Mapping[Strategy, Callable[[list[str], Options, date], list[str]]] = {
    Strategy.DAY_BASED: _newest,
    Strategy.RECENT_PARTITIONS: _recent,
    Strategy.OLD_PARTITIONS: _old,
    Strategy.PARTITION_REGEX: _matching,
}


def _all_candidates(candidates: Sequence[Candidate], _options: Options) -> _Round:
    return _Round(candidates)


def _by_log_size(candidates: Sequence[Candidate], options: Options) -> _Round:
    return _largest(candidates, options, lambda each: each.log_bytes, options.log_bytes_min)


def _by_log_count(candidates: Sequence[Candidate], options: Options) -> _Round:
    return _largest(candidates, options, lambda each: each.log_files, options.log_files_min)


def _by_log_ratio(candidates: Sequence[Candidate], options: Options) -> _Round:
    return _largest(candidates, options, lambda each: each.log_ratio, options.log_ratio_min)


def _largest(
    candidates: Sequence[Candidate],
    options: Options,
    amount: Callable[[Candidate], float],
    least: float,
) -> _Round:
    """Return the candidates of an amount, largest first, within the bound of input and output."""
    enough = [each for each in candidates if amount(each) >= least]
    bounded = _within_io(sorted(enough, key=amount, reverse=True), options)
    dropped = [each for each in candidates if amount(each) < least]
    return _Round(bounded.kept, dropped, Choice.BELOW_THRESHOLD, bounded.cut)


def _within_io(candidates: Sequence[Candidate], options: Options) -> _Round:
    """Return the candidates until input and output reach their bound; the last may exceed it."""
    remaining = options.target_io_mib
    for number, each in enumerate(candidates):
        if remaining <= 0:
            return _Round(candidates[:number], cut=candidates[number:])
        remaining -= each.io_mib
    return _Round(candidates)


_CANDIDATES: Mapping[Strategy, Callable[[Sequence[Candidate], Options], _Round]] = {
    Strategy.LOG_SIZE: _by_log_size,
    Strategy.LOG_COUNT: _by_log_count,
    Strategy.LOG_RATIO: _by_log_ratio,
    Strategy.BOUNDED_IO: _within_io,
    Strategy.DAY_BASED: _within_io,
}


def _within_bounds(candidates: Sequence[Candidate], options: Options) -> _Round:
    """Return as many candidates as a plan may have and read, but at least one."""
    if options.file_groups_max is None and options.bytes_max is None:
        return _Round(candidates)
    read_bytes = 0
    for number, each in enumerate(candidates):
        read_bytes += each.read_bytes
        is_full = options.file_groups_max is not None and number >= options.file_groups_max
        is_large = options.bytes_max is not None and read_bytes > options.bytes_max
        if is_full or (is_large and number):
            return _Round(candidates[:number], cut=candidates[number:])
    return _Round(candidates)
