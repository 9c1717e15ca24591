"""A Java stack trace about an input file, as an error of ours that names the file."""

import re

from hoodie import errors

_FILE = re.compile(r"\[FAILED_READ_FILE\.(\w+)\] Encountered error while reading file (\S+)\.\s")
_MALFORMED = re.compile(
    r"\[MALFORMED_CSV_RECORD\] Malformed CSV record: (.*?)\s*SQLSTATE", re.DOTALL
)
_SHOWN_LENGTH_MAX = 80


def reading_error(error: Exception) -> errors.HoodieError | None:
    """Return what a failed call of Spark says about a file; None when it is about none."""
    messages = [str(error), *_messages(error)]
    text = "\n".join(messages)
    file = _FILE.search(text)
    if file is None:
        return None
    problem, path = file.groups()
    if malformed := _MALFORMED.search(text):
        return errors.InvalidInputError(
            f"{path}: the line {_shown(malformed[1])!r} has a different number of fields than the "
            "first line"
        )
    if problem == "FILE_NOT_EXIST":
        return errors.NotFoundError(f"{path}: there is no such file")
    if problem == "CANNOT_READ_FILE_FOOTER":
        return errors.InvalidInputError(f"{path}: not a Parquet file")
    return errors.StorageError(f"{path}: {_shown(messages[-1])}")


def _shown(text: str) -> str:
    line = next(iter(text.strip().splitlines()), "")
    return line if len(line) <= _SHOWN_LENGTH_MAX else f"{line[: _SHOWN_LENGTH_MAX - 3]}..."


def _messages(error: Exception) -> list[str]:
    """Return the messages of a Java exception and of its causes."""
    # Of Py4J's own exception, and of Spark's Python ones.
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    messages = []
    while java is not None:
        messages.append(str(java.getMessage()))
        java = java.getCause()
    return messages
