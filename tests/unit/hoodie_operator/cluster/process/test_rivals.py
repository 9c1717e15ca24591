"""A leader tells of another release that makes runs where it leads, once."""

import dataclasses

import pytest

from hoodie_operator.api import kinds, objects, resources
from hoodie_operator.api.resources import Manifest
from hoodie_operator.cluster.control import events
from hoodie_operator.cluster.process import rivals
from hoodie_operator.manifests import naming
from hoodie_operator.reconcile import facts
from support.operators import operator_world, rule_examples

OURS = rivals.creator("hudi", "hudi-operator")
OTHERS = rivals.creator("trial", "second")


class Recorder(events.Recorder):
    """Holds what it is to tell."""

    def __init__(self) -> None:
        self.told: list[events.Happened] = []

    def record(self, happened: events.Happened) -> bool:
        self.told.append(happened)
        return True


def _job(maker: str, *, namespace: str = "lake", is_ours: bool = True) -> Manifest:
    here = operator_world.Outside()
    key = here.add(kinds.WRITER, "trips", rule_examples.WRITER)
    place = objects.ObjectKey(kind=key.kind, namespace=namespace, name=key.name)
    writer = dataclasses.replace(here.by_key[key], key=place)
    run = facts.RunId(kind="Writer", namespace=namespace, name="trips", uid=writer.uid, attempt=1)
    return {
        "apiVersion": resources.JOB.api_version,
        "kind": resources.JOB.kind,
        "metadata": {
            "name": naming.run(run) if is_ours else "backup",
            "namespace": namespace,
            "labels": naming.run_labels(run, "trips"),
            "ownerReferences": [naming.owner_reference(writer)],
            "managedFields": [
                {"manager": "kube-controller-manager", "subresource": "status"},
                {"manager": maker, "operation": "Update"},
            ],
        },
    }


def test_other_release_is_told_of_once_in_each_namespace() -> None:
    recorder = Recorder()
    found = rivals.Rivals(OURS, recorder)
    for _ in range(2):
        found.hear("ADDED", _job(OTHERS))
    found.hear("ADDED", _job(OTHERS, namespace="shop"))
    assert [each.about.namespace for each in recorder.told] == ["lake", "shop"]
    happened = recorder.told[0]
    assert (happened.reason, happened.is_warning) == ("OtherOperator", True)
    assert str(happened.about) == "Writer lake/trips"
    assert "Lease trial/second works in this namespace as well as that of Lease hudi/" in (
        happened.message
    )


@pytest.mark.parametrize(
    ("change", "job"),
    [
        ("ADDED", _job(OURS)),
        ("ADDED", _job("kubectl-create")),
        ("ADDED", _job(OTHERS, is_ours=False)),
        # Of a listing: it may be of a release that has been uninstalled since.
        (None, _job(OTHERS)),
        ("MODIFIED", _job(OTHERS)),
    ],
)
def test_nothing_else_is_taken_for_another_release(change: str | None, job: Manifest) -> None:
    recorder = Recorder()
    rivals.Rivals(OURS, recorder).hear(change, job)
    assert recorder.told == []


def test_name_that_is_too_long_for_the_server_is_cut() -> None:
    assert len(rivals.creator("n" * 63, "l" * 63)) == 128
