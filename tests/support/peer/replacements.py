"""What other engines do to a table of ours: replace commits, cleaning, groups of no bucket."""

import io
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence

import fastavro
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.filegroup import snapshots, writing
from hoodie.format import file_names, timeline_avro
from hoodie.index import bucket, consistent_hashing
from hoodie.model import commits, files, instants, schemas
from hoodie.model.settings import WriteSettings
from hoodie.timeline import active, hash_rings, partition_buckets, transitions
from support.tables.tables import Rows, SmallTable

CLUSTERING_SCHEMA = {
    "type": "record",
    "name": "HoodieRequestedReplaceMetadata",
    "fields": [
        {
            "name": "clusteringPlan",
            "type": {
                "type": "record",
                "name": "HoodieClusteringPlan",
                "fields": [
                    {
                        "name": "inputGroups",
                        "type": {
                            "type": "array",
                            "items": {
                                "type": "record",
                                "name": "HoodieClusteringGroup",
                                "fields": [
                                    {
                                        "name": "slices",
                                        "type": {
                                            "type": "array",
                                            "items": {
                                                "type": "record",
                                                "name": "HoodieSliceInfo",
                                                "fields": [
                                                    {"name": "partitionPath", "type": "string"},
                                                    {"name": "fileId", "type": "string"},
                                                ],
                                            },
                                        },
                                    }
                                ],
                            },
                        },
                    }
                ],
            },
        }
    ],
}
"""What we read of a plan."""
FOREIGN_ID = "c4fe2095-3bda-48af-b1c1-{:012x}-0"
"""A file id as Apache Hudi's clustering makes one: of no bucket."""

_NUMBERS = itertools.count(1)


class Replacements:
    """Replace commits of others on one table, and their cleaner."""

    def __init__(self, small: SmallTable) -> None:
        self.small = small
        self.storage = small.env.open_storage(str(small.path))

    def live_groups(self, partition: str) -> list[files.FileGroupId]:
        """Return the groups that a reader sees."""
        view = snapshots.take(self.storage, self.small.table.config).view
        return [each.group for each in view.latest_slices(partition)]

    def delete_partition(self, partition: str) -> instants.Instant:
        """Retire every group of a partition."""
        return self._replace("DELETE_PARTITION", self.live_groups(partition), [])

    def overwrite(self, partition: str, rows: Rows, file_ids: Mapping[int, str]) -> None:
        """Retire every group of a partition and write rows into new groups, named by bucket.

        Args:
            partition: Its path.
            rows: All of the bucket that `file_ids` names.
            file_ids: One bucket and the id of its new group.
        """
        ((_, file_id),) = file_ids.items()
        retired = self.live_groups(partition)
        at = self._next_time()
        stat = self._write(at, partition, file_id, self._with_meta(at, partition, rows))
        self._replace("INSERT_OVERWRITE", retired, [stat], at)

    def split(self, partition: str, node: int = 0) -> str:
        """Split a node of a partition's ring in two, as a clustering does; return its file id.

        Args:
            partition: Its path; rows were written there.
            node: The number of the node. Its rows go to two new file groups.
        """
        committed = snapshots.take(self.storage, self.small.table.config).committed
        ring = hash_rings.read(self.storage, partition, committed.is_committed)
        assert ring is not None
        low = ring.values[node - 1] if node else 0
        new = [FOREIGN_ID.format(next(_NUMBERS)).removesuffix("-0") for _ in range(2)]
        nodes = dict(zip(ring.values, ring.prefixes, strict=True))
        nodes |= {(low + ring.values[node]) // 2: new[0], ring.values[node]: new[1]}
        ordered = sorted(nodes.items())
        later = hash_rings.Ring(
            values=tuple(value for value, _ in ordered),
            prefixes=tuple(prefix for _, prefix in ordered),
        )
        at = self._next_time()
        names = [*schemas.META_COLUMNS, *self.small.table.schema.arrow.names]
        found = self.small.table.read(names).read_all()
        rows = found.filter(pc.equal(found.column(schemas.PARTITION_PATH), partition))
        index = consistent_hashing.ConsistentHashingIndex(self.small.table.config, later)
        tags = index.tag(rows.column(schemas.RECORD_KEY))
        stats = []
        for prefix in new:
            number = later.prefixes.index(prefix)
            some = rows.filter(tags == number)
            if some.num_rows:
                stats.append(self._write(at, partition, later.file_ids[number], some))
        retired = ring.file_ids[node]
        gone = [each for each in self.live_groups(partition) if each.file_id == retired]
        self._replace("CLUSTER", gone, stats, at)
        stored = [
            {"value": value, "fileIdPrefix": prefix, "tag": "NORMAL"} for value, prefix in ordered
        ]
        content = json.dumps({"version": 0, "partitionPath": partition, "nodes": stored})
        self.storage.create(hash_rings.path_of(partition, at), content.encode())
        return retired

    def cluster(self, partition: str, file_id: str | None = None) -> str:
        """Move all rows of a partition into one group of no bucket; return its id."""
        file_id = file_id or FOREIGN_ID.format(next(_NUMBERS))
        retired = self.live_groups(partition)
        names = [*schemas.META_COLUMNS, *self.small.table.schema.arrow.names]
        found = self.small.table.read(names).read_all()
        rows = found.filter(pc.equal(found.column(schemas.PARTITION_PATH), partition))
        at = self._next_time()
        self._replace("CLUSTER", retired, [self._write(at, partition, file_id, rows)], at)
        return file_id

    def rescale(self, expressions: Mapping[str, int], *, is_completed: bool = True) -> None:
        """Give partitions other counts of buckets, as `partition_bucket_index_manager` does.

        Args:
            expressions: The count of each partition that is rewritten, by its path.
            is_completed: Whether it comes to an end; otherwise it stays requested.
        """
        at = self._next_time()
        table_count = self.small.table.config.bucket_count
        assert table_count is not None
        stored = {
            "expressions": ";".join(f"{path},{count}" for path, count in expressions.items()),
            "defaultBucketNumber": table_count,
            "rule": "regex",
            "version": 1,
            "instant": at,
        }
        name = f"{partition_buckets.DIRECTORY}/{at}.hashing_config"
        self.storage.create(name, json.dumps(stored, indent=2).encode())
        if not is_completed:
            self.storage.create(f".hoodie/timeline/{at}.replacecommit.requested", b"")
            return
        retired, stats = [], []
        names = [*schemas.META_COLUMNS, *self.small.table.schema.arrow.names]
        everything = self.small.table.read(names).read_all()
        for path, count in expressions.items():
            retired += self.live_groups(path)
            rows = everything.filter(pc.equal(everything.column(schemas.PARTITION_PATH), path))
            buckets = bucket.buckets([rows.column(schemas.RECORD_KEY)], count)
            for number in sorted(set(buckets.tolist())):
                file_id = f"{number:08d}" + FOREIGN_ID.format(next(_NUMBERS))[8:]
                stats.append(self._write(at, path, file_id, rows.filter(buckets == number)))
        self._replace("BUCKET_RESCALE", retired, stats, at)

    def add_group(self, partition: str, rows: Rows, file_id: str | None = None) -> str:
        """Write rows into a new group of no bucket, as an upsert by another index does."""
        file_id = file_id or FOREIGN_ID.format(next(_NUMBERS))
        at = self._next_time()
        stat = self._write(at, partition, file_id, self._with_meta(at, partition, rows))
        metadata = commits.CommitMetadata(
            operation="UPSERT",
            stats=(stat,),
            extra={commits.SCHEMA_KEY: self.small.table.schema.avro},
        )
        self._put(at, "deltacommit", timeline_avro.encode_commit(metadata))
        return file_id

    def plan_clustering(self, groups: Iterable[files.FileGroupId]) -> None:
        """Put a clustering on the timeline that is to retire some groups."""
        slices = [{"partitionPath": each.partition_path, "fileId": each.file_id} for each in groups]
        plan = {"clusteringPlan": {"inputGroups": [{"slices": slices}]}}
        at = self._next_time()
        name = f".hoodie/timeline/{at}.clustering.requested"
        self.storage.create(name, avro(CLUSTERING_SCHEMA, plan))

    def clean(self) -> None:
        """Remove the files of all groups that are retired."""
        timeline = active.load(self.storage)
        for group in snapshots.replaced_groups(self.storage, timeline):
            for info in self.storage.list(group.partition_path):
                if group.file_id in info.name:
                    self.storage.delete(info.path)
        self._put(self._next_time(), "clean", b"its plan is not read")

    def archive(self) -> None:
        """Take the replace commits and all before them off the timeline; `clean` comes first.

        As Apache Hudi does it: not past a pending instant, and some later write stays.
        """
        timeline = active.load(self.storage)
        writes = [each.requested_time for each in timeline.completed_writes]
        limit = min([max(writes, default=""), *(each.requested_time for each in timeline.pending)])
        last = max(
            (
                each.requested_time
                for each in timeline.completed_writes
                if each.action is instants.Action.REPLACE_COMMIT and each.requested_time < limit
            ),
            default="",
        )
        for instant in timeline.files:
            if instant.requested_time <= last:
                self.storage.delete(transitions.path(instant))

    def retire(self, groups: Iterable[files.FileGroupId]) -> instants.Instant:
        """Retire some groups, as an overwrite does that writes nothing there."""
        return self._replace("INSERT_OVERWRITE", groups, [])

    def _replace(
        self,
        operation: str,
        retired: Iterable[files.FileGroupId],
        stats: Sequence[commits.WriteStat],
        at: instants.InstantTime | None = None,
    ) -> instants.Instant:
        metadata = commits.CommitMetadata(
            operation=operation,
            stats=tuple(stats),
            extra={commits.SCHEMA_KEY: self.small.table.schema.avro},
            replaced=frozenset(retired),
        )
        content = timeline_avro.encode_replace_commit(metadata)
        return self._put(at or self._next_time(), "replacecommit", content)

    def _put(self, at: instants.InstantTime, action: str, content: bytes) -> instants.Instant:
        completed = instants.Instant(
            requested_time=at,
            action=instants.Action(action),
            state=instants.State.COMPLETED,
            completion_time=self._next_time(at),
        )
        name = f".hoodie/timeline/{at}_{completed.completion_time}.{action}"
        self.storage.create(name, content)
        return completed

    def _next_time(self, floor: instants.InstantTime | None = None) -> instants.InstantTime:
        now = instants.format_time(self.small.env.clock.now_ms())
        greatest = active.load(self.storage).greatest_time
        times = [now, *(instants.next_time(each) for each in (floor, greatest) if each)]
        return max(times)

    def _with_meta(self, at: instants.InstantTime, partition: str, rows: Rows) -> pa.Table:
        schema = self.small.table.schema.arrow
        data = pa.Table.from_pylist([dict(row) for row in rows], schema)
        keys = data.column("id").combine_chunks()
        target = self._target(at, partition, "unnamed-0")
        return writing.with_meta_columns(data, keys, target, 0, "to be replaced")

    def _write(
        self, at: instants.InstantTime, partition: str, file_id: str, rows: pa.Table
    ) -> commits.WriteStat:
        target = self._target(at, partition, file_id)
        self.storage.touch(files.join(partition, file_names.PARTITION_METADATA))
        return writing.write_base_file(target, [rows], self.small.table.schema, WriteSettings())

    def _target(self, at: instants.InstantTime, partition: str, file_id: str) -> writing.FileTarget:
        return writing.FileTarget(
            storage=self.storage,
            group=files.FileGroupId(partition, file_id),
            instant_time=at,
            write_token="1-1-1",
            before_file=lambda path: None,
            first_row=0,
        )


def avro(schema: Mapping[str, object], stored: Mapping[str, object]) -> bytes:
    """Return an Avro container of one record."""
    content = io.BytesIO()
    fastavro.writer(content, fastavro.parse_schema(dict(schema)), [stored])
    return content.getvalue()
