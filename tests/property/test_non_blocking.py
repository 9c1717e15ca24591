"""Non-blocking writers: the table's content does not depend on when compaction ran (N2).

Two to four writers overlap in any way, and compactions are planned and run anywhere among them. The
three cases are those of design section 5. Two are held against a model, the third against the same
history without compactions: it has no other definition.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie import environment, table
from hoodie.model import commits, instants, schemas, table_config
from hoodie.model import settings as write_settings
from hoodie.transaction import authors, manager
from hoodie.transaction.locks import address_texts
from hoodie.write import batches, sessions, tasks, write_task

KEYS = ("k1", "k2", "k3")
COLUMNS = ("a", "b", "c", "d")
FLAG = "_hoodie_is_deleted"
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("at", pa.int64()),
        *((name, pa.int64()) for name in COLUMNS),
        (FLAG, pa.bool_()),
    ]
)
SETTINGS = write_settings.WriteSettings(
    concurrency=write_settings.ConcurrencyMode.NON_BLOCKING, clock_wait_ms=0
)
WHOLE_ROWS = table_config.TableConfig(
    name="joined",
    record_key_fields=("id",),
    ordering_fields=("at",),
    merge_mode=table_config.MergeMode.EVENT_TIME,
    bucket_count=1,
)
COLUMN_STREAMS = table_config.TableConfig(
    name="joined", record_key_fields=("id",), has_partial_updates=True, bucket_count=1
)
KEYS_ONCE = replace(WHOLE_ROWS, has_partial_updates=True)

Row = Mapping[str, int | str | None]
Step = int | Literal["compact"]
Rows = dict[str, dict[str, int | str | None]]
Begun = tuple[sessions.WriteSession, list[commits.Written]]

NUMBERS = itertools.count()
VALUES = st.none() | st.integers(0, 9)


@dataclass(frozen=True)
class History:
    """What writers do, and in which order.

    Attributes:
        streams: The batches of each writer, in their order.
        steps: A writer's number begins its next batch and writes the data, or completes the one it
            has begun; "compact" plans a compaction, or executes the one that is planned.
    """

    streams: Sequence[Sequence[Sequence[Row]]]
    steps: Sequence[Step]


def histories(streams: st.SearchStrategy[list[list[list[Row]]]]) -> st.SearchStrategy[History]:
    """Return all ways in which such writers and some compactions overlap."""

    def interleaved(drawn: list[list[list[Row]]]) -> st.SearchStrategy[History]:
        steps: list[Step] = [
            number for number, stream in enumerate(drawn) for _ in range(2 * len(stream))
        ]
        return st.permutations([*steps, *["compact"] * 5]).map(
            lambda order: History(drawn, order)  # type: ignore[arg-type] # of equal elements
        )

    return streams.flatmap(interleaved)


@st.composite
def whole_rows(draw: st.DrawFn) -> list[list[list[Row]]]:
    """Case (a): whole rows, and deletes in both forms; no ordering value twice."""
    times = draw(st.permutations(range(1, 60)))
    found = iter(times)
    keys = st.lists(st.sampled_from(KEYS), min_size=1, max_size=3, unique=True)

    def row(key: str) -> Row:
        values = {name: draw(VALUES) for name in COLUMNS}
        is_deleted = draw(st.sampled_from([None, False, False, True]))
        return {"id": key, "at": next(found), **values, FLAG: is_deleted}

    def batch() -> list[Row]:
        if draw(st.integers(0, 3)) == 0:
            return [{"id": key, "at": next(found)} for key in draw(keys)]
        return [row(key) for key in draw(keys)]

    return [
        [batch() for _ in range(draw(st.integers(1, 3)))] for _ in range(draw(st.integers(2, 4)))
    ]


@st.composite
def column_streams(draw: st.DrawFn) -> list[list[list[Row]]]:
    """Case (b): each stream has a column of its own; null changes nothing."""
    keys = st.lists(st.sampled_from(KEYS), min_size=1, max_size=3, unique=True)
    return [
        [
            [{"id": key, column: draw(VALUES)} for key in draw(keys)]
            for _ in range(draw(st.integers(1, 3)))
        ]
        for column in COLUMNS[: draw(st.integers(2, 4))]
    ]


@st.composite
def keys_once(draw: st.DrawFn) -> list[list[list[Row]]]:
    """Case (c): partial rows by event time, and no stream writes a key twice."""
    found = iter(draw(st.permutations(range(1, 60))))
    streams: list[list[list[Row]]] = []
    for column in COLUMNS[: draw(st.integers(2, 4))]:
        keys = draw(st.permutations(KEYS))
        cut = draw(st.integers(1, len(KEYS)))
        parts = [part for part in (keys[:cut], keys[cut:]) if part]
        streams.append(
            [
                [{"id": key, "at": next(found), column: draw(VALUES)} for key in part]
                for part in parts
            ]
        )
    return streams


@settings(max_examples=25, deadline=None)
@given(histories(whole_rows()))
def test_whole_rows_by_event_time(history: History) -> None:
    newest: dict[str, Row] = {}
    for row in _rows_of(history):
        there = newest.get(str(row["id"]))
        if there is None or int(there["at"] or 0) < int(row["at"] or 0):
            newest[str(row["id"])] = row
    expected = {key: dict(row) for key, row in newest.items() if FLAG in row and not row[FLAG]}
    assert play(history, WHOLE_ROWS) == expected


@settings(max_examples=25, deadline=None)
@given(histories(column_streams()))
def test_streams_of_disjoint_columns_join(history: History) -> None:
    expected: Rows = {}
    for row in _rows_of(history):
        known = expected.setdefault(str(row["id"]), dict.fromkeys(SCHEMA.names))
        known |= {name: value for name, value in row.items() if value is not None}
    assert play(history, COLUMN_STREAMS) == expected


@settings(max_examples=25, deadline=None)
@given(histories(keys_once()))
def test_streams_that_write_a_key_once_join_by_event_time(history: History) -> None:
    undisturbed = replace(history, steps=[step for step in history.steps if step != "compact"])
    acknowledged = replace(SETTINGS, acknowledges_order_dependence=True)
    assert play(history, KEYS_ONCE, acknowledged) == play(undisturbed, KEYS_ONCE, acknowledged)


def play(
    history: History,
    config: table_config.TableConfig,
    write: write_settings.WriteSettings = SETTINGS,
) -> Rows:
    """Return the content after the history, having compacted everything once more."""
    env = environment.system(parallelism=1)
    schema = schemas.from_arrow(SCHEMA, config.name)
    opened = table.create_table(f"memory://t{next(NUMBERS)}/t", config, schema, env)
    lock = address_texts.parse("in-process")

    def transaction(writer_id: str | None) -> manager.TransactionOptions:
        author = authors.Author(writer_id=writer_id)
        return manager.TransactionOptions(settings=write, lock=lock, author=author)

    def begin(
        number: int, rows: Sequence[Row]
    ) -> tuple[sessions.WriteSession, list[commits.Written]]:
        names = list(dict.fromkeys(name for row in rows for name in row))
        data = pa.Table.from_pylist(
            [dict(row) for row in rows], pa.schema([SCHEMA.field(name) for name in names])
        )
        is_delete = config == WHOLE_ROWS and FLAG not in names
        operation = commits.Operation.DELETE if is_delete else commits.Operation.UPSERT
        options = sessions.WriteOptions(operation=operation, transaction=transaction(f"w{number}"))
        session = opened.begin_write(options, names)
        assert isinstance(session, sessions.WriteSession)
        batch = batches.prepare(data, config, schema, operation)
        storage = env.open_storage(opened.uri)
        stats = tasks.run(session.task, batch, write_task.WriteToken(), storage, env.engine)
        return session, stats

    coming = [iter(stream) for stream in history.streams]
    begun: dict[int, Begun] = {}
    planned: instants.InstantTime | None = None
    for step in history.steps:
        if step == "compact" and planned is None:
            planned = opened.schedule_compaction(transaction(None))
        elif step == "compact":
            assert planned is not None
            opened.compact(planned, transaction(None))
            planned = None
        elif step in begun:
            session, stats = begun.pop(step)
            session.commit(stats)
        else:
            begun[step] = begin(step, next(coming[step]))
    content = _content(opened)
    for pending in (planned, None):
        instant = pending or opened.schedule_compaction(transaction(None))
        if instant is not None:
            opened.compact(instant, transaction(None))
    assert not any(set(each.log_files) - set(each.kept_deletes) for each in opened.slices())
    assert _content(opened) == content
    return content


def _rows_of(history: History) -> list[Row]:
    return [row for stream in history.streams for batch in stream for row in batch]


def _content(opened: table.Table) -> Rows:
    return {row["id"]: row for row in opened.read().read_all().to_pylist()}
