"""The object storage against an S3 server (moto): the contract, and what the server itself has."""

import itertools
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from hoodie import errors
from hoodie.storage import locations
from hoodie.storage.protocol import Storage
from support.storage_contract import StorageContract

BUCKETS = (f"bucket-{n}" for n in itertools.count())


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ
    ) as process:
        url = f"http://127.0.0.1:{port}"
        try:
            _await(process, url)
            yield url
        finally:
            process.terminate()


def _await(process: subprocess.Popen[bytes], url: str) -> None:
    while process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except urllib.error.URLError:
            continue
    raise RuntimeError(f"moto ended with {process.returncode}")


@pytest.fixture
def bucket(server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    settings = {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_ENDPOINT_URL": server,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    name = next(BUCKETS)
    with urllib.request.urlopen(urllib.request.Request(f"{server}/{name}", method="PUT")):
        return name


class TestS3Storage(StorageContract):
    @pytest.fixture
    def storage(self, bucket: str) -> Storage:
        return locations.open_storage(f"s3a://{bucket}/lake/table")


def test_keys_on_the_server_are_the_paths_as_they_are(server: str, bucket: str) -> None:
    # Spark must find the same keys: nothing may be escaped on the way.
    storage = locations.open_storage(f"s3://{bucket}/lake/table")
    storage.create("day=2013%3A01/a b", b"")
    with urllib.request.urlopen(f"{server}/{bucket}?list-type=2") as answer:
        assert b"<Key>lake/table/day=2013%3A01/a b</Key>" in answer.read()


def test_missing_bucket_is_not_found_and_secret_is_not_told(bucket: str) -> None:
    storage = locations.open_storage(f"s3://{bucket}-none/table")
    with pytest.raises(errors.HoodieError) as caught:
        storage.create("file", b"")
    assert f"s3://{bucket}-none/table/file" in str(caught.value)
    assert "secret" not in str(caught.value)
