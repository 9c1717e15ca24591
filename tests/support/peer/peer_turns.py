"""Changes of a table by Apache Hudi and by us in turn, of each kind that changes its files."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from support.peer import peer_ours
from support.peer.judge import Judge
from support.peer.peer_cases import SCHEMA, Model, rows_of
from support.peer.peer_options import PeerTable, filesystem_lock


class Turns:
    """A table that both change as optimistic writers, and what should be in it.

    Args:
        judge: Apache Hudi.
        path: The table.
        made: How both write it.
        drawn: Makes the rows of some numbers at a time.
        is_global: Whether a key is unique in the table, not in its partition.
        settings: Of all writes of ours.
    """

    def __init__(
        self,
        judge: Judge,
        path: Path,
        made: PeerTable,
        *,
        drawn: Callable[[range, int], pa.Table] = rows_of,
        is_global: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.judge, self.path, self.made, self.drawn = judge, path, made, drawn
        self.settings = settings or {}
        self.ours = peer_ours.Hoodie(table=made, concurrency="occ")
        self.options = made.occ_options(filesystem_lock())
        identified_by = () if is_global else made.partition_by
        self.model = Model(table=replace(made, partition_by=identified_by), schema=SCHEMA)

    def theirs(self, numbers: range, ts: int, operation: str = "upsert") -> None:
        """Let Apache Hudi write."""
        rows = self.drawn(numbers, ts)
        self.judge.write(self.path, rows, self.options, operation=operation)
        self._learn(rows, operation)

    def write(self, numbers: range, ts: int, operation: str = "upsert", **settings: str) -> None:
        """Write ourselves."""
        rows = self.drawn(numbers, ts)
        self.ours.settings = {**self.settings, **settings}
        self.ours.write(self.path, rows, operation)
        self._learn(rows, operation)

    def _learn(self, rows: pa.Table, operation: str) -> None:
        if operation == "delete":
            self.model.delete(rows.to_pylist())
        else:
            self.model.upsert(rows.to_pylist())

    def adopt(self, *options: str) -> None:
        """State the index of a table that Apache Hudi made; a second time nothing is changed."""
        arguments = ["adopt", self.path, *options, "--lock", "filesystem"]
        assert peer_ours.hoodie(*arguments, "--dry-run")["changes"]
        assert peer_ours.hoodie(*arguments)["is_done"]
        assert peer_ours.hoodie(*arguments)["changes"] == {}

    def compact(self) -> None:
        """Plan and execute a compaction ourselves."""
        plan = self.ours.schedule_compaction(self.path)
        assert plan is not None
        self.ours.execute_compaction(self.path, plan)


def changes(
    judge: Judge, path: Path, made: PeerTable, ours: peer_ours.Hoodie, *, last: int = 8
) -> Iterator[str]:
    """Change a table that exists, and yield after each step what was done.

    Args:
        judge: Apache Hudi.
        path: The table.
        made: How Apache Hudi writes it.
        ours: Our writer.
        last: The rows of two steps end there: the more there are, the more files they touch.
    """
    options = made.write_options()
    judge.write(path, rows_of(range(12), 1), options)
    yield "written by theirs, which makes the metadata table if there is none"
    ours.write(path, rows_of(range(2, last), 2), "upsert")
    yield "written by ours"
    judge.write(path, rows_of(range(4, last + 2), 3), options)
    yield "written by theirs"
    ours.write(path, rows_of(range(4, 6), 4), "delete")
    yield "deleted by ours"
    for ts in range(5, 8):
        ours.write(path, rows_of(range(ts, ts + 9), ts), "upsert")
    yield "written by ours, often"
    if made.merge_on_read:
        plan = ours.schedule_compaction(path)
        assert plan is not None
        ours.execute_compaction(path, plan)
        yield "compacted by ours"
        ours.write(path, rows_of(range(3), 9), "upsert")
        judge.compact(path, options)
        yield "compacted by theirs"
    ours.write(path, rows_of(range(3), 10), "upsert")
    peer_ours.hoodie("clean", path, "--keep-commits", "1", "--grace", "0", "--lock", "filesystem")
    yield "cleaned by ours"
    judge.write(path, rows_of(range(3, 5), 11), options)
    judge.clean(path, options)
    yield "cleaned by theirs"
    ours.write(path, rows_of(range(14, 22), 12), "upsert")
    yield "written by ours at last"
