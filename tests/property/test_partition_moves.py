"""Tables with a global index hold what a dictionary by key holds, whatever is done to them."""

import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from hoodie.model import commits, table_config
from hoodie.model import settings as write_settings
from support.tables import record_indexes
from support.tables.tables import CONFIG, SmallTable

KEYS = st.integers(0, 9).map(str)
PARTITIONS = st.sampled_from(["p", "q", "r"])
ROWS = st.lists(st.tuples(KEYS, PARTITIONS, st.integers(0, 3)), min_size=1, max_size=10)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["upsert", "upsert", "upsert", "delete", "flag", "insert", "compact"]),
        ROWS,
        st.sampled_from([0, 1 << 20]),  # Whether small files are filled up.
    ),
    min_size=2,
    max_size=8,
)
Step = tuple[str, list[tuple[str, str, int]], int]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What a table is like."""

    table_type: table_config.TableType = table_config.TableType.MERGE_ON_READ
    index: table_config.IndexKind = table_config.IndexKind.GLOBAL_SIMPLE
    by_event_time: bool = False
    updates_partitions: bool = True
    has_record_index: bool = False

    def config(self) -> table_config.TableConfig:
        mode = table_config.MergeMode.EVENT_TIME
        return replace(
            CONFIG,
            table_type=self.table_type,
            bucket_count=None,
            index=self.index,
            updates_partitions=self.updates_partitions,
            has_partial_updates=False,
            ordering_fields=("ts",) if self.by_event_time else (),
            merge_mode=mode if self.by_event_time else table_config.MergeMode.COMMIT_TIME,
        )


KINDS = st.builds(
    Kind,
    table_type=st.sampled_from(table_config.TableType),
    index=st.sampled_from([each for each in table_config.IndexKind if each.is_global]),
    by_event_time=st.booleans(),
    updates_partitions=st.booleans(),
    has_record_index=st.booleans(),
)


@dataclass(frozen=True, kw_only=True)
class Held:
    """A row of the model.

    Attributes:
        folders: The partitions that it may be stored in.
        part: What its column says.
    """

    folders: frozenset[str]
    part: str
    a: int
    ts: int


@dataclass
class Model:
    """The rows of a table by key, as the docstring of `write.partition_moves` has it."""

    kind: Kind
    rows: dict[str, Held] = field(default_factory=dict)
    deleted: dict[str, frozenset[str]] = field(default_factory=dict)
    """Where keys were that are deleted: such a one may come back there, if it would stay there."""

    def newest(self, batch: list[tuple[str, str, int]], number: int) -> dict[str, Held]:
        found: dict[str, Held] = {}
        for key, part, ts in batch:
            before = found.get(key)
            if before is None or not self.kind.by_event_time or ts >= before.ts:
                found[key] = Held(folders=frozenset([part]), part=part, a=number, ts=ts)
        return found

    def upsert(self, batch: list[tuple[str, str, int]], number: int) -> None:
        for key, row in self.newest(batch, number).items():
            before, stays = self.rows.get(key), not self.kind.updates_partitions
            if before is None:
                gone = self.deleted.get(key, frozenset()) if stays else frozenset()
                self.rows[key] = replace(row, folders=row.folders | gone)
            elif not self.kind.by_event_time or row.ts >= before.ts:
                self.rows[key] = replace(row, folders=before.folders if stays else row.folders)

    def insert(self, batch: list[tuple[str, str, int]], number: int) -> None:
        self.rows = self.newest(batch, number) | self.rows

    def delete(self, batch: list[tuple[str, str, int]]) -> None:
        for key, _, _ in batch:
            if (gone := self.rows.pop(key, None)) is not None:
                self.deleted[key] = gone.folders | self.deleted.get(key, frozenset())


def made(folder: str, kind: Kind) -> SmallTable:
    small = SmallTable(Path(folder) / "t", kind.config(), ts="int64", _hoodie_is_deleted="bool")
    if kind.has_record_index:
        transaction = small.options().transaction
        opened = small.table.initialise_metadata(transaction)
        small.table = record_indexes.with_record_index(opened, transaction, small.env)
    return small


MOVES = ["p", "q", "p", "r", "q"]


@given(kind=KINDS, steps=STEPS)
@example(
    kind=Kind(has_record_index=True),
    steps=[("upsert", [("0", part, 0), ("1", part, 0)], 0) for part in MOVES],
)
@example(
    kind=Kind(by_event_time=True, has_record_index=True),
    steps=[("upsert", [("0", part, 0), ("1", part, 0)], 1 << 20) for part in MOVES],
)
@settings(max_examples=30, deadline=None)
def test_table_holds_each_key_once_and_in_its_newest_partition(
    kind: Kind, steps: list[Step]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        small, model = made(folder, kind), Model(kind)
        for number, (what, batch, small_file_bytes) in enumerate(steps):
            options = {
                "concurrency": write_settings.ConcurrencyMode.SINGLE_WRITER,
                "small_file_bytes": small_file_bytes,
            }
            rows = [
                {"id": key, "part": part, "a": number, "b": "x", "ts": ts}
                for key, part, ts in batch
            ]
            match what:
                case "upsert":
                    small.upsert(rows, **options)
                    model.upsert(batch, number)
                case "insert":
                    insert = commits.Operation.INSERT
                    small.upsert(rows, operation=insert, drops_duplicates=True, **options)
                    model.insert(batch, number)
                case "flag" if not kind.by_event_time:
                    small.upsert([{**row, "_hoodie_is_deleted": True} for row in rows], **options)
                    model.delete(batch)
                case "delete":
                    small.delete([{"id": key, "part": part} for key, part, _ in batch], **options)
                    model.delete(batch)
                case "compact" if kind.table_type is table_config.TableType.MERGE_ON_READ:
                    small.compact()
        columns = ["id", "_hoodie_partition_path", "part", "a"]
        found = small.rows(columns=columns)
        assert Counter(row["id"] for row in found) == Counter(model.rows.keys())
        assert {row["id"]: (row["part"], row["a"]) for row in found} == {
            key: (row.part, row.a) for key, row in model.rows.items()
        }
        for row in found:
            assert row["_hoodie_partition_path"] in model.rows[str(row["id"])].folders
        assert small.problems() == []
