"""The client against a server that answers as it is told: errors by class, retries, listings."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from aiohttp import web

from hoodie_operator.api import resources
from hoodie_operator.cluster.client import api, api_errors
from support.operators.api_server import FAST, Served

Answer = tuple[int, dict[str, Any], dict[str, str]]
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"namespace": "n", "name": "j"},
    "spec": {},
}


class Server(Served):
    """Answers one after the other, and remembers what it was asked."""

    def __init__(self, *answers: Answer) -> None:
        self._answers: Iterator[Answer] = iter(answers)
        self.asked: list[tuple[str, str, Any]] = []
        self.tokens: list[str] = []

    async def handle(self, request: web.Request) -> web.Response:
        text = await request.text()
        self.asked.append((request.method, request.path_qs, json.loads(text) if text else None))
        self.tokens.append(request.headers["Authorization"])
        status, body, headers = next(self._answers)
        if status == 0:
            assert request.transport is not None
            request.transport.abort()
        return web.json_response(body, status=status or 200, headers=headers)


def ok(**body: object) -> Answer:
    return 200, body, {}


def refused(status: int, reason: str = "", headers: dict[str, str] | None = None) -> Answer:
    return status, {"kind": "Status", "reason": reason, "message": "told so"}, headers or {}


def test_object_is_recorded_to_be_made_by_who_made_it() -> None:
    server = Server(ok())
    server.use(lambda client: client.create(JOB))
    ((_, path, _),) = server.asked
    assert path.endswith("/jobs?fieldManager=hudi-operator")


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        (400, "BadRequest", api_errors.InvalidError),
        (403, "Forbidden", api_errors.ForbiddenError),
        (404, "NotFound", api_errors.NotFoundError),
        (409, "Conflict", api_errors.ConflictError),
        (409, "AlreadyExists", api_errors.AlreadyExistsError),
        (410, "Expired", api_errors.GoneError),
        (422, "Invalid", api_errors.InvalidError),
    ],
)
def test_refusal_is_not_asked_again_and_says_what_it_is(
    status: int, reason: str, expected: type[api_errors.ApiError]
) -> None:
    server = Server(refused(status, reason))
    with pytest.raises(expected, match="told so") as raised:
        server.use(lambda client: client.create(JOB))
    assert type(raised.value) is expected
    assert raised.value.is_outcome_known
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "answer", [refused(429), refused(500), refused(503), refused(504), (0, {}, {})]
)
def test_what_may_pass_is_asked_again(answer: Answer) -> None:
    server = Server(answer, answer, ok(done=True))
    assert server.use(lambda client: client.create(JOB)) == {"done": True}
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("answer", "is_known"), [(refused(429), True), (refused(500), False), ((0, {}, {}), False)]
)
def test_patience_ends_and_tells_whether_something_may_have_been_done(
    answer: Answer, is_known: bool
) -> None:
    server = Server(*[answer] * FAST.tries)
    with pytest.raises(api_errors.ApiError) as raised:
        server.use(lambda client: client.create(JOB))
    assert raised.value.is_outcome_known is is_known
    assert raised.value.is_transient


@pytest.mark.parametrize("last", [refused(429), refused(401), refused(403)])
@pytest.mark.parametrize("lost", [refused(500), (0, {}, {})])
def test_refusal_after_a_lost_answer_does_not_say_that_nothing_was_done(
    lost: Answer, last: Answer
) -> None:
    server = Server(lost, *[last] * FAST.tries)
    with pytest.raises(api_errors.ApiError) as raised:
        server.use(lambda client: client.create(JOB))
    assert raised.value.status == last[0]
    assert not raised.value.is_outcome_known


def test_wish_of_the_server_is_honoured_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(api.asyncio, "sleep", sleep)
    answers = (refused(429, headers={"Retry-After": "3600"}), refused(429), ok())
    Server(*answers).use(lambda client: client.create(JOB))
    assert FAST.pause_max_s / 2 <= pauses[0] <= FAST.pause_max_s * 1.5
    assert pauses[1] <= FAST.pause_s * 2 * 1.5


def test_namespace_that_is_being_deleted_is_told_from_what_may_not_be() -> None:
    status, body, headers = refused(403, "Forbidden")
    body["details"] = {
        "causes": [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]
    }
    with pytest.raises(api_errors.NamespaceEndingError, match="told so"):
        Server((status, body, headers)).use(lambda client: client.create(JOB))


def test_token_is_read_anew_when_it_is_not_taken() -> None:
    server = Server(refused(401), ok(kind="Job"))
    assert server.use(lambda client: client.get(resources.JOB, "n", "j")) == {"kind": "Job"}
    assert server.tokens == ["Bearer token-1", "Bearer token-2"]


def test_request_under_way_outlives_the_credentials_that_another_is_refused_by() -> None:
    is_asked, goes_on = asyncio.Event(), asyncio.Event()

    class Holding(Server):
        async def handle(self, request: web.Request) -> web.Response:
            if request.path.endswith("/slow"):
                is_asked.set()
                await goes_on.wait()
            return await super().handle(request)

    server = Holding(refused(401), ok(kind="Job"), ok(kind="Pod"))

    async def ask(client: api.Api) -> object:
        slow = asyncio.create_task(client.get(resources.POD, "n", "slow"))
        await is_asked.wait()
        assert await client.get(resources.JOB, "n", "j") == {"kind": "Job"}
        goes_on.set()
        return await slow

    assert server.use(ask) == {"kind": "Pod"}
    assert server.tokens == ["Bearer token-1", "Bearer token-2", "Bearer token-1"]


def test_what_is_not_there_is_none_and_deleting_it_is_done() -> None:
    assert Server(refused(404)).use(lambda client: client.get(resources.JOB, "n", "j")) is None
    Server(refused(404)).use(lambda client: client.delete(resources.JOB, "n", "j"))


def test_deleting_names_the_one_that_is_meant() -> None:
    server = Server(ok())
    server.use(
        lambda client: client.delete(
            resources.POD, "n", "p", uid="u", grace_s=1, propagation="Background"
        )
    )
    ((method, path, body),) = server.asked
    assert (method, path) == ("DELETE", "/api/v1/namespaces/n/pods/p")
    assert body["preconditions"] == {"uid": "u"}
    assert body["gracePeriodSeconds"] == 1
    assert body["propagationPolicy"] == "Background"


def _page(names: str, version: int, token: str = "") -> Answer:
    items = [{"metadata": {"name": name}} for name in names]
    metadata = {"resourceVersion": str(version), "continue": token}
    return ok(items=items, metadata=metadata)


def test_listing_has_all_pages_and_the_type_of_its_items() -> None:
    server = Server(_page("ab", 7, "more"), _page("c", 7))
    listing = server.use(lambda client: client.list(resources.JOB, "n", "a=b"))
    assert [each["metadata"]["name"] for each in listing.items] == ["a", "b", "c"]
    assert {(each["apiVersion"], each["kind"]) for each in listing.items} == {("batch/v1", "Job")}
    assert listing.version == 7
    assert "labelSelector=a%3Db" in server.asked[0][1]
    assert "continue=more" in server.asked[1][1]


def test_listing_that_took_too_long_begins_anew() -> None:
    server = Server(_page("ab", 7, "more"), refused(410), _page("cd", 9))
    listing = server.use(lambda client: client.list(resources.JOB))
    assert [each["metadata"]["name"] for each in listing.items] == ["c", "d"]
    assert listing.version == 9


def test_status_is_applied_by_one_manager_by_force() -> None:
    server = Server(ok())
    manifest = {"apiVersion": "hudi.dev/v1alpha1", "kind": "Writer", "metadata": JOB["metadata"]}
    server.use(lambda client: client.apply_status(manifest))
    path = "/apis/hudi.dev/v1alpha1/namespaces/n/writers/j/status"
    assert server.asked[0][1] == f"{path}?fieldManager=hudi-operator&force=true"


CHANGES: tuple[Callable[[api.Api], Awaitable[object]], ...] = (
    lambda client: client.create(JOB),
    lambda client: client.replace(JOB),
    lambda client: client.apply(JOB),
    lambda client: client.apply_status(JOB),
    lambda client: client.merge_patch(resources.JOB, "n", "j", {}),
    lambda client: client.delete(resources.JOB, "n", "j"),
)


@pytest.mark.parametrize("change", CHANGES)
def test_without_the_lease_nothing_is_changed(
    change: Callable[[api.Api], Awaitable[object]],
) -> None:
    server = Server()
    with pytest.raises(api_errors.NotLeadingError) as raised:
        server.use(change, change_s=lambda: 0.0)
    assert raised.value.is_outcome_known
    assert server.asked == []


def test_without_the_lease_is_read() -> None:
    server = Server(ok(done=True))
    got = server.use(lambda client: client.get(resources.JOB, "n", "j"), change_s=lambda: 0.0)
    assert got == {"done": True}


@pytest.mark.parametrize("change", CHANGES)
def test_lease_is_asked_for_before_every_try_of_a_change(
    change: Callable[[api.Api], Awaitable[object]],
) -> None:
    server = Server(refused(503), ok(done=True))
    left = iter((1.0, 0.0))
    with pytest.raises(api_errors.NotLeadingError) as raised:
        server.use(change, change_s=lambda: next(left))
    # The first try may have done it.
    assert not raised.value.is_outcome_known
    assert len(server.asked) == 1


def test_change_is_given_up_before_another_may_lead() -> None:
    class Silent(Server):
        async def handle(self, request: web.Request) -> web.Response:
            self.asked.append((request.method, request.path_qs, None))
            await asyncio.Event().wait()
            raise AssertionError

    server = Silent()
    left = iter((0.5, 0.0))  # It has asked by then, on a busy machine, too.
    patience = api.Patience(timeout_s=3600.0, tries=4, pause_s=0.01)
    with pytest.raises(api_errors.NotLeadingError):
        server.use(
            lambda client: client.create(JOB), change_s=lambda: next(left), patience=patience
        )
    assert len(server.asked) == 1


def test_change_is_known_to_be_under_way_until_it_is_answered() -> None:
    seen: list[bool] = []

    class Looking(Server):
        async def handle(self, request: web.Request) -> web.Response:
            seen.append(clients[0].is_changing)
            return await super().handle(request)

    clients: list[api.Api] = []

    async def act(client: api.Api) -> None:
        clients.append(client)
        await client.create(JOB)
        await client.get(resources.JOB, "n", "j")
        assert not client.is_changing

    Looking(ok(), ok()).use(act)
    assert seen == [True, False]
