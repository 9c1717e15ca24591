"""The rings of a table with consistent hashing, in files.

    .hoodie/.bucket_index/consistent_hashing_metadata/{partition}/
        {instant}.hashing_meta   JSON: a ring's nodes; of 14 zeros the one that a partition begins
                                 with, of another instant one that its clustering made
        {instant}.commit         says that the ring counts; empty. Apache Hudi makes it some time
                                 after the clustering has completed, so that nothing depends on it

The ring of the newest clustering that has completed counts. The first writer of a partition
creates the initial one, which follows from path and number of nodes alone, the same for all.

Source: `ConsistentBucketIndexUtils.java`, `HoodieConsistentHashingMetadata.java` (1.2.0).
"""

import contextlib
import hashlib
import itertools
import json
import struct
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hoodie import errors
from hoodie.format import file_names
from hoodie.model import files, instants
from hoodie.storage.protocol import Storage

VALUE_MAX = 0x7FFFFFFF
"""Of a hash, and of a node."""

DIRECTORY = ".hoodie/.bucket_index/consistent_hashing_metadata"

_SUFFIX = ".hashing_meta"
_INITIAL = "0" * 14
_TAG = '"tag" : "NORMAL"'
_VERSION = 0
_FILE_NUMBER = "-0"  # A node has one file group.


@dataclass(frozen=True, slots=True, kw_only=True)
class Ring:
    """The nodes of a partition.

    Attributes:
        values: The greatest hash of each node; ascending, from 0 to `VALUE_MAX`.
        prefixes: What the id of each node's file group begins with.
    """

    values: tuple[int, ...]
    prefixes: tuple[str, ...]

    @property
    def file_ids(self) -> tuple[str, ...]:
        """The file group of each node."""
        return tuple(each + _FILE_NUMBER for each in self.prefixes)


def initial(partition_path: str, count: int) -> Ring:
    """Return the ring that every partition begins with, the same for every writer.

    Args:
        partition_path: The partition.
        count: Its number of nodes.
    """
    assert count > 0, count
    step = -(-VALUE_MAX // count)
    bounds = [min(step * number, VALUE_MAX) for number in range(count + 1)]
    # Of two nodes with one value, which very many have, the later counts.
    nodes = {end: _name(begin, end, partition_path) for begin, end in itertools.pairwise(bounds)}
    return Ring(values=tuple(nodes), prefixes=tuple(nodes.values()))


def path_of(partition_path: str, instant: str) -> str:
    """Return the path of a ring's file, below the table's root."""
    return f"{DIRECTORY}/{files.join(partition_path, instant)}{_SUFFIX}"


def read(
    storage: Storage,
    partition_path: str,
    is_committed: Callable[[instants.InstantTime], bool],
) -> Ring | None:
    """Return the ring of a partition; None where nobody has written to it. A list and a read.

    Args:
        storage: The table's.
        partition_path: The partition.
        is_committed: Whether the replace commit of a requested time has completed.

    Raises:
        FormatError: The file is damaged.
        UnsupportedError: It is of a later version.
    """
    folder = path_of(partition_path, _INITIAL).rpartition("/")[0]
    names = [info.path.rpartition("/")[2] for info in storage.list(folder)]
    found = sorted(each.removesuffix(_SUFFIX) for each in names if each.endswith(_SUFFIX))
    for instant in reversed(found):
        if instant == _INITIAL or is_committed(instants.InstantTime(instant)):
            path = path_of(partition_path, instant)
            return _decode(path, storage.read(path))
    return None


def initial_count(storage: Storage, partition_path: str) -> int | None:
    """Return the number of nodes with which a partition began; None if nothing says. A read.

    Raises:
        FormatError, UnsupportedError: As `read`.
    """
    path = path_of(partition_path, _INITIAL)
    try:
        return len(_decode(path, storage.read(path)).values)
    except errors.NotFoundError:
        return None


def create(storage: Storage, partition_path: str, ring: Ring) -> None:
    """Create the initial ring of a partition; nothing where another writer was faster."""
    with contextlib.suppress(errors.AlreadyExistsError):
        path = path_of(partition_path, _INITIAL)
        storage.create(path, _encode(partition_path, ring))


def _encode(partition_path: str, ring: Ring) -> bytes:
    """Return the JSON of an initial ring, as Apache Hudi lays it out."""
    nodes = [
        "{\n    " + f'"value" : {value},\n    "fileIdPrefix" : "{prefix}",\n    ' + _TAG + "\n  }"
        for value, prefix in zip(ring.values, ring.prefixes, strict=True)
    ]
    path = json.dumps(partition_path, ensure_ascii=False)
    fields = (
        f'"version" : {_VERSION}',
        f'"partitionPath" : {path}',
        f'"instant" : "{_INITIAL}"',
        f'"numBuckets" : {len(ring.values)}',
        '"seqNo" : 0',
        f'"nodes" : [ {", ".join(nodes)} ]',
    )
    return ("{\n  " + ",\n  ".join(fields) + "\n}").encode()


def _decode(path: str, content: bytes) -> Ring:
    try:
        stored = json.loads(content)
        version = int(stored["version"])
        if version != _VERSION:
            raise errors.UnsupportedError(
                f"{path} has version {version}, expected {_VERSION}: write the table with Apache "
                "Hudi"
            )
        # Of two nodes with one value Apache Hudi keeps the later.
        nodes = {int(each["value"]): _prefix(each) for each in stored["nodes"]}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise errors.FormatError(f"{path} is not the nodes of a ring: {error!r}") from error
    if not nodes or min(nodes) < 0 or max(nodes) > VALUE_MAX:
        raise errors.FormatError(
            f"{path} has {len(nodes)} nodes of values {sorted(nodes)[:3]}, expected some from 0 to "
            f"{VALUE_MAX}"
        )
    ordered = sorted(nodes)
    return Ring(values=tuple(ordered), prefixes=tuple(nodes[each] for each in ordered))


def _name(begin: int, end: int, partition_path: str) -> str:
    """Return Java's `UUID.nameUUIDFromBytes` of a node's bounds and its partition."""
    content = struct.pack(">qq", begin, end) + partition_path.encode()
    digest = hashlib.md5(content, usedforsecurity=False).digest()
    return str(uuid.UUID(bytes=digest, version=3))


def _prefix(node: Mapping[str, object]) -> str:
    prefix = node["fileIdPrefix"]
    # It becomes part of a file's name.
    if not isinstance(prefix, str) or not file_names.is_base_file_id(prefix):
        raise ValueError(f"fileIdPrefix {prefix!r:.100}")
    return prefix
