"""Every acknowledged row is read, whatever other engines retire, clean and archive in between.

Writers write each key once, so a table holds exactly the keys of the writes that were acknowledged
since the last replace commit of their partition. A write that is refused must be possible again.
"""

import itertools
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie import errors
from hoodie.model import table_config
from hoodie.model.settings import ConcurrencyMode
from hoodie.write import sessions
from support.peer.replacements import Replacements
from support.tables.tables import CONFIG, Rows, SmallTable

PARTITIONS = ("p", "q")
ONE_BUCKET = replace(CONFIG, bucket_count=1)
Step = tuple[
    Literal["write", "update", "begin", "delete partition", "overwrite", "cluster"],
    str,
]
Service = Literal["commit", "clean", "clean and archive", "compact"]


class History:
    """A table, what it should hold, and at most one write that is under way."""

    def __init__(self, path: Path, mode: ConcurrencyMode, *, is_copy_on_write: bool) -> None:
        kind = table_config.TableType.MERGE_ON_READ
        if is_copy_on_write:
            kind = table_config.TableType.COPY_ON_WRITE
        self.small = SmallTable(path, replace(ONE_BUCKET, table_type=kind))
        self.others = Replacements(self.small)
        self.mode = mode
        self.numbers = itertools.count()
        self.expected: dict[str, set[object]] = {partition: set() for partition in PARTITIONS}
        self.open: tuple[sessions.WriteSession, str, Rows] | None = None

    def take(self, step: Step | Service) -> None:
        match step:
            case ("write", partition):
                self.write(partition)
            case ("begin", partition) if self.open is None:
                self.begin(partition)
            case "commit" if self.open is not None:
                self.commit(*self.open)
            case ("delete partition" | "overwrite" | "cluster" as how, partition):
                self.replace(how, partition)
            case ("update", partition):
                self.update(partition)
            case "clean":
                self.others.clean()
            case "clean and archive":
                self.others.clean()
                self.others.archive()
            case "compact" if not self.small.table.config.is_copy_on_write:
                self.small.compact()
            case _:
                return

    def replace(self, how: str, partition: str) -> None:
        """Retire the partition's file groups; a clustering keeps their rows."""
        match how:
            case "delete partition":
                self.others.delete_partition(partition)
                self.expected[partition] = set()
            case "overwrite":
                rows = self.rows(partition)
                new_id = f"00000000-3bda-48af-b1c1-{next(self.numbers):012d}-0"
                self.others.overwrite(partition, rows, {0: new_id})
                self.expected[partition] = {row["id"] for row in rows}
            case "cluster" if self.expected[partition]:
                self.others.cluster(partition)

    def rows(self, partition: str) -> Rows:
        return [{"id": f"{next(self.numbers):05d}", "part": partition, "a": 1, "b": "x"}]

    def write(self, partition: str) -> None:
        if self.mode is ConcurrencyMode.SINGLE_WRITER and self.open is not None:
            return
        rows = self.rows(partition)
        self.small.upsert(rows, **self.options("quick"))
        self.expected[partition] |= {row["id"] for row in rows}

    def update(self, partition: str) -> None:
        """Write the rows that are there once more: none may be there twice."""
        if self.open is None and self.expected[partition]:
            rows = [
                {"id": key, "part": partition, "a": 2, "b": "y"} for key in self.expected[partition]
            ]
            self.small.upsert(rows, **self.options("quick"))

    def begin(self, partition: str) -> None:
        options = self.small.options(**self.options("slow"))
        session = self.small.table.begin_write(options, ["id", "part", "a", "b"])
        assert isinstance(session, sessions.WriteSession)
        self.open = (session, partition, self.rows(partition))

    def commit(self, session: sessions.WriteSession, partition: str, rows: Rows) -> None:
        self.open = None
        try:
            session.commit(self.small.write_files(session, rows))
        except errors.WriteConflictError:
            self.small.upsert(rows, **self.options("slow"))
        self.expected[partition] |= {row["id"] for row in rows}

    def options(self, writer_id: str) -> dict[str, object]:
        return {
            "writer_id": writer_id,
            "concurrency": self.mode,
            "acknowledges_order_dependence": self.mode is ConcurrencyMode.NON_BLOCKING,
        }


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(
                ["write", "write", "update", "begin", "delete partition", "overwrite", "cluster"]
            ),
            st.sampled_from(PARTITIONS),
        ),
        st.sampled_from(["commit", "commit", "clean", "clean and archive", "compact"]),
    ),
    min_size=4,
    max_size=14,
)


@settings(max_examples=30, deadline=None)
@given(STEPS, st.sampled_from(ConcurrencyMode), st.booleans())
def test_every_acknowledged_row_is_read(
    steps: Sequence[Step | Service], mode: ConcurrencyMode, is_copy_on_write: bool
) -> None:
    is_copy_on_write = is_copy_on_write and mode is not ConcurrencyMode.NON_BLOCKING
    with tempfile.TemporaryDirectory() as folder:
        history = History(Path(folder) / "t", mode, is_copy_on_write=is_copy_on_write)
        for step in steps:
            history.take(step)
            found = history.small.rows(columns=["id", "part"])
            for partition in PARTITIONS:
                keys = sorted(str(row["id"]) for row in found if row["part"] == partition)
                assert keys == sorted(map(str, history.expected[partition])), step
        if history.open is not None:
            history.commit(*history.open)
        problems = history.small.problems()
        assert [each for each in problems if "does not begin with a bucket" not in each] == []
