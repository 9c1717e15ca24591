"""Whatever comes in whatever order: of each object the newest version counts, and gone is gone."""

import copy
import dataclasses
import random

import pytest

from hoodie import clock
from hoodie.contract import job_results
from hoodie_operator.api import kinds, objects, resources
from hoodie_operator.api.resources import Manifest
from hoodie_operator.cluster.informer import store
from hoodie_operator.manifests import naming, observed
from hoodie_operator.reconcile import effective, effects, facts
from support.operators import cluster_helpers, operator_world, pod_shapes, rule_examples

LOCATE = effective.locator(["file:///data"])


class _Clock(clock.SystemClock):
    """A clock that the test moves."""

    at_ms = 5_000_000
    at_s = 100.0

    def monotonic_s(self) -> float:
        return self.at_s

    def now_ms(self) -> int:
        return self.at_ms


def _store() -> store.Store:
    return store.Store(LOCATE, cluster_helpers.read_run, clock.SystemClock())


def _writer(name: str, uid: str, version: int, **edits: object) -> Manifest:
    return {
        "apiVersion": "hudi.dev/v1alpha1",
        "kind": "Writer",
        "metadata": {
            "name": name,
            "namespace": "n",
            "uid": uid,
            "generation": version,
            "resourceVersion": str(version),
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": rule_examples.edited(rule_examples.WRITER, **edits),
    }


def test_annotation_of_a_retry_is_what_a_user_has_asked_for() -> None:
    here = _store()
    manifest = _writer("w", "u", 1)
    manifest["metadata"]["annotations"] = {"hudi.dev/retry": "now", "other": "x"}
    assert here.take(manifest) == {WRITER_KEY}
    assert here.by_key[WRITER_KEY].retry_request == "now"


def _job(version: int, how: str | None = None, uid: str = "j1") -> Manifest:
    annotations = {"hudi.dev/protocol-hash": "h"}
    if how is not None:
        annotations[cluster_helpers.ENDED] = how
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "w-u-1",
            "namespace": "n",
            "uid": uid,
            "resourceVersion": str(version),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": annotations,
            "ownerReferences": [
                {
                    "apiVersion": "hudi.dev/v1alpha1",
                    "kind": "Writer",
                    "name": "w",
                    "uid": "u",
                    "controller": True,
                }
            ],
            "labels": {
                resources.OWNER_KIND: "Writer",
                resources.OWNER_NAME: "w",
                resources.OWNER_UID: "u",
                resources.ATTEMPT: "1",
            },
        },
    }


WRITER_KEY = objects.ObjectKey(kind="Writer", namespace="n", name="w")
WRITERS = resources.BY_KIND["Writer"]


class Cluster:
    """What really is there, and every version of it that may still be told of."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.there: dict[str, Manifest] = {}
        self.told: list[tuple[str, Manifest]] = []
        self.version = 0

    def change(self) -> None:
        self.version += 1
        name = self.chance.choice("abc")
        if name in self.there and self.chance.random() < 0.3:
            self.told.append(("DELETED", self.there.pop(name)))
            return
        uid = self.there[name]["metadata"]["uid"] if name in self.there else f"u{self.version}"
        made = _writer(name, uid, self.version, source__files__path=f"in/{self.version}.csv")
        self.there[name] = made
        self.told.append(("MODIFIED", made))

    def listed_by(self, known: store.Store) -> None:
        """Have a store take everything, and drop what is not there."""
        for manifest in self.there.values():
            known.take(copy.deepcopy(manifest))
        uids = {each["metadata"]["uid"] for each in self.there.values()}
        known.drop_unlisted(WRITERS, uids, self.version)


@pytest.mark.parametrize("seed", range(60))
def test_any_order_of_events_listings_and_answers_comes_to_what_is_there(seed: int) -> None:
    chance = random.Random(seed)
    cluster, known = Cluster(chance), _store()
    for _ in range(80):
        cluster.change()
        # The watch tells late, out of order with answers, twice, or, while it is cut, not at all.
        for change, manifest in chance.choices(cluster.told, k=2):
            if change == "DELETED":
                metadata = manifest["metadata"]
                known.drop(WRITERS, "n", metadata["name"], metadata["uid"])
            else:
                known.take(copy.deepcopy(manifest))
        if chance.random() < 0.1:
            cluster.listed_by(known)
            assert _held(known) == _there(cluster)
    cluster.listed_by(known)
    assert _held(known) == _there(cluster)


def _held(known: store.Store) -> dict[str, tuple[str, int]]:
    assert set(known.by_key) == set(known.stored)
    return {key.name: (known.by_key[key].uid, each.version) for key, each in known.stored.items()}


def _there(cluster: Cluster) -> dict[str, tuple[str, int]]:
    return {
        name: (each["metadata"]["uid"], int(each["metadata"]["resourceVersion"]))
        for name, each in cluster.there.items()
    }


def test_what_was_made_since_a_listing_stays() -> None:
    known = _store()
    known.take(_writer("w", "u", 9))
    known.drop_unlisted(WRITERS, (), 5)
    assert WRITER_KEY in known.by_key
    assert known.drop_unlisted(WRITERS, (), 9) == {WRITER_KEY}
    assert WRITER_KEY not in known.by_key


def test_listing_of_one_namespace_says_nothing_of_others() -> None:
    known = _store()
    known.take(_writer("w", "u", 1))
    known.drop_unlisted(WRITERS, (), 5, "m")
    assert WRITER_KEY in known.by_key


def test_answer_that_comes_after_the_end_brings_nothing_back() -> None:
    known = _store()
    known.take(_writer("w", "u", 1))
    known.drop(WRITERS, "n", "w", "u")
    assert known.take(_writer("w", "u", 2)) == set()
    assert known.is_gone("u")
    known.take(_writer("w", "v", 3))
    # The end of the one before, told late.
    known.drop(WRITERS, "n", "w", "u")
    assert known.by_key[WRITER_KEY].uid == "v"


def test_object_that_cannot_be_read_is_known_but_not_decided_about() -> None:
    known = _store()
    known.take(_writer("w", "u", 1))
    broken = _writer("w", "u", 2)
    broken["spec"]["source"] = "nonsense"
    broken["status"] = {"runs": {"attempts": 3}}
    assert known.take(broken) == {WRITER_KEY}
    assert WRITER_KEY not in known.by_key
    assert known.stored[WRITER_KEY].problem is not None
    assert known.stored[WRITER_KEY].raw_status == {"runs": {"attempts": 3}}
    known.take(_writer("w", "u", 3))
    assert known.stored[WRITER_KEY].problem is None
    assert WRITER_KEY in known.by_key


def test_field_of_a_newer_version_is_no_problem() -> None:
    newer = _writer("w", "u", 1)
    newer["spec"]["fieldOfTheFuture"] = {"a": 1}
    known = _store()
    known.take(newer)
    assert WRITER_KEY in known.by_key


def _start() -> effects.StartRun:
    here = operator_world.Outside()
    key = here.add(kinds.HUDI_TABLE, "flights", rule_examples.TABLE)
    here.settle()
    here.see_table(key, is_there=False)
    here.settle()
    run = facts.RunId(kind="Writer", namespace="n", name="w", uid="u", attempt=1)
    return dataclasses.replace(here.started[0], id=run)


def test_run_is_at_work_from_before_its_job_is_asked_for() -> None:
    known = _store()
    start = _start()
    known.mark_started(start)
    assert [run.is_running for run in known.runs["u"]] == [True]
    # Its Job is there: the mark has done its work.
    known.take(_job(1))
    known.unmark_started(start.id)
    assert [run.is_running for run in known.runs["u"]] == [True]


def test_run_whose_job_is_made_and_not_yet_resumed_counts_as_long_as_it_is_being_started() -> None:
    known = store.Store(LOCATE, observed.read, clock.SystemClock())
    uid = pod_shapes.LABELS[resources.OWNER_UID]
    run = facts.RunId(kind="Writer", namespace="n", name="orders", uid=uid, attempt=3)
    known.mark_started(dataclasses.replace(_start(), id=run))
    known.take(_stored(pod_shapes.unstarted_job(), "j1", 1))
    assert [each.id for each in known.runs_at_work] == [run]
    known.unmark_started(run)
    assert not known.runs_at_work
    assert [job["metadata"]["uid"] for job in known.unstarted_jobs()] == ["j1"]
    # It was resumed after all, and its watch tells.
    known.take(_stored(pod_shapes.job(), "j1", 2))
    assert [each.id for each in known.runs_at_work] == [run]
    assert not known.unstarted_jobs()


def test_job_that_was_withdrawn_is_held_no_longer() -> None:
    known = store.Store(LOCATE, observed.read, clock.SystemClock())
    known.take(_stored(pod_shapes.unstarted_job(), "j1", 1))
    known.drop(resources.JOB, "n", "orders-a1b2c3-3", "j1")
    assert list(known.attempts()) == []


def test_runs_at_work_are_those_that_have_neither_ended_nor_gone() -> None:
    known = _store()
    start = _start()
    assert not known.runs_at_work
    known.mark_started(start)
    assert list(known.runs_at_work) == known.runs["u"]
    known.take(_job(1))
    assert list(known.runs_at_work) == known.runs["u"]
    assert [each.id for each in known.attempts_at_work()] == [start.id]
    known.take(_job(2, cluster_helpers.SUCCESS))
    assert (list(known.runs_at_work), known.attempts_at_work()) == ([], [])
    known.take(_job(3, uid="j2"))
    assert list(known.runs_at_work) == known.runs["u"]
    known.drop(resources.JOB, "n", "w-u-1", "j2")
    assert (list(known.runs_at_work), known.attempts_at_work()) == ([], [])


def test_silence_of_a_run_counts_from_when_something_of_it_was_heard() -> None:
    our_clock = _Clock()
    known = store.Store(LOCATE, cluster_helpers.read_run, our_clock)
    known.take(_job(1))
    (run,) = known.runs["u"]
    assert run.heard is not None
    began_ms = run.heard.news_ms
    # The wall clock steps, and nothing is heard.
    our_clock.at_ms += 60_000_000
    our_clock.at_s += 60
    known.take(_job(2))
    assert [run.heard and run.heard.news_ms for run in known.runs["u"]] == [began_ms]
    # The clock of its pod is far behind.
    known.note_progress(run.id, job_results.JobProgress(phase="x", done=0, total=0, updated_ms=1))
    assert [run.heard and run.heard.news_ms for run in known.runs["u"]] == [began_ms + 60_000]


def test_run_that_was_not_started_after_all_is_none() -> None:
    known = _store()
    start = _start()
    known.mark_started(start)
    known.unmark_started(start.id)
    assert "u" not in known.runs
    assert list(known.attempts()) == []


def test_ended_run_does_not_change_any_more() -> None:
    known = _store()
    known.take(_job(1))
    known.take(_job(2, cluster_helpers.SUCCESS))
    (ended,) = known.runs["u"]
    assert not ended.is_running
    known.take(_job(3, "Storage"))
    assert known.runs["u"] == [ended]
    assert known.drop(resources.JOB, "n", "w-u-1", "j1") == {WRITER_KEY}
    assert "u" not in known.runs


def test_end_that_was_seen_before_its_pod_is_told_by_the_pod() -> None:
    # As after a start: Jobs are listed first, and some ended while nobody was there.
    known = store.Store(LOCATE, observed.read, clock.SystemClock())
    job = _stored(pod_shapes.job(ended="Complete"), "j1", 1)
    pod = _stored(pod_shapes.ended(0, "Completed", pod_shapes.RESULT), "p1", 2)
    uid = pod_shapes.LABELS[resources.OWNER_UID]
    known.take(job)
    (seen,) = known.runs[uid]
    assert known.ends_without_pod(uid) == [seen.id]
    assert known.take(pod)
    (told,) = known.runs[uid]
    assert told.result == job_results.JobResult(attempt=3, commit_count=2)
    assert told.cause is None
    assert told.ended_ms == seen.ended_ms
    assert known.ends_without_pod(uid) == []
    # What it told stays when the pod goes.
    known.drop(resources.POD, "n", "orders-a1b2c3-3-x7k2p", "p1")
    assert known.runs[uid] == [told]


def _stored(shape: pod_shapes.Shape, uid: str, version: int) -> Manifest:
    shape["metadata"] |= {"namespace": "n", "uid": uid, "resourceVersion": str(version)}
    return shape


def test_progress_is_news_once() -> None:
    known = _store()
    known.take(_job(1))
    (run,) = known.runs["u"]
    told = job_results.JobProgress(phase="writing", done=1, total=2, updated_ms=5)
    assert known.note_progress(run.id, told) == {WRITER_KEY}
    assert known.note_progress(run.id, told) == set()
    assert known.runs["u"][0].progress == told


def test_job_whose_labels_say_nothing_is_none_of_ours() -> None:
    known = _store()
    job = _job(1)
    job["metadata"]["labels"] = {resources.MANAGED_BY: resources.MANAGER}
    assert known.take(job) == set()
    assert known.runs == {}


def test_job_labelled_with_a_kind_that_is_not_ours_is_none_of_ours() -> None:
    known = _store()
    job = _job(1)
    job["metadata"]["labels"][resources.OWNER_KIND] = "Sandwich"
    assert known.take(job) == set()
    assert known.runs == {}


@pytest.mark.parametrize("role", [naming.OBSERVER, naming.LOCK_SERVER])
def test_pod_of_a_helper_is_no_attempt_and_no_surprise(
    role: str, caplog: pytest.LogCaptureFixture
) -> None:
    known = _store()
    pod = _job(1)
    pod["apiVersion"], pod["kind"] = "v1", "Pod"
    pod["metadata"]["labels"] = {resources.MANAGED_BY: resources.MANAGER, naming.ROLE: role}
    assert known.take(pod) == set()
    assert caplog.text == ""
