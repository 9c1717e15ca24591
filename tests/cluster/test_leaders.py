"""Leaders that are killed, and that two believe to be: never two runs at once, nothing twice.

Scenario T-P07.
"""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hoodie_operator.api import group, kinds, resources
from support.kube import api as kube_api
from support.kube import clusters, fault_proxy, objects, pod_processes, programs
from support.operators import (
    cluster_helpers,
    cluster_operator,
    cluster_place,
    days_table,
    installed_operator,
    pretended_kubelet,
    rule_examples,
)
from support.operators.rule_examples import edited

WAIT_S = cluster_place.WAIT_S
END_S = 300.0


def test_start_that_a_stale_leader_had_under_way_comes_to_nothing(
    cluster: clusters.Cluster, namespace: str, tmp_path: Path
) -> None:
    place = cluster_place.Place(cluster, namespace)
    lake = cluster_helpers.Lake(tmp_path / "lake")
    kubelet = pretended_kubelet.PretendedKubelet(place, lake)
    assert cluster.api.token is not None
    hold = fault_proxy.Hold()
    pods = cluster_operator.Runs.PODS

    def is_start(call: fault_proxy.Call) -> bool:
        return call.method == "POST" and call.path.endswith("/jobs")

    def is_ready() -> bool:
        kubelet.work()
        return place.ready(kinds.HUDI_TABLE, "flights") == ("Ready", "Ready")

    with fault_proxy.FaultProxy(cluster.api, tmp_path / "proxy") as proxy:
        proxy.add(fault_proxy.Rule(matches=is_start, fault=hold))
        slow = proxy.kubeconfig(cluster.api.token)
        stale = cluster_operator.start(slow, namespace, lake.folder, "stale", runs=pods)
        storage = {"path": "flights", "volumes": [pretended_kubelet.MISSING_VOLUME]}
        place.create(kinds.HUDI_TABLE, "flights", edited(rule_examples.TABLE, storage=storage))
        try:
            assert hold.noticed.wait(WAIT_S)
            stale.send_signal(signal.SIGSTOP)
            kubeconfig = cluster.kubeconfig
            with cluster_operator.leading(kubeconfig, namespace, lake.folder, runs=pods):
                programs.wait_until(is_ready, "the successor had its own run", WAIT_S)
                hold.go_on.set()
                stale.send_signal(signal.SIGCONT)
                assert stale.wait(WAIT_S) == 1
                # Whatever it brought about would be seen as soon as this.
                others = edited(rule_examples.TABLE, storage={**storage, "path": "others"})
                place.create(kinds.HUDI_TABLE, "others", others)

                def are_others_ready() -> bool:
                    kubelet.work()
                    return place.ready(kinds.HUDI_TABLE, "others") == ("Ready", "Ready")

                programs.wait_until(are_others_ready, "the successor still leads", WAIT_S)
        finally:
            hold.go_on.set()
            stale.kill()
            stale.wait()
    assert sorted(len(pods) for pods in kubelet.ran.values()) == [1, 1]
    tables = place.all(kinds.HUDI_TABLE)
    assert [each["status"]["runs"]["attempts"] for each in tables] == [1, 1]


_STARTS = {
    # Of a Job that makes no pod yet, and of one that does from then on.
    "made": lambda call: call.method == "POST" and call.path.endswith("/jobs"),
    "resumed": lambda call: call.method == "PATCH" and "/jobs/late-" in call.path,
}


@pytest.mark.parametrize("held", _STARTS)
def test_start_that_the_network_delivers_under_the_next_leader_runs_nothing_beside_others(
    cluster: clusters.Cluster, namespace: str, tmp_path: Path, held: str
) -> None:
    """The table is of one writer, and the next leader starts its Writer beside a compaction."""
    place = cluster_place.Place(cluster, namespace)
    lake = cluster_helpers.Lake(tmp_path / "lake")
    kubelet = pretended_kubelet.PretendedKubelet(place, lake)
    assert cluster.api.token is not None
    hold = fault_proxy.Hold()
    pods = cluster_operator.Runs.PODS
    storage = {"path": "flights", "volumes": [pretended_kubelet.MISSING_VOLUME]}

    def is_ready(name: str) -> bool:
        kubelet.work()
        return place.ready(kinds.HUDI_TABLE, name) == ("Ready", "Ready")

    def jobs_of(owner: str) -> list[dict[str, Any]]:
        return [job for job in place.jobs() if job["metadata"]["name"].startswith(f"{owner}-")]

    def pods_of(owner: str) -> list[dict[str, Any]]:
        found = place.items(resources.POD.path(namespace))
        return [pod for pod in found if pod["metadata"]["name"].startswith(f"{owner}-")]

    place.create(kinds.HUDI_TABLE, "flights", edited(rule_examples.TABLE, storage=storage))
    with cluster_operator.leading(cluster.kubeconfig, namespace, lake.folder, runs=pods):
        programs.wait_until(lambda: is_ready("flights"), "the table is ready", WAIT_S)
    with fault_proxy.FaultProxy(cluster.api, tmp_path / "proxy") as proxy:
        proxy.add(fault_proxy.Rule(matches=_STARTS[held], fault=hold))
        slow = proxy.kubeconfig(cluster.api.token)
        stale = cluster_operator.start(slow, namespace, lake.folder, "stale", runs=pods)
        place.create(kinds.TABLE_ACTION, "late", rule_examples.ACTION)
        try:
            assert hold.noticed.wait(WAIT_S)
            stale.send_signal(signal.SIGSTOP)
            cluster.api.merge(
                objects.path(kinds.TABLE_ACTION, namespace, "late"), {"spec": {"suspend": True}}
            )
            with cluster_operator.leading(cluster.kubeconfig, namespace, lake.folder, runs=pods):
                place.create(kinds.WRITER, "next", rule_examples.WRITER)
                programs.wait_until(lambda: bool(pods_of("next")), "the next one runs", WAIT_S)
                hold.go_on.set()
                if held == "made":
                    # The controller of Jobs has seen it, and made no pod.
                    programs.wait_until(
                        lambda: any(kube_api.is_true(job, "Suspended") for job in jobs_of("late")),
                        "the late Job is there, and suspended",
                        WAIT_S,
                    )
                others = edited(rule_examples.TABLE, storage={**storage, "path": "others"})
                assert not pods_of("late")
                place.create(kinds.HUDI_TABLE, "others", others)
                programs.wait_until(lambda: is_ready("others"), "others are served", WAIT_S)
                assert not pods_of("late")
                # What nobody started goes when it is to be started indeed.
                cluster.api.merge(
                    objects.path(kinds.TABLE_ACTION, namespace, "late"),
                    {"spec": {"suspend": False}},
                )
                programs.wait_until(lambda: bool(pods_of("late")), "it runs at last", WAIT_S)
        finally:
            hold.go_on.set()
            stale.kill()
            stale.wait()


class Days:
    """A table of days under installed operators, whose Writer's pods are counted."""

    def __init__(self, lake: installed_operator.Lake) -> None:
        self.lake = lake
        self._at_once: set[int] = set()
        # The driver is deleted after the first commit, and nine of them need a while.
        days_table.declare(lake, interval="3s")

    def wait(self, holds: Callable[[], bool], what: str) -> None:
        """Wait until something is so, and look at the Writer's pods meanwhile."""

        def is_so() -> bool:
            self._at_once.add(len(days_table.drivers(self.lake)))
            return holds()

        programs.wait_until(is_so, what, END_S)

    def await_commits(self, count: int) -> None:
        self.wait(lambda: days_table.committed(self.lake) >= count, f"{count} commits")

    def leader(self) -> dict[str, Any]:
        """Return the operator's pod that leads."""
        self.wait(lambda: self.lake.leader() != "", "somebody leads")
        path = resources.POD.path(self.lake.release_namespace, self.lake.leader())
        return self.lake.cluster.api.get(path)

    def await_another(self, holder: str) -> None:
        """Return once another process leads; it may be in the pod of one that was killed."""
        self.wait(lambda: self.lake.holder() not in ("", holder), "another one leads")

    def kill_leader_at(
        self, resource: resources.Resource, is_moment: Callable[[dict[str, Any]], bool]
    ) -> None:
        """Kill the leader as soon as an object of the Writer is in some state."""
        leader = self.leader()
        labels = f"?labelSelector={group.GROUP}/owner-kind=Writer"
        path = f"{resource.path(self.lake.namespace)}{labels}"
        for event in self.lake.cluster.api.watch(path, END_S):
            if is_moment(event["object"]):
                break
        holder = self.lake.holder()
        pod_processes.send(leader, signal.SIGKILL)
        self.await_another(holder)

    def delete_driver(self) -> None:
        (driver,) = days_table.drivers(self.lake)
        self.lake.kubectl("delete", "pod", driver, "--grace-period=1")

    def check(self) -> None:
        """Check that all is written, by two attempts that were never at work together."""
        self.await_commits(days_table.DAYS)
        self.lake.await_ready()
        assert max(self._at_once) == 1
        assert set(days_table.attempts(self.lake)) == {"1", "2"}
        days_table.check(self.lake)


def _exit_code(pod: dict[str, Any]) -> int:
    """Return how the process before the present one ended."""
    (container,) = pod["status"]["containerStatuses"]
    code: int = container["lastState"]["terminated"]["exitCode"]
    return code


def test_leader_that_wakes_up_beside_its_successor_starts_no_second_run(
    real_lake: installed_operator.Lake,
) -> None:
    days = Days(real_lake)
    days.await_commits(1)
    stale, holder = days.leader(), real_lake.holder()
    pod_processes.send(stale, signal.SIGSTOP)
    try:
        # Something to do for whoever leads, and for whoever believes so.
        days.delete_driver()
        days.await_another(holder)
    finally:
        pod_processes.send(stale, signal.SIGCONT)
    days.check()
    # It has ended by itself, as who has lost the lease.
    path = resources.POD.path(real_lake.release_namespace, stale["metadata"]["name"])
    assert _exit_code(real_lake.cluster.api.get(path)) == 1


def test_leader_that_is_killed_while_it_starts_or_ends_a_run_is_followed(
    real_lake: installed_operator.Lake,
) -> None:
    days = Days(real_lake)
    # The Job is still to be made, or has just been.
    days.kill_leader_at(resources.CONFIG_MAP, lambda _: True)
    days.await_commits(1)
    days.delete_driver()
    days.kill_leader_at(resources.JOB, lambda job: _attempt(job) == "2")
    # All is written, and nobody was told yet.
    days.kill_leader_at(resources.POD, lambda pod: pod["status"].get("phase") == "Succeeded")
    days.check()
    assert days_table.status(real_lake)["runs"]["attempts"] == 2


def _attempt(found: dict[str, Any]) -> str:
    return str(found["metadata"]["labels"][resources.ATTEMPT])
