"""Writes that replace file groups, by Apache Hudi's names.

    insert_overwrite        those of the partitions that its rows are of, or of those it is given
    insert_overwrite_table  all
    delete_partition        those of the partitions that it is given; it writes nothing

Rows become base files of new file groups. Retired are the file groups that were there when the
write began: one that was written to since is a conflict (`write.conflicts`), one that is new since
stays, with its rows, as with Apache Hudi. Of two writes that replace file groups of one partition
the first wins. Non-blocking writers find no conflicts, so that they replace nothing.

The files stay until a clean. So do their statistics in the metadata table; the record index learns
which keys are gone. Source: `SparkInsertOverwriteCommitActionExecutor.java` and those beside it;
protocol.md: Conflicts of optimistic writers; T-O12, T-O13 and N15 of concurrency control.
"""

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from hoodie import deferred, errors
from hoodie.engine import ahead
from hoodie.filegroup import snapshots
from hoodie.model import commits, files, schemas, settings, table_config
from hoodie.storage import protocol
from hoodie.timeline import active

with deferred.imports():
    from hoodie.filegroup import reading

_GIVEN = (commits.Operation.INSERT_OVERWRITE, commits.Operation.DELETE_PARTITION)
_NAMED_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """What a write replaces.

    Attributes:
        operation: One that replaces file groups.
        partitions: The paths that it is given; none for those of its rows.
    """

    operation: commits.Operation
    partitions: frozenset[str] = frozenset()

    @property
    def is_whole(self) -> bool:
        """Whether it is of the whole table."""
        return self.operation is commits.Operation.INSERT_OVERWRITE_TABLE

    def check_rows(self, paths: Collection[str]) -> None:
        """Refuse rows of other partitions than those that the write is given.

        Raises:
            InvalidInputError: There are some.
        """
        others = sorted(set(paths) - self.partitions) if self.partitions else []
        if others:
            raise errors.InvalidInputError(
                f"rows are of {_names(others)}, expected rows of the partitions to be replaced "
                f"alone: {_names(sorted(self.partitions))}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """What a write replaced.

    Attributes:
        slices: The newest ones of the file groups that it retires, as the write began.
        partitions: Those whose file groups it replaces; None for all.
    """

    slices: Sequence[files.FileSlice] = ()
    partitions: frozenset[str] | None = field(default_factory=frozenset)

    @property
    def groups(self) -> frozenset[files.FileGroupId]:
        """The file groups that are retired."""
        return frozenset(each.group for each in self.slices)

    def overlap(self, partitions: Collection[str]) -> str | None:
        """Return what it has in common with another that replaced file groups of partitions."""
        both = partitions if self.partitions is None else self.partitions.intersection(partitions)
        return f"replaced file groups of {_names(sorted(both))}" if both else None


NOTHING = Replaced()


def of(operation: commits.Operation, partitions: Collection[str]) -> Replacement | None:
    """Return what an operation replaces; None for one that replaces nothing.

    Raises:
        InvalidInputError: It takes no partitions, or lacks them.
    """
    name = operation.value.lower()
    if partitions and operation not in _GIVEN:
        raise errors.InvalidInputError(
            f"the operation {name} is given {_names(sorted(partitions))}, expected one of "
            f"{', '.join(each.value.lower() for each in _GIVEN)}"
        )
    if operation is commits.Operation.DELETE_PARTITION and not partitions:
        raise errors.InvalidInputError(f"the operation {name} is given no partitions")
    if not operation.replaces:
        return None
    return Replacement(operation=operation, partitions=frozenset(partitions))


def check_mode(operation: commits.Operation, mode: settings.ConcurrencyMode) -> None:
    """Refuse a non-blocking writer.

    Raises:
        ConfigurationError: It is one.
    """
    if mode is settings.ConcurrencyMode.NON_BLOCKING:
        raise errors.ConfigurationError(
            f"{operation.value.lower()} is refused in mode {mode.value}: what others write "
            "meanwhile to the file groups that it retires would be lost. Expected a single or an "
            "optimistic writer while no others are active"
        )


def check_index(operation: commits.Operation, config: table_config.TableConfig) -> None:
    """Refuse a table with consistent hashing: its rings keep the file groups that are retired.

    Measured on 1.2.0: what Apache Hudi writes after an insert_overwrite of its own is not seen.

    Raises:
        UnsupportedError: It is one.
    """
    if config.index is table_config.IndexKind.CONSISTENT_HASHING:
        raise errors.UnsupportedError(
            f"{operation.value.lower()} of table {config.name!r}, which has consistent hashing: "
            "what is written later to the file groups that it retires would not be seen. Expected "
            "an upsert, or a delete of records"
        )


def replaced(
    replacement: Replacement,
    storage: protocol.Storage,
    config: table_config.TableConfig,
    begun_on: active.ActiveTimeline,
    stats: Iterable[commits.WriteStat],
) -> Replaced:
    """Return what a write replaces, after its data files were written; lists the partitions.

    Args:
        replacement: What it is to replace.
        storage: The table's.
        config: The table's configuration.
        begun_on: The timeline as the write began.
        stats: What it wrote.

    Raises:
        InvalidInputError: As `Replacement.check_rows`.
        NotFoundError: A partition that is to be deleted is not there.
    """
    written = {each.partition_path for each in stats}
    replacement.check_rows(written)
    view = snapshots.take(storage, config, begun_on, has_committed_only=True).view
    paths: Collection[str] = written
    if replacement.is_whole:
        paths = view.partitions()
    elif replacement.partitions:
        # What is given is no path to look at before it is known to be one of the table's.
        paths = replacement.partitions.intersection(view.partitions())
    found = {path: view.latest_slices(path) for path in sorted(paths)}
    if replacement.operation is commits.Operation.DELETE_PARTITION:
        _check_found(storage, replacement.partitions, found, view.partitions())
    return Replaced(
        slices=[each for slices in found.values() for each in slices],
        partitions=None if replacement.is_whole else replacement.partitions or frozenset(paths),
    )


def _check_found(
    storage: protocol.Storage,
    wanted: Collection[str],
    found: Mapping[str, Sequence[files.FileSlice]],
    there: Collection[str],
) -> None:
    missing = [path for path in sorted(wanted) if not found.get(path)]
    if missing:
        # One whose rows were deleted is still there.
        others = sorted(set(there).difference(missing))
        similar = difflib.get_close_matches(missing[0], others, n=_NAMED_MAX)
        hint = f"; similar: {_names(similar)}" if similar else ""
        raise errors.NotFoundError(f"{storage.uri} has no rows in {_names(missing)}{hint}")


def keys_of(
    storage: protocol.Storage,
    config: table_config.TableConfig,
    schema: schemas.TableSchema,
    retired: Collection[files.FileGroupId],
    threads: int,
) -> Mapping[files.FileGroupId, pa.Array]:
    """Return the record keys in file groups that are retired; reads the newest slice of each.

    Raises:
        WriteConflictError: A file was cleaned meanwhile.
        FormatError: A file is broken.
    """

    def read(snapshot: snapshots.Snapshot) -> Mapping[files.FileGroupId, pa.Array]:
        reader = reading.SliceReader(storage, config, schema, snapshot.committed.is_committed)
        slices = [
            each
            for path in sorted({group.partition_path for group in retired})
            for each in snapshot.view.latest_slices(path)
            if each.group in retired
        ]

        def keys(each: files.FileSlice) -> pa.Array:
            found = reader.read(each, [schemas.RECORD_KEY]).column(schemas.RECORD_KEY)
            return found.combine_chunks().cast(pa.string())

        groups = [each.group for each in slices]
        return dict(zip(groups, ahead.results(keys, slices, threads), strict=True))

    try:
        return snapshots.consistent(storage, config, read)
    except errors.NotFoundError as error:
        raise errors.WriteConflictError(
            f"{storage.uri} was cleaned while keys of retired file groups were read: write the "
            f"batch again; {error}"
        ) from error


def _names(paths: Sequence[str]) -> str:
    named = ", ".join(path or "." for path in paths[:_NAMED_MAX])
    rest = len(paths) - _NAMED_MAX
    noun = "partition" if len(paths) == 1 else "partitions"
    return f"{noun} {named}" + (f" and {rest} more" if rest > 0 else "")
