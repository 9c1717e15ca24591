"""Writes by people, one after the other, leave what a dict would hold that is changed likewise."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given, settings
from hypothesis import strategies as st

import hoodie

COLUMNS = {"id": pa.string(), "part": pa.string(), "n": pa.int64(), "s": pa.string()}
Row = dict[str, Any]

KEYS = st.integers(0, 7)
# A key stays in its partition: with indexes of partitions it would be in two.
ROWS = st.builds(
    lambda key, n, s: {"id": str(key), "part": "pq"[key % 2], "n": n, "s": s},
    KEYS,
    st.one_of(st.none(), st.integers(0, 3)),
    st.sampled_from([None, "", "a", "é"]),
)
BATCHES = st.lists(ROWS, min_size=1, max_size=5)
# As a text of SQL, as an expression, as triples, and as a function of a row.
FILTERS = st.one_of(
    st.integers(0, 3).map(
        lambda n: (f"n >= {n}", lambda row: row["n"] is not None and row["n"] >= n)
    ),
    st.integers(0, 3).map(lambda n: (pc.field("n") == n, lambda row: row["n"] == n)),
    KEYS.map(lambda key: ([("id", "=", str(key))], lambda row: row["id"] == str(key))),
    st.just((pc.field("s").is_null(), lambda row: row["s"] is None)),
    st.just(
        (
            "part = 'p' and not (s = 'a')",
            lambda row: row["part"] == "p" and row["s"] not in (None, "a"),
        )
    ),
)


@dataclass(frozen=True)
class Step:
    """A write: its name, and what it takes."""

    name: str
    given: Any


STEPS = st.one_of(
    st.builds(Step, st.sampled_from(["upsert", "transaction"]), BATCHES),
    st.builds(Step, st.just("delete"), FILTERS),
    st.builds(Step, st.just("update"), FILTERS),
    st.builds(Step, st.just("keys"), st.lists(KEYS, min_size=1, max_size=3)),
    st.builds(Step, st.sampled_from(["table", "partitions"]), BATCHES),
    st.builds(Step, st.just("compact"), st.none()),
)


def applied(rows: dict[str, Row], step: Step) -> dict[str, Row]:
    """Return what a dict holds after a step."""
    found = rows
    match step.name:
        case "upsert" | "transaction":
            found = rows | {row["id"]: row for row in step.given}
        case "delete":
            found = {key: row for key, row in rows.items() if not step.given[1](row)}
        case "update":
            found = {
                key: row | {"n": 2, "s": row["id"]} if step.given[1](row) else row
                for key, row in rows.items()
            }
        case "keys":
            found = {key: row for key, row in rows.items() if int(key) not in step.given}
        case "table":
            found = {row["id"]: row for row in step.given}
        case "partitions":
            replaced = {row["part"] for row in step.given}
            found = {key: row for key, row in rows.items() if row["part"] not in replaced}
            found |= {row["id"]: row for row in step.given}
    return found


def write(table: hoodie.Table, step: Step, number: int) -> None:
    match step.name:
        case "upsert":
            table.upsert(pa.Table.from_pylist(step.given, pa.schema(COLUMNS)).to_reader(2))
        case "transaction":
            for _ in range(2):
                with table.transaction("etl", number) as tx:
                    for row in step.given:
                        tx.upsert([row])
        case "delete":
            table.delete(step.given[0])
        case "update":
            table.update({"n": 2, "s": pc.field("id")}, step.given[0])
        case "keys":
            table.delete(keys=list(map(str, step.given)))
        case "table" | "partitions":
            # Of rows with one key an insert keeps each: those of one batch have one each here.
            rows = {row["id"]: row for row in step.given}
            table.overwrite(list(rows.values()), replace=step.name)
        case _:
            if not table.config.is_copy_on_write:
                table.maintain.compact()


@settings(max_examples=25)
@given(
    steps=st.lists(STEPS, min_size=1, max_size=7),
    table_type=st.sampled_from(["mor", "cow"]),
    index=st.sampled_from(["bucket", "simple", "bloom"]),
    has_partitions=st.booleans(),
)
def test_writes_leave_what_a_dict_would_hold(
    steps: list[Step], table_type: str, index: str, has_partitions: bool
) -> None:
    if not has_partitions:
        steps = [each for each in steps if each.name != "partitions"]
    with tempfile.TemporaryDirectory() as folder:
        table = hoodie.create_table(
            Path(folder) / "t",
            COLUMNS,
            "id",
            table_type=table_type,
            index=index,
            buckets=2 if index == "bucket" else None,
            partition_by="part" if has_partitions else (),
            foreign_writers=False,
            settings={"hoodie.compact.inline.max.delta.commits": "1"},
        )
        rows: dict[str, Row] = {}
        for number, step in enumerate(steps):
            write(table, step, number)
            rows = applied(rows, step)
            found = table.scan().to_arrow().to_pylist()
            assert sorted(found, key=lambda row: row["id"]) == [rows[key] for key in sorted(rows)]
            assert table.scan().count() == table.dataset().count_rows() == len(rows)
        assert table.check(table._writer.transaction.settings) == []
