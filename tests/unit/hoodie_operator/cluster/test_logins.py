"""The way to the API server, as a kubeconfig tells it; pods are in tests/cluster."""

import json
from pathlib import Path
from typing import Any

import kopf
import pytest

from hoodie import errors
from hoodie_operator import __main__ as program
from hoodie_operator.api import resources
from hoodie_operator.cluster import api, api_errors, logins
from support.api_server import FAST, ApiServer

TOKEN = {"token": "secret-token"}


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "kubeconfig"
    monkeypatch.setenv("KUBECONFIG", str(path))
    return path


def _of(user: dict[str, Any], **cluster: object) -> dict[str, Any]:
    """Return a kubeconfig of one user and one cluster."""
    return {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://api:6443", **cluster}}],
        "users": [{"name": "u", "user": user}],
    }


@pytest.mark.parametrize(
    ("user", "headers"),
    [
        (TOKEN, {"Authorization": "Bearer secret-token"}),
        ({"username": "u", "password": "p"}, {"Authorization": "Basic dTpw"}),
    ],
)
def test_kubeconfig_is_a_way(
    kubeconfig: Path, user: dict[str, Any], headers: dict[str, str]
) -> None:
    kubeconfig.write_text(json.dumps(_of(user)))
    found = logins.connection()
    assert found.server == "https://api:6443"
    assert found.as_http_headers() == headers


def test_proxy_on_this_machine_needs_no_credentials(kubeconfig: Path) -> None:
    kubeconfig.write_text(json.dumps(_of({}, server="http://127.0.0.1:8001")))
    assert logins.connection().server == "http://127.0.0.1:8001"


def _without(*path: str) -> dict[str, Any]:
    """Return a kubeconfig that lacks something."""
    found = _of(TOKEN)
    for key in path:
        del found[key]
    return found


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "No such file"),
        ("{", "expected the node content"),
        ("[1, 2]", "kubeconfig cannot be used"),
        (json.dumps(_without("current-context")), "[Cc]ontext"),
        (json.dumps(_without("users")), "kubeconfig cannot be used: 'u'"),
        (json.dumps(_of({"exec": {"command": "aws"}})), "no credentials for https://api:6443"),
        (json.dumps(_of(TOKEN, **{"certificate-authority-data": "eHl6"})), "kubeconfig cannot"),
        (json.dumps(_of(TOKEN, **{"certificate-authority": "/nowhere"})), "No such file"),
    ],
)  # fmt: skip
def test_kubeconfig_that_leads_nowhere_is_refused_in_a_sentence(
    kubeconfig: Path, capsys: pytest.CaptureFixture[str], content: str | None, told: str
) -> None:
    if content is not None:
        kubeconfig.write_text(content)
    with pytest.raises(errors.InvalidInputError, match=told):
        logins.connection()
    config = kubeconfig.with_name("operator.yaml")
    config.write_text("dataRoots: [/data]\nimage: {name: hudi}")
    code = program.main(["run", "--config", str(config), "--port", "0"])
    assert code == errors.InvalidInputError.exit_code
    (line,) = capsys.readouterr().err.splitlines()
    assert "kubeconfig " in line
    assert "secret-token" not in line


def test_no_way_at_all_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(errors.InvalidInputError, match="no way to an API server is known"):
        logins.connection()


@pytest.mark.parametrize(("times", "is_found"), [(1, True), (FAST.tries, False)])
def test_way_that_is_lost_is_looked_for_again(times: int, *, is_found: bool) -> None:
    """A kubeconfig is written anew while the operator runs."""
    lost = iter([True] * times)

    async def ask(client: api.Api) -> object:
        login = client._login

        def sometimes() -> kopf.ConnectionInfo:
            if next(lost, False):
                raise errors.InvalidInputError("the kubeconfig cannot be used")
            return login()

        client._login = sometimes
        return await client.get(resources.JOB, "n", "j")

    if is_found:
        assert ApiServer().use(ask) is None
    else:
        with pytest.raises(api_errors.UnauthorizedError, match="kubeconfig"):
            ApiServer().use(ask)
