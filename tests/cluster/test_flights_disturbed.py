"""The example in a cluster in which, one after the other, everything ends that it stands on."""

import signal
from typing import Any

import pytest

from hoodie import environment, errors, table
from hoodie_operator.api import group, resources
from hoodie_operator.manifests import naming
from hoodie_operator.reconcile import retries
from support.kube import pod_processes, programs
from support.operators import flights_example, installed_operator

EXAMPLE = flights_example.MANIFESTS / "volume"
WRITER = "actuals"
END_S = 420.0


class Disturbed:
    """The flights of a lake, and what may befall those who write them."""

    def __init__(self, lake: installed_operator.Lake) -> None:
        self._lake = lake
        self.attempts_at_once: set[frozenset[str]] = set()

    def opened(self) -> table.Table:
        folder = self._lake.folder / "flights"
        return table.open_table(str(folder), environment.system(parallelism=1))

    def await_commits(self, count: int) -> None:
        """Return once the Writer has committed so many of its files."""
        programs.wait_until(lambda: self._committed() >= count, f"{count} commits", END_S)

    def await_end(self) -> None:
        """Return once all is written, and was compacted."""

        def is_done() -> bool:
            self._look()
            return flights_example.are_done(self._lake)

        programs.wait_until(is_done, "all is written, and was compacted", END_S)

    def kill_executor(self) -> None:
        """Kill all processes of an executor, as a machine does that runs out of memory."""
        pod_processes.send(self._pod(naming.EXECUTOR), signal.SIGKILL)

    def evict_driver(self) -> None:
        """Have the driver evicted, as one does who empties a node."""
        name = self._pod(naming.DRIVER)["metadata"]["name"]
        path = f"/api/v1/namespaces/{self._lake.namespace}/pods/{name}/eviction"
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        self._lake.cluster.api.create(path, eviction)

    def delete_lock_server(self) -> str:
        """Delete the pod of the ZooKeeper; return its uid."""
        found = self.lock_server()["metadata"]
        self._lake.kubectl("delete", "pod", found["name"], "--grace-period=1", "--wait=false")
        return str(found["uid"])

    def lock_server(self) -> dict[str, Any]:
        """Return the pod of the ZooKeeper."""
        (found,) = self._lake.list("pods", f"{naming.ROLE}={naming.LOCK_SERVER}")
        return found

    def _committed(self) -> int:
        self._look()
        try:
            opened = self.opened()
        except errors.NotFoundError:
            return 0
        return len(flights_example.commits(opened).get(WRITER, ()))

    def _look(self) -> None:
        pods = [*self._pods(naming.DRIVER), *self._pods(naming.EXECUTOR)]
        attempts = frozenset(each["metadata"]["labels"][resources.ATTEMPT] for each in pods)
        self.attempts_at_once.add(attempts)

    def _pod(self, role: str) -> dict[str, Any]:
        programs.wait_until(lambda: bool(self._pods(role)), f"a {role} runs", END_S)
        return self._pods(role)[0]

    def _pods(self, role: str) -> list[dict[str, Any]]:
        labels = f"{group.GROUP}/owner-name={WRITER},{naming.ROLE}={role}"
        found = self._lake.list("pods", labels)
        return [each for each in found if each["status"].get("phase") == "Running"]


@pytest.mark.alone
def test_flights_are_written_once_whatever_ends_meanwhile(
    real_lake: installed_operator.Lake, flights: flights_example.Flights
) -> None:
    disturbed = Disturbed(real_lake)
    real_lake.kubectl("apply", "-k", str(EXAMPLE))
    installed_operator.copy_in(real_lake, flights.folder)
    try:
        disturbed.await_commits(1)
        disturbed.kill_executor()
        disturbed.await_commits(2)
        server = disturbed.delete_lock_server()
        disturbed.await_commits(3)
        disturbed.evict_driver()
        disturbed.await_commits(4)
        # Last: the writers may have come to their end before it answers again.
        real_lake.cluster.restart_api_server()
        disturbed.await_end()
    finally:
        real_lake.show()
    real_lake.await_ready()
    assert disturbed.lock_server()["metadata"]["uid"] != server
    # None begins before driver and executors of the one before are gone.
    assert max(len(each) for each in disturbed.attempts_at_once) == 1
    (runs,) = (
        each["status"]["runs"]
        for each in real_lake.list("writers")
        if each["metadata"]["name"] == WRITER
    )
    kinds = [each.get("errorKind") for each in runs["history"]]
    assert retries.INFRASTRUCTURE in kinds, runs
    flights_example.check(disturbed.opened(), flights)
