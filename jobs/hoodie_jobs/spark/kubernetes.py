"""Spark in client mode inside a pod: which properties make pods of Kubernetes its executors.

The driver is found by its pod's IP (`spark.driver.bindAddress` of 0.0.0.0 would be dialled as it
stands), and named by its pod, so that the executors are owned by it and go with it. Spark gives
each executor a folder of its own at `spark.local.dir`, which no template may therefore mount too.
"""

from collections.abc import Mapping
from typing import Final

from hoodie import errors
from hoodie.contract import engine_specs

POD_IP_VARIABLE: Final = "HUDI_OPERATOR_POD_IP"
POD_NAME_VARIABLE: Final = "HUDI_OPERATOR_POD_NAME"
"""What a driver's pod is told of itself by the downward API."""

_API_SERVER: Final = "k8s://https://kubernetes.default.svc"
_LOCAL_FOLDER: Final = "/work/spark"
_POD_PROPERTIES: Final = "spark.kubernetes."
_TOLD_BY_OPERATOR: Final = frozenset({"spark.kubernetes.container.image.pullPolicy"})
_DRIVER_PORT: Final = 7078
_BLOCKS_PORT: Final = 7079


def check(asked: Mapping[str, str]) -> None:
    """Refuse properties by which a user would choose the pods.

    What they would mount, and as whom they would run, is what the operator keeps to the restricted
    standard of pods. Its own rule refuses them first; a spec may be older than that.

    Args:
        asked: The Spark properties of the spec.

    Raises:
        ConfigurationError: There is one.
    """
    refused = [
        key
        for key in sorted(asked)
        if key == "spark.master"
        or (key.startswith(_POD_PROPERTIES) and key not in _TOLD_BY_OPERATOR)
    ]
    if refused:
        raise errors.ConfigurationError(
            f"the operator sets the executors' pods, expected no {', '.join(refused)}"
        )


def properties(
    executors: engine_specs.KubernetesExecutors, variables: Mapping[str, str], python: str
) -> dict[str, str]:
    """Return the properties of a driver.

    Args:
        executors: What its executors are to be.
        variables: The environment of the driver's process.
        python: The interpreter of the image.

    Raises:
        ConfigurationError: The process is in no pod that was told of itself.
    """
    missing = [name for name in (POD_IP_VARIABLE, POD_NAME_VARIABLE) if not variables.get(name)]
    if missing:
        raise errors.ConfigurationError(
            f"executors in pods need a driver in a pod, and {', '.join(missing)} is not set"
        )
    address = variables[POD_IP_VARIABLE]
    found = {
        "spark.master": _API_SERVER,
        "spark.submit.deployMode": "client",
        "spark.driver.host": address,
        "spark.driver.bindAddress": address,
        "spark.driver.port": str(_DRIVER_PORT),
        "spark.driver.blockManager.port": str(_BLOCKS_PORT),
        "spark.blockManager.port": str(_BLOCKS_PORT),
        "spark.local.dir": _LOCAL_FOLDER,
        "spark.pyspark.python": python,
        "spark.kubernetes.namespace": executors.namespace,
        "spark.kubernetes.driver.pod.name": variables[POD_NAME_VARIABLE],
        "spark.kubernetes.executor.podNamePrefix": executors.name_prefix,
        "spark.kubernetes.executor.podTemplateFile": executors.template_path,
        "spark.kubernetes.container.image": executors.image,
        "spark.executor.instances": str(executors.instances),
        "spark.executor.cores": str(executors.cores),
        "spark.executor.memory": f"{executors.heap_mib}m",
        "spark.executor.memoryOverhead": f"{executors.overhead_mib}m",
        "spark.dynamicAllocation.enabled": "false",
    }
    if executors.cpu_request is not None:
        found["spark.kubernetes.executor.request.cores"] = executors.cpu_request
    for key, value in executors.labels.items():
        found[f"spark.kubernetes.executor.label.{key}"] = value
    return found
