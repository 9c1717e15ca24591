"""Compaction of a table, planned and executed by processes that may disagree."""

from dataclasses import replace
from pathlib import Path

import pytest

from hoodie import clock, table
from hoodie.model import instants
from hoodie.timeline import transitions
from hoodie.transaction import authors
from hoodie.transaction.locks import address_texts
from support.tables import SmallTable

AHEAD_MS = 60_000


class ClockAhead(clock.SystemClock):
    """The machine's clock, but ahead of it."""

    def now_ms(self) -> int:
        return super().now_ms() + AHEAD_MS


def test_log_file_that_a_plan_has_missed_is_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planner that was paused until its lock was lost may publish a plan that is out of date.

    By its clock, which is ahead, the plan's time is above that of a write which completed since.
    """
    small = SmallTable(tmp_path / "t")
    small.upsert([{"id": "k", "part": "p", "a": 1}])
    request = transitions.request

    def request_late(*arguments: object) -> instants.Instant:
        monkeypatch.undo()
        options = small.options()
        other = replace(options.transaction, lock=address_texts.parse("in-process"))
        data = small.data([{"id": "k", "part": "p", "a": 2}])
        small.table.write(data, replace(options, transaction=other))
        return request(*arguments)  # type: ignore[arg-type] # passed on as they are

    monkeypatch.setattr(transitions, "request", request_late)
    ahead = replace(small.outside, clock=ClockAhead())
    planner = table.open_table(str(small.path), ahead)
    service = replace(small.options().transaction, author=authors.Author())
    planned = planner.schedule_compaction(service)
    assert planned is not None
    late = small.table.timeline().completed_writes[-1]
    assert late.completion_time is not None
    assert late.completion_time < planned

    planner.compact(planned, service)

    assert [row["a"] for row in small.rows()] == [2]
    assert small.problems() == []
