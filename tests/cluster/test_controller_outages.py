"""The controller while its watches fail, and while its API server is away."""

import http.client
import random
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hoodie_operator.api import kinds, resources
from support.kube import clusters, control_plane, fault_proxy, programs
from support.operators import (
    cluster_helpers,
    cluster_operator,
    cluster_place,
    pretended_kubelet,
    rule_examples,
)
from support.operators.rule_examples import edited

WAIT_S = cluster_place.WAIT_S
READ_FAULTS = (
    fault_proxy.Refuse(status=429, retry_after_s=1),
    fault_proxy.Refuse(status=500),
    fault_proxy.Cut(after_bytes=200),
)
OUTAGE_S = 4.0
"""Less than a leader may be without an answer before it lets go."""


@pytest.fixture
def lake(tmp_path: Path) -> cluster_helpers.Lake:
    """A storage of one test."""
    return cluster_helpers.Lake(tmp_path / "lake")


@pytest.fixture
def place(cluster: clusters.Cluster, namespace: str) -> cluster_place.Place:
    """The test's namespace."""
    return cluster_place.Place(cluster, namespace)


@pytest.fixture
def proxy(cluster: clusters.Cluster, tmp_path: Path) -> Iterator[fault_proxy.FaultProxy]:
    """What stands between the operator and the API server."""
    with fault_proxy.FaultProxy(cluster.api, tmp_path / "proxy") as found:
        yield found


def _through(proxy: fault_proxy.FaultProxy, place: cluster_place.Place) -> Path:
    assert place.api.token is not None
    return proxy.kubeconfig(place.api.token)


def _make(place: cluster_place.Place, name: str) -> None:
    spec = edited(rule_examples.TABLE, storage={"path": name})
    place.create(kinds.HUDI_TABLE, name, spec)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _probe(port: int, path: str) -> tuple[int, str]:
    """Return what a probe is answered."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_frozen_watch_is_taken_for_dead_and_what_it_hides_is_found(
    proxy: fault_proxy.FaultProxy, place: cluster_place.Place, lake: cluster_helpers.Lake
) -> None:
    port = _free_port()
    proxy.add(
        fault_proxy.Rule(
            matches=lambda call: call.is_watch and "/huditables" in call.path,
            fault=fault_proxy.Freeze(),
        )
    )
    kubeconfig = _through(proxy, place)
    with cluster_operator.leading(
        kubeconfig, place.namespace, lake.folder, probed_at=port, is_hasty=True
    ):
        programs.wait_until(lambda: _probe(port, "/readyz")[0] == 200, "it is ready", WAIT_S)
        assert _probe(port, "/healthz") == (200, "ok\n")
        _make(place, "flights")
        # By a listing.
        place.await_state(kinds.HUDI_TABLE, "flights", "Ready", "Ready")
        programs.wait_until(lambda: _probe(port, "/healthz")[0] == 503, "it is dead", WAIT_S)
        assert "the watch of huditables.hudi.dev is" in _probe(port, "/healthz")[1]
        assert _probe(port, "/readyz")[0] == 200
    assert len(lake.started) == 1


def test_run_whose_pod_the_watch_does_not_bring_is_not_taken_for_lost(
    proxy: fault_proxy.FaultProxy, place: cluster_place.Place, lake: cluster_helpers.Lake
) -> None:
    proxy.add(
        fault_proxy.Rule(
            matches=lambda call: call.is_watch and call.path.endswith("/pods"),
            fault=fault_proxy.Freeze(),
        )
    )
    kubelet = pretended_kubelet.PretendedKubelet(place, lake)
    storage = {"path": "flights", "volumes": [pretended_kubelet.MISSING_VOLUME]}
    kubeconfig, pods = _through(proxy, place), cluster_operator.Runs.PODS

    def is_ready() -> bool:
        kubelet.work()
        return place.ready(kinds.HUDI_TABLE, "flights") == ("Ready", "Ready")

    with cluster_operator.leading(kubeconfig, place.namespace, lake.folder, runs=pods):
        place.create(kinds.HUDI_TABLE, "flights", edited(rule_examples.TABLE, storage=storage))
        programs.wait_until(is_ready, "the table is ready", WAIT_S)
    (table,) = place.all(kinds.HUDI_TABLE)
    assert table["status"]["runs"]["attempts"] == 1


def test_operator_whose_watches_all_advance_stays_alive(
    cluster: clusters.Cluster, place: cluster_place.Place, lake: cluster_helpers.Lake
) -> None:
    port = _free_port()
    with cluster_operator.leading(
        cluster.kubeconfig, place.namespace, lake.folder, probed_at=port, is_hasty=True
    ):
        _make(place, "flights")
        place.await_state(kinds.HUDI_TABLE, "flights", "Ready", "Ready")
        _stay_alive(port, place)


def test_standby_is_alive_and_ready(
    cluster: clusters.Cluster, place: cluster_place.Place, lake: cluster_helpers.Lake
) -> None:
    leading_at, waiting_at = _free_port(), _free_port()
    kubeconfig, where = cluster.kubeconfig, place.namespace
    with cluster_operator.leading(
        kubeconfig, where, lake.folder, probed_at=leading_at, is_hasty=True
    ):
        programs.wait_until(lambda: _is_well(leading_at), "the leader is ready", WAIT_S)
        standby = cluster_operator.start(
            kubeconfig, where, lake.folder, "two", probed_at=waiting_at, is_hasty=True
        )
        try:
            programs.wait_until(lambda: _is_well(waiting_at), "the standby is ready", WAIT_S)
            late_s = cluster_operator.settings(where, is_hasty=True).late_s
            _hold_for(late_s, lambda: _is_well(waiting_at))
            lease = place.api.get(resources.LEASE.path(where, cluster_operator.LEASE))
            assert lease["spec"]["holderIdentity"].startswith("one_")
        finally:
            standby.kill()
            standby.wait()


def _is_well(port: int) -> bool:
    try:
        return all(_probe(port, path) == (200, "ok\n") for path in ("/healthz", "/readyz"))
    except ConnectionRefusedError:
        return False


def test_leader_that_may_not_list_is_alive_and_not_ready(
    proxy: fault_proxy.FaultProxy, place: cluster_place.Place, lake: cluster_helpers.Lake
) -> None:
    port = _free_port()
    kubeconfig = _through(proxy, place)
    with cluster_operator.leading(
        kubeconfig, place.namespace, lake.folder, probed_at=port, is_hasty=True
    ):
        programs.wait_until(lambda: _is_well(port), "it is ready", WAIT_S)
        refused = fault_proxy.Refuse(status=403)
        proxy.add(fault_proxy.Rule(matches=_is_list_of_pods, fault=refused))
        _make(place, "flights")
        programs.wait_until(
            lambda: "pods cannot be listed" in _probe(port, "/readyz")[1], "it tells", WAIT_S
        )
        late_s = cluster_operator.settings(place.namespace, is_hasty=True).late_s
        _hold_for(2 * late_s, lambda: _probe(port, "/healthz") == (200, "ok\n"))
        assert _probe(port, "/readyz")[0] == 503
        proxy.heal()
        programs.wait_until(lambda: _is_well(port), "it is ready again", WAIT_S)
        place.await_state(kinds.HUDI_TABLE, "flights", "Ready", "Ready")


def _is_list_of_pods(call: fault_proxy.Call) -> bool:
    return call.agent == resources.MANAGER and call.path.endswith("/pods")


def test_answers_that_come_after_the_watch_has_told_are_not_awaited(
    proxy: fault_proxy.FaultProxy, place: cluster_place.Place, lake: cluster_helpers.Lake
) -> None:
    port = _free_port()
    late = fault_proxy.Delay(by_s=0.3)
    proxy.add(fault_proxy.Rule(matches=lambda call: call.is_change, fault=late))
    kubeconfig = _through(proxy, place)
    with cluster_operator.leading(
        kubeconfig, place.namespace, lake.folder, probed_at=port, is_hasty=True
    ):
        _make(place, "flights")
        place.await_state(kinds.HUDI_TABLE, "flights", "Ready", "Ready")
        _stay_alive(port, place)


def _stay_alive(port: int, place: cluster_place.Place) -> None:
    late_s = cluster_operator.settings(place.namespace, is_hasty=True).late_s
    _hold_for(2 * late_s, lambda: _probe(port, "/healthz") == (200, "ok\n"))


def _hold_for(duration_s: float, holds: Callable[[], bool]) -> None:
    end_s = time.monotonic() + duration_s
    while time.monotonic() < end_s:
        assert holds()
        time.sleep(0.2)


def test_lists_and_watches_that_are_refused_or_cut_delay_and_hide_nothing(
    proxy: fault_proxy.FaultProxy, place: cluster_place.Place, lake: cluster_helpers.Lake
) -> None:
    chance = random.Random(1)
    for fault in READ_FAULTS:
        proxy.add(
            fault_proxy.Rule(
                matches=lambda call: _is_of_many(call) and chance.random() < 0.12, fault=fault
            )
        )
    with cluster_operator.leading(_through(proxy, place), place.namespace, lake.folder):
        for name in ("one", "two", "three"):
            _make(place, name)
            place.await_state(kinds.HUDI_TABLE, name, "Ready", "Ready")
            # All watches begin anew, and those of the others are hit in turn.
            proxy.cut_all()
    assert len(lake.started) == len(place.jobs()) == 3


def test_renewal_whose_answer_is_lost_does_not_end_the_leadership(
    proxy: fault_proxy.FaultProxy, place: cluster_place.Place, lake: cluster_helpers.Lake
) -> None:
    with cluster_operator.leading(_through(proxy, place), place.namespace, lake.folder):
        _make(place, "one")
        place.await_state(kinds.HUDI_TABLE, "one", "Ready", "Ready")
        lost = fault_proxy.Rule(matches=_is_renewal, fault=fault_proxy.LoseAnswer(), times=1)
        proxy.add(lost)
        programs.wait_until(lambda: lost.times == 0, "a renewal has lost its answer", WAIT_S)
        _make(place, "two")
        place.await_state(kinds.HUDI_TABLE, "two", "Ready", "Ready")


def _is_renewal(call: fault_proxy.Call) -> bool:
    return call.method == "PUT" and "/leases/" in call.path


def test_operator_without_a_watch_ends_and_lets_another_lead(
    proxy: fault_proxy.FaultProxy, place: cluster_place.Place, lake: cluster_helpers.Lake
) -> None:
    kubeconfig = _through(proxy, place)
    # As a listing in pieces is that took too long; Kopf takes it for final.
    gone = fault_proxy.Refuse(status=410)
    proxy.add(fault_proxy.Rule(matches=_is_of_kopf, fault=gone, times=1))
    operator = cluster_operator.start(kubeconfig, place.namespace, lake.folder)
    try:
        assert operator.wait(WAIT_S) == 1
    finally:
        operator.kill()
        operator.wait()
    lease = place.api.get(resources.LEASE.path(place.namespace, cluster_operator.LEASE))
    assert lease["spec"]["holderIdentity"] == ""


def _is_of_many(call: fault_proxy.Call) -> bool:
    """Return whether a call lists or watches objects."""
    ends = tuple(f"/{each.plural}" for each in resources.WATCHED)
    return call.method == "GET" and call.path.endswith(ends)


def _is_of_kopf(call: fault_proxy.Call) -> bool:
    return _is_of_many(call) and call.agent != resources.MANAGER


def test_api_server_that_stops_and_begins_anew_is_followed(
    own_control_plane: control_plane.ControlPlane, lake: cluster_helpers.Lake
) -> None:
    plane = own_control_plane
    place = cluster_place.of_own(plane)
    operator = cluster_operator.start(plane.kubeconfig, "here", lake.folder)
    try:
        _make(place, "one")
        place.await_state(kinds.HUDI_TABLE, "one", "Ready", "Ready")
        plane.program("kube-apiserver").pause()
        time.sleep(OUTAGE_S)
        plane.program("kube-apiserver").resume()
        _make(place, "two")
        place.await_state(kinds.HUDI_TABLE, "two", "Ready", "Ready")
        assert operator.poll() is None
        # Without an answer for longer it lets go, and its pod is begun anew.
        plane.program("kube-apiserver").kill()
        assert operator.wait(WAIT_S) == 1
        plane.start_api_server()
        operator = cluster_operator.start(plane.kubeconfig, "here", lake.folder)
        _make(place, "three")

        def is_ready() -> bool:
            nonlocal operator
            if operator.poll() == 1:
                # An API server that has just begun may not serve all kinds yet.
                operator = cluster_operator.start(plane.kubeconfig, "here", lake.folder)
            return place.ready(kinds.HUDI_TABLE, "three") == ("Ready", "Ready")

        programs.wait_until(is_ready, "the table is ready", WAIT_S)
        operator.send_signal(signal.SIGTERM)
        assert operator.wait(WAIT_S) == 0
    finally:
        operator.kill()
        operator.wait()
    assert len(lake.started) == len(place.jobs()) == 3


def test_operator_whose_kind_vanishes_says_so_in_one_line_and_goes_on_when_it_is_back(
    own_control_plane: control_plane.ControlPlane, lake: cluster_helpers.Lake
) -> None:
    place = cluster_place.of_own(own_control_plane)
    cluster = place.cluster
    log = lake.folder.with_name("one.log")
    operator = cluster_operator.start(cluster.kubeconfig, "here", lake.folder)
    try:
        _make(place, "flights")
        place.await_state(kinds.HUDI_TABLE, "flights", "Ready", "Ready")
        definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/writers.hudi.dev"
        cluster.api.delete(definition)
        assert operator.wait(WAIT_S) == 1
        told = log.read_text()
        # Its pod is begun anew, and waits for the kind.
        operator = cluster_operator.start(cluster.kubeconfig, "here", lake.folder)
        programs.wait_until(lambda: "of Writer are missing" in log.read_text(), "it tells", WAIT_S)
        clusters.install_crds(cluster)
        _make(place, "others")
        place.await_state(kinds.HUDI_TABLE, "others", "Ready", "Ready")
    finally:
        operator.kill()
        operator.wait()
    assert "Traceback" not in told, told
    (line,) = [each for each in told.splitlines() if "leaving" in each]
    assert "writers." in line
