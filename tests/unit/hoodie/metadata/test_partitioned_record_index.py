"""A record index of each partition: a key is once in each of them, in file groups of its own."""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from hoodie import errors
from hoodie.filegroup import index_groups
from hoodie.model import commits, table_config
from hoodie.read import planning, where
from hoodie.transaction import publication
from support.tables.record_indexes import Indexed, Row
from support.tables.tables import CONFIG

COPY_ON_WRITE = replace(CONFIG, table_type=table_config.TableType.COPY_ON_WRITE)
CHAINED = replace(CONFIG, chain=table_config.ChainName(id="c"), has_foreign_writers=False)
KINDS = {
    "mor": CONFIG,
    "cow": COPY_ON_WRITE,
    "flat": replace(COPY_ON_WRITE, partition_fields=()),
    "chain": CHAINED,
    "hive-style": replace(COPY_ON_WRITE, is_hive_style=True),
}
KEYS = [str(number) for number in range(12)]
PARTITIONS = ["p0", "2026-01-01", "x_y"]
FOLDER = ".hoodie/metadata/record_index"


def made(path: Path, kind: str = "cow") -> Indexed:
    return Indexed(path / "t", KINDS[kind], is_partitioned=True)


def row(key: int | str, part: str = "p0", a: int = 0) -> Row:
    return {"id": str(key), "part": part, "a": a, "b": "x"}


def keys_of(rows: Sequence[Row]) -> list[Row]:
    return [{name: each[name] for name in ("id", "part")} for each in rows]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", KINDS)
def test_every_row_is_found_through_a_random_history(tmp_path: Path, kind: str, seed: int) -> None:
    indexed = made(tmp_path, kind)
    indexed.commits_max = 4
    chance = random.Random(seed)
    parts = PARTITIONS if kind != "flat" else ["p0"]
    for number in range(14):
        pairs = [(key, part) for key in KEYS for part in parts[: 1 + number // 4]]
        some = [row(*pair, a=number) for pair in chance.sample(pairs, chance.randint(1, 8))]
        indexed.is_optimistic = indexed.config.is_copy_on_write or chance.random() < 0.7
        step = chance.random()
        if step < 0.6:
            indexed.write(some)
        elif step < 0.9:
            indexed.delete(keys_of(some))
        elif not indexed.config.is_copy_on_write:
            indexed.reopen()
            indexed.small.compact()
        rows, found = indexed.rows_located(), indexed.located(KEYS)
        assert rows <= found
        if indexed.config.is_copy_on_write:
            assert found == rows


def test_key_is_once_in_each_partition(tmp_path: Path) -> None:
    indexed = made(tmp_path)
    indexed.write([row(1), row(1, "x_y"), row(2)])
    assert len(indexed.located(["1", "2"])) == 3
    assert indexed.located(KEYS) == indexed.rows_located()
    indexed.delete(keys_of([row(1)]))
    assert indexed.located(KEYS) == indexed.rows_located()
    assert {group.partition_path for _, group in indexed.located(["1"])} == {"x_y"}
    before = logs(indexed)
    indexed.write([row(2, a=2), row(1, "x_y", a=2)])
    assert logs(indexed) == before


def logs(indexed: Indexed) -> list[str]:
    return sorted(indexed.storage.names(FOLDER))


def groups_of(indexed: Indexed) -> set[str]:
    return {
        name.removeprefix(".").partition("_")[0] for name in logs(indexed) if "record-index" in name
    }


def test_new_partition_gets_file_groups_with_its_first_write(tmp_path: Path) -> None:
    """Also without a key: Apache Hudi's writers fail at a partition that has none."""
    indexed = made(tmp_path, "mor")
    assert groups_of(indexed) == set()
    indexed.write([row(1)])
    assert groups_of(indexed) == {"record-index-p0-0000-0"}
    indexed.delete(keys_of([row(1, "2026-01-01")]))
    assert groups_of(indexed) == {"record-index-p0-0000-0", "record-index-2026%2D01%2D01-0000-0"}
    indexed.write([row(1, "2026-01-01")])
    assert len(indexed.located(["1"])) == 2


def test_one_write_brings_many_partitions(tmp_path: Path) -> None:
    """Their log files are written by threads."""
    indexed = made(tmp_path)
    indexed.write([row(key, f"p{part}") for part in range(40) for key in range(2)])
    assert indexed.located(KEYS) == indexed.rows_located()
    assert len(groups_of(indexed)) == 40


def test_new_partition_gets_as_many_file_groups_as_the_others(tmp_path: Path) -> None:
    indexed = Indexed(tmp_path / "t", COPY_ON_WRITE, is_partitioned=True)
    indexed.write([row(1)])
    folder = tmp_path / "t" / FOLDER
    (log,) = (each for each in folder.iterdir() if "record-index-p0" in each.name)
    # As Apache Hudi has made them, whose options named more.
    for number in (1, 2):
        (folder / log.name.replace("0000-0_", f"000{number}-0_")).write_bytes(log.read_bytes())
    indexed.write([row(key, "x_y") for key in range(3)])
    assert {each for each in groups_of(indexed) if "x%5Fy" in each} == {
        f"record-index-x%5Fy-000{number}-0" for number in range(3)
    }
    assert {key for key, group in indexed.located(KEYS) if group.partition_path == "x_y"} == {
        "0",
        "1",
        "2",
    }


def test_file_groups_that_a_dead_writer_left_appear_with_the_next_write(tmp_path: Path) -> None:
    """Readers count those that they see: a key must not be where they do not look."""
    indexed = made(tmp_path)
    indexed.write([row(1)])
    folder = tmp_path / "t" / FOLDER
    (log,) = (each for each in folder.iterdir() if "record-index-p0" in each.name)
    left = "29990101000000000"  # No instant has it.
    content = log.read_bytes()
    (folder / f".record-index-x%5Fy-0002-0_{left}.log.1_0-0-0").write_bytes(content)
    indexed.write([row(5, "x_y")])
    assert len(indexed.index().groups.ids("x_y")) == 3
    indexed.write([row(key, "x_y") for key in range(12)])
    assert indexed.located(KEYS) == indexed.rows_located()


def test_key_of_another_file_group_of_its_partition_is_refused(tmp_path: Path) -> None:
    indexed = made(tmp_path, "mor")
    indexed.write([row(1)])
    session = indexed.begin(["id", "part", "a"])
    (stat,) = indexed.small.run_task(session, [row(1, a=2)])
    assert isinstance(stat, commits.WriteStat)
    moved = replace(stat, file_id=stat.file_id.replace("0000-0000", "0000-0001", 1))
    with pytest.raises(errors.InvalidInputError, match=r"key '1' cannot .* once in a partition"):
        session.commit([moved])


def test_record_that_would_lie_below_a_later_delete_is_a_conflict(tmp_path: Path) -> None:
    indexed = made(tmp_path, "mor")
    indexed.write([row(1), row(1, "x_y")])
    first = indexed.begin(["id", "part", "a"], writer_id="a")
    second = indexed.begin(["id", "part"], writer_id="b", operation=commits.Operation.DELETE)
    written = indexed.small.run_task(first, [row(1), row(1, "x_y")])
    indexed.commit(second, keys_of([row(1, "x_y")]))
    with pytest.raises(errors.WriteConflictError):
        first.commit(written)
    indexed.write([row(1), row(1, "x_y")])
    assert indexed.located(KEYS) == indexed.rows_located()


def explained(indexed: Indexed, text: str) -> planning.Step:
    indexed.reopen()
    plan = indexed.small.table.explain_read(where=where.parse(text))
    return plan.step(planning.Means.RECORD_INDEX)


def test_read_of_keys_asks_the_index_of_each_partition(tmp_path: Path) -> None:
    indexed = made(tmp_path)
    indexed.commits_max = 1  # So that there is nothing in log files.
    indexed.write([row(key, part) for key in range(24) for part in PARTITIONS])
    indexed.delete(keys_of([row(3, "p0"), row(4, "x_y")]))
    step = explained(indexed, "id = '3'")
    assert (step.considered, step.left) == (3, 2)
    step = explained(indexed, "id in ('3', '99') and part = 'p0'")
    assert (step.considered, step.left) == (2, 0)
    found = indexed.small.rows(where=where.parse("id = '4'"))
    assert sorted(str(each["part"]) for each in found) == ["2026-01-01", "p0"]


def test_index_with_more_to_be_read_than_the_rows_is_not_asked(tmp_path: Path) -> None:
    indexed = made(tmp_path)
    indexed.write([row(key, part) for key in range(24) for part in PARTITIONS])
    assert explained(indexed, "id = '99'").skipped == 0


def test_partition_without_file_groups_in_the_index_is_read(tmp_path: Path) -> None:
    indexed = made(tmp_path)
    indexed.write([row(key, part) for key in range(24) for part in PARTITIONS])
    for each in (tmp_path / "t" / FOLDER).iterdir():
        if "x%5Fy" in each.name:
            each.unlink()
    found = indexed.small.rows(where=where.parse("id = '4'"))
    assert sorted(str(each["part"]) for each in found) == sorted(PARTITIONS)


def test_validation_finds_keys_that_the_index_of_their_partition_lacks(tmp_path: Path) -> None:
    indexed = made(tmp_path)
    indexed.write([row(key, part) for key in range(6) for part in PARTITIONS])
    indexed.reopen()
    right = indexed.small.table.validate_metadata()
    assert (right.is_right, right.groups_compared) == (True, len(indexed.slices()))
    for each in (tmp_path / "t" / FOLDER).iterdir():
        if "record-index-p0" in each.name:
            each.unlink()
    wrong = indexed.small.table.validate_metadata()
    assert sum(each.count for each in wrong.keys) == 6
    assert {each.path.partition("/")[0] for each in wrong.keys} == {"p0"}
    assert any("the record index has" in each for each in indexed.small.problems())


@pytest.mark.parametrize(
    ("path", "file_id"),
    [
        ("p0", "record-index-p0-0012-0"),
        ("", "record-index--0012-0"),
        ("a=1/b=2", "record-index-a%3D1%2Fb%3D2-0012-0"),
        ("2020-01-01", "record-index-2020%2D01%2D01-0012-0"),
        ("ä%b.x_1", "record-index-ä%25b.x%5F1-0012-0"),
        ("ab%25-0000", "record-index-ab%2525%2D0000-0012-0"),
    ],
)
def test_file_group_is_named_as_apache_hudi_names_it(path: str, file_id: str) -> None:
    """Made with its class `HoodieTableMetadataUtil` (1.2.0)."""
    assert index_groups.file_id(path, 12) == file_id


def test_file_groups_that_no_index_has_are_refused(tmp_path: Path) -> None:
    """Those of the other kind were left by a builder that was paused: the definition tells."""
    indexed = made(tmp_path)
    indexed.write([row(1)])
    folder = tmp_path / "t" / FOLDER
    (log,) = (each for each in folder.iterdir() if "record-index-p0" in each.name)
    whole = log.name.replace("record-index-p0-", "record-index-")
    (folder / whole).write_bytes(log.read_bytes())
    indexed.write([row(2)])
    assert indexed.located(KEYS) == indexed.rows_located()
    (folder / whole).rename(folder / whole.replace("record-index", "record-list"))
    with pytest.raises(errors.FormatError, match=r"file group record-list-0000-0, expected"):
        indexed.write([row(2)])
    step = explained(indexed, "id in ('1', '2', '3')")
    assert step.skipped == 0


def test_file_group_that_is_missing_is_found(tmp_path: Path) -> None:
    indexed = made(tmp_path)
    indexed.write([row(1)])
    folder = tmp_path / "t" / FOLDER
    (log,) = (each for each in folder.iterdir() if "record-index-p0" in each.name)
    log.rename(folder / log.name.replace("p0-0000", "p0-0001"))
    with pytest.raises(errors.FormatError, match=r"p0-0001-0, expected record-index-p0-0000-0"):
        indexed.write([row(2)])


def test_rollback_takes_the_file_groups_of_a_new_partition_along(tmp_path: Path) -> None:
    indexed = made(tmp_path)
    indexed.write([row(1)])
    session = indexed.begin(["id", "part", "a"])
    written = indexed.small.run_task(session, [row(1, "x_y")])
    before: list[set[str]] = []

    def failing(*_: object) -> None:
        before.append(groups_of(indexed))
        raise errors.StorageError("the storage fails")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(publication, "publish", failing)
        with pytest.raises(errors.StorageError):
            session.commit(written)
    assert before[0] == {"record-index-p0-0000-0", "record-index-x%5Fy-0000-0"}
    assert groups_of(indexed) == {"record-index-p0-0000-0"}
    indexed.write([row(1, "x_y")])
    assert indexed.located(KEYS) == indexed.rows_located()
