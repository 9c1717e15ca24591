"""`helm uninstall`, then a new installation: no data is lost, and tables are taken over again.

The chart, its kinds and its policies are real; the operator is a process instead of a pod.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from hoodie_operator.api import group, kinds, resources
from support.kube import clusters, control_plane, objects, programs
from support.operators import (
    chart,
    cluster_helpers,
    cluster_operator,
    cluster_place,
    installed_chart,
    rule_examples,
)

CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
VALUES: Final[chart.Values] = {**chart.MINIMAL, "jobs": {"serviceAccount": {"create": False}}}
WITHOUT_KEEPING: Final[chart.Values] = {**VALUES, "crds": {"keep": False}}
TABLES: Final = {
    "retained": {"deletionPolicy": "Retain"},
    "dropped": {"deletionPolicy": "Delete", "deletionProtection": False},
    "protected": {"deletionPolicy": "Delete"},
}
"""By name: what is said of each table's data."""

FINALIZED: Final = ("dropped", "protected")


class Site:
    """A cluster with one release, an operator of one namespace, and tables that hold data."""

    def __init__(self, cluster: clusters.Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.helm = installed_chart.helm(cluster, folder)
        self.place = cluster_place.Place(cluster, "sales")
        self.lake = cluster_helpers.Lake(folder / "lake")

    def install(self, values: chart.Values = VALUES, command: str = "install") -> None:
        self.helm.run(command, "--namespace", "hudi", values=values)

    def uninstall(self) -> None:
        self.helm.run("uninstall", "--namespace", "hudi")

    @contextlib.contextmanager
    def operator(self) -> Iterator[None]:
        """Have the operator of the release at work."""
        kubeconfig, lake = self.cluster.kubeconfig, self.lake.folder
        with cluster_operator.leading(kubeconfig, "sales", lake, home="hudi"):
            yield

    def declare(self, name: str) -> None:
        storage = {"path": name}
        spec = rule_examples.edited(rule_examples.TABLE, storage=storage, **TABLES[name])
        self.place.create(kinds.HUDI_TABLE, name, spec)
        source = {"files": {"path": f"/data/{name}/*.csv", "format": "CSV"}}
        edits = {"tableRef": {"name": name}, "source": source}
        writer = rule_examples.edited(rule_examples.WRITER, **edits)
        self.place.create(kinds.WRITER, name, writer)

    def await_all(self, *names: str) -> None:
        for name in names:
            self.place.await_state(kinds.HUDI_TABLE, name, "Ready", "Ready")
            self.place.await_state(kinds.WRITER, name, "Completed", "UpToDate")

    def delete(self, name: str) -> None:
        self.place.api.delete(objects.path(kinds.WRITER, "sales", name))
        path = objects.path(kinds.HUDI_TABLE, "sales", name)
        # The API server forgets a policy that is gone in its own time.
        programs.wait_until(
            lambda: self.place.api.request("DELETE", path).is_accepted, f"{name} may be deleted"
        )

    def is_there(self, name: str) -> bool:
        return self.place.is_there(kinds.HUDI_TABLE, name)

    def data(self) -> dict[str, tuple[object, int]]:
        """Return what is in the storage of each table: its configuration, how many commits."""
        found = {}
        for name in TABLES:
            uri = f"file:///data/{name}"
            found[name] = (self.lake.table(uri), len(self.lake.commits(uri)))
        return found

    def is_served(self, kind: kinds.Kind) -> bool:
        return self.cluster.api.is_there(f"{CRDS}/{kind.plural}.{group.GROUP}")

    def told(self, name: str) -> set[str]:
        """Return the reasons of the events about a table."""
        events = self.place.items(resources.EVENT.path("sales"))
        about = [(each["involvedObject"], each["reason"]) for each in events]
        return {
            reason
            for each, reason in about
            if (each["kind"], each["name"]) == (kinds.HUDI_TABLE.name, name)
        }


@pytest.fixture
def site(own_control_plane: control_plane.ControlPlane, tmp_path: Path) -> Site:
    """A cluster of the test's own, with nothing installed."""
    return Site(installed_chart.empty(own_control_plane, ("hudi", "sales")), tmp_path)


def _begin(site: Site, values: chart.Values) -> dict[str, tuple[object, int]]:
    """Install, and have tables with data; return what is in their storage."""
    site.install(values)
    installed_chart.await_kinds(site.cluster, "sales")
    with site.operator():
        for name in TABLES:
            site.declare(name)
        site.await_all(*TABLES)
    before = site.data()
    assert all(config is not None and commits > 0 for config, commits in before.values())
    return before


def test_new_installation_finds_tables_as_they_were_and_starts_nothing_again(site: Site) -> None:
    before, started = _begin(site, VALUES), site.lake.started
    site.uninstall()
    assert all(site.is_there(name) for name in TABLES)
    site.install()
    with site.operator():
        site.await_all(*TABLES)
        # What comes into being meanwhile shows that the operator has decided about everything.
        spec = rule_examples.edited(rule_examples.TABLE, storage={"path": "later"})
        site.place.create(kinds.HUDI_TABLE, "later", spec)
        site.place.await_state(kinds.HUDI_TABLE, "later", "Ready", "Ready")
    assert site.lake.started[: len(started)] == started
    assert len(site.lake.started) == len(started) + 1
    assert site.data() == before


def test_table_that_was_deleted_while_nothing_was_installed_keeps_what_is_protected(
    site: Site,
) -> None:
    before = _begin(site, VALUES)
    site.uninstall()
    # The policy that refuses it went with the release.
    for name in TABLES:
        site.delete(name)
    assert [site.is_there(name) for name in ("retained", *FINALIZED)] == [False, True, True]
    assert site.data() == before
    site.install()
    with site.operator():
        programs.wait_until(
            lambda: not any(site.is_there(name) for name in TABLES),
            "all tables are gone",
            cluster_place.WAIT_S,
        )
        programs.wait_until(lambda: "DataKept" in site.told("protected"), "it is told")
        # Only what was to go with its table has gone.
        assert site.data() == {**before, "dropped": (None, before["dropped"][1])}
        for name in ("retained", "protected"):
            site.declare(name)
        site.await_all("retained", "protected")
    # They were adopted: what was written is not written again.
    assert site.data() == {**before, "dropped": (None, before["dropped"][1])}


def test_kinds_that_went_with_the_release_leave_protected_data(site: Site) -> None:
    before = _begin(site, WITHOUT_KEEPING)
    site.uninstall()
    programs.wait_until(lambda: not site.is_there("retained"), "the table is deleted")
    # The others wait for an operator, and their kind with them.
    assert all(site.is_there(name) for name in FINALIZED)
    assert site.data() == before
    site.install(WITHOUT_KEEPING)
    kubeconfig, lake = site.cluster.kubeconfig, site.lake.folder
    operator = cluster_operator.start(kubeconfig, "sales", lake, home="hudi")
    try:
        # It lets them go, and then its kind is gone: Helm has found it, and made none.
        assert operator.wait(cluster_place.WAIT_S) == 1
    finally:
        operator.kill()
        operator.wait()
    assert not site.is_served(kinds.HUDI_TABLE)
    after = {**before, "dropped": (None, before["dropped"][1])}
    assert site.data() == after
    site.install(WITHOUT_KEEPING, "upgrade")
    installed_chart.await_kinds(site.cluster, "sales")
    with site.operator():
        for name in ("retained", "protected"):
            site.declare(name)
        site.await_all("retained", "protected")
    assert site.data() == after
