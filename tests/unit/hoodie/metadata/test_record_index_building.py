"""Record indexes that are built beside writers: each row is found by its key afterwards."""

import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodie import errors, table
from hoodie.filegroup import (
    held_keys,
    index_groups,
    metadata_table,
    metadata_writing,
    record_index,
    stored_keys,
)
from hoodie.maintenance.cleaning import retention
from hoodie.metadata import index_decisions, initial_keys, shared_keys
from hoodie.model import commits, files, key_changes, results, settings, table_config
from hoodie.model.file_statistics import BLOOM_FILTERS, COLUMN_STATS
from hoodie.model.key_changes import RECORD_INDEX
from hoodie.read import planning
from hoodie.read import where as filters
from hoodie.storage import local
from hoodie.timeline import active, index_definitions, metadata_timelines, table_properties
from hoodie.transaction import authors, lifecycle
from support.parameters import covering
from support.tables import foreign_writes
from support.tables.tables import CONFIG, SmallTable

CHAINED = replace(CONFIG, chain=table_config.ChainName(id="c"), has_foreign_writers=False)
COPY_ON_WRITE = table_config.TableType.COPY_ON_WRITE
OPTIMISTIC = settings.ConcurrencyMode.OPTIMISTIC
NON_BLOCKING = settings.ConcurrencyMode.NON_BLOCKING
INSERT_OVERWRITE = commits.Operation.INSERT_OVERWRITE
EVENT_TIME = replace(
    CHAINED,
    has_partial_updates=False,
    merge_mode=table_config.MergeMode.EVENT_TIME,
    ordering_fields=("a",),
)


def looking(
    index: table_config.IndexKind, config: table_config.TableConfig = CHAINED
) -> table_config.TableConfig:
    return replace(config, bucket_count=None, index=index, has_partial_updates=False)


SIMPLE, GLOBAL = table_config.IndexKind.SIMPLE, table_config.IndexKind.GLOBAL_SIMPLE
COW = replace(CHAINED, table_type=COPY_ON_WRITE, has_partial_updates=False)
KINDS = {
    "mor": (CHAINED, NON_BLOCKING),
    "mor optimistic": (CHAINED, OPTIMISTIC),
    "cow": (COW, OPTIMISTIC),
    "event time": (EVENT_TIME, OPTIMISTIC),
    "flat": (replace(COW, partition_fields=()), OPTIMISTIC),
    "version 8": (replace(CHAINED, version=8), NON_BLOCKING),
    "mor simple": (looking(SIMPLE), OPTIMISTIC),
    "cow simple": (looking(SIMPLE, COW), OPTIMISTIC),
    "mor global": (looking(GLOBAL), OPTIMISTIC),
    "cow global": (looking(GLOBAL, COW), OPTIMISTIC),
}
SHARED = "shared "


def shared(config: table_config.TableConfig) -> table_config.TableConfig:
    """Return the configuration of a table that other engines may write."""
    return replace(config, chain=None, has_foreign_writers=True)


KINDS |= {
    f"{SHARED}{kind}": (shared(KINDS[kind][0]), OPTIMISTIC)
    for kind in ("cow", "mor simple", "cow global", "flat")
}
OF_PARTITIONS = ", index of each partition"
KINDS |= {
    f"{kind}{OF_PARTITIONS}": KINDS[kind]
    for kind in (
        "mor",
        "mor optimistic",
        "cow",
        "flat",
        "mor simple",
        "cow global",
        f"{SHARED}cow",
        f"{SHARED}mor simple",
    )
}
EACH_KIND = pytest.mark.parametrize("kind", KINDS)
SAMPLED = 5
"""So many kinds of the longest tests are in a sample."""


def kinds_from(place: int) -> list[str]:
    """Return all kinds: first every third one from a place on."""
    names = list(KINDS)
    return [each for step in range(3) for each in names[(place + step) % 3 :: 3]]


MOVING = pytest.mark.parametrize("kind", ["mor global", "cow global", f"cow global{OF_PARTITIONS}"])
KEYS = [str(number) for number in range(30)]
Row = Mapping[str, object]


def row(key: str, a: int = 0, part: str | None = None) -> Row:
    return {"id": key, "part": part or f"p{int(key) % 3}", "a": a, "b": f"{key} at {a}"}


class Building:
    """A table without a record index, and what has to be in it."""

    def __init__(self, path: Path, kind: str, rows: int = 12) -> None:
        self.config, self.mode = KINDS[kind]
        self.is_partitioned = kind.endswith(OF_PARTITIONS)
        self.small = SmallTable(path, self.config)
        self.expected: dict[str, str] = {}
        if rows:
            self.upsert([row(key) for key in KEYS[:rows]])
            self.compact()
        transaction = self.small.options().transaction
        self.small.table = self.small.table.initialise_metadata(transaction, has_statistics=False)

    def options(self, writer_id: str = "w", **more: object) -> dict[str, object]:
        beside = {"acknowledges_order_dependence": True, "conflict_retries_max": 5}
        return {"writer_id": writer_id, "concurrency": self.mode, **beside, **more}

    def upsert(self, rows: Sequence[Row], **more: object) -> None:
        self.small.upsert(rows, **self.options(**more))
        self.expected |= {str(each["id"]): str(each["b"]) for each in rows}

    def delete(self, keys: Sequence[str]) -> None:
        self.small.delete([{**row(key, 10_000), "b": None} for key in keys], **self.options())
        for key in keys:
            self.expected.pop(key, None)

    def compact(self) -> None:
        if not self.config.is_copy_on_write:
            self.small.compact()

    def clean(self) -> None:
        transaction = self.small.options().transaction
        self.small.table.clean(retention.Retention(retained=1, grace_ms=0), transaction)

    def begin(
        self, writer_id: str, rows: Sequence[Row], *, is_foreign: bool = False, **more: object
    ) -> Callable[[], None]:
        """Write the files of a write, and return what completes it."""
        options = self.small.options(**self.options(writer_id, **more))
        session = self.small.table.begin_write(options, list(rows[0]))
        written = self.small.run_task(session, rows)
        anonymous = None
        if is_foreign:
            anonymous = foreign_writes.Anonymous(self.small, session.requested_time)

        def complete() -> None:
            if anonymous is not None:
                anonymous.restore()
            session.commit(written)
            if options.operation is commits.Operation.DELETE:
                for each in rows:
                    self.expected.pop(str(each["id"]), None)
            else:
                self.expected.update({str(each["id"]): str(each["b"]) for each in rows})

        return complete

    def build(
        self, *names: str, hear: Callable[[str], object] = lambda what: None
    ) -> results.IndexResult:
        transaction = self.small.options().transaction
        return self.opened().build_index(
            names or (RECORD_INDEX,), transaction, hear, is_partitioned=self.is_partitioned
        )

    def drop(self) -> tuple[str, ...]:
        return self.opened().drop_index((RECORD_INDEX,), self.small.options().transaction)

    def opened(self) -> table.Table:
        return table.open_table(str(self.small.path), self.small.env)

    def located(self) -> Mapping[str, files.FileGroupId]:
        """Return where the index has keys."""
        storage = self.small.env.open_storage(str(self.small.path))
        index = record_index.RecordIndex(
            metadata_table.MetadataTable(storage, active.load(storage))
        )
        assert index.groups.is_partitioned is self.is_partitioned
        located = {}
        for key_space in index.groups.by_key_space:
            found = index.locations(key_space, pa.array(KEYS, pa.string()))
            numbers = zip(found.keys.to_pylist(), found.numbers.tolist(), strict=True)
            located |= {
                key: found.groups[number]
                for key, number in numbers
                if number != key_changes.NOWHERE
            }
        return located

    def rows_located(self) -> Mapping[str, files.FileGroupId]:
        """Return in which file group each row is."""
        columns = ["_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name"]
        return {
            each["_hoodie_record_key"]: files.FileGroupId(
                each["_hoodie_partition_path"], each["_hoodie_file_name"].partition("_")[0]
            )
            for each in self.opened().read(columns=columns).read_all().to_pylist()
        }

    def check(self, *, is_exact: bool = False) -> None:
        """Check that the index names the file group of each row, and that reads use it."""
        opened = self.opened()
        assert RECORD_INDEX in opened.config.metadata_partitions
        assert not opened.config.metadata_partitions_inflight
        assert not opened.pending_indexes()
        self.small.table = opened
        assert {str(each["id"]): each["b"] for each in self.small.rows()} == self.expected
        for key in KEYS:
            found = self.small.rows(where=filters.parse(f"id = '{key}'"))
            assert [each["b"] for each in found] == [
                text for other, text in self.expected.items() if other == key
            ]
        located, there = self.located(), self.rows_located()
        assert {key: located.get(key) for key in there} == there
        assert not is_exact or located == there, "of keys that are gone it has some"
        assert opened.validate_metadata().is_right
        assert not self.small.problems()
        steps = opened.explain_read(where=filters.parse("id = 'none'")).steps
        used = [each for each in steps if each.means is planning.Means.RECORD_INDEX]
        assert used or self.config.is_copy_on_write or steps[-1].left == 0


@pytest.mark.sample(SAMPLED)
@pytest.mark.parametrize("kind", kinds_from(0))
def test_index_has_what_was_there_and_is_kept_up(kind: str, tmp_path: Path) -> None:
    built = Building(tmp_path / "t", kind)
    assert built.build().built == (RECORD_INDEX,)
    assert built.build() == results.IndexResult()
    built.check(is_exact=True)
    built.small.table = built.opened()
    built.upsert([row(key, 1) for key in KEYS[8:16]])
    built.compact()
    built.delete(KEYS[:3])
    built.check()


@pytest.mark.sample(SAMPLED)
@pytest.mark.parametrize("kind", kinds_from(1))
def test_changes_while_it_is_built_are_in_it(kind: str, tmp_path: Path) -> None:
    """T-I20: of writers that opened the table before, and go on."""
    built = Building(tmp_path / "t", kind)
    number = 0

    def change(what: str) -> None:
        nonlocal number
        number += 1
        built.upsert([row(key, number) for key in KEYS[number : number + 5]])
        if number % 3 == 0:
            built.compact()
            built.delete(KEYS[number - 1 : number])
        if number % 4 == 0:
            built.clean()

    assert built.build(hear=change).built == (RECORD_INDEX,)
    assert number >= (5 if built.is_partitioned else 10)
    # What deletes by event time, or without looking at others, may meet a newer row.
    built.check(is_exact=built.mode is OPTIMISTIC and built.config is not EVENT_TIME)


@EACH_KIND
@pytest.mark.parametrize("ends", ["while it is built", "afterwards"])
def test_write_that_began_before_completes(kind: str, ends: str, tmp_path: Path) -> None:
    """T-I02, T-I07: it finds the keys in its files, and those that it took out."""
    built = Building(tmp_path / "t", kind)
    pending = [built.begin("early", [row("3", 7), row("4", 7), row("20", 7)])]
    if ends == "afterwards":
        built.build()
        pending.pop()()
    else:
        built.build(hear=lambda what: "reading" in what and pending and pending.pop()())
    assert not pending
    built.check(is_exact=True)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if KINDS[kind][1] is OPTIMISTIC])
@pytest.mark.parametrize("ends", ["while it is built", "afterwards"])
def test_delete_that_began_before_completes(kind: str, ends: str, tmp_path: Path) -> None:
    """No key is left, whatever the index is of."""
    built = Building(tmp_path / "t", kind)
    delete = {"operation": commits.Operation.DELETE}
    pending = [built.begin("early", [row("3", 7), row("4", 7)], **delete)]
    if ends == "afterwards":
        built.build()
        pending.pop()()
    else:
        built.build(hear=lambda what: "reading" in what and pending and pending.pop()())
    assert not pending
    # What deletes by event time may be older than what it meets.
    built.check(is_exact=built.config is not EVENT_TIME)


@MOVING
@pytest.mark.parametrize("ends", ["while it is built", "afterwards"])
def test_move_that_began_before_completes(kind: str, ends: str, tmp_path: Path) -> None:
    built = Building(tmp_path / "t", kind)
    pending = [built.begin("early", [row("3", 7, "p1"), row("4", 7, "p9")])]
    if ends == "afterwards":
        built.build()
        pending.pop()()
    else:
        built.build(hear=lambda what: "reading" in what and pending and pending.pop()())
    assert not pending
    built.check(is_exact=True)
    assert built.located()["4"].partition_path == "p9"


@MOVING
def test_moves_while_it_is_built_are_in_it(kind: str, tmp_path: Path) -> None:
    """Each key is in the base files for one file group, and was logged for others."""
    built = Building(tmp_path / "t", kind)
    number = 0

    def move(what: str) -> None:
        nonlocal number
        number += 1
        built.upsert([row(key, number, f"q{number % 3}") for key in KEYS[:3]])

    built.build(hear=move)
    assert number > 3
    built.check(is_exact=True)


@pytest.mark.parametrize("kind", ["cow", "cow global", "mor simple"])
@pytest.mark.parametrize("ends", ["while it is built", "afterwards", "begun while it is built"])
def test_replaced_file_groups_leave_the_index(kind: str, ends: str, tmp_path: Path) -> None:
    built = Building(tmp_path / "t", kind)
    kept = [row(key, 5, "p0") for key in ("0", "3")]
    pending: list[Callable[[], None]] = []

    def begin() -> None:
        pending.append(built.begin("early", kept, operation=INSERT_OVERWRITE))

    def hear(what: str) -> None:
        if "reading" in what and ends == "begun while it is built":
            begin()
        if "reading" in what and ends != "afterwards":
            while pending:
                pending.pop()()

    if ends != "begun while it is built":
        begin()
    built.build(hear=hear)
    for complete in pending:
        complete()
    kept_keys = {key for key in built.expected if int(key) % 3} | {"0", "3"}
    built.expected = {key: text for key, text in built.expected.items() if key in kept_keys}
    built.check(is_exact=True)


def twice(path: Path) -> Building:
    built = Building(path, "mor optimistic")
    built.upsert([row("7", 1, "p0")])
    return built


def test_key_that_is_in_two_file_groups_has_the_build_given_up(tmp_path: Path) -> None:
    built = twice(tmp_path / "t")
    with pytest.raises(errors.InvalidInputError, match=r"key '7' of .* is in p. *.* and in p"):
        built.build()
    opened = built.opened()
    assert opened.config.metadata_partitions == ("files",)
    assert not opened.config.metadata_partitions_inflight
    assert not opened.pending_indexes()
    built.delete(["7"])  # In its other partition.
    built.expected["7"] = "7 at 1"
    built.build()
    built.check()


def test_key_that_comes_into_two_file_groups_has_the_build_given_up(tmp_path: Path) -> None:
    """No writer is refused while it is built; whichever step the builder is at."""
    steps = 0

    def count(what: str) -> None:
        nonlocal steps
        steps += 1

    Building(tmp_path / "counted", "mor").build(hear=count)
    for number in range(1, steps):
        built = Building(tmp_path / f"t{number}", "mor")
        heard = 0

        def write(what: str, built: Building = built, number: int = number) -> None:
            nonlocal heard
            if heard == number:
                built.small.upsert([row("7", 1, "p0")], **built.options())
            heard += 1

        with pytest.raises(errors.InvalidInputError, match=r"key '7' of .* and build the index"):
            built.build(hear=write)
        assert not built.opened().pending_indexes()
        assert not built.opened().config.metadata_partitions_inflight


def test_key_that_two_writes_bring_has_the_build_given_up(tmp_path: Path) -> None:
    """It was in no file group when the build began."""
    built = Building(tmp_path / "t", "mor")
    heard: list[str] = []

    def write(what: str) -> None:
        heard.append(what)
        if what == "publishing":
            for part in ("p0", "p1"):
                built.small.upsert([row("25", 1, part)], **built.options())

    with pytest.raises(errors.InvalidInputError, match=r"key '25' of .* and in"):
        built.build(hear=write)


def test_key_that_leaves_one_of_two_file_groups_is_found(tmp_path: Path) -> None:
    """The record of the one that it was in is followed by that of the other."""
    built = Building(tmp_path / "t", "mor optimistic")
    heard: list[str] = []

    def change(what: str) -> None:
        heard.append(what)
        if len(heard) == 3:
            built.delete(["7"])
        if len(heard) == 4:
            built.upsert([row("7", 20_000, "p0")])

    built.build(hear=change)
    built.check(is_exact=True)
    assert built.located()["7"].partition_path == "p0"


def test_newest_record_that_names_no_row_has_the_build_begin_again(tmp_path: Path) -> None:
    """A write began before one that took the key out elsewhere, and completes after it."""
    built = Building(tmp_path / "t", "cow")
    complete = built.begin("early", [row("7", 1, "p0")])

    def hear(what: str) -> None:
        if what == "publishing":
            built.delete(["7"])
            complete()

    with pytest.raises(errors.ConflictError, match="in another order than they began"):
        built.build(hear=hear)
    assert built.opened().pending_indexes()
    built.build()
    built.check(is_exact=True)
    assert built.located()["7"].partition_path == "p0"


@pytest.mark.parametrize("kind", ["mor", "cow"])
def test_write_that_looked_keys_up_in_an_index_that_was_built_again(
    kind: str, tmp_path: Path
) -> None:
    """What it has to log is decided by the index that there is, whatever became of the first."""
    built = Building(tmp_path / "t", kind)
    built.build()
    built.small.table = built.opened()
    complete = built.begin("early", [row("3", 7), row("20", 7)])
    assert built.drop() == (RECORD_INDEX,)
    assert built.drop() == ()
    built.upsert([row("4", 8)])
    built.build()
    complete()
    built.check(is_exact=True)


def test_what_was_looked_up_in_a_dropped_index_is_looked_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key that it had is deleted, so that the index which is built then has it no more."""
    built = Building(tmp_path / "t", "mor")
    built.build()
    built.small.table = built.opened()
    delete = built.begin("other", [row("3")], operation=commits.Operation.DELETE)
    complete = built.begin("early", [row("3", 7)])
    publish = lifecycle.complete

    def after_look_up(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - passed on
        monkeypatch.setattr(lifecycle, "complete", publish)
        built.drop()
        delete()
        built.build()
        return publish(*arguments, **named)

    monkeypatch.setattr(lifecycle, "complete", after_look_up)
    complete()
    built.check(is_exact=True)


@pytest.mark.parametrize("gone", ["base files", "log files"])
@pytest.mark.parametrize(
    "kind",
    [
        "mor simple",
        "cow simple",
        "mor global",
        "cow global",
        f"mor simple{OF_PARTITIONS}",
        f"cow global{OF_PARTITIONS}",
        f"{SHARED}mor simple",
        f"{SHARED}mor simple{OF_PARTITIONS}",
    ],
)
def test_keys_are_found_while_an_index_is_deleted(
    kind: str, gone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that began before looks them up, and inserts none that is there."""
    built = Building(tmp_path / "t", kind)
    built.build()
    built.small.table = built.opened()
    built.upsert([row(key, 1) for key in KEYS[10:20]])
    run_task, delete = built.small.run_task, local.LocalStorage.delete_unordered

    def run_while_it_is_dropped(*arguments: Any) -> Any:  # noqa: ANN401 - passed on
        written = []

        def slowly(storage: local.LocalStorage, paths: list[str]) -> None:
            first = [each for each in paths if each.endswith(".hfile") is (gone == "base files")]
            delete(storage, first)
            if not written:
                written.append(run_task(*arguments))
            delete(storage, [each for each in paths if each not in first])

        monkeypatch.setattr(local.LocalStorage, "delete_unordered", slowly)
        built.drop()
        monkeypatch.setattr(local.LocalStorage, "delete_unordered", delete)
        return written.pop()

    monkeypatch.setattr(built.small, "run_task", run_while_it_is_dropped)
    built.begin("early", [row(key, 5) for key in KEYS[:25]], small_file_bytes=0)()
    found = [(str(each["id"]), str(each["b"])) for each in built.small.rows()]
    assert sorted(found) == sorted(built.expected.items())


def test_index_that_is_built_again_is_not_asked_by_a_table_opened_before(tmp_path: Path) -> None:
    """Its file groups are there, with what writers have logged, and lack all older keys."""
    built = Building(tmp_path / "t", "mor simple")
    built.build()
    before = built.small.table = built.opened()
    built.drop()
    asked: list[list[object]] = []

    def hear(what: str) -> None:
        if what == "publishing":
            built.upsert([row(key, 1) for key in KEYS[12:]])
            found = before.read(where=filters.parse("id = '3'")).read_all().to_pylist()
            asked.append([each["b"] for each in found])
            built.upsert([row(key, 2) for key in KEYS[:12]])

    built.build(hear=hear)
    assert asked == [["3 at 0"]]
    built.check(is_exact=True)


def test_index_that_is_being_built_is_not_asked(tmp_path: Path) -> None:
    """Whatever the properties were when they were read: its older keys are in no log file."""
    built = Building(tmp_path / "t", "mor")
    heard: list[str] = []

    def hear(what: str) -> None:
        heard.append(what)
        if what == "publishing":
            built.upsert([row(key, 1) for key in KEYS])
            with pytest.raises(errors.FormatError, match="is being built, or was dropped"):
                built.located()

    built.build(hear=hear)
    assert "publishing" in heard
    built.check(is_exact=True)


def test_files_of_a_dropped_index_are_not_asked_by_a_table_opened_before(tmp_path: Path) -> None:
    """A process that dropped it may die before it has deleted them."""
    built = Building(tmp_path / "t", "mor simple")
    built.build()
    before = built.opened()
    folder = tmp_path / "t" / ".hoodie" / "metadata" / RECORD_INDEX
    shutil.copytree(folder, tmp_path / "left")
    built.drop()
    shutil.copytree(tmp_path / "left", folder, dirs_exist_ok=True)
    built.small.table = built.opened()
    built.upsert([row(key, 1) for key in KEYS])
    found = before.read(where=filters.parse("id = '20'")).read_all().to_pylist()
    assert [each["b"] for each in found] == ["20 at 1"]
    built.small.table = before
    built.upsert([row(key, 2) for key in KEYS])  # By what is in the files, and not in the index.
    built.build()
    built.check(is_exact=True)


@pytest.mark.parametrize("index", ["", OF_PARTITIONS])
def test_key_that_a_log_file_deletes_on_top_of_a_compaction_is_not_in_the_index(
    index: str, tmp_path: Path
) -> None:
    """The compaction brings it, as its plan was made before (built-beside:950117)."""
    built = Building(tmp_path / "t", f"{SHARED}mor simple{index}")
    built.upsert([row("3", 1), row("6", 1)])
    service = replace(built.small.options().transaction, author=authors.Author())
    plan = built.opened().schedule_compaction(service)
    assert plan is not None
    planned = [plan]
    built.delete(["3"])

    def hear(what: str) -> None:
        if what == "publishing" and planned:
            built.opened().compact(planned.pop(), service)

    built.build(hear=hear)
    assert not planned
    built.check(is_exact=True)
    built.upsert([row("3", 2)])
    built.check(is_exact=True)


def test_delete_of_a_key_where_it_is_not_leaves_it_in_the_index(tmp_path: Path) -> None:
    built = Building(tmp_path / "t", "mor optimistic")

    def hear(what: str) -> None:
        if what == "publishing":
            built.small.delete([{"id": "3", "part": "p1"}], **built.options())

    built.build(hear=hear)
    built.check(is_exact=True)


def test_dropped_index_is_not_kept_up(tmp_path: Path) -> None:
    built = Building(tmp_path / "t", "mor")
    built.build()
    built.small.table = built.opened()
    complete = built.begin("early", [row("3", 7)])
    built.drop()
    complete()
    assert built.opened().config.metadata_partitions == ("files",)
    assert {str(each["id"]): each["b"] for each in built.small.rows()} == built.expected


OF_HISTORIES = [
    "mor",
    "mor optimistic",
    "cow",
    "mor global",
    "cow global",
    f"mor optimistic{OF_PARTITIONS}",
    f"cow{OF_PARTITIONS}",
    f"cow global{OF_PARTITIONS}",
    f"{SHARED}cow",
    f"{SHARED}mor simple",
    f"{SHARED}cow global",
    f"{SHARED}mor simple{OF_PARTITIONS}",
]


class History:
    """Changes that chance chooses, each of which completes."""

    def __init__(self, built: Building, seed: int) -> None:
        self.built = built
        self.number = 0
        self._chance = random.Random(seed)
        self._pending: list[Callable[[], None]] = []
        self._acts = (self._write, self._write, self._delete, self._begin, self.end, built.compact)

    def change(self, what: str = "") -> None:
        del what
        self.number += 1
        self._chance.choice(self._acts)()
        if self._chance.random() < 0.3:
            self.built.small.table = self.built.opened()

    def end(self) -> None:
        """Complete what was begun; optimistic writers may lose a conflict."""
        while self._pending:
            try:
                self._pending.pop()()
            except errors.WriteConflictError:
                assert self.built.mode is OPTIMISTIC

    def _rows(self) -> list[Row]:
        rows = [row(key, self.number) for key in self._chance.sample(KEYS, 4)]
        if self.built.config.has_global_index:
            rows = [{**each, "part": f"p{self._chance.randint(0, 3)}"} for each in rows]
        return rows

    def _write(self) -> None:
        self.built.upsert(self._rows())

    def _delete(self) -> None:
        there = sorted(self.built.expected)
        self.built.delete(self._chance.sample(there, min(2, len(there))))

    def _begin(self) -> None:
        # Of writers that do not block each other the one wins that began last.
        if not self._pending and self.built.mode is OPTIMISTIC:
            self._pending.append(self.built.begin("early", self._rows()))


@pytest.mark.sample(len(OF_HISTORIES))
@covering("kind, seed", OF_HISTORIES, range(3))
def test_random_history_around_builds_is_that_of_a_dictionary(
    kind: str, seed: int, tmp_path: Path
) -> None:
    built = Building(tmp_path / "t", kind)
    history = History(built, seed)
    for _ in range(2):
        built.build(hear=history.change)
        for _ in range(4):
            history.change()
        built.drop()
        for _ in range(4):
            history.change()
    built.build(hear=history.change)
    history.change()
    history.end()
    built.check()


@pytest.mark.parametrize("is_rebuilt", [False, True])
@pytest.mark.parametrize("step", ["reading record keys", "writing the record index: 9", "publish"])
def test_metadata_table_that_goes_meanwhile_ends_the_build(
    step: str, is_rebuilt: bool, tmp_path: Path
) -> None:
    built = Building(tmp_path / "t", "mor")
    transaction = built.small.options().transaction

    def hear(what: str) -> None:
        if what.startswith(step):
            if is_rebuilt:
                built.opened().initialise_metadata(transaction, is_rebuilt=True)
            else:
                built.opened().drop_metadata(transaction)

    message = "was made again, or dropped" if is_rebuilt else "was dropped"
    with pytest.raises(errors.ConflictError, match=message):
        built.build(hear=hear)
    if not is_rebuilt:
        built.opened().initialise_metadata(transaction)
    built.small.table = built.opened()
    built.build()
    built.check(is_exact=True)


def test_index_is_built_with_others_in_one_plan(tmp_path: Path) -> None:
    built = Building(tmp_path / "t", "mor")
    names = (COLUMN_STATS, BLOOM_FILTERS, RECORD_INDEX)
    assert built.build(*names).built == names
    built.check(is_exact=True)
    storage = built.small.env.open_storage(str(built.small.path))
    assert not index_definitions.is_partitioned(storage)
    assert index_definitions.of_statistics(storage) is not None


def test_index_of_an_empty_table_has_its_file_groups(tmp_path: Path) -> None:
    built = Building(tmp_path / "t", "mor", rows=0)
    built.build()
    built.small.table = built.opened()
    built.upsert([row(key) for key in KEYS[:5]])
    built.check(is_exact=True)


def test_files_of_more_file_groups_that_were_left_are_counted(tmp_path: Path) -> None:
    """Writers tell by the files that there are in which file group a key is."""
    built = Building(tmp_path / "t", "mor")
    folder = tmp_path / "t" / ".hoodie" / "metadata" / RECORD_INDEX
    folder.mkdir()
    left = folder / ".record-index-0011-0_20200101000000000.log.1_0-0-0"
    left.write_bytes(b"")
    built.build(hear=lambda what: built.upsert([row("20", 3)]))
    built.check(is_exact=True)
    numbers = {
        each.name.split("_")[0].strip(".") for each in folder.iterdir() if "index" in each.name
    }
    assert numbers == {f"record-index-{number:04d}-0" for number in range(12)}


def test_files_of_an_index_of_each_partition_that_were_left_are_refused(tmp_path: Path) -> None:
    built = Building(tmp_path / "t", "mor")
    folder = tmp_path / "t" / ".hoodie" / "metadata" / RECORD_INDEX
    folder.mkdir()
    (folder / ".record-index-p0-0000-0_20200101000000000.log.1_0-0-0").write_bytes(b"")
    with pytest.raises(errors.ConflictError, match="index of each partition that was dropped"):
        built.build()
    built.drop()
    built.build()
    built.check(is_exact=True)


SIZES = {
    0: (10, 1),
    1: (10, 1),
    23_000_000: (10, 2),
    123_000_000: (10, 10),
    130_000_000: (11, 10),
    10**9: (89, 10),
    10**12: (10_000, 10),
}


@pytest.mark.parametrize("records", SIZES)
def test_number_of_file_groups_is_that_of_apache_hudi(records: int) -> None:
    """Of the table, and of a partition."""
    assert SIZES[records] == (
        initial_keys.file_groups(records, initial_keys.GROUPS_OF_TABLE),
        initial_keys.file_groups(records, initial_keys.GROUPS_OF_PARTITION),
    )


def test_rows_are_counted_where_the_least_number_may_not_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(initial_keys, "_GROUP_BYTES", 48)
    built = Building(tmp_path / "t", "cow")  # 12 rows, of which twice as many are expected.
    built.build(hear=lambda what: "reading" in what and built.upsert([row("20", 3)]))
    built.check(is_exact=True)
    folder = tmp_path / "t" / ".hoodie" / "metadata" / RECORD_INDEX
    groups = {
        each.name.split("_")[0].strip(".") for each in folder.iterdir() if "index" in each.name
    }
    assert len(groups) == 24


def test_table_whose_record_index_would_not_be_kept_up_is_refused(tmp_path: Path) -> None:
    built = Building(tmp_path / "t", "mor")
    config = built.opened().config
    write_settings = built.small.options().transaction.settings
    for changed, kind, message in (
        ({"record_key_fields": ()}, errors.InvalidInputError, "has no record key, expected one"),
        ({"has_foreign_writers": True}, errors.UnsupportedError, "into log files of buckets"),
    ):
        refusal = index_decisions.request_refusal(
            index_decisions.Request((RECORD_INDEX,)), replace(config, **changed), write_settings
        )
        assert isinstance(refusal, kind)
        assert message in str(refusal)


def once(text: str, happening: Callable[[], object]) -> Callable[[str], None]:
    """Return who does something the first time that it hears a text."""
    left = [happening]

    def hear(what: str) -> None:
        if left and text in what:
            left.pop()()

    return hear


@pytest.mark.parametrize("kind", [f"{SHARED}cow", f"{SHARED}mor simple"])
def test_key_that_was_deleted_before_a_later_index_is_written_again(
    kind: str, tmp_path: Path
) -> None:
    """Its record would lie below that of the index, which says that it is gone."""
    built = Building(tmp_path / "t", kind)
    pending: list[Callable[[], None]] = []

    def change() -> None:
        built.delete(["3"])
        pending.append(built.begin("early", [row("3", 7)]))

    built.build(hear=once("publishing", change))
    with pytest.raises(errors.WriteConflictError, match="before the index was built that began"):
        pending.pop()()
    built.small.table = built.opened()
    built.upsert([row("3", 8)])
    built.check(is_exact=True)


def test_key_that_moves_below_a_later_index_is_written_again(tmp_path: Path) -> None:
    built = Building(tmp_path / "t", f"{SHARED}cow global")
    pending: list[Callable[[], None]] = []

    def change() -> None:
        built.upsert([row("25", 1, "p0")])
        pending.append(built.begin("early", [row("25", 7, "p9")]))

    built.build(hear=once("publishing", change))
    with pytest.raises(errors.WriteConflictError, match=r"which .* moves, has a record in"):
        pending.pop()()
    built.small.table = built.opened()
    built.upsert([row("25", 8, "p9")])
    built.check(is_exact=True)


class Overlapping:
    """Writes of another engine, one of which is pending at any time, each in its own partition."""

    def __init__(self, built: Building, *happenings: Callable[[], object]) -> None:
        self._built = built
        self._left = list(happenings)
        self._numbers = iter(range(20, 30))
        self.heard: list[str] = []
        self.pending = [self._next()]

    def _next(self) -> Callable[[], None]:
        number = next(self._numbers)
        rows = [row(str(number), 1, f"q{number}")]
        return self._built.begin(f"jvm {number}", rows, is_foreign=True)

    def hear(self, what: str) -> None:
        """Have the next write begin, and the one before end; once it is inflight do more."""
        self.heard.append(what)
        is_inflight = bool(self._built.opened().config.metadata_partitions_inflight)
        if what.startswith("waiting: 2"):
            self.pending.append(self._next())
            self.pending.pop(0)()
        elif what == "publishing" and is_inflight and self._left:
            self._left.pop(0)()


SHARED_SIMPLE = [f"{SHARED}cow", f"{SHARED}mor simple"]


@pytest.mark.parametrize(
    "kind",
    [*SHARED_SIMPLE, *(each + OF_PARTITIONS for each in SHARED_SIMPLE), f"{SHARED}cow global"],
)
def test_writes_of_another_engine_that_overlap_without_end_do_not_hold_the_index_up(
    kind: str, tmp_path: Path
) -> None:
    """ADR 0052: what others do until it is published is in its base files."""
    built = Building(tmp_path / "t", kind)

    def change() -> None:
        built.delete(["3"])
        built.upsert([row("13", 5), row("4", 5)])

    overlapping = Overlapping(built, change)
    assert built.build(hear=overlapping.hear).built == (RECORD_INDEX,), overlapping.heard
    assert overlapping.pending
    folder = tmp_path / "t" / ".hoodie" / "metadata" / RECORD_INDEX
    bases = [each.stem.rpartition("_")[2] for each in folder.glob("*.hfile")]
    paths = {each.partition_path for each in built.rows_located().values()}
    assert len(bases) == len(paths) if built.is_partitioned else initial_keys.GROUPS_OF_TABLE[0]
    [time] = set(bases)
    # Those of file groups that begin are empty.
    assert {each.name.rpartition("_")[2] for each in folder.glob(f".*_{time}.log.*")} == {"0-0-0"}
    for complete in overlapping.pending:
        complete()
    built.small.table = built.opened()
    built.upsert([row("3", 6), row("14", 6)])
    built.check(is_exact=True)


def test_partitions_that_come_into_being_before_and_while_it_is_inflight_are_in_the_index(
    tmp_path: Path,
) -> None:
    """ADR 0053: writers find file groups of each that there is, and make those of new ones."""
    built = Building(tmp_path / "t", f"{SHARED}cow{OF_PARTITIONS}")
    folder = tmp_path / "t" / ".hoodie" / "metadata" / RECORD_INDEX

    def bring(key: str) -> None:
        built.begin(f"jvm {key}", [row(key, 2, f"r{key}")], is_foreign=True)()

    def groups_of(key: str) -> list[str]:
        return [each.name for each in folder.glob(f".record-index-*r{key}-0000-0_*.log.*")]

    def more_groups() -> None:
        assert groups_of("12"), "it came into being before"
        bring("13")
        # By a writer that gives a new partition two file groups.
        made = min(folder.glob(".record-index-*r13-0000-0_*.log.*"))
        made.with_name(made.name.replace("r13-0000", "r13-0001")).write_bytes(made.read_bytes())

    before = once("naming", lambda: bring("12"))
    overlapping = Overlapping(built, more_groups)

    def hear(what: str) -> None:
        overlapping.hear(what)
        before(what)

    assert built.build(hear=hear).built == (RECORD_INDEX,), overlapping.heard
    bases = [each.name for each in folder.glob("*r13-000*.hfile")]
    assert len(bases) == 2, bases
    for complete in overlapping.pending:
        complete()
    built.check(is_exact=True)


def test_index_is_ready_whose_file_groups_a_pending_write_has_begun_as_well(tmp_path: Path) -> None:
    """J16 of ADR 0053: two writes bring a partition, while another index is built."""
    built = Building(tmp_path / "t", f"{SHARED}mor simple{OF_PARTITIONS}")
    built.build()
    built.small.table = built.opened()
    complete = built.begin("jvm", [row("21", 1, "r1")], is_foreign=True)
    (pending,) = built.opened().timeline().pending
    beside = metadata_timelines.opened(built.small.env.open_storage(str(built.small.path)))
    group = files.FileGroupId(RECORD_INDEX, index_groups.file_id("r1", 0))
    metadata_writing.write_empty_log(beside, group, pending.requested_time)
    built.upsert([row("20", 1, "r1")])
    found: list[object] = []

    def read() -> None:
        assert built.opened().pending_indexes()
        found.extend(built.opened().read(where=filters.parse("id = '20'")).read_all()["b"])
        assert built.located()["20"].partition_path == "r1"
        complete()

    transaction = built.small.options().transaction
    built.opened().build_index((COLUMN_STATS,), transaction, once("waiting", read))
    assert [str(each) for each in found] == ["20 at 1"]
    built.check(is_exact=True)


@pytest.mark.parametrize("kind", [f"{SHARED}cow", f"{SHARED}cow global"])
def test_write_that_began_before_an_index_of_base_files_alone_is_not_refused(
    kind: str, tmp_path: Path
) -> None:
    """ADR 0052: no record of the index lies above its own."""
    built = Building(tmp_path / "t", kind)
    pending: list[Callable[[], None]] = []

    def change() -> None:
        if kind.endswith("global"):
            built.upsert([row("15", 1, "p0")])
            pending.append(built.begin("early", [row("15", 7, "p9")]))
        else:
            built.delete(["3"])
            pending.append(built.begin("early", [row("3", 7)]))

    overlapping = Overlapping(built, change)
    built.build(hear=overlapping.hear)
    for complete in (*pending, *overlapping.pending):
        complete()
    built.check(is_exact=True)


def test_keys_that_move_or_go_while_it_is_inflight_leave_its_base_files(tmp_path: Path) -> None:
    """ADR 0052: these are made again without what they had of such keys."""
    built = Building(tmp_path / "t", f"{SHARED}cow global")

    def change() -> None:
        built.delete(["3"])
        built.upsert([row("4", 5, "p9")])

    overlapping = Overlapping(built, change)
    built.build(hear=overlapping.hear)
    for complete in overlapping.pending:
        complete()
    built.check(is_exact=True)


def test_key_that_was_logged_and_is_gone_without_a_log_is_not_in_the_index(tmp_path: Path) -> None:
    """J7 of ADR 0032: a writer whose option is off replaces its file group, and does not log."""
    built = Building(tmp_path / "t", f"{SHARED}mor simple", rows=2)
    storage = built.small.env.open_storage(str(built.small.path))

    def name_inflight(text: str | None) -> None:
        changes = {
            table_config.METADATA_PARTITIONS_INFLIGHT_KEY: text,
            table_config.METADATA_PARTITIONS_OWN_KEY: text,
        }
        table_properties.update(storage, changes, built.small.env.clock, lambda: None)

    def change() -> None:
        built.upsert([row("18", 5, "q18")])  # The only key of its file group of the index.
        name_inflight(None)
        built.upsert([row("14", 5, "q18")], operation=INSERT_OVERWRITE)
        name_inflight(RECORD_INDEX)
        del built.expected["18"]

    overlapping = Overlapping(built, change)
    built.build(hear=overlapping.hear)
    for complete in overlapping.pending:
        complete()
    built.check(is_exact=True)


def test_file_groups_stay_as_many_as_they_were_when_others_began_to_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ADR 0052: also if the builder has died, and the table has grown since."""
    built = Building(tmp_path / "t", f"{SHARED}cow")
    overlapping = Overlapping(built)

    def die(what: str) -> None:
        overlapping.hear(what)
        if built.opened().config.metadata_partitions_inflight:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        built.build(hear=die)
    folder = tmp_path / "t" / ".hoodie" / "metadata" / RECORD_INDEX
    begun = {each.name for each in folder.glob(".record-index-*.log.*")}
    monkeypatch.setattr(initial_keys, "_GROUP_BYTES", 48)
    assert built.build(hear=overlapping.hear).built == (RECORD_INDEX,), overlapping.heard
    there = {each.name for each in folder.glob(".record-index-*.log.*")}
    assert begun <= there, "they may have been of pending writes"
    groups = {each.partition("_")[0] for each in there}
    assert len(groups) == initial_keys.GROUPS_OF_TABLE[0]
    for complete in overlapping.pending:
        complete()
    built.check(is_exact=True)


def test_long_base_files_are_not_made_again_under_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_keys, "BYTES_SETTLED_UNDER_LOCK_MAX", 0)
    built = Building(tmp_path / "t", f"{SHARED}cow")
    overlapping = Overlapping(built, lambda: built.upsert([row("3", 3), row("13", 3)]))
    built.build(hear=overlapping.hear)
    waited = "waiting: changes have come meanwhile that 0 MiB of base files lack"
    assert waited in overlapping.heard
    for complete in overlapping.pending:
        complete()
    built.check(is_exact=True)


def test_index_that_is_too_long_to_be_uploaded_under_the_lock_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_keys, "BYTES_MAX", 1)
    built = Building(tmp_path / "t", f"{SHARED}cow")
    with pytest.raises(errors.UnsupportedError, match="uploaded under its lock"):
        built.build()
    assert not built.opened().pending_indexes()


def test_long_files_of_changes_are_not_looked_into_under_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_keys, "BYTES_UNDER_LOCK_MAX", 0)
    built = Building(tmp_path / "t", f"{SHARED}cow")
    heard: list[str] = []
    write = once("publishing", lambda: built.upsert([row("20", 3)]))

    def hear(what: str) -> None:
        heard.append(what)
        write(what)

    built.build(hear=hear)
    assert any(each.startswith("waiting: files of 0 MiB have come meanwhile") for each in heard)
    built.check(is_exact=True)


def test_partition_of_replaced_file_groups_is_looked_at_again(tmp_path: Path) -> None:
    """Each time: a table that is replaced all the time gets no index."""
    built = Building(tmp_path / "t", f"{SHARED}cow")

    def replace_all(what: str) -> None:
        if what == "publishing":
            built.upsert([row("0", 5, "p0")], operation=INSERT_OVERWRITE)

    with pytest.raises(errors.ConflictError, match="changed during each of 5 looks"):
        built.build(hear=replace_all)
    built.expected = {key: text for key, text in built.expected.items() if int(key) % 3}
    built.expected["0"] = "0 at 5"
    built.build()
    built.check(is_exact=True)


CHANGES = {
    "new and old rows": ([row(key, 7) for key in ("3", "4", "20")], commits.Operation.UPSERT),
    "deletes": ([row("3", 7), row("25", 7)], commits.Operation.DELETE),
    "moves": ([row("3", 7, "p1"), row("4", 7, "p9")], commits.Operation.UPSERT),
    "inserts": ([row("21", 7), row("22", 7)], commits.Operation.INSERT),
}


@pytest.mark.parametrize("change", CHANGES)
@EACH_KIND
def test_files_say_what_their_writer_says_of_keys(kind: str, change: str, tmp_path: Path) -> None:
    """A writer that knows of the index tells the same as the files of one that does not."""
    built = Building(tmp_path / "t", kind)
    built.build()
    opened = built.small.table = built.opened()
    rows, operation = CHANGES[change]
    session = opened.begin_write(
        built.small.options(**built.options("w2", operation=operation)), list(rows[0])
    )
    found = built.small.run_task(session, rows)
    storage = built.small.env.open_storage(str(built.small.path))
    source = held_keys.KeySource(
        storage, opened.config, opened.schema, lambda time: time == session.requested_time
    )
    alone = built.mode is not NON_BLOCKING
    told: dict[str, tuple[set[str], set[str]]] = {}
    read: dict[str, tuple[set[str], set[str]]] = {}
    for stat in found:
        if not isinstance(stat, commits.WriteStat):
            continue
        assert stat.keys is not None
        again = stored_keys.changes_by(source, stat, takes_keys_out=alone)
        for keys, into in ((stat.keys, told), (again, read)):
            added, removed = into.setdefault(stat.file_id, (set(), set()))
            added.update(keys.added.to_pylist())
            removed.update(keys.removed.to_pylist())
    assert told
    assert read == told
    session.abort(has_tasks_left=False)


def test_files_that_are_gone_say_nothing_of_keys(tmp_path: Path) -> None:
    """Others have taken the write back: what it did is told to nobody."""
    for kind in ("mor", "cow"):
        built = Building(tmp_path / kind, kind)
        options = built.small.options(**built.options())
        session = built.small.table.begin_write(options, ["id", "part", "a", "b"])
        stats = built.small.write_files(session, [row("3", 7)])
        storage = built.small.env.open_storage(str(built.small.path))
        source = held_keys.KeySource(
            storage, built.config, built.small.table.schema, lambda time: True
        )
        for stat in stats:
            storage.delete(stat.path)
            keys = stored_keys.changes_by(source, stat, takes_keys_out=True)
            assert not len(keys.added)
            assert not len(keys.removed)
