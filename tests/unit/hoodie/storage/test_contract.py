"""The storages that need no server keep the contract."""

from pathlib import Path

import obstore.store
import pytest

from hoodie.storage.local import LocalStorage
from hoodie.storage.memory import MemoryStorage
from hoodie.storage.objects import ObjectStorage
from hoodie.storage.protocol import Storage
from hoodie.storage.subtree import SubtreeStorage
from support.contracts.storage_contract import StorageContract


class TestLocalStorage(StorageContract):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        return LocalStorage(str(tmp_path / "table"))


class TestMemoryStorage(StorageContract):
    @pytest.fixture
    def storage(self) -> Storage:
        return MemoryStorage()


class TestObjectStorage(StorageContract):
    has_control_characters = False

    @pytest.fixture
    def storage(self) -> Storage:
        return ObjectStorage("s3://bucket/some/table", obstore.store.MemoryStore())


class TestObjectStorageAtBucketRoot(StorageContract):
    has_control_characters = False

    @pytest.fixture
    def storage(self) -> Storage:
        return ObjectStorage("s3://bucket", obstore.store.MemoryStore())


class TestSubtreeStorage(StorageContract):
    @pytest.fixture
    def storage(self) -> Storage:
        outer = MemoryStorage()
        outer.create("inner/table", b"beside it")
        outer.create("inner/tables/file", b"beside it")
        return SubtreeStorage(outer, "inner/tables/one")
