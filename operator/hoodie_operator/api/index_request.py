"""IndexRequest: indexes that a table has, or does not have, for as long as the object is there."""

import enum

from pydantic import Field

from hoodie_operator.api import conditions, execution, fields, rules, table_indexes


class Ensure(enum.Enum):
    """Whether the table has the indexes."""

    PRESENT = "Present"
    ABSENT = "Absent"


class DeletionPolicy(enum.Enum):
    """What happens to the indexes when the object is deleted."""

    DROP = "Drop"
    RETAIN = "Retain"


class IndexState(enum.Enum):
    """Where an index is, as the table's timeline and properties show it."""

    MISSING = "Missing"
    PLANNED = "Planned"
    BUILDING = "Building"
    READY = "Ready"


class IndexRequestSpec(fields.Block):
    """Which indexes of a table are built beside its writers, or dropped."""

    table_ref: fields.Reference
    indexes: table_indexes.IndexNames = Field(
        description="Partitions of the table's metadata table."
    )
    partitioned: bool = Field(default=False, description=table_indexes.PARTITIONED)
    columns: table_indexes.IndexColumns | None = Field(
        default=None, description=table_indexes.COLUMNS
    )
    statistics_columns: table_indexes.StatisticsColumns | None = Field(
        default=None, description=table_indexes.STATISTICS_COLUMNS
    )
    ensure: Ensure = Field(
        default=Ensure.PRESENT,
        description=(
            "Present: missing indexes are built while writers continue. Absent: they are dropped."
        ),
    )
    deletion_policy: DeletionPolicy = Field(
        default=DeletionPolicy.RETAIN,
        description=(
            "Whether the indexes are dropped with the object. What is not complete by then is "
            "given up in any case."
        ),
    )
    validation: table_indexes.Validation = Field(
        default=table_indexes.Validation.SAMPLE,
        description=(
            "How much of the table is compared with its metadata table before the object is "
            "ready. Sample: up to 8 partitions of the table."
        ),
    )
    priority: int = Field(
        default=0,
        ge=-100,
        le=100,
        description="Actions with a higher priority start first when too many are waiting.",
    )
    runtime: execution.Runtime = execution.Runtime()
    retry: execution.Retry = execution.Retry()
    time_limit: fields.Duration = Field(
        default="12h", description="Maximum duration of an attempt. The next one continues."
    )
    suspend: bool = Field(default=False, description="Stop the active run, and start none.")


class IndexStatus(fields.Block):
    """The state of one index."""

    name: fields.Word
    state: IndexState


class IndexRequestStatus(conditions.Status):
    """The observed state of the indexes."""

    indexes: tuple[IndexStatus, ...] | None = Field(default=None, max_length=16)
    built: fields.Word | None = Field(
        default=None, description="How many of the indexes readers may use, such as 1/2."
    )
    instant: fields.Word | None = Field(
        default=None, description="The indexing action on the timeline that is pending."
    )
    progress: fields.Text | None = Field(
        default=None, description="What the active run does, and how far it is."
    )
    validated: table_indexes.Validation | None = Field(
        default=None, description="How the indexes were compared with the table."
    )
    action: fields.Word | None = Field(default=None, description="The active TableAction.")

    @property
    def is_unfinished(self) -> bool:
        """Whether something would be left half done if nothing were done any more."""
        begun = (IndexState.PLANNED, IndexState.BUILDING)
        return self.action is not None or any(each.state in begun for each in self.indexes or ())


def _statistics(spec: IndexRequestSpec) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return spec.indexes, spec.statistics_columns or ()


RULES: rules.Rules[IndexRequestSpec] = rules.Rules(
    within=(
        rules.Rule(
            name="distinct-indexes",
            field="indexes",
            message="must not contain a name twice",
            cel="self.indexes.all(n, self.indexes.exists_one(m, m == n))",
            holds=lambda spec: rules.have_no_duplicates(spec.indexes),
        ),
        rules.Rule(
            name="partitioned-record-index",
            field="partitioned",
            message="is valid with record_index among the indexes only",
            cel="!self.partitioned || 'record_index' in self.indexes",
            holds=lambda spec: table_indexes.may_be_partitioned(spec.indexes, spec.partitioned),
        ),
        table_indexes.columns_rule("", lambda spec: (spec.indexes, spec.columns or {})),
        *table_indexes.statistics_rules("", _statistics),
        *execution.runtime_rules(lambda spec: spec.runtime),
    ),
    between=(
        rules.immutable("tableRef", lambda spec: spec.table_ref),
        rules.immutable("indexes", lambda spec: spec.indexes),
        rules.immutable("partitioned", lambda spec: spec.partitioned),
        rules.immutable_optional("columns", lambda spec: spec.columns),
    ),
)
