"""Incremental planning of compactions finds what planning of the whole table finds."""

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie import errors
from hoodie.maintenance.compaction import incremental, planning, service
from hoodie.model import commits
from hoodie.model.compaction_options import CompactionOptions, Strategy
from hoodie.filegroup import snapshots
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

    def decisions(self) -> tuple[planning.Decision, planning.Decision]:
        """Return what would be planned incrementally, and of the whole table."""
        storage = self.env.open_storage(str(self.path))
        found = []
        for is_incremental in (True, False):
            timeline = chain.load(storage, self.table.config)
            snapshot = snapshots.take(storage, self.table.config, timeline)
            options = CompactionOptions(is_incremental=is_incremental, pending_max=9)
            now = "29990101000000000"
            found.append(planning.decide(snapshot, now, options))
        return found[0], found[1]
