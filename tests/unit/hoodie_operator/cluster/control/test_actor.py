"""What was decided about an object is carried out at an API server in memory."""

import dataclasses
import json
import logging
from typing import cast

import pytest

from hoodie import clock
from hoodie_operator.api import configuration, documents, kinds, objects, resources
from hoodie_operator.cluster import health, logs
from hoodie_operator.cluster.adapters import fences, runs
from hoodie_operator.cluster.client import api
from hoodie_operator.cluster.control import (
    actor,
    event_handler,
    events,
    metrics,
    object_states,
    ports,
    snapshots,
    statuses,
)
from hoodie_operator.cluster.informer import resync, store
from hoodie_operator.reconcile import effective, effects, world
from support.operators import operator_world as ow
from support.operators import pod_shapes
from support.operators.api_server import ApiServer
from support.operators.flights_world import Flights

CLOCK = clock.SystemClock()
TOLD = configuration.parse(b"dataRoots: [/data]\nimage: {name: 'hudi:1'}", "operator.yaml")


def _actor(client: api.Api, known: store.Store, job_runs: runs.JobRuns) -> actor.Actor:
    services = actor.Services(
        api=client,
        statuses=statuses.Statuses(client, {}),
        adapters=ports.Adapters(
            runs=job_runs,
            locks=cast("ports.Locks", None),
            observers=cast("ports.Observers", None),
        ),
        recorder=events.Recorder(client, CLOCK, "one"),
        counted=metrics.Metrics(),
        clock=CLOCK,
    )
    states = object_states.ObjectStates()
    handler = event_handler.EventHandler(
        client, known, states, resync.Scope(), probes=health.Health(CLOCK), our_clock=CLOCK
    )
    current = snapshots.Snapshots(known, states, world.Limits(data_roots=("/data",)), CLOCK)
    return actor.Actor(services, known, current, handler)


def _owner() -> objects.AnyObject:
    """Return the Writer that the shapes of pods name."""
    here = ow.Outside()
    key = here.add(kinds.WRITER, pod_shapes.LABELS["hudi.dev/owner-name"], ow.writer_spec())
    uid = pod_shapes.LABELS["hudi.dev/owner-uid"]
    moved = objects.ObjectKey(kind=key.kind, namespace=pod_shapes.NAMESPACE, name=key.name)
    return dataclasses.replace(here.by_key[key], key=moved, uid=uid)


@pytest.mark.parametrize(("is_killed", "grace_s"), [(False, None), (True, 1)])
def test_pods_of_an_attempt_whose_job_is_gone_are_ended(
    *, is_killed: bool, grace_s: int | None
) -> None:
    server = ApiServer()
    running, ended = pod_shapes.running(), pod_shapes.ended(0, "Completed")
    for number, pod in enumerate((running, ended)):
        pod["metadata"] |= {
            "name": f"pod-{number}",
            "namespace": pod_shapes.NAMESPACE,
            "uid": f"uid-of-{number}",
            "resourceVersion": str(number + 1),
        }
        server.objects[resources.POD.path(pod_shapes.NAMESPACE, pod["metadata"]["name"])] = pod
    owner = _owner()
    held = store.Stored(uid=owner.uid, version=1, finalizers=())

    async def scenario(client: api.Api) -> None:
        job_runs = runs.JobRuns(client, fences.Fences(lambda: 1, CLOCK), TOLD, CLOCK)
        known = store.Store(effective.locator(["file:///data"]), job_runs.read, CLOCK)
        for pod in (running, ended):
            known.take(pod)
        (attempt,) = known.attempts()
        assert (attempt.job, attempt.id.owner) == (None, owner.key)
        stop = effects.StopRun(id=attempt.id, is_killed=is_killed, reason="its table has changed")
        await _actor(client, known, job_runs).carry_out(owner, held, [stop])
        await job_runs.close()

    server.use(scenario)
    ((path, options),) = server.deletions
    assert path.endswith("pod-0")
    assert options["preconditions"] == {"uid": "uid-of-0"}
    assert options.get("gracePeriodSeconds") == grace_s


def test_change_of_a_status_is_logged_with_table_instant_and_action(
    caplog: pytest.LogCaptureFixture,
) -> None:
    here = Flights()
    here.add_policy()
    commits = [ow.commit(1), ow.commit(2)]
    here.see_table(here.table_key, commits)
    here.settle()
    (key,) = here.compactions()
    here.see_table(here.table_key, commits, [ow.planned(3, action_id=key.name)])
    here.progress(here.uid(key), "merging")
    (told,) = here.decide(key)
    found, table = here.by_key[key], here.by_key[here.table_key]
    server = ApiServer()
    path = resources.BY_KIND[key.kind].path(key.namespace, key.name, "status")
    server.objects[path] = documents.to_document(found)

    async def scenario(client: api.Api) -> None:
        job_runs = runs.JobRuns(client, fences.Fences(lambda: 1, CLOCK), TOLD, CLOCK)
        known = store.Store(effective.locator([ow.DATA_ROOT]), job_runs.read, CLOCK)
        known.by_key.put(table)
        held = store.Stored(uid=found.uid, version=1, finalizers=())
        await _actor(client, known, job_runs).carry_out(found, held, [told])

    with caplog.at_level(logging.INFO, actor.__name__):
        server.use(scenario)
    (record,) = (each for each in caplog.records if each.name == actor.__name__)
    line = json.loads(logs.JsonFormatter().format(record))
    assert line["message"] == f"{key}: Running: attempt 1, pid 1 on test: merging"
    named = {name: line[name] for name in ("kind", "name", "reason", "table", "instant", "action")}
    assert named == {
        "kind": "TableAction",
        "name": key.name,
        "reason": "Running",
        "table": here.world.by_key.place(table),
        "instant": ow.time(3),
        "action": "Compaction",
    }
