"""Random histories: the changes of each write lead from what the table was to what it became.

What a reader holds begins empty, or with the table as of a moment. Each change must find what it
says was there before, and put what it says is there after; once the changes of a write were applied
the reader holds what a read as of its completion returns. Net changes lead there in one step.
"""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from hoodie import errors
from hoodie.maintenance.archiving import planning as archive_planning
from hoodie.maintenance.cleaning import retention
from hoodie.model import commits, table_config
from hoodie.model.change_data import LoggingMode
from hoodie.model.instants import Instant
from hoodie.model.settings import ConcurrencyMode
from hoodie.transaction import authors
from support.tables.tables import CONFIG, SmallTable

PARTITIONS = ("p", "q")
KEYS = ("1", "2", "3", "4", "5")
COW = replace(CONFIG, table_type=table_config.TableType.COPY_ON_WRITE, has_partial_updates=False)
EVENT_TIME = replace(
    CONFIG,
    has_partial_updates=False,
    ordering_fields=("ts",),
    merge_mode=table_config.MergeMode.EVENT_TIME,
)
COW_EVENT_TIME = replace(EVENT_TIME, table_type=table_config.TableType.COPY_ON_WRITE)
LOOKED_UP = replace(COW, bucket_count=None, index=table_config.IndexKind.SIMPLE)
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
NOW = retention.Retention(retained=1, grace_ms=0)
Rows = dict[tuple[object, object], dict[str, object]]


class History:
    """A table that random steps change."""

    def __init__(self, path: Path, kind: str) -> None:
        config = KINDS[kind]
        self.small = SmallTable(path, config, ts="int64")
        self.config = config
        self.is_cow = config.is_copy_on_write
        mode = ConcurrencyMode.OPTIMISTIC if self.is_cow else ConcurrencyMode.NON_BLOCKING
        self.more: dict[str, object] = {"concurrency": mode, "acknowledges_order_dependence": True}
        self.late: list[Callable[[], object]] = []
        self.number = 0

    def row(self, key: str, part: str, ts: int) -> dict[str, object]:
        self.number += 1
        b = None if self.config.has_partial_updates and self.number % 2 else f"v{self.number}"
        return {"id": key, "part": part, "a": self.number, "b": b, "ts": ts * 100 + self.number}

    def upsert(self, keys: list[tuple[str, str]], ts: int, *, is_late: bool) -> None:
        rows = [self.row(key, part, ts) for key, part in keys]
        if not is_late or self.is_cow:
            self.small.upsert(rows, **self.more)
            return
        options = self.small.options(f"late{self.number}", **self.more)
        session = self.small.table.begin_write(options, list(rows[0]))
        written = self.small.write_files(session, rows)
        self.late.append(lambda: session.commit(written))

    def delete(self, keys: list[tuple[str, str]], ts: int) -> None:
        names = ("id", "part", *self.config.ordering_fields)
        rows = [{name: self.row(key, part, ts)[name] for name in names} for key, part in keys]
        self.small.delete(rows, **self.more)

    def overwrite(self, keys: list[tuple[str, str]], ts: int) -> None:
        # It looks for no keys: a global index would have them twice.
        if self.is_cow and not self.config.has_global_index:
            rows = [self.row(key, part, ts) for key, part in keys]
            self.small.upsert(rows, operation=commits.Operation.INSERT_OVERWRITE, **self.more)

    def finish_late(self) -> None:
        if self.late:
            self.late.pop(0)()

    def compact(self) -> None:
        if not self.is_cow:
            self.small.compact()

    def plan_compaction(self) -> None:
        if not self.is_cow:
            service = self.small.options().transaction
            self.small.table.schedule_compaction(replace(service, author=authors.Author()))

    def clean(self) -> None:
        self.small.table.clean(NOW, self.small.options(**self.more).transaction)

    def archive(self) -> None:
        policy = archive_planning.Policy(commits_min=1, commits_max=2)
        self.small.table.archive(self.small.options(**self.more).transaction, policy)

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


keys = st.lists(
    st.tuples(st.sampled_from(KEYS), st.sampled_from(PARTITIONS)),
    min_size=1,
    max_size=4,
    unique_by=lambda pair: pair[0],
)
steps = st.one_of(
    st.tuples(st.just("upsert"), keys, st.integers(1, 3), st.booleans()),
    st.tuples(st.just("upsert"), keys, st.integers(1, 3), st.just(False)),
    st.tuples(st.just("delete"), keys, st.integers(1, 3)),
    st.tuples(st.just("overwrite"), keys, st.integers(1, 3)),
    st.tuples(st.sampled_from(["finish_late", "compact", "plan_compaction", "clean", "archive"])),
)


def run(history: History, step: tuple[object, ...]) -> None:
    match step:
        case ("upsert", found, ts, is_late):
            history.upsert(found, ts, is_late=is_late)
        case ("delete", found, ts):
            history.delete(found, ts)
        case ("overwrite", found, ts):
            history.overwrite(found, ts)
        case (name,):
            getattr(history, str(name))()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(sorted(KINDS)), st.lists(steps, min_size=4, max_size=14), st.data())
def test_changes_of_each_write_lead_to_what_the_table_became(
    kind: str, found: list[tuple[object, ...]], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        history = History(Path(folder) / "t", kind)
        for step in found:
            run(history, step)
        while history.late:
            history.finish_late()
        check_from(history, None)
        writes = history.small.table.timeline().completed_writes
        if writes:
            check_from(history, data.draw(st.sampled_from(writes)))
        event(kind)
