"""Tables with record indexes: of the whole table, or of each partition."""

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pyarrow as pa

from hoodie import environment, table
from hoodie.filegroup import index_groups, metadata_table, metadata_writing, record_index
from hoodie.metadata import partition_making
from hoodie.model import commits, files, key_changes, settings, table_config
from hoodie.timeline import active, index_definitions, metadata_timelines, table_properties
from hoodie.transaction import configuration, manager, table_lock
from hoodie.transaction.client import Client
from hoodie.write import sessions
from support.tables.tables import CONFIG, QUICK, SmallTable

_TIME = metadata_timelines.FIRST_TIMES[-1]
_DEFINITIONS = "indexDefinitions"
Row = dict[str, object]
Located = tuple[str, files.FileGroupId]
"""A key and the file group of its row."""


def with_record_index(
    opened: table.Table,
    transaction: manager.TransactionOptions,
    env: environment.Environment,
    *,
    is_partitioned: bool = False,
) -> table.Table:
    """Return a table without rows whose metadata table has one; as `add`."""
    storage = env.open_storage(opened.uri)
    target = manager.Target(storage=storage, config=opened.config, schema=opened.schema)
    with closing(manager.open_client(target, transaction, env)) as client:
        add(client, partitions=() if is_partitioned else None)
    return table.open_table(opened.uri, env)


def add(client: Client, count: int = 3, *, partitions: Sequence[str] | None = None) -> None:
    """Add an index to the metadata table of a table that has no rows.

    Args:
        client: Of the table.
        count: So many file groups has the table, or each of the partitions.
        partitions: Those that have some; None for an index of the whole table.
    """
    beside = metadata_timelines.opened(client.storage)

    def decide(scope: table_lock.LockScope) -> None:
        config = table_properties.load(client.storage, client.clock)
        groups: list[None] = [None] * count
        if partitions is not None:
            _define(client)
            groups = []
            for path in partitions:
                for number in range(count):
                    file_id = index_groups.file_id(path, number)
                    group = files.FileGroupId(key_changes.RECORD_INDEX, file_id)
                    metadata_writing.write_empty_log(beside, group, _TIME)
        published = partition_making.make(
            client,
            scope,
            beside,
            _TIME,
            key_changes.RECORD_INDEX,
            partition_making.Content(groups),
        )
        names = ",".join(sorted((*config.metadata_partitions, key_changes.RECORD_INDEX)))
        changes = {table_config.METADATA_PARTITIONS_KEY: names}
        configuration.put(client, scope, changes, published)

    client.lock.decide(decide)


def _define(client: Client) -> None:
    """Add the definition of an index of each partition to those of the table, if it has some."""
    storage, path = client.storage, index_definitions.PATH
    is_there = path.rpartition("/")[2] in storage.names(path.rpartition("/")[0])
    found, version = storage.fetch(path) if is_there else (b"{}", None)
    definitions = json.loads(found).get(_DEFINITIONS, {}) | {
        key_changes.RECORD_INDEX: {
            "indexName": key_changes.RECORD_INDEX,
            "indexOptions": {"isPartitioned": "true"},
            "sourceFields": [],
        }
    }
    content = json.dumps({_DEFINITIONS: definitions}).encode()
    if version is None:
        storage.create(path, content)
    else:
        storage.replace(path, content, if_match=version)


class Indexed:
    """A table with a record index."""

    def __init__(
        self,
        path: Path,
        config: table_config.TableConfig = CONFIG,
        *,
        is_partitioned: bool = False,
        **types: str | pa.DataType,
    ) -> None:
        self.small = SmallTable(path, config, **types)
        self.is_optimistic = True
        self.commits_max = 100
        self.storage = environment.system(parallelism=1).open_storage(str(path))
        options = self.options().transaction
        made = self.small.table.initialise_metadata(options)
        self.small.table = with_record_index(
            made, options, self.small.env, is_partitioned=is_partitioned
        )

    def reopen(self) -> None:
        self.small.table = table.open_table(str(self.small.path), self.small.env)

    @property
    def config(self) -> table_config.TableConfig:
        return table_properties.load(self.storage, self.small.env.clock)

    def options(self, **changes: object) -> sessions.WriteOptions:
        mode = settings.ConcurrencyMode.OPTIMISTIC if self.is_optimistic else QUICK.concurrency
        more = {"concurrency": mode, "metadata_delta_commits_max": self.commits_max}
        return self.small.options(**{**more, **changes})

    def write(self, rows: list[Row], **changes: object) -> None:
        self.small.table.write(self.small.data(rows), self.options(**changes))

    def delete(self, rows: list[Row], **changes: object) -> None:
        self.write(rows, operation=commits.Operation.DELETE, **changes)

    def begin(self, columns: list[str], **changes: object) -> sessions.WriteSession:
        session = self.small.table.begin_write(self.options(**changes), columns)
        assert isinstance(session, sessions.WriteSession)
        return session

    def commit(self, session: sessions.WriteSession, rows: list[Row]) -> None:
        session.commit(self.small.run_task(session, rows))

    def index(self) -> record_index.RecordIndex:
        beside = metadata_table.MetadataTable(self.storage, active.listed(self.storage))
        return record_index.RecordIndex(beside)

    def located(self, keys: list[str]) -> set[Located]:
        """Return where the index has keys, in the table or in any of its partitions."""
        index = self.index()
        found = set()
        for key_space in index.groups.by_key_space:
            at = index.locations(key_space, pa.array(keys, pa.string()))
            numbers = zip(at.keys.to_pylist(), at.numbers.tolist(), strict=True)
            found |= {
                (key, at.groups[number]) for key, number in numbers if number != key_changes.NOWHERE
            }
        return found

    def locations(self, keys: list[str]) -> Mapping[str, files.FileGroupId]:
        """Return where the index of a table has keys."""
        return dict(self.located(keys))

    def slices(self) -> list[files.FileSlice]:
        return self.small.table.slices()

    def rows_located(self) -> set[Located]:
        """Return in which file group each row is."""
        columns = ["_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name"]
        self.reopen()
        found = self.small.table.read(columns=columns).read_all().to_pylist()
        return {
            (
                each["_hoodie_record_key"],
                files.FileGroupId(
                    each["_hoodie_partition_path"], each["_hoodie_file_name"].partition("_")[0]
                ),
            )
            for each in found
        }

    def rows(self) -> dict[str, files.FileGroupId]:
        """Return the same of a table that has each key once."""
        return dict(self.rows_located())
