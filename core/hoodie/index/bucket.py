"""The simple bucket index: a record's key alone says its file group.

    bucket   (Java's List.hashCode of the hash values, sign bit off) modulo the number of buckets
    file id  the bucket in eight digits and a rest that concurrent writers agree on: zeros for the
             first group of a bucket; once a replace commit has retired a group of the bucket, the
             time at which the last one that did so completed. A write that replaces the group
             itself, which is alone with it, draws the rest

The hash values are parsed out of the record key again, by Hudi's own rules: a key without comma or
without colon is the one value; otherwise it reads `field:value,field:value`, and the values of the
hash fields count, in the key's order. Source: `BucketIdentifier.java` (`newBucketFileIdForNBCC`),
`KeyGenUtils.extractRecordKeysByFields`.
"""

from __future__ import annotations

import functools
import re
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie import deferred, errors
from hoodie.format import java_hash
from hoodie.index.protocol import Buckets, ConflictKey
from hoodie.model import files, instants, key_generators, table_config

with deferred.imports():
    from hoodie.model import predicates

COUNT_MAX = 100_000
"""Buckets of a partition that make sense; file names have room for a thousand times as many."""

_BUCKET_DIGITS = 8
_FIRST = instants.InstantTime("0" * 17)
_FILE_ID = re.compile(r"\d{8}-(\d{4})-(\d{4})-(\d{4})-(\d{5})0{7}-0", re.ASCII)
_SIGN_OFF = np.int32(0x7FFFFFFF)


class SimpleBucketIndex:
    """The simple bucket index of a table; see `protocol.Index`.

    Where partitions have numbers of buckets of their own (RFC-89), a key is in the bucket of one of
    the few numbers, and all of these are looked at.
    """

    def __init__(
        self,
        config: table_config.TableConfig,
        counts: Callable[[], tuple[int, ...]] | None = None,
    ) -> None:
        """Take what `tables.index_of` is given."""
        self._config = config
        self._counts = counts or self._own_count

    @property
    def looks_keys_up(self) -> bool:
        """False: a key alone says its bucket."""
        return False

    @property
    def bucket_count(self) -> int:
        """The table's number of buckets."""
        if self._config.bucket_count is None:
            raise errors.ConfigurationError(f"table {self._config.name!r} has no number of buckets")
        return self._config.bucket_count

    @property
    def parsed_fields(self) -> tuple[str, ...]:
        """The hash fields."""
        return hash_fields(self._config)

    def check(self) -> None:
        """Refuse more buckets than make sense, and hash fields that are not in the record key."""
        count = self._config.bucket_count
        if count is not None and count > COUNT_MAX:
            raise errors.InvalidInputError(
                f"{count} buckets are too many, expected {COUNT_MAX} at most: each is a file group "
                "in each partition"
            )
        hash_fields(self._config)

    def tag(self, record_keys: pa.Array | pa.ChunkedArray) -> Buckets:
        """Return the bucket of each record key."""
        return buckets_of_keys(record_keys, self._config)

    def bucket_of(self, file_id: str) -> int | None:
        """Return the bucket of a file group; None for one that is of no bucket."""
        count = self._config.bucket_count
        found = own_bucket(file_id, count)
        if found is None and count is not None and is_bucket_file_id(file_id):
            # Only here, since it may have to be read.
            return own_bucket(file_id, max(self._counts(), default=count))
        return found

    def defect(self, file_id: str) -> str | None:
        """Return what is wrong with the eight digits of a file id; None where nothing is."""
        count = max(self._counts(), default=None)
        if count is None:
            return None
        if not is_bucket_file_id(file_id):
            return "has a file id that does not begin with a bucket"
        number = bucket_of(file_id)
        return None if number < count else f"is of bucket {number}, the table has {count}"

    def contradiction(self, file_ids: Collection[str]) -> str | None:
        """Return None: `defect` tells of each file group."""
        del file_ids
        return None

    def may_hold(self, file_id: str, record_keys: pa.Array) -> npt.NDArray[np.bool_]:
        """Return for each key whether a file group may hold it."""
        counts = self._counts()
        if not counts or not is_bucket_file_id(file_id):
            return np.ones(len(record_keys), bool)
        by_count = [replace(self._config, bucket_count=count) for count in counts]
        found = [buckets_of_keys(record_keys, each) == bucket_of(file_id) for each in by_count]
        return functools.reduce(np.logical_or, found)

    def new_file_id(self, bucket: int, retired_at: instants.InstantTime | None) -> str:
        """Return the id of an empty bucket's file group."""
        return file_id(bucket, retired_at)

    def replacing_file_id(self, bucket: int, partition_path: str, write_id: str) -> str:
        """Return the bucket, and a rest that is as random as the write's id."""
        drawn = uuid.uuid5(uuid.UUID(write_id), files.join(partition_path, str(bucket)))
        return f"{bucket:0{_BUCKET_DIGITS}d}{str(drawn)[_BUCKET_DIGITS:]}-0"

    def named_after(self, file_id: str) -> instants.InstantTime | None:
        """Return the completion time that `new_file_id` put into an id; None for any other id."""
        return retired_at(file_id)

    def conflict_key(self, group: files.FileGroupId) -> ConflictKey:
        """Return partition and bucket, by the id alone: writers may differ about the group."""
        is_bucket = is_bucket_file_id(group.file_id)
        return group.partition_path, bucket_of(group.file_id) if is_bucket else group.file_id

    def matching_buckets(
        self, where: predicates.Predicate | None, schema: pa.Schema
    ) -> Collection[int] | None:
        """Return the buckets of the keys that a filter asks for, by hashing its literals."""
        if where is None or self._config.bucket_count is None:
            return None
        if len(self._config.bucket_fields) != 1 or not key_generators.has_one_key_text(
            self._config
        ):
            return None
        field = self._config.bucket_fields[0]
        kind = schema.field(field).type if field in schema.names else None
        if kind is None or not (pa.types.is_string(kind) or pa.types.is_integer(kind)):
            return None
        found: set[int] | None = None
        for part in predicates.conjuncts(where):
            literals = predicates.literals_equal_to(part, field)
            if literals is None:
                continue
            try:
                texts = pc.cast(pa.array(literals, kind), pa.string())
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
                continue
            if len(self._config.record_key_fields) == 1 and key_generators.names_fields(
                self._config
            ):
                # There is no comma, so that the whole key is hashed.
                texts = pc.binary_join_element_wise(f"{field}:", texts, "")
            if not _is_hashed_as_it_is(texts):
                continue
            wanted = {each for count in self._counts() for each in buckets([texts], count).tolist()}
            found = wanted if found is None else found & wanted
        return found

    def _own_count(self) -> tuple[int, ...]:
        count = self._config.bucket_count
        return () if count is None else (count,)


def buckets(hash_values: Sequence[pa.Array | pa.ChunkedArray], count: int) -> Buckets:
    """Return the bucket of each row.

    Args:
        hash_values: The hash fields' values as texts, in the order of the record key's fields; null
            where a value is null.
        count: The table's number of buckets.
    """
    assert count > 0, count
    return (java_hash.list_hash(hash_values) & _SIGN_OFF) % np.int32(count)


def buckets_of_keys(
    record_keys: pa.Array | pa.ChunkedArray, config: table_config.TableConfig
) -> Buckets:
    """Return the bucket of each record key, as Hudi finds it.

    Raises:
        ConfigurationError: The table does not say its number of buckets, or hashes a field that is
            not in the record key.
        InvalidInputError: A key is one that Hudi cannot parse.
    """
    count = config.bucket_count
    if count is None:
        raise errors.ConfigurationError(f"table {config.name!r} has no number of buckets")
    return by_hash_values(record_keys, config, lambda values: buckets(values, count))


def by_hash_values(
    record_keys: pa.Array | pa.ChunkedArray,
    config: table_config.TableConfig,
    number_of: Callable[[Sequence[pa.Array]], Buckets],
) -> Buckets:
    """Return the number of each record key that follows from its hash fields, as Hudi parses them.

    Keys whose values hold commas of their own are parsed one by one, and those where a field that
    is not hashed holds a colon; others all at once.

    Args:
        record_keys: The keys.
        config: The table's configuration.
        number_of: Returns the numbers of rows, of the texts of each hash field; null where a value
            is.

    Raises:
        ConfigurationError: The table hashes a field that is not in the record key.
        InvalidInputError: A key is one that Hudi cannot parse.
    """
    if isinstance(record_keys, pa.ChunkedArray):
        record_keys = record_keys.combine_chunks()
    found = number_of([record_keys])
    is_composite = pc.and_(
        pc.match_substring(record_keys, ","), pc.match_substring(record_keys, ":")
    ).fill_null(False)
    if is_composite.true_count == 0:
        return found
    values = pc.extract_regex(record_keys, pattern=_plain_key(config))
    is_plain = pc.and_(is_composite, values.is_valid())
    columns = [_without_placeholders(column) for column in values.filter(is_plain).flatten()]
    found[is_plain.to_numpy(zero_copy_only=False)] = number_of(columns)
    odd = np.flatnonzero(pc.and_not(is_composite, is_plain).to_numpy(zero_copy_only=False))
    for row in odd.tolist():
        texts = _parse(record_keys[row].as_py(), config.bucket_fields)
        found[row] = number_of([pa.array([text], pa.string()) for text in texts])[0]
    return found


def hash_fields(config: table_config.TableConfig) -> tuple[str, ...]:
    """Return the columns whose values are hashed, in the order in which they are.

    Raises:
        ConfigurationError: A hash field is no field of the record key.
    """
    foreign = set(config.bucket_fields).difference(config.record_key_fields)
    if foreign:
        raise errors.ConfigurationError(
            f"table {config.name!r} has the hash fields {sorted(foreign)}, which are not fields of "
            "the record key"
        )
    return tuple(name for name in config.record_key_fields if name in config.bucket_fields)


def file_id(bucket: int, retired_at: instants.InstantTime | None = None) -> str:
    """Return the id of an empty bucket's file group, the same for every writer.

    Apache Hudi hides a file group whose id a replace commit retired, whatever is written to it
    later, so a retired id is not used again. The id without a retirement is the one that its
    non-blocking writers use.

    Args:
        bucket: The bucket.
        retired_at: When the last replace commit that retired a group of this bucket completed; None
            where none did.
    """
    assert 0 <= bucket < 10**_BUCKET_DIGITS, bucket
    time = retired_at or _FIRST
    groups = f"{time[:4]}-{time[4:8]}-{time[8:12]}-{time[12:]}"
    return f"{bucket:0{_BUCKET_DIGITS}d}-{groups}0000000-0"


def retired_at(file_id: str) -> instants.InstantTime | None:
    """Return the completion time that `file_id` put into an id; None for any other id."""
    match = _FILE_ID.fullmatch(file_id)
    time = instants.InstantTime("".join(match.groups())) if match else _FIRST
    return None if time == _FIRST else time


def own_bucket(file_id: str, count: int | None) -> int | None:
    """Return the bucket of a file group; None for a group that is of no bucket of the table.

    Clustering, and writers with another index, name groups by random ids, of which some begin with
    eight digits. Where a group is of no bucket any key may be in it.

    Args:
        file_id: The group's id.
        count: The table's number of buckets; None where it does not say.
    """
    if count is None:
        return None
    number = _number(file_id[:_BUCKET_DIGITS])
    return number if number is not None and number < count else None


def is_bucket_file_id(file_id: str) -> bool:
    """Return whether a file group's id begins with a bucket, as all of a bucket index do."""
    return _number(file_id[:_BUCKET_DIGITS]) is not None


# A table has few buckets, and a file group of each in many partitions.
@functools.lru_cache(maxsize=1 << 14)
def _number(digits: str) -> int | None:
    is_bucket = len(digits) == _BUCKET_DIGITS and digits.isascii() and digits.isdecimal()
    return int(digits) if is_bucket else None


def bucket_of(file_id: str) -> int:
    """Return the bucket of a file group, also of one that another writer named.

    Raises:
        FormatError: The id does not begin with a bucket.
    """
    number = _number(file_id[:_BUCKET_DIGITS])
    if number is None:
        raise errors.FormatError(f"file id {file_id!r} does not begin with a bucket in 8 digits")
    return number


def _is_hashed_as_it_is(texts: pa.Array) -> bool:
    """Return whether Hudi hashes the very texts, and not what it parses out of keys of them."""
    is_parsed = pc.and_(pc.match_substring(texts, ","), pc.match_substring(texts, ":"))
    placeholders = pa.array([key_generators.NULL_VALUE, key_generators.EMPTY_VALUE, ""])
    return not pc.or_(is_parsed, pc.is_in(texts, placeholders)).true_count


def _plain_key(config: table_config.TableConfig) -> str:
    """Return the pattern of record keys that need no parsing: no comma is part of a value.

    A colon in a value that is hashed does no harm; behind one that is not, Hudi may lose its way.
    """
    hashed = hash_fields(config)
    parts = [
        f"{re.escape(name)}:" + (f"(?P<v{index}>[^,]*)" if name in hashed else "[^,:]*")
        for index, name in enumerate(config.record_key_fields)
    ]
    return rf"\A{','.join(parts)}\z"


def _without_placeholders(values: pa.Array) -> pa.Array:
    values = pc.if_else(pc.equal(values, key_generators.EMPTY_VALUE), "", values)
    return pc.if_else(pc.equal(values, key_generators.NULL_VALUE), None, values)


def _parse(key: str, fields: Collection[str]) -> list[str | None]:
    """Return the values of some fields in a key with commas and colons, as Hudi parses it."""
    values: list[str | None] = []
    start = 0
    while start < len(key):
        # There is one: a key without is none to parse, and a value ends before a later colon.
        colon = key.index(":", start)
        is_wanted = key[start:colon] in fields
        end = _value_end(key, colon, is_wanted=is_wanted)
        if end < 0:
            raise errors.InvalidInputError(
                f"record key {key!r:.100} cannot be parsed: Hudi's own parser would never finish"
            )
        if is_wanted:
            value = key[colon + 1 : end]
            values.append(
                {key_generators.NULL_VALUE: None, key_generators.EMPTY_VALUE: ""}.get(value, value)
            )
        start = end + 1
    return values or [key]


def _value_end(key: str, colon: int, *, is_wanted: bool) -> int:
    """Return where the value behind a colon ends; -1 where Hudi would look for it forever.

    It ends at the last comma before the next colon that has one; without such, at the key's end.
    """
    next_colon = key.find(":", colon + 1)
    is_last = next_colon < 0
    while next_colon >= 0:
        comma = key.rfind(",", colon, next_colon)
        if comma >= 0:
            return comma
        next_colon = key.find(":", next_colon + 1)
    # Skipping a field that it does not want, Hudi begins anew at the key's first colon.
    return len(key) if is_wanted or is_last else -1
