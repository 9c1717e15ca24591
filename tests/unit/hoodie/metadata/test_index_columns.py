"""Statistics of chosen columns, which are changed beside running writers."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import errors
from hoodie.metadata import index_decisions
from hoodie.model import file_statistics, instants, plans, table_config
from hoodie.model.file_statistics import BLOOM_FILTERS, COLUMN_STATS, META_COLUMNS, PARTITION_STATS
from hoodie.read import where as filters
from hoodie.timeline import index_definitions
from support.tables.indexed_tables import BESIDE, KINDS, Indexed, rows_of
from support.tables.tables import CONFIG

BOTH = (COLUMN_STATS, PARTITION_STATS)


class Chosen(Indexed):
    """A table whose statistics are of chosen columns."""

    def build_of(
        self,
        columns: Sequence[str] | None,
        names: Sequence[str] = BOTH,
        hear: Callable[[str], object] = lambda what: None,
    ) -> tuple[str, ...]:
        transaction = self.small.options().transaction
        opened = self.opened()
        built = opened.build_index(names, transaction, hear, columns=columns).built
        self.small.table = self.opened()
        return built

    def defined(self) -> tuple[str, ...]:
        """Return the columns in the definition of the index, without meta columns."""
        storage = self.small.env.open_storage(str(self.small.path))
        found = index_definitions.of_statistics(storage)
        assert found is not None
        return tuple(each for each in found.columns if each not in META_COLUMNS)

    def recorded(self) -> set[str]:
        """Return the columns of which some file has statistics, without meta columns."""
        self.names = (COLUMN_STATS,)
        keys = {record.partition("column='")[2].partition("'")[0] for record in self.shown()}
        return keys - set(META_COLUMNS)

    def shown(self) -> Sequence[str]:
        return list(self.records().values())

    def check_columns(self, *columns: str) -> None:
        """Check that statistics are those of some columns, and that reads find all rows by them."""
        assert self.recorded() == set(columns)
        assert set(self.defined()) == set(columns)
        opened = self.opened()
        assert opened.validate_metadata().is_right
        assert not self.small.problems()
        for column in ("a", "b"):
            where = "a > 100000" if column == "a" else "b = 'y'"
            plan = opened.explain_read(where=filters.parse(where))
            assert (plan.steps[-1].left == 0) is (column in columns), (column, plan)


@pytest.mark.parametrize("kind", KINDS)
def test_statistics_are_of_the_chosen_columns(kind: str, tmp_path: Path) -> None:
    """Also of files that are written while they are built, and afterwards."""
    chosen = Chosen(tmp_path / "t", KINDS[kind])
    names = BOTH if chosen.small.table.config.partition_fields else (COLUMN_STATS,)

    def hear(what: str) -> None:
        if what == "publishing":
            chosen.upsert(20, 26, 7)

    assert chosen.build_of(["a"], names, hear) == names
    chosen.upsert(5, 12, 3)
    chosen.check_columns("a")
    assert chosen.build_of(["a"], names) == ()
    assert chosen.build_of(None, names) == ()


@pytest.mark.parametrize("kind", ["mor", "shared", "shared, with a chain"])
def test_other_columns_are_built_again_beside_writers(kind: str, tmp_path: Path) -> None:
    """A write in flight that has gathered statistics of the columns before looks again."""
    chosen = Chosen(tmp_path / "t", KINDS[kind])
    chosen.more = {**chosen.more, **BESIDE}
    chosen.build_of(["a"])
    before = chosen.begin("early", rows_of(30, 36, 5))
    happened: list[str] = []

    def hear(what: str) -> None:
        happened.append(what)
        if what.startswith("dropping"):
            chosen.upsert(20, 26, 7)

    assert chosen.build_of(["b", "id"], hear=hear) == BOTH
    assert "dropping column_stats, partition_stats" in happened
    before()
    chosen.small.table = chosen.opened()
    chosen.upsert(5, 12, 3)
    chosen.check_columns("b", "id")
    chosen.drop(*BOTH)
    chosen.small.table = chosen.opened()
    assert chosen.small.table.config.statistics_columns is None
    chosen.build_of(None)
    chosen.check_columns("id", "part", "a", "b")


@pytest.mark.parametrize("kind", ["mor", "shared"])
def test_columns_that_are_the_first_ones_stay_those(kind: str, tmp_path: Path) -> None:
    """The definition alone would mean that columns were added since."""
    chosen = Chosen(tmp_path / "t", KINDS[kind])
    chosen.build_of(["id"])
    chosen.upsert(20, 26, 7)
    chosen.check_columns("id")
    transaction = chosen.small.options().transaction
    chosen.opened().drop_metadata(transaction)
    chosen.small.table = chosen.opened().initialise_metadata(transaction)
    chosen.check_columns("id", "part", "a", "b")


@pytest.mark.parametrize("kind", ["mor", "shared"])
def test_build_that_broke_off_is_of_the_columns_of_its_plan(kind: str, tmp_path: Path) -> None:
    """Whoever finishes it; unless others are asked for."""
    chosen = Chosen(tmp_path / "t", KINDS[kind])

    def die(what: str) -> None:
        if what == "publishing":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        chosen.build_of(["a"], hear=die)
    [pending] = chosen.opened().pending_indexes()
    assert pending.columns == ("a",)
    assert chosen.build_of(None) == BOTH
    chosen.check_columns("a")
    chosen.drop(*BOTH)
    with pytest.raises(KeyboardInterrupt):
        chosen.build_of(["a"], hear=die)
    assert chosen.build_of(["b"]) == BOTH
    chosen.check_columns("b")


def test_columns_of_another_engine_are_kept_up(tmp_path: Path) -> None:
    """It defines them by an option of its own, and reads what they lack as absent values."""
    chosen = Chosen(tmp_path / "t", KINDS["shared"])
    chosen.build_of(["a"])
    config = chosen.small.table.config
    schema = pa.schema([("id", pa.string()), ("a", pa.int64()), ("b", pa.string())])
    definition = file_statistics.Definition(columns=("a", "b"))
    assert config.statistics_columns == ("a",)
    assert set(file_statistics.wanted(config, schema, definition).kinds) == {
        *META_COLUMNS,
        "a",
        "b",
    }


@pytest.mark.parametrize(
    ("names", "columns", "message"),
    [
        (BOTH, ["a", "c"], r"small has no column 'c', expected one of id, part, a, b"),
        (BOTH, ["a", "a"], "column a is named twice"),
        (BOTH, [], "no column of column_stats is named"),
        (BOTH, ["b.c"], r"small has no column 'b.c'"),
        ((BLOOM_FILTERS,), ["a"], "columns are those of column_stats, which is not among bloom_f"),
        ((PARTITION_STATS,), ["a"], "which is missing: build both"),
    ],
)
def test_columns_that_cannot_be_are_refused(
    names: Sequence[str], columns: Sequence[str], message: str, tmp_path: Path
) -> None:
    chosen = Chosen(tmp_path / "t")
    with pytest.raises(errors.InvalidInputError, match=message):
        chosen.build_of(columns, names)
    assert not chosen.opened().pending_indexes()


def test_statistics_of_files_are_not_built_again_without_those_of_partitions(
    tmp_path: Path,
) -> None:
    chosen = Chosen(tmp_path / "t")
    chosen.build_of(["a"])
    with pytest.raises(errors.InvalidInputError, match="has the columns of column_stats: build bo"):
        chosen.build_of(["b"], (COLUMN_STATS,))
    chosen.check_columns("a")


@pytest.mark.parametrize(
    ("name", "data_type", "change", "message"),
    [
        (
            "s",
            pa.struct([("x", pa.int64())]),
            {},
            "is of type struct<x: int64>, of which there are",
        ),
        ("l", pa.list_(pa.int64()), {}, "is of type list"),
        ("d", pa.decimal128(38, 20), {"version": 8}, "is of type decimal128(38, 20)"),
        ("x,y", pa.int64(), {}, "column 'x,y' has a comma"),
        ("p", pa.string(), {"drops_partition_columns": True, "partition_fields": ("p",)}, "do not"),
    ],
)
def test_columns_without_statistics_are_refused(
    name: str, data_type: pa.DataType, change: dict[str, object], message: str
) -> None:
    config = replace(CONFIG, **change)  # type: ignore[arg-type] # by name
    schema = pa.schema([("id", pa.string()), (name, data_type)])
    refusal = file_statistics.columns_refusal(["id", name], config, schema)
    assert isinstance(refusal, errors.InvalidInputError)
    assert message in str(refusal)


def step(
    config: table_config.TableConfig,
    planned: Sequence[str] | None,
    columns: Sequence[str] | None,
    names: Sequence[str] = BOTH,
) -> str:
    """Return what is done next; with a pending plan of both statistics, if there is one."""
    builds = []
    if planned is not None:
        extra = {"hoodie.writer.commit.id": "w"}
        if planned:
            extra[index_decisions.COLUMNS_KEY] = ",".join(planned)
        builds.append(_build(extra))
    request = index_decisions.Request(names, columns)
    return type(index_decisions.next_step(request, config, builds)).__name__


def _build(extra: dict[str, str]) -> index_decisions.Build:
    partitions = tuple(plans.IndexedPartition(name=n, through="", extra=extra) for n in BOTH)
    instant = instants.Instant(
        requested_time=instants.InstantTime("20260101000000001"),
        action=instants.Action.INDEXING,
        state=instants.State.REQUESTED,
    )
    return index_decisions.Build(instant=instant, plan=plans.Indexing(partitions=partitions))


ALONE = replace(
    CONFIG,
    chain=table_config.ChainName(id="c"),
    has_foreign_writers=False,
    metadata_partitions=("files",),
)
READY = replace(
    ALONE,
    metadata_partitions=("files", *BOTH),
    properties={table_config.STATISTICS_COLUMNS_KEY: "a,b"},
)


@pytest.mark.parametrize(
    ("config", "planned", "columns", "expected"),
    [
        (ALONE, None, ["a"], "Schedule"),
        (ALONE, ["a"], ["a"], "Execute"),
        (ALONE, ["a"], None, "Execute"),
        (ALONE, ["b", "a"], ["a", "b"], "Execute"),
        (ALONE, ["a"], ["b"], "GiveUp"),
        (ALONE, [], ["b"], "GiveUp"),
        (READY, None, None, "Nothing"),
        (READY, None, ["b", "a"], "Nothing"),
        (READY, None, ["a"], "Drop"),
        (replace(READY, properties={}), None, ["a"], "Drop"),
        (READY, ["a"], ["a"], "GiveUp"),
    ],
)
def test_next_step_by_columns(
    config: table_config.TableConfig,
    planned: Sequence[str] | None,
    columns: Sequence[str] | None,
    expected: str,
) -> None:
    assert step(config, planned, columns) == expected
