"""Whether the secondary indexes of a metadata table have a pair for each row."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from hoodie.engine.protocol import Engine
from hoodie.filegroup import metadata_table, reading, secondary_index
from hoodie.format import secondary_keys
from hoodie.model import files, schemas, secondary_indexes

_NAMED_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingPairs:
    """Rows of a file group that a look-up of their values does not find.

    Attributes:
        path: The file group's, below the table's root.
        index: The index, by its partition of the metadata table.
        count: How many.
        problem: Some of their record keys.
    """

    path: str
    index: str
    count: int
    problem: str


def missing_pairs(
    table: metadata_table.MetadataTable,
    definition: secondary_indexes.Definition,
    reader: reading.SliceReader,
    engine: Engine,
    slices: Sequence[files.FileSlice],
) -> Iterator[MissingPairs]:
    """Yield what is missing of some file slices; keys and values of each are read, merged.

    Pairs that the index has, and that have no row, are not looked for: they do no harm.

    Args:
        table: The metadata table.
        definition: The index.
        reader: Of the data table.
        engine: Reads slices.
        slices: Of the data table.

    Raises:
        FormatError: The index, or a data file, is broken.
    """

    def look(file_slice: files.FileSlice) -> MissingPairs | None:
        rows = reader.read(file_slice, [schemas.RECORD_KEY, definition.column])
        pairs = pc.unique(secondary_keys.of_rows(definition.column, rows))
        held = secondary_index.held(table, definition, pairs)
        missing = pairs.filter(pc.invert(pc.is_in(pairs, value_set=held)))
        if not len(missing):
            return None
        return MissingPairs(
            path=str(file_slice.group),
            index=definition.partition,
            count=len(missing),
            problem=f"{definition.partition} lacks {_named(missing)}",
        )

    return (each for each in engine.map(look, list(slices)) if each is not None)


def _named(missing: pa.Array) -> str:
    keys = secondary_keys.record_keys(missing.slice(0, _NAMED_MAX)).to_pylist()
    rest = len(missing) - len(keys)
    more = f" and {rest} more" if rest > 0 else ""
    noun = "row" if len(missing) == 1 else "rows"
    return f"the {noun} of {', '.join(map(repr, keys))}{more}"
