"""The file of `hoodie write --reject-file`: rows that do not fit, each with the reason.

    file,row,column,problem,line
    trips.csv,17,fare,"has the value 'x', expected one of type double","{""fare"": ""x""}"

Rows count from 1, without a header and empty lines. The line is the row's text if it has another
number of fields than the others, or is no object of JSON, and else its fields as JSON.
"""

import csv
import json
from bisect import bisect_right, insort
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from hoodie import errors
from hoodie.cli import inputs

_HEAD = ("file", "row", "column", "problem", "line")


class RejectFile:
    """Takes rejected rows; the file is made once there is one."""

    def __init__(self, path: str) -> None:
        """Reject nothing yet.

        Raises:
            InvalidInputError: The file is there already, or its folder is not.
        """
        self._path = Path(path)
        self._stream: TextIO | None = None
        self._skipped: dict[str, list[int]] = {}
        self.count = 0
        if self._path.exists():
            raise errors.InvalidInputError(f"rejects {path}: is there already, expected a new file")
        if not self._path.absolute().parent.is_dir():
            raise errors.InvalidInputError(f"rejects {path}: there is no such folder")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._stream is not None:
            self._stream.close()

    def add_malformed(self, file: str, number: int, text: str, problem: str) -> None:
        """Reject a row that has another number of fields than the others, or is no JSON object.

        Args:
            file: Its file.
            number: How many rows come before it.
            text: The row.
            problem: What is wrong.
        """
        insort(self._skipped.setdefault(file, []), number)
        self._add(file, number, "", problem, text)

    def add(self, file: str, number: int, column: str, problem: str, fields: object) -> None:
        """Reject a row with a value that does not fit.

        Args:
            file: Its file.
            number: How many rows come before it, without those that are malformed.
            column: The table's column.
            problem: What is wrong.
            fields: The row's fields by column.
        """
        skipped = self._skipped.get(file, [])
        # Of the malformed rows those come before it that have no more others before them.
        number += bisect_right(range(len(skipped)), number, key=lambda each: skipped[each] - each)
        line = json.dumps(fields, ensure_ascii=False, default=str)
        self._add(file, number, column, problem, line)

    def _add(self, file: str, number: int, column: str, problem: str, line: str) -> None:
        try:
            if self._stream is None:
                self._stream = self._path.open("x", encoding="utf-8", newline="")
                csv.writer(self._stream).writerow(_HEAD)
            row = (inputs.title(file), number + 1, column, problem, line)
            csv.writer(self._stream).writerow(row)
        except OSError as error:
            raise errors.StorageError(f"rejects {self._path}: {error.strerror or error}") from error
        self.count += 1
