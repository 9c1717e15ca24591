"""Objects: a spec that somebody wants, a status that we tell, and what they are known by."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeAlias, TypeVar

from hoodie_operator.api import (
    conditions,
    fields,
    hudi_table,
    hudi_table_status,
    index_request,
    lock_provider,
    savepoint,
    service_policy,
    table_action,
    writer,
)

DEFAULT_NAMESPACE: Final = "default"

SpecT_co = TypeVar("SpecT_co", bound=fields.Block, covariant=True)
StatusT_co = TypeVar("StatusT_co", bound=conditions.Status, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ObjectKey:
    """What an object is found by."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        if self.namespace == DEFAULT_NAMESPACE:
            return f"{self.kind} {self.name}"
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The object that an object was made for, and goes with."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Object(Generic[SpecT_co, StatusT_co]):
    """One stored object.

    Attributes:
        key: Kind, namespace and name.
        uid: Given at creation; another object of the same key has another.
        generation: Counts changes of the spec, from 1.
        created_ms: Creation, milliseconds since the epoch.
        labels: As given.
        owner: Whom it was made for; None for what users declare.
        deletion_ms: Since when it is to go; None for one that stays.
        retry_request: What a user has asked for another attempt with last; None for never.
        spec: What is wanted.
        status: What is.
    """

    key: ObjectKey
    uid: str
    generation: int
    created_ms: int
    labels: Mapping[str, str] = field(default_factory=dict)
    owner: Owner | None = None
    deletion_ms: int | None = None
    retry_request: str | None = None
    spec: SpecT_co
    status: StatusT_co

    @property
    def name(self) -> str:
        """The name within its namespace."""
        return self.key.name

    @property
    def is_deleting(self) -> bool:
        """Whether it is to go."""
        return self.deletion_ms is not None

    @property
    def seniority(self) -> tuple[int, str, str]:
        """The sort key by which the older of two objects goes first.

        A cluster tells times of creation in seconds, and names are unique in a namespace only.
        """
        return (self.created_ms, self.key.name, self.uid)


Table: TypeAlias = Object[hudi_table.HudiTableSpec, hudi_table_status.HudiTableStatus]
Writer: TypeAlias = Object[writer.WriterSpec, writer.WriterStatus]
Policy: TypeAlias = Object[service_policy.Policy, service_policy.PolicyStatus]
Savepoint: TypeAlias = Object[savepoint.SavepointSpec, savepoint.SavepointStatus]
IndexRequest: TypeAlias = Object[index_request.IndexRequestSpec, index_request.IndexRequestStatus]
Lock: TypeAlias = Object[lock_provider.LockProviderSpec, lock_provider.LockProviderStatus]
Action: TypeAlias = Object[table_action.TableActionSpec, table_action.TableActionStatus]
SpecOfTable: TypeAlias = (
    writer.WriterSpec
    | table_action.TableActionSpec
    | savepoint.SavepointSpec
    | index_request.IndexRequestSpec
)
"""The specs that name their table."""
AnyObject: TypeAlias = Object[fields.Block, conditions.Status]
