"""For every kind: specs that hold every field of its schema between them, all of them valid.

For tests that change one field after the other. `test_full_specs.py` tells when a field is missing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

Spec = dict[str, Any]

_BACKOFF = {"initial": "5s", "max": "5m"}
_RETRY = {
    "limit": 3,
    "backoff": _BACKOFF,
    "outOfMemory": {"increasePercent": 50, "maxPercent": 400},
}
_RESOURCES = {
    "requests": {"cpu": "500m", "memory": "1Gi"},
    "limits": {"cpu": 2, "memory": "2Gi"},
}
_RUNTIME = {
    "engine": "Spark",
    "parallelism": 4,
    "sparkConf": {"spark.ui.enabled": "false"},
    "image": "registry.example/hudi-operator:1",
    "imagePullSecrets": ["registry"],
    "resources": _RESOURCES,
    "executors": {"instances": 2, "resources": _RESOURCES},
    "nodeSelector": {"disk": "fast"},
    "tolerations": [
        {
            "key": "spot",
            "operator": "Equal",
            "value": "yes",
            "effect": "NoExecute",
            "tolerationSeconds": 60,
        }
    ],
    "env": {"AWS_REGION": "eu-west-1"},
}
_PLAN: Spec = {
    "strategies": ["PartitionRegex", "DayBased", "LogSize", "LogCount", "LogRatio"],
    "maxFileGroups": 64,
    "maxBytes": "64Gi",
    "minLogBytes": "1Mi",
    "minLogFiles": 2,
    "minLogPercent": 10,
    "partitionDays": 7,
    "partitionRegex": "^2026",
    "maxPending": 3,
}
_REFERENCE = {"name": "flights"}

_TABLE: Spec = {
    "tableName": "flights",
    "database": "lake",
    "storage": {
        "path": "flights",
        "serviceAccount": "lake",
        "secrets": ["s3"],
        "env": {"AWS_REGION": "eu-west-1"},
        "volumes": [
            {
                "name": "lake",
                "persistentVolumeClaim": "lake",
                "mountPath": "/data",
                "readOnly": False,
            }
        ],
    },
    "tableType": "MergeOnRead",
    "tableVersion": 9,
    "schema": {"columns": [{"name": "id", "type": "string"}, {"name": "n", "type": "int"}]},
    "keys": {
        "recordFields": ["id"],
        "partitionFields": ["n"],
        "orderingFields": ["n"],
        "hiveStyle": False,
        "urlEncode": False,
        "options": {"hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd"},
    },
    "merge": {"mode": "EventTime", "partialUpdates": False},
    "writeIndex": {
        "type": "Bucket",
        "bucket": {
            "engine": "Simple",
            "count": 4,
            "fields": ["id"],
            "partitionCounts": [{"pattern": "2026-0[1-6]", "count": 16}],
        },
        "updatesPartitions": True,
    },
    "concurrency": {
        "mode": "Optimistic",
        "lockRef": {"name": "zk"},
        "conflictRetries": 3,
        "conflictResolution": "BucketIndex",
        "earlyConflictDetection": "SimpleDirectMarker",
        "externalWriters": True,
        "acknowledgeOrderDependence": False,
        "clockSkew": "200ms",
        "heartbeatInterval": "60s",
    },
    "services": {
        "compaction": "Operator",
        "cleaning": "External",
        "archiving": "Disabled",
        "deletesKept": "36h",
    },
    "files": {"logBlockFormat": "Parquet", "codec": "Zstd", "logFileSize": "1Gi"},
    "metadata": {"enabled": True},
    "mirror": {
        "enabled": True,
        "interval": "5m",
        "keepSnapshots": 3,
        "catalog": {"name": "https://catalog.example/api", "table": "lake.flights"},
    },
    "changeData": "DataBefore",
    "timeZone": "Europe/Berlin",
    "adoption": "AdoptOnly",
    "deletionPolicy": "Retain",
    "deletionProtection": True,
    "suspend": False,
}
_WRITER: Spec = {
    "tableRef": _REFERENCE,
    "writerId": "loader",
    "operation": "BulkInsert",
    "sortBy": ["day", "amount"],
    "source": {
        "files": {
            "path": "in/*.csv",
            "filesPerCommit": 2,
            "format": "CSV",
            "csv": {"header": True, "delimiter": ";", "nullText": "NA"},
            "columns": {"id": "key"},
            "addColumns": False,
        }
    },
    "runtime": _RUNTIME,
    "pacing": {"commitInterval": "1m"},
    "compaction": {"deltaCommits": 8, "plan": _PLAN},
    "retry": _RETRY,
    "progressDeadline": "1h",
    "suspend": False,
}
_SCHEDULE: Spec = {
    "windows": [
        {"days": ["Saturday", "Sunday"], "start": "00:00", "end": "23:59"},
        {"start": "22:30", "end": "04:00"},
    ],
    "timeZone": "Europe/Berlin",
    "overdueAfter": "1d",
    "priority": 10,
    "maxRuns": 3,
    "approval": True,
}
_POLICY: Spec = {
    **_SCHEDULE,
    "target": {"tableRef": _REFERENCE},
    "triggers": {"match": "All", "deltaCommits": 4, "logBytes": "1Gi", "elapsed": "1h"},
    "plan": _PLAN,
    "runtime": _RUNTIME,
    "retry": _RETRY,
    "timeLimit": "2h",
    "stuck": {"after": "1d", "action": "Report", "foreignWriters": ["nightly"]},
    "history": {"successful": 10, "failed": 5},
    "suspend": False,
}
_RETENTION: Spec = {
    **_SCHEDULE,
    "target": {"tableRef": _REFERENCE},
    "cleaning": {
        "keep": {"commits": 10},
        "readerGrace": "2h",
        "maxFiles": 1000,
        "triggers": {"match": "All", "commits": 5, "elapsed": "1h"},
    },
    "archiving": {"minCommits": 20, "maxCommits": 30, "historyDays": 365},
    "savepoints": {"expireAfter": "30d"},
    "dryRun": True,
    "stuck": {"after": "1d", "action": "RollBack", "foreignWriters": ["nightly"]},
    "runtime": _RUNTIME,
    "retry": _RETRY,
    "timeLimit": "2h",
    "history": {"successful": 10, "failed": 5},
    "suspend": False,
}
_SAVEPOINT: Spec = {
    "tableRef": _REFERENCE,
    "commit": "20250101000000000",
    "comment": "before the migration",
    "expireAfter": "7d",
    "deletionPolicy": "Retain",
    "retry": _RETRY,
}
_INDEX_REQUEST: Spec = {
    "tableRef": _REFERENCE,
    "indexes": ["column_stats", "record_index", "secondary_index_city"],
    "partitioned": True,
    "columns": {"secondary_index_city": "city"},
    "statisticsColumns": ["city", "delay"],
    "ensure": "Absent",
    "deletionPolicy": "Drop",
    "validation": "Whole",
    "priority": 5,
    "runtime": _RUNTIME,
    "retry": _RETRY,
    "timeLimit": "1h",
    "suspend": True,
}
_ACTION: Spec = {
    "tableRef": _REFERENCE,
    "type": "Compaction",
    "compaction": {"instant": "20250101000000000"},
    "dryRun": False,
    "priority": 5,
    "approval": True,
    "approved": True,
    "cancel": False,
    "ttlAfterFinished": "1d",
    "runtime": _RUNTIME,
    "retry": _RETRY,
    "timeLimit": "2h",
    "suspend": False,
}

FULL: Mapping[str, Sequence[Spec]] = {
    "HudiTable": [
        _TABLE,
        {
            "storage": {"path": "flights"},
            "schema": {"avro": '{"type": "record"}'},
            "keys": {"recordFields": ["id"]},
            "writeIndex": {"bucket": {"count": 4}},
        },
    ],
    "Writer": [
        _WRITER,
        {
            "tableRef": _REFERENCE,
            "source": {"files": {"batches": [{"files": ["a", "b"]}], "format": "JSON"}},
        },
    ],
    "CompactionPolicy": [
        _POLICY,
        {"target": {"tableSelector": {"matchLabels": {"a": "b"}}}, "triggers": {"elapsed": "1h"}},
    ],
    "RetentionPolicy": [
        _RETENTION,
        {
            "target": {"tableSelector": {"matchLabels": {"a": "b"}}},
            "cleaning": {"keep": {"hours": 24}},
        },
        {"target": {"tableRef": _REFERENCE}, "cleaning": {"keep": {"versions": 2}}},
    ],
    "Savepoint": [_SAVEPOINT],
    "IndexRequest": [_INDEX_REQUEST],
    "LockProvider": [
        {
            "type": "ZooKeeper",
            "embedded": False,
            "zookeeper": {"servers": ["zk-0:2181"], "basePath": "/hudi/locks"},
            "acquireTimeout": "60s",
        },
        {
            "type": "DynamoDB",
            "dynamodb": {
                "region": "eu-west-1",
                "table": "locks",
                "endpoint": "http://127.0.0.1:8000/",
            },
        },
        {
            "type": "HiveMetastore",
            "hiveMetastore": {"servers": ["metastore:9083"], "database": "lake"},
        },
    ],
    "TableAction": [
        _ACTION,
        {"tableRef": _REFERENCE, "type": "Compaction", "compaction": {"plan": _PLAN}},
        {"tableRef": _REFERENCE, "type": "Rollback", "rollback": {"instant": "20250101000000000"}},
        {"tableRef": _REFERENCE, "type": "Configure", "configure": {"chain": False}},
        {
            "tableRef": _REFERENCE,
            "type": "DeletePartitions",
            "deletePartitions": {"partitions": ["eu", "region=eu/day=1"]},
        },
        {"tableRef": _REFERENCE, "type": "DeleteRows", "deleteRows": {"where": "amount < 0"}},
        {"tableRef": _REFERENCE, "type": "MetadataInit", "metadataInit": {"rebuild": True}},
        {
            "tableRef": _REFERENCE,
            "type": "IndexBuild",
            "indexBuild": {
                "indexes": ["column_stats", "record_index", "secondary_index_city"],
                "partitioned": True,
                "columns": {"secondary_index_city": "city"},
                "statisticsColumns": ["city", "delay"],
                "validation": "Sample",
            },
        },
        {"tableRef": _REFERENCE, "type": "IndexDrop", "indexDrop": {"indexes": ["column_stats"]}},
        {"tableRef": _REFERENCE, "type": "Mirror", "mirror": {"keepSnapshots": 3}},
        {
            "tableRef": _REFERENCE,
            "type": "Mirror",
            "mirror": {"catalog": {"name": "glue", "table": "lake.flights"}},
        },
        {
            "tableRef": _REFERENCE,
            "type": "Clean",
            "clean": {"keep": {"commits": 3}, "readerGrace": "1h", "maxFiles": 10},
        },
        {"tableRef": _REFERENCE, "type": "Clean", "clean": {"keep": {"hours": 3}}},
        {"tableRef": _REFERENCE, "type": "Clean", "clean": {"keep": {"versions": 3}}},
        {
            "tableRef": _REFERENCE,
            "type": "Archive",
            "archive": {
                "minCommits": 20,
                "maxCommits": 30,
                "readableCommits": 10,
                "historyDays": 365,
            },
        },
        {
            "tableRef": _REFERENCE,
            "type": "CreateSavepoint",
            "createSavepoint": {"commit": "20250101000000000", "comment": "a"},
        },
        {
            "tableRef": _REFERENCE,
            "type": "DeleteSavepoints",
            "deleteSavepoints": {"commits": ["20250101000000000"], "olderThan": "7d"},
        },
    ],
}
