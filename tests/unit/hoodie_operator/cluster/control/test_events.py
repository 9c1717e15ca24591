"""Events: news only, one of a kind, and never too many."""

import asyncio
import dataclasses
from typing import Any

import pytest

from hoodie_operator.api import conditions, kinds, objects
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.resources import Manifest, Resource
from hoodie_operator.api.states import State
from hoodie_operator.cluster.client import api_errors
from hoodie_operator.cluster.control import events
from hoodie_operator.reconcile import verdicts
from support.operators import operator_world, rule_examples

HERE = operator_world.Outside()
KEY = HERE.add(kinds.HUDI_TABLE, "flights", rule_examples.TABLE)


class Clock:
    """Moved by the test."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def now_ms(self) -> int:
        return operator_world.START_MS + int(self.now_s * 1000)

    def monotonic_s(self) -> float:
        return self.now_s

    def sleep_s(self, seconds: float) -> None:
        raise AssertionError(seconds)


class Server:
    """Keeps events, of one name one."""

    def __init__(self) -> None:
        self.events: dict[str, Manifest] = {}
        self.ending: tuple[str, ...] = ()

    async def create(self, manifest: Manifest) -> Manifest:
        name = manifest["metadata"]["name"]
        if manifest["metadata"]["namespace"] in self.ending:
            raise api_errors.NamespaceEndingError(name)
        if name in self.events:
            raise api_errors.AlreadyExistsError(name)
        self.events[name] = manifest
        return manifest

    async def get(self, resource: Resource, namespace: str, name: str) -> Manifest | None:
        del resource, namespace
        return self.events.get(name)

    async def merge_patch(
        self, resource: Resource, namespace: str, name: str, patch: dict[str, Any]
    ) -> Manifest:
        del resource, namespace
        self.events[name] |= patch
        return self.events[name]


def _with(state: State, reason: Reason, message: str) -> objects.AnyObject:
    found = HERE.by_key[KEY]
    verdict = verdicts.Verdict(state=state, reason=reason, message=message)
    status = verdicts.stated(found.status, found, verdict, HERE.world.now(found))
    return objects.Object(
        key=found.key, uid=found.uid, generation=1, created_ms=0, spec=found.spec, status=status
    )


READY = _with(State.READY, Reason.READY, "3 commits")
STALLED = _with(State.STALLED, Reason.INVALID_SPEC, "no")


def test_new_state_or_reason_is_news_and_another_message_is_not() -> None:
    nothing = conditions.Status()
    first = events.of_change(nothing, READY)
    assert first is not None
    assert (first.reason, first.message, first.is_warning) == ("Ready", "3 commits", False)
    counted = _with(State.READY, Reason.READY, "4 commits")
    assert events.of_change(READY.status, counted) is None
    broken = events.of_change(READY.status, STALLED)
    assert broken is not None
    assert (broken.reason, broken.message) == ("InvalidSpec", "Stalled: no")
    assert broken.is_warning


@pytest.mark.parametrize(
    "reason",
    [
        Reason.POD_NOT_CREATED,
        Reason.UNSCHEDULABLE,
        Reason.IMAGE_NOT_PULLED,
        Reason.CONTAINER_NOT_CREATED,
    ],
)
def test_what_keeps_a_pod_from_beginning_is_a_warning(reason: Reason) -> None:
    here = operator_world.Outside()
    writer = here.by_key[here.add(kinds.WRITER, "trips", rule_examples.WRITER)]
    verdict = verdicts.Verdict(state=State.STARTING, reason=reason, message="attempt 1")
    status = verdicts.stated(writer.status, writer, verdict, here.world.now(writer))
    happened = events.of_change(writer.status, dataclasses.replace(writer, status=status))
    assert happened is not None
    assert happened.is_warning


def test_what_happens_again_is_counted_by_whoever_leads_then() -> None:
    server, clock = Server(), Clock()
    happened = events.of_change(READY.status, STALLED)
    assert happened is not None

    async def run() -> None:
        for instance in ("one", "two", "two"):
            recorder = events.Recorder(server, clock, instance)  # type: ignore[arg-type]
            assert recorder.record(happened)
            telling = asyncio.create_task(recorder.run())
            await asyncio.sleep(0.01)
            telling.cancel()
            clock.now_s += 60

    asyncio.run(run())
    (event,) = server.events.values()
    assert event["count"] == 3
    assert event["lastTimestamp"] > event["firstTimestamp"]
    assert event["involvedObject"]["uid"] == READY.uid
    assert (event["type"], event["reason"]) == ("Warning", "InvalidSpec")


def test_warning_from_a_namespace_that_goes_is_told_of_the_namespace() -> None:
    server = Server()
    server.ending = ("doomed",)
    kept = _with(State.DELETING, Reason.DATA_KEPT, "its data stays")
    recorder = events.Recorder(server, Clock(), "one")  # type: ignore[arg-type]
    usual = events.of_change(STALLED.status, READY)
    warning = events.of_change(READY.status, kept)
    assert usual is not None
    assert warning is not None
    about = dataclasses.replace(KEY, namespace="doomed")

    async def run() -> None:
        for each in (usual, warning):
            assert recorder.record(dataclasses.replace(each, about=about))
        telling = asyncio.create_task(recorder.run())
        await asyncio.sleep(0.01)
        telling.cancel()

    asyncio.run(run())
    (event,) = server.events.values()
    namespace = {"apiVersion": "v1", "kind": "Namespace", "name": "doomed"}
    assert event["involvedObject"] == namespace
    assert event["metadata"]["namespace"] == "default"
    assert event["message"] == "Deleting: its data stays"


def test_object_that_tells_too_much_is_heard_less() -> None:
    clock = Clock()
    recorder = events.Recorder(Server(), clock, "one")  # type: ignore[arg-type]
    happened = events.of_change(READY.status, STALLED)
    assert happened is not None
    told = [recorder.record(happened) for _ in range(events.BURST + 5)]
    assert told == [True] * events.BURST + [False] * 5
    clock.now_s += events.PERIOD_S
    assert [recorder.record(happened) for _ in range(2)] == [True, False]
