"""Writer: a pipeline into one table."""

import enum
from typing import Annotated

from pydantic import Field, StringConstraints

from hoodie_operator.api import (
    attempts,
    compaction_plan,
    conditions,
    execution,
    fields,
    rules,
)


class Operation(enum.Enum):
    """The write operation."""

    UPSERT = "Upsert"
    INSERT = "Insert"
    BULK_INSERT = "BulkInsert"
    DELETE = "Delete"
    INSERT_OVERWRITE = "InsertOverwrite"
    INSERT_OVERWRITE_TABLE = "InsertOverwriteTable"


class FileFormat(enum.Enum):
    """How the files are encoded."""

    CSV = "CSV"
    JSON = "JSON"
    PARQUET = "Parquet"


class Csv(fields.Block):
    """How CSV files are read."""

    header: bool = Field(default=True, description="Whether the first line names the columns.")
    delimiter: Annotated[str, StringConstraints(min_length=1, max_length=1)] = Field(
        default=",", description="The character between fields."
    )
    null_text: Annotated[str, StringConstraints(max_length=64)] | None = Field(
        default=None, description="A text that means null, in addition to the empty field."
    )


class FileBatch(fields.Block):
    """The files of one commit."""

    files: tuple[fields.Path, ...] = Field(
        min_length=1,
        max_length=1000,
        description="Paths, absolute or below the operator's first data root.",
    )


class FilesSource(fields.Block):
    """Files, each written once. A new file, or a file with new content, is a new batch."""

    path: fields.Path | None = Field(
        default=None,
        description=(
            "A path with wildcards (*, ?, [...]) in its last parts, absolute or below the "
            "operator's first data root. Files are written in the order of their names. The path "
            "must be on a file system that the pods mount (storage.volumes of the HudiTable): "
            "input is not read from object stores."
        ),
    )
    files_per_commit: int | None = Field(
        default=None, ge=1, le=1000, description="With path only. Defaults to 1."
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
                "Maps columns of the table to columns of the files. By default all columns of the "
                "files are written under their own names."
            ),
        )
    )
    add_columns: bool = Field(
        default=False,
        description=(
            "Add columns of the files that the table lacks, and widen column types as the files "
            "need. For Parquet files only, which declare types."
        ),
    )


class Source(fields.Block):
    """The source of the rows."""

    files: FilesSource


class Pacing(fields.Block):
    """Limits of the rate of commits."""

    commit_interval: fields.Duration | None = Field(
        default=None,
        description=(
            "Minimum time for which a commit stays open. It limits how often readers see changes "
            "and how often log files are added."
        ),
    )


class InlineCompaction(fields.Block):
    """Which compactions the writer plans. A CompactionPolicy or a TableAction runs them."""

    delta_commits: int = Field(
        default=5,
        ge=1,
        le=100_000,
        description="Number of delta commits since the last compaction that makes one due.",
    )
    plan: compaction_plan.Plan | None = None


class WriterSpec(fields.Block):
    """Which rows are written to which table, and how."""

    table_ref: fields.Reference
    writer_id: fields.ObjectName | None = Field(
        default=None,
        description="The writer's id in commits and heartbeats. Defaults to the object's name.",
    )
    operation: Operation = Field(
        default=Operation.UPSERT,
        description=(
            "What each commit does with its rows. InsertOverwrite replaces the partitions that "
            "they are of, InsertOverwriteTable all rows of the table: for files that are whole "
            "partitions, or whole tables. Neither goes with mode NonBlocking."
        ),
    )
    sort_by: tuple[fields.ColumnName, ...] | None = Field(
        default=None,
        min_length=1,
        max_length=16,
        description=(
            "With operation BulkInsert: columns by which the rows of a commit are sorted within "
            "each partition, so that files hold ranges of their values and filters on them read "
            "few files. Not nested columns."
        ),
    )
    source: Source
    runtime: execution.Runtime = execution.Runtime()
    pacing: Pacing = Pacing()
    compaction: InlineCompaction | None = Field(
        default=None,
        description=(
            "Plan a compaction after each commit that makes one due. Valid for MergeOnRead tables "
            "whose services.compaction is Operator, and ignored for others."
        ),
    )
    retry: execution.Retry = execution.Retry()
    progress_deadline: fields.Duration = Field(
        default="1h",
        description=(
            "An attempt without progress for this long, plus commitInterval, is stopped. Must be "
            "longer than one batch takes."
        ),
    )
    suspend: bool = Field(default=False, description="Stop the active run, and start none.")


class Batches(fields.Block):
    """How much of the source is committed."""

    total: int
    committed: int


class LastCommit(fields.Block):
    """The writer's newest completed commit."""

    instant: fields.Word
    completion_time: fields.Word
    batch_settings_hash: fields.Word | None = Field(
        default=None, description="Hash of the batch settings under which it was made."
    )


class WriterStatus(conditions.Status):
    """The observed state of the writer."""

    files: Batches | None = Field(default=None, description="Files of the source.")
    columns: tuple[fields.Word, ...] | None = Field(default=None, max_length=1000)
    runs: attempts.Runs | None = None
    last_commit: LastCommit | None = None
    protocol_hash: fields.Word | None = None
    run_hash: fields.Word | None = Field(
        default=None,
        description=(
            "Hash of image, resources and configuration of the next attempt. The active attempt "
            "keeps its own (runs.current.runHash)."
        ),
    )
    batch_settings_hash: fields.Word | None = Field(
        default=None,
        description=(
            "Hash of the settings that the writer takes up at its next batch, without a restart: "
            "which compactions it plans. lastCommit has the hash of the newest commit."
        ),
    )


def _plan(spec: WriterSpec) -> compaction_plan.Plan | None:
    return None if spec.compaction is None else spec.compaction.plan


RULES: rules.Rules[WriterSpec] = rules.Rules(
    within=(
        *compaction_plan.plan_rules("compaction.plan", _plan),
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
            message="is valid with path only, not with batches",
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
            message="is valid with format CSV only",
            cel="!has(self.source.files.csv) || self.source.files.format == 'CSV'",
            holds=lambda spec: (
                spec.source.files.csv is None or spec.source.files.format is FileFormat.CSV
            ),
        ),
        rules.Rule(
            name="add-columns-of-parquet",
            field="source.files.addColumns",
            message="needs format Parquet, which declares the types of new columns",
            cel=(
                "!has(self.source.files.addColumns) || !self.source.files.addColumns "
                "|| self.source.files.format == 'Parquet'"
            ),
            holds=lambda spec: (
                not spec.source.files.add_columns or spec.source.files.format is FileFormat.PARQUET
            ),
        ),
        rules.Rule(
            name="sort-by-of-bulk-insert",
            field="sortBy",
            message="is valid with operation BulkInsert only",
            cel="!has(self.sortBy) || self.operation == 'BulkInsert'",
            holds=lambda spec: spec.sort_by is None or spec.operation is Operation.BULK_INSERT,
        ),
        rules.Rule(
            name="sort-columns-once",
            field="sortBy",
            message="must not contain a name twice",
            cel="!has(self.sortBy) || self.sortBy.all(f, self.sortBy.exists_one(g, g == f))",
            holds=lambda spec: len(set(spec.sort_by or ())) == len(spec.sort_by or ()),
        ),
        *execution.runtime_rules(lambda spec: spec.runtime),
    ),
    between=(
        rules.immutable("tableRef", lambda spec: spec.table_ref),
        rules.immutable_optional("writerId", lambda spec: spec.writer_id),
    ),
)
