"""A server that speaks S3 and DynamoDB for tests: moto, at a port of this machine.

Its own main program answers requests in threads, and between looking at a condition and writing
another's request may come: two conditional puts could both succeed. So it is served one by one.
"""

import itertools
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_SERVE = """
import sys
from moto.server import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple
application = DomainDispatcherApplication(create_backend_app)
run_simple(sys.argv[1], int(sys.argv[2]), application, request_handler=MotoRequestHandler)
"""
_BUCKETS = (f"bucket-{n}" for n in itertools.count())
_LOCK_TABLES = (f"locks-{n}" for n in itertools.count())


@contextmanager
def running(folder: Path, host: str = "127.0.0.1") -> Iterator[str]:
    """Give the URL of a server that logs into a folder, at an address of this machine."""
    with socket.create_server((host, 0)) as probe:
        port = probe.getsockname()[1]
    command = [sys.executable, "-c", _SERVE, host, str(port)]
    # By whatever name it is called, the bucket is in the path.
    environment = {**os.environ, "S3_IGNORE_SUBDOMAIN_BUCKETNAME": "true"}
    with (
        (folder / "log").open("wb") as output,
        subprocess.Popen(command, stdout=output, stderr=output, env=environment) as process,
    ):
        url = f"http://{host}:{port}"
        try:
            _await(process, url)
            yield url
        finally:
            process.terminate()


@pytest.fixture(scope="session")
def aws_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server that goes on all the time."""
    with running(tmp_path_factory.mktemp("aws_server")) as url:
        yield url


def settings(url: str) -> dict[str, str]:
    """Return the environment in which a program finds the server."""
    return {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_ENDPOINT_URL": url,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
    }


def make_bucket(url: str, name: str) -> None:
    """Make a bucket."""
    with urllib.request.urlopen(urllib.request.Request(f"{url}/{name}", method="PUT")):
        pass


def keys(url: str, bucket: str) -> list[str]:
    """Return the keys of a bucket, a thousand at most."""
    with urllib.request.urlopen(f"{url}/{bucket}?list-type=2") as answer:
        return re.findall(r"<Key>([^<]*)</Key>", answer.read().decode())


def _await(process: subprocess.Popen[bytes], url: str) -> None:
    while process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:  # Refused, or not answered in time: it loads much for its first answer.
            time.sleep(0.05)
    raise RuntimeError(f"moto ended with {process.returncode}")


@pytest.fixture
def aws(aws_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of the server, which the environment of this process and its children names."""
    for name, value in settings(aws_server).items():
        monkeypatch.setenv(name, value)
    return aws_server


@pytest.fixture
def new_bucket(aws: str) -> Callable[[], str]:
    """Makes fresh buckets of the server."""

    def make() -> str:
        name = next(_BUCKETS)
        make_bucket(aws, name)
        return name

    return make


@pytest.fixture
def bucket(new_bucket: Callable[[], str]) -> str:
    """A fresh bucket of the server."""
    return new_bucket()


@pytest.fixture
def lock_table() -> str:
    """The name of a DynamoDB table that no other test has, and that is not there yet."""
    return next(_LOCK_TABLES)
