"""Metadata tables made by hand, beside tables of ours: what each commit wrote, and base files."""

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import fastavro
import pyarrow as pa

from hoodie import environment, table
from hoodie.filegroup import metadata_table, snapshots
from hoodie.format import delete_records, log_blocks, timeline_avro
from hoodie.format.log_blocks import BlockType, HeaderKey
from hoodie.format.metadata_avro import ALL_PARTITIONS, Value
from hoodie.model import (
    commits,
    instants,
    predicates,
    table_config,
)
from hoodie.read import planning, tasks
from hoodie.timeline import active, contents, metadata_timelines
from support.tables.hfiles import hfile

FILE_INFO = {
    "type": "record",
    "name": "HoodieMetadataFileInfo",
    "fields": [{"name": "size", "type": "long"}, {"name": "isDeleted", "type": "boolean"}],
}
SCHEMA = {
    "type": "record",
    "name": "HoodieMetadataRecord",
    "fields": [
        {"name": "key", "type": "string"},
        {"name": "type", "type": "int"},
        {
            "name": "filesystemMetadata",
            "type": ["null", {"type": "map", "values": FILE_INFO}],
            "default": None,
        },
    ],
}
"""What of a record the partition `files` needs."""

SCHEMA_JSON = json.dumps(SCHEMA)
Sizes = Mapping[str, int | None]
"""Sizes by name; None stands for a deleted file."""

GROUP = "files-0000-0"

_COMMIT = timeline_avro.encode_commit(commits.CommitMetadata(operation="upsert", stats=()))


def value(sizes: Sizes | None, record_type: int = 2) -> Value:
    """Return a record of the partition `files`."""
    infos = None
    if sizes is not None:
        infos = {
            name: {"size": size or 0, "isDeleted": size is None} for name, size in sizes.items()
        }
    stream = io.BytesIO()
    record = {"key": "", "type": record_type, "filesystemMetadata": infos}
    fastavro.schemaless_writer(stream, fastavro.parse_schema(dict(SCHEMA)), record)
    return Value(stream.getvalue(), SCHEMA_JSON.encode())


def content_of(records: Mapping[str, Sizes]) -> bytes:
    """Return an HFile of records by their keys."""
    pairs = sorted((key.encode(), value(sizes).content) for key, sizes in records.items())
    return hfile(pairs, file_info={"schema": SCHEMA_JSON.encode()})


def log_of(time: str, records: Mapping[str, Sizes], deleted: Iterable[str] = ()) -> bytes:
    """Return a log file of one data block, and one of deletes before it if there are any."""
    parts: list[bytes | pa.Buffer] = []
    header = {HeaderKey.INSTANT_TIME: time, HeaderKey.SCHEMA: SCHEMA_JSON}
    keys = pa.array(list(deleted), pa.string())
    if len(keys):
        content = delete_records.encode(keys, "files")
        parts += log_blocks.encode(BlockType.DELETE, header, content)
    parts += log_blocks.encode(BlockType.HFILE_DATA, header, content_of(records))
    return b"".join(bytes(each) for each in parts)


class MadeMetadata:
    """The metadata table of a table; it has the partition `files`."""

    def __init__(self, path: Path) -> None:
        """Make it for a table that exists, with what its commits wrote so far."""
        self.path = path
        self.folder = path / metadata_timelines.DIRECTORY
        (self.folder / active.DIRECTORY).mkdir(parents=True)
        (self.folder / metadata_table.FILES).mkdir()
        (self.folder / metadata_table.FILES / ".hoodie_partition_metadata").touch()
        self._properties = path / ".hoodie" / "hoodie.properties"
        self._hidden = self._properties.read_text()
        text = f"{table_config.METADATA_PARTITIONS_KEY}={metadata_table.FILES}\n"
        self._shown = self._hidden + text
        self._properties.write_text(self._shown)
        self.catch_up()

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Let the table be written, as by somebody who does not know of its metadata table."""
        self._properties.write_text(self._hidden)
        try:
            yield
        finally:
            self._properties.write_text(self._shown)

    def catch_up(self) -> None:
        """Log what the table's writes wrote that are not there yet."""
        storage = environment.system(parallelism=1).open_storage(str(self.path))
        timeline = active.load(storage)
        for each in timeline.completed_writes:
            if not list((self.folder / active.DIRECTORY).glob(f"{each.requested_time}*")):
                metadata = contents.read_commit(storage, each)
                self.log(each.requested_time, str(each.completion_time), records_of(metadata))

    def log(
        self,
        time: str,
        completed: str | None,
        records: Mapping[str, Sizes],
        deleted: Iterable[str] = (),
    ) -> Path:
        """Write a delta commit; one without a time of completion stays inflight."""
        name = f".{GROUP}_{time}.log.1_0-0-0"
        path = self.folder / metadata_table.FILES / name
        path.write_bytes(log_of(time, records, deleted))
        self.instant(time, completed, instants.Action.DELTA_COMMIT)
        return path

    def compact(self, time: str, completed: str, records: Mapping[str, Sizes]) -> Path:
        """Write a base file."""
        path = self.folder / metadata_table.FILES / f"{GROUP}_0-0-0_{time}.hfile"
        path.write_bytes(content_of(records))
        self.instant(time, completed, instants.Action.COMMIT)
        return path

    def instant(self, time: str, completed: str | None, action: instants.Action) -> None:
        """Put an instant on the timeline."""
        timeline = self.folder / active.DIRECTORY
        (timeline / f"{time}.{action.value}.requested").touch()
        if completed is not None:
            (timeline / f"{time}_{completed}.{action.value}").write_bytes(_COMMIT)

    def opened(self) -> table.Table:
        """Open the data table."""
        return table.open_table(str(self.path), environment.system(parallelism=1))


def records_of(metadata: commits.CommitMetadata) -> dict[str, Sizes]:
    """Return what a commit adds to the partition `files`."""
    found: dict[str, dict[str, int | None]] = {}
    for stat in metadata.stats:
        name = stat.path.rpartition("/")[2]
        found.setdefault(stat.partition_path or ".", {})[name] = stat.size_bytes
    return {**found, ALL_PARTITIONS: dict.fromkeys(found, 0)}


def rows_by_listing(opened: table.Table, predicate: predicates.Predicate) -> list[str]:
    """Return the rows of a filtered read that does not use the metadata table, sorted, as texts."""
    config = replace(opened.config, metadata_partitions=())
    query = tasks.Query(columns=tuple(opened.schema.arrow.names), where=predicate)
    storage = environment.system(parallelism=1).open_storage(opened.uri)

    def plan(snapshot: snapshots.Snapshot) -> planning.Plan:
        return planning.plan(opened.uri, config, opened.schema, snapshot, query)

    planned = snapshots.consistent(storage, config, plan)
    assert not planned.has_metadata_table
    batches = (batch for task in planned.tasks for batch in tasks.run(task))
    return sorted(text for batch in batches for text in texts_of(batch))


def rows_by_statistics(opened: table.Table, predicate: predicates.Predicate) -> list[str]:
    """Return the rows of the same read by the metadata table; as `rows_by_listing`."""
    return sorted(texts_of(opened.read(where=predicate).read_all()))


def texts_of(rows: pa.Table | pa.RecordBatch) -> list[str]:
    """Return rows as texts, in which NaN is equal to itself."""
    return list(map(repr, rows.to_pylist()))
