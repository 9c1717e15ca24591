"""What Spark is told so that its executors are pods of this run."""

import pytest

from hoodie import errors
from hoodie.contract import engine_specs
from hoodie_jobs import cancellation
from hoodie_jobs.spark import kubernetes, runtime, session

EXECUTORS = engine_specs.KubernetesExecutors(
    namespace="sales",
    instances=2,
    name_prefix="w-orders-3",
    image="hudi:1",
    template_path="/etc/hudi-operator/executor.yaml",
    cores=2,
    cpu_request="500m",
    heap_mib=1024,
    overhead_mib=512,
    labels={"hudi.dev/attempt": "3"},
)
POD = {"HUDI_OPERATOR_POD_IP": "10.1.2.3", "HUDI_OPERATOR_POD_NAME": "writer-orders-3-x"}


def spec_of(conf: dict[str, str]) -> engine_specs.EngineSpec:
    return engine_specs.EngineSpec(
        kind=engine_specs.EngineKind.SPARK, spark_conf=conf, executors=EXECUTORS
    )


def test_driver_is_found_by_its_pod_and_owns_its_executors() -> None:
    found = kubernetes.properties(EXECUTORS, POD, "/python")
    assert found["spark.driver.host"] == found["spark.driver.bindAddress"] == "10.1.2.3"
    assert found["spark.kubernetes.driver.pod.name"] == "writer-orders-3-x"
    assert found["spark.executor.memory"] == "1024m"
    assert found["spark.dynamicAllocation.enabled"] == "false"
    assert found["spark.kubernetes.executor.request.cores"] == "500m"
    assert found["spark.kubernetes.executor.label.hudi.dev/attempt"] == "3"


@pytest.mark.parametrize("missing", POD)
def test_driver_outside_of_a_pod_is_refused(missing: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=missing):
        kubernetes.properties(EXECUTORS, {**POD, missing: ""}, "/python")


@pytest.mark.parametrize(
    "key",
    ["spark.master", "spark.kubernetes.executor.volumes.hostPath.h.mount.path"],
)
def test_property_by_which_a_user_would_choose_the_pods_is_refused(key: str) -> None:
    asked = {"spark.ui.enabled": "false", key: "x"}
    with pytest.raises(errors.ConfigurationError, match=f"expected no {key}$"):
        runtime.start(spec_of(asked), cancellation.Cancellation())


def test_what_the_operator_itself_tells_of_pods_is_taken() -> None:
    kubernetes.check({"spark.kubernetes.container.image.pullPolicy": "Always"})


@pytest.mark.parametrize("asked", [{}, {"spark.python.daemon.module": "pyspark.daemon"}])
def test_pods_of_the_drivers_image_have_our_daemon_unless_the_user_has_another(
    asked: dict[str, str],
) -> None:
    found = runtime.properties(spec_of(asked), POD)
    assert found["spark.kubernetes.container.image"] == "hudi:1"
    assert found | session.OWN_DAEMON | asked == found
