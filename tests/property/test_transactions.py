"""Operations of one transaction leave what the same operations leave one after the other."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import hoodie
from hoodie.door import transactions
from hoodie.write import streaming

Row = dict[str, Any]

KEYS = [str(n) for n in range(5)]
FILTERS = [
    "n >= 2",
    pc.field("n") == 1,
    "s is null",
    [("id", "in", ["1", "2", "4"])],
    "part = 'p'",
    "_hoodie_record_key = '3'",
]


@dataclass(frozen=True)
class Setting:
    """A table, and what its rows may be."""

    table_type: Literal["mor", "cow"]
    index: Literal["bucket", "simple", "bloom", "global-simple"]
    ordering: str | None
    is_partial: bool
    has_partitions: bool
    keeps_partitions: bool
    has_record_index: bool
    time: pa.DataType
    memory_bytes: int

    @property
    def moves(self) -> bool:
        """Whether rows of a key come in both partitions."""
        return self.has_partitions and self.index == "global-simple"

    @property
    def is_streamed(self) -> bool:
        return self.memory_bytes < 1 << 10

    @property
    def orders_deletes(self) -> bool:
        """Whether deletes have places in event time, which a base file cannot keep."""
        return self.ordering is not None and self.table_type == "mor" and not self.moves

    @property
    def columns(self) -> dict[str, pa.DataType]:
        return {
            "id": pa.string(),
            "part": pa.string(),
            "ts": self.time,
            "n": pa.int64(),
            "s": pa.string(),
        }

    def table(self, folder: Path) -> hoodie.Table:
        made = hoodie.create_table(
            folder,
            self.columns,
            "id",
            partition_by="part" if self.has_partitions else (),
            ordering=self.ordering,
            table_type=self.table_type,
            index=self.index,
            buckets=2 if self.index == "bucket" else None,
            keep_partitions=self.keeps_partitions,
            partial_updates=self.is_partial,
            foreign_writers=False,
            settings={"hoodie.compact.inline.max.delta.commits": "1"},
        )
        if self.has_record_index:
            made.maintain.make_metadata_table()
            made.refresh().maintain.build_index("record_index")
            made.refresh()
        return made


@st.composite
def drawn_settings(draw: st.DrawFn) -> Setting:
    index = draw(st.sampled_from(["bucket", "simple", "bloom", "global-simple"]))
    has_partitions = draw(st.booleans())
    is_partial = draw(st.booleans())
    return Setting(
        table_type=draw(st.sampled_from(["mor", "cow"])),
        index=index,
        ordering=draw(st.sampled_from([None, "ts"])),
        is_partial=is_partial,
        has_partitions=has_partitions,
        # Rows that move have to be whole.
        keeps_partitions=index == "global-simple" and (is_partial or draw(st.booleans())),
        has_record_index=index in ("simple", "bloom") and draw(st.integers(0, 3)) == 0,
        time=draw(st.sampled_from([pa.int64(), pa.int32()])),
        memory_bytes=draw(st.sampled_from([streaming.MEMORY_BYTES, streaming.MEMORY_BYTES, 60])),
    )


@dataclass(frozen=True)
class Step:
    """An operation, and what it takes."""

    name: str
    given: Any

    def done(self, to: hoodie.Table | transactions.Transaction, *, is_alone: bool) -> None:
        """Do it, in a transaction or on a table."""
        match self.name:
            case "upsert":
                to.upsert(self.given)
            case "insert":
                # Of a key that is there an insert alone would add a second row.
                to.upsert(self.given) if is_alone else to.insert(self.given)
            case "delete" | "keys":
                to.delete(keys=self.given)
            case "delete where":
                to.delete(self.given)
            case _:
                to.update({"n": pc.field("n") + 1, "s": pc.field("id")}, self.given)


def rows(setting: Setting) -> st.SearchStrategy[Row]:
    values = {"n": st.integers(0, 3), "s": st.sampled_from(["", "a"])}
    if not setting.is_partial:
        values = {name: st.one_of(st.none(), each) for name, each in values.items()}
    parts = st.sampled_from("pq") if setting.moves else st.none()
    return st.builds(
        lambda key, part, ts, more: {
            "id": key,
            "part": part or "pq"[int(key) % 2],
            "ts": ts,
            **more,
        },
        st.sampled_from(KEYS),
        parts,
        st.integers(0, 3),
        st.fixed_dictionaries(values),
    )


@st.composite
def drawn_steps(draw: st.DrawFn, setting: Setting, size: int) -> list[Step]:
    names = ["upsert", "upsert", "insert", "delete", "keys"]
    if not setting.is_streamed:
        names += ["update", "delete where"]
    if setting.has_partitions and setting.is_streamed:
        names.remove("keys")  # They would have to be looked for.
    found = []
    for _ in range(draw(st.integers(1, size))):
        name = draw(st.sampled_from(names))
        given: Any
        match name:
            case "upsert" | "insert":
                given = draw(st.lists(rows(setting), min_size=1, max_size=3))
                if setting.is_partial and draw(st.booleans()):
                    given = [{k: v for k, v in row.items() if k != "s"} for row in given]
            case "delete":
                given = draw(st.lists(rows(setting), min_size=1, max_size=2))
                kept = {"id", "part"}
                if setting.ordering is None or (setting.orders_deletes and draw(st.booleans())):
                    kept.add("ts")
                given = [{k: v for k, v in row.items() if k in kept} for row in given]
            case "keys":
                given = draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=2))
            case _:
                given = draw(st.sampled_from(FILTERS))
        found.append(Step(name, given))
    if all(step.name == "insert" for step in found):
        # Inserts alone add a row for each that they are given.
        found[0] = Step("upsert", found[0].given)
        found.append(Step("upsert", found[0].given))
    return found


@contextmanager
def memory_of(setting: Setting) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(streaming, "MEMORY_BYTES", setting.memory_bytes)
        if setting.is_streamed:
            patched.setattr(streaming, "PIECE_BYTES", 50)
            patched.setattr(streaming, "PART_BYTES", 60)
            patched.setattr(streaming, "DIVIDED_BYTES", 100)
            patched.setattr(streaming, "KEYED_BYTES", 50)
        yield


def rows_of(table: hoodie.Table) -> list[Row]:
    found: list[Row] = table.scan().to_arrow().to_pylist()
    return sorted(found, key=lambda row: str(row["id"]))


def commit(table: hoodie.Table, steps: Sequence[Step], batch_id: int) -> bool:
    """Do steps in a transaction, twice; return whether there was anything to do."""
    before = len(table.timeline().completed_writes)
    with table.transaction("etl", batch_id) as tx:
        for step in steps:
            step.done(tx, is_alone=False)
    assert tx.result is not None
    written = len(table.timeline().completed_writes) - before
    assert written == (tx.result.instant is not None)
    if written:
        with table.transaction("etl", batch_id) as again:
            for step in steps:
                step.done(again, is_alone=False)
        assert again.result is not None
        assert again.result.is_repeated
    return bool(written)


@settings(max_examples=25)
@given(data=st.data(), setting=drawn_settings())
def test_transaction_leaves_what_its_operations_leave(
    data: st.DataObject, setting: Setting
) -> None:
    with tempfile.TemporaryDirectory() as folder, memory_of(setting):
        table = setting.table(Path(folder) / "t")
        other = setting.table(Path(folder) / "o")
        for batch_id in range(data.draw(st.integers(1, 3))):
            steps = data.draw(drawn_steps(setting, 6))
            event(f"{len({step.name for step in steps})} kinds of operations")
            commit(table, steps, batch_id)
            for step in steps:
                step.done(other, is_alone=True)
            assert rows_of(table) == rows_of(other), steps
            assert table.scan().count() == len(rows_of(table))
            if setting.table_type == "mor" and data.draw(st.booleans()):
                table.maintain.compact()
                other.maintain.compact()
                assert rows_of(table) == rows_of(other), "compacted"
        assert table.check(table._writer.transaction.settings) == []
