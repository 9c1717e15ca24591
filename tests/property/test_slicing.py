"""Slices of random file groups against RFC-66's pseudocode, written down as it stands there."""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie.filegroup import slicing
from hoodie.model import files, instants

GROUP = files.FileGroupId("", "g-0")


def time_of(tick: int) -> instants.InstantTime:
    return instants.InstantTime(f"20260101{tick:09d}")


@dataclass(frozen=True)
class Write:
    requested: int
    completed: int | None
    kind: str  # base, log, or compaction, which may have no file yet


@st.composite
def histories(draw: st.DrawFn) -> list[Write]:
    """Writes with distinct requested times and completion times, some still pending."""
    ticks = draw(st.lists(st.integers(1, 60), min_size=1, max_size=14, unique=True))
    writes = []
    for tick in ticks:
        length = draw(st.one_of(st.none(), st.integers(0, 30)))
        kind = draw(st.sampled_from(["base", "log", "log", "log", "compaction"]))
        writes.append(Write(tick, None if length is None else tick + length, kind))
    return writes


def oracle(history: list[Write]) -> dict[int, tuple[bool, list[int]]]:
    """Return the slices by barrier: whether there is a base file, and the log files' times."""
    barriers = {
        each.requested
        for each in history
        if (each.kind == "base" and each.completed is not None) or each.kind == "compaction"
    }
    slices: dict[int, tuple[bool, list[int]]] = {}
    for each in history:
        if each.requested in barriers:
            slices[each.requested] = (each.completed is not None, [])
    for each in sorted(history, key=lambda write: write.requested):
        if each.kind != "log" or each.completed is None:
            continue
        below = [barrier for barrier in slices if barrier <= each.completed]
        barrier = max(below, default=each.requested)
        slices.setdefault(barrier, (False, []))[1].append(each.requested)
    return slices


def sliced(history: list[Write]) -> tuple[files.FileSlice, ...]:
    bases, logs, pending = [], [], []
    for each in history:
        time = time_of(each.requested)
        if each.kind == "log":
            logs.append(
                files.LogFile(
                    group=GROUP,
                    name=f".{time}",
                    instant_time=time,
                    version=1,
                    write_token="0-0-0",
                    size_bytes=0,
                )
            )
        if each.kind == "compaction" and each.completed is None:
            pending.append(time)
        if each.kind in ("base", "compaction"):
            bases.append(
                files.BaseFile(
                    group=GROUP, name=time, instant_time=time, write_token="0-0-0", size_bytes=0
                )
            )
    completions = {
        time_of(each.requested): time_of(each.completed)
        for each in history
        if each.completed is not None
    }
    return slicing.slices_of(
        GROUP, bases, logs, completions.get, lambda time: time in completions, pending
    )


@settings(deadline=None)  # The machine is shared.
@given(histories())
def test_slices_are_those_of_the_pseudocode(history: list[Write]) -> None:
    """T-N19."""
    expected = oracle(history)
    found = sliced(history)
    assert [each.base_instant_time for each in found] == [
        time_of(barrier) for barrier in sorted(expected, reverse=True)
    ]
    for each in found:
        has_base, logs = expected[int(each.base_instant_time[8:])]
        assert (each.base_file is not None) == has_base
        assert [log.instant_time for log in each.log_files] == [time_of(log) for log in logs]


@settings(deadline=None)  # The machine is shared.
@given(histories())
def test_temporal_order_of_rfc_66_holds(history: list[Write]) -> None:
    """T-N19: S38, S39: what a slice's base file follows is below it, what follows it is not."""
    found = sliced(history)
    completed = {time_of(each.requested): each.completed for each in history}
    everything = [log for each in found for log in each.log_files]
    committed_logs = [each for each in history if each.kind == "log" and each.completed is not None]
    assert len(everything) == len(set(everything)) == len(committed_logs)
    for position, newer in enumerate(found):
        for older in found[position + 1 :]:
            for log in older.log_files:
                done = completed[log.instant_time]
                assert done is not None
                assert time_of(done) < newer.base_instant_time
