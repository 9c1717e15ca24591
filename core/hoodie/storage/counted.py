"""A storage that counts its requests, for those who want to know what something costs.

A file that is opened counts once, however much of it is read, and so does a listing, which an
object store may answer in pages.
"""

from collections import Counter
from typing import Any, cast

from hoodie.storage.protocol import Storage


class _CountedStorage:
    """Passes everything on to a storage."""

    def __init__(self, storage: Storage, counts: Counter[str]) -> None:
        self._storage = storage
        self._counts = counts

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the storage has
        found = getattr(self._storage, name)
        if not callable(found):
            return found

        def call(*arguments: object, **options: object) -> object:
            self._counts[name] += 1
            return found(*arguments, **options)

        return call


def counted(storage: Storage, counts: Counter[str]) -> Storage:
    """Return a storage that counts its calls by name, and passes them on."""
    return cast("Storage", _CountedStorage(storage, counts))
