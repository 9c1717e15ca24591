"""Savepoint: a commit of a table whose files are kept, for as long as the object is there."""

import enum
from typing import Annotated

from pydantic import Field, StringConstraints

from hoodie_operator.api import conditions, execution, fields, rules


class DeletionPolicy(enum.Enum):
    """What happens to the savepoint in the table when the object is deleted."""

    DELETE = "Delete"
    RETAIN = "Retain"


class SavepointSpec(fields.Block):
    """Which commit to keep, and for how long."""

    table_ref: fields.Reference
    commit: Annotated[str, StringConstraints(pattern=r"^[0-9]{17}$", max_length=17)] | None = Field(
        default=None,
        description="Requested time of the commit. By default the newest one.",
    )
    comment: Annotated[str, StringConstraints(max_length=1024)] = Field(
        default="", description="Stored with the savepoint, for its readers."
    )
    expire_after: fields.Duration | None = Field(
        default=None,
        description=(
            "Age, by the newest commit, at which the savepoint is deleted from the table. By "
            "default it stays until the object is deleted."
        ),
    )
    deletion_policy: DeletionPolicy = DeletionPolicy.DELETE
    retry: execution.Retry = execution.Retry()


class SavepointStatus(conditions.Status):
    """The observed state of the savepoint."""

    commit: fields.Word | None = Field(default=None, description="The commit that is kept.")
    action: fields.Word | None = Field(default=None, description="The active TableAction.")
    expired: bool | None = Field(
        default=None, description="Whether the savepoint is deleted or was: it has expired."
    )


RULES: rules.Rules[SavepointSpec] = rules.Rules(
    between=(
        rules.immutable("tableRef", lambda spec: spec.table_ref),
        rules.immutable_optional("commit", lambda spec: spec.commit),
        rules.immutable("comment", lambda spec: spec.comment),
    ),
)
