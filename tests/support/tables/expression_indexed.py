"""Tables with expression indexes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from hoodie.filegroup import metadata_merging, metadata_table
from hoodie.format import metadata_avro, metadata_schemas
from hoodie.format.metadata_avro import RecordType, Value
from hoodie.model import expression_indexes, partition_statistics, results
from hoodie.model.file_statistics import ColumnStatistics
from hoodie.storage.protocol import Storage
from hoodie.timeline import active, index_definitions
from hoodie.transaction import authors, manager
from support.tables.record_indexes import Indexed

LOWER = f"{expression_indexes.PREFIX}lower_b"
CALL = "lower(b)"


@dataclass(frozen=True, slots=True)
class Entries:
    """What an expression index has.

    Attributes:
        of_files: Of each data file, by its name.
        of_partitions: Of each partition of the data table, by its path.
    """

    of_files: Mapping[str, ColumnStatistics]
    of_partitions: Mapping[str, ColumnStatistics]

    def lacking(self, right: "Entries") -> list[str]:
        """Return of which files and partitions these are not as good as right ones."""
        wrong = [name for name, each in right.of_files.items() if self.of_files.get(name) != each]
        return wrong + [
            path
            for path, each in right.of_partitions.items()
            if path not in self.of_partitions
            or partition_statistics.excludes(self.of_partitions[path], each)
        ]


def entries(storage: Storage, name: str) -> Entries:
    """Return what an expression index of a table has."""
    table = metadata_table.MetadataTable(storage, active.listed(storage))
    merged = metadata_merging.merged(name, table.partition(name, is_held=False))
    of_files, of_partitions = {}, {}
    for row in merged.to_pylist():
        is_of_partition = metadata_avro.is_of_partition(row["key"])
        found = metadata_avro.decode_statistics(
            Value(row["value"], metadata_schemas.RECORD.text),
            name,
            RecordType.PARTITION_STATS if is_of_partition else RecordType.COLUMN_STATS,
        )
        assert found is not None
        (of_partitions if is_of_partition else of_files)[found.file_name] = found
    return Entries(of_files, of_partitions)


class ExpressionBuilding(Indexed):
    """A table whose expression index of `b` is built."""

    @property
    def service(self) -> manager.TransactionOptions:
        return replace(self.options().transaction, author=authors.Author())

    def build(
        self,
        hear: Callable[[str], object] = lambda what: None,
        call: str | None = CALL,
        name: str = LOWER,
    ) -> results.IndexResult:
        self.reopen()
        columns = {} if call is None else {name: call}
        return self.small.table.build_index([name], self.service, hear, secondary=columns)

    def drop(self, *names: str) -> tuple[str, ...]:
        self.reopen()
        return self.small.table.drop_index(names or (LOWER,), self.service)

    def entries(self, name: str = LOWER) -> Entries:
        return entries(self.storage, name)

    def rebuilt(self, call: str = CALL, name: str = LOWER) -> Entries:
        """Return what the index has once it is dropped and built again."""
        self.drop(name)
        self.build(call=call, name=name)
        return self.entries(name)

    def defined(self) -> dict[str, object]:
        content = index_definitions._read(self.storage)
        prefix = expression_indexes.PREFIX
        return {name: each for name, each in content.items() if name.startswith(prefix)}
