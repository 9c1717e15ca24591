"""Columns that writes add, and those that were added since a table was opened."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import errors, table
from hoodie.engine import local
from hoodie.model import results, schema_evolution, schemas, settings, table_config
from hoodie.transaction import manager
from hoodie.write import batches, sessions, tasks, write_task
from support.tables.tables import COLUMNS, CONFIG, SmallTable

Modes = settings.ConcurrencyMode
Types = table_config.TableType
KINDS = [
    (Types.MERGE_ON_READ, Modes.SINGLE_WRITER),
    (Types.MERGE_ON_READ, Modes.OPTIMISTIC),
    (Types.MERGE_ON_READ, Modes.NON_BLOCKING),
    (Types.COPY_ON_WRITE, Modes.SINGLE_WRITER),
    (Types.COPY_ON_WRITE, Modes.OPTIMISTIC),
]


class Evolving(SmallTable):
    """A table whose writers may add columns."""

    def __init__(self, path: Path, table_type: Types, mode: Modes) -> None:
        super().__init__(path, replace(CONFIG, table_type=table_type, bucket_count=1))
        self.mode = mode

    def write(self, writer_id: str, data: pa.Table, opened: table.Table | None = None) -> None:
        options = self.options(writer_id, concurrency=self.mode, adds_columns=True)
        done = (opened or self.table).write(data, options)
        assert isinstance(done, results.CommitResult)

    def reopened(self) -> table.Table:
        return table.open_table(str(self.path), self.env)

    def now(self) -> list[dict[str, object]]:
        rows = self.reopened().read().read_all().to_pylist()
        return sorted(rows, key=lambda row: str(row["id"]))


def rows(**columns: list[object]) -> pa.Table:
    count = len(next(iter(columns.values())))
    ids = [str(number) for number in range(count)]
    return pa.table({"id": ids, "part": ["p"] * count, **columns})


@pytest.fixture(params=KINDS, ids=lambda kind: f"{kind[0].value}-{kind[1].value}")
def evolving(request: pytest.FixtureRequest, tmp_path: Path) -> Evolving:
    return Evolving(tmp_path / "t", *request.param)


def test_new_column_is_added_and_null_in_older_rows(evolving: Evolving) -> None:
    evolving.write("w", rows(a=[1, 2], b=["x", "y"]))
    evolving.write("w", rows(note=["new"]))
    assert evolving.reopened().schema.arrow.names == [*COLUMNS.names, "note"]
    assert evolving.now() == [
        {"id": "0", "part": "p", "a": 1, "b": "x", "note": "new"},
        {"id": "1", "part": "p", "a": 2, "b": "y", "note": None},
    ]


def test_writers_that_were_there_before_keep_what_others_add(evolving: Evolving) -> None:
    """Both opened the table before either wrote."""
    first, second = evolving.reopened(), evolving.reopened()
    evolving.write("first", rows(left=[1]), first)
    evolving.write("second", rows(right=[2]), second)
    evolving.write("first", rows(a=[3]), first)
    assert evolving.reopened().schema.arrow.names == [*COLUMNS.names, "left", "right"]
    assert evolving.now() == [
        {"id": "0", "part": "p", "a": 3, "b": None, "left": 1, "right": 2},
    ]


def test_writer_that_adds_nothing_keeps_what_others_added(evolving: Evolving) -> None:
    """A copy-on-write one rewrites the others' columns, which it had not seen when it opened."""
    opened = evolving.reopened()
    evolving.write("other", rows(note=["kept"]))
    opened.write(rows(a=[1]), evolving.options("w", concurrency=evolving.mode))
    assert evolving.now() == [{"id": "0", "part": "p", "a": 1, "b": None, "note": "kept"}]


def test_type_is_widened(evolving: Evolving) -> None:
    evolving.write("w", rows(n=pa.array([1, 2], pa.int32())))
    evolving.write("w", rows(n=pa.array([1 << 40], pa.int64())))
    evolving.write("w", rows(n=pa.array([0.5], pa.float64())))
    assert evolving.reopened().schema.arrow.field("n").type == pa.float64()
    assert [row["n"] for row in evolving.now()] == [0.5, 2.0]


def test_batch_that_asks_for_nothing_adds_nothing(evolving: Evolving) -> None:
    with pytest.raises(errors.InvalidInputError, match="'note' is not in the table"):
        evolving.table.write(rows(note=["x"]), evolving.options(concurrency=evolving.mode))


@pytest.mark.parametrize("mode", [Modes.OPTIMISTIC, Modes.NON_BLOCKING])
def test_writers_at_the_same_time_add_both(tmp_path: Path, mode: Modes) -> None:
    """T-O17: of different file groups, where they are optimistic."""
    evolving = Evolving(tmp_path / "t", Types.MERGE_ON_READ, mode)
    late = rows(right=[1]).set_column(1, "part", pa.array(["q"]))

    class Engine(local.LocalEngine):
        """Lets another writer commit once data files are there."""

        def map(self, *arguments: object, **named: object) -> list[object]:
            found = super().map(*arguments, **named)  # type: ignore[arg-type] # passed on
            evolving.write("left", rows(left=[1]))
            return found

    env = replace(evolving.env, engine=Engine(1))
    evolving.write("right", late, table.open_table(str(evolving.path), env))
    assert evolving.reopened().schema.arrow.names == [*COLUMNS.names, "left", "right"]
    assert [(row["left"], row["right"]) for row in evolving.now()] == [(1, None), (None, 1)]


def test_second_of_two_types_that_do_not_go_together_is_refused(tmp_path: Path) -> None:
    """T-O17: and nothing of it is there."""
    evolving = Evolving(tmp_path / "t", Types.MERGE_ON_READ, Modes.OPTIMISTIC)
    options = evolving.options("w", concurrency=Modes.OPTIMISTIC)
    target = manager.Target(
        storage=evolving.env.open_storage(str(evolving.path)),
        config=evolving.table.config,
        schema=schema_evolution.merged(evolving.table.schema, pa.schema([("n", pa.string())])),
        added=pa.schema([("n", pa.string())]),
    )
    session = sessions.begin(target, options, ["id", "part", "n"], evolving.env)
    assert isinstance(session, sessions.WriteSession)
    evolving.write("other", rows(n=pa.array([1], pa.int64())))
    with pytest.raises(errors.ConflictError, match="'n' is int64 in the table"):
        session.commit([])
    assert evolving.reopened().schema.arrow.field("n").type == pa.int64()
    assert not evolving.table.timeline().pending


def test_batch_without_columns_that_others_added_has_null_there(tmp_path: Path) -> None:
    """As in Apache Hudi; a table with partial updates keeps what it has instead."""
    evolving = Evolving(tmp_path / "t", Types.MERGE_ON_READ, Modes.SINGLE_WRITER)
    whole = replace(evolving.table.config, has_partial_updates=False)
    path = str(tmp_path / "whole")
    table.create_table(path, whole, evolving.table.schema, evolving.env)
    for data in (rows(a=[1], b=["x"], left=[1]), rows(a=[2], right=[2])):
        evolving.write("w", data, table.open_table(path, evolving.env))
    (row,) = table.open_table(path, evolving.env).read().read_all().to_pylist()
    assert row == {"id": "0", "part": "p", "a": 2, "b": None, "left": None, "right": 2}
    without_key = rows(a=[2]).drop_columns(["part"])
    with pytest.raises(errors.InvalidInputError, match=r"'part' .* is missing"):
        evolving.write("w", without_key, table.open_table(path, evolving.env))


@pytest.mark.parametrize("mode", [Modes.OPTIMISTIC, Modes.NON_BLOCKING])
def test_sessions_at_the_same_time_add_both(tmp_path: Path, mode: Modes) -> None:
    """T-O17: as jobs do it, whose tasks write in processes of their own."""
    evolving = Evolving(tmp_path / "t", Types.MERGE_ON_READ, mode)
    sessions_begun = []
    for writer_id, part in (("left", "p"), ("right", "q")):
        data = rows(**{writer_id: [1]}).set_column(1, "part", pa.array([part]))
        options = evolving.options(writer_id, concurrency=mode, adds_columns=True)
        opened = evolving.reopened()
        schema = schema_evolution.merged(opened.schema, data.schema)
        session = opened.begin_write(options, data.column_names, schema)
        assert isinstance(session, sessions.WriteSession)
        batch = batches.prepare(data, opened.config, schema, options.operation)
        storage = evolving.env.open_storage(opened.uri)
        stats = tasks.run(
            session.task, batch, write_task.WriteToken(), storage, evolving.env.engine
        )
        sessions_begun.append((session, stats))
    for session, stats in sessions_begun:
        session.commit(stats)
    assert evolving.reopened().schema.arrow.names == [*COLUMNS.names, "left", "right"]
    assert [(row["left"], row["right"]) for row in evolving.now()] == [(1, None), (None, 1)]


def test_compactor_that_was_there_before_keeps_new_columns(tmp_path: Path) -> None:
    evolving = Evolving(tmp_path / "t", Types.MERGE_ON_READ, Modes.NON_BLOCKING)
    evolving.write("w", rows(note=["kept"]))
    assert evolving.table.schema.arrow.names == COLUMNS.names
    assert evolving.compact() is not None
    assert evolving.now() == [{"id": "0", "part": "p", "a": None, "b": None, "note": "kept"}]


TABLE = schemas.from_arrow(
    pa.schema([("i", pa.int32()), ("l", pa.int64()), ("f", pa.float32()), ("s", pa.string())]), "t"
)


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("i", pa.int64(), pa.int64()),
        ("i", pa.uint32(), pa.int64()),
        ("i", pa.float64(), pa.float64()),
        ("l", pa.float64(), pa.float64()),
        ("f", pa.float64(), pa.float64()),
        ("l", pa.int16(), pa.int64()),
        ("f", pa.int16(), pa.float32()),
        ("s", pa.large_string(), pa.string()),
        ("s", pa.null(), pa.string()),
        ("new", pa.uint8(), pa.int32()),
        ("new", pa.timestamp("us"), pa.timestamp("us")),
    ],
)
def test_merged_types(name: str, given: pa.DataType, expected: pa.DataType) -> None:
    found = schema_evolution.merged(TABLE, pa.schema([(name, given)]))
    assert found.arrow.field(name).type == expected
    assert schema_evolution.merged(found, pa.schema([(name, given)])) == found
    others = [each for each in TABLE.arrow if each.name != name]
    assert [each for each in found.arrow if each.name != name] == others


@pytest.mark.parametrize(
    ("name", "given"), [("s", pa.int32()), ("i", pa.string()), ("f", pa.int64())]
)
def test_types_that_do_not_widen_are_refused(name: str, given: pa.DataType) -> None:
    with pytest.raises(errors.InvalidInputError, match=rf"'{name}' is .* in the table"):
        schema_evolution.merged(TABLE, pa.schema([(name, given)]))


@pytest.mark.parametrize("version", [8, 9])
def test_ordering_field_is_not_widened(version: int, tmp_path: Path) -> None:
    """A delete in a log keeps the class of its value, and of another class it wins over any row."""
    mode = table_config.MergeMode.EVENT_TIME
    config = replace(
        CONFIG,
        ordering_fields=("at",),
        merge_mode=mode,
        has_partial_updates=False,
        bucket_count=1,
        version=version,
    )
    small = SmallTable(tmp_path / "t", config, at="int32")
    small.upsert([{"id": "k", "part": "p", "a": 1, "b": "x", "at": 10}])
    small.delete([{"id": "k", "part": "p", "at": 5}])
    wider = rows(at=pa.array([1], pa.int64()))
    with pytest.raises(errors.InvalidInputError, match="'at' is not widened from int32 to int64"):
        small.table.write(wider, small.options(adds_columns=True))
    assert [row["id"] for row in small.rows()] == ["k"]
    assert small.table.schema.arrow.field("at").type == pa.int32()


@pytest.mark.parametrize("name", ["id", "part"])
def test_what_keys_and_paths_are_made_of_keeps_its_text(name: str) -> None:
    schema = schemas.from_arrow(pa.schema([("id", pa.int32()), ("part", pa.int32())]), "t")
    added = pa.schema([(name, pa.float64())])
    with pytest.raises(errors.InvalidInputError, match=f"'{name}' is not widened"):
        schema_evolution.check_fixed(schema, added, CONFIG)
    schema_evolution.check_fixed(schema, pa.schema([(name, pa.int64())]), CONFIG)


@pytest.mark.parametrize("name", ["I", "_hoodie_file_name", "a b"])
def test_names_that_readers_would_not_tell_apart_are_refused(name: str) -> None:
    with pytest.raises(errors.InvalidInputError):
        schema_evolution.merged(TABLE, pa.schema([(name, pa.int32())]))


def test_names_that_columns_have_already_are_not_judged(tmp_path: Path) -> None:
    """Apache Hudi takes letters of any alphabet; its tables are written and checked here."""
    evolving = Evolving(tmp_path / "unused", Types.MERGE_ON_READ, Modes.SINGLE_WRITER)
    made = schemas.from_arrow(COLUMNS.append(pa.field("breite", pa.int32())), CONFIG.name)
    theirs = schemas.from_avro(made.avro.replace("breite", "größe"))
    evolving.path = tmp_path / "t"
    opened = table.create_table(str(evolving.path), CONFIG, theirs, evolving.env)
    evolving.table = opened.initialise_metadata(evolving.options().transaction)
    numbers = pa.array([1], pa.int32())
    evolving.write("w", rows(größe=numbers, more=numbers), evolving.reopened())
    assert [(row["größe"], row["more"]) for row in evolving.now()] == [(1, 1)]
    assert evolving.reopened().validate_metadata().is_right
    with pytest.raises(errors.InvalidInputError, match="2 columns are named 'größe'"):
        evolving.write("w", rows(GRÖßE=numbers), evolving.reopened())
    with pytest.raises(errors.InvalidInputError, match="'höhe' is not a valid name"):
        evolving.write("w", rows(höhe=numbers), evolving.reopened())
