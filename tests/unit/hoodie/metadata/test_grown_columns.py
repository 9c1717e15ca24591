"""Statistics of partitions that are built where columns grow: before, meanwhile and afterwards."""

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import table
from hoodie.filegroup import metadata_table
from hoodie.format import metadata_avro
from hoodie.format.metadata_avro import RecordType
from hoodie.model import partition_statistics, settings
from hoodie.model.file_statistics import COLUMN_STATS, PARTITION_STATS, ColumnStatistics
from hoodie.model.value_wrappers import Wrapper
from hoodie.read import where as filters
from hoodie.timeline import active
from support.tables.indexed_tables import BESIDE, KINDS, can_be_merged_by_apache_hudi
from support.tables.tables import SmallTable

NAMES = (COLUMN_STATS, PARTITION_STATS)
PARTITIONED = [kind for kind, config in KINDS.items() if config.partition_fields]
EACH_KIND = pytest.mark.parametrize("kind", PARTITIONED)
WIDE = 2**40


def rows_of(first: int, last: int, whole: int | None = None) -> list[dict[str, object]]:
    return [
        {"id": str(n), "part": f"p{n % 2}", "a": n, "whole": n if whole is None else whole}
        for n in range(first, last)
    ]


class Growing:
    """A table whose column `whole` is widened, and which has no statistics yet."""

    def __init__(self, path: Path, kind: str) -> None:
        config = KINDS[kind]
        self.small = SmallTable(path, config, whole="int32")
        self.more: dict[str, object] = dict(BESIDE)
        if config.is_copy_on_write:
            self.more["concurrency"] = settings.ConcurrencyMode.OPTIMISTIC
        self.upsert(0, 4)
        if not config.is_copy_on_write:
            self.small.compact()
        transaction = self.small.options().transaction
        self.small.table = self.small.table.initialise_metadata(transaction, has_statistics=False)

    def upsert(self, first: int, last: int, whole: int | None = None) -> None:
        """Write rows by a table that knows the columns as they were in the beginning.

        But if it rewrites rows, which it cannot if they are wider.
        """
        if self.small.table.config.is_copy_on_write:
            self.small.table = self.opened()
        self.small.upsert(rows_of(first, last, whole), **self.more)

    def begin(self, rows: Sequence[Mapping[str, object]]) -> Callable[[], None]:
        options = self.small.options("early", **self.more)
        session = self.small.table.begin_write(options, list(rows[0]))
        written = self.small.write_files(session, rows)
        return lambda: session.commit(written) and None

    def grow(self) -> None:
        """Write a value that needs a wider column."""
        rows = pa.table({"id": ["8"], "part": ["p0"], "whole": [WIDE]})
        options = self.small.options("wide", **self.more, adds_columns=True)
        self.opened().write(rows, options)

    def opened(self) -> table.Table:
        return table.open_table(str(self.small.path), self.small.env)

    def build(self, hear: Callable[[str], object] = lambda what: None) -> tuple[str, ...]:
        transaction = self.small.options().transaction
        return self.opened().build_index(NAMES, transaction, hear).built

    def records(self) -> Mapping[tuple[str, str], Sequence[ColumnStatistics]]:
        """Return the records of partitions by path and column, in the order of merging."""
        storage = self.small.env.open_storage(str(self.small.path))
        beside = metadata_table.MetadataTable(storage, active.load(storage))
        found = {}
        for values in beside.partition(PARTITION_STATS).with_prefixes([""]).values():
            decoded = [
                metadata_avro.decode_statistics(each, "a test", RecordType.PARTITION_STATS)
                for each in values
            ]
            stated = [each for each in decoded if each is not None]
            found[stated[0].file_name, stated[0].column] = stated
        return found

    def check(self, path: str, low: int, high: int) -> None:
        """Check what there is of the column in a partition, and that reads go by it."""
        records = self.records()
        assert all(map(can_be_merged_by_apache_hudi, records.values()))
        merged = functools.reduce(partition_statistics.merged, records[path, "whole"])
        assert (merged.low, merged.high) == (low, high)
        assert merged.kind is Wrapper.LONG
        opened = self.opened()
        assert opened.validate_metadata().is_right
        assert not self.small.problems()
        assert opened.explain_read(where=filters.parse(f"whole > {WIDE}")).steps[-1].left == 0
        found = opened.read(where=filters.parse(f"whole = {high}")).read_all()
        assert found.num_rows


@EACH_KIND
def test_column_that_was_widened_before(kind: str, tmp_path: Path) -> None:
    """A write that began before it was, and those of a table that was opened before, are merged."""
    growing = Growing(tmp_path / "t", kind)
    complete = growing.begin(rows_of(2, 3, -7))
    growing.grow()
    assert growing.build() == NAMES
    if KINDS[kind].is_copy_on_write:
        growing.upsert(2, 3, -7)
    else:
        complete()
    growing.check("p0", -7, WIDE)


@EACH_KIND
def test_column_that_is_widened_while_statistics_are_built(kind: str, tmp_path: Path) -> None:
    """Narrow records come before and after, whichever step the builder is at."""
    steps: list[str] = []
    Growing(tmp_path / "counted", kind).build(steps.append)
    for number in range(len(steps)):
        growing = Growing(tmp_path / str(number), kind)
        assert growing.build(growing_at(number, growing)) == NAMES
        growing.check("p0", -9, WIDE)
        growing.upsert(4, 5, -20)
        growing.check("p0", -20, WIDE)


def growing_at(number: int, growing: Growing) -> Callable[[str], None]:
    """Return what hears of a build, and has the table grow at one of its steps."""
    heard: list[str] = []

    def hear(what: str) -> None:
        heard.append(what)
        if len(heard) == number + 1:
            growing.upsert(2, 3, -7)
            growing.grow()
            growing.upsert(0, 1, -9)

    return hear


def test_columns_that_did_not_grow_take_no_further_instant(tmp_path: Path) -> None:
    growing = Growing(tmp_path / "t", "mor")
    growing.build(lambda what: what == "publishing" and growing.upsert(2, 3, -7))
    folder = growing.small.path / ".hoodie/metadata/partition_stats"
    assert len([*folder.glob("*.hfile")]) == 1
    growing = Growing(tmp_path / "grown", "mor")
    growing.grow()
    growing.build()
    folder = growing.small.path / ".hoodie/metadata/partition_stats"
    assert len([*folder.glob("*.hfile")]) == 2


def test_builder_that_died_before_columns_grew_is_followed(tmp_path: Path) -> None:
    growing = Growing(tmp_path / "t", "mor")

    def die(what: str) -> None:
        if what == "publishing":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        growing.build(die)
    growing.upsert(2, 3, -7)
    growing.grow()
    assert growing.build() == NAMES
    growing.check("p0", -7, WIDE)
    growing.opened().drop_index(NAMES, growing.small.options().transaction)
    assert growing.build() == NAMES
    growing.check("p0", -7, WIDE)
