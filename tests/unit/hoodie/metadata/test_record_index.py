"""The record index of a table: it names the file group of every key that has a row."""

import random
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import errors
from hoodie.filegroup import record_index
from hoodie.model import commits, settings, table_config
from hoodie.read import planning, where
from hoodie.write import record_keys
from support.tables.indexed_tables import put_indexing
from support.tables.record_indexes import Indexed, Row
from support.tables.tables import CONFIG

COPY_ON_WRITE = replace(CONFIG, table_type=table_config.TableType.COPY_ON_WRITE)
SIMPLE = replace(COPY_ON_WRITE, index=table_config.IndexKind.SIMPLE, bucket_count=None)
CHAINED = replace(CONFIG, chain=table_config.ChainName(id="c"), has_foreign_writers=False)
EVENT_TIME = replace(
    CONFIG,
    has_partial_updates=False,
    merge_mode=table_config.MergeMode.EVENT_TIME,
    ordering_fields=("a",),
)
KINDS = {
    "mor": CONFIG,
    "cow": COPY_ON_WRITE,
    "event-time": EVENT_TIME,
    "flat": replace(COPY_ON_WRITE, partition_fields=()),
    "chain": CHAINED,
    "version-8": replace(CONFIG, version=table_config.VERSION_WITH_PAYLOADS),
}
OPTIMISTIC = settings.ConcurrencyMode.OPTIMISTIC


def row(key: int | str, part: str | None = None, a: int = 0) -> Row:
    place = part if part is not None else f"p{int(key) % 3}"
    return {"id": str(key), "part": place, "a": a, "b": "x"}


KEYS = [str(number) for number in range(24)]


@pytest.mark.parametrize("seed", range(1))
@pytest.mark.parametrize("kind", KINDS)
def test_every_row_is_found_through_a_random_history(tmp_path: Path, kind: str, seed: int) -> None:
    indexed = Indexed(tmp_path / "t", KINDS[kind])
    indexed.commits_max = 4
    chance = random.Random(seed)
    for number in range(16):
        some = [row(key, a=number) for key in chance.sample(KEYS, chance.randint(1, 8))]
        indexed.is_optimistic = indexed.config.is_copy_on_write or chance.random() < 0.7
        step = chance.random()
        if step < 0.55:
            indexed.write(some)
        elif step < 0.65:
            known = indexed.rows()
            fresh = [each for each in some if each["id"] not in known]
            if fresh:
                indexed.write(fresh, operation=commits.Operation.INSERT)
        elif step < 0.9:
            columns = ["id", "part", "a"] if chance.random() < 0.5 else ["id", "part"]
            if kind == "flat":
                columns.remove("part")
            older = [{**each, "a": chance.randint(0, number)} for each in some]
            indexed.delete([{name: each[name] for name in columns} for each in older])
        elif not indexed.config.is_copy_on_write:
            indexed.reopen()
            indexed.small.compact()
        if number % 2:
            continue
        rows = indexed.rows()
        found = indexed.locations(KEYS)
        assert {key: found.get(key) for key in rows} == rows
        if indexed.config.is_copy_on_write:
            assert found == rows


def test_keys_that_are_there_already_are_not_logged_again(tmp_path: Path) -> None:
    indexed = Indexed(tmp_path / "t")
    indexed.write([row(1), row(2)])
    before = logs(indexed)
    indexed.write([row(1, a=2), row(2, a=2)])
    assert logs(indexed) == before
    indexed.write([row(1, a=3), row(4)])
    assert len(logs(indexed)) == len(before) + 1


def logs(indexed: Indexed) -> list[str]:
    return sorted(indexed.storage.names(".hoodie/metadata/record_index"))


@pytest.mark.parametrize("kind", ["mor", "cow"])
def test_key_of_another_partition_is_refused(tmp_path: Path, kind: str) -> None:
    indexed = Indexed(tmp_path / "t", KINDS[kind])
    indexed.write([row(1, "p1")])
    with pytest.raises(errors.InvalidInputError, match=r"key '1' cannot .* has it in p1/0000"):
        indexed.write([row(1, "p2"), row(2, "p2")])
    assert set(indexed.rows()) == {"1"}
    with pytest.raises(errors.InvalidInputError, match=r"key '3' in two file groups, p1.* and p2"):
        indexed.write([row(3, "p1"), row(3, "p2")])
    indexed.delete([{"id": "1", "part": "p2"}])
    assert set(indexed.locations(["1"])) == {"1"}
    indexed.delete([{"id": "1", "part": "p1"}])
    indexed.write([row(1, "p2")])
    assert indexed.locations(["1"]) == indexed.rows()


def test_key_that_the_index_has_in_a_file_group_that_is_gone_can_be_written(
    tmp_path: Path,
) -> None:
    """A delete by event time may lose: its key stays in the index, and in no row."""
    indexed = Indexed(tmp_path / "t", EVENT_TIME)
    indexed.write([row(1, "p1", a=1)])
    indexed.delete([{"id": "1", "part": "p1", "a": 5}])
    indexed.write([row(4, "p1")], operation=commits.Operation.INSERT_OVERWRITE)
    assert set(indexed.locations(["1", "4"])) == {"1", "4"}
    indexed.write([row(1, "p1", a=2)])
    assert indexed.locations(["1", "4"]) == indexed.rows()


def stats_of(written: Sequence[commits.Written]) -> list[commits.WriteStat]:
    return [each for each in written if isinstance(each, commits.WriteStat)]


@pytest.mark.parametrize("mode", ["optimistic", "non-blocking"])
def test_of_two_writes_of_one_key_into_two_partitions_the_first_wins(
    tmp_path: Path, mode: str
) -> None:
    indexed = Indexed(tmp_path / "t")
    indexed.is_optimistic = mode == "optimistic"
    columns = {"a": ["id", "part", "a"], "b": ["id", "part", "b"]}
    first, second = (indexed.begin(columns[name], writer_id=name) for name in "ab")
    indexed.commit(second, [{"id": "1", "part": "p2", "b": "y"}])
    with pytest.raises(errors.WriteConflictError, match=r"key '1' cannot .* write the batch of"):
        indexed.commit(first, [{"id": "1", "part": "p1", "a": 1}])
    assert indexed.locations(["1"]) == indexed.rows()
    assert indexed.rows()["1"].partition_path == "p2"


def test_two_writes_of_one_key_into_one_partition_that_do_not_block_each_other(
    tmp_path: Path,
) -> None:
    indexed = Indexed(tmp_path / "t")
    indexed.is_optimistic = False
    first, second = (indexed.begin(["id", "part", name], writer_id=name) for name in "ab")
    indexed.commit(second, [{"id": "1", "part": "p1", "b": "y"}])
    indexed.commit(first, [{"id": "1", "part": "p1", "a": 1}])
    assert indexed.locations(["1"]) == indexed.rows()


def test_record_that_would_lie_below_a_later_delete_is_a_conflict(tmp_path: Path) -> None:
    """Log order is that of requested times: the index would lose the key that was moved."""
    indexed = Indexed(tmp_path / "t", COPY_ON_WRITE)
    indexed.write([row(1, "p1")])
    first, second = (
        indexed.begin(["id", "part", "a"], writer_id="a"),
        indexed.begin(["id", "part"], writer_id="b", operation=commits.Operation.DELETE),
    )
    indexed.commit(second, [{"id": "1", "part": "p1"}])
    with pytest.raises(errors.WriteConflictError, match=r"key '1', which .* was deleted according"):
        indexed.commit(first, [row(1, "p2")])
    indexed.write([row(1, "p2")])
    assert indexed.locations(["1"]) == indexed.rows()


@pytest.mark.parametrize("is_compacted", [False, True])
def test_key_that_was_moved_since_it_was_looked_up_is_a_conflict(
    is_compacted: bool, tmp_path: Path
) -> None:
    """Also if its record is in a base file of the index by now."""
    indexed = Indexed(tmp_path / "t", COPY_ON_WRITE)
    if is_compacted:
        indexed.commits_max = 1
    first, second = (indexed.begin(["id", "part", "a"], writer_id=name) for name in "ab")
    keys = record_keys.RecordKeys(
        indexed.storage, stats_of(indexed.small.run_task(second, [row(1, "p2")]))
    )
    indexed.commit(first, [row(1, "p1")])
    assert is_compacted == bool([each for each in logs(indexed) if each.endswith(".hfile")])
    with (
        closing(second._client),
        second._client.lock.scope() as scope,
        pytest.raises(errors.WriteConflictError, match=r"key '1' cannot"),
    ):
        keys.settle(scope, second._write)


def test_keys_that_a_write_has_looked_up_are_not_looked_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexed = Indexed(tmp_path / "t", SIMPLE)
    indexed.write([row(1, "p1")])
    session = indexed.begin(["id", "part", "a"], writer_id="a")
    written = indexed.small.run_task(session, [row(1, "p1"), row(2, "p1")])
    with monkeypatch.context() as patched:
        patched.setattr(record_index.RecordIndex, "locations", None)
        session.commit(written)
    assert indexed.locations(["1", "2"]) == indexed.rows()


def test_keys_are_looked_up_again_if_the_index_was_compacted_since(tmp_path: Path) -> None:
    """What others logged since is no longer in log files, and would not be found there."""
    indexed = Indexed(tmp_path / "t", SIMPLE)
    first = indexed.begin(["id", "part", "a"], writer_id="a")
    written = indexed.small.run_task(first, [row(1, "p1")])
    indexed.commits_max = 1
    for key in (1, 2, 3):
        indexed.write([row(key, "p2")])
    assert any(each.base_file for each in indexed.index().slices(None, pa.array(["1", "2", "3"])))
    with pytest.raises(errors.WriteConflictError, match=r"key '1' cannot"):
        first.commit(written)
    assert indexed.locations(["1"]).keys() == {"1"} <= indexed.rows().keys()


def test_files_whose_keys_their_writer_does_not_know_are_looked_into(tmp_path: Path) -> None:
    """Of a writer that began before there was a record index."""
    indexed = Indexed(tmp_path / "t")
    session = indexed.begin(["id", "part", "a"])
    stats = stats_of(indexed.small.run_task(session, [row(1)]))
    written = [replace(each, keys=None) for each in stats]
    session.commit(written)
    assert indexed.locations(["1"]) == indexed.rows() != {}


def explained(indexed: Indexed, text: str) -> planning.Step:
    indexed.reopen()
    plan = indexed.small.table.explain_read(where=where.parse(text))
    return plan.step(planning.Means.RECORD_INDEX)


def test_read_of_keys_looks_into_their_file_groups_alone(tmp_path: Path) -> None:
    indexed = Indexed(tmp_path / "t", COPY_ON_WRITE)
    indexed.write([row(number) for number in range(12)])
    indexed.delete([{"id": "4", "part": "p1"}])
    step = explained(indexed, "id = '3'")
    assert (step.considered, step.left) == (3, 1)
    step = explained(indexed, "id in ('3', '4', '99')")
    assert (step.considered > 3, step.left) == (True, 1)
    step = explained(indexed, "id = '55'")
    assert (step.considered > 0, step.left) == (True, 0)
    found = indexed.small.rows(where=where.parse("id in ('3', '4', '5')"))
    assert [each["id"] for each in found] == ["3", "5"]
    assert explained(indexed, "a = 0").skipped == 0


def test_read_of_base_files_alone_has_keys_that_log_files_have_deleted(tmp_path: Path) -> None:
    indexed = Indexed(tmp_path / "t", replace(SIMPLE, table_type=CONFIG.table_type))
    indexed.write([row(key) for key in range(6)])
    indexed.delete([{"id": "1", "part": "p1"}])
    indexed.reopen()
    condition = where.parse("id = '1'")
    assert not indexed.small.rows(where=condition)
    found = indexed.small.rows(where=condition, is_read_optimized=True)
    assert [each["id"] for each in found] == ["1"]


@pytest.mark.parametrize("is_partitioned", [False, True])
def test_index_is_not_asked_for_logs_that_apache_hudi_may_have_written(
    tmp_path: Path, *, is_partitioned: bool
) -> None:
    """Its writers with a bucket index do not add the keys of rows that they insert there."""
    indexed = Indexed(tmp_path / "t", is_partitioned=is_partitioned)
    indexed.write([row(number) for number in range(12)])
    step = explained(indexed, "id = '3'")
    assert step.skipped == 0
    assert step.unused is not None
    assert "do not add to it what they insert into log files" in step.unused
    alone = Indexed(tmp_path / "alone", CHAINED, is_partitioned=is_partitioned)
    alone.commits_max = 1
    alone.write([row(number) for number in range(12)])
    assert explained(alone, "id = '3'").left == 1


def test_validation_finds_keys_that_the_index_does_not_lead_to(tmp_path: Path) -> None:
    indexed = Indexed(tmp_path / "t")
    indexed.write([row(number) for number in range(6)])
    indexed.reopen()
    right = indexed.small.table.validate_metadata()
    assert (right.is_right, right.keys, right.groups_compared) == (True, (), len(indexed.slices()))
    (log,) = (
        each
        for each in (tmp_path / "t/.hoodie/metadata/record_index").iterdir()
        if "record-index-0001" in each.name and "0" * 14 not in each.name
    )
    log.unlink()
    wrong = indexed.small.table.validate_metadata()
    assert not wrong.is_right
    lost = {key for key in KEYS[:6] if key not in indexed.locations(KEYS[:6])}
    assert sum(each.count for each in wrong.keys) == len(lost) > 0
    assert all("nowhere; expected here" in each.problem for each in wrong.keys)
    assert any("the record index has" in each for each in indexed.small.problems())


def test_index_that_apache_hudi_rolled_back_is_refused_with_the_way_out(tmp_path: Path) -> None:
    """It makes the next index at the time of the last action, if that is an indexing action."""
    indexed = Indexed(tmp_path / "t", SIMPLE)
    indexed.write([row(number) for number in range(6)])
    time = put_indexing(indexed.small)
    indexed.reopen()
    assert explained(indexed, "id = '3'").left == 1
    folder = tmp_path / "t/.hoodie/metadata/record_index"
    prefix = next(each.name for each in folder.iterdir() if "record-index-0001" in each.name)
    log = prefix.removeprefix(".").partition("_")[0]
    (folder / f".{log}_{time}.log.1_0-0-0").write_bytes(b"")
    indexed.reopen()
    step = explained(indexed, "id = '3'")
    assert (step.skipped, "rolled it back" in str(step.unused)) == (0, True)
    assert [each["id"] for each in indexed.small.rows(where=where.parse("id = '3'"))] == ["3"]
    validated = indexed.small.table.validate_metadata()
    (wrong,) = validated.keys
    assert "rolled it back. `hoodie index drop` and `hoodie index build`" in wrong.problem
    assert (validated.is_right, validated.groups_compared) == (False, 0)
    assert any("rolled it back" in each for each in indexed.small.problems())
    with pytest.raises(errors.FormatError, match="rolled it back"):
        indexed.write([row(3, a=1)])
