"""Opening and creating tables, as people do: texts and Arrow in, a `Table` out.

`table.open_table` and `table.create_table` are the same for programs that have an environment and
a configuration already.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Protocol, TypeVar, runtime_checkable

from hoodie import deferred, environment, errors, guesses, table
from hoodie.model import change_data as change_logs
from hoodie.model import schemas, table_config

with deferred.imports():
    from hoodie.door import columns, writers
    from hoodie.services import new_tables

Choice = TypeVar("Choice")
Value = TypeVar("Value")

_TYPES = {
    "mor": table_config.TableType.MERGE_ON_READ,
    "cow": table_config.TableType.COPY_ON_WRITE,
}
_CHANGE_DATA = {each.name.lower().replace("_", "-"): each for each in change_logs.LoggingMode}


@runtime_checkable
class FilePath(Protocol):
    """A path of the file system, as `pathlib` has them."""

    def __fspath__(self) -> str:
        """Return it as a text."""
        ...


TableTypeName = Literal["mor", "cow"]
IndexName = Literal[
    "bucket", "consistent-hashing", "simple", "bloom", "global-simple", "global-bloom"
]
ChangeDataName = Literal["op-key-only", "data-before", "data-before-after"]
ConcurrencyName = Literal["single-writer", "occ", "nbcc"]


@guesses.of_arguments()
def open_table(
    uri: str | FilePath,
    storage_options: Mapping[str, str] | None = None,
    *,
    writer_id: str | None = None,
    concurrency: ConcurrencyName | None = None,
    lock: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> table.Table:
    """Open a table; two requests.

    Args:
        uri: A folder, or a URI such as `s3://lake/trips`.
        storage_options: Credentials and endpoint of an object store, such as `aws_region`; what
            they leave open is taken from the environment (`AWS_*`, `GOOGLE_*`, `AZURE_*`).
        writer_id: What your writes are known by, unique among the table's writers.
        concurrency: `single-writer`, or with several writers `occ` or `nbcc`; the same for all of
            them.
        lock: The table's lock, the same for everything that writes the table, as `--lock` of the
            command line takes it; None for a lock file in a folder, and a lease in a bucket.
        settings: Of writes, by Hudi's keys, such as `hoodie.parquet.compression.codec`.

    Raises:
        NotFoundError: There is no table.
        InvalidInputError: The URI, or another argument, is malformed.
        UnsupportedError: No storage has the URI's scheme; or the table is of a version, or merges
            in a way, that is not read.
        ConfigurationError: Settings contradict each other.
    """
    place = _place(uri)
    env = environment.system(storage_options=storage_options)
    if all(each is None for each in (writer_id, concurrency, lock, settings)):
        return table.open_table(place, env)
    writer = writers.writer_of(
        place,
        env.random,
        writer_id=writer_id,
        concurrency=concurrency,
        lock=lock,
        options=settings,
    )
    return table.open_table(place, env, writer)


@guesses.of_arguments("record_key names the columns that identify a row")
def create_table(  # noqa: PLR0913 - a parameter an option
    uri: str | FilePath,
    schema: object,
    record_key: str | Sequence[str],
    *,
    partition_by: str | Sequence[str] = (),
    ordering: str | None = None,
    table_type: TableTypeName = "mor",
    index: IndexName = "bucket",
    buckets: int | None = None,
    keep_partitions: bool = False,
    partial_updates: bool = False,
    hive_style: bool = False,
    url_encode: bool = False,
    drop_partition_columns: bool = False,
    change_data: ChangeDataName | None = None,
    foreign_writers: bool = True,
    version: Literal[9, 8] = 9,
    name: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    writer_id: str | None = None,
    concurrency: ConcurrencyName | None = None,
    lock: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> table.Table:
    """Create an empty table, and open it.

    Args:
        uri: Where: a folder, or a URI such as `s3://lake/trips`.
        schema: A `pyarrow.Schema`, a dict of names and types of Arrow, or data that has a schema,
            such as a data frame. Times in nanoseconds become microseconds, categories their values.
        record_key: The columns that identify a row; none, with the index simple or bloom, for rows
            whose keys are generated, and which are changed by filters alone.
        partition_by: Partition columns.
        ordering: The column of whose values the greater one wins among rows of one key (event
            time); None for the row that was committed later.
        table_type: `mor` (merge-on-read) for frequent updates and many writers, `cow`
            (copy-on-write) for fast reads.
        index: How writers find rows (docs/indexes.md).
        buckets: Of each partition, with a bucket index; 8 if None. It never changes.
        keep_partitions: With a global index: a row whose partition changes is updated where it is.
        partial_updates: Whether null, and a column that is not given, change nothing.
        hive_style: Whether partition folders are named `column=value`.
        url_encode: Whether values are percent-encoded in the names of partition folders.
        drop_partition_columns: Whether partition values are in the names of folders alone.
        change_data: What writes store of what they changed.
        foreign_writers: Whether other engines may write the table; commits of a table that they
            may not write wait for no clock, and are right without a lock, too.
        version: Of Hudi's table format.
        name: The table's; None for the last part of the URI.
        storage_options: As of `open_table`.
        writer_id: As of `open_table`.
        concurrency: As of `open_table`.
        lock: As of `open_table`.
        settings: As of `open_table`.

    Raises:
        AlreadyExistsError: There is a table, or one above or below that place.
        InvalidInputError: A column is not in the schema, or of a type that makes no key or path; or
            an argument is malformed.
        UnsupportedError: A column's type has no form in a table.
        ConfigurationError: Arguments contradict each other.
    """
    place = _place(uri)
    env = environment.system(storage_options=storage_options)
    writer = writers.writer_of(
        place,
        env.random,
        writer_id=writer_id,
        concurrency=concurrency,
        lock=lock,
        options=settings,
    )
    table_name = name or new_tables.name_of(place)
    fields = schemas.from_arrow(columns.schema_of(schema), table_name)
    indexes = {new_tables.spelled(each): each for each in table_config.IndexKind}
    wish = new_tables.Wish(
        name=table_name,
        table_type=_one_of("table_type", str(table_type), _TYPES),
        version=_one_of("version", int(version), {9: 9, 8: 8}),
        record_key=_names("record_key", record_key),
        partition_by=_names("partition_by", partition_by),
        ordering=() if ordering is None else _names("ordering", ordering),
        index=_one_of("index", str(index), indexes),
        keeps_partitions=keep_partitions,
        buckets=buckets,
        has_partial_updates=partial_updates,
        is_hive_style=hive_style,
        is_url_encoded=url_encode,
        drops_partition_columns=drop_partition_columns,
        change_data=(
            None if change_data is None else _one_of("change_data", str(change_data), _CHANGE_DATA)
        ),
        chain=table_config.ChainName(id=env.random.uuid()),
        has_foreign_writers=foreign_writers,
    )
    config = new_tables.new_table(wish, fields, str)
    created = table.create_table(place, config, fields, env)
    return table.open_table(created.uri, env, writer)


def _place(uri: object) -> str:
    found = uri.__fspath__() if isinstance(uri, FilePath) else uri
    if not isinstance(found, str):
        raise errors.InvalidInputError(
            f"the table's URI is of type {type(found).__name__}, expected a text or a path"
        )
    return found


def _names(parameter: str, given: object) -> tuple[str, ...]:
    if given is None:
        return ()
    if not isinstance(given, str | Iterable):
        raise errors.InvalidInputError(
            f"{parameter} is of type {type(given).__name__}, expected names of columns"
        )
    found = (given,) if isinstance(given, str) else tuple(given)
    for each in found:
        if not isinstance(each, str):
            raise errors.InvalidInputError(
                f"{parameter} has a {type(each).__name__}, expected names of columns"
            )
        if found.count(each) > 1:
            raise errors.InvalidInputError(f"{parameter}: {each!r} is given twice")
    return found


def _one_of(parameter: str, given: Choice, known: Mapping[Choice, Value]) -> Value:
    if given not in known:
        raise errors.InvalidInputError(
            f"{parameter} is {given!r}, expected one of {', '.join(map(repr, known))}"
        )
    return known[given]
