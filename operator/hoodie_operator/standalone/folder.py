"""The folder of manifests: read whole whenever anything in it changed.

YAML is read from a folder, JSON only where the file itself is named: in a folder it is data, or the
operator's own state. Hidden files and folders (a checkout's `.git`) are passed by. What is read is
one complete state or is told to be none: a deletion is only ever concluded from complete ones.
"""

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hoodie import errors
from hoodie_operator.api import manifests, objects

_SUFFIXES = frozenset({".yaml", ".yml"})
FILES_MAX = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderState:
    """What a folder declared at one moment.

    Attributes:
        declared: One manifest for each object.
        problems: Everything that is wrong; with any, the state is not complete.
        digest: Of all content; equal for equal states.
    """

    declared: Sequence[manifests.Manifest]
    problems: Sequence[manifests.Problem]
    digest: str

    @property
    def is_complete(self) -> bool:
        """Whether everything that is there was read and fits."""
        return not self.problems

    def may_declare(self, key: objects.ObjectKey) -> bool:
        """Return whether an object is declared, or may be in what could not be read."""
        return any(manifest.key == key for manifest in self.declared) or any(
            problem.key in (None, key) for problem in self.problems
        )


class Folder:
    """A folder of manifests, or a single file of them."""

    def __init__(self, path: Path) -> None:
        """Take the path.

        Raises:
            NotFoundError: There is nothing at the path.
        """
        if not path.exists():
            raise errors.NotFoundError(f"{path}: there is no such file or folder")
        self._path = path
        self._stamps: tuple[tuple[str, int, int, int], ...] | None = None
        self._state: FolderState | None = None

    @property
    def root(self) -> Path:
        """The folder, or the one that the single file is in."""
        return self._path if self._path.is_dir() else self._path.parent

    def read(self) -> FolderState:
        """Return the state now; nothing is parsed again while no file changed."""
        try:
            stamps = tuple(self._look())
        except OSError as error:
            self._stamps = None
            return _unreadable(str(self._path), error)
        if self._state is None or stamps != self._stamps:
            self._state = self._parse([name for name, *_ in stamps])
            # What changed while it was read is read again.
            self._stamps = stamps if self._state.is_complete else None
        return self._state

    def _look(self) -> Iterator[tuple[str, int, int, int]]:
        for path in self._files():
            try:
                status = path.stat()
            except OSError:
                # A link to nowhere: reading it tells what is wrong with it.
                yield str(path), 0, 0, 0
            else:
                yield str(path), status.st_mtime_ns, status.st_size, status.st_ino

    def _files(self) -> list[Path]:
        if not self._path.is_dir():
            # Listing it fails loudly when it vanished.
            self._path.stat()
            return [self._path]
        found = []
        for folder, folders, names in os.walk(self._path, onerror=_raise):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            found += [
                Path(folder) / name
                for name in sorted(names)
                if not name.startswith(".") and Path(name).suffix in _SUFFIXES
            ]
            if len(found) > FILES_MAX:
                raise OSError(f"it holds more than {FILES_MAX} manifests")
        return found

    def _parse(self, names: Sequence[str]) -> FolderState:
        found: dict[objects.ObjectKey, manifests.Manifest] = {}
        problems: list[manifests.Problem] = []
        digest = hashlib.sha256()
        for name in names:
            # What is no UTF-8 in a name could not be printed.
            shown = os.path.relpath(name, self.root).encode(errors="replace").decode()
            try:
                content = _content(name)
            except OSError as error:
                problems.append(_problem(shown, f"cannot be read: {error.strerror or error}"))
                continue
            digest.update(f"{shown}\0{len(content)}\0".encode())
            digest.update(content)
            declared, wrong = manifests.parse(content, shown)
            problems.extend(wrong)
            for manifest in declared:
                other = found.setdefault(manifest.key, manifest)
                if other is not manifest:
                    place = f"{other.source}, document {other.document}"
                    problems.append(
                        _problem(shown, f"declares {manifest.key}, as {place} does", manifest)
                    )
        return FolderState(
            declared=tuple(found.values()), problems=tuple(problems), digest=digest.hexdigest()
        )


def _content(name: str) -> bytes:
    """Return a file's content, of one that is too long for a manifest its beginning."""
    # What is no regular file may have no end, or never answer.
    if not stat.S_ISREG(os.stat(name).st_mode):  # noqa: PTH116 - of a plain name
        raise OSError("it is not a regular file")
    with open(name, "rb") as file:  # noqa: PTH123 - a bounded read of a plain name
        return file.read(manifests.BYTES_MAX + 1)


def _raise(error: OSError) -> None:
    raise error


def _problem(
    source: str, message: str, manifest: manifests.Manifest | None = None
) -> manifests.Problem:
    document, key = (manifest.document, manifest.key) if manifest else (0, None)
    return manifests.Problem(source=source, document=document, path="", message=message, key=key)


def _unreadable(source: str, error: OSError) -> FolderState:
    problem = _problem(source, f"cannot be read: {error.strerror or error}")
    return FolderState(declared=(), problems=(problem,), digest="")
