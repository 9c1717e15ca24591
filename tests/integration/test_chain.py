"""A table with a chain, real threads, real storages, and a lock that everyone is given at once."""

import concurrent.futures
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest

from hoodie import environment, errors, table
from hoodie.model import commits, results, schemas, settings, table_config
from hoodie.storage.local import LocalStorage
from hoodie.storage.protocol import Storage
from hoodie.timeline import chain
from hoodie.transaction import authors, manager
from hoodie.transaction.locks import addresses, opening
from hoodie.write import sessions
from support.contracts.lying_lock import LyingLock

WRITERS = 5
BATCHES = 3
SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int64())])


@pytest.fixture(autouse=True)
def lying_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "open_for", lambda *ignored: LyingLock())


def config_of(table_type: table_config.TableType) -> table_config.TableConfig:
    return table_config.TableConfig(
        name="t",
        table_type=table_type,
        record_key_fields=("id",),
        bucket_count=2,
        chain=table_config.ChainName(id="c"),
        has_foreign_writers=False,
    )


def transaction(author: str) -> manager.TransactionOptions:
    return manager.TransactionOptions(
        settings=settings.WriteSettings(
            concurrency=settings.ConcurrencyMode.OPTIMISTIC, conflict_retries_max=100
        ),
        lock=addresses.InProcessAddress(),
        author=authors.Author(writer_id=author),
    )


def write(opened: table.Table, writer: str, batches: int = BATCHES) -> None:
    """Write batches, some keys of which all writers share; again where another was faster."""
    for number in range(batches):
        data = pa.table(
            {"id": [f"{writer}-{number}", "shared"], "v": [number, number]}, schema=SCHEMA
        )
        options = sessions.WriteOptions(
            operation=commits.Operation.UPSERT,
            transaction=transaction(writer),
            batch_id=str(number),
        )
        while True:
            try:
                assert isinstance(opened.write(data, options), results.CommitResult)
                break
            except errors.ConflictError:
                continue


def compact(opened: table.Table) -> None:
    service = transaction("compactor")
    for _ in range(BATCHES):
        try:
            planned = opened.schedule_compaction(service)
            if planned is not None:
                opened.compact(planned, service)
        except errors.ConflictError:
            continue


@pytest.mark.parametrize("table_type", table_config.TableType)
@pytest.mark.parametrize("store", ["local", "s3"])
def test_writers_without_any_lock_lose_nothing(
    table_type: table_config.TableType, store: str, tmp_path: Path, bucket: str
) -> None:
    uri = str(tmp_path / "t") if store == "local" else f"s3://{bucket}/t"
    env = environment.system(parallelism=1)
    schema = schemas.from_arrow(SCHEMA, "t")
    opened = table.create_table(uri, config_of(table_type), schema, env)
    writers = [f"w{number}" for number in range(WRITERS)]
    with concurrent.futures.ThreadPoolExecutor(WRITERS + 1) as pool:
        running = [pool.submit(write, opened, writer) for writer in writers]
        if table_type is table_config.TableType.MERGE_ON_READ:
            running.append(pool.submit(compact, opened))
        for each in running:
            each.result()
    expected = {f"{writer}-{number}" for writer in writers for number in range(BATCHES)}
    read = pa.Table.from_batches(opened.read(["id"]), pa.schema([SCHEMA.field("id")]))
    assert sorted(read["id"].to_pylist()) == sorted({*expected, "shared"})
    timeline = opened.timeline()
    assert not timeline.duplicates
    for writer in writers:
        assert opened.committed_batches(writer) == {str(number) for number in range(BATCHES)}
    shown = [each.publications[0].path.rpartition("/")[2] for each in opened.epochs()[1:]]
    assert len(shown) == len(set(shown))
    janitor = transaction("janitor")
    opened.roll_back_failed(janitor)
    assert not [
        each for each in opened.check(janitor.settings) if each.severity is results.Severity.ERROR
    ]


class Paused:
    """A storage whose user is paused before one of its calls, for as long as others take."""

    def __init__(self, inner: Storage, call: int, meanwhile: Callable[[], None]) -> None:
        self._inner = inner
        self._left = call
        self._meanwhile = meanwhile

    @property
    def is_over(self) -> bool:
        """Whether the pause has been."""
        return self._left <= 0

    def __getattr__(self, name: str) -> object:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def call(*arguments: object, **named: object) -> object:
            self._left -= 1
            if self._left == 0:
                self._meanwhile()
            return found(*arguments, **named)

        return call


@pytest.mark.parametrize("table_type", table_config.TableType)
def test_writer_that_is_paused_before_any_call_loses_nothing(
    table_type: table_config.TableType, tmp_path: Path
) -> None:
    """Others commit, compact and sweep, until its epoch's number has been deleted."""
    env = environment.system(parallelism=1)
    schema = schemas.from_arrow(SCHEMA, "t")
    for number in itertools.count(1):
        config = config_of(table_type)
        storage = LocalStorage(str(tmp_path / str(number)))
        chain.begin(storage, config, "creation", kept=2)
        opened = table.create_table(storage.uri, config, schema, env)
        janitor = transaction("janitor")

        def go_on(opened: table.Table = opened) -> None:
            write(opened, "other")
            if not opened.config.is_copy_on_write:
                compact(opened)
            opened.roll_back_failed(transaction("sweeper"))

        paused = Paused(storage, number, go_on)
        write(table.Table(cast("Storage", paused), opened.config, schema, env), "paused", 1)
        if not paused.is_over:
            break
        read = pa.Table.from_batches(opened.read(), SCHEMA)
        names = [f"other-{batch}" for batch in range(BATCHES)]
        assert sorted(read["id"].to_pylist()) == [*names, "paused-0", "shared"], number
        assert opened.committed_batches("paused") == {"0"}
        assert opened.committed_batches("other") == {str(batch) for batch in range(BATCHES)}
        opened.roll_back_failed(janitor)
        assert opened.check(janitor.settings) == [], number
    assert number > 20
