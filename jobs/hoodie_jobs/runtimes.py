"""What a job runs its data-parallel part on: threads of its own process, or Spark."""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from hoodie.contract import engine_specs, input_sources
from hoodie.engine import protocol
from hoodie.model import commits, schemas, table_config
from hoodie.write import write_task
from hoodie_jobs import cancellation


class Input(Protocol):
    """A batch's input, looked at so far that its columns are known."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The table's columns that it carries."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a batch goes.

    Attributes:
        config: The table's configuration.
        schema: The table's columns.
        operation: What is done with the rows.
        fills_columns: Whether a column that the batch lacks is null.
    """

    config: table_config.TableConfig
    schema: schemas.TableSchema
    operation: commits.Operation
    fills_columns: bool = False


class Runtime(Protocol):
    """An engine for the length of a run."""

    @property
    def engine(self) -> protocol.Engine:
        """Runs the tasks of table services."""
        ...

    @property
    def has_tasks_left(self) -> bool:
        """Whether a task of a write that failed may still be running somewhere."""
        ...

    def read(self, files: Sequence[str], source: input_sources.Source, target: Target) -> Input:
        """Look at input files; what cannot be known before the write is found out in it.

        Raises:
            NotFoundError: A file does not exist.
            InvalidInputError: A file does not fit the table.
        """
        ...

    def write(self, data: Input, task: write_task.WriteTask) -> list[commits.Written]:
        """Write all rows of an input of this runtime into data files, none of them visible yet.

        Of two rows with one key, the later one in the order of files and rows is the newer.

        Raises:
            InvalidInputError: A value does not fit the table.
            CancelledError: The run was told to stop.
        """
        ...

    def close(self) -> None:
        """Give back what it holds. Idempotent."""
        ...


def open_runtime(spec: engine_specs.EngineSpec, stop: cancellation.Cancellation) -> Runtime:
    """Start the engine that a spec asks for."""
    # By name, so that a job on local threads neither needs pyspark nor waits for its import.
    name = {
        engine_specs.EngineKind.LOCAL: "hoodie_jobs.local_runtime",
        engine_specs.EngineKind.SPARK: "hoodie_jobs.spark.runtime",
    }[spec.kind]
    return cast("Runtime", importlib.import_module(name).start(spec, stop))
