"""Which batches the archived commits of a table held, by writer (rule WR1).

    .hoodie/.aux/batches/{level}-{digest of the content}.json

A set that only grows: batches are recorded before their commits leave the active timeline. Files
are never changed, so that no lock is needed: what two processes record, or record twice, is the
union. `MERGED` files of a level become one of the next: it is written, then they are deleted, and a
process that dies in between leaves the same batches twice.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Final

from hoodie import errors
from hoodie.model import commits
from hoodie.storage.protocol import Storage

DIRECTORY: Final = ".hoodie/.aux/batches"
MERGED: Final = 10
_LEVEL_MAX: Final = 9
_TRIES: Final = 10
_DIGEST_LENGTH: Final = 32
_NAME: Final = re.compile(r"/[0-9]-[0-9a-f]{32}\.json$", re.ASCII)

Batches = Mapping[str, frozenset[str]]
"""Ids of batches, and tokens of their files, by writer id."""


def of_commits(found: Iterable[commits.CommitMetadata]) -> Batches:
    """Return the batches that commits name."""
    by_writer: dict[str, set[str]] = {}
    for each in found:
        writer_id = each.extra.get(commits.WRITER_ID_KEY)
        batch_id = each.extra.get(commits.BATCH_ID_KEY)
        if writer_id is not None and batch_id is not None:
            files = commits.batch_files(each.extra)
            by_writer.setdefault(writer_id, set()).update((batch_id, *files))
    return {writer_id: frozenset(ids) for writer_id, ids in by_writer.items()}


def record(storage: Storage, batches: Batches) -> None:
    """Remember batches. A listing and a request; every tenth time one for each file merged.

    Raises:
        FormatError: A file is damaged.
        StorageError: They may not be remembered.
    """
    if batches:
        _put(storage, 0, batches)
        _merge(storage)


def load(storage: Storage, known: MutableMapping[str, Batches] | None = None) -> Batches:
    """Return all that is remembered: a listing, and a read for each file that is not known.

    Args:
        storage: The table's.
        known: Contents by path, of earlier calls; brought up to date.

    Raises:
        FormatError: A file is damaged.
        StorageError: They cannot be read.
    """
    held: MutableMapping[str, Batches] = {} if known is None else known
    for _ in range(_TRIES):
        paths = _listed(storage)
        try:
            for path in paths:
                if path not in held:
                    held[path] = _read(storage, path)
        except errors.NotFoundError:
            continue  # It was merged since the listing.
        for path in held.keys() - set(paths):
            del held[path]
        return _union(held[path] for path in paths)
    raise errors.StorageError(f"{storage.uri}: {DIRECTORY} changes faster than it can be read")


def _merge(storage: Storage) -> None:
    """Merge each level that is full into the next one."""
    for level in range(_LEVEL_MAX):
        paths = [each for each in _listed(storage) if each.startswith(f"{DIRECTORY}/{level}-")]
        if len(paths) < MERGED:
            return
        try:
            merged = _union(_read(storage, path) for path in paths)
        except errors.NotFoundError:
            return  # Another process merges them.
        _put(storage, level + 1, merged)
        storage.delete_all(paths)


def _listed(storage: Storage) -> list[str]:
    # Temporary files of a create have other names.
    return [info.path for info in storage.list(DIRECTORY) if _NAME.search(info.path)]


def _put(storage: Storage, level: int, batches: Batches) -> None:
    by_writer = {writer_id: sorted(batches[writer_id]) for writer_id in sorted(batches)}
    content = json.dumps(by_writer, separators=(",", ":")).encode()
    digest = hashlib.sha256(content).hexdigest()[:_DIGEST_LENGTH]
    path = f"{DIRECTORY}/{level}-{digest}.json"
    try:
        storage.create(path, content)
    except errors.AlreadyExistsError:
        return  # Of the same content: its name says so.


def _read(storage: Storage, path: str) -> Batches:
    try:
        data = json.loads(storage.read(path))
    except (ValueError, RecursionError) as error:
        raise errors.FormatError(f"{storage.uri}/{path}: is not JSON: {error}") from error
    is_right = isinstance(data, dict) and all(
        isinstance(ids, list) and all(isinstance(each, str) for each in ids)
        for ids in data.values()
    )
    if not is_right:
        raise errors.FormatError(f"{storage.uri}/{path}: expected lists of batch ids by writer")
    return {writer_id: frozenset(ids) for writer_id, ids in data.items()}


def _union(found: Iterable[Batches]) -> Batches:
    together: dict[str, set[str]] = {}
    for each in found:
        for writer_id, ids in each.items():
            together.setdefault(writer_id, set()).update(ids)
    return {writer_id: frozenset(ids) for writer_id, ids in together.items()}
