"""One process of a fleet on one table: a writer, a reader, or one of the table services.

    python worker.py ROLE MODE TABLE LOCK NAME ATTEMPT FIRST

A writer writes batches FIRST, FIRST + 1, ... of the column of its name; what a batch holds follows
from its number. All go on until they are killed, whatever happens to lock and storage, and print a
JSON object for each thing that they were told or have seen (`Told`, `Seen`, `Shown` and `Survived`
below).
"""

import enum
import functools
import json
import logging
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import pyarrow as pa

from hoodie import environment, errors, table
from hoodie.maintenance.archiving import planning
from hoodie.maintenance.cleaning import retention
from hoodie.model import (
    commits,
    file_statistics,
    key_changes,
    results,
    schemas,
    settings,
    table_config,
)
from hoodie.timeline import active
from hoodie.transaction import authors, manager
from hoodie.transaction.locks import address_texts
from hoodie.write import batches, sessions, tasks, write_task
from support.simulation import invariants

HEARTBEAT_EXPIRY_S = 6
"""Of a beat each second."""

KEYS = tuple(f"k{number:03d}" for number in range(200))


@dataclass(frozen=True, kw_only=True)
class Mode:
    """How a table is written.

    Attributes:
        concurrency: The concurrency mode.
        table_type: The table's type.
        buckets: File groups of the table.
        batch_rows: Optimistic writers write few rows, so that not every two of them meet.
    """

    concurrency: settings.ConcurrencyMode
    table_type: table_config.TableType
    buckets: int
    batch_rows: int

    def create(self, uri: str, columns: Sequence[str], *, has_chain: bool) -> table.Table:
        """Create the table, with a column for each writer; only one with a chain needs no lock."""
        config = table_config.TableConfig(
            name="fleet",
            table_type=self.table_type,
            record_key_fields=("id",),
            has_partial_updates=True,
            bucket_count=self.buckets,
            chain=table_config.ChainName(id="fleet") if has_chain else None,
            has_foreign_writers=not has_chain,
        )
        fields = [("id", pa.string()), *((name, pa.int64()) for name in columns)]
        schema = schemas.from_arrow(pa.schema(fields), "fleet")
        return table.create_table(uri, config, schema, environment.system(parallelism=1))

    @property
    def settings(self) -> settings.WriteSettings:
        """Those that everything on the table has."""
        return settings.WriteSettings(
            concurrency=self.concurrency,
            clock_wait_ms=0,
            lock_wait_ms=30_000,
            heartbeat_interval_ms=1_000,
            heartbeat_misses_max=HEARTBEAT_EXPIRY_S,
        )


class ModeName(enum.StrEnum):
    """The modes by name."""

    NON_BLOCKING = "non-blocking"
    OPTIMISTIC = "optimistic"
    COPY_ON_WRITE = "copy-on-write"


MODES = {
    ModeName.NON_BLOCKING: Mode(
        concurrency=settings.ConcurrencyMode.NON_BLOCKING,
        table_type=table_config.TableType.MERGE_ON_READ,
        buckets=2,
        batch_rows=40,
    ),
    ModeName.OPTIMISTIC: Mode(
        concurrency=settings.ConcurrencyMode.OPTIMISTIC,
        table_type=table_config.TableType.MERGE_ON_READ,
        buckets=16,
        batch_rows=3,
    ),
    ModeName.COPY_ON_WRITE: Mode(
        concurrency=settings.ConcurrencyMode.OPTIMISTIC,
        table_type=table_config.TableType.COPY_ON_WRITE,
        buckets=16,
        batch_rows=3,
    ),
}


RETENTION = retention.Retention(retained=5, grace_ms=5_000, files_max=50)
"""So little stays that much is deleted while a fleet works."""


ARCHIVE = planning.Policy(commits_min=8, commits_max=12, merged_files=3)
"""So little stays on the timeline that levels of the archive are merged while a fleet works."""


class Role(enum.StrEnum):
    """What a process does."""

    WRITER = "writer"
    COMPACTOR = "compactor"
    ROLLBACK = "rollback"
    CLEANER = "cleaner"
    ARCHIVER = "archiver"
    INDEXER = "indexer"
    READER = "reader"


@dataclass(frozen=True, kw_only=True)
class Told:
    """What came of a write or a compaction; a batch that was there already has no instant."""

    batch: int | None
    requested_time: str | None
    begun_ms: int
    ended_ms: int
    outcome: str


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What one read found: a value or none for each of `KEYS`, by column."""

    begun_ms: int
    ended_ms: int
    values: dict[str, list[int | None]]


@dataclass(frozen=True, kw_only=True)
class Shown:
    """When the storage says that files of the timeline appeared, by their paths."""

    modified_ms: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class Survived:
    """An error after which the process went on."""

    kind: str
    message: str


def say(what: Told | Seen | Shown | Survived) -> None:
    print(json.dumps({"what": type(what).__name__, **asdict(what)}), flush=True)


def indexes_of(config: table_config.TableConfig) -> tuple[str, ...]:
    """Return the indexes that are built and dropped."""
    found = (file_statistics.COLUMN_STATS, file_statistics.BLOOM_FILTERS)
    # Writers of Apache Hudi would not keep it up in a merge-on-read table with buckets.
    is_refused = config.has_foreign_writers and not config.is_copy_on_write
    return found if is_refused else (*found, key_changes.RECORD_INDEX)


@functools.cache
def rows_of(mode: ModeName, column: str, number: int) -> tuple[str, ...]:
    """Return the keys that a batch sets the column of, to its number."""
    chance = random.Random(f"{column}-{number}")
    return tuple(sorted(chance.sample(KEYS, MODES[mode].batch_rows)))


def seen(opened: table.Table) -> Seen:
    """Read the table."""
    begun_ms = _now_ms()
    rows = opened.read().read_all().to_pydict()
    ended_ms = _now_ms()
    assert len(set(rows["id"])) == len(rows["id"]), "a key is there twice"
    place = {key: number for number, key in enumerate(rows["id"])}
    values = {
        column: [rows[column][place[key]] if key in place else None for key in KEYS]
        for column in rows
        if column != "id"
    }
    return Seen(begun_ms=begun_ms, ended_ms=ended_ms, values=values)


@dataclass(frozen=True, kw_only=True)
class Worker:
    """A process on a table."""

    mode: ModeName
    opened: table.Table
    transaction: manager.TransactionOptions

    def write(self, column: str, number: int) -> None:
        while True:
            try:
                is_there = self.write_batch(column, number)
            except errors.HoodieError as error:
                survive(error)
                time.sleep(random.uniform(0, 0.3))
            else:
                number += is_there

    def write_batch(self, column: str, number: int) -> bool:
        """Write a batch; what becomes of it once it is on the timeline is said with its instant."""
        begun_ms = _now_ms()
        keys = rows_of(self.mode, column, number)
        data = pa.table({"id": keys, column: pa.array([number] * len(keys), pa.int64())})
        options = sessions.WriteOptions(
            operation=commits.Operation.UPSERT,
            transaction=self.transaction,
            batch_id=str(number),
        )
        session = self.opened.begin_write(options, data.column_names)
        if isinstance(session, results.AlreadyCommitted):
            tell(number, None, begun_ms, invariants.Outcome.ACKNOWLEDGED)
            return True
        requested_time = session.requested_time
        try:
            session.commit(self.data_files(session, data))
        except errors.HoodieError as error:
            tell(number, requested_time, begun_ms, invariants.outcome_of(error))
            raise
        tell(number, requested_time, begun_ms, invariants.Outcome.ACKNOWLEDGED)
        return True

    def data_files(self, session: sessions.WriteSession, data: pa.Table) -> list[commits.Written]:
        env = environment.system(parallelism=1)
        storage = env.open_storage(self.opened.uri)
        task = session.task
        try:
            batch = batches.prepare(data, task.config, task.schema, task.operation)
            return tasks.run(task, batch, write_task.WriteToken(), storage, env.engine)
        except BaseException:
            session.abort(has_tasks_left=False)
            raise

    def compact(self) -> None:
        while True:
            try:
                self.compact_once()
            except errors.NotFoundError as error:
                # Another process executed the plan, and one archived it, while this one was paused.
                say(Survived(kind=error.kind, message=str(error)))
            except errors.HoodieError as error:
                survive(error)
            time.sleep(0.1)

    def compact_once(self) -> None:
        pending = [each.requested_time for each in self.opened.timeline().pending_compactions]
        planned = self.opened.schedule_compaction(self.transaction)
        for requested_time in [*pending, *([planned] if planned else [])]:
            begun_ms = _now_ms()
            self.opened.compact(requested_time, self.transaction)
            tell(None, requested_time, begun_ms, invariants.Outcome.ACKNOWLEDGED)

    def roll_back(self) -> None:
        while True:
            try:
                self.opened.roll_back_failed(self.transaction)
            except errors.HoodieError as error:
                survive(error)
            time.sleep(0.5)

    def clean(self) -> None:
        while True:
            try:
                self.opened.clean(RETENTION, self.transaction)
            except errors.HoodieError as error:
                survive(error)
            time.sleep(1.0)

    def archive(self) -> None:
        storage = environment.system().open_storage(self.opened.uri)
        while True:
            try:
                infos = storage.list(active.DIRECTORY)
                say(Shown(modified_ms={info.path: info.modified_ms for info in infos}))
                self.opened.archive(self.transaction, ARCHIVE)
            except errors.HoodieError as error:
                survive(error)
            time.sleep(0.5)

    def index(self) -> None:
        names = indexes_of(self.opened.config)
        while True:
            try:
                self.opened.build_index(names, self.transaction)
                time.sleep(random.uniform(0, 1.0))
                self.opened.drop_index([random.choice(names)], self.transaction)
            except errors.NotFoundError as error:
                # Another process has ended the plan, and one archived it, while it was paused.
                say(Survived(kind=error.kind, message=str(error)))
            except errors.HoodieError as error:
                survive(error)
            time.sleep(0.2)

    def read(self) -> None:
        while True:
            begun_s = time.monotonic()
            try:
                say(seen(self.opened))
            except errors.NotFoundError as error:
                # It was paused, and what it needed was cleaned meanwhile.
                if time.monotonic() - begun_s < RETENTION.grace_ms / 1000:
                    raise
                say(Survived(kind=error.kind, message=str(error)))
            time.sleep(0.5)


def tell(
    batch: int | None, requested_time: str | None, begun_ms: int, outcome: invariants.Outcome
) -> None:
    say(
        Told(
            batch=batch,
            requested_time=requested_time,
            begun_ms=begun_ms,
            ended_ms=_now_ms(),
            outcome=outcome.value,
        )
    )


def survive(error: errors.HoodieError) -> None:
    """Say an error of the world; one of ours ends the process, which fails the run."""
    if not error.is_transient and not isinstance(error, errors.FencedError):
        raise error
    say(Survived(kind=error.kind, message=str(error)))
    if isinstance(error, errors.FencedError):
        sys.exit()  # Another process has our name: what we might do is no more asked for.


def transaction(
    mode: ModeName, lock: str, author: authors.Author | None = None
) -> manager.TransactionOptions:
    return manager.TransactionOptions(
        settings=MODES[mode].settings,
        lock=address_texts.parse(lock),
        author=author or authors.Author(),
    )


def main() -> None:
    logging.disable(logging.CRITICAL)  # What the library survives, it survives in masses here.
    role, mode_name, uri, lock, name, attempt, first = sys.argv[1:]
    mode = ModeName(mode_name)
    author = authors.Author(writer_id=name, attempt=int(attempt)) if role == Role.WRITER else None
    worker = Worker(
        mode=mode,
        opened=table.open_table(uri, environment.system(parallelism=1)),
        transaction=transaction(mode, lock, author),
    )
    match Role(role):
        case Role.WRITER:
            worker.write(name, int(first))
        case Role.COMPACTOR:
            worker.compact()
        case Role.ROLLBACK:
            worker.roll_back()
        case Role.CLEANER:
            worker.clean()
        case Role.ARCHIVER:
            worker.archive()
        case Role.INDEXER:
            worker.index()
        case Role.READER:
            worker.read()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


if __name__ == "__main__":
    main()
