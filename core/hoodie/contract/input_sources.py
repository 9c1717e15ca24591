"""Input of a writer's run: which files, how they are encoded, and how they are cut into batches."""

import enum
import json
from dataclasses import dataclass

from hoodie.model import commits

UTF_8 = "utf-8"


class SourceFormat(enum.Enum):
    """How input files are encoded."""

    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMapping:
    """One column of the table and where it comes from.

    Attributes:
        name: The table's column.
        source: The input's column.
    """

    name: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """How to read a writer's input files.

    Manifests have no fields for `renames` and what follows: those are for input that the command
    line reads in its own process.

    Attributes:
        format: Their encoding; files ending in .gz are decompressed.
        columns: Which columns to take, under which names; empty takes all.
        renames: Where all are taken: those that get other names.
        encoding: CSV and JSON: of the text, as Python names it.
        date_format: CSV: of dates and times, with the letters of `strftime`; None for ISO 8601.
        decimal_point: CSV: the character before the digits of a fraction.
        has_header: CSV: whether the first line names the columns; without one they are named by
            their position, `_c0` and up.
        delimiter: CSV: one character between fields.
        null_text: CSV: the text that means null, beside which the empty field does too.
    """

    format: SourceFormat
    columns: tuple[ColumnMapping, ...] = ()
    has_header: bool = True
    delimiter: str = ","
    null_text: str | None = None
    renames: tuple[ColumnMapping, ...] = ()
    encoding: str = UTF_8
    date_format: str | None = None
    decimal_point: str = "."


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The input of one commit.

    Attributes:
        id: Unique among the writer's batches, equal for equal input; at most 128 characters.
        files: Absolute paths or URIs, read in this order.
        tokens: What each file is remembered by, so that it is known to be written however files
            are grouped into batches; empty when the id says it all.
    """

    id: str
    files: tuple[str, ...]
    tokens: tuple[str, ...] = ()

    @property
    def extra_metadata(self) -> dict[str, str]:
        """What the batch's commit carries beside ids."""
        if not self.tokens:
            return {}
        return {commits.BATCH_FILES_KEY: json.dumps(self.tokens, ensure_ascii=False)}
