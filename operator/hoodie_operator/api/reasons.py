"""Why an object is in its state: the reasons of conditions, each with its sentence.

Reasons are part of the API: programs match on them, so that none changes its meaning.
"""

import enum
from typing import Final, Self


class Reason(enum.Enum):
    """A reason, by the word that conditions carry; `sentence` explains it."""

    sentence: str

    def __new__(cls, word: str, sentence: str) -> Self:
        """Make a member whose value is the word alone."""
        member = object.__new__(cls)
        member._value_ = word
        member.sentence = sentence
        return member

    # Waiting for another object or a process.
    NOT_OBSERVED = (
        "NotObserved",
        "The operator has not yet observed a table, a source or a lock that the object depends on.",
    )
    REFERENCE_NOT_FOUND = (
        "ReferenceNotFound",
        "An object that the spec refers to does not exist.",
    )
    TABLE_NOT_READY = "TableNotReady", "The table is not ready."
    TABLE_SUSPENDED = "TableSuspended", "The table is suspended."
    LOCK_NOT_READY = (
        "LockNotReady",
        "The lock provider is not ready. No run starts without it.",
    )
    TABLE_BUSY = (
        "TableBusy",
        (
            "Another run is active on a table that allows one run at a time, or the table has "
            "changed since it was last observed."
        ),
    )
    OWNED_ELSEWHERE = "OwnedElsewhere", "Another process is executing the same instant."
    QUEUED = (
        "Queued",
        (
            "Too many runs are active. The message gives a bound of the place in the queue, and "
            "the limit."
        ),
    )
    AWAITING_APPROVAL = (
        "AwaitingApproval",
        "The action needs approval. It starts when its spec.approved is true.",
    )
    IN_USE = "InUse", "Other objects still refer to this one."
    API_REFUSED = "ApiRefused", "The API server refused a request. The operator retries it."
    FENCED_OFF = (
        "FencedOff",
        (
            "Another operator has led with a later lease. This one starts no runs until its own "
            "lease is newer."
        ),
    )
    CONFIRMING = (
        "Confirming",
        "The run has ended. The operator reads its result from the timeline.",
    )
    STORAGE_UNREACHABLE = "StorageUnreachable", "The storage cannot be read."

    # Of the condition Interference.
    FOREIGN_INSTANT = (
        "ForeignInstant",
        (
            "Another engine has changed the table without the table lock, or although the table "
            "excludes other engines, or before a dead writer's commit could be published, or with "
            "times that went back or are of another time zone. Changes may be in conflict with "
            "each other; `hoodie check` reports them as well."
        ),
    )

    # Of the condition RetentionDryRun.
    CONSENT_NEEDED = (
        "ConsentNeeded",
        (
            "The operator did not create the table. It only reports what its defaults would delete "
            "until the table's spec.services or a RetentionPolicy says otherwise."
        ),
    )

    # Of the condition ConsumerPassed.
    CLEANED_TOO_EARLY = (
        "CleanedTooEarly",
        (
            "A clean, such as one of Apache Hudi's cleaner, has deleted or may delete file "
            "versions that a declared consumer has not read. The consumer has to read the whole "
            "table again."
        ),
    )

    # Of the condition InstantsStuck.
    INSTANT_STUCK = (
        "InstantStuck",
        (
            "Instants of the table are pending for longer than stuck.after of a policy. "
            "status.stuck names their owners, and what is done about each."
        ),
    )

    # Of the condition MetadataTableUnusable.
    BEHIND_OR_DAMAGED = (
        "BehindOrDamaged",
        (
            "The metadata table lacks a change of the table, or files of its own. Readers list the "
            "storage instead, and writers are refused if it lacks a change. A TableAction of type "
            "MetadataInit with rebuild makes it again."
        ),
    )

    # Of the condition ExternalWriters.
    OPTIONS_NEEDED = (
        "OptionsNeeded",
        (
            "Other engines may write the table. The message names the options by which their "
            "writers keep the indexes up."
        ),
    )

    # Of the condition IndexBehind.
    WRITE_MISSING = (
        "WriteMissing",
        (
            "An index lacks a write, whose writer, of another engine, did not keep it up. The "
            "message names both. Readers skip less by the index; a TableAction of type "
            "MetadataInit with rebuild makes it again."
        ),
    )

    # Of the condition BatchSettingsPending.
    NEXT_BATCH = (
        "NextBatch",
        (
            "The active attempt of the Writer takes up changed settings at its next batch, without "
            "a restart. Its newest commit was made under the earlier ones."
        ),
    )

    # In progress.
    CREATING = (
        "Creating",
        "The table is being created, or compared with the table that exists.",
    )
    DELETING = "Deleting", "The object is being deleted."
    DATA_KEPT = (
        "DataKept",
        (
            "The object is deleted and the data is kept: deletionProtection is on, or the "
            "namespace is being deleted too."
        ),
    )
    STARTING = "Starting", "The run has started and has not reported progress yet."
    POD_NOT_CREATED = (
        "PodNotCreated",
        "The run's pod cannot be created: a quota or an admission policy refuses it.",
    )
    UNSCHEDULABLE = "Unschedulable", "The run's pod does not fit on any node."
    IMAGE_NOT_PULLED = "ImageNotPulled", "The image of the run's pod cannot be pulled."
    CONTAINER_NOT_CREATED = (
        "ContainerNotCreated",
        "The container of the run's pod cannot be created: a Secret, a key or a volume is missing.",
    )
    RUNNING = "Running", "The run is active."
    STOPPING = "Stopping", "The run was asked to stop and has not ended yet."
    BACKING_OFF = (
        "BackingOff",
        "An attempt failed with a retryable error. The next attempt starts after the back-off.",
    )
    WRITE_CONFLICT = (
        "WriteConflict",
        (
            "An attempt lost a conflict with another write. The next attempt starts after the "
            "back-off."
        ),
    )

    # As declared.
    READY = "Ready", "The object is as declared."
    UP_TO_DATE = "UpToDate", "All batches of the source are committed."
    WATCHING = "Watching", "The policy evaluates its triggers."
    SUSPENDED = "Suspended", "The object is suspended by its spec. No run starts."
    SUCCEEDED = "Succeeded", "The action is complete on the timeline."
    CANCELLED = "Cancelled", "The action was cancelled by its spec."
    SAVED = "Saved", "The table keeps the files of the commit."
    SAVEPOINT_DELETED = (
        "SavepointDeleted",
        (
            "The table no longer has the savepoint, although the object is there: a policy's "
            "expiry or another engine has deleted it. The operator does not create it again."
        ),
    )
    EXPIRED = "Expired", "The savepoint has expired and is deleted from the table."
    NOTHING_TO_DO = "NothingToDo", "The action ended without changes: there was nothing to do."

    # A user has to change something.
    INVALID_SPEC = "InvalidSpec", "The spec violates a validation rule."
    PATH_NOT_ALLOWED = "PathNotAllowed", "A path is outside the operator's data roots."
    NOT_ALLOWED = (
        "NotAllowed",
        (
            "The operator's configuration does not allow a host, Secret, claim or variable that "
            "the object uses."
        ),
    )
    ACCOUNT_NOT_ALLOWED = (
        "AccountNotAllowed",
        "The service account is not on the operator's allow-list.",
    )
    IMMUTABLE_MISMATCH = (
        "ImmutableMismatch",
        "The existing table differs from the spec in an immutable property.",
    )
    TABLE_UNREADABLE = (
        "TableUnreadable",
        "The path holds something that this release cannot read as a table.",
    )
    LOCATION_CONFLICT = (
        "LocationConflict",
        "Another HudiTable has the same path, or a path above or below it.",
    )
    ALREADY_EXISTS = "AlreadyExists", "The table exists, and adoption is CreateOnly."
    TABLE_NOT_FOUND = "TableNotFound", "The table does not exist at its path."
    LOCK_NOT_SHARED = (
        "LockNotShared",
        "The locks of the lock provider are not visible to other processes.",
    )
    LOCK_UNREACHABLE = "LockUnreachable", "The lock provider does not answer."
    OPERATION_NOT_ALLOWED = (
        "OperationNotAllowed",
        "The table's concurrency mode does not allow the operation.",
    )
    SECOND_WRITER = (
        "SecondWriter",
        "The table is in mode SingleWriter and has an older writer.",
    )
    DUPLICATE_WRITER_ID = (
        "DuplicateWriterId",
        "An older writer of the table has the same writer id.",
    )
    SHARED_COLUMNS = (
        "SharedColumns",
        "Two writers write the same columns, and the result would depend on timing.",
    )
    SOURCE_NOT_FOUND = "SourceNotFound", "The source has no files."
    SOURCE_UNREADABLE = "SourceUnreadable", "The files of the source cannot be read."
    SCHEMA_MISMATCH = "SchemaMismatch", "The columns of the source do not fit the table."
    RUN_FAILED = "RunFailed", "The run failed with an error that a retry does not fix."
    POD_STATE_UNKNOWN = (
        "PodStateUnknown",
        "The node of the run's pod does not answer. No attempt starts until the pod is deleted.",
    )
    RETRIES_EXHAUSTED = "RetriesExhausted", "All attempts that retry.limit allows have failed."
    INDEX_REFUSED = (
        "IndexRefused",
        (
            "The table, as it is, cannot have the index, or cannot lose it. The message names what "
            "is in the way."
        ),
    )
    REQUEST_CONFLICT = (
        "RequestConflict",
        "An older IndexRequest of the table wants the opposite of the same index.",
    )
    ACTION_FAILED = "ActionFailed", "A TableAction that the object made failed."
    INSTANT_NOT_FOUND = "InstantNotFound", "The instant is not on the timeline."
    POLICY_CONFLICT = (
        "PolicyConflict",
        "Another policy takes precedence on all tables of this one.",
    )
    TIMED_OUT = "TimedOut", "The object stayed in one state for longer than the state's limit."

    # Of events only.
    OTHER_OPERATOR = "OtherOperator", "Another release of the operator also runs in the namespace."

    # Of one table of a policy.
    NOT_DUE = "NotDue", "No trigger has fired."
    NOTHING_TO_COMPACT = (
        "NothingToCompact",
        "The table has no delta commits since the last compaction.",
    )
    DISABLED = "Disabled", "The table's spec.services does not leave the service to the operator."
    OTHER_POLICY = "OtherPolicy", "Another policy takes precedence on this table."
    NO_POLICY = "NoPolicy", "No policy targets the table, and the operator has no default."
    OUTSIDE_WINDOW = "OutsideWindow", "The service is due, and no window of its policy is open."
    NOTHING_TO_CLEAN = "NothingToClean", "The table has no commits since the last clean."
    NOTHING_TO_ARCHIVE = "NothingToArchive", "The table has no more commits than maxCommits."
    NOTHING_EXPIRED = "NothingExpired", "No savepoint of the table has expired."
    ACTION_AT_WORK = "ActionAtWork", "A TableAction that the object made is active."


BY_WORD: Final = {each.value: each for each in Reason}
"""Reasons by the word that statuses carry."""
