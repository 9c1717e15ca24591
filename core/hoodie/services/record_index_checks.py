"""Whether the record index of a metadata table names the file group of each row."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hoodie import errors
from hoodie.engine.protocol import Engine
from hoodie.filegroup import metadata_table, reading, record_index
from hoodie.model import files, schemas
from hoodie.model.key_changes import NOWHERE, RECORD_INDEX

_NAMED_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongKeys:
    """Rows of a file group that the index does not lead to.

    Attributes:
        path: The file group's, below the table's root; the partition of the metadata table where
            that as a whole is wrong.
        count: How many; 0 where they were not counted.
        problem: Some of their keys, and where the index has them.
    """

    path: str
    count: int
    problem: str


def rolled_back(table: metadata_table.MetadataTable) -> Sequence[WrongKeys]:
    """Return what is wrong with a record index that Apache Hudi has rolled back.

    It cannot be asked for keys then.

    Requests as of `MetadataTable.check_is_not_rolled_back`.
    """
    try:
        table.check_is_not_rolled_back(RECORD_INDEX)
    except errors.FormatError as error:
        return [WrongKeys(path=RECORD_INDEX, count=0, problem=str(error))]
    return []


def wrong_keys(
    table: metadata_table.MetadataTable,
    reader: reading.SliceReader,
    engine: Engine,
    slices: Sequence[files.FileSlice],
) -> Iterator[WrongKeys]:
    """Yield what is wrong of some file slices; the keys of each are read, merged.

    Keys that the index has, and that have no row, are not looked for: they do no harm.

    Args:
        table: The metadata table, which has a record index that is not rolled back.
        reader: Of the data table.
        engine: Reads slices.
        slices: Of one partition of the data table.
    """
    index = record_index.RecordIndex(table)

    def look(file_slice: files.FileSlice) -> WrongKeys | None:
        column = reader.read(file_slice, [schemas.RECORD_KEY]).column(schemas.RECORD_KEY)
        keys = column.combine_chunks()
        found = index.locations(index.groups.key_space(file_slice.group.partition_path), keys)
        own = [number for number, group in enumerate(found.groups) if group == file_slice.group]
        numbers = found.of(keys)
        wrong = np.flatnonzero(~np.isin(numbers, own))
        if not len(wrong):
            return None
        named = ", ".join(
            _told(keys[place].as_py(), int(numbers[place]), found.groups)
            for place in wrong[:_NAMED_MAX].tolist()
        )
        rest = len(wrong) - _NAMED_MAX
        more = f" and {rest} more" if rest > 0 else ""
        problem = f"the record index has {named}{more}; expected here"
        return WrongKeys(path=str(file_slice.group), count=len(wrong), problem=problem)

    return (each for each in engine.map(look, list(slices)) if each is not None)


def _told(key: str, number: int, groups: Sequence[files.FileGroupId]) -> str:
    return f"{key!r} nowhere" if number == NOWHERE else f"{key!r} in {groups[number]}"
