"""An account of a real API server whose tokens a test can revoke, and a program that gives them."""

import json
import shlex
from pathlib import Path

import yaml

from support.kube import api, clusters, programs

_NAME = "short-lived"
_REVOKED_WITHIN_S = 60.0
"""An API server remembers for some seconds that it took a token."""

_PROGRAM = """\
#!/bin/bash
set -e
echo >>{runs}
token=$({kubectl} "$(cat {secret})")
status='"token":"'$token'"'
if [ -n "{life_s}" ]; then
    status+=',"expirationTimestamp":"'$(date -u -d "+{life_s} seconds" +%FT%TZ)'"'
fi
echo '{{"apiVersion":"{version}","kind":"ExecCredential","status":{{'"$status"'}}}}'
"""


class RevocableAccount:
    """A service account that may do everything in its namespace.

    Its tokens are bound to a Secret, and end with it.
    """

    def __init__(self, cluster: clusters.Cluster, namespace: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._generation = 0
        self.secret_file: Path | None = None
        self._make("serviceaccounts", {"metadata": {"name": _NAME}})
        cluster.api.create(
            f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings",
            {
                "metadata": {"name": _NAME},
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": "cluster-admin",
                },
                "subjects": [{"kind": "ServiceAccount", "name": _NAME, "namespace": namespace}],
            },
        )
        self._make_secret()

    @property
    def secret(self) -> str:
        """The Secret that tokens are bound to now."""
        return f"{_NAME}-{self._generation}"

    def token(self) -> str:
        """Return a new token."""
        return self._cluster.kubectl(*self._token_arguments(), self.secret).strip()

    def revoke(self) -> None:
        """Have all tokens end that were given, and return once the API server refuses them."""
        old = api.Api(
            server=self._cluster.api.server,
            ca=self._cluster.api.ca,
            tls=self._cluster.api.tls,
            token=self.token(),
        )
        path = f"/api/v1/namespaces/{self._namespace}/secrets"
        assert old.request("GET", path).status == 200
        secret = self.secret
        self._generation += 1
        self._make_secret()
        self.follow()
        self._cluster.api.delete(f"{path}/{secret}")
        programs.wait_until(
            lambda: old.request("GET", path).status == 401,
            "the old tokens are refused",
            _REVOKED_WITHIN_S,
        )

    def follow(self) -> None:
        """Have programs give tokens that are good now, if there is one."""
        if self.secret_file is not None:
            self.secret_file.write_text(self.secret)

    def _make_secret(self) -> None:
        self._make("secrets", {"metadata": {"name": self.secret}})

    def _make(self, plural: str, body: dict[str, object]) -> None:
        self._cluster.api.create(f"/api/v1/namespaces/{self._namespace}/{plural}", body)

    def _token_arguments(self) -> list[str]:
        return [
            "create", "token", _NAME, "--namespace", self._namespace,
            "--bound-object-kind=Secret", "--bound-object-name",
        ]  # fmt: skip


class Program:
    """A kubeconfig's program that gives tokens of an account, and counts how often it was run."""

    def __init__(
        self, account: RevocableAccount, folder: Path, life_s: int | None, way: Path | None = None
    ) -> None:
        """Write program and kubeconfig.

        Args:
            account: Whose tokens.
            folder: Where.
            life_s: How long the program says that they live; None if it does not say.
            way: A kubeconfig that says where the API server is; by default the cluster's.
        """
        self._runs = folder / "runs"
        account.secret_file = folder / "secret"
        self.kubeconfig = folder / "program.kubeconfig"
        cluster = account._cluster
        command = [cluster.binaries.kube, "kubectl", "--kubeconfig", str(cluster.kubeconfig)]
        kubectl = shlex.join([*command, *account._token_arguments()])
        version = "client.authentication.k8s.io/v1"
        path = folder / "program"
        path.write_text(
            _PROGRAM.format(
                runs=self._runs, kubectl=kubectl, secret=account.secret_file,
                life_s="" if life_s is None else life_s, version=version,
            )
        )  # fmt: skip
        path.chmod(0o755)
        content = yaml.safe_load((way or cluster.kubeconfig).read_text())
        (user,) = content["users"]
        user["user"] = {"exec": {"apiVersion": version, "command": str(path)}}
        self.kubeconfig.write_text(json.dumps(content))
        account.follow()

    @property
    def runs(self) -> int:
        return len(self._runs.read_text().splitlines()) if self._runs.exists() else 0
