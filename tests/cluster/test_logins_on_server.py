"""Credentials of a real API server that are short-lived, revoked or rotated, and who goes on."""

import asyncio
import contextlib
import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from kubernetes.aio.config import incluster_config

from hoodie_operator.api import kinds, resources
from hoodie_operator.api.resources import Manifest
from hoodie_operator.cluster.client import api, logins
from hoodie_operator.cluster.informer import watching
from support.kube import clusters, fault_proxy, programs
from support.operators import cluster_helpers, cluster_operator, cluster_place, rule_examples
from support.operators.revocable_account import Program, RevocableAccount
from support.operators.rule_examples import edited

LIFE_S = 10


@pytest.fixture
def account(cluster: clusters.Cluster, namespace: str) -> RevocableAccount:
    """An account of the test's namespace."""
    return RevocableAccount(cluster, namespace)


@pytest.fixture
def login(
    account: RevocableAccount,
    cluster: clusters.Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[], logins.Logins]:
    """What logs in as a pod of the account does, with files in the test's folder."""
    assert cluster.api.ca is not None
    token, ca = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text(account.token())
    ca.write_text(cluster.api.ca)
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(ca))
    server = urllib.parse.urlsplit(cluster.api.server)
    environ = {
        "KUBERNETES_SERVICE_HOST": server.hostname or "",
        "KUBERNETES_SERVICE_PORT": str(server.port),
    }
    return lambda: logins.Logins(environ)


@pytest.mark.parametrize("life_s", [LIFE_S, None])
def test_operator_goes_on_with_short_lived_tokens_of_a_program(
    cluster: clusters.Cluster,
    namespace: str,
    account: RevocableAccount,
    tmp_path: Path,
    life_s: int | None,
) -> None:
    place = cluster_place.Place(cluster, namespace)
    program = Program(account, tmp_path, life_s)
    lake = cluster_helpers.Lake(tmp_path / "lake")
    with cluster_operator.leading(program.kubeconfig, namespace, lake.folder) as operator:
        _make_table(place, "first")
        before = program.runs
        if life_s is None:
            # Lease, requests and watches log in together.
            assert before == 1
        else:
            programs.wait_until(lambda: program.runs >= before + 3, "it is renewed", 300)
        account.revoke()
        _make_table(place, "second")
        assert program.runs > before
        assert operator.poll() is None
    assert account.token() not in lake.folder.with_name("one.log").read_text()
    assert "eyJ" not in lake.folder.with_name("one.log").read_text()


def _make_table(place: cluster_place.Place, name: str) -> None:
    spec = edited(rule_examples.TABLE, storage={"path": name})
    place.create(kinds.HUDI_TABLE, name, spec)
    place.await_state(kinds.HUDI_TABLE, name, "Ready", "Ready")


def _rotate(account: RevocableAccount) -> None:
    account.revoke()
    Path(incluster_config.SERVICE_TOKEN_FILENAME).write_text(account.token())


def test_requests_go_on_with_the_next_token_of_a_pod(
    account: RevocableAccount, namespace: str, login: Callable[[], logins.Logins]
) -> None:
    statuses: list[int] = []

    async def ask() -> None:
        server = api.Api(login(), on_answer=lambda _, status: statuses.append(status))
        try:
            assert await server.get(resources.SECRET, namespace, account.secret) is not None
            await asyncio.to_thread(_rotate, account)
            assert await server.get(resources.SECRET, namespace, account.secret) is not None
        finally:
            await server.close()

    asyncio.run(ask())
    assert statuses in ([200, 401, 200], [200, 200]), "the second if a minute has passed"


def test_watches_go_on_with_the_next_token_of_a_pod(
    account: RevocableAccount,
    cluster: clusters.Cluster,
    namespace: str,
    login: Callable[[], logins.Logins],
) -> None:
    async def ask() -> None:
        entry = login()
        # What is watched with afterwards was good once.
        await entry()
        await asyncio.to_thread(_rotate, account)
        async with _watch(entry, namespace) as heard:
            _make_job(cluster, namespace)
            await heard("job")

    asyncio.run(ask())


@pytest.mark.parametrize("life_s", [LIFE_S, None])
def test_watches_that_are_cut_go_on_with_the_next_token_of_a_program(
    account: RevocableAccount,
    cluster: clusters.Cluster,
    namespace: str,
    tmp_path: Path,
    life_s: int | None,
) -> None:
    with fault_proxy.FaultProxy(cluster.api, tmp_path / "proxy") as proxy:
        program = Program(account, tmp_path, life_s, proxy.kubeconfig("of nobody"))
        entry = logins.Logins({"KUBECONFIG": str(program.kubeconfig)})

        async def ask() -> None:
            async with _watch(entry, namespace) as heard:
                _make_job(cluster, namespace, "before")
                await heard("before")
                assert program.runs == 1
                if life_s is None:
                    await asyncio.to_thread(account.revoke)
                else:
                    await asyncio.sleep(life_s)
                proxy.cut_all()
                _make_job(cluster, namespace, "after")
                await heard("after")

        asyncio.run(ask())
        assert program.runs == 2


@contextlib.asynccontextmanager
async def _watch(
    login: logins.Logins, namespace: str
) -> AsyncIterator[Callable[[str], Awaitable[None]]]:
    """Watch, and give what waits until an object is heard of; the watch must not end by itself."""
    names: set[str] = set()
    news = asyncio.Event()

    def hear(change: str | None, manifest: Manifest) -> None:
        del change
        names.add(manifest["metadata"]["name"])
        news.set()

    watch = asyncio.create_task(watching.watch(hear, login, [namespace]))

    async def heard(name: str) -> None:
        async with asyncio.timeout(cluster_place.WAIT_S):
            while name not in names:
                news.clear()
                waiting = asyncio.create_task(news.wait())
                await asyncio.wait((waiting, watch), return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                if watch.done():
                    watch.result()

    try:
        yield heard
        assert not watch.done()
    finally:
        watch.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watch


def _make_job(cluster: clusters.Cluster, namespace: str, name: str = "job") -> None:
    labels = {resources.MANAGED_BY: resources.MANAGER}
    container = {"name": "main", "image": "none"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    body = {
        "metadata": {"name": name, "labels": labels},
        "spec": {"suspend": True, "template": template},
    }
    cluster.api.create(f"/apis/batch/v1/namespaces/{namespace}/jobs", body)
