"""Batches that are given as streams: as written from memory, in memory that does not grow."""

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import errors
from hoodie.model import commits, settings, table_config
from hoodie.write import sessions, streaming, tasks, write_task
from support.peer.replacements import Replacements
from support.tables.tables import CONFIG, Rows, SmallTable

COW, MOR = table_config.TableType.COPY_ON_WRITE, table_config.TableType.MERGE_ON_READ
KIND = table_config.IndexKind
OPTIMISTIC = settings.ConcurrencyMode.OPTIMISTIC
UNBUCKETED = replace(CONFIG, bucket_count=None, hash_fields=(), has_partial_updates=False)
CONFIGS = {
    "buckets, copied": replace(CONFIG, table_type=COW, has_partial_updates=False),
    "buckets, logged": CONFIG,
    "simple, copied": replace(UNBUCKETED, index=KIND.SIMPLE, table_type=COW),
    "bloom, logged": replace(UNBUCKETED, index=KIND.BLOOM),
    "global, copied": replace(UNBUCKETED, index=KIND.GLOBAL_SIMPLE, table_type=COW),
    "global, logged": replace(
        UNBUCKETED,
        index=KIND.GLOBAL_SIMPLE,
        merge_mode=table_config.MergeMode.EVENT_TIME,
        ordering_fields=("a",),
    ),
}


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing fits into memory, and everything is in several pieces and parts."""
    monkeypatch.setattr(streaming, "MEMORY_BYTES", 0)
    monkeypatch.setattr(streaming, "PIECE_BYTES", 1_000)
    monkeypatch.setattr(streaming, "PART_BYTES", 3_000)


def random_rows(rng: random.Random, count: int) -> Rows:
    return [
        {"id": f"k{rng.randrange(count)}", "part": rng.choice("pqr"), "a": n, "b": f"{n:020}"}
        for n in range(count)
    ]


def reader_of(data: pa.Table, rows: int = 37) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(data.schema, data.to_batches(max_chunksize=rows))


class Foreign:
    """Rows of another library, by Arrow's C interface, which has texts for errors."""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self._reader = reader

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._reader.__arrow_c_stream__(requested_schema)


def write(
    small: SmallTable, data: pa.Table | pa.RecordBatchReader | Foreign, operation: commits.Operation
) -> None:
    small.table.write(data, small.options(operation=operation, concurrency=OPTIMISTIC))


@pytest.mark.parametrize("name", CONFIGS)
def test_stream_is_written_as_a_table_is(tmp_path: Path, name: str) -> None:
    rng = random.Random(name)
    whole = SmallTable(tmp_path / "whole", CONFIGS[name])
    streamed = SmallTable(tmp_path / "streamed", CONFIGS[name])
    for operation in (
        commits.Operation.INSERT,
        commits.Operation.UPSERT,
        commits.Operation.DELETE,
        commits.Operation.UPSERT,
        commits.Operation.INSERT_OVERWRITE,
    ):
        rows = random_rows(rng, 60 if operation is commits.Operation.DELETE else 400)
        data = whole.data(rows)
        if operation is commits.Operation.INSERT:
            # An insert keeps each row of a key where keys are looked up.
            data = whole.data([row | {"id": str(n)} for n, row in enumerate(rows)])
        write(whole, data, operation)
        write(streamed, reader_of(data), operation)
        assert streamed.rows() == whole.rows(), operation
    assert streamed.problems() == []
    assert not streamed.table.timeline().pending


@pytest.mark.parametrize("name", ["simple, copied", "buckets, copied", "buckets, logged"])
def test_bulk_insert_of_a_stream_is_sorted(tmp_path: Path, name: str) -> None:
    small = SmallTable(tmp_path, CONFIGS[name])
    rows = [row | {"id": f"{n}"} for n, row in enumerate(random_rows(random.Random(1), 500))]
    options = replace(
        small.options(operation=commits.Operation.BULK_INSERT, concurrency=OPTIMISTIC),
        sort_by=("b",),
    )
    small.table.write(reader_of(small.data(rows)), options)
    assert small.rows() == sorted(rows, key=lambda row: str(row["id"]))
    for path in small.path.rglob("*.parquet"):
        values = pa.parquet.read_table(path, columns=["b"]).column(0).to_pylist()
        assert values == sorted(values)


def test_stream_beside_a_file_group_of_no_bucket_leaves_each_key_once(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t", CONFIGS["buckets, copied"])
    old = [{"id": str(n), "part": part, "a": n, "b": "old"} for n in range(200) for part in "pq"]
    small.upsert(old, concurrency=OPTIMISTIC)
    Replacements(small).cluster("q")
    new = [row | {"b": "new", "a": 1} for row in old if int(str(row["id"])) % 2]
    write(small, reader_of(small.data(new)), commits.Operation.UPSERT)
    expected = [row if row["b"] == "old" and not int(str(row["id"])) % 2 else None for row in old]
    kept = [row for row in expected if row is not None]
    found = sorted(map(str, small.rows()))
    assert found == sorted(map(str, [*kept, *new]))


def test_stream_that_lost_a_conflict_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = SmallTable(tmp_path, CONFIGS["simple, copied"])
    rows = random_rows(random.Random(2), 300)
    once = {str(row["id"]) + str(row["part"]): row for row in rows}
    begin, begun = sessions.begin, []

    def begin_and_lose(*arguments: object) -> object:
        session = begin(*arguments)  # type: ignore[arg-type] # passed on as they are
        begun.append(session)
        if len(begun) == 1:
            monkeypatch.setattr(sessions, "begin", begin)
            small.upsert(rows[:1], writer_id="other", concurrency=OPTIMISTIC)
        return session

    small.upsert(rows[:1], concurrency=OPTIMISTIC)
    monkeypatch.setattr(sessions, "begin", begin_and_lose)
    options = small.options(concurrency=OPTIMISTIC, conflict_retries_max=2)
    small.table.write(reader_of(small.data(rows)), options)
    expected = sorted(once.values(), key=lambda row: (str(row["id"]), str(row["part"])))
    assert sorted(small.rows(), key=lambda row: (str(row["id"]), str(row["part"]))) == expected


def failing(data: pa.Table) -> pa.RecordBatchReader:
    def batches() -> Iterator[pa.RecordBatch]:
        yield from data.to_batches(max_chunksize=10)
        raise RuntimeError("the source is gone")

    return pa.RecordBatchReader.from_batches(data.schema, batches())


def test_stream_that_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    small = SmallTable(tmp_path)
    data = small.data(random_rows(random.Random(3), 200))
    with pytest.raises(RuntimeError, match=r"^the source is gone$"):
        write(small, failing(data), commits.Operation.UPSERT)
    message = "broke off after 200 rows, and nothing was written: .*the source is gone"
    with pytest.raises(errors.InvalidInputError, match=message):
        write(small, Foreign(failing(data)), commits.Operation.UPSERT)
    assert small.table.timeline().instants == ()


def test_row_that_does_not_fit_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    small = SmallTable(tmp_path)
    rows = [*random_rows(random.Random(4), 200), {"id": None, "part": "p", "a": 1, "b": "x"}]
    with pytest.raises(errors.InvalidInputError, match="null"):
        write(small, reader_of(small.data(rows)), commits.Operation.UPSERT)
    assert small.table.timeline().instants == ()


def test_stream_without_rows_and_of_dictionaries(tmp_path: Path) -> None:
    small = SmallTable(tmp_path)
    rows = [{"id": str(n), "part": "p", "a": n, "b": "xy"[n % 2]} for n in range(100)]
    data = small.data(rows)
    parts = [data.slice(0, 30), data.slice(30)]
    coded = [each.set_column(3, "b", each["b"].dictionary_encode()) for each in parts]
    batches = [batch for each in coded for batch in each.to_batches()]
    reader = pa.RecordBatchReader.from_batches(coded[0].schema, batches)
    small.table.write(reader, small.options(batch_id="1"))
    assert small.rows() == sorted(rows, key=lambda row: str(row["id"]))
    before = small.rows()
    small.table.write(reader_of(data.slice(0, 0)), small.options(batch_id="2"))
    assert small.rows() == before


def test_parts_are_written_by_tasks_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens: list[write_task.WriteToken] = []
    run = tasks.run

    def spy(*arguments: object) -> object:
        assert isinstance(arguments[2], write_task.WriteToken)
        tokens.append(arguments[2])
        return run(*arguments)  # type: ignore[arg-type] # passed on as they are

    monkeypatch.setattr(tasks, "run", spy)
    small = SmallTable(tmp_path)
    data = small.data(random_rows(random.Random(5), 800))
    write(small, reader_of(data), commits.Operation.UPSERT)
    assert len(tokens) == len({token.task for token in tokens}) > 2
