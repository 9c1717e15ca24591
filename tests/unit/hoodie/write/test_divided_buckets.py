"""Rows of one bucket that are written piece by piece: as if they were written as a whole."""

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie.model import change_data, commits, results, settings, table_config
from hoodie.write import streaming, tasks
from support.tables.record_indexes import Indexed
from support.tables.tables import CONFIG, Rows, SmallTable

COW = replace(CONFIG, table_type=table_config.TableType.COPY_ON_WRITE, has_partial_updates=False)
EVENT_TIME = replace(CONFIG, merge_mode=table_config.MergeMode.EVENT_TIME, ordering_fields=("a",))
BOTH = change_data.LoggingMode.DATA_BEFORE_AFTER
CONFIGS = {
    "cow": COW,
    "cow, event time": replace(
        COW, merge_mode=table_config.MergeMode.EVENT_TIME, ordering_fields=("a",)
    ),
    "cow, change data": replace(COW, change_data=BOTH),
    "mor": replace(CONFIG, has_partial_updates=False),
    "mor, partial updates": CONFIG,
    "mor, event time": EVENT_TIME,
    "mor, change data": replace(EVENT_TIME, change_data=BOTH),
}
Operation = commits.Operation


@pytest.fixture
def divided(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Have each stream be in small pieces; count by bucket in how many it was written."""
    counts: Counter[str] = Counter()
    run_in_pieces = tasks.run_in_pieces

    def counted(task: object, bucket: object, pieces: list[object], *more: object) -> object:
        counts["one" if len(pieces) == 1 else "several"] += 1
        return run_in_pieces(task, bucket, pieces, *more)  # type: ignore[arg-type] # passed on

    monkeypatch.setattr(tasks, "run_in_pieces", counted)
    monkeypatch.setattr(streaming, "MEMORY_BYTES", 0)
    monkeypatch.setattr(streaming, "PIECE_BYTES", 1_000)
    monkeypatch.setattr(streaming, "PART_BYTES", 500)
    monkeypatch.setattr(streaming, "DIVIDED_BYTES", 600)
    monkeypatch.setattr(streaming, "KEYED_BYTES", 300)
    return counts


def reader_of(data: pa.Table) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(data.schema, data.to_batches(max_chunksize=37))


def random_rows(rng: random.Random, count: int, *, has_repeated: bool = True) -> Rows:
    keys = [f"k{rng.randrange(count)}" for _ in range(count)]
    if not has_repeated:
        keys = [f"k{number}" for number in rng.sample(range(count * 2), count)]
    return [
        {"id": key, "part": rng.choice("pq"), "a": rng.randrange(9), "b": f"{n:020}"}
        for n, key in enumerate(keys)
    ]


def stats_of(result: results.WriteResult) -> list[tuple[object, ...]]:
    """Return what a write says of each file group, whose ids are random."""
    assert isinstance(result, results.CommitResult)
    return sorted(
        (
            each.partition_path,
            bool(each.log_files),
            each.records,
            each.inserts,
            each.updates,
            each.deletes,
            each.lost,
        )
        for each in result.stats
    )


@pytest.mark.parametrize("alone", [True, False], ids=["alone", "beside others"])
@pytest.mark.parametrize("name", CONFIGS)
def test_table_is_as_of_whole_writes(
    tmp_path: Path, name: str, *, alone: bool, divided: Counter[str]
) -> None:
    rng = random.Random(f"{name} {alone}")
    tables = [SmallTable(tmp_path / each, CONFIGS[name]) for each in ("whole", "streamed")]
    whole, streamed = tables
    mode = settings.ConcurrencyMode
    more = {"concurrency": mode.SINGLE_WRITER if alone else mode.OPTIMISTIC}
    for operation in (
        Operation.UPSERT,
        Operation.INSERT,
        Operation.UPSERT,
        Operation.DELETE,
        Operation.UPSERT,
        Operation.INSERT_OVERWRITE,
    ):
        is_insert = operation is Operation.INSERT
        rows = random_rows(rng, 400, has_repeated=not is_insert)
        if is_insert:
            rows = [{**row, "id": f"new {row['id']}"} for row in rows]
        data = whole.data(rows)
        options = whole.options(operation=operation, **more)
        expected = whole.table.write(data, options)
        found = streamed.table.write(reader_of(data), options)
        assert stats_of(found) == stats_of(expected), operation
        assert streamed.rows() == whole.rows(), operation
    assert streamed.problems() == []
    assert divided["several"] > 10


def test_base_file_is_given_up_for_a_log_if_a_later_piece_has_a_key_twice(
    tmp_path: Path, divided: Counter[str]
) -> None:
    small = SmallTable(tmp_path, replace(CONFIG, bucket_count=1))
    rows = [{"id": f"k{n}", "part": "p", "a": n, "b": f"{n:020}"} for n in range(400)]
    found = small.table.write(
        reader_of(small.data([*rows, {**rows[7], "a": 1000}])),
        small.options(concurrency=settings.ConcurrencyMode.SINGLE_WRITER),
    )
    assert divided == {"several": 1}
    assert [each[1] for each in stats_of(found)] == [True]
    assert not list(tmp_path.rglob("*.parquet"))
    expected = [{**row, "a": 1000} if row["id"] == "k7" else row for row in rows]
    assert small.rows() == sorted(expected, key=lambda row: str(row["id"]))
    assert small.problems() == []


@pytest.mark.parametrize("name", ["cow", "mor", "mor, event time"])
def test_record_index_has_the_keys_of_all_pieces(
    tmp_path: Path, name: str, divided: Counter[str]
) -> None:
    indexed = Indexed(tmp_path / "t", CONFIGS[name])
    rng = random.Random(name)
    for operation in (Operation.UPSERT, Operation.UPSERT, Operation.DELETE, Operation.UPSERT):
        # The index has a key once: it stays in its partition.
        rows = [{**row, "part": "pq"[len(str(row["id"])) % 2]} for row in random_rows(rng, 300)]
        data = indexed.small.data(rows)
        indexed.small.table.write(reader_of(data), indexed.options(operation=operation))
        there = indexed.rows()
        found = indexed.locations(list(there))
        assert {key: found.get(key) for key in there} == there
    assert divided["several"] > 5


def test_change_data_has_what_all_pieces_changed(tmp_path: Path, divided: Counter[str]) -> None:
    small = SmallTable(tmp_path, CONFIGS["cow, change data"])
    rng = random.Random(1)
    for _ in range(3):
        data = small.data(random_rows(rng, 300))
        options = small.options(concurrency=settings.ConcurrencyMode.OPTIMISTIC)
        small.table.write(reader_of(data), options)
    assert divided["several"] > 5
    held: dict[tuple[object, object], object] = {}
    for change in small.table.change_data().read().read_all().to_pylist():
        key = change["record_key"], change["partition_path"]
        assert change["before"] == held.get(key), change
        held[key] = change["after"]
    assert held == {(row["id"], row["part"]): row for row in small.rows()}
