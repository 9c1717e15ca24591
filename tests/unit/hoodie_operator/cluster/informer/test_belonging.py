"""Whose a Job or a Pod is: what somebody else labels as ours holds up nothing and hides nothing."""

import copy

import pytest

from hoodie import clock
from hoodie_operator.api import kinds, resources
from hoodie_operator.api.resources import Manifest
from hoodie_operator.cluster.informer import store
from hoodie_operator.manifests import naming, observed
from hoodie_operator.reconcile import effective, facts, world
from support.operators import operator_world, pod_shapes

LIMITS = world.Limits(data_roots=("file:///data",))
UID = pod_shapes.LABELS[resources.OWNER_UID]
EXECUTOR = "orders-a1b2c3-3-exec-1"
OTHER = {"apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": "x", "controller": True}


class Seen:
    """What an operator knows of Writer orders of namespace n, and makes of it."""

    def __init__(self, *, has_owner: bool = True) -> None:
        locate = effective.locator(LIMITS.data_roots)
        self.known = store.Store(locate, observed.read, clock.SystemClock())
        self._version = 0
        if has_owner:
            self.known.take(_writer())

    def take(self, shape: Manifest, *, uid: str = "", **metadata: object) -> Manifest:
        """Hear of a new version of a Job or a Pod."""
        self._version += 1
        found = copy.deepcopy(shape)
        found["metadata"] |= {"resourceVersion": str(self._version), **metadata}
        if uid:
            found["metadata"]["uid"] = uid
        self.known.take(found)
        return found

    def drop(self, shape: Manifest) -> None:
        metadata = shape["metadata"]
        self.known.drop(resources.of(shape), "n", metadata["name"], metadata["uid"])

    @property
    def world(self) -> world.World:
        runs = facts.Facts(runs=self.known.runs)
        return world.World(
            now_ms=1, monotonic_ms=1, limits=LIMITS, by_key=self.known.by_key, seen=runs
        )

    @property
    def runs(self) -> list[facts.Run]:
        """The runs of Writer orders, as decisions see them."""
        (owner,) = self.known.by_key.all_of(kinds.WRITER)
        return list(self.world.runs(owner))

    def processes(self) -> list[tuple[int, str, bool]]:
        return [(run.id.attempt, run.process, run.is_running) for run in self.runs]


def _writer() -> Manifest:
    return {
        "apiVersion": "hudi.dev/v1alpha1",
        "kind": "Writer",
        "metadata": {
            "name": "orders",
            "namespace": "n",
            "uid": UID,
            "generation": 1,
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": operator_world.writer_spec(tableRef={"name": "orders"}),
    }


def _without_reference(shape: Manifest) -> Manifest:
    found = copy.deepcopy(shape)
    found["metadata"].pop("ownerReferences", None)
    return found


def _of(shape: Manifest, **controller: str) -> Manifest:
    """Return a Job or Pod that another object controls."""
    found = copy.deepcopy(shape)
    (reference,) = found["metadata"]["ownerReferences"]
    found["metadata"]["ownerReferences"] = [{**reference, **controller}]
    return found


@pytest.mark.parametrize(
    "metadata",
    [
        {"namespace": "m"},
        {"ownerReferences": None},
        {"ownerReferences": []},
        {"name": "orders-copied"},
        {"name": "orders-a1b2c3-3-x7k2p"},
    ],
)
def test_job_with_our_labels_alone_is_no_attempt(metadata: dict[str, object]) -> None:
    seen = Seen()
    seen.take(pod_shapes.job(), **metadata)
    assert seen.runs == []


@pytest.mark.parametrize(
    "controller",
    [
        {"kind": "HudiTable"},
        {"apiVersion": "example.io/v1alpha1"},
        {"uid": "another"},
        {"name": "another"},
        {"apiVersion": "batch/v1"},
        {"controller": ""},
    ],
)
def test_job_of_another_controller_is_no_attempt(controller: dict[str, str]) -> None:
    seen = Seen()
    seen.take(_of(pod_shapes.job(), **controller))
    assert seen.runs == []


@pytest.mark.parametrize("is_first", [True, False])
def test_forged_job_elsewhere_changes_nothing_of_the_true_one(*, is_first: bool) -> None:
    seen = Seen()
    forged = pod_shapes.job(ended="Complete")
    forged["metadata"] |= {"namespace": "m", "uid": "j-forged"}
    if is_first:
        seen.take(forged)
    seen.take(pod_shapes.job())
    seen.take(pod_shapes.running())
    if not is_first:
        seen.take(forged)
    there = [(3, "pod orders-a1b2c3-3-x7k2p", True)]
    assert seen.processes() == there
    seen.drop(forged)
    assert seen.processes() == there


@pytest.mark.parametrize(
    "metadata",
    [
        {"namespace": "m"},
        {"ownerReferences": None, "name": "copied"},
        {"ownerReferences": None, "name": "orders-a1b2c3-3-x7k2p-too"},
        {"ownerReferences": [OTHER]},
    ],
)
@pytest.mark.parametrize("shape", [pod_shapes.running(), pod_shapes.executor()])
def test_pod_with_our_labels_alone_holds_up_nothing(
    shape: Manifest, metadata: dict[str, object]
) -> None:
    seen = Seen()
    seen.take(shape, **metadata)
    assert seen.runs == []
    seen.take(pod_shapes.job(ended="Complete"))
    assert seen.processes() == [(3, "", False)]


@pytest.mark.parametrize("is_first", [True, False])
def test_pod_of_a_job_that_is_not_ours_holds_up_nothing(*, is_first: bool) -> None:
    seen = Seen()
    forged = _of(pod_shapes.job(), kind="CronJob", apiVersion="batch/v1")
    parts = [forged, pod_shapes.running(), pod_shapes.executor()]
    for part in parts if is_first else parts[::-1]:
        seen.take(part)
    assert seen.runs == []


def test_executor_of_a_driver_that_is_not_ours_holds_up_nothing() -> None:
    seen = Seen()
    seen.take(pod_shapes.job(ended="Complete"))
    seen.take(_of(pod_shapes.running(), uid="j-forged", name="forged"), uid="p-forged")
    seen.take(_of(pod_shapes.executor(), uid="p-forged", name="forged-x"), uid="e1")
    assert seen.processes() == [(3, "", False)]


def test_run_is_at_work_for_as_long_as_a_pod_of_it_is_though_its_job_is_not_known() -> None:
    seen = Seen()
    driver, executor = seen.take(pod_shapes.running()), seen.take(pod_shapes.executor())
    assert seen.processes() == [(3, "pod orders-a1b2c3-3-x7k2p", True)]
    seen.drop(driver)
    # Spark's executors go with their driver, but later.
    assert seen.processes() == [(3, "", True)]
    seen.drop(executor)
    assert seen.runs == []


def test_pod_that_an_earlier_job_of_the_name_left_is_at_work_too() -> None:
    seen = Seen()
    seen.take(
        _of(pod_shapes.running(), uid="j-earlier"), uid="p-earlier", name="orders-a1b2c3-3-old1x"
    )
    seen.take(pod_shapes.job(ended="Complete"))
    assert [run.is_running for run in seen.runs] == [True]


def test_pod_that_was_orphaned_is_at_work() -> None:
    # `kubectl delete job --cascade=orphan` takes the reference away, and leaves the pod.
    seen = Seen()
    seen.take(_without_reference(pod_shapes.running()))
    seen.take(_without_reference(pod_shapes.executor()))
    assert [run.is_running for run in seen.runs] == [True]


def test_run_of_a_writer_that_was_deleted_alone_holds_up_others_of_its_table() -> None:
    # `kubectl delete writer --cascade=orphan` takes the reference of the Job away.
    seen = Seen(has_owner=False)
    seen.take(_without_reference(pod_shapes.job()))
    seen.take(pod_shapes.running())
    assert [run.is_running for runs in seen.known.runs.values() for run in runs] == [True]


def test_orphaned_job_of_a_writer_that_is_going_is_its_own() -> None:
    seen = Seen()
    going = _writer()
    going["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "2"}
    seen.known.take(going)
    seen.take(_without_reference(pod_shapes.job()))
    assert [run.is_running for run in seen.runs] == [True]


def test_job_that_an_earlier_version_of_our_kinds_controls_is_an_attempt() -> None:
    seen = Seen()
    seen.take(_of(pod_shapes.job(), apiVersion="hudi.dev/v1"))
    assert [run.is_running for run in seen.runs] == [True]


def test_names_of_the_shapes_are_those_that_runs_get() -> None:
    run = naming.run_id(pod_shapes.job())
    assert run is not None
    assert naming.run(run) == pod_shapes.job()["metadata"]["name"]
    assert EXECUTOR.startswith(f"{naming.executors(run)}-exec-")
