"""The object storage against an S3 server (moto): the contract, and what the server itself has."""

import urllib.request

import pytest

from hoodie import errors
from hoodie.storage import locations
from hoodie.storage.protocol import Storage
from support.storage_contract import StorageContract


class TestS3Storage(StorageContract):
    @pytest.fixture
    def storage(self, bucket: str) -> Storage:
        return locations.open_storage(f"s3a://{bucket}/lake/table")


def test_keys_on_the_server_are_the_paths_as_they_are(aws_server: str, bucket: str) -> None:
    # Spark must find the same keys: nothing may be escaped on the way.
    storage = locations.open_storage(f"s3://{bucket}/lake/table")
    storage.create("day=2013%3A01/a b", b"")
    with urllib.request.urlopen(f"{aws_server}/{bucket}?list-type=2") as answer:
        assert b"<Key>lake/table/day=2013%3A01/a b</Key>" in answer.read()


def test_missing_bucket_is_not_found_and_secret_is_not_told(bucket: str) -> None:
    storage = locations.open_storage(f"s3://{bucket}-none/table")
    with pytest.raises(errors.HoodieError) as caught:
        storage.create("file", b"")
    assert f"s3://{bucket}-none/table/file" in str(caught.value)
    assert "secret" not in str(caught.value)
