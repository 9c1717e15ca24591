"""The operator's own configuration: one YAML file, the same in a cluster and standalone.

All fields except the data roots have defaults. Fields that concern pods have no effect standalone,
where runs are processes: images, service accounts, pod resources, namespaces, observers.
"""

import enum
from collections.abc import Sequence
from typing import Annotated, Final, Self

import pydantic
from pydantic import Field, StringConstraints

from hoodie import errors
from hoodie_operator.api import (
    compaction_policy,
    execution,
    fields,
    manifests,
    retention_policy,
    rules,
)

_SHOWN_MAX: Final = 5

NamePattern = Annotated[str, StringConstraints(pattern=r"^[a-z0-9.*-]+$", max_length=253)]
"""The name of an object, or of several: `hudi-*`."""

VariablePattern = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_*]+$", max_length=128)]
"""The name of an environment variable, or of several: `AWS_*`."""

HostPattern = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.*:-]+$", max_length=253)]
"""A host, or several: `zk-*.example.com`."""


class PullPolicy(enum.Enum):
    """When an image is pulled."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class Image(fields.Block):
    """The image of all pods that the operator creates."""

    name: fields.Image = "hudi-operator:latest"
    pull_policy: PullPolicy = PullPolicy.IF_NOT_PRESENT
    pull_secrets: execution.Secrets = ()


def _sized(cpu: str, memory: str, limit: str) -> execution.Resources:
    return execution.Resources(
        requests=execution.Amounts(cpu=cpu, memory=memory),
        limits=execution.Amounts(memory=limit),
    )


class PodResources(fields.Block):
    """Default resources of pods, for objects that do not set their own."""

    runs: execution.Resources = _sized("500m", "1Gi", "2Gi")
    executors: execution.Resources = _sized("1", "2Gi", "2Gi")
    observers: execution.Resources = _sized("50m", "192Mi", "512Mi")
    lock_servers: execution.Resources = _sized("100m", "384Mi", "512Mi")


class ServiceAccounts(fields.Block):
    """The service accounts of pods."""

    default: fields.ObjectReference = Field(
        default="default", description="Used by tables that do not name a service account."
    )
    allowed: Annotated[tuple[fields.ObjectReference, ...], Field(max_length=256)] = Field(
        default=(), description="Further service accounts that tables may name."
    )


class Allowed(fields.Block):
    """What tables and runs may use from their namespace: names, or patterns with `*`.

    Users who can create tables may lack the right to read a Secret or to mount a claim. The pods of
    a table do both, and the output of their runs shows what they have read.
    """

    secrets: Annotated[tuple[NamePattern, ...], Field(max_length=256)] = Field(
        default=("hudi-*",), description="Secrets that storages may name."
    )
    claims: Annotated[tuple[NamePattern, ...], Field(max_length=256)] = Field(
        default=("hudi-*",), description="PersistentVolumeClaims that storages may name."
    )
    variables: Annotated[tuple[VariablePattern, ...], Field(max_length=256)] = Field(
        default=(
            *("AWS_*", "AZURE_*", "GOOGLE_*", "OBJECT_STORE_*", "TZ"),
            *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
        ),
        description=(
            "Environment variables that storages and runtimes may set. Validation always refuses "
            "the variables that interpreters, loaders and clients act on."
        ),
    )


class Observers(fields.Block):
    """How the operator observes tables and sources."""

    busy_interval: fields.Duration = Field(
        default="500ms",
        description="Time between two observations of a table with an active run.",
    )
    idle_interval: fields.Duration = Field(
        default="30s",
        description="Time between two observations of a table without an active run.",
    )
    source_interval: fields.Duration = Field(
        default="10s",
        description="Time between two observations of a source that a Writer reads.",
    )
    threads: int = Field(
        default=8, ge=1, le=64, description="Concurrent observations of one observer."
    )
    time_limit: fields.Duration = Field(
        default="20s", description="Maximum duration of one observation."
    )
    memory: fields.Memory = Field(
        default="128Mi",
        description=(
            "Memory that the operator spends on the reports of observers. When it is full, the "
            "operator refuses reports of namespaces that use more than an equal share."
        ),
    )


class LockServers(fields.Block):
    """The ZooKeeper servers of LockProviders with `embedded: true`."""

    volume_size: fields.Memory = Field(
        default="1Gi", description="Size of the claim that keeps a server's data over restarts."
    )
    storage_class: fields.ObjectReference | None = Field(
        default=None,
        description="Storage class of the claim. Defaults to the cluster's default class.",
    )
    allowed: Annotated[tuple[HostPattern, ...], Field(max_length=256)] = Field(
        default=(),
        description=(
            "Hosts that LockProviders without `embedded` may name, without port. `*` stands for "
            "any characters. Loopback addresses must be listed one by one."
        ),
    )


class Limits(fields.Block):
    """Time limits, and how many ended attempts are kept."""

    reference_grace: fields.Duration = Field(
        default="10s",
        description=(
            "How long the operator waits for a referenced object before it reports "
            "ReferenceNotFound as Stalled."
        ),
    )
    schedule_deadline: fields.Duration = Field(
        default="10m", description="Time for a run's pod to be created and scheduled."
    )
    image_deadline: fields.Duration = Field(
        default="10m",
        description="Time for its image to be pulled and its container to be created.",
    )
    start_deadline: fields.Duration = Field(
        default="3m", description="Time for a run to report progress after its container starts."
    )
    stop_grace: fields.Duration = Field(
        default="1m", description="Time that a run has to stop before its process is killed."
    )
    runs_kept: int = Field(
        default=5, ge=1, le=100, description="Number of ended attempts that are kept per object."
    )


def _violated(spec: rules.Spec, of_spec: Sequence[rules.Rule[rules.Spec]], place: str) -> list[str]:
    return [f"{place}.{each.field} {each.message}" for each in of_spec if not each.holds(spec)]


class ServiceDefaults(fields.Block):
    """What keeps tables small that no policy targets; null for nothing.

    What deletes runs by these only on tables that the operator created or that say so. On others
    it only reports.
    """

    compaction: compaction_policy.CompactionRules | None = compaction_policy.CompactionRules(
        triggers=compaction_policy.Triggers(delta_commits=10)
    )
    retention: retention_policy.RetentionRules | None = retention_policy.RetentionRules(
        cleaning=retention_policy.Cleaning(
            keep=retention_policy.Keep(commits=retention_policy.COMMITS_KEPT)
        ),
        archiving=retention_policy.Archiving(),
    )

    @pydantic.model_validator(mode="after")
    def _check(self) -> Self:
        found: list[str] = []
        if self.compaction is not None:
            of_compaction = compaction_policy.compaction_rules(compaction_policy.CompactionRules)
            found += _violated(self.compaction, of_compaction, "compaction")
        if self.retention is not None:
            of_retention = retention_policy.retention_rules(retention_policy.RetentionRules)
            found += _violated(self.retention, of_retention, "retention")
        if found:
            raise ValueError(found[0])
        return self


class Slots(fields.Block):
    """How many TableActions run at once. Writers are not counted."""

    total: int = Field(default=50, ge=1, le=100_000, description="In all namespaces.")
    per_namespace: int = Field(default=20, ge=1, le=100_000, description="In one namespace.")
    per_lock: int = Field(
        default=10, ge=1, le=100_000, description="On tables of one LockProvider."
    )


class Configuration(fields.Block):
    """Everything that configures the operator itself."""

    data_roots: Annotated[tuple[fields.Path, ...], Field(min_length=1, max_length=64)] = Field(
        description=(
            "Roots of all tables and input. Relative paths are resolved below the first one."
        )
    )
    watch_namespaces: Annotated[tuple[fields.ObjectName, ...], Field(max_length=256)] = Field(
        default=(), description="Namespaces that the operator watches. Defaults to all."
    )
    service_accounts: ServiceAccounts = ServiceAccounts()
    allowed: Allowed = Allowed()
    image: Image = Image()
    resources: PodResources = PodResources()
    observers: Observers = Observers()
    lock_servers: LockServers = LockServers()
    limits: Limits = Limits()
    services: ServiceDefaults = ServiceDefaults()
    slots: Slots = Slots()


def parse(content: bytes, source: str) -> Configuration:
    """Return the configuration in a YAML file's content.

    Raises:
        InvalidInputError: The content does not fit; the message names source and fields.
    """
    found = manifests.parse_block(content, Configuration, source)
    if isinstance(found, Configuration):
        return found
    shown = "; ".join(str(problem) for problem in found[:_SHOWN_MAX])
    more = len(found) - _SHOWN_MAX
    raise errors.InvalidInputError(f"{shown}; and {more} more" if more > 0 else shown)
