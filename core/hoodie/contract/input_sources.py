"""Input of a writer's run: which files, how they are encoded, and how they are cut into batches."""

import enum
import json
from dataclasses import dataclass

from hoodie.model import commits


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

    Attributes:
        format: Their encoding; files ending in .gz are decompressed.
        columns: Which columns to take, under which names; empty takes all.
        renames: Where all are taken: those that get other names.
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
