"""Observers at an API server in memory: made, refused, removed, made again."""

import dataclasses
from collections.abc import Awaitable, Callable
from typing import cast

import pytest
from aiohttp import web

from hoodie import clock
from hoodie_operator.api import configuration, kinds, objects, resources
from hoodie_operator.api.resources import Manifest
from hoodie_operator.cluster.adapters.observers import ClusterObservers
from hoodie_operator.cluster.client import api, api_errors
from hoodie_operator.cluster.control.ports import TableLook
from hoodie_operator.manifests import naming
from hoodie_operator.manifests import observers as manifests
from hoodie_operator.reconcile import effective, facts
from support.operators import operator_world as ow
from support.operators.api_server import ApiServer
from support.servers import http_server

TOLD = configuration.parse(
    b"""
dataRoots: [/data]
image: {name: "hudi:1"}
serviceAccounts: {default: hudi-jobs, allowed: [one, two, three]}
""",
    "operator.yaml",
)


SYSTEM_CLOCK = clock.SystemClock()


class Clock(clock.SystemClock):
    """The machine's, and later."""

    later_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.later_s


def table(account: str) -> objects.Table:
    here = ow.Outside()
    key = here.add(kinds.HUDI_TABLE, f"of-{account}", ow.TABLE)
    found = cast("objects.Table", here.by_key[key])
    storage = found.spec.storage.model_copy(update={"service_account": account})
    spec = found.spec.model_copy(update={"storage": storage})
    return dataclasses.replace(found, uid=f"uid-of-{account}", spec=spec)


def look(found: objects.Table) -> TableLook:
    settings = effective.write_settings(found.spec, None)
    return TableLook(table=found, uri="file:///data/flights", settings=settings)


def use(
    server: ApiServer,
    scenario: Callable[[ClusterObservers], Awaitable[None]],
    *,
    our_clock: clock.Clock = SYSTEM_CLOCK,
    # Nobody listens there: an observer that was made only starts.
    address: Callable[[], str] = lambda: "http://127.0.0.1:1",
) -> None:
    async def run(client: api.Api) -> None:
        observers = ClusterObservers(client, TOLD, our_clock, address_of=lambda identity: address())
        try:
            await scenario(observers)
        finally:
            await observers.close()

    server.use(run)


def test_observer_of_a_table_that_is_declared_again_has_its_secret() -> None:
    server = ApiServer()

    async def scenario(observers: ClusterObservers) -> None:
        await observers.keep([table("one")])
        (first,) = server.of("secrets")
        await observers.keep([])
        assert server.objects == {}
        await observers.keep([table("one")])
        (second,) = server.of("secrets")
        assert second["data"] != first["data"]
        assert await observers.look_at_tables([look(table("one"))]) == {"uid-of-one": None}

    use(server, scenario)


def test_secret_that_somebody_has_deleted_is_made_again() -> None:
    server = ApiServer()

    async def scenario(observers: ClusterObservers) -> None:
        await observers.keep([table("one")])
        server.objects = {
            path: each for path, each in server.objects.items() if each["kind"] != "Secret"
        }
        await observers.keep([table("one")])
        assert len(server.of("secrets")) == 1

    use(server, scenario)


def test_removal_that_was_cut_off_is_ended_by_the_next_one() -> None:
    server = ApiServer()

    async def scenario(observers: ClusterObservers) -> None:
        await observers.keep([table("one")])
        server.refused = lambda method, path: method == "DELETE" and "/secrets/" in path
        with pytest.raises(api_errors.ForbiddenError):
            await observers.keep([])
        server.refused = lambda method, path: False
        await observers.keep([])
        assert server.objects == {}

    use(server, scenario)


def _deployment(name: str, **edits: object) -> Manifest:
    """Return a Deployment that says it is an observer's."""
    labels = {
        resources.MANAGED_BY: resources.MANAGER,
        naming.ROLE: naming.OBSERVER,
        naming.IDENTITY: name,
    }
    table = {"apiVersion": "hudi.dev/v1alpha1", "kind": "HudiTable", "name": "t", "uid": "u"}
    metadata: Manifest = {
        "name": name,
        "namespace": "default",
        "uid": "uid-of-it",
        "labels": labels,
        "ownerReferences": [table],
        **edits,
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata}


@pytest.mark.parametrize(
    ("name", "edits"),
    [
        ("payments", {}),
        ("hudi-observer-payments", {}),
        ("hudi-observer-0123456789", {"ownerReferences": None}),
        ("hudi-observer-0123456789", {"labels": {naming.ROLE: naming.OBSERVER}}),
    ],
)
def test_what_only_has_our_labels_is_not_removed(name: str, edits: dict[str, object]) -> None:
    server = ApiServer()
    made = _deployment(name, **edits)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "uid": "s"}}
    server.objects = {
        resources.DEPLOYMENT.path("default", name): made,
        resources.SECRET.path("default", name): secret,
        resources.SERVICE.path("default", name): secret,
    }
    before = dict(server.objects)

    async def scenario(observers: ClusterObservers) -> None:
        await observers.keep([])
        assert server.objects == before

    use(server, scenario)


def test_secret_that_is_no_observers_stays_where_an_observer_is_removed() -> None:
    server = ApiServer()
    name = "hudi-observer-0123456789"
    path = resources.SECRET.path("default", name)
    server.objects = {
        resources.DEPLOYMENT.path("default", name): _deployment(name),
        path: {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "uid": "s"}},
    }

    async def scenario(observers: ClusterObservers) -> None:
        await observers.keep([])
        assert list(server.objects) == [path]
        ((_, options),) = server.deletions
        assert options["preconditions"] == {"uid": "uid-of-it"}

    use(server, scenario)


def test_secret_goes_with_its_deployment() -> None:
    server = ApiServer()

    async def scenario(observers: ClusterObservers) -> None:
        await observers.keep([table("one")])
        (deployment,) = server.of("deployments")
        (secret,) = server.of("secrets")
        (owner,) = secret["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("Deployment", deployment["metadata"]["uid"])

    use(server, scenario)


async def problem_of(observers: ClusterObservers, account: str) -> facts.Problem | None:
    found = table(account)
    seen = (await observers.look_at_tables([look(found)]))[found.uid]
    return None if seen is None else seen.problem


def test_refused_observer_keeps_no_other_from_being_made_and_says_why() -> None:
    server = ApiServer()

    async def scenario(observers: ClusterObservers) -> None:
        server.refused = lambda method, path: method == "PATCH" and path.endswith(refused)
        tables = [table("one"), table("two"), table("three")]
        with pytest.raises(api_errors.ForbiddenError):
            await observers.keep(tables)
        made = {each["metadata"]["name"] for each in server.of("deployments")}
        assert len(made) == 2
        assert refused not in made
        told = await problem_of(observers, "one")
        assert told is not None
        assert told.is_transient
        assert refused in told.message
        assert "Forbidden, in this test" in told.message
        assert await problem_of(observers, "two") is None
        server.refused = lambda method, path: False
        await observers.keep(tables)
        assert len(server.of("deployments")) == 3
        assert await problem_of(observers, "one") is None

    refused = manifests.identity(table("one"), TOLD).name
    use(server, scenario)


def test_endless_answer_is_cut_off_and_told() -> None:
    server = ApiServer()

    async def endless(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        while True:
            await answer.write(b" " * (1 << 20))

    async def scenario(observers: ClusterObservers) -> None:
        async with http_server.serving(web.post(http_server.ANY_PATH, endless)) as url:
            addresses.append(url)
            await observers.keep([table("one")])
            clocked.later_s = 3600
            told = await problem_of(observers, "one")
        assert told is not None
        assert told.is_transient
        assert "expected 4194304 bytes and 200000 values at most" in told.message

    clocked = Clock()
    addresses: list[str] = []
    use(server, scenario, our_clock=clocked, address=lambda: addresses[0])


@pytest.mark.parametrize(
    "body",
    [
        b'{"tables":[{"digest":"","table":null}]}',
        b'{"tables":[]}',
        b'{"tables":[{"digest":"","table":{"commits":7}}]}',
        b"[[[[[",
    ],
)
def test_nonsense_of_an_observer_is_told_of_its_tables(body: bytes) -> None:
    server = ApiServer()

    async def answer(request: web.Request) -> web.Response:
        del request
        return web.Response(body=body)

    async def scenario(observers: ClusterObservers) -> None:
        async with http_server.serving(web.post(http_server.ANY_PATH, answer)) as url:
            addresses.append(url)
            await observers.keep([table("one")])
            told = await problem_of(observers, "one")
        assert told is not None
        assert told.is_transient
        assert "its observer answers nonsense" in told.message

    addresses: list[str] = []
    use(server, scenario, address=lambda: addresses[0])


def test_observer_of_a_secret_that_was_renewed_is_given_a_new_pod() -> None:
    server, asked = ApiServer(), []
    path = resources.SECRET.path("default", "keys")
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "keys", "namespace": "default", "uid": "s", "resourceVersion": "7"},
        "data": {"AWS_SECRET_ACCESS_KEY": "b2xk"},
    }
    server.objects[path] = secret
    server.heard = lambda method, at: asked.append(at)
    found = table("one")
    storage = found.spec.storage.model_copy(update={"secrets": ("keys", "missing")})
    found = dataclasses.replace(found, spec=found.spec.model_copy(update={"storage": storage}))

    def template() -> Manifest:
        (deployment,) = server.of("deployments")
        made: Manifest = deployment["spec"]["template"]
        return made

    async def scenario(observers: ClusterObservers) -> None:
        await observers.keep([found])
        first = template()
        await observers.keep([found])
        assert template() == first
        server.objects[path] = {
            **secret,
            "metadata": {**secret["metadata"], "resourceVersion": "8"},
        }  # type: ignore[dict-item]  # a mapping
        await observers.keep([found])
        assert template()["metadata"]["annotations"] != first["metadata"]["annotations"]
        assert "b2xk" not in str(template())

    use(server, scenario)
    assert path in asked
