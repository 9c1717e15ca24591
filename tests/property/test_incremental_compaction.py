"""Incremental planning of compactions finds what planning of the whole table finds."""

import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie.filegroup import snapshots
from hoodie.maintenance.compaction import incremental, planning
from hoodie.model import instants
from hoodie.model.compaction_options import CompactionOptions, Strategy
from hoodie.timeline import chain
from hoodie.transaction import authors
from support.tables.tables import SmallTable

PARTITIONS = ("p", "q", "r", "s")
STEPS = st.one_of(
    st.tuples(st.just("write"), st.sets(st.sampled_from(PARTITIONS), min_size=1, max_size=2)),
    st.tuples(st.just("plan"), st.sampled_from([None, 1, 2])),
    st.tuples(st.just("plan whole"), st.sampled_from([None, 1])),
    st.tuples(st.just("execute"), st.integers(0, 2)),
    st.tuples(st.just("remove"), st.integers(0, 2)),
    st.tuples(st.just("forget"), st.just(0)),
)


class Planned(SmallTable):
    """A table whose compactions are planned, executed and lost."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.number = 0

    def take(self, kind: str, what: object) -> None:
        service_of = replace(self.options().transaction, author=authors.Author())
        pending = [each.requested_time for each in self.table.timeline().pending_compactions]
        match kind, what:
            case "write", set():
                self.number += 1
                rows = [
                    {"id": f"k{key}", "part": part, "a": self.number}
                    for part in sorted(what)
                    for key in range(4)
                ]
                self.upsert(rows)
            case "plan" | "plan whole", limit:
                options = CompactionOptions(
                    file_groups_max=limit,
                    strategies=(Strategy.LOG_COUNT,),
                    log_files_min=2 if limit == 2 else 0,
                    is_incremental=kind == "plan",
                    pending_max=9,
                )
                self.table.plan_compaction(service_of, options)
            case "execute", int(which) if which < len(pending):
                self.table.compact(pending[which], service_of)
            case "remove", int(which) if which < len(pending):
                # As another engine does with a plan that it gives up.
                (self.timeline / f"{pending[which]}.compaction.requested").unlink()
            case "forget", _:
                self.forget_first()

    @property
    def timeline(self) -> Path:
        return self.path / ".hoodie" / "timeline"

    def forget_first(self) -> None:
        """Lose the first write from the timeline, as archiving takes it."""
        completed = self.table.timeline().completed_writes
        if len(completed) > 2:
            first = min(each.requested_time for each in completed)
            for each in self.timeline.glob(f"{first}*"):
                each.unlink()

    def decided(self, *, is_incremental: bool) -> planning.Decision:
        """Return what would be planned now."""
        options = CompactionOptions(is_incremental=is_incremental, pending_max=9)
        return planning.decide(self.snapshot(), instants.format_time(1 << 42), options)

    def snapshot(self) -> snapshots.Snapshot:
        storage = self.env.open_storage(str(self.path))
        timeline = chain.load(storage, self.table.config)
        return snapshots.take(storage, self.table.config, timeline)


@settings(max_examples=25, deadline=None)
@given(st.lists(STEPS, min_size=3, max_size=9))
def test_incremental_planning_finds_what_planning_of_the_whole_table_finds(
    steps: list[tuple[str, object]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        planned = Planned(Path(folder) / "t")
        planned.take("write", set(PARTITIONS))
        for kind, what in steps:
            planned.take(kind, what)
            assert planned.decided(is_incremental=True) == planned.decided(is_incremental=False)


def partitions_after(path: Path, *steps: tuple[str, object]) -> frozenset[str] | None:
    """Return where a plan would look."""
    planned = Planned(path)
    planned.take("write", set(PARTITIONS))
    for kind, what in steps:
        planned.take(kind, what)
    return incremental.partitions(planned.snapshot())


def test_only_partitions_that_changed_are_looked_at(tmp_path: Path) -> None:
    found = partitions_after(
        tmp_path / "t", ("plan", None), ("execute", 0), ("write", {"q"}), ("write", {"q", "s"})
    )
    assert found == {"q", "s"}


def test_partitions_of_what_a_plan_left_out_are_looked_at(tmp_path: Path) -> None:
    assert partitions_after(tmp_path / "t", ("plan", 1), ("execute", 0)) == set(PARTITIONS)


def test_whole_table_is_looked_at_without_an_earlier_plan(tmp_path: Path) -> None:
    assert partitions_after(tmp_path / "t") is None


def test_whole_table_is_looked_at_once_a_plan_is_gone_that_was_pending_beside(
    tmp_path: Path,
) -> None:
    steps = [("plan", 1), ("plan", None), ("execute", 1)]
    assert partitions_after(tmp_path / "t", *steps) is not None
    assert partitions_after(tmp_path / "u", *steps, ("remove", 0)) is None


def test_whole_table_is_looked_at_once_a_later_write_may_be_archived(tmp_path: Path) -> None:
    steps = [("plan", None), ("write", {"p"}), ("execute", 0), ("write", {"q"}), ("write", {"q"})]
    forget = [("forget", 0)]
    # The first write is from before the plan, the next one from after it.
    assert partitions_after(tmp_path / "t", *steps, *forget) == {"p", "q"}
    assert partitions_after(tmp_path / "u", *steps, *forget, *forget, *forget) is None
