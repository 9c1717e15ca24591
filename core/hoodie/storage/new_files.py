"""A file that is being written: closed it is there, whole; left in any other way it is discarded.

Whatever ends a writer early must not publish what it has written so far: a part of a data file
under its own name looks like the file.
"""

import abc
import io
from types import TracebackType
from typing import Any, Self

from hoodie import errors


class StreamedFile(io.RawIOBase):
    """What the new files of all storages have in common; a `protocol.NewFile`."""

    _is_open = False

    def __init__(self, shown: str) -> None:
        """Begin a file.

        Args:
            shown: Its name, for messages.
        """
        super().__init__()
        self._shown = shown
        self._size_bytes = 0
        self._is_open = True

    @abc.abstractmethod
    def _append(self, content: memoryview) -> None:
        """Write all of it."""

    @abc.abstractmethod
    def _publish(self) -> None:
        """Have the file be there, whole and durable."""

    @abc.abstractmethod
    def _drop(self) -> None:
        """Release what the file holds, and remove what is there of it."""

    def writable(self) -> bool:
        """Return that it is."""
        return True

    def write(self, content: Any, /) -> int:  # noqa: ANN401 - Buffer has a name from 3.12 on
        """Write all of it and return its length; a failure discards the file."""
        if not self._is_open:
            raise errors.StorageError(f"cannot write {self._shown}: it was closed or discarded")
        part = memoryview(content)
        try:
            self._append(part)
        except BaseException:
            self.discard()
            raise
        self._size_bytes += part.nbytes
        return part.nbytes

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self._size_bytes

    def close(self) -> None:
        """Have the file be there, unless it was discarded."""
        if not self._is_open:
            return
        try:
            self._publish()
        except BaseException:
            self.discard()
            raise
        self._is_open = False
        super().close()

    def discard(self) -> None:
        """Give the file up."""
        if not self._is_open:
            return
        self._is_open = False
        super().close()
        self._drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def __del__(self) -> None:
        self.discard()
