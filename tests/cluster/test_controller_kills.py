"""The controller, killed between any two of its changes: what follows is as if it had not been.

Scenario T-P07.

What a process knows is lost with it, so that all that counts is what the API server was asked: to
be killed when one change was made is to be killed anywhere before the next. Runs are the operator's
own, with Jobs, ConfigMaps and pods; a pretended kubelet runs the pods.
"""

import abc
import concurrent.futures
import json
import multiprocessing.process
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from hoodie_operator.api import kinds, resources
from support.kube import clusters, fault_proxy, objects
from support.operators import (
    cluster_helpers,
    cluster_operator,
    cluster_place,
    pretended_kubelet,
    rule_examples,
)
from support.operators.rule_examples import edited

TABLE = edited(
    rule_examples.TABLE,
    deletionPolicy="Delete",
    deletionProtection=False,
    storage={"path": "flights", "volumes": [pretended_kubelet.MISSING_VOLUME]},
)
CHANGES_MIN = 10
"""A table's life takes more: a finalizer, two ConfigMaps and Jobs, their starts, statuses."""

KILLS_MAX = 40
APART = 10
"""So many changes lie between two kills of one life; each of them is the deadly one of another."""

STEADY_KILLS = 12
"""After so many kills of one life the next ones lie further and further apart.

A run is started by five changes, and an operator begins by telling of what it finds: who always
dies at the same one of ten gets nowhere.
"""

AT_ONCE = 5
_LIFE_S = 120.0
"""Each operator gets on within this, to its end or its death; mostly within two or three."""

_PAUSE_S = 0.4
_MADE = (
    resources.JOB,
    resources.CONFIG_MAP,
    resources.POD,
    resources.STATEFUL_SET,
    resources.SERVICE,
)


URI = "file:///data/flights"
DECLARED = (
    (kinds.LOCK_PROVIDER, rule_examples.LOCK, ("Ready", "Ready")),
    (kinds.HUDI_TABLE, TABLE, ("Ready", "Ready")),
    (kinds.WRITER, rule_examples.WRITER, ("Completed", "UpToDate")),
    (
        kinds.COMPACTION_POLICY,
        edited(rule_examples.POLICY, triggers={"deltaCommits": 1}),
        ("Ready", "Watching"),
    ),
)
"""Kind and spec of all that a lake has, and what becomes of it."""


@pytest.fixture
def proxy(cluster: clusters.Cluster, tmp_path: Path) -> Iterator[fault_proxy.FaultProxy]:
    """What stands between operators and the API server."""
    with fault_proxy.FaultProxy(cluster.api, tmp_path / "proxy") as found:
        yield found


class Life(abc.ABC):
    """What is declared in a namespace of its own, under an operator that begins anew when it dies.

    What that is, and what has to become of it, subclasses say.
    """

    def __init__(
        self, cluster: clusters.Cluster, proxy: fault_proxy.FaultProxy, folder: Path
    ) -> None:
        namespace = f"life-{uuid.uuid4().hex[:10]}"
        cluster.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        token = cluster.api.token
        assert token is not None
        self.kills = 0
        self._changes: list[str] = []
        self._is_killed = False
        self._proxy = proxy
        self._kubeconfig = proxy.kubeconfig(token)
        self._place = cluster_place.Place(cluster, namespace)
        self._lake = cluster_helpers.Lake(folder / namespace)
        self._kubelet = pretended_kubelet.PretendedKubelet(self._place, self._lake)
        self._operator = self._started()

    def run(self, is_deadly: Callable[[Sequence[str]], bool]) -> int:
        """Have all made and taken away again, and check what became of it.

        Args:
            is_deadly: Whether the operator is killed once the last of the changes so far was made.

        Returns:
            How often an operator was killed.
        """
        halt = fault_proxy.Halt(then=self._kill, is_done=True)
        self._proxy.add(
            fault_proxy.Rule(
                matches=lambda call: self._is_change(call) and is_deadly(self._noted(call)),
                fault=halt,
            )
        )
        try:
            self._be_made()
            self._be_taken_away()
            # Where the last change of all was the deadly one, nobody is needed any more.
            assert self._is_killed or self._operator.is_alive()
        finally:
            self._kill()
            self._operator.join()
            self._place.api.delete(f"/api/v1/namespaces/{self._place.namespace}")
        return self.kills

    @abc.abstractmethod
    def _be_made(self) -> None:
        """Declare it, wait until it is as declared, and check that."""

    @abc.abstractmethod
    def _be_taken_away(self) -> None:
        """Delete it, and check what became of it."""

    def _check_gone(self, run_count: int) -> None:
        """Wait until nothing is left, and check that one pod of one Job was for each run."""
        self._await("nothing is left", lambda: not any(self._left()))
        assert self._lake.table(URI) is None
        assert len(self._kubelet.ran) == run_count, self._kubelet.ran
        assert all(len(pods) == 1 for pods in self._kubelet.ran.values()), self._kubelet.ran

    def _delete(self, kind: kinds.Kind, name: str) -> None:
        self._place.api.delete(objects.path(kind, self._place.namespace, name))

    def _left(self) -> Iterator[object]:
        for kind in kinds.KINDS:
            yield self._place.all(kind)
        for resource in _MADE:
            path = resource.path(self._place.namespace)
            yield self._place.items(f"{path}?labelSelector={resources.MANAGED_SELECTOR}")

    def _await(self, what: str, holds: Callable[[], bool]) -> None:
        began_s = time.monotonic()
        while not holds():
            waited_s = time.monotonic() - max(began_s, self._began_s)
            assert waited_s < _LIFE_S, f"not in time: {what}: {self._changes}"
            self._kubelet.work()
            self._follow()
            time.sleep(_PAUSE_S)

    def _follow(self) -> None:
        """Begin anew where the operator was killed, or lost its lease to a machine that stood."""
        if self._operator.is_alive():
            return
        self.kills += self._is_killed
        assert self.kills <= KILLS_MAX, f"too many changes: {self._changes}"
        # So that nobody has to wait for it.
        lease = resources.LEASE.path(self._place.namespace, cluster_operator.LEASE)
        self._place.api.request("DELETE", lease)
        self._is_killed = False
        self._operator = self._started()

    def _noted(self, call: fault_proxy.Call) -> Sequence[str]:
        told = json.loads(call.body or b"{}")
        name = told.get("metadata", {}).get("name", "")
        state = told.get("status", {}).get("state", "")
        place = call.path.partition("/namespaces/")[2]
        self._changes.append(f"{call.method} {place} {name} {state}")
        return self._changes

    def _kill(self) -> None:
        self._is_killed = True
        self._operator.kill()

    def _started(self) -> multiprocessing.process.BaseProcess:
        name, pods = self._place.namespace, cluster_operator.Runs.PODS
        self._began_s = time.monotonic()
        return cluster_operator.fork(self._kubeconfig, name, self._lake.folder, name, pods)

    def _is_change(self, call: fault_proxy.Call) -> bool:
        """Return whether a call is a change by our operator: of no lease, and no event."""
        is_ours = call.agent == resources.MANAGER and call.is_change
        is_here = f"/namespaces/{self._place.namespace}/" in call.path
        return is_ours and is_here and "/leases" not in call.path and "/events" not in call.path


class TableLife(Life):
    """A table whose data goes with it."""

    def _be_made(self) -> None:
        made = self._place.create(kinds.HUDI_TABLE, "flights", TABLE)
        self._await(
            "the table is ready",
            lambda: self._place.ready(kinds.HUDI_TABLE, "flights") == ("Ready", "Ready"),
        )
        assert self._place.kstatus(kinds.HUDI_TABLE, "flights") == "Current"
        found = self._place.get(kinds.HUDI_TABLE, "flights")
        assert found["metadata"]["finalizers"] == [resources.FINALIZER]
        assert found["spec"] == made["spec"]
        assert not self._place.all(kinds.TABLE_ACTION)
        assert found["status"]["runs"]["attempts"] == 1

    def _be_taken_away(self) -> None:
        self._delete(kinds.HUDI_TABLE, "flights")
        self._check_gone(run_count=2)


class LakeLife(Life):
    """A table with a Writer and a CompactionPolicy, and a LockProvider that is served."""

    def _be_made(self) -> None:
        for kind, spec, _ in DECLARED:
            self._place.create(kind, "flights", spec)
        self._await("the file is written, and was compacted", self._is_done)
        for kind, _, _ in DECLARED:
            assert self._place.kstatus(kind, "flights") == "Current"
        actions = self._place.all(kinds.TABLE_ACTION)
        others = (kinds.HUDI_TABLE, kinds.WRITER)
        runs = [*actions, *(self._place.get(kind, "flights") for kind in others)]
        assert [each["status"]["runs"]["attempts"] for each in runs] == [1, 1, 1]
        (server,) = self._lock_servers()
        assert server["metadata"]["ownerReferences"][0]["name"] == "flights"
        # The file once, and what it left to compact, once.
        found = [each.is_compaction for each in self._lake.commits(URI)]
        assert found == [False, True]

    def _is_done(self) -> bool:
        # What the policy tells may be of a moment before the file was written.
        is_compacted = any(each.is_compaction for each in self._lake.commits(URI))
        policy = self._place.get(kinds.COMPACTION_POLICY, "flights")
        tables = (policy.get("status") or {}).get("tables") or []
        actions = self._place.all(kinds.TABLE_ACTION)
        return (
            is_compacted
            and [each["reason"] for each in tables] == ["NothingToCompact"]
            and all(each.get("status", {}).get("state") == "Succeeded" for each in actions)
            and all(
                self._place.ready(kind, "flights") == expected for kind, _, expected in DECLARED
            )
            # The lock of these tests answers whether it is served or not.
            and bool(self._lock_servers())
        )

    def _lock_servers(self) -> list[dict[str, Any]]:
        return self._place.items(resources.STATEFUL_SET.path(self._place.namespace))

    def _be_taken_away(self) -> None:
        for kind, _, _ in DECLARED:
            self._delete(kind, "flights")
        self._check_gone(run_count=4)


class _Deadly:
    """Which changes of a life an operator dies of."""

    def __init__(self, first: int) -> None:
        self._kills = 0
        self._next = first or APART

    def __call__(self, changes: Sequence[str]) -> bool:
        if len(changes) < self._next:
            return False
        self._kills += 1
        self._next += APART + max(0, self._kills - STEADY_KILLS)
        return True


@pytest.mark.parametrize(
    ("life", "firsts"),
    # Of the longer life every second change: it dies of all of them in the test below.
    [(TableLife, range(APART)), (LakeLife, range(0, APART, 2))],
)
def test_operator_killed_after_any_of_its_changes_is_followed_as_if_it_lived(
    cluster: clusters.Cluster,
    proxy: fault_proxy.FaultProxy,
    tmp_path: Path,
    life: type[Life],
    firsts: Sequence[int],
) -> None:
    def kills(first: int) -> int:
        # While all is made, and while it is taken away.
        return life(cluster, proxy, tmp_path).run(_Deadly(first))

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as lives:
        assert sum(lives.map(kills, firsts)) > CHANGES_MIN


@pytest.mark.parametrize("life", [TableLife, LakeLife])
def test_operators_that_live_for_one_new_change_each_get_as_far(
    cluster: clusters.Cluster, proxy: fault_proxy.FaultProxy, tmp_path: Path, life: type[Life]
) -> None:
    def is_new(changes: Sequence[str]) -> bool:
        # What was done before and is asked for again changes nothing.
        return changes[-1] not in changes[:-1]

    assert CHANGES_MIN < life(cluster, proxy, tmp_path).run(is_new) < KILLS_MAX
