"""IndexRequests on a real API server: from the object to its TableActions, and back to its end."""

from pathlib import Path
from typing import Any

import pytest

from hoodie_operator.api import kinds, resources
from support.kube import clusters, objects, programs
from support.operators import cluster_helpers, cluster_operator, cluster_place, rule_examples
from support.operators import operator_world as ow
from support.operators.rule_examples import edited

WAIT_S = cluster_place.WAIT_S
NAMES = ["column_stats", "bloom_filters"]
REQUEST = {"tableRef": {"name": "flights"}, "indexes": NAMES}
TABLE = edited(ow.TABLE, metadata={"enabled": True})
URI = "file:///data/flights"


@pytest.fixture
def lake(tmp_path: Path) -> cluster_helpers.Lake:
    """A storage of one test."""
    return cluster_helpers.Lake(tmp_path / "lake")


@pytest.fixture
def place(
    cluster: clusters.Cluster, namespace: str, lake: cluster_helpers.Lake
) -> cluster_place.Place:
    """The test's namespace, with a table that has a metadata table."""
    found = cluster_place.Place(cluster, namespace)
    with cluster_operator.leading(cluster.kubeconfig, namespace, lake.folder):
        found.create(kinds.LOCK_PROVIDER, "zk", ow.LOCK)
        found.create(kinds.HUDI_TABLE, "flights", TABLE)
        found.await_state(kinds.HUDI_TABLE, "flights", "Ready", "Ready")
    return found


def _metadata(place: cluster_place.Place) -> dict[str, Any]:
    found: dict[str, Any] = place.get(kinds.INDEX_REQUEST, "wanted")["metadata"]
    return found


def _indexes(lake: cluster_helpers.Lake) -> set[str]:
    config = lake.table(URI)
    assert config is not None
    return set(config.metadata_partitions) - {"files"}


def _merge(place: cluster_place.Place, **spec: object) -> None:
    path = objects.path(kinds.INDEX_REQUEST, place.namespace, "wanted")
    place.api.merge(path, {"spec": spec})


def _delete(place: cluster_place.Place) -> None:
    place.api.delete(objects.path(kinds.INDEX_REQUEST, place.namespace, "wanted"))


def _await_gone(place: cluster_place.Place) -> None:
    programs.wait_until(
        lambda: not place.is_there(kinds.INDEX_REQUEST, "wanted"), "the request is gone", WAIT_S
    )


def test_indexes_are_built_told_dropped_and_go_with_their_object(
    cluster: clusters.Cluster, place: cluster_place.Place, lake: cluster_helpers.Lake
) -> None:
    with cluster_operator.leading(cluster.kubeconfig, place.namespace, lake.folder):
        made = place.create(kinds.INDEX_REQUEST, "wanted", REQUEST)
        found = place.await_state(kinds.INDEX_REQUEST, "wanted", "Ready", "Ready")
        assert _indexes(lake) == set(NAMES)
        assert place.kstatus(kinds.INDEX_REQUEST, "wanted") == "Current"
        assert found["status"]["built"] == "2/2"
        assert found["status"]["validated"] == "Sample"
        (action,) = place.all(kinds.TABLE_ACTION)
        assert action["spec"]["type"] == "IndexBuild"
        assert action["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
        # What is complete needs the operator no more.
        programs.wait_until(
            lambda: "finalizers" not in _metadata(place), "it may go at once", WAIT_S
        )
        printed = cluster.kubectl("-n", place.namespace, "get", "hix", "wanted")
        assert '["column_stats","bloom_filters"]' in printed
        assert "2/2" in printed
        programs.wait_until(
            lambda: {"ActionAtWork", "Ready"} <= _told(place), "events are told", WAIT_S
        )

        _merge(place, ensure="Absent")
        place.await_state(kinds.INDEX_REQUEST, "wanted", "Absent", "Ready")
        assert not _indexes(lake)
        _merge(place, ensure="Present", deletionPolicy="Drop")
        place.await_state(kinds.INDEX_REQUEST, "wanted", "Ready", "Ready")
        assert _metadata(place)["finalizers"] == [resources.FINALIZER]
        _delete(place)
        _await_gone(place)
        assert not _indexes(lake)
        programs.wait_until(
            lambda: not place.all(kinds.TABLE_ACTION), "its actions go with it", WAIT_S
        )


def test_columns_of_statistics_are_chosen_and_changed(
    cluster: clusters.Cluster, place: cluster_place.Place, lake: cluster_helpers.Lake
) -> None:
    def columns() -> tuple[str, ...] | None:
        config = lake.table(URI)
        assert config is not None
        return config.statistics_columns

    with cluster_operator.leading(cluster.kubeconfig, place.namespace, lake.folder):
        place.create(kinds.INDEX_REQUEST, "wanted", {**REQUEST, "statisticsColumns": ["a"]})
        place.await_state(kinds.INDEX_REQUEST, "wanted", "Ready", "Ready")
        assert columns() == ("a",)
        _merge(place, statisticsColumns=["a", "b"])
        programs.wait_until(lambda: columns() == ("a", "b"), "the columns are these", WAIT_S)
        place.await_state(kinds.INDEX_REQUEST, "wanted", "Ready", "Ready")
        assert _indexes(lake) == set(NAMES)


def _builds(lake: cluster_helpers.Lake) -> int:
    """Return how many runs of builds were started."""
    return sum("indexbuild" in each for each in lake.started)


def _told(place: cluster_place.Place) -> set[str]:
    """Return the reasons of the events about IndexRequests."""
    events = place.items(resources.EVENT.path(place.namespace))
    return {e["reason"] for e in events if e["involvedObject"]["kind"] == "IndexRequest"}


def test_build_survives_its_leader_and_is_given_up_with_its_object(
    cluster: clusters.Cluster, place: cluster_place.Place, lake: cluster_helpers.Lake
) -> None:
    held = cluster_operator.Runs.HELD
    place.create(kinds.INDEX_REQUEST, "wanted", REQUEST)
    for number in range(2):
        with cluster_operator.leading(cluster.kubeconfig, place.namespace, lake.folder, runs=held):
            # What comes into being meanwhile shows that the operator is at work.
            other = edited(rule_examples.TABLE, storage={"path": f"other{number}"})
            place.create(kinds.HUDI_TABLE, f"other{number}", other)
            place.await_state(kinds.HUDI_TABLE, f"other{number}", "Provisioning", "Creating")
            place.await_state(kinds.INDEX_REQUEST, "wanted", "Building", "ActionAtWork")
            programs.wait_until(lambda: _builds(lake) == 1, "it is built", WAIT_S)
    # No second build was begun; and without an operator the object does not go.
    assert _builds(lake) == 1
    _delete(place)
    assert "deletionTimestamp" in _metadata(place)
    with cluster_operator.leading(cluster.kubeconfig, place.namespace, lake.folder, runs=held):
        _await_gone(place)
    assert not _indexes(lake)


def test_table_of_a_single_writer_is_named(
    cluster: clusters.Cluster, place: cluster_place.Place, lake: cluster_helpers.Lake
) -> None:
    single = edited(ow.SINGLE, storage={"path": "single"})
    with cluster_operator.leading(cluster.kubeconfig, place.namespace, lake.folder):
        place.create(kinds.HUDI_TABLE, "single", single)
        place.create(kinds.INDEX_REQUEST, "wanted", {**REQUEST, "tableRef": {"name": "single"}})
        place.await_state(kinds.INDEX_REQUEST, "wanted", "Stalled", "OperationNotAllowed")
        assert place.kstatus(kinds.INDEX_REQUEST, "wanted") == "Failed"
        assert "finalizers" not in _metadata(place)
        assert not place.all(kinds.TABLE_ACTION)
