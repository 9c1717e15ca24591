"""What the footer of a base file says of its record keys.

The smallest and the greatest key in Java's order, by which Apache Hudi's bloom index leaves out
files, and a bloom filter of all keys where the table's metadata table
has the partition `bloom_filters`, which takes it from there: Apache Hudi's readers expect the same
in both. A filter is 431 kB of text in most files, so a write stat does not carry it: of a thousand
files that a Spark job writes it would be more than a driver takes from its tasks. The process
that completes the action reads the footers before it takes the lock, some at a time.

Source: `HoodieBloomFilterWriteSupport.java`, `ParquetUtils.java` (readBloomFilterFromMetadata),
1.2.0; format.md: Base files.
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie import errors
from hoodie.engine import ahead
from hoodie.filegroup import parquet_reading
from hoodie.format import bloom_filters
from hoodie.format.bloom_filters import StoredFilter
from hoodie.model import schemas
from hoodie.storage.protocol import Storage

READ_AT_ONCE = 16
"""Footers that are read at once, at most."""

_LEAD_OF_FOUR_BYTES = 0xF0
_KEY_COLUMN = pa.schema([pa.field(schemas.RECORD_KEY, pa.string())])


class KeyFooter:
    """What a base file that is being written says of its keys."""

    def __init__(self, *, has_bloom_filter: bool) -> None:
        """Begin without keys."""
        self._ends: list[str] = []
        self._filter = bloom_filters.NewFilter() if has_bloom_filter else None

    def add(self, keys: pa.ChunkedArray) -> None:
        """Add the keys of rows, in the order of the file."""
        self._ends += _ends(keys)
        if self._filter is not None:
            self._filter.add(keys)

    def finish(self) -> dict[str, str]:
        """Return the texts that are put into the footer."""
        found = {}
        if self._ends:
            ends = sorted(self._ends, key=_in_java)
            found = {"hoodie_min_record_key": ends[0], "hoodie_max_record_key": ends[-1]}
        if self._filter is not None:
            stored = self._filter.stored()
            found[bloom_filters.FOOTER_KEY] = stored.text.decode()
            found[bloom_filters.FOOTER_TYPE_KEY] = stored.type_code
        return found


def _ends(keys: pa.ChunkedArray) -> list[str]:
    """Return the smallest and the greatest of some keys; none of none."""
    if any(map(_has_long_characters, keys.chunks)):
        texts = keys.drop_null().unique().to_pylist()
        return [each(texts, key=_in_java) for each in (min, max)] if texts else []
    return [end for end in pc.min_max(keys).as_py().values() if end is not None]


def _has_long_characters(texts: pa.Array) -> bool:
    """Return whether there are characters above U+FFFF; perhaps also for others of its buffer.

    Without them the order of bytes is Java's.
    """
    data = texts.buffers()[2]
    return bool(data) and np.frombuffer(data, np.uint8).max() >= _LEAD_OF_FOUR_BYTES


def _in_java(text: str) -> bytes:
    """Return what is ordered as Java orders texts."""
    return text.encode("utf-16-be")


def read_filters(
    storage: Storage, paths: Iterable[str], parallelism: int
) -> Mapping[str, StoredFilter]:
    """Return the bloom filters that base files have in their footers, by path.

    Those that are gone, or have none, are left out. An open and a read or two each.

    Args:
        storage: The table's.
        paths: Of the base files.
        parallelism: How many are read at once, up to `READ_AT_ONCE`.

    Raises:
        FormatError: A file is broken.
    """
    return _by_path(functools.partial(read_filter, storage), paths, parallelism)


def read_or_made_filters(
    storage: Storage, paths: Iterable[str], parallelism: int
) -> Mapping[str, StoredFilter]:
    """Return the bloom filters of base files by path, made of their keys where footers have none.

    Those that are gone are left out. Requests as of `read_filters`; of a file without a filter
    those of a read of its keys.

    Args:
        storage: The table's.
        paths: Of the base files.
        parallelism: How many are read at once, up to `READ_AT_ONCE`.

    Raises:
        FormatError: A file is broken.
    """
    return _by_path(functools.partial(read_or_make_filter, storage), paths, parallelism)


def _by_path(
    read: Callable[[str], StoredFilter | None], paths: Iterable[str], parallelism: int
) -> Mapping[str, StoredFilter]:
    wanted = list(paths)
    found = ahead.results(read, wanted, min(parallelism, READ_AT_ONCE))
    return {path: stored for path, stored in zip(wanted, found, strict=True) if stored is not None}


def read_filter(storage: Storage, path: str) -> StoredFilter | None:
    """Return the bloom filter of one base file; None of one that is gone, or has none.

    Raises:
        FormatError: The file is broken.
    """
    found = read(storage, path)
    return None if found is None else found.filter


def read_or_make_filter(storage: Storage, path: str) -> StoredFilter | None:
    """Return the bloom filter of one base file, made of its keys if its footer has none.

    None of one that is gone. What is made is what `writing` would have put into the footer.

    Raises:
        FormatError: The file is broken.
    """
    made = bloom_filters.NewFilter()
    try:
        with storage.open_input(path) as source:
            file = parquet_reading.ParquetInput(source)
            stored = _filter_of(file.metadata.metadata or {})
            if stored is not None:
                return stored
            for keys in file.pieces(_KEY_COLUMN):
                made.add(keys.column(schemas.RECORD_KEY))
    except errors.NotFoundError:
        return None
    except errors.FormatError as error:
        raise errors.FormatError(f"{path}: {error}") from error
    return made.stored()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFooter:
    """What the footer of a base file says.

    Attributes:
        rows: The rows of the file.
        data_bytes: Their size in the file, which has footers beside them.
        filter: The bloom filter of their keys; None where the file has none.
    """

    rows: int
    data_bytes: int
    filter: StoredFilter | None


def read(storage: Storage, path: str) -> StoredFooter | None:
    """Return what the footer of one base file says; None of one that is gone.

    Raises:
        FormatError: The file is broken.
    """
    try:
        with storage.open_input(path) as source:
            footer = parquet_reading.ParquetInput(source).metadata
    except errors.NotFoundError:
        return None
    except errors.FormatError as error:
        raise errors.FormatError(f"{path}: {error}") from error
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    return StoredFooter(
        rows=footer.num_rows,
        data_bytes=sum(
            group.column(number).total_compressed_size
            for group in groups
            for number in range(group.num_columns)
        ),
        filter=_filter_of(footer.metadata or {}),
    )


def _filter_of(texts: Mapping[bytes, bytes]) -> StoredFilter | None:
    text = texts.get(bloom_filters.FOOTER_KEY.encode())
    if text is None:
        return None
    type_code = texts.get(bloom_filters.FOOTER_TYPE_KEY.encode())
    if type_code is None:
        return StoredFilter(type_code=bloom_filters.TypeCode.SIMPLE.value, text=text)
    return StoredFilter(type_code=type_code.decode("utf-8", "replace"), text=text)
