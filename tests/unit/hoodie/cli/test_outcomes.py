"""What a command says it did, and what a check found."""

import dataclasses

import pytest

from hoodie.cli.views import findings, outcomes
from hoodie.contract import job_results
from hoodie.model import commits, instants, results

T1, T2 = (instants.InstantTime(f"2026112109580{second}000") for second in (1, 3))


def commit(*stats: commits.WriteStat, batch_id: str | None = None) -> results.CommitResult:
    return results.CommitResult(
        instant=instants.Instant(
            requested_time=T1,
            action=instants.Action.DELTA_COMMIT,
            state=instants.State.COMPLETED,
            completion_time=T2,
        ),
        stats=stats,
        batch_id=batch_id,
        findings=("the clock was waited for",),
    )


def stat(records: int, deletes: int, file_id: str = "f") -> commits.WriteStat:
    return commits.WriteStat(
        file_id=file_id,
        partition_path="",
        path="f",
        prev_commit="null",
        records=records,
        inserts=records,
        updates=0,
        deletes=deletes,
        size_bytes=1024,
        log_files=("a", "b"),
    )


@pytest.mark.parametrize(
    ("stats", "amount"),
    [
        ([stat(1500, 0), stat(1, 0)], "1,501 rows, 4 files, 2.0 KiB"),
        ([stat(0, 1)], "1 delete, 2 files, 1.0 KiB"),
        ([stat(2, 3)], "2 rows and 3 deletes, 2 files, 1.0 KiB"),
        ([], "no rows, 0 files, 0 B"),
    ],
)
def test_write_tells_what_it_committed(stats: list[commits.WriteStat], amount: str) -> None:
    shown = outcomes.written("file:///t", commit(*stats, batch_id="b"), "upsert", "w", 10_400)
    assert outcomes.write_line(shown) == (
        f"committed {T1}: upsert of {amount}, in 10 s, of which the write took 2.00 s"
    )
    assert (shown.batch_id, shown.writer_id, shown.duration_ms) == ("b", "w", 2000)
    assert shown.total_ms == 10_400  # Reading the input is part of the command.
    assert shown.findings == ("the clock was waited for",)


def test_new_rows_and_updates_are_told_apart_where_the_write_has_looked() -> None:
    merged = dataclasses.replace(
        stat(5_000, 0), inserts=2, updates=1_500, log_files=(), prev_base_file="before"
    )
    new = dataclasses.replace(stat(3, 0, "g"), log_files=())

    def told(*stats: commits.WriteStat) -> outcomes.WriteDocument:
        return outcomes.written("file:///t", commit(*stats), "upsert", None, 0)

    both = told(merged, new)
    assert (both.records, both.inserted, both.updated) == (1_505, 5, 1_500)
    assert "upsert of 1,505 rows (5 new, 1,500 updated), 2 files" in outcomes.write_line(both)
    assert "upsert of 3 rows, 1 file" in outcomes.write_line(told(new))
    assert told(merged, stat(1, 0)).inserted is None
    assert both.unchanged == 0
    lost = told(dataclasses.replace(merged, inserts=0, updates=0, lost=7))
    assert (lost.records, lost.unchanged) == (0, 7)
    assert "upsert of 0 rows (0 new, 0 updated, 7 unchanged), 1 file" in outcomes.write_line(lost)


def test_batch_that_the_table_held_was_not_written() -> None:
    result = results.AlreadyCommitted(batch_id="b")
    shown = outcomes.written("file:///t", result, "upsert", "w", 10_400)
    assert not shown.is_written
    assert outcomes.write_line(shown) == "batch b is in the table already, nothing was written"


def test_compaction_tells_what_it_compacted() -> None:
    shown = outcomes.compacted("file:///t", commit(stat(10, 0, "f"), stat(5, 0, "g")))
    line = outcomes.compact_line(shown)
    assert line == f"compacted {T1}: 2 file groups, 15 rows, 2.0 KiB, in 2.00 s"


def test_file_group_with_kept_deletes_beside_its_base_file_counts_once() -> None:
    shown = outcomes.compacted("file:///t", commit(stat(10, 0), stat(0, 2)))
    line = outcomes.compact_line(shown)
    assert line == f"compacted {T1}: 1 file group, 10 rows, 2.0 KiB, in 2.00 s"


def test_compaction_that_was_only_planned_tells_its_instant() -> None:
    shown = outcomes.CompactDocument(table="file:///t", instant=T1)
    assert outcomes.compact_line(shown) == f"planned {T1}"


def test_nothing_to_compact_tells_of_plans_that_wait() -> None:
    nothing = outcomes.CompactDocument(table="file:///t")
    assert outcomes.compact_line(nothing) == "nothing to compact"
    waiting = outcomes.CompactDocument(table="file:///t", pending=(T1,))
    assert outcomes.compact_line(waiting) == (
        f"nothing new to compact; planned and not completed: {T1}"
    )


def test_compaction_by_a_job_is_told_as_one_made_here() -> None:
    result = job_results.JobResult(
        attempt=1,
        instants=(
            job_results.CommittedInstant(
                requested_time=T1, completion_time=T2, action="compaction"
            ),
        ),
        records=15,
        bytes=2048,
        file_groups=2,
    )
    shown = outcomes.compacted_by_job("file:///t", result)
    line = outcomes.compact_line(shown)
    assert line == f"compacted {T1}: 2 file groups, 15 rows, 2.0 KiB, in 2.00 s"
    nothing = outcomes.compacted_by_job("file:///t", job_results.JobResult(attempt=1))
    assert outcomes.compact_line(nothing) == "nothing to compact"


def finding(severity: results.Severity, message: str) -> results.Finding:
    return results.Finding(severity=severity, subject="20261121", message=message)


def test_findings_come_before_notes_and_notes_do_not_count() -> None:
    note = finding(results.Severity.NOTE, "is inflight")
    error = finding(results.Severity.ERROR, "is corrupt")
    shown = findings.document("file:///t", [note, error])
    assert (shown.findings, shown.notes) == ((error,), (note,))
    assert findings.lines(shown) == ["error: 20261121: is corrupt", "note: 20261121: is inflight"]
    assert findings.summary(shown) == "1 finding, 1 note"
    assert findings.summary(findings.document("file:///t", [])) == "no findings"
    assert findings.summary(findings.document("file:///t", [note, note])) == "no findings, 2 notes"
