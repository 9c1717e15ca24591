"""Paths below a table's root.

Apache Hudi makes partition folders of any text, line feeds included. Such folders are listed, read
and compacted; which names of partitions our own writers make is decided by `write.keys`.
"""

from collections.abc import Iterable

from hoodie import errors

_UNFINISHED = ".unfinished"
_NO_NAMES = frozenset(("", ".", ".."))


def checked(path: str) -> str:
    """Return the path of a file if a storage can hold it, below the root.

    Raises:
        InvalidInputError: It is empty, absolute, has an empty, `.` or `..` part, a null character
            or text that is not Unicode.
    """
    if not _NO_NAMES.isdisjoint(path.split("/")):
        raise errors.InvalidInputError(
            f"{path!r} is not a path below a table's root: expected names joined by single slashes"
        )
    if path.isascii() and path.isprintable():
        return path
    if "\0" in path:
        raise errors.InvalidInputError(f"{path!r} holds a null character")
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise errors.InvalidInputError(f"{path!r} is not Unicode text") from error
    return path


def checked_directory(directory: str) -> str:
    """Return the path of a directory, where the empty one is the root.

    Raises:
        InvalidInputError: As for `checked`.
    """
    return checked(directory) if directory else ""


def parent(path: str) -> str:
    """Return the directory of a path, empty for one in the root."""
    return path.rpartition("/")[0]


def joined(directory: str, name: str) -> str:
    """Return the path of a name in a directory, which may be the root."""
    return f"{directory}/{name}" if directory else name


def by_directory(paths: Iterable[str]) -> dict[str, list[str]]:
    """Return names by the paths of their directories, both in the order of the paths."""
    found: dict[str, list[str]] = {}
    for path in paths:
        directory, _, name = path.rpartition("/")
        found.setdefault(directory, []).append(name)
    return found


def unfinished(path: str) -> str:
    """Return the path under which a file is written until it is whole.

    Apache Hudi takes whatever holds `.log` for a log file, and whatever ends in the extension of a
    base file for one; so the name has no point of the file's own, and an extension of its own.
    Source: `FSUtils.getAllDataFilesInPartition`.
    """
    directory, _, name = path.rpartition("/")
    masked = name.replace("%", "%25").replace(".", "%2E")
    return joined(directory, f".{masked}{_UNFINISHED}")


def finished(path: str) -> str | None:
    """Return the path of the file that one is to become; None for one that is finished."""
    directory, _, name = path.rpartition("/")
    if not (name.startswith(".") and name.endswith(_UNFINISHED)):
        return None
    masked = name[1 : -len(_UNFINISHED)]
    return joined(directory, masked.replace("%2E", ".").replace("%25", "%"))


def check_range(path: str, offset: int, length: int | None) -> None:
    """Refuse a range of a file that is none.

    Raises:
        InvalidInputError: Its begin or its length is negative.
    """
    if offset < 0 or (length is not None and length < 0):
        raise errors.InvalidInputError(f"{length} bytes from {offset} are not a range of {path}")
