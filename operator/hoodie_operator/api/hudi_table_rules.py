"""What a HudiTable's spec must satisfy, beyond the types of its fields."""

import re

from hoodie_operator.api import execution, hudi_table, rules

_SIMPLE_BUCKET_CEL = (
    "self.writeIndex.type == 'Bucket' && has(self.writeIndex.bucket) "
    "&& self.writeIndex.bucket.engine == 'Simple'"
)

_GLOBAL_INDEX_CEL = "self.writeIndex.type in ['GlobalSimple', 'GlobalBloom']"

_HOURS_PATTERN = "^([0-9]+[dh])+$"

_IS_THERE = "cannot be changed once the table was created or adopted"

RULES: rules.Rules[hudi_table.HudiTableSpec] = rules.Rules(
    within=(
        rules.Rule(
            name="one-schema",
            field="schema",
            message="needs exactly one of columns and avro",
            cel="has(self.schema.columns) != has(self.schema.avro)",
            holds=lambda spec: (spec.schema_.columns is None) != (spec.schema_.avro is None),
        ),
        execution.variables_rule("storage.env", lambda spec: spec.storage.env),
        rules.Rule(
            name="key-options-of-adopted-tables",
            field="keys.options",
            message="needs adoption AdoptOnly: a new table has no such key generator",
            cel="!has(self.keys.options) || self.adoption == 'AdoptOnly'",
            holds=lambda spec: (
                spec.keys.options is None or spec.adoption is hudi_table.Adoption.ADOPT_ONLY
            ),
        ),
        rules.Rule(
            name="supported-index",
            field="writeIndex",
            message="must have a bucket with type Bucket, and none with another type",
            cel="(self.writeIndex.type == 'Bucket') == has(self.writeIndex.bucket)",
            holds=lambda spec: (
                (spec.write_index.type is hudi_table.IndexType.BUCKET)
                == (spec.write_index.bucket is not None)
            ),
        ),
        rules.Rule(
            name="table-of-rings",
            field="writeIndex.bucket.engine",
            message="ConsistentHashing needs tableType MergeOnRead",
            cel=(
                "!has(self.writeIndex.bucket) || self.writeIndex.bucket.engine == 'Simple' "
                "|| self.tableType == 'MergeOnRead'"
            ),
            holds=lambda spec: (
                spec.write_index.bucket is None
                or spec.write_index.bucket.engine is hudi_table.BucketEngine.SIMPLE
                or not spec.is_copy_on_write
            ),
        ),
        rules.Rule(
            name="counts-of-partitions",
            field="writeIndex.bucket.partitionCounts",
            message=(
                "needs engine Simple, keys.partitionFields, concurrency.externalWriters and a "
                "concurrency.mode other than NonBlocking"
            ),
            cel=(
                "!has(self.writeIndex.bucket) || !has(self.writeIndex.bucket.partitionCounts) "
                "|| (self.writeIndex.bucket.engine == 'Simple' "
                "&& self.keys.partitionFields.size() > 0 && self.concurrency.externalWriters "
                "&& self.concurrency.mode != 'NonBlocking')"
            ),
            holds=lambda spec: (
                spec.write_index.bucket is None
                or spec.write_index.bucket.partition_counts is None
                or (
                    spec.is_simple_bucket
                    and bool(spec.keys.partition_fields)
                    and spec.concurrency.external_writers
                    and not spec.is_non_blocking
                )
            ),
        ),
        rules.Rule(
            name="kept-partitions",
            field="writeIndex.updatesPartitions",
            message="may be false with type GlobalSimple or GlobalBloom only",
            cel=f"self.writeIndex.updatesPartitions || {_GLOBAL_INDEX_CEL}",
            holds=lambda spec: (
                spec.write_index.updates_partitions or spec.write_index.type.is_global
            ),
        ),
        rules.Rule(
            name="whole-records-that-move",
            field="writeIndex.updatesPartitions",
            message=(
                "must be false with merge.partialUpdates and a global index: a record that moves "
                "to another partition is written as a whole"
            ),
            cel=(
                "!self.merge.partialUpdates || !self.writeIndex.updatesPartitions || "
                f"!({_GLOBAL_INDEX_CEL})"
            ),
            holds=lambda spec: (
                not (
                    spec.merge.partial_updates
                    and spec.write_index.updates_partitions
                    and spec.write_index.type.is_global
                )
            ),
        ),
        rules.Rule(
            name="non-blocking-table",
            field="concurrency.mode",
            message=(
                "NonBlocking needs tableType MergeOnRead and writeIndex Bucket with engine Simple"
            ),
            cel=(
                "self.concurrency.mode != 'NonBlocking' || "
                f"(self.tableType == 'MergeOnRead' && {_SIMPLE_BUCKET_CEL})"
            ),
            holds=lambda spec: (
                not spec.is_non_blocking or (not spec.is_copy_on_write and spec.is_simple_bucket)
            ),
        ),
        rules.Rule(
            name="non-blocking-lock",
            field="concurrency.lockRef",
            message="is required with mode NonBlocking",
            cel="self.concurrency.mode != 'NonBlocking' || has(self.concurrency.lockRef)",
            holds=lambda spec: not spec.is_non_blocking or spec.concurrency.lock_ref is not None,
        ),
        rules.Rule(
            name="object-store-lock",
            field="concurrency.lockRef",
            message=(
                "is required if storage.path is in an object store, and must name a LockProvider "
                "of another type than FileSystem: object stores do not support lock files"
            ),
            cel=(
                "has(self.concurrency.lockRef) || !self.storage.path.contains('://') "
                "|| self.storage.path.startsWith('file://')"
            ),
            holds=lambda spec: (
                spec.concurrency.lock_ref is not None
                or "://" not in spec.storage.path
                or spec.storage.path.startswith("file://")
            ),
        ),
        rules.Rule(
            name="retries-of-optimistic",
            field="concurrency.conflictRetries",
            message="is valid with mode Optimistic only: no other mode has conflicts",
            cel=("!has(self.concurrency.conflictRetries) || self.concurrency.mode == 'Optimistic'"),
            holds=lambda spec: spec.concurrency.conflict_retries is None or spec.is_optimistic,
        ),
        rules.Rule(
            name="resolution-of-optimistic",
            field="concurrency.conflictResolution",
            message="is valid with mode Optimistic only: no other mode has conflicts",
            cel=(
                "!has(self.concurrency.conflictResolution) || self.concurrency.mode == 'Optimistic'"
            ),
            holds=lambda spec: spec.concurrency.conflict_resolution is None or spec.is_optimistic,
        ),
        rules.Rule(
            name="early-detection-of-optimistic",
            field="concurrency.earlyConflictDetection",
            message="is valid with mode Optimistic only: no other mode has conflicts",
            cel=(
                "!has(self.concurrency.earlyConflictDetection) "
                "|| self.concurrency.mode == 'Optimistic'"
            ),
            holds=lambda spec: (
                spec.concurrency.early_conflict_detection is None or spec.is_optimistic
            ),
        ),
        rules.Rule(
            name="acknowledgement-of-non-blocking",
            field="concurrency.acknowledgeOrderDependence",
            message="is not valid with mode Optimistic: its result never depends on compactions",
            cel=(
                "self.concurrency.mode != 'Optimistic' "
                "|| !self.concurrency.acknowledgeOrderDependence"
            ),
            holds=lambda spec: (
                not spec.is_optimistic or not spec.concurrency.acknowledge_order_dependence
            ),
        ),
        rules.Rule(
            name="deletes-kept-in-hours",
            field="services.deletesKept",
            message="must be in whole hours, in units of d and h, such as 12h or 7d",
            cel=(
                "!has(self.services.deletesKept) "
                f"|| self.services.deletesKept.matches('{_HOURS_PATTERN}')"
            ),
            holds=lambda spec: (
                spec.services.deletes_kept is None
                or re.fullmatch(_HOURS_PATTERN, spec.services.deletes_kept, re.ASCII) is not None
            ),
        ),
        rules.Rule(
            name="event-time-ordering",
            field="keys.orderingFields",
            message="needs at least one field with merge mode EventTime",
            cel="self.merge.mode != 'EventTime' || size(self.keys.orderingFields) > 0",
            holds=lambda spec: (
                spec.merge.mode is not hudi_table.MergeMode.EVENT_TIME
                or bool(spec.keys.ordering_fields)
            ),
        ),
        rules.Rule(
            name="commit-time-without-ordering",
            field="keys.orderingFields",
            message=(
                "must be empty with merge mode CommitTime: Apache Hudi would change such a table "
                "to event time"
            ),
            cel="self.merge.mode != 'CommitTime' || size(self.keys.orderingFields) == 0",
            holds=lambda spec: (
                spec.merge.mode is not hudi_table.MergeMode.COMMIT_TIME
                or not spec.keys.ordering_fields
            ),
        ),
        rules.Rule(
            name="partial-updates-by-commit-time",
            field="merge.partialUpdates",
            message=(
                "needs merge mode CommitTime with NonBlocking writers, or "
                "acknowledgeOrderDependence: with event time the result would depend on the time "
                "of compactions"
            ),
            cel=(
                "!self.merge.partialUpdates || self.merge.mode == 'CommitTime' "
                "|| self.concurrency.mode != 'NonBlocking' "
                "|| self.concurrency.acknowledgeOrderDependence"
            ),
            holds=lambda spec: (
                not spec.merge.partial_updates
                or spec.merge.mode is hudi_table.MergeMode.COMMIT_TIME
                or not spec.is_non_blocking
                or spec.concurrency.acknowledge_order_dependence
            ),
        ),
        rules.Rule(
            name="one-ordering-field-in-version-8",
            field="keys.orderingFields",
            message="must not have more than one field with tableVersion 8",
            cel="self.tableVersion != 8 || size(self.keys.orderingFields) <= 1",
            holds=lambda spec: spec.table_version != 8 or len(spec.keys.ordering_fields) <= 1,  # noqa: PLR2004 - the format's own number
        ),
        rules.Rule(
            name="distinct-record-fields",
            field="keys.recordFields",
            message="must not contain a name twice",
            cel="self.keys.recordFields.all(f, self.keys.recordFields.exists_one(g, g == f))",
            holds=lambda spec: rules.have_no_duplicates(spec.keys.record_fields),
        ),
        rules.Rule(
            name="distinct-partition-fields",
            field="keys.partitionFields",
            message="must not contain a name twice",
            cel=(
                "self.keys.partitionFields.all(f, self.keys.partitionFields.exists_one(g, g == f))"
            ),
            holds=lambda spec: rules.have_no_duplicates(spec.keys.partition_fields),
        ),
        rules.Rule(
            name="bucket-of-key",
            field="writeIndex.bucket.fields",
            message="must contain only fields of keys.recordFields",
            cel=(
                "!has(self.writeIndex.bucket) || !has(self.writeIndex.bucket.fields) "
                "|| self.writeIndex.bucket.fields.all(f, f in self.keys.recordFields)"
            ),
            holds=lambda spec: (
                spec.write_index.bucket is None
                or set(spec.write_index.bucket.hash_fields or ()) <= set(spec.keys.record_fields)
            ),
        ),
        rules.Rule(
            name="distinct-volumes",
            field="storage.volumes",
            message="must not contain a name or a mountPath twice",
            cel=(
                "!has(self.storage.volumes) || self.storage.volumes.all(v, "
                "self.storage.volumes.exists_one(w, w.name == v.name) && "
                "self.storage.volumes.exists_one(w, w.mountPath == v.mountPath))"
            ),
            holds=lambda spec: (
                rules.have_no_duplicates(volume.name for volume in spec.storage.volumes or ())
                and rules.have_no_duplicates(
                    volume.mount_path for volume in spec.storage.volumes or ()
                )
            ),
        ),
        rules.Rule(
            name="volumes-beside-ours",
            field="storage.volumes",
            message=f"may not be mounted at or below {' or '.join(hudi_table.RESERVED_FOLDERS)}",
            cel=(
                "!has(self.storage.volumes) || self.storage.volumes.all(v, "
                + " && ".join(
                    f"v.mountPath != '{folder}' && !v.mountPath.startsWith('{folder}/')"
                    for folder in hudi_table.RESERVED_FOLDERS
                )
                + ")"
            ),
            holds=lambda spec: (
                not any(
                    f"{volume.mount_path}/".startswith(f"{folder}/")
                    for volume in spec.storage.volumes or ()
                    for folder in hudi_table.RESERVED_FOLDERS
                )
            ),
        ),
    ),
    between=(
        rules.immutable("storage.path", lambda spec: spec.storage.path),
        rules.fixed_by_provisioning("tableName", lambda spec: spec.table_name, _IS_THERE),
        rules.fixed_by_provisioning("database", lambda spec: spec.database, _IS_THERE),
        rules.fixed_by_provisioning("tableType", lambda spec: spec.table_type, _IS_THERE),
        rules.fixed_by_provisioning("tableVersion", lambda spec: spec.table_version, _IS_THERE),
        rules.fixed_by_provisioning("keys", lambda spec: spec.keys, _IS_THERE),
        rules.fixed_by_provisioning("merge", lambda spec: spec.merge, _IS_THERE),
        rules.fixed_by_provisioning("writeIndex", lambda spec: spec.write_index, _IS_THERE),
        rules.fixed_by_provisioning("timeZone", lambda spec: spec.time_zone, _IS_THERE),
        rules.fixed_by_provisioning(
            "schema",
            lambda spec: spec.schema_,
            f"{_IS_THERE}: it describes the initial columns. A Writer with "
            "source.files.addColumns adds columns",
        ),
    ),
)
