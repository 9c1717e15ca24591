"""The controller while its API server fails."""

import os
import random
import signal
import threading
from pathlib import Path

import pytest

from hoodie_operator.api import kinds, resources
from support.kube import clusters, fault_proxy, programs
from support.operators import (
    cluster_helpers,
    cluster_operator,
    cluster_place,
    pretended_kubelet,
    rule_examples,
)
from support.operators.rule_examples import edited

FAULTS = (
    fault_proxy.Refuse(status=409),
    fault_proxy.Refuse(status=429, retry_after_s=1),
    fault_proxy.Refuse(status=500),
    fault_proxy.Refuse(status=503),
    fault_proxy.LoseAnswer(),
)

SOON_S = 40.0


@pytest.fixture
def lake(tmp_path: Path) -> cluster_helpers.Lake:
    """A storage of one test."""
    return cluster_helpers.Lake(tmp_path / "lake")


def _is_change(call: fault_proxy.Call) -> bool:
    """Return whether a call is one of the controller's changes: of no lease, and no event."""
    is_ours = call.agent == resources.MANAGER and call.is_change
    return is_ours and "/leases" not in call.path and "/events" not in call.path


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_refusals_and_lost_answers_delay_and_harm_nothing(
    cluster: clusters.Cluster,
    namespace: str,
    lake: cluster_helpers.Lake,
    tmp_path: Path,
    seed: int,
) -> None:
    place = cluster_place.Place(cluster, namespace)
    kubelet = pretended_kubelet.PretendedKubelet(place, lake)
    names = ("one", "two", "three")
    token = cluster.api.token
    assert token is not None
    chance = random.Random(seed)
    with fault_proxy.FaultProxy(cluster.api, tmp_path / "proxy") as proxy:
        for fault in FAULTS:
            proxy.add(
                fault_proxy.Rule(
                    matches=lambda call: _is_change(call) and chance.random() < 0.08, fault=fault
                )
            )

        def are_ready() -> bool:
            kubelet.work()
            return all(place.ready(kinds.HUDI_TABLE, name) == ("Ready", "Ready") for name in names)

        runs = cluster_operator.Runs.PODS
        with cluster_operator.leading(proxy.kubeconfig(token), namespace, lake.folder, runs=runs):
            for name in names:
                storage = {"path": name, "volumes": [pretended_kubelet.MISSING_VOLUME]}
                spec = edited(rule_examples.TABLE, storage=storage)
                place.create(kinds.HUDI_TABLE, name, spec)
            # Each refusal of an object in a row doubles its wait, to two minutes at most.
            programs.wait_until(are_ready, "all tables are ready", 4 * cluster_place.WAIT_S)
            proxy.heal()
    assert sorted(len(pods) for pods in kubelet.ran.values()) == [1, 1, 1]
    told = [each["status"]["runs"]["history"] for each in place.all(kinds.HUDI_TABLE)]
    assert [[each["outcome"] for each in history] for history in told] == [["Succeeded"]] * 3


def test_lock_server_that_was_refused_is_made_when_the_refusal_is_over(
    cluster: clusters.Cluster, namespace: str, lake: cluster_helpers.Lake, tmp_path: Path
) -> None:
    place = cluster_place.Place(cluster, namespace)
    once = fault_proxy.Rule(
        matches=lambda call: _is_change(call) and "/statefulsets/" in call.path,
        fault=fault_proxy.Refuse(status=422),
        times=1,
    )
    token = cluster.api.token
    assert token is not None
    with fault_proxy.FaultProxy(cluster.api, tmp_path / "proxy") as proxy:
        proxy.add(once)
        with cluster_operator.leading(proxy.kubeconfig(token), namespace, lake.folder):
            place.create(kinds.LOCK_PROVIDER, "zk", rule_examples.LOCK)
            # The operator takes long to start beside other tests.
            refused = "the first try is refused"
            programs.wait_until(lambda: once.times == 0, refused, cluster_place.WAIT_S)
            # Not only when all that is served is looked after again, a minute later.
            programs.wait_until(
                lambda: bool(place.items(resources.STATEFUL_SET.path(namespace))),
                "the lock server is made",
                SOON_S,
            )


def test_leader_that_was_paused_changes_nothing_beside_its_successor(
    cluster: clusters.Cluster,
    namespace: str,
    lake: cluster_helpers.Lake,
    tmp_path: Path,
) -> None:
    place = cluster_place.Place(cluster, namespace)
    token = cluster.api.token
    assert token is not None
    is_paused = threading.Event()
    with fault_proxy.FaultProxy(cluster.api, tmp_path / "proxy") as proxy:
        first = cluster_operator.start(proxy.kubeconfig(token), namespace, lake.folder, "one")

        def pause() -> None:
            """Stop the leader while it asks for a Job, and keep from it that it lost the lease."""
            is_lease = fault_proxy.Rule(
                matches=lambda call: "/leases" in call.path, fault=fault_proxy.Freeze()
            )
            proxy.add(is_lease)
            os.kill(first.pid, signal.SIGSTOP)
            is_paused.set()

        proxy.add(
            fault_proxy.Rule(
                matches=lambda call: _is_change(call) and call.path.endswith("/jobs"),
                fault=fault_proxy.Halt(then=pause, is_done=False),
                times=1,
            )
        )
        place.create(kinds.HUDI_TABLE, "flights", rule_examples.TABLE)
        assert is_paused.wait(cluster_place.WAIT_S)
        second = cluster_operator.start(cluster.kubeconfig, namespace, lake.folder, "two")
        try:
            programs.wait_until(
                lambda: place.ready(kinds.HUDI_TABLE, "flights") == ("Ready", "Ready"),
                "the table is ready",
                cluster_place.WAIT_S,
            )
            # What it had asked for when it was stopped has come by now.
            before = len(proxy.calls)
            first.send_signal(signal.SIGCONT)
            assert first.wait(cluster_place.WAIT_S) != 0
            assert [call for call in proxy.calls[before:] if _is_change(call)] == []
        finally:
            for process in (first, second):
                process.kill()
                process.wait()
