"""Avro schemas of what instants hold: names, order and defaults of Apache Hudi 1.2.0.

Source: `hudi-common/src/main/avro/*.avsc`; format.md: Timeline. `avro.java.string` is left out: it
only tells Java which class of texts to make.
"""

from collections.abc import Mapping
from typing import cast

from hoodie.format import avro_container

_NAMESPACE = "org.apache.hudi.avro.model"
_Type = str | list[object] | dict[str, object]


def _record(name: str, *fields: dict[str, object]) -> dict[str, object]:
    return {"type": "record", "name": name, "namespace": _NAMESPACE, "fields": list(fields)}


def _nullable(name: str, type_: _Type) -> dict[str, object]:
    return {"name": name, "type": ["null", type_], "default": None}


def _nullables(names: str, type_: _Type) -> list[dict[str, object]]:
    return [_nullable(name, type_) for name in names.split()]


def _defaulted(name: str, type_: _Type, default: object) -> dict[str, object]:
    return {"name": name, "type": [type_, "null"], "default": default}


def _array(items: _Type) -> dict[str, object]:
    return {"type": "array", "items": items}


def _map(values: _Type) -> dict[str, object]:
    return {"type": "map", "values": values}


_WRITE_STAT = _record(
    "HoodieWriteStat",
    *_nullables("fileId path prevCommit", "string"),
    *_nullables("numWrites numDeletes numUpdateWrites totalWriteBytes totalWriteErrors", "long"),
    _nullable("partitionPath", "string"),
    *_nullables("totalLogRecords totalLogFiles totalUpdatedRecordsCompacted numInserts", "long"),
    *_nullables("totalLogBlocks totalCorruptLogBlock totalRollbackBlocks fileSizeInBytes", "long"),
    _nullable("logVersion", "int"),
    _nullable("logOffset", "long"),
    _nullable("baseFile", "string"),
    _nullable("logFiles", _array("string")),
    _nullable("cdcStats", _map("long")),
    _nullable("prevBaseFile", "string"),
    *_nullables("minEventTime maxEventTime", "long"),
    _nullable(
        "runtimeStats",
        _record(
            "HoodieRuntimeStats",
            *_nullables("totalScanTime totalCreateTime totalUpsertTime", "long"),
        ),
    ),
    *_nullables("totalLogFilesCompacted totalLogReadTimeMs totalLogSizeCompacted", "long"),
    _nullable("tempPath", "string"),
    _nullable("numUpdates", "long"),
)

_COMMIT_METADATA: Mapping[str, object] = _record(
    "HoodieCommitMetadata",
    _nullable("partitionToWriteStats", _map(_array(_WRITE_STAT))),
    _nullable("compacted", "boolean"),
    _nullable("extraMetadata", _map("string")),
    _defaulted("version", "int", 1),
    _nullable("operationType", "string"),
)

_REPLACE_COMMIT_METADATA: Mapping[str, object] = {
    **_COMMIT_METADATA,
    "name": "HoodieReplaceCommitMetadata",
    "fields": [
        *cast(list[object], _COMMIT_METADATA["fields"]),
        _nullable("partitionToReplaceFileIds", _map(_array("string"))),
    ],
}

_COMPACTION_PLAN: Mapping[str, object] = _record(
    "HoodieCompactionPlan",
    _nullable(
        "operations",
        _array(
            _record(
                "HoodieCompactionOperation",
                {"name": "baseInstantTime", "type": ["null", "string"]},
                _nullable("deltaFilePaths", _array("string")),
                _nullable("dataFilePath", "string"),
                {"name": "fileId", "type": ["null", "string"]},
                _nullable("partitionPath", "string"),
                _nullable("metrics", _map("double")),
                _nullable("bootstrapFilePath", "string"),
            )
        ),
    ),
    _nullable("extraMetadata", _map("string")),
    _defaulted("version", "int", 1),
    _nullable(
        "strategy",
        _record(
            "HoodieCompactionStrategy",
            _nullable("compactorClassName", "string"),
            _nullable("strategyParams", _map("string")),
            _defaulted("version", "int", 1),
        ),
    ),
    _defaulted("preserveHoodieMetadata", "boolean", default=False),
    _nullable("missingSchedulePartitions", _array("string")),
)

_INSTANT_INFO: dict[str, object] = _record(
    "HoodieInstantInfo",
    {"name": "commitTime", "type": "string"},
    {"name": "action", "type": "string"},
)

_ROLLBACK_PLAN: Mapping[str, object] = _record(
    "HoodieRollbackPlan",
    _nullable("instantToRollback", _INSTANT_INFO),
    _nullable(
        "RollbackRequests",
        _array(
            _record(
                "HoodieRollbackRequest",
                {"name": "partitionPath", "type": "string"},
                _nullable("fileId", "string"),
                _nullable("latestBaseInstant", "string"),
                {"name": "filesToBeDeleted", "type": _array("string"), "default": []},
                _nullable("logBlocksToBeDeleted", _map("long")),
            )
        ),
    ),
    _defaulted("version", "int", 1),
)

_ROLLBACK_METADATA: Mapping[str, object] = _record(
    "HoodieRollbackMetadata",
    {"name": "startRollbackTime", "type": "string"},
    {"name": "timeTakenInMillis", "type": "long"},
    {"name": "totalFilesDeleted", "type": "int"},
    {"name": "commitsRollback", "type": _array("string")},
    {
        "name": "partitionMetadata",
        "type": _map(
            _record(
                "HoodieRollbackPartitionMetadata",
                {"name": "partitionPath", "type": "string"},
                {"name": "successDeleteFiles", "type": _array("string")},
                {"name": "failedDeleteFiles", "type": _array("string")},
                _nullable("rollbackLogFiles", _map("long")),
                _nullable("logFilesFromFailedCommit", _map("long")),
            )
        ),
    },
    _defaulted("version", "int", 1),
    {"name": "instantsRollback", "type": _array(_INSTANT_INFO), "default": []},
)

_FILE_NAMES: list[dict[str, object]] = [
    {"name": name, "type": _array("string")}
    for name in ("deletePathPatterns", "successDeleteFiles", "failedDeleteFiles")
]

_CLEAN_PLAN: Mapping[str, object] = _record(
    "HoodieCleanerPlan",
    _nullable(
        "earliestInstantToRetain",
        _record(
            "HoodieActionInstant",
            {"name": "timestamp", "type": "string"},
            {"name": "action", "type": "string"},
            {"name": "state", "type": "string"},
        ),
    ),
    {"name": "lastCompletedCommitTimestamp", "type": "string", "default": ""},
    {"name": "policy", "type": "string"},
    _nullable("filesToBeDeletedPerPartition", _map(_array("string"))),
    _defaulted("version", "int", 1),
    _nullable(
        "filePathsToBeDeletedPerPartition",
        _map(
            _array(
                _record(
                    "HoodieCleanFileInfo",
                    _nullable("filePath", "string"),
                    _nullable("isBootstrapBaseFile", "boolean"),
                )
            )
        ),
    ),
    _nullable("partitionsToBeDeleted", _array("string")),
    _nullable("extraMetadata", _map("string")),
)

_CLEAN_METADATA: Mapping[str, object] = _record(
    "HoodieCleanMetadata",
    {"name": "startCleanTime", "type": "string"},
    {"name": "timeTakenInMillis", "type": "long"},
    {"name": "totalFilesDeleted", "type": "int"},
    {"name": "earliestCommitToRetain", "type": "string"},
    {"name": "lastCompletedCommitTimestamp", "type": "string", "default": ""},
    {
        "name": "partitionMetadata",
        "type": _map(
            _record(
                "HoodieCleanPartitionMetadata",
                {"name": "partitionPath", "type": "string"},
                {"name": "policy", "type": "string"},
                *_FILE_NAMES,
                _nullable("isPartitionDeleted", "boolean"),
            )
        ),
    },
    _defaulted("version", "int", 1),
    _nullable("bootstrapPartitionMetadata", _map(f"{_NAMESPACE}.HoodieCleanPartitionMetadata")),
    _nullable("extraMetadata", _map("string")),
)

_SAVEPOINT_METADATA: Mapping[str, object] = _record(
    "HoodieSavepointMetadata",
    {"name": "savepointedBy", "type": "string"},
    {"name": "savepointedAt", "type": "long"},
    {"name": "comments", "type": "string"},
    {
        "name": "partitionMetadata",
        "type": _map(
            _record(
                "HoodieSavepointPartitionMetadata",
                {"name": "partitionPath", "type": "string"},
                {"name": "savepointDataFile", "type": _array("string")},
            )
        ),
    },
    _defaulted("version", "int", 1),
)

_INDEXED_PARTITIONS = _nullable(
    "indexPartitionInfos",
    _array(
        _record(
            "HoodieIndexPartitionInfo",
            _defaulted("version", "int", 1),
            *_nullables("metadataPartitionPath indexUptoInstant", "string"),
            _nullable("extraMetadata", _map("string")),
        )
    ),
)

_INDEX_PLAN: Mapping[str, object] = _record(
    "HoodieIndexPlan", _defaulted("version", "int", 1), _INDEXED_PARTITIONS
)

_INDEX_METADATA: Mapping[str, object] = _record(
    "HoodieIndexCommitMetadata",
    _defaulted("version", "int", 1),
    _nullable("operationType", "string"),
    _INDEXED_PARTITIONS,
)

COMMIT_METADATA = avro_container.schema(_COMMIT_METADATA)
REPLACE_COMMIT_METADATA = avro_container.schema(_REPLACE_COMMIT_METADATA)
COMPACTION_PLAN = avro_container.schema(_COMPACTION_PLAN)
CLEAN_PLAN = avro_container.schema(_CLEAN_PLAN)
CLEAN_METADATA = avro_container.schema(_CLEAN_METADATA)
ROLLBACK_PLAN = avro_container.schema(_ROLLBACK_PLAN)
ROLLBACK_METADATA = avro_container.schema(_ROLLBACK_METADATA)
SAVEPOINT_METADATA = avro_container.schema(_SAVEPOINT_METADATA)
INDEX_PLAN = avro_container.schema(_INDEX_PLAN)
INDEX_METADATA = avro_container.schema(_INDEX_METADATA)
