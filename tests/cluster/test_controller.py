"""The controller on a real API server: what it makes of objects, and of what is refused."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hoodie_operator.api import kinds, resources
from support.kube import clusters, control_plane, objects, programs
from support.operators import cluster_helpers, cluster_operator, cluster_place, rule_examples
from support.operators.rule_examples import edited

WAIT_S = cluster_place.WAIT_S


@pytest.fixture
def lake(tmp_path: Path) -> cluster_helpers.Lake:
    """A storage of one test."""
    return cluster_helpers.Lake(tmp_path / "lake")


@pytest.fixture
def leader(cluster: clusters.Cluster, namespace: str, lake: cluster_helpers.Lake) -> Iterator[None]:
    """An operator of the test's namespace."""
    with cluster_operator.leading(cluster.kubeconfig, namespace, lake.folder):
        yield


@pytest.fixture
def place(cluster: clusters.Cluster, namespace: str) -> cluster_place.Place:
    """The test's namespace."""
    return cluster_place.Place(cluster, namespace)


@pytest.mark.usefixtures("leader")
def test_table_comes_into_being(place: cluster_place.Place, lake: cluster_helpers.Lake) -> None:
    made = place.create(kinds.HUDI_TABLE, "flights", rule_examples.TABLE)
    found = place.await_state(kinds.HUDI_TABLE, "flights", "Ready", "Ready")
    assert place.kstatus(kinds.HUDI_TABLE, "flights") == "Current"
    assert found["status"]["observedGeneration"] == 1
    # Nothing is put on what users own.
    for field in ("annotations", "finalizers", "labels", "ownerReferences"):
        assert field not in found["metadata"], field
    assert found["spec"] == made["spec"]
    assert not place.all(kinds.TABLE_ACTION)
    (job,) = place.jobs()
    assert job["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    assert found["status"]["runs"]["history"][0]["outcome"] == "Succeeded"
    assert len(lake.started) == 1
    # Events are told beside everything else.
    programs.wait_until(lambda: {"Creating", "Ready"} <= {*_told(place)}, "it is told", WAIT_S)
    assert sorted(_told(place)) == sorted({*_told(place)})


def _told(place: cluster_place.Place) -> list[str]:
    """Return the reasons of the events about tables."""
    events = place.items(resources.EVENT.path(place.namespace))
    return [each["reason"] for each in events if each["involvedObject"]["kind"] == "HudiTable"]


def test_second_release_over_one_namespace_is_told_of(
    cluster: clusters.Cluster, namespace: str, lake: cluster_helpers.Lake
) -> None:
    place = cluster_place.Place(cluster, namespace)
    here = (cluster.kubeconfig, namespace, lake.folder)

    def warned() -> bool:
        events = place.items(resources.EVENT.path(namespace))
        return any(
            (each["reason"], each["type"]) == ("OtherOperator", "Warning") for each in events
        )

    with cluster_operator.leading(*here), cluster_operator.leading(*here, home="default"):
        for number in range(40):
            name = f"t{number}"
            spec = edited(rule_examples.TABLE, storage={"path": name})
            place.create(kinds.HUDI_TABLE, name, spec)
            place.await_state(kinds.HUDI_TABLE, name, "Ready", "Ready")
            if warned():
                break
        programs.wait_until(warned, "the other release is told of", WAIT_S)


@pytest.mark.usefixtures("leader")
def test_status_that_does_not_change_is_not_written_again(place: cluster_place.Place) -> None:
    place.create(kinds.HUDI_TABLE, "flights", rule_examples.TABLE)
    place.await_state(kinds.HUDI_TABLE, "flights", "Ready", "Ready")
    version = place.get(kinds.HUDI_TABLE, "flights")["metadata"]["resourceVersion"]
    # What comes into being meanwhile shows that the operator is at work.
    place.create(
        kinds.HUDI_TABLE, "others", edited(rule_examples.TABLE, storage={"path": "others"})
    )
    place.await_state(kinds.HUDI_TABLE, "others", "Ready", "Ready")
    assert place.get(kinds.HUDI_TABLE, "flights")["metadata"]["resourceVersion"] == version


@pytest.mark.usefixtures("leader")
def test_data_goes_before_its_table_where_it_is_to_go(
    place: cluster_place.Place, lake: cluster_helpers.Lake
) -> None:
    spec = edited(rule_examples.TABLE, deletionPolicy="Delete", deletionProtection=False)
    place.create(kinds.HUDI_TABLE, "flights", spec)
    found = place.await_state(kinds.HUDI_TABLE, "flights", "Ready", "Ready")
    assert found["metadata"]["finalizers"] == [resources.FINALIZER]
    assert lake.table("file:///data/flights") is not None
    place.api.delete(objects.path(kinds.HUDI_TABLE, place.namespace, "flights"))
    programs.wait_until(
        lambda: not place.is_there(kinds.HUDI_TABLE, "flights"), "the table is gone", WAIT_S
    )
    assert lake.table("file:///data/flights") is None


@pytest.mark.usefixtures("leader")
def test_table_whose_data_stays_is_let_go(
    place: cluster_place.Place, lake: cluster_helpers.Lake
) -> None:
    spec = edited(rule_examples.TABLE, deletionPolicy="Delete", deletionProtection=False)
    place.create(kinds.HUDI_TABLE, "flights", spec)
    place.await_state(kinds.HUDI_TABLE, "flights", "Ready", "Ready")
    path = objects.path(kinds.HUDI_TABLE, place.namespace, "flights")
    place.api.merge(path, {"spec": {"deletionPolicy": "Retain"}})
    programs.wait_until(
        lambda: "finalizers" not in place.get(kinds.HUDI_TABLE, "flights")["metadata"],
        "the finalizer is taken off",
        WAIT_S,
    )
    place.api.delete(path)
    assert not place.is_there(kinds.HUDI_TABLE, "flights")
    assert lake.table("file:///data/flights") is not None


@pytest.mark.usefixtures("leader")
def test_what_a_quota_refuses_is_told_with_the_next_try_and_done_when_it_may_be(
    place: cluster_place.Place,
) -> None:
    quotas = f"/api/v1/namespaces/{place.namespace}/resourcequotas"
    hard = {"count/jobs.batch": "0"}
    quota = place.api.create(quotas, {"metadata": {"name": "none"}, "spec": {"hard": hard}})
    programs.wait_until(
        lambda: "hard" in place.api.get(f"{quotas}/none").get("status", {}), "the quota holds"
    )
    place.create(kinds.HUDI_TABLE, "flights", rule_examples.TABLE)
    blocked = place.await_state(kinds.HUDI_TABLE, "flights", "Pending", "ApiRefused")
    message = blocked["status"]["conditions"][0]["message"]
    assert "exceeded quota" in message
    assert "next try at 20" in message
    assert place.kstatus(kinds.HUDI_TABLE, "flights") == "InProgress"
    place.api.delete(f"{quotas}/{quota['metadata']['name']}")
    place.await_state(kinds.HUDI_TABLE, "flights", "Ready", "Ready")
    assert len(place.jobs()) == 1


@pytest.mark.usefixtures("leader")
def test_object_made_anew_under_its_name_is_another_one(
    place: cluster_place.Place, lake: cluster_helpers.Lake
) -> None:
    for count in (1, 2, 3):
        place.create(kinds.HUDI_TABLE, "flights", rule_examples.TABLE)
        found = place.await_state(kinds.HUDI_TABLE, "flights", "Ready", "Ready")
        assert len(lake.started) == count
        assert found["metadata"]["uid"][:6] in lake.started[-1]
        place.api.delete(objects.path(kinds.HUDI_TABLE, place.namespace, "flights"))


def test_operator_that_begins_anew_starts_nothing_anew(
    cluster: clusters.Cluster, place: cluster_place.Place, lake: cluster_helpers.Lake
) -> None:
    for _ in range(3):
        with cluster_operator.leading(
            cluster.kubeconfig, place.namespace, lake.folder, runs=cluster_operator.Runs.HELD
        ):
            programs.wait_until(lambda: _holder(place) != "", "it leads", WAIT_S)
            if not place.all(kinds.HUDI_TABLE):
                place.create(kinds.HUDI_TABLE, "flights", rule_examples.TABLE)
            programs.wait_until(lambda: len(place.jobs()) == 1, "a run was started", WAIT_S)
            place.await_state(kinds.HUDI_TABLE, "flights", "Provisioning", "Creating")
    assert len(lake.started) == 1


def test_leader_that_begins_tells_nothing_less_of_what_is_ready(
    cluster: clusters.Cluster, place: cluster_place.Place, lake: cluster_helpers.Lake
) -> None:
    with cluster_operator.leading(cluster.kubeconfig, place.namespace, lake.folder):
        place.create(kinds.HUDI_TABLE, "flights", rule_examples.TABLE)
        found = place.await_state(kinds.HUDI_TABLE, "flights", "Ready", "Ready")
    with cluster_operator.leading(cluster.kubeconfig, place.namespace, lake.folder):
        # What comes into being meanwhile shows that the operator is at work.
        others = edited(rule_examples.TABLE, storage={"path": "others"})
        place.create(kinds.HUDI_TABLE, "others", others)
        place.await_state(kinds.HUDI_TABLE, "others", "Ready", "Ready")
    version = found["metadata"]["resourceVersion"]
    assert place.get(kinds.HUDI_TABLE, "flights")["metadata"]["resourceVersion"] == version


def test_old_attempts_are_forgotten_once_they_are_told_of(
    cluster: clusters.Cluster, place: cluster_place.Place, lake: cluster_helpers.Lake
) -> None:
    with cluster_operator.leading(
        cluster.kubeconfig, place.namespace, lake.folder, runs=cluster_operator.Runs.HELD
    ):
        place.create(kinds.HUDI_TABLE, "flights", rule_examples.TABLE)
        for attempt in (1, 2, 3):
            programs.wait_until(lambda: _is_at_work(place), "an attempt is at work", WAIT_S)
            (job,) = [each for each in place.jobs() if not _has_ended(each)]
            assert job["metadata"]["labels"][resources.ATTEMPT] == str(attempt)
            path = resources.JOB.path(place.namespace, job["metadata"]["name"])
            ended = {"metadata": {"annotations": {cluster_helpers.ENDED: "Storage"}}}
            place.api.merge(path, ended)
        programs.wait_until(
            lambda: _attempts(place) == {"2", "3"} or _attempts(place) == {"3", "4"},
            "the first attempt is forgotten",
            WAIT_S,
        )


def _is_at_work(place: cluster_place.Place) -> bool:
    return any(not _has_ended(each) for each in place.jobs())


def _has_ended(job: dict[str, Any]) -> bool:
    return cluster_helpers.ENDED in job["metadata"]["annotations"]


def _attempts(place: cluster_place.Place) -> set[str]:
    return {each["metadata"]["labels"][resources.ATTEMPT] for each in place.jobs()}


def test_object_that_slipped_past_the_schema_says_so(
    own_control_plane: control_plane.ControlPlane, lake: cluster_helpers.Lake
) -> None:
    place = cluster_place.of_own(own_control_plane)
    cluster = place.cluster
    definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/writers.hudi.dev"
    versions = cluster.api.get(definition)["spec"]["versions"]
    schema = versions[0]["schema"]["openAPIV3Schema"]["properties"]
    schema["spec"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    versions[0].pop("selectableFields")
    cluster.api.merge(definition, {"spec": {"versions": versions}})
    broken = {"tableRef": {"name": "flights"}, "source": "nonsense"}
    programs.wait_until(
        lambda: (
            cluster.api.request(
                "POST",
                objects.collection(kinds.WRITER, place.namespace),
                objects.document(kinds.WRITER, "left", broken),
            ).is_accepted
        ),
        "the loose schema holds",
    )
    with cluster_operator.leading(cluster.kubeconfig, place.namespace, lake.folder):
        found = place.await_state(kinds.WRITER, "left", "Stalled", "InvalidSpec")
        message = found["status"]["conditions"][0]["message"]
        assert "cannot be read by this version of the operator" in message
        assert "source" in message
        # It keeps nobody else from being worked on.
        place.create(kinds.HUDI_TABLE, "flights", rule_examples.TABLE)
        place.await_state(kinds.HUDI_TABLE, "flights", "Ready", "Ready")


def test_leader_that_is_killed_is_followed_and_its_runs_go_on(
    cluster: clusters.Cluster, place: cluster_place.Place, lake: cluster_helpers.Lake
) -> None:
    processes = {
        name: cluster_operator.start(
            cluster.kubeconfig, place.namespace, lake.folder, name, runs=cluster_operator.Runs.HELD
        )
        for name in ("one", "two")
    }
    try:
        place.create(kinds.HUDI_TABLE, "flights", rule_examples.TABLE)
        # The Job is there before the lake's note of it, which is what is compared in the end.
        programs.wait_until(lambda: len(lake.started) == 1, "a run was started", WAIT_S)
        leader = _holder(place)
        number = _transitions(place)
        processes[leader].kill()
        programs.wait_until(lambda: _holder(place) not in ("", leader), "another leads", WAIT_S)
        assert _transitions(place) > number
        # The run that the first one started is found, and what follows from its end is done.
        (job,) = place.jobs()
        lake.work(lake.asked(job["metadata"]["name"]))
        path = resources.JOB.path(place.namespace, job["metadata"]["name"])
        ended = {"metadata": {"annotations": {cluster_helpers.ENDED: cluster_helpers.SUCCESS}}}
        place.api.merge(path, ended)
        place.await_state(kinds.HUDI_TABLE, "flights", "Ready", "Ready")
        assert len(lake.started) == 1
    finally:
        for process in processes.values():
            process.kill()
            process.wait()


def test_leader_that_was_paused_ends_when_another_leads(
    cluster: clusters.Cluster, place: cluster_place.Place, lake: cluster_helpers.Lake
) -> None:
    processes = {
        name: cluster_operator.start(cluster.kubeconfig, place.namespace, lake.folder, name)
        for name in ("one", "two")
    }
    try:
        programs.wait_until(lambda: _holder(place) != "", "somebody leads", WAIT_S)
        paused = processes[leader := _holder(place)]
        paused.send_signal(signal.SIGSTOP)
        programs.wait_until(lambda: _holder(place) not in ("", leader), "another leads", WAIT_S)
        paused.send_signal(signal.SIGCONT)
        assert paused.wait(30) == 1
    finally:
        for process in processes.values():
            process.kill()
            process.wait()


def _lease(place: cluster_place.Place) -> dict[str, Any]:
    path = resources.LEASE.path(place.namespace, cluster_operator.LEASE)
    answer = place.api.request("GET", path)
    return answer.body["spec"] if answer.is_accepted else {}


def _holder(place: cluster_place.Place) -> str:
    return str(_lease(place).get("holderIdentity", "")).partition("_")[0]


def _transitions(place: cluster_place.Place) -> int:
    return int(_lease(place)["leaseTransitions"])
