"""Base files as Iceberg names them: columns, partition values and statistics of their footers.

Data files of Hudi tables have no field ids: a mirror maps names to them. Meta columns, and others
that files have and the table has not, are none of its columns; they have ids in the mapping all the
same, since PyIceberg refuses files with a column that is not there.

The value of a partition column is what the footer says that all rows of the file have: a partition
path cannot tell an empty text from a null, nor a time from the text that is made of it. The path
counts where files lack the column.

Columns of floats have no bounds: those of parquet leave out NaN, which some engines take for the
greatest number, and which then would be missing in what a filter finds.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyarrow import parquet as pq
from pyiceberg import schema as iceberg_schema
from pyiceberg import types
from pyiceberg.exceptions import ResolveError, ValidationError
from pyiceberg.io import pyarrow as iceberg_arrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionSpec, partition_record_value
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.name_mapping import MappedField, NameMapping
from pyiceberg.typedef import Record

from hoodie import errors
from hoodie.model import files, partition_columns, table_config
from hoodie.storage import protocol

_FIELD_ID = b"PARQUET:field_id"
_NO_FIELD = -1
_FIRST_OF_OTHERS = 2_000_000_000
"""Ids of names that are no columns: above those of columns, below those that Iceberg reserves."""

_COUNTS = iceberg_arrow.MetricsMode(iceberg_arrow.MetricModeTypes.COUNTS)
_NOTHING = iceberg_arrow.StatisticsCollector(
    field_id=_NO_FIELD,
    iceberg_type=types.StringType(),
    mode=iceberg_arrow.MetricsMode(iceberg_arrow.MetricModeTypes.NONE),
    column_name="",
)
_COUNTED_ONLY = (types.FloatType, types.DoubleType)


@dataclass(frozen=True, slots=True)
class Footer:
    """What the footer of a base file says.

    Attributes:
        file: The base file.
        metadata: Its footer.
    """

    file: files.BaseFile
    metadata: pq.FileMetaData


def read_footer(storage: protocol.Storage, base_file: files.BaseFile) -> Footer:
    """Return the footer of a base file; some requests.

    Raises:
        FormatError: The file is broken.
    """
    try:
        with storage.open_input(base_file.path, is_mapped=False) as source:
            return Footer(base_file, pq.read_metadata(source))
    except pa.ArrowInvalid as error:
        raise errors.FormatError(f"{base_file.path} has no readable footer: {error}") from error


def schema_of(columns: pa.Schema, table: str) -> iceberg_schema.Schema:
    """Return a table's columns as Iceberg has them, with the ids of a new table; all may be null.

    Args:
        columns: The table's, without meta columns.
        table: Its name, for people.

    Raises:
        UnsupportedError: Iceberg has no such type.
    """
    found = _numbered([each.with_nullable(True) for each in columns], table, 0)
    # As a new table gives them, which numbers nested fields last.
    return iceberg_schema.assign_fresh_schema_ids(found)


def _numbered(columns: Iterable[pa.Field], table: str, last: int) -> iceberg_schema.Schema:
    numbered = pa.schema(_Numbers(last).fields(columns))
    for each in numbered:
        try:
            iceberg_arrow.pyarrow_to_schema(pa.schema([each]))
        except (TypeError, ValueError) as error:
            raise errors.UnsupportedError(
                f"column {each.name!r} of table {table!r} is {each.type}, which Iceberg has not: "
                f"{error}; leave the column out of the table, or read the table as Hudi"
            ) from error
    return iceberg_arrow.pyarrow_to_schema(numbered)


class _Numbers:
    """Gives fields ids."""

    def __init__(self, last: int) -> None:
        self._last = last

    def fields(self, found: Iterable[pa.Field]) -> list[pa.Field]:
        """Return fields with ids, those of nested types as well."""
        return [self._field(each) for each in found]

    def _field(self, field: pa.Field) -> pa.Field:
        self._last += 1
        metadata = {_FIELD_ID: str(self._last).encode()}
        return field.with_type(self._type(field.type)).with_metadata(metadata)

    def _type(self, kind: pa.DataType) -> pa.DataType:
        if pa.types.is_struct(kind):
            return pa.struct(self.fields(kind))
        if pa.types.is_map(kind):
            key, item = self.fields((kind.key_field, kind.item_field))
            return pa.map_(key, item)
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            (element,) = self.fields((kind.value_field.with_name("element"),))
            return pa.list_(element)
        return kind


def naming_all(mapping: NameMapping, footers: Iterable[Footer], table: str) -> NameMapping | None:
    """Return a mapping with the names of all columns of files; None if it has them all.

    Raises:
        UnsupportedError: Iceberg has not the type of one.
    """
    known = {name for each in mapping for name in each.names}
    others = {
        each.name: each
        for footer in footers
        for each in footer.metadata.schema.to_arrow_schema()
        if each.name not in known
    }
    if not others:
        return None
    last = max([_FIRST_OF_OTHERS, *_ids(mapping)])
    return NameMapping([*mapping, *_numbered(others.values(), table, last).name_mapping])


def _ids(mapped: Iterable[MappedField]) -> Iterator[int]:
    for each in mapped:
        if each.field_id is not None:
            yield each.field_id
        yield from _ids(each.fields)


def is_same(one: iceberg_schema.Schema, other: iceberg_schema.Schema) -> bool:
    """Return whether two schemas have the same columns, whatever their ids and order."""
    arrows = [
        iceberg_arrow.schema_to_pyarrow(each, include_field_ids=False) for each in (one, other)
    ]
    by_name = [{each.name: each for each in arrow} for arrow in arrows]
    return by_name[0] == by_name[1]


def data_file(
    storage: protocol.Storage, footer: Footer, metadata: TableMetadata, values: Record
) -> DataFile:
    """Return a base file as a mirror names it.

    Args:
        storage: The table's.
        footer: Its footer.
        metadata: The mirror's, with the columns and the partitioning that it has from now on.
        values: Of its partition, as of `partition`.

    Raises:
        UnsupportedError: A column of the file cannot be read as the table's by rules of Iceberg.
    """
    schema = metadata.schema()
    _check_types(storage, footer, schema)
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{storage.uri}/{footer.file.path}",
        file_format=FileFormat.PARQUET,
        partition=values,
        file_size_in_bytes=footer.file.size_bytes,
        sort_order_id=None,
        spec_id=metadata.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **_statistics(footer, schema, metadata.properties),
    )


def _statistics(
    footer: Footer, schema: iceberg_schema.Schema, properties: dict[str, str]
) -> dict[str, Any]:
    wanted: dict[int, Any] = defaultdict(lambda: _NOTHING)
    for field_id, each in iceberg_arrow.compute_statistics_plan(schema, properties).items():
        is_counted = isinstance(each.iceberg_type, _COUNTED_ONLY)
        wanted[field_id] = replace(each, mode=_COUNTS) if is_counted else each
    ids: dict[str, int] = defaultdict(lambda: _NO_FIELD)
    unknown = set(_without_statistics(footer.metadata))
    paths = iceberg_arrow.parquet_path_to_id_mapping(schema)
    ids.update({path: field_id for path, field_id in paths.items() if path not in unknown})
    try:
        found = iceberg_arrow.data_file_statistics_from_parquet_metadata(
            footer.metadata, wanted, ids
        )
        stated = found.to_serialized_dict()
    except ValueError:
        # A column is stored in another form than its type has in files of Iceberg.
        wanted = {key: replace(each, mode=_COUNTS) for key, each in wanted.items()}
        wanted = defaultdict(lambda: _NOTHING, wanted)
        stated = iceberg_arrow.data_file_statistics_from_parquet_metadata(
            footer.metadata, wanted, ids
        ).to_serialized_dict()
    for each in stated.values():
        if isinstance(each, dict):
            each.pop(_NO_FIELD, None)
    return dict(stated)


def _without_statistics(metadata: pq.FileMetaData) -> Iterator[str]:
    """Yield the paths of columns of which a row group has no statistics."""
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        for position in range(metadata.num_columns):
            chunk = group.column(position)
            if not chunk.is_stats_set:
                yield chunk.path_in_schema


def _check_types(storage: protocol.Storage, footer: Footer, schema: iceberg_schema.Schema) -> None:
    """Refuse a file of which engines would not read a column.

    Raises:
        UnsupportedError: Its type is none that Iceberg promotes to the table's.
    """
    names = {each.name for each in schema.fields}
    there = [each for each in footer.metadata.schema.to_arrow_schema() if each.name in names]
    try:
        found = iceberg_arrow.pyarrow_to_schema(pa.schema(there), name_mapping=schema.name_mapping)
        for each in found.fields:
            _promote(found, schema, each.field_id)
    except (TypeError, ValueError, ResolveError) as error:
        raise errors.UnsupportedError(
            f"{footer.file.path} in {storage.uri} cannot be read through a mirror: {error}. "
            "Iceberg reads a file by wider types only as int to long, float to double, and "
            "decimals of a greater precision: expected files that were written since the column "
            "changed; cluster or overwrite the file groups that are older"
        ) from error


def _promote(found: iceberg_schema.Schema, schema: iceberg_schema.Schema, field_id: int) -> None:
    stored, wanted = found.find_type(field_id), schema.find_type(field_id)
    if stored.is_primitive or wanted.is_primitive:
        if stored != wanted:
            iceberg_schema.promote(stored, wanted)
        return
    for each in getattr(stored, "fields", ()):
        _promote(found, schema, each.field_id)


def partition(
    footer: Footer,
    spec: PartitionSpec,
    schema: iceberg_schema.Schema,
    of_path: Mapping[str, pa.Scalar],
) -> tuple[Record, tuple[str, ...]]:
    """Return the values of a file's partition, and the fields of which it has not one value.

    Args:
        footer: The file's footer.
        spec: The mirror's partitioning: columns as they are.
        schema: Its columns.
        of_path: Values of columns that count in paths alone.

    Raises:
        UnsupportedError: The file has such a column, with other values.
    """
    found: list[Any] = []
    several: list[str] = []
    for each in spec.fields:
        name = schema.find_column_name(each.source_id)
        assert name is not None, each
        value, is_one = _one_value(footer.metadata, name)
        if name in of_path:
            stored = (value, is_one) if name in footer.metadata.schema.names else None
            value, is_one = of_path[name].as_py(), True
            if stored not in {None, (value, True)}:
                raise errors.UnsupportedError(
                    f"{footer.file.path} has other values in column {name!r} than its path, which "
                    "counts: engines would read those of the file, so that the table cannot be "
                    "mirrored until the file is rewritten"
                )
        if not is_one:
            several.append(name)
        found.append(None if value is None else partition_record_value(each, value, schema))
    return Record(*found), tuple(several)


def _one_value(metadata: pq.FileMetaData, name: str) -> tuple[Any, bool]:
    """Return the value that all rows of a column have, and whether they have one."""
    position = metadata.schema.names.index(name) if name in metadata.schema.names else None
    if position is None:
        return None, True  # A column that the file lacks is null in it.
    seen: set[Any] = set()
    for index in range(metadata.num_row_groups):
        chunk = metadata.row_group(index).column(position)
        if chunk.path_in_schema != name or not chunk.is_stats_set:
            return None, False
        statistics = chunk.statistics
        if not statistics.has_null_count:
            return None, False
        if statistics.null_count:
            seen.add(None)
        if statistics.null_count < chunk.num_values:
            if not statistics.has_min_max:
                return None, False
            seen |= {statistics.min, statistics.max}
    return (next(iter(seen)), True) if len(seen) == 1 else (None, not seen)


def identity_columns(
    config: table_config.TableConfig, columns: pa.Schema, known: Collection[str]
) -> tuple[str, ...]:
    """Return the columns by whose values a mirror is partitioned, as far as it can be known.

    Args:
        config: The table's configuration.
        columns: The table's.
        known: Names of partition fields whose values are in paths.
    """
    return tuple(
        name
        for name in config.partition_fields
        if name in known and name in columns.names and _has_identity(columns.field(name).type)
    )


def _has_identity(kind: pa.DataType) -> bool:
    """Return whether values of a type are told apart by bounds: floats have NaN and two zeros."""
    return partition_columns.has_one_text(kind) or pa.types.is_decimal(kind)


INCOMPATIBLE = (ResolveError, ValidationError, ValueError)
"""What PyIceberg raises where a column cannot become what it has to be."""
