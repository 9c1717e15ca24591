"""Tables with structs, lists and maps, written by Apache Hudi and by us in turn."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.peer import peer_ours
from support.peer.judge import Judge, without_meta_columns
from support.peer.peer_options import PeerTable

POINT = pa.struct([("x", pa.int32()), ("label", pa.string())])
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("part", pa.string()),
        ("ts", pa.int64()),
        ("point", POINT),
        ("deep", pa.struct([("at", POINT), ("price", pa.decimal128(9, 2)), ("day", pa.date32())])),
        ("numbers", pa.list_(pa.int64())),
        ("points", pa.list_(POINT)),
        ("tables", pa.list_(pa.list_(pa.string()))),
        ("by_name", pa.map_(pa.string(), POINT)),
        ("lists", pa.map_(pa.string(), pa.list_(pa.float64()))),
        ("times", pa.list_(pa.timestamp("us", "UTC"))),
        ("flag", pa.bool_()),
    ]
)
BASE = PeerTable(name="nested", partition_by=("part",), ordering="ts", buckets=2)
TABLES: Mapping[str, PeerTable] = {
    "mor": BASE,
    "mor, avro": replace(BASE, parquet_logs=False),
    "mor, version 8": replace(BASE, parquet_logs=False, table_version=8),
    "cow": replace(BASE, merge_on_read=False),
    "partial": replace(BASE, ordering=None, partial_updates=True),
}
START = datetime(2026, 1, 2, 3, 4, 5, 6, UTC)


def entry(number: int, ts: int) -> dict[str, Any]:
    """Return a row; of some numbers values are null, or empty.

    No item of a list is null: Apache Hudi 1.2.0 does not write such (docs/limits.md).
    """
    point = {"x": number + ts, "label": f"p{number}"}
    empty = {"x": None, "label": None}
    kind = number % 4
    return {
        "id": f"k{number:02d}",
        "part": "north" if number % 2 else "south",
        "ts": ts,
        "point": (point, empty, point, None)[kind],
        "deep": None
        if kind == 2
        else {
            "at": None if kind == 1 else point,
            "price": Decimal(number * ts).scaleb(-2),
            "day": date(2026, 1, 1) + timedelta(days=number),
        },
        "numbers": ([number, -1, ts], [], None, [2**62])[kind],
        "points": ([point, empty], [], None, [point])[kind],
        "tables": ([["a", ""], [], ["b"]], None, [], [[str(ts)]])[kind],
        "by_name": ([("a", point), ("b", None)], [], None, [("c", empty)])[kind],
        "lists": ([("a", [1.5, 0.0]), ("b", [])], None, [], [("c", None)])[kind],
        "times": ([START + timedelta(seconds=ts), START], [], None, [START])[kind],
        "flag": None if kind == 3 else bool(kind),
    }


def rows(numbers: Iterable[int], ts: int) -> list[dict[str, Any]]:
    return [entry(number, ts) for number in numbers]


def table_of(found: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(found, SCHEMA)


class Expected:
    """What should be in the table."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, Any]] = {}

    def upsert(self, found: list[dict[str, Any]], *, is_partial: bool = False) -> None:
        for row in found:
            before = self._rows.get(row["id"], {}) if is_partial else {}
            self._rows[row["id"]] = before | {
                name: value
                for name, value in row.items()
                if not is_partial or value is not None or name not in before
            }

    def delete(self, found: list[dict[str, Any]]) -> None:
        for row in found:
            self._rows.pop(row["id"], None)

    def check(self, read: pa.Table) -> None:
        wanted = table_of([self._rows[key] for key in sorted(self._rows)]).to_pylist()
        found = without_meta_columns(read).select(SCHEMA.names).sort_by("id")
        assert [normal(row) for row in found.to_pylist()] == [normal(row) for row in wanted]


def normal(value: Any) -> Any:  # noqa: ANN401
    """Return a value with the entries of maps in order."""
    if isinstance(value, dict):
        return {key: normal(item) for key, item in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return sorted((key, normal(item)) for key, item in value)
    return [normal(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("maker", ["ours", "theirs"])
@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.sample(1)
def test_both_write_one_table_in_turn(kind: str, maker: str, judge: Judge, tmp_path: Path) -> None:
    table, path, expected = TABLES[kind], tmp_path / "nested", Expected()
    is_partial = table.partial_updates
    ours = peer_ours.Hoodie(table=table, concurrency="occ")

    def write(who: str, found: list[dict[str, Any]], operation: str = "upsert") -> None:
        if who == "ours":
            ours.write(path, table_of(found), operation)
        else:
            judge.write(path, table_of(found), table.write_options(), operation=operation)
        expected.upsert(found, is_partial=is_partial)
        expected.check(peer_ours.read(path))
        expected.check(judge.read(path))

    other = "theirs" if maker == "ours" else "ours"
    write(maker, rows(range(16), 1))
    if maker == "theirs":
        peer_ours.hoodie("adopt", path, "--index", "bucket", "--buckets", "2")
    write(other, rows(range(8, 24), 2))
    write(maker, rows(range(4, 12), 3))
    write(other, rows(range(20, 30), 4))
    gone = rows(range(6, 10), 5)
    ours.write(path, table_of(gone), "delete")
    expected.delete(gone)
    expected.check(judge.read(path))
    expected.check(peer_ours.read(path))
    if table.merge_on_read:
        peer_ours.hoodie("compact", path)
        expected.check(judge.read(path))
        expected.check(peer_ours.read(path))
    write("theirs", rows(range(14), 6))
    write("ours", rows(range(3, 20), 7))
    if table.merge_on_read:
        judge.compact(path, table.write_options())
        expected.check(judge.read(path))
        expected.check(peer_ours.read(path))
    assert peer_ours.hoodie("check", path)["findings"] == []
