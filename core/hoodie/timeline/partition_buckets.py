"""Bucket counts by partition, which Apache Hudi's `partition_bucket_index_manager` gives a table.

    .hoodie/.bucket_index/partition_bucket_index_meta/configs/{instant}.hashing_config
        JSON: `expressions` ("regex,count;regex,count", the first that is found in the partition
        path counts), `defaultBucketNumber` for partitions that none is found in, `rule`, `version`

A table that is created with such counts has a file of 14 zeros, which counts from the beginning.
The procedure writes the file, rewrites every partition whose count changes, and completes a replace
commit with the file's instant. The file counts once that has completed; the properties of the table
keep the count that they had. Older files go to a folder beside it when their instants are archived.

Which expression fits a partition depends on Java's regular expressions. Readers do not decide it:
a key is in the bucket of one of the few counts, and they look at all of these. Writers do
(`format.java_patterns`): by another count a key would be in a partition twice. A write during which
the counts change is a conflict (`write.partition_indexes`).

Source: RFC-89; `PartitionBucketIndexHashingConfig.java`, `PartitionBucketIndexCalculator.java`.
"""

import contextlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hoodie import errors
from hoodie.format import java_patterns
from hoodie.model import instants
from hoodie.storage.protocol import Storage

DIRECTORY = ".hoodie/.bucket_index/partition_bucket_index_meta/configs"

_SUFFIX = ".hashing_config"
_INITIAL = "0" * 14
_KIND = ("REGEX", 1)
"""Rule and version that are known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HashingConfig:
    """The bucket counts of a table's partitions.

    Attributes:
        path: The file.
        expressions: As it is stored.
        rules: Each regular expression, and the count of the partitions in whose paths it is found,
            unless an earlier one is.
        default_count: That of other partitions.
    """

    path: str
    expressions: str
    rules: tuple[tuple[str, int], ...]
    default_count: int

    @property
    def counts(self) -> tuple[int, ...]:
        """All counts; sorted, each once."""
        return tuple(sorted({self.default_count, *(count for _, count in self.rules)}))

    def check(self) -> None:
        """Refuse expressions that may mean something else here than in Java.

        Raises:
            UnsupportedError: There is one.
            FormatError: One is no regular expression.
        """
        for pattern, _ in self.rules:
            java_patterns.compiled(pattern)

    def count_of(self, partition_path: str) -> int:
        """Return the bucket count of a partition.

        Raises:
            UnsupportedError, FormatError: As `check`.
        """
        for pattern, count in self.rules:
            if java_patterns.compiled(pattern).search(partition_path):
                return count
        return self.default_count


def declared(expressions: str, default_count: int) -> HashingConfig:
    """Return the bucket counts by partition that a user declares for a table.

    Args:
        expressions: As `regex,count;regex,count`.
        default_count: The count of other partitions.

    Raises:
        InvalidInputError: They are malformed.
        UnsupportedError: An expression may mean something else in Java.
    """
    path = f"{DIRECTORY}/{_INITIAL}{_SUFFIX}"
    try:
        rules = _rules(expressions)
        found = HashingConfig(
            path=path, expressions=expressions, rules=rules, default_count=default_count
        )
        found.check()
    except (ValueError, errors.FormatError) as error:
        raise errors.InvalidInputError(
            f"bucket counts by partition {expressions!r:.200}: expected REGEX,COUNT;REGEX,COUNT "
            f"with regular expressions of Java ({error})"
        ) from error
    if not rules or min(found.counts) < 1:
        raise errors.InvalidInputError(
            f"bucket counts by partition {expressions!r:.200}: expected one at least, and counts "
            "of 1 or more"
        )
    return found


def create(storage: Storage, config: HashingConfig) -> None:
    """Create the file of declared counts; nothing where it is there with the same content.

    Raises:
        ConflictError: It is there with another one.
    """
    content = json.dumps(
        {
            "expressions": config.expressions,
            "defaultBucketNumber": config.default_count,
            "rule": _KIND[0].lower(),
            "version": _KIND[1],
            "instant": _INITIAL,
        },
        indent=2,
    ).encode()
    try:
        storage.create(config.path, content)
    except errors.AlreadyExistsError:
        stored = _decode(config.path, storage.read(config.path))
        if stored != config:
            raise errors.ConflictError(
                f"{config.path} of {storage.uri} says {stored.expressions} and "
                f"{stored.default_count} else, not {config.expressions} and {config.default_count}"
            ) from None


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
        if _counts(path, is_committed):
            # One that is gone was archived: a later one has been in force for a while.
            with contextlib.suppress(errors.NotFoundError):
                found.append(_decode(path, storage.read(path)))
    return tuple(found)


def in_force(
    storage: Storage, is_committed: Callable[[instants.InstantTime], bool]
) -> HashingConfig | None:
    """Return the bucket counts that a table has; None for one count of all partitions. A list.

    Args:
        storage: The table's.
        is_committed: Whether the replace commit of a requested time has completed.

    Raises:
        ConflictError: It is being given others: what is written meanwhile may be lost, since the
            procedure looks at no other writes.
        FormatError, UnsupportedError: As `read`.
    """
    paths = listed(storage)
    pending = [each for each in paths if not _counts(each, is_committed)]
    if pending:
        raise errors.ConflictError(
            f"{storage.uri} is being given bucket counts by partition (RFC-89, {pending[-1]}): "
            "write again once its replace commit has ended; `hoodie rollback` rolls back one whose "
            "process has died"
        )
    found = read(storage, paths, is_committed)
    return found[-1] if found else None


def check_none(storage: Storage) -> None:
    """Refuse to make a table exclusive that has bucket counts by partition, or is given them.

    Raises:
        UnsupportedError: It has them.
    """
    found = listed(storage)
    if found:
        raise errors.UnsupportedError(
            f"{storage.uri} has bucket counts by partition (RFC-89, {found[-1]}), expected one "
            "count for all partitions in a table that hoodie alone writes: Apache Hudi changes them"
        )


def delete(storage: Storage, requested_time: instants.InstantTime) -> None:
    """Delete the file of an instant that is taken back; nothing when it has none."""
    storage.delete(f"{DIRECTORY}/{requested_time}{_SUFFIX}")


def _counts(path: str, is_committed: Callable[[instants.InstantTime], bool]) -> bool:
    instant = path.rpartition("/")[2].removesuffix(_SUFFIX)
    return instant == _INITIAL or is_committed(instants.InstantTime(instant))


def _rules(expressions: str) -> tuple[tuple[str, int], ...]:
    # As Java splits it: no regular expression with a comma or semicolon can be given.
    parts = [each.split(",") for each in expressions.split(";") if each.strip()]
    return tuple((pattern.strip(), int(count)) for pattern, count in parts)


def _decode(path: str, content: bytes) -> HashingConfig:
    try:
        stored = json.loads(content)
        kind = (str(stored["rule"]).upper(), stored["version"])
        if kind != _KIND:
            raise errors.UnsupportedError(
                f"{path} has rule {kind[0]} of version {kind[1]}, expected {_KIND[0]} of {_KIND[1]}"
            )
        expressions = str(stored["expressions"])
        rules = _rules(expressions)
        default_count = int(stored["defaultBucketNumber"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise errors.FormatError(f"{path} is not a hashing config: {error!r}") from error
    found = HashingConfig(
        path=path, expressions=expressions, rules=rules, default_count=default_count
    )
    if min(found.counts) < 1:
        raise errors.FormatError(
            f"{path} has a bucket count of {min(found.counts)}, expected 1 or more"
        )
    return found
