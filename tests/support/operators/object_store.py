"""An object store that pods reach under a name, and the example of flights on it.

moto runs beside the tests, on the address that pods know the API server's machine by, where a
Service without a selector leads. The test's manifests lie over the example's as a user's would.
"""

import dataclasses
import os
import secrets
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from support.operators import flights_example, installed_operator
from support.servers import aws_server

BUCKET: Final = urllib.parse.urlsplit(installed_operator.BUCKET).netloc
TABLE: Final = f"{installed_operator.BUCKET}/flights"

_NAME = "s3"
_PORT = 9000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """A store with one bucket.

    Attributes:
        url: Of the store, as the test reaches it.
        overlay: The example with the store's own address and credentials, for `kubectl apply -k`.
        secrets: What nobody may read but in the Secret.
    """

    url: str
    overlay: Path
    secrets: Sequence[str]


@contextmanager
def serving(lake: installed_operator.Lake, folder: Path) -> Iterator[Store]:
    """Give a store for a lake's namespace, and the example's manifests for it."""
    host = urllib.parse.urlsplit(lake.cluster.api.server).hostname
    assert host is not None
    overlay = folder / "overlay"
    overlay.mkdir()
    credentials = {
        "AWS_ACCESS_KEY_ID": secrets.token_hex(),
        "AWS_SECRET_ACCESS_KEY": secrets.token_hex(),
    }
    with aws_server.running(overlay, host) as url:
        aws_server.make_bucket(url, BUCKET)
        port = urllib.parse.urlsplit(url).port
        assert port is not None
        _write(overlay / "store.yaml", *_service(host, port))
        _write(overlay / "kustomization.yaml", _kustomization(overlay, lake, credentials))
        yield Store(url=url, overlay=overlay, secrets=tuple(credentials.values()))


def _kustomization(
    overlay: Path, lake: installed_operator.Lake, credentials: Mapping[str, str]
) -> dict[str, Any]:
    address = f"http://{_NAME}.{lake.namespace}.svc:{_PORT}"
    table = {"spec": {"storage": {"env": {"AWS_ENDPOINT_URL": address}}}}
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(flights_example.MANIFESTS / "s3", overlay), "store.yaml"],
        "patches": [
            _patch("hudi.dev/v1alpha1", "HudiTable", "flights", table),
            _patch("v1", "Secret", "lake", {"stringData": dict(credentials)}),
        ],
    }


def _patch(version: str, kind: str, name: str, change: Mapping[str, Any]) -> dict[str, str]:
    patch = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **change}
    return {"patch": yaml.safe_dump(patch)}


def _service(host: str, port: int) -> Sequence[dict[str, Any]]:
    """Return a Service, and where it leads, as nobody else tells where it has no selector."""
    return (
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": _NAME},
            "spec": {"ports": [{"port": _PORT, "targetPort": port}]},
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": _NAME, "labels": {"kubernetes.io/service-name": _NAME}},
            "addressType": "IPv4",
            "ports": [{"port": port}],
            "endpoints": [{"addresses": [host]}],
        },
    )


def _write(path: Path, *documents: Mapping[str, Any]) -> None:
    path.write_text(yaml.safe_dump_all(documents))
