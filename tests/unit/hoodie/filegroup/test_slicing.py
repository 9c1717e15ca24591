"""File slices by completion time: RFC-66, protocol.md: File slices and reads."""

from collections.abc import Iterable, Mapping

from hoodie.filegroup import slicing
from hoodie.model import files, instants

GROUP = files.FileGroupId("p", "00000000-0000-0000-0000-000000000000-0")


def at(tick: int) -> instants.InstantTime:
    """Return the instant time of a scenario's `t<tick>`."""
    return instants.InstantTime(f"20260101{tick:09d}")


def base(requested: int, token: str = "0-0-0") -> files.BaseFile:
    time = at(requested)
    return files.BaseFile(
        group=GROUP,
        name=f"{GROUP.file_id}_{token}_{time}.parquet",
        instant_time=time,
        write_token=token,
        size_bytes=1,
    )


def log(requested: int, version: int = 1, token: str = "0-0-0") -> files.LogFile:
    time = at(requested)
    return files.LogFile(
        group=GROUP,
        name=f".{GROUP.file_id}_{time}.log.{version}_{token}",
        instant_time=time,
        version=version,
        write_token=token,
        size_bytes=1,
    )


def cut(
    *data_files: files.BaseFile | files.LogFile,
    completed: Mapping[int, int],
    pending: Iterable[int] = (),
    admits_pending_files: bool = False,
) -> list[tuple[int, int | None, list[int]]]:
    """Return the slices as (barrier, base file's time, log files' times), newest first."""
    times = {at(requested): at(done) for requested, done in completed.items()}
    slices = slicing.slices_of(
        GROUP,
        [each for each in data_files if isinstance(each, files.BaseFile)],
        [each for each in data_files if isinstance(each, files.LogFile)],
        times.get,
        lambda time: admits_pending_files or time in times,
        [at(tick) for tick in pending],
    )
    return [
        (
            int(each.base_instant_time[8:]),
            int(each.base_file.instant_time[8:]) if each.base_file else None,
            [int(one.instant_time[8:]) for one in each.log_files],
        )
        for each in slices
    ]


def test_rfc_66_a_demo_conducive_to_comprehension() -> None:
    """T-N05."""
    # RFC-66, "A Demo Conducive to Comprehension" (S40); seen at t100.
    fg_t10, fg_t60 = base(10), base(60)
    l1, l2, l3 = log(21), log(30), log(35)
    assert cut(fg_t10, l1, l2, fg_t60, l3, completed={10: 20, 21: 40, 30: 50, 60: 80, 35: 90}) == [
        (60, 60, [35]),
        (10, 10, [21, 30]),
    ]


def test_rfc_66_demo_before_its_compaction_completed() -> None:
    # The same at t70: the compaction of t60 is a plan, its base file counts for nothing yet.
    assert cut(
        base(10),
        log(21),
        log(30),
        base(60),
        log(35),
        completed={10: 20, 21: 40, 30: 50},
        pending=[60],
    ) == [
        (60, None, []),
        (10, 10, [21, 30]),
    ]


def test_rfc_66_log_that_outlives_a_compaction_plan_starts_over_it() -> None:
    """T-N06."""
    # RFC-66, "Non-Serial Compaction Plan Schedule" (S17, S19): [t1, t3], [t2, t5], plan at t4.
    before = cut(log(1), log(2), completed={1: 3, 2: 5}, pending=[4])
    assert before == [(4, None, [2]), (1, None, [1])]
    after = cut(log(1), log(2), base(4), completed={1: 3, 2: 5, 4: 9})
    assert after == [(4, 4, [2]), (1, None, [1])]


def test_log_completed_at_the_barrier_belongs_to_it() -> None:
    """T-N07."""
    # S160: `<=`, where the RFC's pseudocode has `<`.
    assert cut(base(10), base(60), log(20), completed={10: 11, 60: 70, 20: 60}) == [
        (60, 60, [20]),
        (10, 10, []),
    ]


def test_first_log_of_a_group_without_base_file_is_the_barrier() -> None:
    """T-N09."""
    # RFC-66, `get_file_slice_barriers` (S35), and its order: requested time, version, token (S25).
    assert cut(log(7), log(3, 2), log(3), completed={3: 9, 7: 8}) == [(3, None, [3, 3, 7])]


def test_log_completed_below_every_barrier_is_kept_in_a_slice_of_its_own() -> None:
    # 7.1 row 3: the pseudocode would drop it (T-N08).
    assert cut(log(2), log(1), base(10), completed={1: 3, 2: 4, 10: 12}) == [
        (10, 10, []),
        (1, None, [1, 2]),
    ]


def test_log_files_are_in_merge_order_whatever_completed_first() -> None:
    names = [
        log(100, 1, "10-1-1"),
        log(100, 1, "2-1-1"),
        log(100, 2, "0-1-1"),
        log(200, 1, "0-0-0"),
    ]
    (only,) = slicing.slices_of(
        GROUP,
        [],
        reversed(names),
        {at(100): at(400), at(200): at(300)}.get,
        lambda _: True,
        [],
    )
    assert list(only.log_files) == names


def test_uncommitted_files_are_left_out() -> None:
    assert cut(base(10), log(20), log(30), completed={10: 11, 30: 40}) == [(10, 10, [30])]


def test_uncommitted_base_file_is_no_barrier() -> None:
    # What completed after a write of t20 died must not hang on a base file that nobody reads.
    assert cut(base(10), base(20), log(15), completed={10: 11, 15: 30}) == [(10, 10, [15])]


def test_pending_log_that_is_asked_for_is_in_the_newest_slice() -> None:
    # protocol.md: File slices and reads, for who looks for leftovers.
    assert cut(base(10), base(60), log(5), completed={10: 11}, admits_pending_files=True) == [
        (60, 60, [5]),
        (10, 10, []),
    ]


def test_of_two_base_files_of_one_instant_the_later_token_counts() -> None:
    times = {at(10): at(11)}
    (only,) = slicing.slices_of(
        GROUP, [base(10, "1-0-1"), base(10)], [], times.get, lambda time: time in times, []
    )
    assert only.base_file == base(10, "1-0-1")


def test_group_of_nothing_has_no_slices() -> None:
    assert cut(completed={}) == []
