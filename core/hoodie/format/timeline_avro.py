"""Commit metadata and compaction plans, to the Avro that Hudi keeps on the timeline and back.

Paths in it (format.md: Paths in metadata): a write stat's `path` is below the table root, its
`logFiles` and `baseFile` are bare names; a compaction plan of version 2 holds bare names, one of
version 1 full paths. Maps are never null, and an operation is the constant's name, or Java fails.
What a writer of 1.0.0 or later leaves out is read as null.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from hoodie import deferred, errors
from hoodie.format import avro_container, avro_values, file_names, timeline_schemas
from hoodie.format.avro_container import CONTENT_BYTES_MAX
from hoodie.model import commits, files

with deferred.imports():
    from hoodie.model import plans

_COMPACTION_PLAN_VERSION = 2
_HEAD = frozenset(("operationType", "extraMetadata", "compacted"))
_STATS = frozenset(("partitionToWriteStats",))
_REPLACED = "partitionToReplaceFileIds"
_NO_COMMIT = "null"
"""The text that `prevCommit` has in a new file group."""


def encode_commit(metadata: commits.CommitMetadata) -> bytes:
    """Return the content of a completed commit or delta commit, or of an inflight."""
    return avro_container.encode(timeline_schemas.COMMIT_METADATA, _commit_fields(metadata))


def encode_replace_commit(metadata: commits.CommitMetadata) -> bytes:
    """Return the content of a completed replace commit."""
    replaced: dict[str, list[str]] = {}
    for group in sorted(metadata.replaced):
        replaced.setdefault(group.partition_path, []).append(group.file_id)
    fields = {**_commit_fields(metadata), _REPLACED: replaced}
    return avro_container.encode(timeline_schemas.REPLACE_COMMIT_METADATA, fields)


def _commit_fields(metadata: commits.CommitMetadata) -> Mapping[str, object]:
    partitions: dict[str, list[Mapping[str, object]]] = {}
    for stat in metadata.stats:
        partitions.setdefault(stat.partition_path, []).append(_stat_fields(stat))
    return {
        # The branch of the union is named: fastavro would try each on all that is inside.
        "partitionToWriteStats": ("map", partitions),
        "compacted": metadata.is_compacted,
        "extraMetadata": ("map", dict(metadata.extra)),
        "version": None,  # As Java leaves it.
        "operationType": metadata.operation,
    }


def decode_commit(
    content: bytes, source: str = "commit metadata", bytes_max: int = CONTENT_BYTES_MAX
) -> commits.CommitMetadata:
    """Return the metadata of a commit, delta commit or replace commit, or of an inflight.

    Args:
        content: The whole file. An inflight may be empty: it is then no metadata, and not for here.
        source: The file's name, for messages.
        bytes_max: More than this is refused.

    Raises:
        FormatError: The content is empty or broken.
    """
    record = avro_container.decode(content, source, bytes_max)
    return commits.CommitMetadata(
        operation=record.text("operationType"),
        stats=tuple(
            _stat(partition_path, stat)
            for partition_path, stats in record.records_by_key("partitionToWriteStats")
            for stat in stats
        ),
        extra=record.text_map("extraMetadata"),
        is_compacted=record.flag("compacted"),
        replaced=_replaced(record),
    )


def decode_commit_head(
    content: bytes, source: str = "commit metadata", bytes_max: int = CONTENT_BYTES_MAX
) -> commits.CommitMetadata:
    """Return what `decode_commit` does, but for the stats and file groups, which may be many.

    Raises:
        FormatError: The content is empty or broken.
    """
    record = avro_container.decode(content, source, bytes_max, only=_HEAD)
    return commits.CommitMetadata(
        operation=record.text("operationType"),
        stats=(),
        extra=record.text_map("extraMetadata"),
        is_compacted=record.flag("compacted"),
    )


def decode_schema(
    content: bytes,
    source: str = "commit metadata",
    bytes_max: int = CONTENT_BYTES_MAX,
    *,
    without: str,
) -> tuple[str | None, str] | None:
    """Return operation and schema of a commit, without a look at its stats.

    Args:
        content: The whole file.
        source: The file's name, for messages.
        bytes_max: More than this is refused.
        without: A key of the extra metadata.

    Returns:
        None where the commit has that key, has no schema, or where neither is certain without a
        look at the stats: `decode_commit_head` tells then.

    Raises:
        FormatError: The content is empty, or no container.
    """
    found = avro_container.decode_from_key(
        content, source, "extraMetadata", commits.SCHEMA_KEY, bytes_max, without=without
    )
    if found is None:
        return None
    stored, after = found
    return after.text("operationType"), stored


def decode_written_partitions(
    content: bytes, source: str = "commit metadata", bytes_max: int = CONTENT_BYTES_MAX
) -> frozenset[str]:
    """Return the partitions of the stats that `decode_commit` returns.

    Raises:
        FormatError: The content is empty or broken.
    """
    record = avro_container.decode(content, source, bytes_max, only=_STATS)
    counts = record.counts_map("partitionToWriteStats")
    return frozenset(path for path, count in counts.items() if count)


def decode_commits_with(
    key: str, contents: Iterable[tuple[bytes, str]]
) -> Iterator[commits.CommitMetadata]:
    """Yield the metadata of those commits that have a key among their extra metadata.

    The others are looked through for it, which takes a fraction of the time of decoding them.

    Args:
        key: The key.
        contents: The content of each commit's file, and the file's name, for messages.

    Raises:
        FormatError: A content is empty or broken.
    """
    for content, source in contents:
        if avro_container.holds_text(content, key, source):
            decoded = decode_commit(content, source)
            if key in decoded.extra:
                yield decoded


def decode_replaced_groups(
    content: bytes, source: str = "replace commit metadata", bytes_max: int = CONTENT_BYTES_MAX
) -> frozenset[files.FileGroupId]:
    """Return the file groups that a completed replace commit retired.

    Args:
        content: The whole file.
        source: The file's name, for messages.
        bytes_max: More than this is refused.

    Raises:
        FormatError: The content is empty or broken.
    """
    return _replaced(avro_container.decode(content, source, bytes_max))


def decode_clustered_groups(
    content: bytes, source: str = "clustering plan", bytes_max: int = CONTENT_BYTES_MAX
) -> frozenset[files.FileGroupId]:
    """Return the file groups that a requested clustering is to retire.

    Args:
        content: The whole file.
        source: The file's name, for messages.
        bytes_max: More than this is refused.

    Raises:
        FormatError: The content is empty or broken, or has no plan.
    """
    record = avro_container.decode(content, source, bytes_max)
    plan = record.map("clusteringPlan")
    if not plan:
        raise errors.FormatError(f"{source}: clusteringPlan is missing")
    return frozenset(
        files.FileGroupId(each.text("partitionPath") or "", each.required_text("fileId"))
        for group in avro_values.Record(plan, source).records("inputGroups")
        for each in group.records("slices")
    )


def encode_compaction_plan(plan: plans.CompactionPlan) -> bytes:
    """Return the content of a requested compaction, in plan version 2."""
    operations = [
        {
            "baseInstantTime": operation.base_instant_time,
            "deltaFilePaths": _bare(operation.log_file_names),
            "dataFilePath": operation.base_file_name,
            "fileId": operation.group.file_id,
            "partitionPath": operation.group.partition_path,
            "metrics": dict(operation.metrics),
            "bootstrapFilePath": None,
        }
        for operation in plan.operations
    ]
    fields = {
        "operations": ("array", operations),  # As for a commit.
        "extraMetadata": ("map", dict(plan.extra)),
        "version": _COMPACTION_PLAN_VERSION,
        "strategy": None,
        "preserveHoodieMetadata": False,
        "missingSchedulePartitions": list(plan.missed_partitions),
    }
    return avro_container.encode(timeline_schemas.COMPACTION_PLAN, fields)


def decode_compaction_plan(
    content: bytes, source: str = "compaction plan", bytes_max: int = CONTENT_BYTES_MAX
) -> plans.CompactionPlan:
    """Return the plan of a requested compaction, of version 1 or 2.

    Args:
        content: The whole file.
        source: The file's name, for messages.
        bytes_max: More than this is refused.

    Raises:
        FormatError: The content is empty or broken.
        UnsupportedError: The plan has a later version, or compacts a bootstrapped file group.
    """
    record = avro_container.decode(content, source, bytes_max)
    version = record.number("version") or 1
    if version not in (1, _COMPACTION_PLAN_VERSION):
        raise errors.UnsupportedError(
            f"{source}: compaction plan version {version} is not read, expected 1 or 2"
        )
    return plans.CompactionPlan(
        operations=tuple(_operation(operation) for operation in record.records("operations")),
        extra=record.text_map("extraMetadata"),
        missed_partitions=record.texts("missingSchedulePartitions"),
    )


def _stat_fields(stat: commits.WriteStat) -> Mapping[str, object]:
    """Return a write stat's Avro fields: what is not said is 0 or null as Java fills it."""
    is_log_write = bool(stat.log_files)
    return {
        "fileId": stat.file_id,
        "path": stat.path or None,
        "prevCommit": stat.prev_commit,
        "numWrites": stat.records,
        "numDeletes": stat.deletes,
        "numUpdateWrites": stat.updates,
        "totalWriteBytes": stat.size_bytes,
        "totalWriteErrors": 0,
        "partitionPath": stat.partition_path,
        "totalLogRecords": 0,
        "totalUpdatedRecordsCompacted": 0,
        "numInserts": stat.inserts,
        "totalLogBlocks": stat.log_blocks,
        "totalCorruptLogBlock": 0,
        "totalRollbackBlocks": 0,
        "fileSizeInBytes": stat.size_bytes,
        "logVersion": stat.log_version,
        "logOffset": 0 if is_log_write else None,
        "baseFile": stat.base_file or "" if is_log_write else stat.base_file,
        "logFiles": _bare((*stat.logs_before, *stat.log_files)) if is_log_write else None,
        "cdcStats": {each.path: each.size_bytes for each in stat.change_data} or None,
        "prevBaseFile": stat.prev_base_file,
        "totalLogFilesCompacted": 0,
        "totalLogReadTimeMs": 0,
        "totalLogSizeCompacted": 0,
        "numUpdates": 0,
    }


def _stat(partition_path: str, record: avro_values.Record) -> commits.WriteStat:
    path = record.text("path") or ""
    log_files, logs_before = _own_log_files(path, record.texts("logFiles"))
    return commits.WriteStat(
        file_id=record.text("fileId") or "",
        partition_path=partition_path,
        path=path,
        prev_commit=record.text("prevCommit") or _NO_COMMIT,
        records=record.count("numWrites"),
        inserts=record.count("numInserts"),
        updates=record.count("numUpdateWrites"),
        deletes=record.count("numDeletes"),
        size_bytes=record.count("fileSizeInBytes"),
        base_file=record.text("baseFile") or None,
        log_files=log_files,
        logs_before=logs_before,
        log_version=record.number("logVersion"),
        log_blocks=record.count("totalLogBlocks"),
        prev_base_file=record.text("prevBaseFile"),
        change_data=tuple(
            commits.ChangeDataLog(path=each, size_bytes=size_bytes)
            for each, size_bytes in record.counts("cdcStats").items()
        ),
    )


def _own_log_files(path: str, names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return which log files a write wrote, and which were in the slice before.

    Apache Hudi names both, and logs of change data; those of a write have its instant in their
    names.
    """
    if len(names) <= 1:
        return names, ()
    own = file_names.parse_new(path, 0)
    if own is None:
        return names, ()
    parsed = [file_names.parse_new(name, 0) for name in names]
    is_own = [found is not None and found.instant_time == own.instant_time for found in parsed]
    return (
        tuple(name for name, flag in zip(names, is_own, strict=True) if flag),
        tuple(name for name, flag in zip(names, is_own, strict=True) if not flag),
    )


def _replaced(record: avro_values.Record) -> frozenset[files.FileGroupId]:
    return frozenset(
        files.FileGroupId(partition_path, file_id)
        for partition_path, file_ids in record.texts_map(_REPLACED).items()
        for file_id in file_ids
    )


def _operation(record: avro_values.Record) -> plans.CompactionOperation:
    group = files.FileGroupId(record.text("partitionPath") or "", record.required_text("fileId"))
    if record.text("bootstrapFilePath"):
        raise errors.UnsupportedError(
            f"{record.source}: file group {group} is based on a bootstrap file, which is not "
            "supported"
        )
    base_file = record.text("dataFilePath")
    return plans.CompactionOperation(
        group=group,
        base_instant_time=record.required_text("baseInstantTime"),
        base_file_name=_name(base_file) if base_file else None,
        # Apache Hudi plans change data that lies beside a base file with the logs, for no rows.
        log_file_names=tuple(
            name
            for path in record.texts("deltaFilePaths")
            if not (name := _name(path)).endswith(file_names.CHANGE_DATA)
        ),
        metrics=record.float_map("metrics"),
    )


def _bare(names: Iterable[str]) -> list[str]:
    bare = list(names)
    assert not any("/" in name for name in bare), bare
    return bare


def _name(path: str) -> str:
    return path.rpartition("/")[2]
