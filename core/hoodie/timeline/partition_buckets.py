"""Bucket counts by partition, which Apache Hudi's `partition_bucket_index_manager` gives a table.

    .hoodie/.bucket_index/partition_bucket_index_meta/configs/{instant}.hashing_config
        JSON: `expressions` ("regex,count;regex,count", the first that is found in the partition
        path counts), `defaultBucketNumber` for partitions that none is found in, `rule`, `version`

The procedure writes the file, rewrites every partition whose count changes, and completes a replace
commit with the file's instant. The file counts once that has completed; the properties of the table
keep the count that they had. Older files go to a folder beside it when their instants are archived.

Which expression fits a partition depends on Java's regular expressions. Readers do not decide it:
a key is in the bucket of one of the few counts, and they look at all of these. Writers would have
to, so they refuse such a table: by another count a key would be in it twice.

Source: RFC-89; `PartitionBucketIndexHashingConfig.java`, `RegexRuleEngine.java`.
"""

import contextlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hoodie import errors
from hoodie.model import instants
from hoodie.storage.protocol import Storage

DIRECTORY = ".hoodie/.bucket_index/partition_bucket_index_meta/configs"

_SUFFIX = ".hashing_config"
_KIND = ("REGEX", 1)
"""Rule and version that are known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HashingConfig:
    """The bucket counts of a table's partitions.

    Attributes:
        path: The file.
        expressions: As it is stored.
        counts: The default, and that of each expression; sorted, each once.
    """

    path: str
    expressions: str
    counts: tuple[int, ...]


def is_hashing_config(path: str) -> bool:
    """Return whether a file of a table is such a file."""
    folder, _, name = path.rpartition("/")
    return folder == DIRECTORY and name.endswith(_SUFFIX)


def listed(storage: Storage) -> list[str]:
    """Return the paths of all such files, in the order of their instants; one request."""
    return [each.path for each in storage.list(DIRECTORY) if is_hashing_config(each.path)]


def read(
    storage: Storage,
    paths: Sequence[str],
    is_committed: Callable[[instants.InstantTime], bool],
) -> tuple[HashingConfig, ...]:
    """Return what those files say that count, in the order of their instants; a request each.

    Args:
        storage: The table's.
        paths: The files.
        is_committed: Whether the replace commit of a requested time has completed.

    Raises:
        FormatError: One is damaged.
        UnsupportedError: One has other rules than are known.
    """
    found = []
    for path in sorted(paths):
        if is_committed(_instant(path)):
            # One that is gone was archived: a later one has been in force for a while.
            with contextlib.suppress(errors.NotFoundError):
                found.append(_decode(path, storage.read(path)))
    return tuple(found)


def check_none(storage: Storage) -> None:
    """Refuse to write a table that has bucket counts by partition, or is just given them.

    Raises:
        UnsupportedError: It has them.
    """
    found = listed(storage)
    if found:
        raise refusal(storage.uri, found[-1])


def refusal(table_uri: str, file: str = DIRECTORY) -> errors.UnsupportedError:
    """Return why a table with bucket counts by partition, which a file says, is not written."""
    return errors.UnsupportedError(
        f"{table_uri} has bucket counts by partition (RFC-89, {file}), expected one count for all "
        "partitions: hoodie reads such a table and does not write it. Write it with Apache Hudi"
    )


def delete(storage: Storage, requested_time: instants.InstantTime) -> None:
    """Delete the file of an instant that is taken back; nothing when it has none."""
    storage.delete(f"{DIRECTORY}/{requested_time}{_SUFFIX}")


def _instant(path: str) -> instants.InstantTime:
    # The first file of a table that was created with such counts has 14 zeros; no commit has them,
    # and they are older than all that were archived.
    return instants.InstantTime(path.rpartition("/")[2].removesuffix(_SUFFIX))


def _decode(path: str, content: bytes) -> HashingConfig:
    try:
        stored = json.loads(content)
        kind = (str(stored["rule"]).upper(), stored["version"])
        if kind != _KIND:
            raise errors.UnsupportedError(
                f"{path} has rule {kind[0]} of version {kind[1]}, expected {_KIND[0]} of {_KIND[1]}"
            )
        expressions = str(stored["expressions"])
        # As Java splits it: no regular expression with a comma or semicolon can be given.
        parts = [each.split(",") for each in expressions.split(";") if each.strip()]
        counts = {int(stored["defaultBucketNumber"]), *(int(count) for _, count in parts)}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise errors.FormatError(f"{path} is not a hashing config: {error!r}") from error
    if min(counts) < 1:
        raise errors.FormatError(f"{path} has a bucket count of {min(counts)}, expected 1 or more")
    return HashingConfig(path=path, expressions=expressions, counts=tuple(sorted(counts)))
