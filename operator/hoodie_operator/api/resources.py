"""What the API server calls things: the resources that the operator reads and makes, and labels.

Everything that goes to the API server or comes from it is a `Manifest`, a plain dictionary: typed
models of all of Kubernetes would take more memory than the operator itself.
"""

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from hoodie_operator.api import group, kinds

Manifest: TypeAlias = dict[str, Any]

MANAGER: Final = "hudi-operator"
"""Our name as a field manager, and the value of the label by which what we make is found."""

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGED_SELECTOR: Final = f"{MANAGED_BY}={MANAGER}"
"""Jobs and Pods are watched by this selector: the pods of executors need the label, too."""

OWNER_KIND: Final = f"{group.GROUP}/owner-kind"
OWNER_NAME: Final = f"{group.GROUP}/owner-name"
OWNER_UID: Final = f"{group.GROUP}/owner-uid"
ATTEMPT: Final = f"{group.GROUP}/attempt"
TABLE: Final = f"{group.GROUP}/table"
"""Labels of the Job and of every Pod of an attempt."""

FINALIZER: Final = f"{group.GROUP}/data"
"""Of HudiTables whose data goes with them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One kind of object of the API server, namespaced.

    Attributes:
        group: Empty for the core.
        version: Of the group.
        plural: As in paths.
        kind: As in manifests.
    """

    group: str
    version: str
    plural: str
    kind: str

    @property
    def api_version(self) -> str:
        """As in manifests."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, part: str = "") -> str:
        """Return the path of an object, of all of a namespace, or of all.

        Args:
            namespace: None for all namespaces.
            name: None for all objects.
            part: A subresource.
        """
        parts = ["/apis" if self.group else "/api", self.api_version]
        if namespace is not None:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name is not None:
            parts.append(name)
        if part:
            parts.append(part)
        return "/".join(parts)

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


def _core(plural: str, kind: str) -> Resource:
    return Resource(group="", version="v1", plural=plural, kind=kind)


CONFIG_MAP: Final = _core("configmaps", "ConfigMap")
EVENT: Final = _core("events", "Event")
PERSISTENT_VOLUME_CLAIM: Final = _core("persistentvolumeclaims", "PersistentVolumeClaim")
POD: Final = _core("pods", "Pod")
SECRET: Final = _core("secrets", "Secret")
SERVICE: Final = _core("services", "Service")
SERVICE_ACCOUNT: Final = _core("serviceaccounts", "ServiceAccount")
DEPLOYMENT: Final = Resource(group="apps", version="v1", plural="deployments", kind="Deployment")
STATEFUL_SET: Final = Resource(
    group="apps", version="v1", plural="statefulsets", kind="StatefulSet"
)
JOB: Final = Resource(group="batch", version="v1", plural="jobs", kind="Job")
LEASE: Final = Resource(group="coordination.k8s.io", version="v1", plural="leases", kind="Lease")
NETWORK_POLICY: Final = Resource(
    group="networking.k8s.io", version="v1", plural="networkpolicies", kind="NetworkPolicy"
)
OURS: Final = tuple(
    Resource(group=group.GROUP, version=group.VERSION, plural=kind.plural, kind=kind.name)
    for kind in kinds.KINDS
)
"""The resources of our kinds."""

WATCHED: Final = (*OURS, JOB, POD)
"""What has to be known whole before anything is decided."""

_ALL: Final = (
    CONFIG_MAP,
    EVENT,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    DEPLOYMENT,
    STATEFUL_SET,
    JOB,
    LEASE,
    NETWORK_POLICY,
    *OURS,
)
_BY_TYPE: Final = {(each.api_version, each.kind): each for each in _ALL}
BY_KIND: Final = {each.kind: each for each in _ALL}


def of(manifest: Manifest) -> Resource:
    """Return the resource that a manifest is of.

    Raises:
        KeyError: The operator makes none of that type.
    """
    return _BY_TYPE[manifest["apiVersion"], manifest["kind"]]


def version_of(manifest: Manifest) -> int:
    """Return the resource version, which grows with every change of anything in the cluster."""
    return int(manifest["metadata"]["resourceVersion"])
