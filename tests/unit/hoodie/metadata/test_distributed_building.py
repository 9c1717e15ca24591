"""Indexes whose files are read by tasks that run elsewhere: the same as those built by threads."""

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hoodie import errors, table
from hoodie.engine import local, protocol
from hoodie.metadata import initial_filters, initial_statistics
from hoodie.model import settings, table_config
from support.tables import index_copies
from support.tables.tables import CONFIG, SmallTable

OF_B = "secondary_index_of_b"
NAMES = ("column_stats", "partition_stats", "bloom_filters", "record_index")
CHAINED = replace(CONFIG, chain=table_config.ChainName(id="c"), has_foreign_writers=False)
COW = replace(CHAINED, table_type=table_config.TableType.COPY_ON_WRITE, has_partial_updates=False)
KINDS = {
    "mor": CHAINED,
    "cow": COW,
    "cow simple": replace(COW, bucket_count=None, index=table_config.IndexKind.SIMPLE),
    "shared cow": replace(COW, chain=None, has_foreign_writers=True),
}
OPTIMISTIC = settings.ConcurrencyMode.OPTIMISTIC


def sent(value: Any) -> Any:  # noqa: ANN401 - whatever is sent
    return pickle.loads(pickle.dumps(value))


class Elsewhere(local.LocalEngine):
    """An engine whose tasks see what was sent to them, as those of Spark do.

    Attributes:
        maps: How many maps it ran.
        exchanges: How many exchanges.
    """

    is_distributed = True

    def __init__(self) -> None:
        super().__init__(2)
        self.maps = self.exchanges = 0

    def map(
        self,
        task: Callable[[protocol.Item], protocol.Result],
        items: Sequence[protocol.Item],
        *,
        progress: protocol.Progress | None = None,
    ) -> list[protocol.Result]:
        self.maps += 1
        arrived = [sent((task, item)) for item in items]
        done = super().map(lambda each: sent(each[0](each[1])), arrived, progress=progress)
        return [*done]

    def exchange(
        self,
        split: Callable[[protocol.Item], Mapping[protocol.Key, protocol.Part]],
        items: Sequence[protocol.Item],
        merge: Callable[[protocol.Key, Sequence[protocol.Part]], protocol.Result],
    ) -> list[protocol.Result]:
        self.exchanges += 1
        arrived = [sent((split, item)) for item in items]
        return local.LocalEngine(2).exchange(
            lambda each: sent(each[0](each[1])),
            arrived,
            lambda key, parts: sent(sent(merge)(key, parts)),
        )


class Twice(Elsewhere):
    """One each of whose tasks is done again, since nothing was heard of it."""

    def exchange(
        self,
        split: Callable[[protocol.Item], Mapping[protocol.Key, protocol.Part]],
        items: Sequence[protocol.Item],
        merge: Callable[[protocol.Key, Sequence[protocol.Part]], protocol.Result],
    ) -> list[protocol.Result]:
        def again(key: protocol.Key, parts: Sequence[protocol.Part]) -> protocol.Result:
            first = merge(key, parts)
            found = merge(key, parts)
            assert found == first
            return found

        return local.LocalEngine(2).exchange(split, items, again)


def row(key: int, a: int = 0) -> dict[str, object]:
    return {"id": f"{key:03}", "part": f"p{key % 3}", "a": a, "b": f"value {key % 7}"}


def written(path: Path, kind: str) -> SmallTable:
    """Make a table of base files and, where there are any, logs over them."""
    small = SmallTable(path, KINDS[kind])
    small.upsert([row(key) for key in range(60)], concurrency=OPTIMISTIC)
    if not small.table.config.is_copy_on_write:
        small.compact()
    small.upsert([row(key, 1) for key in range(50, 90)], concurrency=OPTIMISTIC)
    small.delete([row(3)], concurrency=OPTIMISTIC)
    small.table = small.table.initialise_metadata(
        small.options(concurrency=OPTIMISTIC).transaction, has_statistics=False
    )
    return small


def built(
    small: SmallTable, path: Path, engine: protocol.Engine, names: Sequence[str]
) -> table.Table:
    env = replace(small.env, engine=engine)
    transaction = small.options(concurrency=OPTIMISTIC).transaction
    secondary = {OF_B: "b"} if OF_B in names else {}
    table.open_table(str(path), env).build_index(names, transaction, secondary=secondary)
    return table.open_table(str(path), small.env)


def names_of(kind: str) -> tuple[str, ...]:
    return NAMES if kind.startswith("shared") else (*NAMES, OF_B)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("engine_class", [Elsewhere, Twice])
def test_indexes_are_the_same_whoever_reads_the_files(
    tmp_path: Path, kind: str, engine_class: type[Elsewhere]
) -> None:
    small = written(tmp_path / "here", kind)
    there = index_copies.copied(small.path, "there")
    names, engine = names_of(kind), engine_class()
    by_threads = built(small, small.path, local.LocalEngine(2), names)
    by_tasks = built(small, there, engine, names)
    assert by_threads.validate_metadata().is_right
    assert by_tasks.validate_metadata().is_right
    for name in names:
        expected = index_copies.base_files(small.path, name)
        assert expected, name
        assert index_copies.base_files(there, name) == expected
    assert engine.maps


@pytest.mark.parametrize("of_a_task", [1, 2])
def test_indexes_are_the_same_however_files_are_dealt_to_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_a_task: int
) -> None:
    names = ("column_stats", "partition_stats", "bloom_filters")
    small = written(tmp_path / "here", "mor")
    there = index_copies.copied(small.path, "there")
    built(small, small.path, local.LocalEngine(2), names)
    monkeypatch.setattr(initial_statistics, "_FILES_OF_A_TASK", of_a_task)
    monkeypatch.setattr(initial_statistics, "_TASKS_AT_ONCE", 1)
    monkeypatch.setattr(initial_filters, "_OF_A_TASK", of_a_task)
    monkeypatch.setattr(initial_filters, "_TASKS_MIN", 1)
    engine = Elsewhere()
    by_tasks = built(small, there, engine, names)
    assert by_tasks.validate_metadata().is_right
    for name in names[:2]:
        expected = index_copies.base_files(small.path, name)
        assert expected, name
        assert index_copies.base_files(there, name) == expected
    # Files of three partitions, some of them in the middle of a task or a wave of them.
    assert engine.maps > 2


def test_each_index_of_keys_is_one_exchange(tmp_path: Path) -> None:
    small, engine = written(tmp_path / "t", "mor"), Elsewhere()
    built(small, small.path, engine, (*NAMES, OF_B))
    assert engine.exchanges == 2


def test_key_in_two_file_groups_is_named_by_the_task_that_finds_it(tmp_path: Path) -> None:
    small = written(tmp_path / "t", "mor")
    small.upsert([{**row(1), "part": "p2"}], concurrency=OPTIMISTIC)
    with pytest.raises(errors.InvalidInputError, match=r"key '001' of .* is in p"):
        built(small, small.path, Elsewhere(), ("record_index",))
    opened = table.open_table(str(small.path), small.env)
    assert not opened.pending_indexes()
    assert opened.config.metadata_partitions == ("files",)


def test_work_is_small_to_send(tmp_path: Path) -> None:
    """A task gets what it needs, and not what the building process holds."""
    small, engine = written(tmp_path / "t", "mor"), Elsewhere()
    seen: list[int] = []
    exchange = engine.exchange

    def weighed(split: Any, items: Any, merge: Any) -> Any:  # noqa: ANN401 - passed on
        seen.append(len(pickle.dumps((split, merge))))
        return exchange(split, items, merge)

    engine.exchange = weighed  # type: ignore[method-assign]  # to look at it
    built(small, small.path, engine, ("record_index",))
    assert max(seen) < 100_000
