"""Whether the bloom filters of a metadata table are those of the base files."""

import functools
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hoodie import errors
from hoodie.engine.protocol import Engine
from hoodie.filegroup import key_footers, metadata_table
from hoodie.format import metadata_avro
from hoodie.format.bloom_filters import StoredFilter
from hoodie.model import files
from hoodie.storage.protocol import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongFilter:
    """A base file whose bloom filter is another one in the metadata table.

    Attributes:
        path: The file's.
        problem: How both differ, or why one cannot be read.
    """

    path: str
    problem: str


def wrong_filters(
    storage: Storage,
    engine: Engine,
    filters: metadata_table.Partition,
    base_files: Sequence[files.BaseFile],
) -> Iterator[WrongFilter]:
    """Yield the base files whose filters differ; of each the footer and a record are read.

    A file whose footer has no filter, as of a program that does not know of them, needs no record;
    one that was made of its keys when the index was built has to be right.

    Args:
        storage: The table's.
        engine: Reads footers.
        filters: The partition `bloom_filters`.
        base_files: Of one partition of the table.
    """
    # Of a filter, which is long, nothing else is kept.
    in_footers = engine.map(
        functools.partial(_digest_of, storage, read=key_footers.read_filter), base_files
    )
    for base_file, in_footer in zip(base_files, in_footers, strict=True):
        in_metadata = _digest_in_metadata(filters, base_file)
        problem = _problem(in_footer, in_metadata)
        if in_footer is None and in_metadata is not None:
            of_keys = _digest_of(storage, base_file, key_footers.read_or_make_filter)
            problem = _problem(of_keys, in_metadata)
        if problem is not None and _is_there(storage, base_file):
            yield WrongFilter(path=base_file.path, problem=problem)


def _problem(in_footer: bytes | str | None, in_metadata: bytes | str | None) -> str | None:
    for each in (in_footer, in_metadata):
        if isinstance(each, str):
            return each
    if in_footer == in_metadata:
        return None
    if in_metadata is None:
        return "the metadata table lacks the bloom filter that is in its footer"
    return "the bloom filter in the metadata table is another one than that in its footer"


def _digest_of(
    storage: Storage,
    base_file: files.BaseFile,
    read: Callable[[Storage, str], StoredFilter | None],
) -> bytes | str | None:
    """Return the digest of a file's filter, or why it cannot be read; None without any."""
    try:
        return _digest(read(storage, base_file.path))
    except errors.FormatError as error:
        return str(error)


def _digest_in_metadata(
    filters: metadata_table.Partition, base_file: files.BaseFile
) -> bytes | str | None:
    key = metadata_avro.bloom_filter_key(base_file.group.partition_path, base_file.name)
    try:
        values = filters.values(key)
        return _digest(metadata_avro.decode_bloom_filter(values[-1], key)) if values else None
    except errors.FormatError as error:
        return str(error)


def _digest(stored: StoredFilter | None) -> bytes | None:
    if stored is None:
        return None
    return hashlib.sha256(stored.type_code.encode() + b"\0" + stored.text).digest()


def _is_there(storage: Storage, base_file: files.BaseFile) -> bool:
    try:
        storage.stat(base_file.path)
    except errors.NotFoundError:
        return False
    return True
