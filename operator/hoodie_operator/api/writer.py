"""Writer: a pipeline into one table."""

import enum
from typing import Annotated

from pydantic import Field, StringConstraints

from hoodie_operator.api import attempts, conditions, execution, fields, rules


class Operation(enum.Enum):
    """What is done with the rows."""

    UPSERT = "Upsert"
    INSERT = "Insert"
    BULK_INSERT = "BulkInsert"
    DELETE = "Delete"


class FileFormat(enum.Enum):
    """How the files are encoded."""

    CSV = "CSV"
    JSON = "JSON"
    PARQUET = "Parquet"


class Csv(fields.Block):
    """How CSV files are read."""

    header: bool = Field(default=True, description="Whether the first line names the columns.")
    delimiter: Annotated[str, StringConstraints(min_length=1, max_length=1)] = ","
    null_text: Annotated[str, StringConstraints(max_length=64)] | None = Field(
        default=None, description="A text that means null, beside the empty field."
    )


class FileBatch(fields.Block):
    """The files of one commit."""

    files: tuple[fields.Path, ...] = Field(min_length=1, max_length=1000)


class FilesSource(fields.Block):
    """Files, each written once: a new one, or one with new content, is another batch."""

    path: fields.Path | None = Field(
        default=None,
        description=(
            "A path with wildcards (*, ?, [...]) in its last parts, absolute or below the "
            "operator's first data root; files are taken in the order of their names. Only of a "
            "file system that the pods mount (storage.volumes of the HudiTable): input is not "
            "read from object stores."
        ),
    )
    files_per_commit: int | None = Field(
        default=None, ge=1, le=1000, description="With path; 1 by default."
    )
    batches: tuple[FileBatch, ...] | None = Field(
        default=None,
        min_length=1,
        max_length=1000,
        description="The files of each commit, in order.",
    )
    format: FileFormat
    csv: Csv | None = None
    columns: dict[fields.ColumnName, Annotated[str, StringConstraints(max_length=256)]] | None = (
        Field(
            default=None,
            min_length=1,
            max_length=1000,
            description=(
                "Column of the table: column of the file. By default all columns of the files, "
                "under their own names."
            ),
        )
    )
    add_columns: bool = Field(
        default=False,
        description=(
            "Add to the table what columns the files have and it lacks, and widen its types for "
            "them; of Parquet files, which tell types."
        ),
    )


class Source(fields.Block):
    """Where the rows come from."""

    files: FilesSource


class Pacing(fields.Block):
    """How fast a writer may go."""

    commit_interval: fields.Duration | None = Field(
        default=None,
        description=(
            "A commit stays open at least this long, so that readers see changes, and the table "
            "gets log files, at most that often."
        ),
    )


class WriterSpec(fields.Block):
    """What is written, and how."""

    table_ref: fields.Reference
    writer_id: fields.ObjectName | None = Field(
        default=None,
        description="Names the writer in commits and heartbeats; by default the object's name.",
    )
    operation: Operation = Operation.UPSERT
    source: Source
    runtime: execution.Runtime = execution.Runtime()
    pacing: Pacing = Pacing()
    retry: execution.Retry = execution.Retry()
    progress_deadline: fields.Duration = Field(
        default="1h",
        description=(
            "An attempt that shows no progress for this long, beside commitInterval, is stopped: "
            "give it more than a single batch takes."
        ),
    )
    suspend: bool = Field(default=False, description="Stop, and start nothing.")


class Batches(fields.Block):
    """How far the source is written."""

    total: int
    committed: int


class LastCommit(fields.Block):
    """The writer's newest completed commit."""

    instant: fields.Word
    completion_time: fields.Word


class WriterStatus(conditions.Status):
    """How far the writer is."""

    files: Batches | None = Field(default=None, description="Files of the source.")
    columns: tuple[fields.Word, ...] | None = Field(default=None, max_length=1000)
    runs: attempts.Runs | None = None
    last_commit: LastCommit | None = None
    protocol_hash: fields.Word | None = None
    run_hash: fields.Word | None = Field(
        default=None,
        description=(
            "Of image, resources and configuration, as the next attempt gets them; one at work "
            "(runs.current.runHash) goes on with its own."
        ),
    )


RULES: rules.Rules[WriterSpec] = rules.Rules(
    within=(
        rules.Rule(
            name="path-or-batches",
            field="source.files",
            message="needs exactly one of path and batches",
            cel="has(self.source.files.path) != has(self.source.files.batches)",
            holds=lambda spec: (
                (spec.source.files.path is None) != (spec.source.files.batches is None)
            ),
        ),
        rules.Rule(
            name="files-per-commit-with-path",
            field="source.files.filesPerCommit",
            message="goes with path, not with batches",
            cel="!has(self.source.files.filesPerCommit) || has(self.source.files.path)",
            holds=lambda spec: (
                spec.source.files.files_per_commit is None or spec.source.files.path is not None
            ),
        ),
        rules.Rule(
            name="input-on-a-file-system",
            field="source.files.path",
            message=(
                "must be a path of a file system, such as /inbox/*.csv on a volume of the "
                "HudiTable: input is not read from object stores"
            ),
            cel=(
                "!has(self.source.files.path) || !self.source.files.path.contains('://') "
                "|| self.source.files.path.startsWith('file://')"
            ),
            holds=lambda spec: (
                spec.source.files.path is None
                or "://" not in spec.source.files.path
                or spec.source.files.path.startswith("file://")
            ),
        ),
        rules.Rule(
            name="csv-for-csv",
            field="source.files.csv",
            message="goes with format CSV only",
            cel="!has(self.source.files.csv) || self.source.files.format == 'CSV'",
            holds=lambda spec: (
                spec.source.files.csv is None or spec.source.files.format is FileFormat.CSV
            ),
        ),
        rules.Rule(
            name="add-columns-of-parquet",
            field="source.files.addColumns",
            message="goes with format Parquet only, which tells the types of new columns",
            cel=(
                "!has(self.source.files.addColumns) || !self.source.files.addColumns "
                "|| self.source.files.format == 'Parquet'"
            ),
            holds=lambda spec: (
                not spec.source.files.add_columns or spec.source.files.format is FileFormat.PARQUET
            ),
        ),
        *execution.runtime_rules(lambda spec: spec.runtime),
    ),
    between=(
        rules.immutable("tableRef", lambda spec: spec.table_ref),
        rules.immutable_optional("writerId", lambda spec: spec.writer_id),
    ),
)
