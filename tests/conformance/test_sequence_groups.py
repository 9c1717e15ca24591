"""Why there are no sequence groups (docs/adr/0015): what Apache Hudi reads of columns out of order.

Two streams each write a column of their own, and the time of its value beside it. With sequence
groups a late value would lose to a newer one of its column.
"""

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import environment, table
from hoodie.model import commits, schemas, settings, table_config
from hoodie.transaction import authors, manager
from hoodie.transaction.locks import address_texts
from hoodie.write import sessions
from support.peer.judge import Judge

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("a", pa.string()),
        ("a_time", pa.int64()),
        ("b", pa.string()),
        ("b_time", pa.int64()),
    ]
)
A2, A1 = {"a": "newer", "a_time": 2}, {"a": "late", "a_time": 1}
B2, B1 = {"b": "newer", "b_time": 2}, {"b": "late", "b_time": 1}
Columns = Mapping[str, object]


class Streams:
    """A table, and writers of rows with some of its columns."""

    def __init__(self, path: Path, ordering_fields: tuple[str, ...] = ()) -> None:
        self.path = path
        config = table_config.TableConfig(
            name="streams",
            record_key_fields=("id",),
            ordering_fields=ordering_fields,
            merge_mode=(
                table_config.MergeMode.EVENT_TIME
                if ordering_fields
                else table_config.MergeMode.COMMIT_TIME
            ),
            has_partial_updates=not ordering_fields,
            bucket_count=1,
        )
        schema = schemas.from_arrow(SCHEMA, config.name)
        self.table = table.create_table(str(path), config, schema, environment.system())

    def transaction(self, author: authors.Author) -> manager.TransactionOptions:
        return manager.TransactionOptions(
            settings=settings.WriteSettings(
                concurrency=settings.ConcurrencyMode.NON_BLOCKING, clock_wait_ms=0
            ),
            lock=address_texts.parse("filesystem"),
            author=author,
        )

    def write(self, columns: Columns) -> None:
        row = {"id": "1", **columns}
        data = pa.Table.from_pylist([row], pa.schema([SCHEMA.field(name) for name in row]))
        transaction = self.transaction(authors.Author(writer_id="stream"))
        options = sessions.WriteOptions(operation=commits.Operation.UPSERT, transaction=transaction)
        self.table.write(data, options)

    def compact(self) -> None:
        service = self.transaction(authors.Author())
        planned = self.table.schedule_compaction(service)
        assert planned is not None
        self.table.compact(planned, service)

    def read_by(self, judge: Judge) -> Columns:
        """Return the one row, which Apache Hudi and we read alike."""
        (row,) = judge.read(self.path).select(["a", "b"]).to_pylist()
        assert self.table.read(["a", "b"]).read_all().to_pylist() == [row]
        return dict(row)


@pytest.mark.parametrize("is_compacted", [False, True])
def test_late_value_in_a_log_wins_over_what_was_compacted(
    judge: Judge, tmp_path: Path, is_compacted: bool
) -> None:
    """By commit time, which streams of columns have: groups would tell `newer` of both."""
    streams = Streams(tmp_path / "table")
    streams.write(A2)
    streams.write(B2)
    if is_compacted:
        streams.compact()
    streams.write(A1)
    assert streams.read_by(judge) == {"a": "late", "b": "newer"}
    streams.compact()
    assert streams.read_by(judge) == {"a": "late", "b": "newer"}


def test_several_ordering_fields_are_one_tuple(judge: Judge, tmp_path: Path) -> None:
    """By event time: the row whose first field is greater wins whole, a newer `b` is lost."""
    streams = Streams(tmp_path / "table", ("a_time", "b_time"))
    streams.write(A1 | B2)
    streams.write(A2 | B1)
    assert streams.read_by(judge) == {"a": "newer", "b": "late"}
