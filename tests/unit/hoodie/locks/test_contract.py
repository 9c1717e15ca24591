"""The locks that need no server keep the contract."""

import pytest

from support.lock_contract import LockContract, SharedLockContract


class TestInProcessLock(LockContract):
    @pytest.fixture
    def address(self) -> str:
        return "in-process"


class TestFileSystemLock(SharedLockContract):
    @pytest.fixture
    def address(self) -> str:
        return "filesystem"
