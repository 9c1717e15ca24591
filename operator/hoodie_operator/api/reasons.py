"""Why an object is in its state: the reasons of conditions, each with its sentence.

Reasons are part of the API: programs match on them, so that none changes its meaning.
"""

import enum
from typing import Self


class Reason(enum.Enum):
    """A reason, by the word that conditions carry; `sentence` explains it."""

    sentence: str

    def __new__(cls, word: str, sentence: str) -> Self:
        """Make a member whose value is the word alone."""
        member = object.__new__(cls)
        member._value_ = word
        member.sentence = sentence
        return member

    # Waiting for something that others bring.
    NOT_OBSERVED = "NotObserved", "What it depends on was not looked at yet."
    REFERENCE_NOT_FOUND = "ReferenceNotFound", "An object that it refers to does not exist."
    TABLE_NOT_READY = "TableNotReady", "The table is not ready."
    TABLE_SUSPENDED = "TableSuspended", "The table is suspended."
    LOCK_NOT_READY = "LockNotReady", "The lock provider is not ready, and nothing runs without it."
    TABLE_BUSY = (
        "TableBusy",
        "Another run is at work, and the table takes one at a time, or was changed since.",
    )
    OWNED_ELSEWHERE = "OwnedElsewhere", "Another process is at work on the same instant."
    IN_USE = "InUse", "Others still need it."
    API_REFUSED = "ApiRefused", "The API server refused what is to be done; it is tried again."
    FENCED_OFF = (
        "FencedOff",
        "Another operator led here by a later lease; nothing is started before ours is newer.",
    )
    CONFIRMING = "Confirming", "The run ended; its success is being read from the timeline."
    STORAGE_UNREACHABLE = "StorageUnreachable", "The storage could not be read."

    # At work.
    CREATING = "Creating", "The table is being created, or compared with what exists."
    DELETING = "Deleting", "It is being deleted."
    DATA_KEPT = (
        "DataKept",
        "The object goes and the data stays: deletionProtection is on, or the namespace goes too.",
    )
    STARTING = "Starting", "The run was started and has not told of any progress yet."
    POD_NOT_CREATED = (
        "PodNotCreated",
        "No pod was made for the run: a quota or a policy refuses it.",
    )
    UNSCHEDULABLE = "Unschedulable", "No node takes the run's pod."
    IMAGE_NOT_PULLED = "ImageNotPulled", "The image of the run's pod cannot be pulled."
    CONTAINER_NOT_CREATED = (
        "ContainerNotCreated",
        "The container of the run's pod cannot be made: a Secret, a key or a volume is missing.",
    )
    RUNNING = "Running", "The run is at work."
    STOPPING = "Stopping", "The run was told to stop."
    BACKING_OFF = "BackingOff", "An attempt failed for a reason that may pass; it is tried again."
    WRITE_CONFLICT = "WriteConflict", "An attempt lost against another write; it is tried again."

    # As it should be.
    READY = "Ready", "It is as declared."
    UP_TO_DATE = "UpToDate", "Everything the source holds is committed."
    WATCHING = "Watching", "Its triggers are being watched."
    SUSPENDED = "Suspended", "It is suspended as declared: nothing is started."
    SUCCEEDED = "Succeeded", "It is done; the timeline has it."
    NOTHING_TO_DO = "NothingToDo", "It is done; there was nothing to do."

    # Someone has to mend something.
    INVALID_SPEC = "InvalidSpec", "The spec breaks a rule."
    PATH_NOT_ALLOWED = "PathNotAllowed", "A path leads out of the allowed root."
    NOT_ALLOWED = (
        "NotAllowed",
        "The operator's configuration does not allow a host, Secret, claim or variable of it.",
    )
    ACCOUNT_NOT_ALLOWED = (
        "AccountNotAllowed",
        "The service account is none that the operator allows.",
    )
    IMMUTABLE_MISMATCH = "ImmutableMismatch", "The existing table differs where none can change."
    TABLE_UNREADABLE = "TableUnreadable", "What is there is no table that this version reads."
    LOCATION_CONFLICT = (
        "LocationConflict",
        "Another HudiTable is at the same location, in it or around it.",
    )
    ALREADY_EXISTS = "AlreadyExists", "The table exists, and adoption is CreateOnly."
    TABLE_NOT_FOUND = "TableNotFound", "The table does not exist where it should."
    LOCK_NOT_SHARED = "LockNotShared", "The lock provider's locks exclude no other process."
    LOCK_UNREACHABLE = "LockUnreachable", "The lock provider does not answer."
    SECOND_WRITER = "SecondWriter", "The table takes one writer and has an older one."
    DUPLICATE_WRITER_ID = "DuplicateWriterId", "An older writer of the table has the same id."
    SHARED_COLUMNS = "SharedColumns", "Two writers share columns, and the result would be chance."
    SOURCE_NOT_FOUND = "SourceNotFound", "The source has no files."
    SOURCE_UNREADABLE = "SourceUnreadable", "The source's files could not be read."
    SCHEMA_MISMATCH = "SchemaMismatch", "The source's columns do not fit the table."
    RUN_FAILED = "RunFailed", "The run failed for a reason that does not pass by itself."
    POD_STATE_UNKNOWN = (
        "PodStateUnknown",
        "The node of the run's pod does not answer; nothing is started before the pod is gone.",
    )
    RETRIES_EXHAUSTED = "RetriesExhausted", "Too many attempts failed."
    ACTION_FAILED = "ActionFailed", "A TableAction of the policy failed."
    INSTANT_NOT_FOUND = "InstantNotFound", "The instant is not on the timeline."
    POLICY_CONFLICT = "PolicyConflict", "Another policy goes before it on all its tables."
    TIMED_OUT = "TimedOut", "It stayed in its state for too long."

    # Of events alone.
    OTHER_OPERATOR = "OtherOperator", "Another release of the operator works in the namespace too."

    # Of a policy's single tables.
    NOT_DUE = "NotDue", "No trigger has fired."
    NOTHING_TO_COMPACT = "NothingToCompact", "No delta commit since the last compaction."
    DISABLED = "Disabled", "The table's services.compaction is not Operator."
    OTHER_POLICY = "OtherPolicy", "Another policy goes before it."
    ACTION_AT_WORK = "ActionAtWork", "A TableAction is at work."
