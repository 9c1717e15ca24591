"""A job's work on threads of its own process, for batches that fit into its memory."""

from collections.abc import Sequence
from dataclasses import dataclass

from hoodie import environment
from hoodie.contract import engine_specs, input_sources
from hoodie.engine import local, protocol
from hoodie.model import commits
from hoodie.sources import local_files
from hoodie.storage import locations
from hoodie.write import batches, early_conflicts, tasks, write_task
from hoodie_jobs import cancellation, runtimes


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalInput:
    """A batch's rows, known to fit the table.

    Attributes:
        batch: Ready to be written.
        columns: The table's columns that the input carries.
    """

    batch: batches.Batch
    columns: tuple[str, ...]


class LocalRuntime:
    """Threads."""

    has_tasks_left = False

    def __init__(self, engine: protocol.Engine, stop: cancellation.Cancellation) -> None:
        self.engine = engine
        self._stop = stop

    def read(
        self, files: Sequence[str], source: input_sources.Source, target: runtimes.Target
    ) -> LocalInput:
        """Read input files into memory; what does not fit the table is refused."""
        data = local_files.read(files, source, target.schema.arrow)
        batch = batches.prepare(
            data,
            target.config,
            target.schema,
            target.operation,
            fills_columns=target.fills_columns,
        )
        return LocalInput(batch=batch, columns=tuple(data.column_names))

    def write(self, data: runtimes.Input, task: write_task.WriteTask) -> list[commits.Written]:
        """Write all rows, a thread a file group."""
        assert isinstance(data, LocalInput)
        self._stop.check()
        storage = locations.open_storage(task.table_uri)
        mark = early_conflicts.marking(task.detection, storage, environment.system(parallelism=1))
        return tasks.run(task, data.batch, write_task.WriteToken(), storage, self.engine, mark)

    def close(self) -> None:
        """Do nothing: threads end with their work."""


def start(spec: engine_specs.EngineSpec, stop: cancellation.Cancellation) -> LocalRuntime:
    """Return threads, as many as the spec says."""
    return LocalRuntime(local.LocalEngine(spec.parallelism or local.processors()), stop)
