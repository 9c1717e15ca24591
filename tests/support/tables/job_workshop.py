"""A table of a temporary folder, its input files, and the jobs about it, run in this process."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from hoodie import clock, environment, table
from hoodie.contract import engine_specs, input_sources, job_results, job_specs
from hoodie.format import file_names
from hoodie.model import commits, schemas, settings, table_config
from hoodie.transaction import authors, manager
from hoodie.transaction.locks import address_texts
from hoodie.write import sessions
from hoodie_jobs import (
    archive,
    cancellation,
    clean,
    compact,
    configure,
    create,
    deletions,
    drop,
    index,
    metadata,
    mirror,
    rollback,
    savepoint,
    write,
)
from hoodie_jobs.run import Run
from support.tables import every_type

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("region", pa.string()),
        ("amount", pa.int64()),
        ("note", pa.string()),
    ]
)
DROP = job_specs.DropTable(table_uid="table-1", deletion_policy="Delete", is_protected=False)
"""The work that a HudiTable asks for whose data is to go with it."""

PERFORM: Mapping[type, Callable[[Run], None]] = {
    job_specs.CreateTable: create.perform,
    job_specs.WriteBatches: write.perform,
    job_specs.Compact: compact.perform,
    job_specs.RollBack: rollback.perform,
    job_specs.Clean: clean.perform,
    job_specs.Archive: archive.perform,
    job_specs.CreateSavepoint: savepoint.create,
    job_specs.DeleteSavepoints: savepoint.delete,
    job_specs.DeletePartitions: deletions.delete_partitions,
    job_specs.DeleteRows: deletions.delete_rows,
    job_specs.ConfigureTable: configure.perform,
    job_specs.InitialiseMetadata: metadata.initialise,
    job_specs.DropMetadata: metadata.drop,
    job_specs.BuildIndexes: index.build,
    job_specs.DropIndexes: index.drop,
    job_specs.Mirror: mirror.perform,
    job_specs.DropTable: drop.perform,
}


class Workshop:
    """A table, its input files, and the jobs about it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.uri = str(folder / "table")
        self.config = config()
        self.mode = settings.ConcurrencyMode.NON_BLOCKING
        self.stop = cancellation.Cancellation()

    def file(self, name: str, rows: str) -> str:
        """Write a CSV file of the table's columns and return its path."""
        path = self.folder / name
        path.write_text(f"id,region,amount,note\n{rows}")
        return str(path)

    def parquet(self, name: str, columns: Mapping[str, object]) -> str:
        """Write a parquet file and return its path."""
        path = self.folder / f"{name}.parquet"
        parquet.write_table(pa.table(dict(columns)), path)
        return str(path)

    def spec(
        self,
        work: job_specs.Work,
        engine: engine_specs.EngineKind = engine_specs.EngineKind.LOCAL,
        **changes: object,
    ) -> job_specs.JobSpec:
        """Return a spec that can be run as it is."""
        is_write = isinstance(work, job_specs.WriteBatches)
        spec = job_specs.JobSpec(
            table_uri=self.uri,
            allowed_roots=(),
            table_properties=table_config.to_properties(self.config),
            settings=settings.WriteSettings(concurrency=self.mode, clock_wait_ms=0),
            lock="filesystem",
            protocol_hash="",
            writer_id="orders" if is_write else None,
            action_id=None if is_write else "action",
            attempt=1,
            fence=None,
            work=work,
            engine=engine_specs.EngineSpec(kind=engine, parallelism=2),
            progress_path=str(self.folder / "progress.json"),
            result_path=str(self.folder / "result.json"),
        )
        return replace(spec, **changes)  # type: ignore[arg-type] # what a test varies

    def run(self, spec: job_specs.JobSpec) -> job_results.JobResult:
        """Run a job here and return what it did."""
        run = Run(spec, clock.SystemClock(), self.stop)
        PERFORM[type(spec.work)](run)
        return run.result

    def create(self) -> None:
        self.run(self.spec(job_specs.CreateTable()))

    def write(
        self,
        *files: str,
        engine: engine_specs.EngineKind = engine_specs.EngineKind.LOCAL,
        **changes: object,
    ) -> job_results.JobResult:
        """Upsert files, a batch each."""
        return self.run(self.spec(batches_of(*files), engine, **changes))

    def table(self) -> table.Table:
        return table.open_table(self.uri, environment.system(parallelism=1))

    def rows(self) -> dict[str, tuple[object, ...]]:
        """Return the table's rows by id."""
        return {str(row[0]): row for row in rows_of(self.table().read().read_all())}

    def data_files(self) -> set[str]:
        """Return the names of the data files there are, committed or not.

        Neither their markers nor files that are still being written count.
        """
        names = [path.name for path in Path(self.uri).rglob("*") if path.is_file()]
        return {name for name in names if file_names.parse(name, 0) is not None}


def config() -> table_config.TableConfig:
    return table_config.TableConfig(
        name="orders",
        record_key_fields=("id",),
        partition_fields=("region",),
        bucket_count=4,
        hash_fields=("id",),
        has_partial_updates=True,
        create_schema=schemas.from_arrow(SCHEMA, "orders").avro,
    )


def batches_of(*files: str, **changes: object) -> job_specs.WriteBatches:
    work = job_specs.WriteBatches(
        operation=commits.Operation.UPSERT,
        source=input_sources.Source(format=input_sources.SourceFormat.CSV),
        batches=tuple(input_sources.Batch(id=Path(path).name, files=(path,)) for path in files),
    )
    return replace(work, **changes)  # type: ignore[arg-type] # what a test varies


def rows_of(data: pa.Table) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in data.to_pylist()]


def write_typed(uri: str, batches: Sequence[Sequence[Mapping[str, object]]]) -> table.Table:
    """Create a table of each type that we write, and write batches of rows to it."""
    schema = schemas.from_arrow(every_type.SCHEMA, "typed")
    created = table_config.TableConfig(
        name="typed",
        record_key_fields=("id",),
        create_schema=schema.avro,
        bucket_count=2,
        has_partial_updates=True,
    )
    opened = table.create_table(uri, created, schema, environment.system(parallelism=1))
    options = sessions.WriteOptions(
        operation=commits.Operation.UPSERT, transaction=_transaction("in-process")
    )
    for rows in batches:
        opened.write(pa.Table.from_pylist(list(rows), schema=opened.schema.arrow), options)
    return opened


def keep_statistics(workshop: Workshop) -> None:
    """Give a workshop's table, which is empty, a metadata table with statistics."""
    workshop.table().initialise_metadata(_transaction("filesystem"))


def _transaction(lock: str) -> manager.TransactionOptions:
    return manager.TransactionOptions(
        settings=settings.WriteSettings(clock_wait_ms=0),
        lock=address_texts.parse(lock),
        author=authors.Author(writer_id="test"),
    )
