"""The operator's own configuration: one YAML file, the same in a cluster and without one.

Everything has a default but the data roots. What only pods need does nothing where runs are
processes: images, service accounts, resources of pods, namespaces, observers.
"""

import enum
from typing import Annotated, Final

from pydantic import Field, StringConstraints

from hoodie import errors
from hoodie_operator.api import execution, fields, manifests

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
    """The image of everything that the operator starts."""

    name: fields.Image = "hudi-operator:latest"
    pull_policy: PullPolicy = PullPolicy.IF_NOT_PRESENT
    pull_secrets: execution.Secrets = ()


def _sized(cpu: str, memory: str, limit: str) -> execution.Resources:
    return execution.Resources(
        requests=execution.Amounts(cpu=cpu, memory=memory),
        limits=execution.Amounts(memory=limit),
    )


class PodResources(fields.Block):
    """What pods are given where their objects say nothing."""

    runs: execution.Resources = _sized("500m", "1Gi", "2Gi")
    executors: execution.Resources = _sized("1", "2Gi", "2Gi")
    observers: execution.Resources = _sized("50m", "192Mi", "512Mi")
    lock_servers: execution.Resources = _sized("100m", "384Mi", "512Mi")


class ServiceAccounts(fields.Block):
    """As whom pods run."""

    default: fields.ObjectReference = Field(
        default="default", description="Where a table names none."
    )
    allowed: Annotated[tuple[fields.ObjectReference, ...], Field(max_length=256)] = Field(
        default=(), description="Others that a table may name."
    )


class Allowed(fields.Block):
    """What tables and runs may take of their namespace, by names and patterns; `*` for any letters.

    Who declares tables may have no right to read a Secret or to mount a claim: the pods of a table
    do both, and their runs tell what they have read.
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
            "Environment variables of storages and runtimes. Those that interpreters obey are "
            "refused by the kinds themselves."
        ),
    )


class Observers(fields.Block):
    """How tables and sources are looked at."""

    busy_interval: fields.Duration = Field(
        default="500ms", description="Between two looks at a table with a run at work."
    )
    idle_interval: fields.Duration = Field(
        default="30s", description="Between two looks at a table at rest."
    )
    source_interval: fields.Duration = Field(
        default="10s", description="Between two looks at a source that is written."
    )
    threads: int = Field(default=8, ge=1, le=64, description="Looks at one time, of an observer.")
    time_limit: fields.Duration = Field(default="20s", description="Of one look.")
    memory: fields.Memory = Field(
        default="128Mi",
        description=(
            "What the operator holds of what observers tell; where it is used up, namespaces that "
            "hold more than an equal share are refused."
        ),
    )


class LockServers(fields.Block):
    """The ZooKeeper servers of LockProviders with `embedded`."""

    volume_size: fields.Memory = Field(
        default="1Gi", description="Of the claim that keeps a server's data over restarts."
    )
    storage_class: fields.ObjectReference | None = Field(
        default=None, description="Of the claim; by default the cluster's."
    )
    allowed: Annotated[tuple[HostPattern, ...], Field(max_length=256)] = Field(
        default=(),
        description=(
            "Hosts that LockProviders without `embedded` may name, without port; `*` stands for "
            "any letters. Addresses of the machine itself have to be named one by one."
        ),
    )


class Limits(fields.Block):
    """How long things may take, and how many there may be."""

    reference_grace: fields.Duration = Field(
        default="10s", description="An object that another refers to may be on its way so long."
    )
    schedule_deadline: fields.Duration = Field(
        default="10m", description="For a pod to be created and to find a node."
    )
    image_deadline: fields.Duration = Field(
        default="10m", description="For its image to be pulled and its container to be made."
    )
    start_deadline: fields.Duration = Field(
        default="3m", description="For a run to tell of progress, once its container is there."
    )
    stop_grace: fields.Duration = Field(
        default="1m", description="Between telling a run to stop and ending it."
    )
    runs_kept: int = Field(default=5, ge=1, le=100, description="Ended attempts of each object.")


class Configuration(fields.Block):
    """Everything that the operator is told beside the objects."""

    data_roots: Annotated[tuple[fields.Path, ...], Field(min_length=1, max_length=64)] = Field(
        description=(
            "What every table and input lies below; where relative paths begin, the first one."
        )
    )
    watch_namespaces: Annotated[tuple[fields.ObjectName, ...], Field(max_length=256)] = Field(
        default=(), description="By default all."
    )
    service_accounts: ServiceAccounts = ServiceAccounts()
    allowed: Allowed = Allowed()
    image: Image = Image()
    resources: PodResources = PodResources()
    observers: Observers = Observers()
    lock_servers: LockServers = LockServers()
    limits: Limits = Limits()


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
