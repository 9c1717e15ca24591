"""Record keys that Apache Hudi writes without a word: of odd texts, dates, times and decimals.

Each table is adopted, and changed by both engines in turn: what one wrote the other updates and
deletes by the same key, so that no row is there twice. Keys that cannot be told apart, or whose
text depends on the operation of Apache Hudi, are refused before they do harm.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie.services import spark_options
from support.peer import peer_ours
from support.peer.judge import Judge, Query
from support.peer.peer_options import PeerTable
from support.peer.peer_rows import assert_same_rows

TEXTS = [
    "a:b",
    "c,d",
    "a,b:c",
    "id:1",
    "id:1,b:2",
    "😀",
    "x=y%41",
    "__x",
    "null",
    "q\"'",
    ",",
    ":,",
]
INSTANTS = [dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, dt.UTC)] + [
    dt.datetime(2024, 3, 1, 10, 30, second, 123_456, dt.UTC) for second in range(11)
]
DATES = [dt.date(1900, 1, 1), dt.date(1969, 12, 31), dt.date(2011, 12, 30)] + [
    dt.date(2024, 2, day) for day in range(21, 30)
]
DECIMALS = [Decimal(each).scaleb(-10) for each in (0, 1, -15, 10**10, -(10**19), *range(2, 9))]
KEYS: Mapping[str, pa.Array] = {
    "text": pa.array(TEXTS),
    "other": pa.array(["b:1", "1,2", ",", "text:", "", None, *TEXTS[:6]]),
    "day": pa.array(DATES, pa.date32()),
    "exact": pa.array(DECIMALS, pa.decimal128(20, 10)),
    "instant": pa.array(INSTANTS, pa.timestamp("us", "UTC")),
    "clock": pa.array([each.replace(tzinfo=None) for each in INSTANTS], pa.timestamp("us")),
}


def keyed(key: str, index: str = "SIMPLE", **how: object) -> PeerTable:
    """Return a table with key fields, that has an index without buckets."""
    plain = PeerTable(
        name="keyed",
        record_key=tuple(key.split(",")),
        partition_by=("part",),
        ordering="ts",
        buckets=None,
        bloom_filter=True,
        extra={"hoodie.index.type": index},
    )
    return replace(plain, **how)  # type: ignore[arg-type]


RECORD_INDEX = {
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
}
TABLES: Mapping[str, PeerTable] = {
    "text, mor": keyed("text"),
    "text, cow, version 8": keyed("text", "BLOOM", merge_on_read=False, table_version=8),
    "text, metadata": keyed("text", metadata_table=True, parquet_logs=False, extra=RECORD_INDEX),
    "texts, mor, version 8": keyed("text,other", "BLOOM", table_version=8),
    "texts, cow": keyed("text,other", merge_on_read=False, metadata_table=True),
    "day, buckets": keyed("day", buckets=3, extra={}),
    "day and decimal, cow": keyed("day,exact", merge_on_read=False),
    "decimal": keyed("exact", "BLOOM", metadata_table=True, parquet_logs=False),
    "instant, buckets, version 8": keyed("instant", buckets=2, table_version=8, extra={}),
    "instant and text, cow": keyed("text,instant", "BLOOM", merge_on_read=False),
    "clock": keyed("clock"),
}


def rows_of(kind: PeerTable, places: Sequence[int], ts: int) -> pa.Table:
    keys = {name: KEYS[name].take(pa.array(places)) for name in kind.record_key}
    parts = [("p", "q")[place % 2] for place in places]
    return pa.table(
        {
            **keys,
            "part": parts,
            "ts": pa.array([ts] * len(places), pa.int64()),
            "value": [f"{ts}-{place}" for place in places],
        }
    )


def adoption(kind: PeerTable) -> list[str]:
    if kind.buckets is not None:
        return ["--index", "bucket", "--buckets", str(kind.buckets)]
    return ["--index", "bloom" if kind.extra["hoodie.index.type"] == "BLOOM" else "simple"]


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", TABLES)
def test_rows_of_any_key_are_changed_by_both_engines(
    name: str, judge: Judge, tmp_path: Path
) -> None:
    kind, path = TABLES[name], tmp_path / "keyed"
    options = kind.write_options()
    expected: dict[int, int] = {}

    def compare() -> None:
        rows = [rows_of(kind, [place], ts) for place, ts in sorted(expected.items())]
        wanted = pa.concat_tables(rows)
        assert_same_rows(peer_ours.read(path), wanted, ["value"])
        theirs = judge.read(path, Query(use_metadata_table=kind.metadata_table))
        assert_same_rows(theirs, wanted, ["value"])

    judge.write(path, rows_of(kind, range(8), 1), options)
    expected |= dict.fromkeys(range(8), 1)
    peer_ours.hoodie("adopt", path, *adoption(kind), "--dry-run")
    peer_ours.hoodie("adopt", path, *adoption(kind))
    ours = peer_ours.Hoodie(table=kind, concurrency="single-writer")
    ours.write(path, rows_of(kind, range(3, 12), 2), "upsert")
    expected |= dict.fromkeys(range(3, 12), 2)
    compare()
    judge.write(path, rows_of(kind, range(1, 10, 2), 3), options)
    expected |= dict.fromkeys(range(1, 10, 2), 3)
    ours.write(path, rows_of(kind, [0, 3, 8, 11], 4), "delete")
    judge.write(path, rows_of(kind, [1, 4, 10], 5), options, operation="delete")
    for place in (0, 3, 8, 11, 1, 4, 10):
        del expected[place]
    compare()
    if kind.merge_on_read:
        peer_ours.hoodie("compact", path)
        compare()
    peer_ours.hoodie("check", path)


@pytest.mark.sample(1)
@pytest.mark.parametrize("is_mor", [True, False], ids=["mor", "cow"])
def test_keys_that_a_bulk_insert_printed_by_rows_are_refused(
    is_mor: bool, judge: Judge, tmp_path: Path
) -> None:
    kind, path = keyed("instant", merge_on_read=is_mor), tmp_path / "keyed"
    options = kind.write_options()
    judge.write(path, rows_of(kind, range(4), 1), options, operation="bulk_insert")
    # Not even Apache Hudi finds them again.
    judge.write(path, rows_of(kind, range(4), 2), options)
    assert judge.read(path).num_rows == 8
    for more in ([], ["--dry-run"]):
        with pytest.raises(peer_ours.CommandFailedError, match=r"row\.writer\.enable=false") as it:
            peer_ours.hoodie("adopt", path, *adoption(kind), *more)
        assert "record key '1970-01-01" in str(it.value) or "record key '2024-" in str(it.value)


def test_bulk_insert_with_the_options_of_the_table_is_found_again(
    judge: Judge, tmp_path: Path
) -> None:
    kind, path = keyed("instant"), tmp_path / "keyed"
    judge.write(path, rows_of(kind, range(4), 1), kind.write_options())
    peer_ours.hoodie("adopt", path, *adoption(kind))
    shown = peer_ours.hoodie("describe", path, "--spark-options", "--concurrency", "single-writer")
    assert shown["options"][spark_options.keys.ROW_WRITER_KEY] == "false"
    options = kind.write_options() | shown["options"]
    judge.write(path, rows_of(kind, range(4, 8), 1), options, operation="bulk_insert")
    ours = peer_ours.Hoodie(table=kind, concurrency="single-writer")
    ours.write(path, rows_of(kind, range(8), 2), "upsert")
    assert_same_rows(judge.read(path), rows_of(kind, range(8), 2), ["value"])


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.binary()], ids=str)
def test_table_whose_keys_have_several_texts_is_not_adopted(
    kind: pa.DataType, judge: Judge, tmp_path: Path
) -> None:
    path = tmp_path / "keyed"
    made = replace(keyed("id"), partition_by=(), ordering=None)
    rows = pa.table({"id": pa.array(["1.5", "2"]).cast(pa.float64())})
    if pa.types.is_binary(kind):
        rows = pa.table({"id": pa.array([b"1", b"2"])})
    rows = rows.cast(pa.schema([("id", kind)]))
    judge.write(path, rows, made.write_options())
    for more in ([], ["--dry-run"]):
        with pytest.raises(
            peer_ours.CommandFailedError,
            match=rf"cannot be written: record key column 'id' is {kind}: .*copy them to a table",
        ):
            peer_ours.hoodie("adopt", path, "--index", "simple", *more)
    assert_same_rows(peer_ours.read(path), rows, ["id"])


BEYOND = ["\U0010ffff", "\uffff", "\ue000a", "\U00010000"]
"""Keys that Java compares in another order than the bytes of files are."""


def test_apache_hudi_finds_every_key_in_files_of_ours_by_their_bloom_filters(
    judge: Judge, tmp_path: Path
) -> None:
    kind, path = keyed("text", "BLOOM", merge_on_read=False), tmp_path / "keyed"

    def rows(ts: int) -> pa.Table:
        count = len(BEYOND)
        return pa.table(
            {
                "text": BEYOND,
                "part": ["q"] * count,
                "ts": pa.array([ts] * count, pa.int64()),
                "value": [f"{ts}-{place}" for place in range(count)],
            }
        )

    judge.write(path, rows_of(kind, [0], 1), kind.write_options())
    peer_ours.hoodie("adopt", path, *adoption(kind))
    peer_ours.Hoodie(table=kind, concurrency="single-writer").write(path, rows(1), "upsert")
    # Keys that it misses would come into another file.
    judge.write(path, rows(2), kind.write_options() | {"hoodie.parquet.small.file.limit": "0"})
    wanted = pa.concat_tables([rows_of(kind, [0], 1), rows(2)])
    assert_same_rows(judge.read(path), wanted, ["value"])
