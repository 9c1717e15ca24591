"""The archived timeline as Apache Hudi leaves it (format.md: Archived timeline)."""

from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import errors
from hoodie.model.instants import InstantTime
from hoodie.storage.memory import MemoryStorage
from hoodie.timeline import active, archived
from support.tables import history
from support.tables.history import put, put_manifest


def time(second: int) -> InstantTime:
    return InstantTime(f"202606010000{second:02d}000")


def put_rows(storage: MemoryStorage, *rows: tuple[int, int]) -> str:
    return history.put_rows(
        storage, *((time(requested), time(completed)) for requested, completed in rows)
    )


class Counting(MemoryStorage):
    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []

    def open_input(self, path: str, *, is_mapped: bool = True) -> pa.NativeFile:
        self.opened.append(path.rpartition("/")[2])
        return super().open_input(path)


def test_completion_time_comes_from_the_file_whose_range_holds_it() -> None:
    storage = Counting()
    old = put_rows(storage, (1, 2), (3, 9))
    new = put_rows(storage, (11, 12), (13, 14))
    put_manifest(storage, 1, old, new)
    archive = archived.ArchivedTimeline(storage)
    assert archive.completion_time(time(3)) == time(9)
    assert archive.completion_time(time(1)) == time(2)
    assert archive.completion_time(time(2)) is None
    assert storage.opened == [old]


def test_file_is_as_young_as_what_completed_last_in_it() -> None:
    """AR-G: it was requested first."""
    storage = Counting()
    name = put_rows(storage, (1, 20), (3, 9))
    put_manifest(storage, 1, name)
    (file,) = archived.newest_files(storage)
    found = archived.content_of(storage, file)
    assert (found.name, found.first, found.last) == (name, time(1), time(3))
    assert (found.newest, found.count) == (time(20), 2)


def test_table_without_archive_knows_nothing() -> None:
    assert archived.ArchivedTimeline(MemoryStorage()).completion_time(time(1)) is None


def test_only_files_of_the_newest_manifest_count() -> None:
    storage = MemoryStorage()
    put_manifest(storage, 1, put_rows(storage, (1, 2)))
    put_manifest(storage, 2, put_rows(storage, (1, 3), (4, 5)))
    assert archived.ArchivedTimeline(storage).completion_time(time(1)) == time(3)


def test_missing_version_is_the_greatest_manifest() -> None:
    """The window in which `_version_` is being replaced (format.md: Archived timeline)."""
    storage = MemoryStorage()
    put_manifest(storage, 9, put_rows(storage, (1, 2)))
    put_manifest(storage, 10, put_rows(storage, (1, 3), (4, 5)))
    storage.delete(f"{archived.DIRECTORY}/_version_")
    put(storage, "manifest_11.tmp", b"")
    assert archived.ArchivedTimeline(storage).completion_time(time(1)) == time(3)


def test_archive_compacted_since_the_manifest_was_read_is_read_anew() -> None:
    storage = MemoryStorage()
    small, other = put_rows(storage, (1, 2)), put_rows(storage, (5, 6))
    put_manifest(storage, 1, small, other)
    archive = archived.ArchivedTimeline(storage)
    assert archive.completion_time(time(5)) == time(6)
    put_manifest(storage, 2, put_rows(storage, (1, 2), (5, 6)))
    storage.delete(f"{archived.DIRECTORY}/{small}")
    assert archive.completion_time(time(1)) == time(2)


def test_manifest_that_names_what_is_not_there_is_no_endless_search() -> None:
    storage = MemoryStorage()
    put_manifest(storage, 1, f"{time(1)}_{time(2)}_0.parquet")
    with pytest.raises(errors.StorageError, match="are missing"):
        archived.ArchivedTimeline(storage).completion_time(time(1))


@pytest.mark.parametrize(
    "manifest", [b"", b"[]", b'{"files": [{}]}', b'{"files": [{"fileName": "../x.parquet"}]}']
)
def test_broken_manifest_is_named(manifest: bytes) -> None:
    storage = MemoryStorage()
    put(storage, "manifest_1", manifest)
    with pytest.raises(errors.FormatError, match="manifest_1"):
        archived.ArchivedTimeline(storage).completion_time(time(1))


def test_broken_file_is_named() -> None:
    storage = MemoryStorage()
    name = f"{time(1)}_{time(2)}_0.parquet"
    put(storage, name, b"no parquet")
    put_manifest(storage, 1, name)
    with pytest.raises(errors.FormatError, match=name):
        archived.ArchivedTimeline(storage).completion_time(time(1))


class TestOldestWrite:
    def test_actions_that_write_nothing_are_left_out(self) -> None:
        storage = MemoryStorage()
        cleaned, rolled_back = (put_one(storage, second, "clean") for second in (1, 2))
        mixed = history.put_rows(
            storage,
            (time(3), time(4)),
            (time(5), time(9)),
            (time(6), time(7)),
            actions={time(3): "rollback", time(5): "replacecommit"},
        )
        put_manifest(storage, 1, mixed, rolled_back, put_rows(storage, (11, 12)), cleaned)
        assert oldest(storage) == (time(5), time(9))

    def test_times_of_seconds_stand_for_their_end(self) -> None:
        storage = MemoryStorage()
        short, long = InstantTime(time(3)[:-3]), InstantTime(f"{time(3)[:-3]}500")
        put_manifest(storage, 1, history.put_rows(storage, (short, time(8)), (long, time(9))))
        assert oldest(storage) == (long, time(9))

    def test_what_has_not_completed_is_no_write(self) -> None:
        storage = MemoryStorage()
        put_manifest(storage, 1, history.put_rows(storage, (time(1), None), (time(2), time(4))))
        assert oldest(storage) == (time(2), time(4))

    def test_of_no_write_there_is_none(self) -> None:
        storage = MemoryStorage()
        assert oldest(storage) is None
        put_manifest(storage, 1, put_one(storage, 1, "clean"))
        assert oldest(storage) is None


def put_one(storage: MemoryStorage, second: int, action: str) -> str:
    at = time(second)
    return history.put_rows(storage, (at, at), actions={at: action})


def oldest(storage: MemoryStorage) -> tuple[str, str | None] | None:
    found = archived.ArchivedTimeline(storage).oldest_write()
    return found and (found.requested_time, found.completion_time)


def test_timeline_asks_the_archive_for_what_is_older_than_its_start() -> None:
    """Slicing needs the completion time of an archived log (format.md: Archived timeline)."""
    storage = Counting()
    put_manifest(storage, 1, put_rows(storage, (1, 30)))
    for name in (f"{time(20)}.deltacommit.requested", f"{time(20)}_{time(21)}.deltacommit"):
        storage.create(f"{active.DIRECTORY}/{name}", b"")
    timeline = active.load(storage)
    assert timeline.completion_time(time(20)) == time(21)
    assert timeline.completion_time(time(25)) is None
    assert not storage.opened
    assert timeline.completion_time(time(1)) == time(30)
    assert timeline.is_committed(time(2))
    assert timeline.completion_time(time(2)) is None


def test_archive_that_apache_hudi_wrote_is_read() -> None:
    """`data/history` is of Hudi 1.2.0, from `long_history` of `support.peer.peer_cases`."""
    storage = MemoryStorage()
    for path in (Path(__file__).parent / "data" / "history").iterdir():
        put(storage, path.name, path.read_bytes())
    archive = archived.ArchivedTimeline(storage)
    known = {
        "20261121120808075": "20261121120814146",
        "20261121120814604": "20261121120816755",
        "20261121120817459": "20261121120818792",
        "20261121120819414": "20261121120820763",
        "20261121120821624": "20261121120823022",
        "20261121120823707": "20261121120824826",
    }
    for requested, completed in known.items():
        assert archive.completion_time(InstantTime(requested)) == completed
    assert archive.completion_time(InstantTime("20261121120825452")) is None
