"""Writers of Apache Hudi in a simulated world that stream into the metadata table.

Such a writer opens the metadata table once its requested file is there (J1 of ADR 0032), and
completes by the properties as they were then. Nothing that it puts there says that it is of this
project: its heartbeat is empty, and so is its inflight file. In a record index that they name it
logs its keys without the lock, by a delta commit that is pending until it completes, and divides
them by the number of file groups that there were when it wrote them (`Streamed`); in an index of
each partition it makes some of a partition that has none. It looks keys up in the data files, as
those of Apache Hudi with a simple index: by a record index they would ask one that was dropped
since. All else it does as ours do, which in the end write the same again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self, cast

from hoodie.filegroup import index_groups, metadata_records, metadata_table, metadata_writing
from hoodie.format import file_names
from hoodie.model import commits, files, instants, key_changes, table_config
from hoodie.storage.protocol import FileInfo, Storage
from hoodie.timeline import active, metadata_timelines, table_properties, transitions
from hoodie.transaction import layout
from hoodie.transaction.client import Client, OpenAction

PREFIX = "wstream"
"""How the names of its processes begin."""

_NEW_GROUPS = 2
"""So many file groups it gives a new partition: by an option that is 1 by default."""


class StreamingStorage:
    """The storage as such a writer has it."""

    def __init__(self, inner: Storage, opened: Callable[[], bytes]) -> None:
        self._inner = inner
        self._opened = opened
        self._properties: bytes | None = None
        self._own: dict[str, bytes] = {}

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def create(self, path: str, content: bytes) -> object:
        if layout.HEARTBEATS in path or path.endswith(".inflight"):
            self._own[path] = content
            content = b""
        created = self._inner.create(path, content)
        if path.startswith(f"{active.DIRECTORY}/") and path.endswith(".requested"):
            self._properties = self._opened()
        return created

    def renew(self) -> None:
        """Forget the properties of a write that has ended."""
        self._properties = None

    def read(self, path: str, **rest: int) -> bytes:
        if path == table_properties.PATH and self._properties is not None:
            return self._properties
        return self._inner.read(path, **rest) or self._own.get(path, b"")

    def touch(self, path: str) -> FileInfo:
        info = self._inner.touch(path)
        return replace(info, size_bytes=len(self._own.get(path, b"")))

    def fetch(self, path: str) -> tuple[bytes, str]:
        content, version = self._inner.fetch(path)
        return content or self._own.get(path, b""), version


def streaming(inner: Storage, opened: Callable[[], bytes] | None = None) -> Storage:
    """Return a storage as such a writer has it.

    Args:
        inner: As others have it.
        opened: Returns the properties by which a write goes that begins now; those that there are
            by default.
    """
    read = opened or (lambda: inner.read(table_properties.PATH))
    return cast("Storage", StreamingStorage(inner, read))


def renew(storage: Storage) -> None:
    """Let a write begin by the properties that there are, if its writer is one that streams."""
    found: object = storage
    if isinstance(found, StreamingStorage):
        found.renew()


def is_one(storage: Storage) -> bool:
    """Return whether a storage is that of such a writer."""
    found: object = storage
    return isinstance(found, StreamingStorage)


def looking_up(storage: Storage, config: table_config.TableConfig) -> table_config.TableConfig:
    """Return the configuration by which a write looks keys up: a streaming one in the files."""
    if not is_one(storage):
        return config
    others = (each for each in config.metadata_partitions if each != key_changes.RECORD_INDEX)
    return replace(config, metadata_partitions=tuple(others))


@dataclass(frozen=True, kw_only=True)
class Streamed:
    """What such a write has logged in a record index before it completes.

    Attributes:
        paths: Of its log files, in the metadata table.
        ids: The file groups that it has divided its keys by, of each key space.
    """

    paths: Sequence[str]
    ids: Mapping[str | None, Sequence[str]]

    @classmethod
    def by(
        cls, writer: Client, opened: OpenAction, stats: Sequence[commits.WriteStat]
    ) -> Self | None:
        """Log the keys of a write; return None if it does not keep a record index up."""
        name = key_changes.RECORD_INDEX
        config = table_properties.load(writer.storage, writer.clock)  # As it was opened.
        if name not in config.metadata_partitions_kept_up:
            return None
        storage = metadata_timelines.opened(writer.storage)
        there = metadata_writing.group_ids(storage, name)
        if not there:
            return None
        groups = index_groups.of(writer.storage, there)
        pending = {each.requested_time for each in active.load(storage).pending}
        lasting = {
            each.group.file_id
            for each in metadata_table.data_files(storage, name)
            if each.instant_time not in pending
        }
        time = opened.requested_time
        changes = metadata_records.Changes(written=[each for each in stats if each.keys])
        requested_ms = writer.time_zone.epoch_ms(time)
        located = metadata_records.locations(changes, groups.key_space, requested_ms)
        requested = transitions.request(
            storage, time, instants.Action.DELTA_COMMIT, b"", lambda: True
        )
        transitions.start(storage, requested, b"", lambda: True)
        paths = []
        ids: dict[str | None, Sequence[str]] = {}
        for key_space, records in located.items():
            own = groups.ids(key_space) or [
                index_groups.file_id(key_space, number) for number in range(_NEW_GROUPS)
            ]
            # Those of a dead attempt go with it.
            for each in (group for group in own if group not in lasting):
                metadata_writing.write_empty_log(storage, files.FileGroupId(name, each), time)
            ids[key_space] = own
            for place, part in records.split(len(own)).items():
                stat = metadata_writing.write_log(
                    storage,
                    files.FileGroupId(name, own[place]),
                    time,
                    file_names.write_token(place, 7, 1),
                    part,
                    writer.clock.now_ms(),
                )
                paths.append(stat.path)
        return cls(paths=paths, ids=ids)

    def check(self, storage: Storage) -> None:
        """Check that its files are still there, and no other file groups, when it completes.

        Args:
            storage: The table's.
        """
        beside = metadata_timelines.opened(storage)
        found = {info.path for info in beside.list(key_changes.RECORD_INDEX)}
        gone = set(self.paths) - found
        assert not gone, f"log files of a pending write were deleted: {sorted(gone)}"
        groups = index_groups.of(
            storage, metadata_writing.group_ids(beside, key_changes.RECORD_INDEX)
        )
        for key_space, own in self.ids.items():
            ids = groups.ids(key_space)
            assert ids == own, f"there are other file groups than {own}: {ids}"
