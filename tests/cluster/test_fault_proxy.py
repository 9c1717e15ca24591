"""The fault proxy does to a client what the tests of the operator believe that it does."""

import concurrent.futures
import http.client
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.kube import api, clusters, programs
from support.kube.fault_proxy import (
    Call,
    Cut,
    FaultProxy,
    Freeze,
    Halt,
    Hold,
    LoseAnswer,
    Refuse,
    Rule,
)

Through = tuple[FaultProxy, api.Api, str]


@pytest.fixture
def through(cluster: clusters.Cluster, namespace: str, tmp_path: Path) -> Iterator[Through]:
    """A proxy, an account that comes through it, and its config maps' path."""
    binding = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings"
    cluster.api.create(
        binding,
        {
            "metadata": {"name": "caller"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit",
            },
            "subjects": [{"kind": "ServiceAccount", "name": "caller", "namespace": namespace}],
        },
    )  # fmt: skip
    with FaultProxy(cluster.api, tmp_path / "proxy") as proxy:
        caller = api.connect(proxy.kubeconfig(cluster.token(namespace, "caller")))
        yield proxy, caller, f"/api/v1/namespaces/{namespace}/configmaps"


def _is_creation(call: Call) -> bool:
    return call.method == "POST"


def _config_map(name: str) -> api.Json:
    return {"metadata": {"name": name}}


def _watched(caller: api.Api, path: str, events: list[str], timeout_s: float) -> None:
    events.extend(event["object"]["metadata"]["name"] for event in caller.watch(path, timeout_s))


def _ends(watch: Iterator[api.Json]) -> bool:
    try:
        list(watch)
    except TimeoutError:
        return False
    except (OSError, http.client.HTTPException):
        return True
    return True


def test_calls_are_passed_on_and_recorded(through: Through) -> None:
    proxy, caller, path = through
    caller.create(path, _config_map("a"))
    assert caller.get(f"{path}/a")["metadata"]["name"] == "a"
    assert [(call.index, call.method, call.path) for call in proxy.calls] == [
        (0, "POST", path),
        (1, "GET", f"{path}/a"),
    ]
    assert json.loads(proxy.calls[0].body) == _config_map("a")
    assert [call.is_change for call in proxy.calls] == [True, False]


def test_proxy_shows_its_callers_account_and_no_other(
    cluster: clusters.Cluster, through: Through
) -> None:
    _, caller, _ = through
    assert caller.request("GET", "/api/v1/nodes").status == 403
    assert cluster.api.request("GET", "/api/v1/nodes").status == 200


@pytest.mark.parametrize("status", [409, 410, 422, 429, 500, 503])
def test_refused_call_does_not_reach_the_server(through: Through, status: int) -> None:
    proxy, caller, path = through
    proxy.add(Rule(matches=_is_creation, fault=Refuse(status=status, retry_after_s=1), times=1))
    answer = caller.request("POST", path, _config_map("a"))
    assert (answer.status, answer.body["code"], answer.body["kind"]) == (status, status, "Status")
    assert not caller.is_there(f"{path}/a")
    caller.create(path, _config_map("a"))


def test_call_whose_answer_is_lost_was_done(through: Through) -> None:
    proxy, caller, path = through
    proxy.add(Rule(matches=_is_creation, fault=LoseAnswer()))
    with pytest.raises((OSError, http.client.HTTPException)):
        caller.create(path, _config_map("a"))
    assert caller.is_there(f"{path}/a")


@pytest.mark.parametrize("is_done", [False, True])
def test_client_is_halted_before_or_after_its_call(through: Through, is_done: bool) -> None:
    proxy, caller, path = through
    seen = []
    halt = Halt(then=lambda: seen.append(len(proxy.calls)), is_done=is_done)
    proxy.add(Rule(matches=lambda call: call.index == 1, fault=halt))
    caller.get(path)
    with pytest.raises((OSError, http.client.HTTPException)):
        caller.create(path, _config_map("a"))
    assert seen == [2]
    assert caller.is_there(f"{path}/a") == is_done


def test_watch_is_cut_in_the_middle_of_an_event(through: Through) -> None:
    proxy, caller, path = through
    caller.create(path, _config_map("a"))
    proxy.add(Rule(matches=lambda call: call.is_watch, fault=Cut(after_bytes=40)))
    with pytest.raises((OSError, http.client.HTTPException, ValueError)):
        _watched(caller, path, [], 20)


def test_frozen_watch_tells_nothing_and_does_not_end(through: Through) -> None:
    proxy, caller, path = through
    caller.create(path, _config_map("a"))
    proxy.add(Rule(matches=lambda call: call.is_watch, fault=Freeze(), times=1))
    events: list[str] = []
    with pytest.raises(TimeoutError):
        _watched(caller, path, events, 0.5)
    assert events == []
    again = caller.watch(path, 20)
    assert any(event["object"]["metadata"]["name"] == "a" for event in again)


def test_held_call_takes_effect_when_it_is_let_go(through: Through) -> None:
    proxy, caller, path = through
    hold = Hold()
    proxy.add(Rule(matches=lambda call: call.is_change, fault=hold, times=1))
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        made = threads.submit(caller.create, path, _config_map("a"))
        assert hold.noticed.wait(30)
        assert not caller.is_there(f"{path}/a")
        hold.go_on.set()
        assert made.result(30)["metadata"]["name"] == "a"


def test_proxy_ends_while_a_call_has_not_reached_the_server(
    cluster: clusters.Cluster, tmp_path: Path
) -> None:
    hold = Hold()
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        with FaultProxy(cluster.api, tmp_path / "proxy") as proxy:
            proxy.add(Rule(matches=lambda _: True, fault=hold))
            caller = api.connect(proxy.kubeconfig("of nobody"))
            made = threads.submit(caller.get, "/api/v1/nodes")
            assert hold.noticed.wait(30)
        hold.go_on.set()
        with pytest.raises((OSError, http.client.HTTPException)):
            made.result(30)


def test_open_connections_are_cut_at_once(through: Through) -> None:
    proxy, caller, path = through
    caller.create(path, _config_map("a"))
    watch = caller.watch(path)
    names = {next(watch)["object"]["metadata"]["name"] for _ in range(2)}
    assert "a" in names
    proxy.cut_all()
    assert _ends(watch)
    programs.wait_until(lambda: caller.is_there(path), "the proxy still serves")


def test_healed_proxy_passes_everything_on(through: Through) -> None:
    proxy, caller, path = through
    proxy.add(Rule(matches=lambda _: True, fault=Refuse(status=503)))
    assert caller.request("GET", path).status == 503
    proxy.heal()
    assert caller.request("GET", path).status == 200
