"""Fences in a table's own storage: of all attempts the newest one may commit."""

import pytest

from hoodie import errors
from hoodie.storage import memory
from hoodie.storage.protocol import Storage
from hoodie.transaction import fence_records


@pytest.fixture
def storage() -> Storage:
    return memory.MemoryStorage(memory.MemoryStore(), uri="memory://fences/table")


def test_claimed_attempt_may_commit_and_claim_again(storage: Storage) -> None:
    fence_records.claim(storage, "writer.w", 7)
    fence_records.claim(storage, "writer.w", 7)
    fence_records.check(storage, "writer.w", 7)


def test_later_attempt_fences_the_earlier_one_off(storage: Storage) -> None:
    fence_records.claim(storage, "writer.w", 7)
    fence_records.claim(storage, "writer.w", 1_000_000_000_008)
    with pytest.raises(errors.FencedError, match="attempt 1000000000008 is the current one"):
        fence_records.check(storage, "writer.w", 7)
    with pytest.raises(errors.FencedError):
        fence_records.claim(storage, "writer.w", 7)
    fence_records.check(storage, "writer.w", 1_000_000_000_008)
    assert len(storage.list(f"{fence_records.FOLDER}/writer.w")) == 1


def test_other_owners_are_others_affair(storage: Storage) -> None:
    fence_records.claim(storage, "writer.w", 7)
    fence_records.claim(storage, "action.a", 9)
    fence_records.check(storage, "writer.w", 7)


def test_attempt_without_a_record_may_not_commit(storage: Storage) -> None:
    with pytest.raises(errors.FencedError, match="its fence record is gone"):
        fence_records.check(storage, "writer.w", 7)


class _Meanwhile:
    """A storage that something happens to before each creation."""

    def __init__(self, storage: Storage, happens: object) -> None:
        self._storage = storage
        self._happens = happens

    def __getattr__(self, name: str) -> object:
        if name == "create":
            self._happens()  # type: ignore[operator]  # a function without arguments
        return getattr(self._storage, name)


def test_attempt_that_is_overtaken_while_it_claims_is_refused(storage: Storage) -> None:
    overtaken = _Meanwhile(storage, lambda: fence_records.claim(storage, "writer.w", 8))
    with pytest.raises(errors.FencedError, match="attempt 8"):
        fence_records.claim(overtaken, "writer.w", 7)  # type: ignore[arg-type]  # it is one
    fence_records.check(storage, "writer.w", 8)
