"""Tables with secondary indexes."""

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa

from hoodie.filegroup import metadata_table, secondary_index
from hoodie.format import secondary_keys
from hoodie.metadata import partition_making
from hoodie.model import instants, results, secondary_indexes, table_config
from hoodie.timeline import active, index_definitions, metadata_timelines, table_properties
from hoodie.transaction import authors, configuration, manager, table_lock
from hoodie.transaction.client import Client
from support.tables.record_indexes import Indexed
from support.tables.tables import CONFIG

_TIMES = metadata_timelines.FIRST_TIMES[-3:-1]

PREFIX = secondary_indexes.PREFIX
OF_B = f"{PREFIX}of_b"
COLUMNS = {f"{PREFIX}of_a": "a", f"{PREFIX}of_b": "b"}


def add(
    client: Client,
    definition: secondary_indexes.Definition,
    time: instants.InstantTime,
    count: int = 3,
) -> None:
    """Add an index to the metadata table of a table that has no rows."""
    beside = metadata_timelines.opened(client.storage)
    name = definition.partition

    def decide(scope: table_lock.LockScope) -> None:
        config = table_properties.load(client.storage, client.clock)
        content = partition_making.Content([None] * count)
        published = partition_making.make(client, scope, beside, time, name, content)
        index_definitions.put_of_columns(client.storage, lambda: [definition])
        names = ",".join(sorted((*config.metadata_partitions, name)))
        changes = {
            table_config.METADATA_PARTITIONS_KEY: names,
            table_config.INDEX_DEFINITIONS_PATH_KEY: index_definitions.PATH,
        }
        configuration.put(client, scope, changes, published)

    client.lock.decide(decide)


class SecondaryIndexed(Indexed):
    """A table with a record index and secondary indexes of its columns `a` and `b`."""

    def __init__(
        self,
        path: Path,
        config: table_config.TableConfig = CONFIG,
        columns: Mapping[str, str] = COLUMNS,
        types: Mapping[str, str | pa.DataType] = MappingProxyType({}),
    ) -> None:
        super().__init__(path, config, **types)
        self.definitions = [
            secondary_indexes.Definition(
                partition=name,
                column=column,
                is_hashed_by_value=config.version > table_config.VERSION_WITH_PAYLOADS,
            )
            for name, column in columns.items()
        ]
        for each, time in zip(self.definitions, _TIMES, strict=False):
            self.reopen()
            target = manager.Target(
                storage=self.storage, config=self.config, schema=self.small.table.schema
            )
            options = self.options().transaction
            with closing(manager.open_client(target, options, self.small.env)) as client:
                add(client, each, time)
        self.reopen()

    def pairs(self) -> dict[str, set[str]]:
        """Return what the indexes have, by the columns that they are of."""
        table = metadata_table.MetadataTable(self.storage, active.listed(self.storage))
        return {
            each.column: set(secondary_index.pairs(table, each).to_pylist())
            for each in self.definitions
        }

    def pairs_of_rows(self) -> dict[str, set[str]]:
        """Return what they should have."""
        self.reopen()
        found = {}
        for each in self.definitions:
            columns = ["_hoodie_record_key", each.column]
            rows = self.small.table.read(columns=columns).read_all()
            found[each.column] = set(secondary_keys.of_rows(each.column, rows).to_pylist())
        return found


class PairsBuilding(Indexed):
    """A table with a record index, whose secondary index of `b` is built."""

    @property
    def service(self) -> manager.TransactionOptions:
        return replace(self.options().transaction, author=authors.Author())

    def build(
        self,
        hear: Callable[[str], object] = lambda what: None,
        column: str | None = "b",
        name: str = OF_B,
    ) -> results.IndexResult:
        self.reopen()
        columns = {} if column is None else {name: column}
        return self.small.table.build_index([name], self.service, hear, secondary=columns)

    def drop(self, *names: str) -> tuple[str, ...]:
        self.reopen()
        return self.small.table.drop_index(names or (OF_B,), self.service)

    def pairs(self) -> set[str]:
        config = self.config
        (definition,) = index_definitions.of_secondary_indexes(
            self.storage, config, config.metadata_partitions_kept_up
        )
        beside = metadata_table.MetadataTable(self.storage, active.listed(self.storage))
        return set(secondary_index.pairs(beside, definition).to_pylist())

    def pairs_of_rows(self) -> set[str]:
        self.reopen()
        rows = self.small.table.read(columns=["_hoodie_record_key", "b"]).read_all()
        return set(secondary_keys.of_rows("b", rows).to_pylist())

    def defined(self) -> dict[str, object]:
        content = index_definitions._read(self.storage)
        return {name: each for name, each in content.items() if name.startswith(PREFIX)}
