"""The table's properties: created last, read with their backup, changed safely (1.4, TC1)."""

from pathlib import Path

import pytest

from hoodie import errors
from hoodie.format import properties
from hoodie.model import table_config
from hoodie.storage.local import LocalStorage
from hoodie.storage.memory import MemoryStorage
from hoodie.storage.protocol import FileInfo
from hoodie.timeline import table_properties
from hoodie.timeline.table_properties import BACKUP_PATH, PATH
from support.simulation import schedule

CONFIG = table_config.TableConfig(name="flights", record_key_fields=("id",), bucket_count=4)


def clock() -> schedule.VirtualClock:
    return schedule.VirtualClock(schedule.Schedule())


def table() -> MemoryStorage:
    storage = MemoryStorage()
    table_properties.create(storage, CONFIG, clock())
    return storage


def held() -> None:
    """Do nothing: the lock is held."""


def test_created_table_has_its_configuration() -> None:
    storage = MemoryStorage()
    created = table_properties.create(storage, CONFIG, clock())
    assert table_properties.load(storage, clock()) == created
    assert (created.name, created.bucket_count, created.zone.is_utc) == ("flights", 4, True)
    assert [info.path for info in storage.list("", is_recursive=True)] == [PATH]


def test_directories_of_the_layout_are_there_for_java(tmp_path: Path) -> None:
    """format.md: Table properties: what Java creates with a table."""
    storage = LocalStorage(str(tmp_path))
    table_properties.create(storage, CONFIG, clock())
    directories = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_dir()}
    assert {
        ".hoodie/timeline",
        ".hoodie/timeline/history",
        ".hoodie/.schema",
        ".hoodie/.temp",
        ".hoodie/.aux/.bootstrap/.partitions",
        ".hoodie/.aux/.bootstrap/.fileids",
    } <= directories


@pytest.mark.parametrize("path", [PATH, BACKUP_PATH])
def test_table_is_created_once(path: str) -> None:
    storage = MemoryStorage()
    storage.create(path, b"x")
    with pytest.raises(errors.AlreadyExistsError, match="memory://table"):
        table_properties.create(storage, CONFIG, clock())


def test_no_table_is_said_at_once() -> None:
    waiting = clock()
    before = waiting.now_ms()
    with pytest.raises(errors.NotFoundError, match="no table in memory://table"):
        table_properties.load(MemoryStorage(), waiting)
    assert waiting.now_ms() == before


def test_backup_is_read_while_the_properties_are_absent() -> None:
    storage = table()
    content = storage.read(PATH)
    storage.create(BACKUP_PATH, content)
    storage.delete(PATH)
    assert table_properties.load(storage, clock()).name == "flights"


def test_backup_is_read_while_the_properties_are_half_written() -> None:
    storage = table()
    content = storage.read(PATH)
    storage.create(BACKUP_PATH, content)
    info = storage.stat(PATH)
    storage.replace(PATH, b"", if_match=info.version)
    assert table_properties.load(storage, clock()).name == "flights"


def test_half_written_properties_are_waited_for() -> None:
    """format.md: Table properties: five rounds a second apart."""
    storage = table()
    content = storage.read(PATH)
    storage.replace(PATH, b"", if_match=storage.stat(PATH).version)

    class Mending(schedule.VirtualClock):
        def sleep_s(self, seconds: float) -> None:
            assert seconds == 1.0
            storage.replace(PATH, content, if_match=storage.stat(PATH).version)

    assert table_properties.load(storage, Mending(schedule.Schedule())).name == "flights"


def test_broken_properties_are_an_error_after_some_seconds() -> None:
    storage = table()
    storage.replace(PATH, b"nothing=1\n", if_match=storage.stat(PATH).version)
    waiting = clock()
    before = waiting.now_ms()
    with pytest.raises(errors.FormatError, match=r"hoodie\.table\.name"):
        table_properties.load(storage, waiting)
    assert waiting.now_ms() - before == 4_000


def test_unknown_version_is_refused_by_its_number() -> None:
    storage = table()
    text = storage.read(PATH).replace(b"hoodie.table.version=9", b"hoodie.table.version=6")
    storage.replace(PATH, text, if_match=storage.stat(PATH).version)
    with pytest.raises(errors.UnsupportedError, match="table version 6"):
        table_properties.load(storage, clock())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.timeline.path", "instants"),
        ("hoodie.timeline.history.path", "older"),
        ("hoodie.table.format", "iceberg"),
        ("hoodie.table.multiple.base.file.formats.enable", "true"),
    ],
)
def test_table_of_another_layout_is_refused_by_its_property(key: str, value: str) -> None:
    """It would be a table without rows, and a write would begin a second timeline."""
    storage = table()
    stored = {**properties.decode(storage.read(PATH)), key: value}
    text = "".join(f"{name}={stored[name]}\n" for name in stored).encode()
    storage.replace(PATH, text, if_match=storage.stat(PATH).version)
    with pytest.raises(errors.UnsupportedError, match=f"{key}={value}, expected"):
        table_properties.load(storage, clock())


def test_change_of_an_epoch_is_made_once_and_in_order() -> None:
    """CH14: a finisher that was paused does not bring an older value back."""
    storage = table()
    table_properties.put(storage, {"one": "1"}, 1, held)
    content = storage.read(PATH)
    table_properties.put(storage, {"one": "1"}, 1, held)
    assert storage.read(PATH) == content
    table_properties.put(storage, {"one": "2"}, 2, held)
    table_properties.put(storage, {"one": "1"}, 1, held)
    stored = properties.decode(storage.read(PATH))
    assert (stored["one"], stored[table_config.EPOCH_KEY]) == ("2", "2")


def test_change_keeps_what_others_stored() -> None:
    storage = table()
    table_properties.update(storage, {"one": "1"}, clock(), held)
    changed = table_properties.update(
        storage, {"two": "é: =", "hoodie.table.metadata.partitions": "files"}, clock(), held
    )
    assert changed.metadata_partitions == ("files",)
    stored = properties.decode(storage.read(PATH))
    assert (stored["one"], stored["two"]) == ("1", "é: =")
    removed = table_properties.update(storage, {"one": None}, clock(), held)
    assert "one" not in removed.properties
    assert [info.name for info in storage.list(".hoodie")] == ["hoodie.properties"]


def test_change_that_would_break_the_table_changes_nothing() -> None:
    storage = table()
    before = storage.read(PATH)
    with pytest.raises(errors.FormatError):
        table_properties.update(storage, {"hoodie.table.checksum": "1"}, clock(), held)
    assert storage.read(PATH) == before


def test_change_without_the_lock_changes_nothing() -> None:
    storage = table()
    before = storage.read(PATH)

    def lost() -> None:
        raise errors.LockLostError("lost")

    with pytest.raises(errors.LockLostError):
        table_properties.update(storage, {"one": "1"}, clock(), lost)
    assert storage.read(PATH) == before


def test_change_meets_a_crash_of_java_and_mends_it() -> None:
    """Java deletes the properties before it writes new ones (format.md: Table properties)."""
    storage = table()
    storage.create(BACKUP_PATH, storage.read(PATH))
    storage.delete(PATH)
    changed = table_properties.update(storage, {"one": "1"}, clock(), held)
    assert changed.properties["one"] == "1"
    assert changed.name == "flights"


def test_neither_valid_is_not_mended() -> None:
    storage = MemoryStorage()
    storage.create(BACKUP_PATH, b"")
    storage.create(PATH, b"")
    with pytest.raises(errors.FormatError, match="neither"):
        table_properties.recover(storage)
    assert storage.read(BACKUP_PATH) == b""


def test_racing_change_without_our_lock_is_a_conflict() -> None:
    class Racing(MemoryStorage):
        def replace(self, path: str, content: bytes, *, if_match: str) -> FileInfo:
            super().replace(path, b"theirs", if_match=self.stat(path).version)
            return super().replace(path, content, if_match=if_match)

    storage = Racing()
    table_properties.create(storage, CONFIG, clock())
    with pytest.raises(errors.ConflictError):
        table_properties.update(storage, {"one": "1"}, clock(), held)
    assert storage.read(PATH) == b"theirs"
