"""Record indexes of each partition that are built beside writers: partitions come and go."""

import random
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodie import errors, table
from hoodie.filegroup import metadata_table, record_index
from hoodie.metadata import index_decisions, index_steps, initial_keys
from hoodie.model import commits, files, results, settings, table_config
from hoodie.model.key_changes import RECORD_INDEX
from hoodie.read import where as filters
from hoodie.timeline import active, index_definitions
from support.tables.tables import CONFIG, SmallTable

CHAINED = replace(
    CONFIG, chain=table_config.ChainName(id="c"), has_foreign_writers=False, version=9
)
COW = replace(CHAINED, table_type=table_config.TableType.COPY_ON_WRITE, has_partial_updates=False)
SIMPLE = table_config.IndexKind.SIMPLE
KINDS = {
    "mor": CHAINED,
    "cow": COW,
    "hive-style": replace(COW, is_hive_style=True),
    "mor simple": replace(CHAINED, bucket_count=None, index=SIMPLE, has_partial_updates=False),
    "cow simple": replace(COW, bucket_count=None, index=SIMPLE),
}
KINDS |= {
    f"shared {kind}": replace(KINDS[kind], chain=None, has_foreign_writers=True)
    for kind in ("cow", "mor simple")
}
PARTS = ("p0", "2026-01-01", "x_y", "a=b", "new")
KEYS = [str(number) for number in range(12)]
FOLDER = f".hoodie/metadata/{RECORD_INDEX}"
Pair = tuple[str, str]


class KilledError(BaseException):
    """Ends a builder wherever it is."""


class Parts:
    """A table whose partitions have the same keys, and what has to be in it."""

    def __init__(self, path: Path, kind: str = "mor") -> None:
        self.small = SmallTable(path, KINDS[kind])
        self.expected: dict[Pair, int] = {}
        self.storage = self.small.env.open_storage(str(path))
        self.number = 0
        self.write([(part, key) for part in PARTS[:2] for key in KEYS[:6]])
        transaction = self.small.options().transaction
        self.small.table = self.small.table.initialise_metadata(transaction, has_statistics=False)

    @property
    def options(self) -> dict[str, object]:
        optimistic = settings.ConcurrencyMode.OPTIMISTIC
        return {"concurrency": optimistic, "acknowledges_order_dependence": True}

    def write(self, pairs: Sequence[Pair], **more: object) -> None:
        self.number += 1
        rows = [{"id": key, "part": part, "a": self.number, "b": "x"} for part, key in pairs]
        self.small.upsert(rows, **self.options, **more)
        self.expected |= dict.fromkeys(pairs, self.number)

    def delete(self, pairs: Sequence[Pair]) -> None:
        self.small.delete([{"id": key, "part": part} for part, key in pairs], **self.options)
        for pair in pairs:
            self.expected.pop(pair, None)

    def compact(self) -> None:
        if not self.opened().config.is_copy_on_write:
            self.small.compact()

    def opened(self) -> table.Table:
        return table.open_table(str(self.small.path), self.small.env)

    def build(
        self, hear: Callable[[str], object] = lambda what: None, *, is_partitioned: bool = True
    ) -> results.IndexResult:
        transaction = self.small.options().transaction
        return self.opened().build_index(
            (RECORD_INDEX,), transaction, hear, is_partitioned=is_partitioned
        )

    def drop(self) -> None:
        self.opened().drop_index((RECORD_INDEX,), self.small.options().transaction)

    def index(self) -> record_index.RecordIndex:
        return record_index.RecordIndex(
            metadata_table.MetadataTable(self.storage, active.listed(self.storage))
        )

    def located(self) -> dict[Pair, files.FileGroupId]:
        index, found = self.index(), {}
        for key_space in index.groups.by_key_space:
            at = index.locations(key_space, pa.array(KEYS, pa.string()))
            for key, number in zip(at.keys.to_pylist(), at.numbers.tolist(), strict=True):
                if number != record_index.NOWHERE:
                    found[str(key_space).removeprefix("part="), key] = at.groups[number]
        return found

    def rows_located(self) -> dict[Pair, files.FileGroupId]:
        columns = ["part", "id", "_hoodie_partition_path", "_hoodie_file_name"]
        return {
            (each["part"], each["id"]): files.FileGroupId(
                each["_hoodie_partition_path"], each["_hoodie_file_name"].partition("_")[0]
            )
            for each in self.opened().read(columns=columns).read_all().to_pylist()
        }

    def check(self) -> None:
        self.small.table = self.opened()
        found = {(str(each["part"]), str(each["id"])): each["a"] for each in self.small.rows()}
        assert found == self.expected
        assert self.small.table.has_partitioned_record_index()
        assert not self.small.table.pending_indexes()
        assert self.located() == self.rows_located()
        assert self.small.table.validate_metadata().is_right
        assert not self.small.problems()
        for key in ("0", "7"):
            rows = self.small.rows(where=filters.parse(f"id = '{key}'"))
            assert {str(each["part"]) for each in rows} == {
                part for part, other in self.expected if other == key
            }


class History:
    """Changes that chance chooses, in more and more partitions."""

    def __init__(self, parts: Parts, seed: int) -> None:
        self._parts = parts
        self._chance = random.Random(seed)
        self.number = 0

    def change(self, what: str = "") -> None:
        del what
        self.number += 1
        parts = PARTS[: 2 + self.number // 2]
        pairs = [(part, key) for part in parts for key in KEYS]
        step = self._chance.random()
        if step < 0.6:
            self._parts.write(self._chance.sample(pairs, 5))
        elif step < 0.9:
            there = sorted(self._parts.expected)
            self._parts.delete(self._chance.sample(there, min(3, len(there))))
        else:
            self._parts.compact()
        if self._chance.random() < 0.3:
            self._parts.small.table = self._parts.opened()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", KINDS)
def test_partitions_come_into_being_while_it_is_built(kind: str, seed: int, tmp_path: Path) -> None:
    parts = Parts(tmp_path / "t", kind)
    history = History(parts, seed)
    assert parts.build(history.change).built == (RECORD_INDEX,)
    assert history.number > 4
    assert parts.build() == results.IndexResult()
    parts.check()
    for _ in range(6):
        history.change()
    parts.check()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["mor", "cow simple", "shared cow"])
def test_killed_builds_are_followed_by_one_that_hides_what_they_left(
    kind: str, seed: int, tmp_path: Path
) -> None:
    parts = Parts(tmp_path / "t", kind)
    history = History(parts, seed)
    chance = random.Random(seed)
    for _ in range(3):
        left = chance.randrange(1, 7)

        def hear(what: str, left: int = left) -> None:
            history.change(what)
            if history.number % 7 == left:
                raise KilledError

        try:
            parts.build(hear)
        except KilledError:
            history.change()
    parts.build()
    history.change()
    parts.check()


def groups_of(parts: Parts) -> set[str]:
    return {
        name.removeprefix(".").partition("_")[0]
        for name in parts.storage.names(FOLDER)
        if "record-index" in name
    }


@pytest.mark.parametrize("kind", ["cow", "shared cow"])
def test_partition_without_rows_has_file_groups(kind: str, tmp_path: Path) -> None:
    """Writers of Apache Hudi fail where it has none for a partition that `files` has."""
    parts = Parts(tmp_path / "t", kind)
    gone = {"operation": commits.Operation.DELETE_PARTITION, "partitions": ("2026-01-01",)}
    parts.small.table.delete_partitions(parts.small.options(**parts.options, **gone))
    parts.expected = {pair: a for pair, a in parts.expected.items() if pair[0] == "p0"}
    parts.build()
    parts.check()
    assert groups_of(parts) == {"record-index-p0-0000-0", "record-index-2026%2D01%2D01-0000-0"}
    parts.write([("2026-01-01", "3")])
    parts.check()


def test_partition_that_comes_into_being_before_it_begins_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the rows were counted, so that nobody knows how many it has."""
    parts = Parts(tmp_path / "t")
    count = initial_keys.count_file_groups

    def counted(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - passed on
        found = count(*arguments, **named)
        parts.write([("new", "1")])
        return found

    monkeypatch.setattr(initial_keys, "count_file_groups", counted)
    parts.build()
    parts.check()


def test_partitions_of_different_sizes_have_file_groups_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what is logged while it is built goes where its hash is among them."""
    monkeypatch.setattr(initial_keys, "_GROUP_BYTES", 4 * 48)
    parts = Parts(tmp_path / "t", "cow")
    parts.delete([("2026-01-01", key) for key in KEYS[:5]])
    number = 0

    def change(what: str) -> None:
        nonlocal number
        if what.startswith("planning"):
            return  # Before they are counted.
        number += 1
        parts.write([(part, key) for part in (*PARTS[:2], "new") for key in KEYS[number % 6 : 8]])

    parts.build(change)
    assert number > 3
    parts.check()
    counts = Counter(each.rpartition("-00")[0] for each in groups_of(parts))
    assert counts == {
        "record-index-p0": 3,
        "record-index-2026%2D01%2D01": 1,
        "record-index-new": 1,
    }


@pytest.mark.parametrize("kind", ["cow", "shared cow"])
def test_what_a_dropped_index_has_left_is_hidden(kind: str, tmp_path: Path) -> None:
    """A process that drops it may die before its files are deleted, and rows go meanwhile."""
    parts = Parts(tmp_path / "t", kind)
    parts.build()
    folder = tmp_path / "t" / FOLDER
    shutil.copytree(folder, tmp_path / "left")
    parts.drop()
    shutil.copytree(tmp_path / "left", folder, dirs_exist_ok=True)
    parts.small.table = parts.opened()
    parts.delete([("2026-01-01", key) for key in KEYS[:6]])
    parts.build()
    parts.check()
    assert {part for part, _ in parts.located()} == {"p0"}


def test_index_of_an_empty_table_has_no_file_groups(tmp_path: Path) -> None:
    parts = Parts(tmp_path / "t")
    other = SmallTable(tmp_path / "empty", KINDS["mor"])
    transaction = other.options().transaction
    other.table = other.table.initialise_metadata(transaction, has_statistics=False)
    other.table.build_index((RECORD_INDEX,), transaction, is_partitioned=True)
    parts.small, parts.expected = other, {}
    parts.storage = other.env.open_storage(str(other.path))
    parts.small.table = parts.opened()
    assert groups_of(parts) == set()
    parts.write([("p0", "1"), ("x_y", "1")])
    parts.check()


@pytest.mark.parametrize("kind_of_table", ["mor", "shared cow"])
def test_index_of_the_other_kind_is_refused(kind_of_table: str, tmp_path: Path) -> None:
    parts = Parts(tmp_path / "t", kind_of_table)
    parts.build()
    for kind in ("of the whole table", "of each partition"):
        is_other = kind == "of the whole table"
        with pytest.raises(errors.InvalidInputError, match=f"and build one {kind} then"):
            parts.build(is_partitioned=not is_other)
        parts.drop()
        parts.expected = {pair: a for pair, a in parts.expected.items() if pair[0] == "p0"}
        parts.delete([("2026-01-01", key) for key in KEYS])  # Each key once in the table.
        parts.build(is_partitioned=not is_other)
        assert parts.opened().has_partitioned_record_index() is not is_other
        parts.write([("p0", "8")])
        assert parts.located().keys() >= ({("p0", "8")} if not is_other else {("None", "8")})


def test_pending_build_of_the_other_kind_is_a_conflict(tmp_path: Path) -> None:
    parts = Parts(tmp_path / "t")

    def die(what: str) -> None:
        if what == "publishing":
            raise KilledError

    with pytest.raises(KilledError):
        parts.build(die)
    with pytest.raises(errors.ConflictError, match="builds record_index of each partition, exp"):
        parts.build(is_partitioned=False)
    parts.write([("new", "3")])
    assert parts.build().built == (RECORD_INDEX,)
    parts.check()


def test_files_of_the_other_kind_that_were_left_are_refused(tmp_path: Path) -> None:
    parts = Parts(tmp_path / "t")
    folder = tmp_path / "t" / FOLDER
    folder.mkdir()
    (folder / ".record-index-0003-0_20200101000000000.log.1_0-0-0").write_bytes(b"")
    with pytest.raises(errors.ConflictError, match="record index of the whole table that was drop"):
        parts.build()
    parts.drop()
    parts.build()
    parts.check()


def test_file_that_a_paused_builder_of_the_other_kind_writes_late_harms_nobody(
    tmp_path: Path,
) -> None:
    parts = Parts(tmp_path / "t", "cow simple")
    parts.delete([("2026-01-01", key) for key in KEYS])
    folder = tmp_path / "t" / FOLDER

    def keep(what: str) -> None:
        if what == "publishing":
            shutil.copytree(folder, tmp_path / "left")
            raise KilledError

    with pytest.raises(KilledError):
        parts.build(keep, is_partitioned=False)
    parts.drop()
    parts.build()
    late = next(iter((tmp_path / "left").glob("record-index-*.hfile")))
    shutil.copy(late, folder / late.name)
    parts.small.table = parts.opened()
    parts.write([("p0", "9"), ("x_y", "9")])
    parts.check()


def test_index_that_is_being_built_is_not_asked(tmp_path: Path) -> None:
    """Whatever the properties were when they were read: its older keys are in no log file."""
    parts = Parts(tmp_path / "t", "mor simple")
    parts.build()
    before = parts.opened()
    parts.drop()
    asked: list[str] = []

    def hear(what: str) -> None:
        asked.append(what)
        if what == "publishing":
            parts.write([("p0", "11"), ("new", "1")])
            with pytest.raises(errors.FormatError, match="is being built, or was dropped"):
                parts.index()
            parts.small.table = before
            parts.write([("p0", "2"), ("new", "2")])  # By what is in the files.

    parts.build(hear)
    assert "publishing" in asked
    parts.check()


def test_key_that_two_file_groups_of_a_partition_have_has_the_build_given_up(
    tmp_path: Path,
) -> None:
    parts = Parts(tmp_path / "t", "cow simple")
    rows = [{"id": "3", "part": "p0", "a": 1, "b": "x"}]
    insert = {**parts.options, "operation": commits.Operation.BULK_INSERT}
    parts.small.table.write(parts.small.data(rows), parts.small.options(**insert))
    message = r"key '3' of .* of each partition, which has each key once there: '3' is in p0"
    with pytest.raises(errors.InvalidInputError, match=message):
        parts.build()
    assert not parts.opened().pending_indexes()
    parts.delete([("p0", "3")])
    parts.build()
    parts.check()


def test_too_many_file_groups_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_steps.scratch, "PARTS_MAX", 1)
    parts = Parts(tmp_path / "t")
    with pytest.raises(errors.UnsupportedError, match="has 2 file groups, expected 1 at most"):
        parts.build()
    assert not parts.opened().pending_indexes()
    parts.write([("p0", "1")])


def test_what_cannot_be_built_is_refused(tmp_path: Path) -> None:
    parts = Parts(tmp_path / "t")
    config = parts.opened().config
    write_settings = parts.small.options(**parts.options).transaction.settings
    for names, changed, message in (
        (("bloom_filters",), config, "of bloom_filters none can be one of each partition"),
        ((RECORD_INDEX,), replace(config, version=8), "expected table version 9"),
        ((RECORD_INDEX,), replace(config, record_key_fields=()), "has no record key"),
    ):
        request = index_decisions.Request(names, is_partitioned=True)
        refusal = index_decisions.request_refusal(request, changed, write_settings)
        assert message in str(refusal)
    request = index_decisions.Request((RECORD_INDEX,), is_partitioned=True)
    assert index_decisions.request_refusal(request, config, write_settings) is None


def test_definition_of_a_later_index_is_not_written_over(tmp_path: Path) -> None:
    """A builder that is paused before it writes it finds the other, and looks again."""
    parts = Parts(tmp_path / "t")
    index_definitions.put_of_record_index(parts.storage, lambda: None)
    checks = 0

    def check() -> None:
        nonlocal checks
        checks += 1
        if checks == 1:
            index_definitions.put_of_record_index(parts.storage, lambda: None, is_partitioned=True)
        else:
            raise errors.ConflictError("given up")

    with pytest.raises(errors.ConflictError, match="given up"):
        index_definitions.put_of_record_index(parts.storage, check)
    assert index_definitions.is_partitioned(parts.storage)
