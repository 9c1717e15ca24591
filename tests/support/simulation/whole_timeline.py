"""A table's storage as if nothing had been archived, for judges of what archivers may do.

Each instant of the newest manifest has its requested and its completed file again. What the archive
says of it is what its files said when they were deleted; a plan that rows lack is taken from there.
"""

import io
from collections.abc import Mapping, Sequence

import pyarrow.parquet as pq

from hoodie import errors
from hoodie.format import instant_names
from hoodie.model import instants
from hoodie.storage.memory import MemoryStorage, MemoryStore
from hoodie.storage.protocol import FileInfo
from hoodie.timeline import active, archived, history_tree, transitions


class WholeStorage(MemoryStorage):
    """Reads of a store whose archived instants are back on the timeline."""

    def __init__(self, store: MemoryStore, shown_ms: Mapping[str, int] | None = None) -> None:
        """Take the store; what is archived is looked up at each read.

        Args:
            store: The table's.
            shown_ms: When files of the timeline appeared, by their paths, that were deleted unseen.
        """
        super().__init__(store)
        self._shown_ms = shown_ms or {}
        self._plain = MemoryStorage(store)
        self._deleted: dict[str, tuple[bytes, FileInfo]] = {}
        self._known: tuple[bytes, dict[str, bytes]] = (b"", {})
        self._plans: dict[str, bytes] = {}

    def see_deletion(self, path: str) -> None:
        """Take down what a file of the timeline says that is about to be deleted."""
        directory, _, name = path.rpartition("/")
        if directory == active.DIRECTORY and instant_names.parse(name) is not None:
            try:
                self._deleted[path] = self._plain.read(path), self._plain.stat(path)
            except errors.NotFoundError:
                return

    def list(self, directory: str, *, is_recursive: bool = False) -> "list[FileInfo]":
        """Return the files, with those of archived instants."""
        found = {info.path: info for info in self._plain.list(directory, is_recursive=is_recursive)}
        if directory == active.DIRECTORY or (is_recursive and not directory):
            found = {path: self._info(path, each) for path, each in self._back().items()} | found
        return [found[path] for path in sorted(found)]

    def names(self, directory: str) -> Sequence[str]:
        """Return the names, with those of archived instants."""
        found = set(self._plain.names(directory))
        if directory == active.DIRECTORY:
            found |= {path.rpartition("/")[2] for path in self._back()}
        return sorted(found)

    def stat(self, path: str) -> FileInfo:
        """Return what is known of a file; of an archived instant's as it was."""
        try:
            return self._plain.stat(path)
        except errors.NotFoundError:
            if path not in self._back():
                raise
            return self._info(path, self._back()[path])

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """Return a file's bytes, or those that the archive has of it."""
        try:
            return self._plain.read(path, offset=offset, length=length)
        except errors.NotFoundError:
            if path not in self._back():
                raise
            return self._back()[path][offset:][:length]

    def _info(self, path: str, content: bytes) -> FileInfo:
        if path in self._deleted:
            return self._deleted[path][1]
        modified_ms = self._shown_ms.get(path, 0)
        return FileInfo(path=path, size_bytes=len(content), modified_ms=modified_ms, version="")

    def _back(self) -> dict[str, bytes]:
        """Return the files of archived instants, by path; none is there under two times."""
        number = archived.newest_manifest(self._plain)
        if number is None:
            return {}
        path = history_tree.manifest_path(number)
        manifest = self._plain.read(path)
        if manifest != self._known[0]:
            self._known = manifest, self._rows(history_tree.decode_manifest(manifest, path))
        rows = self._known[1]
        keys = {(each.requested_time, each.action) for each in map(_instant_at, rows)}
        found = dict(rows)
        for path, (content, _) in self._deleted.items():
            each = _instant_at(path)
            if path in rows:
                assert content == rows[path], f"archived with another content: {each}"
            is_plan = each.state is instants.State.REQUESTED
            if is_plan and (each.requested_time, each.action.completed) in keys:
                found[path] = content
        return self._plans | found

    def _rows(self, tree: Sequence[history_tree.TreeFile]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        self._plans = {}
        for file in tree:
            for row in pq.read_table(io.BytesIO(self._plain.read(file.path))).to_pylist():
                completed = instants.Instant(
                    requested_time=instants.checked_time(row["instantTime"]),
                    action=instants.Action(row["action"]),
                    state=instants.State.COMPLETED,
                    completion_time=instants.checked_time(row["completionTime"]),
                )
                path = transitions.path(completed)
                assert path not in found, f"archived twice: {completed}"
                requested = transitions.path(completed.pending_in(instants.State.REQUESTED))
                if completed.action is instants.Action.ROLLBACK and requested not in self._deleted:
                    continue  # Its plan is archived nowhere.
                found[path] = row["metadata"] or b""
                self._plans[requested] = row["plan"] or b""
        return found


def _instant_at(path: str) -> instants.Instant:
    found = instant_names.parse(path.rpartition("/")[2])
    assert found is not None, path
    return found
