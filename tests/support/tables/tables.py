"""Tables for tests, made through the real write path on a local folder."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from hoodie import environment, table
from hoodie.model import commits, results, schemas, settings, table_config
from hoodie.transaction import authors, manager
from hoodie.transaction.locks import address_texts
from hoodie.write import batches, early_conflicts, sessions, tasks, write_task

NON_BLOCKING = settings.ConcurrencyMode.NON_BLOCKING
QUICK = settings.WriteSettings(concurrency=NON_BLOCKING, clock_wait_ms=0, lock_wait_ms=10_000)
COLUMNS = pa.schema(
    [("id", pa.string()), ("part", pa.string()), ("a", pa.int64()), ("b", pa.string())]
)
CONFIG = table_config.TableConfig(
    name="small",
    record_key_fields=("id",),
    partition_fields=("part",),
    has_partial_updates=True,
    bucket_count=2,
)
Rows = Sequence[Mapping[str, object]]


class SmallTable:
    """A table and short ways to change and read it."""

    def __init__(
        self, path: Path, config: table_config.TableConfig = CONFIG, **types: str | pa.DataType
    ) -> None:
        columns = COLUMNS
        for name, kind in types.items():
            data_type = pa.type_for_alias(kind) if isinstance(kind, str) else kind
            columns = columns.append(pa.field(name, data_type))
        self.path = path
        self.env = environment.system(parallelism=2)
        schema = schemas.from_arrow(columns, config.name)
        self.table = table.create_table(str(path), config, schema, self.env)

    def options(
        self,
        writer_id: str = "w",
        operation: commits.Operation = commits.Operation.UPSERT,
        batch_id: str | None = None,
        partitions: tuple[str, ...] = (),
        **changes: object,
    ) -> sessions.WriteOptions:
        return sessions.WriteOptions(
            operation=operation,
            transaction=manager.TransactionOptions(
                settings=replace(QUICK, **changes),
                lock=address_texts.parse("filesystem"),
                author=authors.Author(writer_id=writer_id),
            ),
            batch_id=batch_id,
            partitions=partitions,
        )

    def data(self, rows: Rows) -> pa.Table:
        names = list(dict.fromkeys(name for row in rows for name in row))
        fields = [self.table.schema.arrow.field(name) for name in names]
        return pa.Table.from_pylist([dict(row) for row in rows], pa.schema(fields))

    def upsert(self, rows: Rows, **options: object) -> results.WriteResult:
        return self.table.write(self.data(rows), self.options(**options))

    def delete(self, rows: Rows, **options: object) -> results.WriteResult:
        found = self.options(operation=commits.Operation.DELETE, **options)
        return self.table.write(self.data(rows), found)

    def write_files(self, session: sessions.WriteSession, rows: Rows) -> list[commits.WriteStat]:
        """Write the data files of a write that was begun, one a group, and do not complete it."""
        found = self.run_task(session, rows)
        written = [each for each in found if isinstance(each, commits.WriteStat)]
        assert written == found
        return written

    def run_task(self, session: sessions.WriteSession, rows: Rows) -> list[commits.Written]:
        """Write the data files of a write that was begun, as far as there is anything to write."""
        config, schema, task = self.table.config, self.table.schema, session.task
        batch = batches.prepare(self.data(rows), config, schema, task.operation)
        storage = self.env.open_storage(str(self.path))
        mark = early_conflicts.marking(task.detection, storage, self.env)
        return tasks.run(task, batch, write_task.WriteToken(), storage, self.env.engine, mark)

    def compact(self) -> results.CommitResult | None:
        transaction = self.options().transaction
        service = replace(transaction, author=authors.Author())
        planned = self.table.schedule_compaction(service)
        return self.table.compact(planned, service) if planned is not None else None

    def rows(self, **query: object) -> list[dict[str, object]]:
        found = self.table.read(**query).read_all().to_pylist()
        return sorted(found, key=lambda row: str(row.get("id")))

    def problems(self) -> list[str]:
        """Return what a check finds, notes left out."""
        found = self.table.check(QUICK)
        wrong = [each for each in found if each.severity is results.Severity.ERROR]
        return [f"{each.subject}: {each.message}" for each in wrong]
