"""Batches of archived commits: a set that only grows, whatever dies while it is written."""

import random
from collections.abc import Iterable

import pytest

from hoodie import errors
from hoodie.model import commits
from hoodie.storage import protocol
from hoodie.storage.memory import MemoryStorage
from hoodie.transaction import archived_batches


def commit(writer_id: str, batch_id: str, *files: str) -> commits.CommitMetadata:
    extra = {commits.WRITER_ID_KEY: writer_id, commits.BATCH_ID_KEY: batch_id}
    if files:
        extra[commits.BATCH_FILES_KEY] = str(list(files)).replace("'", '"')
    return commits.CommitMetadata(operation="UPSERT", stats=(), extra=extra)


def test_batches_and_their_files_are_remembered_by_writer() -> None:
    found = archived_batches.of_commits(
        [commit("a", "1"), commit("b", "1"), commit("a", "2", "x", "y")]
    )
    assert found == {"a": {"1", "2", "x", "y"}, "b": {"1"}}


def test_any_text_is_remembered() -> None:
    storage = MemoryStorage()
    strange = frozenset({"ä", "\ud800", "", "a/b"})
    archived_batches.record(storage, {"w": strange})
    assert archived_batches.load(storage) == {"w": strange}


def test_many_runs_leave_few_files() -> None:
    storage = MemoryStorage()
    for number in range(1_234):
        archived_batches.record(storage, {"w": frozenset({f"b{number}"})})
    assert archived_batches.load(storage) == {"w": {f"b{number}" for number in range(1_234)}}
    assert len(storage.list(archived_batches.DIRECTORY)) < 4 * archived_batches.MERGED


class Dying(MemoryStorage):
    """Dies at some calls."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.chance = random.Random(seed)
        self.is_well = False

    def _die(self) -> None:
        if not self.is_well and self.chance.random() < 0.1:
            raise errors.StorageError("died")

    def create(self, path: str, content: bytes) -> protocol.FileInfo:
        self._die()
        made = super().create(path, content)
        self._die()
        return made

    def delete_all(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._die()
            super().delete_all([path])


@pytest.mark.parametrize("seed", range(20))
def test_nothing_that_was_recorded_is_forgotten(seed: int) -> None:
    storage = Dying(seed)
    recorded = set()
    for number in range(150):
        try:
            archived_batches.record(storage, {"w": frozenset({f"b{number}"})})
        except errors.StorageError:
            continue
        recorded.add(f"b{number}")
    storage.is_well = True
    assert recorded <= archived_batches.load(storage)["w"]


def test_known_files_are_not_read_again_and_merged_ones_are_let_go() -> None:
    storage = MemoryStorage()
    known: dict[str, archived_batches.Batches] = {}
    for number in range(archived_batches.MERGED - 1):
        archived_batches.record(storage, {"w": frozenset({str(number)})})
        archived_batches.load(storage, known)
    assert len(known) == archived_batches.MERGED - 1
    archived_batches.record(storage, {"w": frozenset({"last"})})
    assert len(archived_batches.load(storage, known)["w"]) == archived_batches.MERGED
    assert len(known) == 1


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"w": "b"}', b'{"w": [1]}'])
def test_damaged_file_is_an_error(content: bytes) -> None:
    storage = MemoryStorage()
    storage.create(f"{archived_batches.DIRECTORY}/0-{'0' * 32}.json", content)
    with pytest.raises(errors.FormatError, match="batches/0-"):
        archived_batches.load(storage)
