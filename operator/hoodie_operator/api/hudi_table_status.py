"""The observed state of a HudiTable."""

import enum

from pydantic import Field

from hoodie_operator.api import attempts, conditions, fields


class LatestCommit(fields.Block):
    """The newest completed write."""

    instant: fields.Word
    completion_time: fields.Word
    action: fields.Word


class Backlog(fields.Block):
    """The delta commits that are not compacted yet."""

    delta_commits: int
    log_bytes: int
    pending_compactions: int


class PropertyMismatch(fields.Block):
    """A property of the stored table that differs from the spec."""

    property: fields.Word
    desired: fields.Text
    actual: fields.Text


class Origin(enum.Enum):
    """Where a table comes from."""

    CREATED = "Created"
    ADOPTED = "Adopted"


class ServiceRun(fields.Block):
    """A run of a service that has ended."""

    action: fields.Word = Field(description="The TableAction.")
    basis: fields.Word | None = Field(
        default=None, description="The newest commit at the time when the run became due."
    )
    time: fields.Word = Field(description="When it ended.")
    message: fields.Text | None = None


class ServiceStatus(fields.Block):
    """The state of one service of the table."""

    name: fields.Word
    owner: fields.Word = Field(description="Operator, External or Disabled.")
    policy: fields.Word | None = Field(
        default=None, description="The policy by which the service runs, or the default."
    )
    dry_run: bool | None = Field(
        default=None, description="Whether runs only report what they would do."
    )
    reason: fields.Word = Field(description="Why the service does not run now, or that it does.")
    message: fields.Text
    action: fields.Word | None = Field(default=None, description="The active TableAction.")
    due_since: fields.Word | None = Field(
        default=None, description="Since when the service is due and has not run."
    )
    next_due: fields.Word | None = Field(
        default=None, description="When the service is due or its window opens, if that is known."
    )
    overdue: bool | None = Field(
        default=None, description="Whether it is due for longer than overdueAfter of its policy."
    )
    last: ServiceRun | None = Field(default=None, description="The last successful run.")
    last_failure: ServiceRun | None = Field(
        default=None, description="The last failed run, until one succeeds."
    )


class StuckInstant(fields.Block):
    """An instant that is pending for longer than a policy wants."""

    instant: fields.Word
    type: fields.Word = Field(description="The action on the timeline, such as deltacommit.")
    since: fields.Word = Field(description="When it was requested.")
    owner: fields.Text
    process: fields.Text | None = Field(
        default=None, description="Process and host of the owner, by its last heartbeat."
    )
    policy: fields.Word = Field(description="The policy, or the default, whose stuck applies.")
    message: fields.Text = Field(description="What is done about it, or why nothing is.")
    action: fields.Word | None = Field(
        default=None, description="The TableAction that rolls it back."
    )


class ConsumerStatus(fields.Block):
    """A declared consumer of the table's increments."""

    name: fields.Word
    consumed: fields.Word = Field(description="Completion time up to which it has read.")
    holding: bool = Field(
        description="Whether cleaning waits for it; otherwise it was silent beyond its limit."
    )
    unread_commits: int = Field(description="Writes that it has not read.")
    unread_since: fields.Word | None = Field(
        default=None, description="When the first of them completed."
    )


class MetadataPartition(fields.Block):
    """A partition of the metadata table."""

    name: fields.Word
    ready: bool = Field(description="Whether readers may use it; otherwise it is being built.")


class MetadataStatus(fields.Block):
    """The table's metadata table."""

    partitions: tuple[MetadataPartition, ...] | None = Field(
        default=None,
        max_length=100,
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
    )
    delta_commits: int | None = Field(
        default=None, description="Delta commits of the metadata table since its last compaction."
    )
    action: fields.Word | None = Field(
        default=None, description="The TableAction that makes or drops the metadata table."
    )
    message: fields.Text | None = Field(
        default=None, description="Why the metadata table is not yet as declared."
    )


class MirrorStatus(fields.Block):
    """The table's mirror in Iceberg."""

    instant: fields.Word | None = Field(
        default=None, description="The newest write that the mirror has."
    )
    snapshots: int | None = Field(default=None, description="Number of snapshots that it keeps.")
    unmirrored_commits: int | None = Field(
        default=None, description="Commits that the mirror has not followed."
    )
    unmirrored_since: fields.Word | None = Field(
        default=None, description="When the first of them completed."
    )
    unmirrored_file_groups: int | None = Field(
        default=None,
        description="File groups with rows in log files alone, which a compaction brings in.",
    )
    unmirrored_log_bytes: int | None = Field(
        default=None, description="The size of these log files."
    )
    action: fields.Word | None = Field(
        default=None, description="The TableAction that brings the mirror up to date."
    )
    message: fields.Text | None = Field(default=None, description="Why the mirror is behind.")


class HudiTableStatus(conditions.Status):
    """The observed state of the table."""

    uri: fields.Text | None = None
    lock: fields.Text | None = Field(
        default=None, description="Address of the lock that the table's writers acquire."
    )
    protocol_hash: fields.Word | None = Field(
        default=None, description="Hash of everything that the writers must agree on."
    )
    settings: fields.Settings | None = Field(
        default=None, description="Settings of every run, by Apache Hudi's keys."
    )
    provisioned: bool = Field(
        default=False, description="Whether the table was created or adopted."
    )
    origin: Origin | None = Field(
        default=None, description="Whether the operator created or adopted the table."
    )
    runs: attempts.Runs | None = Field(
        default=None,
        description="Runs that create the table, and that delete its data.",
    )
    version: int | None = None
    commits: int | None = None
    latest_commit: LatestCommit | None = None
    backlog: Backlog | None = None
    writers: tuple[fields.Word, ...] | None = Field(
        default=None, max_length=100, description="Writers with an active run."
    )
    mismatches: tuple[PropertyMismatch, ...] | None = Field(default=None, max_length=20)
    services: tuple[ServiceStatus, ...] | None = Field(
        default=None,
        max_length=16,
        description="What each table service does, and why it does not run now.",
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
    )
    stuck: tuple[StuckInstant, ...] | None = Field(
        default=None,
        max_length=20,
        description="Instants that are pending for longer than stuck.after of a policy.",
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["instant", "type"],
        },
    )
    consumers: tuple[ConsumerStatus, ...] | None = Field(
        default=None,
        max_length=20,
        description="Declared consumers, those first that are the furthest behind.",
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
    )
    metadata: MetadataStatus | None = None
    mirror: MirrorStatus | None = None
