"""For every rule of every kind: specs that it accepts and specs that it refuses.

They are the same for the rule's two forms: the predicate (tests/unit/hoodie_operator) and the CEL
text (the tests on a real API server).
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Spec = dict[str, Any]

TABLE: Spec = {
    "storage": {"path": "flights"},
    "schema": {"columns": [{"name": "id", "type": "string"}, {"name": "n", "type": "int"}]},
    "keys": {"recordFields": ["id"]},
    "writeIndex": {"bucket": {"count": 4}},
}
WRITER: Spec = {
    "tableRef": {"name": "flights"},
    "source": {"files": {"path": "in/*.csv", "format": "CSV"}},
}
POLICY: Spec = {"target": {"tableRef": {"name": "flights"}}, "triggers": {"deltaCommits": 4}}
LOCK: Spec = {"type": "ZooKeeper", "embedded": True}
DYNAMODB: Spec = {"region": "eu-west-1", "table": "locks"}
HIVE: Spec = {"servers": ["metastore:9083"], "database": "lake"}
RETENTION: Spec = {
    "target": {"tableRef": {"name": "flights"}},
    "cleaning": {"keep": {"commits": 10}},
    "archiving": {"minCommits": 20, "maxCommits": 30},
}
SAVEPOINT: Spec = {"tableRef": {"name": "flights"}}
INDEX_REQUEST: Spec = {"tableRef": {"name": "flights"}, "indexes": ["column_stats"]}
CLEAN: Spec = {
    "tableRef": {"name": "flights"},
    "type": "Clean",
    "clean": {"keep": {"commits": 10}},
}
ACTION: Spec = {"tableRef": {"name": "flights"}, "type": "Compaction"}
DELETE_PARTITIONS: Spec = {
    "tableRef": {"name": "flights"},
    "type": "DeletePartitions",
    "deletePartitions": {"partitions": ["region=eu/day=2026-11-27"]},
}
DELETE_ROWS: Spec = {
    "tableRef": {"name": "flights"},
    "type": "DeleteRows",
    "deleteRows": {"where": "origin = 'ORD' and delay is null"},
}
INDEX_BUILD: Spec = {
    "tableRef": {"name": "flights"},
    "type": "IndexBuild",
    "indexBuild": {"indexes": ["column_stats"]},
}
INDEX_DROP: Spec = {
    "tableRef": {"name": "flights"},
    "type": "IndexDrop",
    "indexDrop": {"indexes": ["column_stats"]},
}
MIRROR: Spec = {
    "tableRef": {"name": "flights"},
    "type": "Mirror",
    "mirror": {"keepSnapshots": 3},
}
VALID: Mapping[str, Spec] = {
    "HudiTable": TABLE,
    "Writer": WRITER,
    "CompactionPolicy": POLICY,
    "RetentionPolicy": RETENTION,
    "Savepoint": SAVEPOINT,
    "IndexRequest": INDEX_REQUEST,
    "LockProvider": LOCK,
    "TableAction": ACTION,
}


def edited(base: Spec, **edits: object) -> Spec:
    """Return a spec with fields set by paths, `__` for dots; None takes a field away."""
    spec = copy.deepcopy(base)
    for path, value in edits.items():
        *folders, name = path.split("__")
        place = spec
        for folder in folders:
            place = place.setdefault(folder, {})
        if value is None:
            place.pop(name, None)
        else:
            place[name] = value
    return spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Examples:
    """What a rule within one spec says to some."""

    accepted: Sequence[Spec]
    refused: Sequence[Spec]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionExamples:
    """What a rule between two specs says to some: (old, new)."""

    accepted: Sequence[tuple[Spec, Spec]]
    refused: Sequence[tuple[Spec, Spec]]


def changes(base: Spec, field: str, old: object, new: object) -> TransitionExamples:
    """Return the examples of an immutable field: kept, and changed both ways."""
    before, after = edited(base, **{field: old}), edited(base, **{field: new})
    return TransitionExamples(
        accepted=[(before, before), (after, after)], refused=[(before, after), (after, before)]
    )


_LOCKED = {"concurrency__lockRef": {"name": "zk"}}
_KEY_OPTIONS = {"hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd"}
_NBCC = {"concurrency__mode": "NonBlocking", **_LOCKED}
_OCC = {"concurrency__mode": "Optimistic"}
_COUNTED = {
    "keys__partitionFields": ["n"],
    "writeIndex__bucket__partitionCounts": [{"pattern": "2026-0[1-6]", "count": 16}],
    "concurrency__externalWriters": True,
}
_IN_S3 = {"storage__path": "s3://lake/flights"}

_LAKE = {"name": "lake", "persistentVolumeClaim": "lake", "mountPath": "/data"}


def _variables_examples(base: Spec, field: str) -> Examples:
    """Return variables that only what reads them obeys, and those that make programs run others."""
    return Examples(
        accepted=[
            base,
            edited(base, **{field: {}}),
            edited(base, **{field: {"AWS_REGION": "eu-west-1", "MY_PYTHON": "x", "PATHS": "x"}}),
        ],
        refused=[
            edited(base, **{field: {"AWS_REGION": "eu-west-1", name: "x"}})
            for name in (
                *("PYTHONWARNINGS", "PYTHONPATH", "PYTHONSTARTUP", "BROWSER", "PATH", "HOME"),
                *("LD_PRELOAD", "LD_LIBRARY_PATH", "GCONV_PATH", "BASH_ENV", "ENV"),
                *("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "SPARK_HOME"),
                *("AWS_CONFIG_FILE", "HUDI_OPERATOR_POD_IP", "GOOGLE_EXTERNAL_ACCOUNT_ALLOW_X"),
            )
        ],
    )


def _runtime_examples(kind: str) -> dict[tuple[str, str], Examples]:
    base = VALID[kind]
    on_spark = {"runtime__engine": "Spark"}

    def sized(request: str | None, limit: str | None) -> Spec:
        amounts = {"requests": request, "limits": limit}
        return {name: {"memory": each} for name, each in amounts.items() if each is not None}

    fitting = [sized(None, None), sized("1Gi", None), sized(None, "1Gi"), sized("512Mi", "1Gi")]
    tight = [sized("1Gi", "512Mi"), sized("1Gi", "1G")]
    return {
        (kind, "variables-of-runtime"): _variables_examples(base, "runtime__env"),
        (kind, "spark-properties-of-operator"): Examples(
            accepted=[
                base,
                edited(base, **on_spark, runtime__sparkConf={}),
                edited(base, runtime__sparkConf={"spark.masters": "x", "spark.kubernetesx": "x"}),
                edited(base, **on_spark, runtime__sparkConf={"spark.executor.heartbeat": "9s"}),
            ],
            refused=[
                edited(base, **on_spark, runtime__sparkConf={"spark.ui.enabled": "x", key: "x"})
                for key in (
                    "spark.master",
                    "spark.kubernetes.authenticate.driver.serviceAccountName",
                    "spark.kubernetes.executor.volumes.hostPath.h.mount.path",
                )
            ],
        ),
        (kind, "executors-of-spark"): Examples(
            accepted=[base, edited(base, **on_spark, runtime__executors={"instances": 3})],
            refused=[edited(base, runtime__executors={})],
        ),
        (kind, "memory-of-run"): Examples(
            accepted=[edited(base, runtime__resources=each) for each in fitting],
            refused=[edited(base, runtime__resources=each) for each in tight],
        ),
        (kind, "memory-of-executors"): Examples(
            accepted=[
                edited(base, **on_spark, runtime__executors={"resources": each}) for each in fitting
            ],
            refused=[
                edited(base, **on_spark, runtime__executors={"resources": each}) for each in tight
            ],
        ),
    }


def _plan_examples(kind: str, base: Spec, place: str) -> Mapping[tuple[str, str], Examples]:
    """Return the examples of the rules of a plan of compactions."""

    def planned(**fields: object) -> Spec:
        return edited(base, **{place: fields})

    regex = {"strategies": ["PartitionRegex"], "partitionRegex": "^a"}
    minima = {"LogSize": "minLogBytes", "LogCount": "minLogFiles", "LogRatio": "minLogPercent"}
    return {
        (kind, "strategies-once"): Examples(
            accepted=[base, planned(), planned(strategies=["LogSize", "Unbounded"])],
            refused=[planned(strategies=["LogSize", "Unbounded", "LogSize"])],
        ),
        (kind, "partition-regex"): Examples(
            accepted=[planned(**regex), planned(strategies=["DayBased"])],
            refused=[planned(partitionRegex="^a"), planned(strategies=["PartitionRegex"])],
        ),
        (kind, "partition-days"): Examples(
            accepted=[
                planned(strategies=["LogSize", each], partitionDays=1)
                for each in ("DayBased", "RecentPartitions", "OldPartitions")
            ],
            refused=[planned(partitionDays=1), planned(**regex, partitionDays=1)],
        ),
        **{
            (kind, f"threshold-{strategy}"): Examples(
                accepted=[planned(strategies=["DayBased", strategy], **{field: 1})],
                refused=[planned(strategies=["Unbounded"], **{field: 1})],
            )
            for strategy, field in minima.items()
        },
    }


def _columns_examples(base: Spec, block: str) -> Examples:
    """Return specs with columns of secondary indexes, in a block or in the spec itself."""

    def of(indexes: Sequence[str], columns: Mapping[str, str] | None) -> Spec:
        return edited(base, **{f"{block}indexes": list(indexes), f"{block}columns": columns})

    both = ["record_index", "secondary_index_a"]
    return Examples(
        accepted=[base, of(both, {"secondary_index_a": "left"}), of(["column_stats"], {})],
        refused=[
            of(both, None),
            of(both, {"secondary_index_b": "left"}),
            of(["record_index"], {"record_index": "left"}),
            of(both, {"secondary_index_a": "left", "record_index": "left"}),
        ],
    )


def _statistics_examples(kind: str, base: Spec, block: str) -> dict[tuple[str, str], Examples]:
    """Return specs with columns of statistics, in a block or in the spec itself."""

    def of(columns: Sequence[str] | None, *indexes: str) -> Spec:
        changes = {f"{block}indexes": list(indexes), f"{block}statisticsColumns": columns}
        return edited(base, **changes)

    prefix = f"{block.removesuffix('__')}-" if block else ""
    return {
        (kind, f"{prefix}statistics-columns"): Examples(
            accepted=[base, of(["a", "b"], "column_stats"), of(None, "bloom_filters")],
            refused=[of(["a"], "bloom_filters")],
        ),
        (kind, f"{prefix}distinct-statistics-columns"): Examples(
            accepted=[base, of(["a", "b"], "column_stats")],
            refused=[of(["a", "b", "a"], "column_stats")],
        ),
    }


WITHIN: Mapping[tuple[str, str], Examples] = {
    **_runtime_examples("Writer"),
    **_runtime_examples("CompactionPolicy"),
    **_runtime_examples("RetentionPolicy"),
    **_runtime_examples("TableAction"),
    **_runtime_examples("IndexRequest"),
    ("HudiTable", "variables-of-storage"): _variables_examples(TABLE, "storage__env"),
    ("HudiTable", "one-schema"): Examples(
        accepted=[TABLE, edited(TABLE, schema={"avro": '{"type": "record"}'})],
        refused=[edited(TABLE, schema={}), edited(TABLE, schema__avro="{}")],
    ),
    ("HudiTable", "key-options-of-adopted-tables"): Examples(
        accepted=[TABLE, edited(TABLE, keys__options=_KEY_OPTIONS, adoption="AdoptOnly")],
        refused=[
            edited(TABLE, keys__options=_KEY_OPTIONS),
            edited(TABLE, keys__options=_KEY_OPTIONS, adoption="CreateOrAdopt"),
        ],
    ),
    # T-N01 (no bucket index, consistent buckets)
    ("HudiTable", "supported-index"): Examples(
        accepted=[
            TABLE,
            edited(TABLE, writeIndex__type="Bucket"),
            edited(TABLE, writeIndex={"type": "Simple"}),
            edited(TABLE, writeIndex={"type": "Bloom"}),
            edited(TABLE, writeIndex={"type": "GlobalSimple"}),
            edited(TABLE, writeIndex={"type": "GlobalBloom"}),
            edited(TABLE, writeIndex__bucket__engine="ConsistentHashing"),
        ],
        refused=[
            edited(TABLE, writeIndex={}),
            edited(TABLE, writeIndex__type="Simple"),
            edited(TABLE, writeIndex__type="Bloom"),
            edited(TABLE, writeIndex__type="GlobalBloom"),
        ],
    ),
    ("HudiTable", "table-of-rings"): Examples(
        accepted=[
            edited(TABLE, writeIndex__bucket__engine="ConsistentHashing"),
            edited(TABLE, tableType="CopyOnWrite"),
        ],
        refused=[
            edited(TABLE, tableType="CopyOnWrite", writeIndex__bucket__engine="ConsistentHashing"),
        ],
    ),
    ("HudiTable", "counts-of-partitions"): Examples(
        accepted=[
            edited(TABLE, **_COUNTED),
            edited(TABLE, **_COUNTED, tableType="CopyOnWrite", concurrency__mode="SingleWriter"),
        ],
        refused=[
            edited(TABLE, **{**_COUNTED, "concurrency__externalWriters": False}),
            edited(TABLE, **{**_COUNTED, "keys__partitionFields": []}),
            edited(TABLE, **_COUNTED, writeIndex__bucket__engine="ConsistentHashing"),
            edited(TABLE, **{**_COUNTED, **_NBCC}),
        ],
    ),
    ("HudiTable", "kept-partitions"): Examples(
        accepted=[
            edited(TABLE, writeIndex__updatesPartitions=True),
            edited(TABLE, writeIndex={"type": "GlobalSimple", "updatesPartitions": False}),
            edited(TABLE, writeIndex={"type": "GlobalBloom", "updatesPartitions": False}),
        ],
        refused=[
            edited(TABLE, writeIndex__updatesPartitions=False),
            edited(TABLE, writeIndex={"type": "Simple", "updatesPartitions": False}),
        ],
    ),
    ("HudiTable", "whole-records-that-move"): Examples(
        accepted=[
            edited(TABLE, writeIndex={"type": "Bloom"}, merge__partialUpdates=True),
            edited(
                TABLE,
                writeIndex={"type": "GlobalBloom", "updatesPartitions": False},
                merge__partialUpdates=True,
            ),
        ],
        refused=[
            edited(TABLE, writeIndex={"type": "GlobalBloom"}, merge__partialUpdates=True),
        ],
    ),
    ("HudiTable", "non-blocking-table"): Examples(
        accepted=[
            edited(TABLE, **_NBCC),
            edited(TABLE, tableType="CopyOnWrite"),
            edited(TABLE, writeIndex__type="Bloom"),
        ],
        refused=[
            edited(TABLE, **_NBCC, tableType="CopyOnWrite"),
            edited(TABLE, **_NBCC, writeIndex__type="Bloom"),
            edited(TABLE, **_NBCC, writeIndex={"type": "GlobalSimple"}),
            edited(TABLE, **_NBCC, writeIndex={}),
            edited(TABLE, **_NBCC, writeIndex__bucket__engine="ConsistentHashing"),
        ],
    ),
    # T-O19
    ("HudiTable", "non-blocking-lock"): Examples(
        accepted=[TABLE, edited(TABLE, **_NBCC), edited(TABLE, **_LOCKED)],
        refused=[edited(TABLE, concurrency__mode="NonBlocking")],
    ),
    ("HudiTable", "object-store-lock"): Examples(
        accepted=[
            TABLE,
            edited(TABLE, **_OCC),
            edited(TABLE, **_OCC, storage__path="/lake/flights"),
            edited(TABLE, **_OCC, storage__path="file:///lake/flights"),
            edited(TABLE, **_IN_S3, **_LOCKED),
            edited(TABLE, **_OCC, **_IN_S3, **_LOCKED),
        ],
        refused=[
            edited(TABLE, **_IN_S3),
            edited(TABLE, **_OCC, **_IN_S3),
            edited(TABLE, **_OCC, storage__path="gs://file/flights"),
        ],
    ),
    ("HudiTable", "retries-of-optimistic"): Examples(
        accepted=[
            edited(TABLE, **_OCC),
            edited(TABLE, **_OCC, concurrency__conflictRetries=0),
            edited(TABLE, **_OCC, concurrency__conflictRetries=100),
        ],
        refused=[
            edited(TABLE, concurrency__conflictRetries=0),
            edited(TABLE, **_NBCC, concurrency__conflictRetries=3),
        ],
    ),
    ("HudiTable", "resolution-of-optimistic"): Examples(
        accepted=[
            edited(TABLE, **_OCC, concurrency__conflictResolution="BucketIndex"),
            edited(TABLE, **_OCC, concurrency__conflictResolution="PreferWriter"),
        ],
        refused=[
            edited(TABLE, concurrency__conflictResolution="Simple"),
            edited(TABLE, **_NBCC, concurrency__conflictResolution="PreferWriter"),
        ],
    ),
    ("HudiTable", "early-detection-of-optimistic"): Examples(
        accepted=[
            TABLE,
            edited(TABLE, **_OCC, concurrency__earlyConflictDetection="SimpleDirectMarker"),
        ],
        refused=[
            edited(TABLE, concurrency__earlyConflictDetection="SimpleDirectMarker"),
            edited(TABLE, **_NBCC, concurrency__earlyConflictDetection="TransactionalDirectMarker"),
        ],
    ),
    ("HudiTable", "acknowledgement-of-non-blocking"): Examples(
        accepted=[
            edited(TABLE, **_OCC),
            edited(TABLE, **_OCC, concurrency__acknowledgeOrderDependence=False),
            edited(TABLE, **_NBCC, concurrency__acknowledgeOrderDependence=True),
        ],
        refused=[edited(TABLE, **_OCC, concurrency__acknowledgeOrderDependence=True)],
    ),
    ("HudiTable", "deletes-kept-in-hours"): Examples(
        accepted=[
            TABLE,
            edited(TABLE, services__compaction="Operator"),
            *(edited(TABLE, services__deletesKept=kept) for kept in ("1h", "7d", "1d12h")),
        ],
        refused=[
            edited(TABLE, services__deletesKept=kept) for kept in ("90m", "1h30m", "3600s", "1ms")
        ],
    ),
    ("HudiTable", "event-time-ordering"): Examples(
        accepted=[
            TABLE,
            edited(TABLE, merge__mode="EventTime", keys__orderingFields=["n"]),
        ],
        refused=[
            edited(TABLE, merge__mode="EventTime"),
            edited(TABLE, merge__mode="EventTime", keys__orderingFields=[]),
        ],
    ),
    ("HudiTable", "commit-time-without-ordering"): Examples(
        accepted=[TABLE, edited(TABLE, merge__mode="EventTime", keys__orderingFields=["n"])],
        refused=[edited(TABLE, keys__orderingFields=["n"])],
    ),
    ("HudiTable", "partial-updates-by-commit-time"): Examples(
        accepted=[
            edited(TABLE, **_NBCC, merge__partialUpdates=True),
            edited(TABLE, merge={"mode": "EventTime", "partialUpdates": True}),
            edited(TABLE, **_OCC, merge={"mode": "EventTime", "partialUpdates": True}),
            edited(
                TABLE,
                **_NBCC,
                merge={"mode": "EventTime", "partialUpdates": True},
                concurrency__acknowledgeOrderDependence=True,
            ),
        ],
        refused=[edited(TABLE, **_NBCC, merge={"mode": "EventTime", "partialUpdates": True})],
    ),
    ("HudiTable", "one-ordering-field-in-version-8"): Examples(
        accepted=[
            edited(TABLE, keys__orderingFields=["n", "id"]),
            edited(TABLE, tableVersion=8, keys__orderingFields=["n"]),
        ],
        refused=[edited(TABLE, tableVersion=8, keys__orderingFields=["n", "id"])],
    ),
    ("HudiTable", "distinct-record-fields"): Examples(
        accepted=[TABLE, edited(TABLE, keys__recordFields=["id", "n"])],
        refused=[edited(TABLE, keys__recordFields=["id", "n", "id"])],
    ),
    ("HudiTable", "distinct-partition-fields"): Examples(
        accepted=[TABLE, edited(TABLE, keys__partitionFields=["id", "n"])],
        refused=[edited(TABLE, keys__partitionFields=["n", "n"])],
    ),
    ("HudiTable", "bucket-of-key"): Examples(
        accepted=[
            TABLE,
            edited(TABLE, writeIndex={}),
            edited(TABLE, keys__recordFields=["id", "n"], writeIndex__bucket__fields=["n"]),
        ],
        refused=[edited(TABLE, writeIndex__bucket__fields=["n"])],
    ),
    ("HudiTable", "distinct-volumes"): Examples(
        accepted=[
            edited(TABLE, storage__volumes=[_LAKE]),
            edited(TABLE, storage__volumes=[_LAKE, {**_LAKE, "name": "b", "mountPath": "/b"}]),
        ],
        refused=[
            edited(TABLE, storage__volumes=[_LAKE, {**_LAKE, "mountPath": "/b"}]),
            edited(TABLE, storage__volumes=[_LAKE, {**_LAKE, "name": "b"}]),
        ],
    ),
    ("HudiTable", "volumes-beside-ours"): Examples(
        accepted=[
            edited(TABLE, storage__volumes=[_LAKE]),
            edited(TABLE, storage__volumes=[{**_LAKE, "mountPath": "/tmpfiles"}]),
        ],
        refused=[
            edited(TABLE, storage__volumes=[{**_LAKE, "mountPath": folder}])
            for folder in ("/tmp", "/work/lake", "/etc/hudi-operator")
        ],
    ),
    ("Writer", "path-or-batches"): Examples(
        accepted=[
            WRITER,
            edited(
                WRITER,
                source__files__path=None,
                source__files__batches=[{"files": ["a.csv", "b.csv"]}],
            ),
        ],
        refused=[
            edited(WRITER, source__files__path=None),
            edited(WRITER, source__files__batches=[{"files": ["a.csv"]}]),
        ],
    ),
    ("Writer", "files-per-commit-with-path"): Examples(
        accepted=[WRITER, edited(WRITER, source__files__filesPerCommit=3)],
        refused=[
            edited(
                WRITER,
                source__files__path=None,
                source__files__batches=[{"files": ["a.csv"]}],
                source__files__filesPerCommit=3,
            )
        ],
    ),
    ("Writer", "input-on-a-file-system"): Examples(
        accepted=[
            edited(WRITER, source__files__path="/inbox/*.csv"),
            edited(WRITER, source__files__path="file:///inbox/*.csv"),
        ],
        refused=[
            edited(WRITER, source__files__path="s3://lake/inbox/*.csv"),
            edited(WRITER, source__files__path="gs://file://a.csv"),
        ],
    ),
    ("Writer", "csv-for-csv"): Examples(
        accepted=[
            edited(WRITER, source__files__csv={"nullText": "NA"}),
            edited(WRITER, source__files__format="JSON"),
        ],
        refused=[edited(WRITER, source__files__csv={}, source__files__format="Parquet")],
    ),
    ("Writer", "add-columns-of-parquet"): Examples(
        accepted=[
            edited(WRITER, source__files__addColumns=False),
            edited(WRITER, source__files__addColumns=True, source__files__format="Parquet"),
        ],
        refused=[
            edited(WRITER, source__files__addColumns=True),
            edited(WRITER, source__files__addColumns=True, source__files__format="JSON"),
        ],
    ),
    ("Writer", "sort-by-of-bulk-insert"): Examples(
        accepted=[
            edited(WRITER, operation="BulkInsert"),
            edited(WRITER, operation="BulkInsert", sortBy=["day", "amount"]),
        ],
        refused=[
            edited(WRITER, sortBy=["day"]),
            edited(WRITER, operation="Insert", sortBy=["day"]),
        ],
    ),
    ("Writer", "sort-columns-once"): Examples(
        accepted=[edited(WRITER, operation="BulkInsert", sortBy=["day", "Day"])],
        refused=[edited(WRITER, operation="BulkInsert", sortBy=["day", "amount", "day"])],
    ),
    ("CompactionPolicy", "one-target"): Examples(
        accepted=[POLICY, edited(POLICY, target={"tableSelector": {"matchLabels": {"a": "b"}}})],
        refused=[
            edited(POLICY, target={}),
            edited(POLICY, target__tableSelector={"matchLabels": {"a": "b"}}),
        ],
    ),
    ("CompactionPolicy", "one-trigger"): Examples(
        accepted=[
            POLICY,
            edited(POLICY, triggers={"logBytes": "1Gi"}),
            edited(POLICY, triggers={"logBytes": 1000}),
            edited(POLICY, triggers={"elapsed": "1h"}),
        ],
        refused=[edited(POLICY, triggers={}), edited(POLICY, triggers={"match": "All"})],
    ),
    ("CompactionPolicy", "stuck-is-reported"): Examples(
        accepted=[
            edited(POLICY, stuck={"after": "1h"}),
            edited(POLICY, stuck={"action": "Report"}),
        ],
        refused=[edited(POLICY, stuck={"action": "RollBack"})],
    ),
    ("RetentionPolicy", "one-target"): Examples(
        accepted=[
            RETENTION,
            edited(RETENTION, target={"tableSelector": {"matchLabels": {"a": "b"}}}),
        ],
        refused=[
            edited(RETENTION, target={}),
            edited(RETENTION, target__tableSelector={"matchLabels": {"a": "b"}}),
        ],
    ),
    ("RetentionPolicy", "one-service"): Examples(
        accepted=[
            edited(RETENTION, cleaning=None),
            edited(RETENTION, archiving=None),
            edited(RETENTION, cleaning=None, archiving=None, savepoints={"expireAfter": "7d"}),
        ],
        refused=[edited(RETENTION, cleaning=None, archiving=None)],
    ),
    ("RetentionPolicy", "one-measure"): Examples(
        accepted=[
            edited(RETENTION, cleaning__keep={"hours": 24}),
            edited(RETENTION, cleaning__keep={"versions": 3}),
        ],
        refused=[
            edited(RETENTION, cleaning__keep={}),
            edited(RETENTION, cleaning__keep={"commits": 5, "hours": 24}),
        ],
    ),
    ("RetentionPolicy", "cleaning-trigger"): Examples(
        accepted=[
            edited(RETENTION, cleaning__triggers={"commits": 1}),
            edited(RETENTION, cleaning__triggers={"elapsed": "1h"}),
        ],
        refused=[edited(RETENTION, cleaning__triggers={"match": "All"})],
    ),
    ("RetentionPolicy", "archiving-bounds"): Examples(
        accepted=[edited(RETENTION, archiving={"minCommits": 11, "maxCommits": 12})],
        refused=[
            edited(RETENTION, archiving={"minCommits": 20, "maxCommits": 20}),
            edited(RETENTION, archiving={"minCommits": 40}),
        ],
    ),
    ("RetentionPolicy", "archiving-after-cleaning"): Examples(
        accepted=[
            edited(RETENTION, cleaning__keep={"commits": 19}),
            edited(RETENTION, cleaning__keep={"hours": 100}),
        ],
        refused=[edited(RETENTION, cleaning__keep={"commits": 20})],
    ),
    ("RetentionPolicy", "history-of-readable-hours"): Examples(
        accepted=[
            edited(RETENTION, archiving__historyDays=7),
            edited(RETENTION, archiving__historyDays=7, cleaning__keep={"hours": 168}),
            edited(RETENTION, archiving__historyDays=7, cleaning=None),
        ],
        refused=[edited(RETENTION, archiving__historyDays=7, cleaning__keep={"hours": 169})],
    ),
    **_plan_examples("CompactionPolicy", POLICY, "plan"),
    **_plan_examples("Writer", WRITER, "compaction__plan"),
    **_plan_examples("TableAction", ACTION, "compaction__plan"),
    ("TableAction", "dry-run"): Examples(
        accepted=[edited(CLEAN, dryRun=True), edited(ACTION, type="Archive", dryRun=True)],
        refused=[edited(ACTION, dryRun=True), edited(ACTION, type="Rollback", dryRun=True)],
    ),
    ("TableAction", "clean-needs-keep"): Examples(
        accepted=[CLEAN], refused=[edited(ACTION, type="Clean")]
    ),
    ("TableAction", "one-measure"): Examples(
        accepted=[edited(CLEAN, clean__keep={"hours": 24})],
        refused=[edited(CLEAN, clean__keep={}), edited(CLEAN, clean__keep__versions=2)],
    ),
    ("TableAction", "savepoints-to-delete"): Examples(
        accepted=[
            edited(ACTION, type="DeleteSavepoints", deleteSavepoints={"olderThan": "7d"}),
            edited(
                ACTION,
                type="DeleteSavepoints",
                deleteSavepoints={"commits": ["20250101000000000"]},
            ),
        ],
        refused=[
            edited(ACTION, type="DeleteSavepoints"),
            edited(ACTION, type="DeleteSavepoints", deleteSavepoints={}),
        ],
    ),
    ("TableAction", "archive-bounds"): Examples(
        accepted=[edited(ACTION, type="Archive", archive={"minCommits": 2, "maxCommits": 3})],
        refused=[edited(ACTION, type="Archive", archive={"minCommits": 3, "maxCommits": 3})],
    ),
    ("TableAction", "archive-after-cleaning"): Examples(
        accepted=[edited(ACTION, type="Archive", archive={"readableCommits": 19})],
        refused=[edited(ACTION, type="Archive", archive={"readableCommits": 20})],
    ),
    ("TableAction", "instant-or-plan"): Examples(
        accepted=[edited(ACTION, compaction={"instant": "20250101000000000"})],
        refused=[
            edited(
                ACTION, compaction={"instant": "20250101000000000", "plan": {"maxFileGroups": 1}}
            )
        ],
    ),
    ("LockProvider", "zookeeper-block"): Examples(
        accepted=[
            LOCK,
            edited(LOCK, embedded=None, zookeeper={"servers": ["zk-0.zk:2181"]}),
            {"type": "FileSystem"},
        ],
        refused=[{"type": "FileSystem", "zookeeper": {"basePath": "/hudi"}}],
    ),
    ("LockProvider", "dynamodb-block"): Examples(
        accepted=[{"type": "DynamoDB", "dynamodb": DYNAMODB}, {"type": "Storage"}],
        refused=[{"type": "DynamoDB"}, {"type": "Storage", "dynamodb": DYNAMODB}],
    ),
    ("LockProvider", "hive-metastore-block"): Examples(
        accepted=[{"type": "HiveMetastore", "hiveMetastore": HIVE}, {"type": "Storage"}],
        refused=[{"type": "HiveMetastore"}, {"type": "FileSystem", "hiveMetastore": HIVE}],
    ),
    ("LockProvider", "embedded-zookeeper"): Examples(
        accepted=[LOCK, {"type": "InProcess"}],
        refused=[{"type": "InProcess", "embedded": True}],
    ),
    ("LockProvider", "servers-or-embedded"): Examples(
        accepted=[
            LOCK,
            edited(LOCK, zookeeper={"basePath": "/hudi"}),
            edited(LOCK, embedded=None, zookeeper={"servers": ["zk:2181"]}),
            {"type": "FileSystem"},
        ],
        refused=[
            edited(LOCK, embedded=None),
            edited(LOCK, embedded=None, zookeeper={"basePath": "/hudi"}),
            edited(LOCK, zookeeper={"servers": ["zk:2181"]}),
        ],
    ),
    ("TableAction", "compaction-block"): Examples(
        accepted=[ACTION, edited(ACTION, compaction={"instant": "20250101000000000"})],
        refused=[edited(ACTION, type="Rollback", compaction={})],
    ),
    ("TableAction", "rollback-block"): Examples(
        accepted=[edited(ACTION, type="Rollback", rollback={"instant": "20250101000000000"})],
        refused=[edited(ACTION, rollback={})],
    ),
    ("TableAction", "clean-block"): Examples(
        accepted=[CLEAN], refused=[edited(ACTION, clean={"keep": {"commits": 1}})]
    ),
    ("TableAction", "archive-block"): Examples(
        accepted=[edited(ACTION, type="Archive"), edited(ACTION, type="Archive", archive={})],
        refused=[edited(ACTION, archive={})],
    ),
    ("TableAction", "createSavepoint-block"): Examples(
        accepted=[edited(ACTION, type="CreateSavepoint", createSavepoint={"comment": "a"})],
        refused=[edited(ACTION, createSavepoint={})],
    ),
    ("TableAction", "deleteSavepoints-block"): Examples(
        accepted=[edited(ACTION, type="DeleteSavepoints", deleteSavepoints={"olderThan": "1d"})],
        refused=[edited(ACTION, deleteSavepoints={"olderThan": "1d"})],
    ),
    ("TableAction", "deletePartitions-block"): Examples(
        accepted=[DELETE_PARTITIONS], refused=[edited(DELETE_PARTITIONS, type="Compaction")]
    ),
    ("TableAction", "partitions-to-delete"): Examples(
        accepted=[ACTION, DELETE_PARTITIONS],
        refused=[edited(DELETE_PARTITIONS, deletePartitions=None)],
    ),
    ("TableAction", "deleteRows-block"): Examples(
        accepted=[DELETE_ROWS], refused=[edited(DELETE_ROWS, type="Compaction")]
    ),
    ("TableAction", "rows-to-delete"): Examples(
        accepted=[ACTION, DELETE_ROWS],
        refused=[edited(DELETE_ROWS, deleteRows=None)],
    ),
    ("TableAction", "indexBuild-block"): Examples(
        accepted=[INDEX_BUILD], refused=[edited(INDEX_BUILD, type="Compaction")]
    ),
    ("TableAction", "indexes-to-build"): Examples(
        accepted=[ACTION, INDEX_BUILD], refused=[edited(INDEX_BUILD, indexBuild=None)]
    ),
    ("TableAction", "partitioned-record-index"): Examples(
        accepted=[
            ACTION,
            INDEX_BUILD,
            edited(INDEX_BUILD, indexBuild={"indexes": ["record_index"], "partitioned": True}),
        ],
        refused=[edited(INDEX_BUILD, indexBuild__partitioned=True)],
    ),
    ("TableAction", "indexDrop-block"): Examples(
        accepted=[INDEX_DROP], refused=[edited(INDEX_DROP, type="Compaction")]
    ),
    ("TableAction", "mirror-block"): Examples(
        accepted=[MIRROR, edited(MIRROR, mirror=None)],
        refused=[edited(MIRROR, type="Compaction")],
    ),
    ("TableAction", "indexes-to-drop"): Examples(
        accepted=[ACTION, INDEX_DROP], refused=[edited(INDEX_DROP, indexDrop=None)]
    ),
    ("IndexRequest", "distinct-indexes"): Examples(
        accepted=[
            INDEX_REQUEST,
            edited(INDEX_REQUEST, indexes=["column_stats", "bloom_filters"]),
        ],
        refused=[edited(INDEX_REQUEST, indexes=["column_stats", "column_stats"])],
    ),
    ("IndexRequest", "partitioned-record-index"): Examples(
        accepted=[
            INDEX_REQUEST,
            edited(INDEX_REQUEST, indexes=["column_stats", "record_index"], partitioned=True),
        ],
        refused=[edited(INDEX_REQUEST, indexes=["column_stats"], partitioned=True)],
    ),
    **_statistics_examples("IndexRequest", INDEX_REQUEST, ""),
    **_statistics_examples("TableAction", INDEX_BUILD, "indexBuild__"),
    ("IndexRequest", "columns"): _columns_examples(INDEX_REQUEST, ""),
    ("TableAction", "indexBuild-columns"): _columns_examples(INDEX_BUILD, "indexBuild__"),
    ("TableAction", "configure-block"): Examples(
        accepted=[edited(ACTION, type="Configure", configure={"chain": False})],
        refused=[edited(ACTION, configure={})],
    ),
    ("TableAction", "metadataInit-block"): Examples(
        accepted=[edited(ACTION, type="MetadataInit", metadataInit={"rebuild": True})],
        refused=[edited(ACTION, type="MetadataDrop", metadataInit={})],
    ),
}

BETWEEN: Mapping[tuple[str, str], TransitionExamples] = {
    ("HudiTable", "provisioned-tableName"): changes(TABLE, "tableName", None, "flights"),
    ("HudiTable", "provisioned-database"): changes(TABLE, "database", "a", "b"),
    ("HudiTable", "immutable-storage.path"): changes(TABLE, "storage__path", "a", "b"),
    ("HudiTable", "provisioned-tableType"): changes(
        TABLE, "tableType", "MergeOnRead", "CopyOnWrite"
    ),
    ("HudiTable", "provisioned-tableVersion"): changes(TABLE, "tableVersion", 8, 9),
    ("HudiTable", "provisioned-keys"): changes(TABLE, "keys__recordFields", ["id"], ["n"]),
    ("HudiTable", "provisioned-merge"): changes(TABLE, "merge__partialUpdates", None, True),
    ("HudiTable", "provisioned-writeIndex"): changes(TABLE, "writeIndex__bucket__count", 4, 8),
    ("HudiTable", "provisioned-timeZone"): changes(TABLE, "timeZone", None, "Europe/Berlin"),
    ("HudiTable", "provisioned-schema"): changes(
        TABLE,
        "schema__columns",
        [{"name": "id", "type": "string"}],
        [{"name": "id", "type": "string"}, {"name": "left", "type": "double"}],
    ),
    ("Writer", "immutable-tableRef"): changes(WRITER, "tableRef__name", "a", "b"),
    ("Writer", "immutable-writerId"): changes(WRITER, "writerId", None, "w"),
    ("LockProvider", "immutable-type"): changes({}, "type", "Storage", "FileSystem"),
    ("TableAction", "immutable-tableRef"): changes(ACTION, "tableRef__name", "a", "b"),
    ("TableAction", "immutable-type"): changes(ACTION, "type", "Compaction", "Rollback"),
    ("TableAction", "immutable-compaction"): changes(
        ACTION, "compaction", None, {"instant": "20250101000000000"}
    ),
    ("TableAction", "immutable-rollback"): changes(
        edited(ACTION, type="Rollback"), "rollback", None, {"instant": "20250101000000000"}
    ),
    ("TableAction", "immutable-deletePartitions"): changes(
        DELETE_PARTITIONS, "deletePartitions__partitions", ["a"], ["b"]
    ),
    ("TableAction", "immutable-deleteRows"): changes(
        DELETE_ROWS, "deleteRows__where", "delay < 0", "delay <= 0"
    ),
    ("TableAction", "immutable-configure"): changes(
        edited(ACTION, type="Configure"), "configure", None, {"chain": False}
    ),
    ("TableAction", "immutable-metadataInit"): changes(
        edited(ACTION, type="MetadataInit"), "metadataInit", None, {"rebuild": True}
    ),
    ("TableAction", "immutable-indexBuild"): changes(
        INDEX_BUILD, "indexBuild__validation", "Sample", "Whole"
    ),
    ("TableAction", "immutable-mirror"): changes(MIRROR, "mirror__keepSnapshots", 3, 4),
    ("TableAction", "immutable-indexDrop"): changes(
        INDEX_DROP, "indexDrop__indexes", ["column_stats"], ["bloom_filters"]
    ),
    ("IndexRequest", "immutable-tableRef"): changes(INDEX_REQUEST, "tableRef__name", "a", "b"),
    ("IndexRequest", "immutable-indexes"): changes(
        INDEX_REQUEST, "indexes", ["column_stats"], ["bloom_filters"]
    ),
    ("IndexRequest", "immutable-partitioned"): changes(
        edited(INDEX_REQUEST, indexes=["record_index"]), "partitioned", False, True
    ),
    ("IndexRequest", "immutable-columns"): changes(
        edited(INDEX_REQUEST, indexes=["secondary_index_a"]),
        "columns",
        {"secondary_index_a": "left"},
        {"secondary_index_a": "right"},
    ),
    ("TableAction", "immutable-clean"): changes(
        CLEAN, "clean__keep", {"commits": 1}, {"commits": 2}
    ),
    ("TableAction", "immutable-archive"): changes(
        edited(ACTION, type="Archive"), "archive", None, {}
    ),
    ("TableAction", "immutable-createSavepoint"): changes(
        edited(ACTION, type="CreateSavepoint"), "createSavepoint", None, {"comment": "a"}
    ),
    ("TableAction", "immutable-deleteSavepoints"): changes(
        edited(ACTION, type="DeleteSavepoints"),
        "deleteSavepoints",
        {"olderThan": "1d"},
        {"olderThan": "2d"},
    ),
    ("TableAction", "immutable-dryRun"): changes(CLEAN, "dryRun", False, True),
    ("TableAction", "immutable-priority"): changes(ACTION, "priority", 0, 1),
    ("TableAction", "immutable-approval"): changes(ACTION, "approval", False, True),
    ("Savepoint", "immutable-tableRef"): changes(SAVEPOINT, "tableRef__name", "a", "b"),
    ("Savepoint", "immutable-commit"): changes(SAVEPOINT, "commit", None, "20250101000000000"),
    ("Savepoint", "immutable-comment"): changes(SAVEPOINT, "comment", None, "a"),
    ("TableAction", "immutable-runtime"): changes(ACTION, "runtime__engine", "Local", "Spark"),
    ("TableAction", "immutable-retry"): changes(ACTION, "retry__limit", 5, 6),
    ("TableAction", "immutable-timeLimit"): changes(ACTION, "timeLimit", "2h", "3h"),
}
