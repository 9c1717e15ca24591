"""Random histories: the changes of each write lead from what the table was to what it became.

What a reader holds begins empty, or with the table as of a moment. Each change must find what it
says was there before, and put what it says is there after; once the changes of a write were applied
the reader holds what a read as of its completion returns. Net changes lead there in one step. Steps
of a file group are read together, and find what each finds alone.
"""

import itertools
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from hoodie import errors
from hoodie.model import table_config
from hoodie.model.change_data import LoggingMode
from hoodie.model.instants import Instant
from hoodie.read import change_data, group_steps, row_versions
from support.tables.random_histories import COW, EVENT_TIME, LOOKED_UP, STEPS, RandomHistory
from support.tables.tables import CONFIG

COW_EVENT_TIME = replace(EVENT_TIME, table_type=table_config.TableType.COPY_ON_WRITE)
BOTH, BEFORE, KEY_ONLY = (
    LoggingMode.DATA_BEFORE_AFTER,
    LoggingMode.DATA_BEFORE,
    LoggingMode.OP_KEY_ONLY,
)
KINDS = {
    "mor, partial updates": CONFIG,
    "mor, commit time": replace(CONFIG, has_partial_updates=False),
    "mor, event time": replace(EVENT_TIME, change_data=BOTH),
    "cow": COW,
    "cow, partial updates": replace(COW, has_partial_updates=True),
    "cow, images stored": replace(COW_EVENT_TIME, change_data=BOTH),
    "cow, partial updates, images stored": replace(COW, has_partial_updates=True, change_data=BOTH),
    "cow, rows before stored": replace(COW, change_data=BEFORE),
    "cow, keys stored": replace(COW_EVENT_TIME, change_data=KEY_ONLY),
    "cow, keys looked up": replace(LOOKED_UP, change_data=BOTH),
    "cow, global index": replace(
        LOOKED_UP, index=table_config.IndexKind.GLOBAL_SIMPLE, change_data=KEY_ONLY
    ),
}
Rows = dict[tuple[object, object], dict[str, object]]


class History(RandomHistory):
    """A table that random steps change, and what it was."""

    def rows(self, as_of: object) -> Rows | None:
        """The table as of a moment; None if that is gone, of file groups that nothing changed."""
        try:
            found = self.small.table.read(as_of=as_of).read_all()
        except errors.GoneError:
            return None
        return {(row["id"], row["part"]): row for row in found.to_pylist()}


def check_from(history: History, start: Instant | None) -> None:
    """Check what changed since a write, or since the beginning."""
    since = None if start is None else start.requested_time
    try:
        found = history.small.table.change_data(since)
    except errors.GoneError:
        event("a range was gone")
        return
    held = {} if since is None else history.rows(since)
    if held is None:
        return
    begun = dict(held)
    changed = found.read().read_all()
    check_alone(found, changed)
    times = {each.requested_time: each for each in found.writes}
    assert changed.column("ts_ms").unique().to_pylist() == [
        each for each in times if each in set(changed.column("ts_ms").to_pylist())
    ], "not in the order of completion"
    for time, write in times.items():
        apply(held, changed.filter(pa.compute.equal(changed.column("ts_ms"), time)))
        then = history.rows(write.completion_time)
        assert then is None or held == then, (time, changed.to_pylist())
    net = history.small.table.change_data(since, is_net=True)
    assert net.position == found.position
    rows = net.read().read_all()
    places = [(row["record_key"], row["partition_path"]) for row in rows.to_pylist()]
    assert len(places) == len(set(places)), "a key has several net changes"
    apply(begun, rows)
    assert begun == history.rows(net.position.time), rows.to_pylist()


def check_alone(found: change_data.ChangeData, changed: pa.Table) -> None:
    """Check that steps which are read together are what each is alone, whatever is kept of them."""
    tasks = list(found.tasks())
    alone = [step(row_versions.changes(each)) for each in tasks]
    assert sorted(itertools.chain(*alone)) == step(changed.to_batches())
    times = [batch.column("ts_ms") for each in tasks for batch in row_versions.changes(each)]
    assert pa.chunked_array(times, pa.string()).to_pylist() == changed.column("ts_ms").to_pylist()
    for kept_bytes in (0, 20_000):
        steps = group_steps.grouped(tasks, kept_bytes)
        assert [step(group_steps.changes(each)) for each in steps] == alone, kept_bytes
    whole = list(group_steps.grouped(tasks))
    backwards = [step(group_steps.changes(each)) for each in reversed(whole)]
    assert backwards == alone[::-1]


def step(changes: Iterable[pa.RecordBatch]) -> list[str]:
    return sorted(str(row) for batch in changes for row in batch.to_pylist())


def apply(held: Rows, changes: pa.Table) -> None:
    # What moves to another partition goes and comes, in any order.
    for row in changes.to_pylist():
        key = row["record_key"], row["partition_path"]
        assert row["before"] == held.get(key), row
        assert (row["op"], row["before"] is None, row["after"] is None) in {
            ("i", True, False),
            ("u", False, False),
            ("d", False, True),
        }
        if row["after"] is None:
            del held[key]
        else:
            held[key] = row["after"]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(sorted(KINDS)), st.lists(st.one_of(*STEPS), min_size=4, max_size=14), st.data()
)
def test_changes_of_each_write_lead_to_what_the_table_became(
    kind: str, found: list[tuple[object, ...]], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        history = History(Path(folder) / "t", KINDS[kind])
        for step in found:
            history.take(step)
        while history.late:
            history.finish_late()
        check_from(history, None)
        writes = history.small.table.timeline().completed_writes
        if writes:
            check_from(history, data.draw(st.sampled_from(writes)))
        event(kind)
