"""What forbids to publish, as facts (C1, protocol.md: A write; guards)."""

import dataclasses

import pytest

from hoodie import errors, identity
from hoodie.model.instants import Action, Instant, InstantTime, State
from hoodie.model.table_config import IndexKind, MergeMode, TableConfig
from hoodie.timeline import active
from hoodie.transaction import preconditions
from hoodie.transaction.authors import Author
from hoodie.transaction.fencing import AttemptRecord, StoredRecord
from hoodie.transaction.preconditions import PublicationFacts

CONFIG = TableConfig(name="t", record_key_fields=("id",), bucket_count=4)
TIMES = {
    "hoodie.table.keygenerator.type": "TIMESTAMP",
    "hoodie.keygen.timebased.output.dateformat": "yyyy",
}
PROCESS = identity.ProcessIdentity(
    host="host", boot_id="boot", pid_namespace="", pid=7, start_ticks=1
)


def time(second: int) -> InstantTime:
    return InstantTime(f"202606010000{second:02d}000")


def instant(
    requested: int, action: Action = Action.DELTA_COMMIT, completed: int | None = None
) -> list[Instant]:
    """Return the files of an instant that is inflight, or completed."""
    states = [State.REQUESTED, State.INFLIGHT]
    files = [Instant(requested_time=time(requested), action=action, state=each) for each in states]
    if completed is not None:
        done = Instant(
            requested_time=time(requested),
            action=action.completed,
            state=State.COMPLETED,
            completion_time=time(completed),
        )
        files.append(done)
    return files


def attempt(number: int = 1, write_id: str = "w1") -> StoredRecord:
    record = AttemptRecord(
        attempt=number, write_id=write_id, requested_time=time(10), process=PROCESS
    )
    return StoredRecord(record=record, version="1")


MINE = instant(10)
GOOD = PublicationFacts(
    inflight=MINE[1],
    author=Author(writer_id="a"),
    write_id="w1",
    begun_on=active.from_files([*instant(1, completed=2)]),
    timeline=active.from_files([*instant(1, completed=2), *MINE, *instant(11)]),
    is_heartbeat_alive=True,
    is_heartbeat_own=True,
    rollback_targets={time(12): time(1)},
    attempt=attempt(),
    config=CONFIG,
    expected=CONFIG,
)


def with_files(*files: list[Instant]) -> active.ActiveTimeline:
    return active.from_files([each for group in files for each in group])


BAD = {
    "heartbeat expired": (
        {"is_heartbeat_alive": False},
        errors.HeartbeatExpiredError,
        "expired: others may have removed",
    ),
    "heartbeat of another": (
        {"is_heartbeat_own": False},
        errors.HeartbeatExpiredError,
        "removed, or taken over",
    ),
    "inflight gone": (
        {"timeline": with_files(MINE[:1])},
        errors.ConflictError,
        "no longer on the timeline",
    ),
    "completed already": (
        {"timeline": with_files(instant(10, completed=13))},
        errors.ConflictError,
        f"was already completed at {time(13)}",
    ),
    "rolled back": (
        {"rollback_targets": {time(12): time(10)}},
        errors.ConflictError,
        f"rolled back by rollback {time(12)}",
    ),
    "perhaps rolled back": (
        {"rollback_targets": {time(12): None}},
        errors.ConflictError,
        f"rolled back by rollback {time(12)}",
    ),
    "restore pending": (
        {"timeline": with_files(MINE, instant(5, Action.RESTORE))},
        errors.ConflictError,
        "restored",
    ),
    "restored since": (
        {"timeline": with_files(MINE, instant(12, Action.RESTORE, completed=13))},
        errors.ConflictError,
        "restored",
    ),
    "replaced": ({"attempt": attempt(2)}, errors.FencedError, "replaced by attempt 2"),
    "another write": ({"attempt": attempt(1, "w2")}, errors.FencedError, "another write since"),
    "metadata table": (
        {"config": dataclasses.replace(CONFIG, metadata_partitions=("files",))},
        errors.ConflictError,
        "presence of a metadata table of table t is True, expected False",
    ),
    "index of a later release being built": (
        {
            "config": dataclasses.replace(
                CONFIG,
                metadata_partitions=("files",),
                metadata_partitions_inflight=("vector_index_a",),
                has_foreign_writers=False,
            )
        },
        errors.UnsupportedError,
        "has vector_index_a, which this version does not keep up",
    ),
    "index that is not kept up": (
        {"config": dataclasses.replace(CONFIG, metadata_partitions=("files", "vector_index_a"))},
        errors.UnsupportedError,
        "has vector_index_a, which this version does not keep up",
    ),
    "metadata table without files": (
        {"config": dataclasses.replace(CONFIG, metadata_partitions=("column_stats",))},
        errors.FormatError,
        "without files",
    ),
    "metadata table being built": (
        {"config": dataclasses.replace(CONFIG, metadata_partitions_inflight=("files",))},
        errors.UnsupportedError,
        "another engine builds files",
    ),
    "local time": (
        {"config": dataclasses.replace(CONFIG, time_zone=None)},
        errors.UnsupportedError,
        "hoodie adopt --time-zone",
    ),
    "other buckets": (
        {"config": dataclasses.replace(CONFIG, bucket_count=8)},
        errors.ConflictError,
        "bucket count of table t is 8, expected 4",
    ),
    "upgraded": (
        {"expected": dataclasses.replace(CONFIG, version=8)},
        errors.ConflictError,
        "table version of table t is 9, expected 8",
    ),
    "other merging": (
        {"config": dataclasses.replace(CONFIG, merge_mode=MergeMode.EVENT_TIME)},
        errors.ConflictError,
        "merge mode",
    ),
    "folders with names of columns": (
        {"config": dataclasses.replace(CONFIG, is_hive_style=True)},
        errors.ConflictError,
        "Hive style of partition paths of table t is True, expected False",
    ),
    "encoded folders": (
        {"config": dataclasses.replace(CONFIG, is_url_encoded=True)},
        errors.ConflictError,
        "URL encoding of partition paths of table t is True, expected False",
    ),
    "paths of times": (
        {"config": dataclasses.replace(CONFIG, properties=TIMES)},
        errors.ConflictError,
        "key generator of table t is TIMESTAMP, hoodie.keygen.timebased.output.dateformat=yyyy",
    ),
    "records that keep their partition": (
        {"config": dataclasses.replace(CONFIG, updates_partitions=False)},
        errors.ConflictError,
        "move of records to other partitions of table t is False, expected True",
    ),
}


def test_nothing_forbids_to_publish_when_all_holds() -> None:
    assert preconditions.publication_refusal(GOOD) is None


@pytest.mark.parametrize("name", BAD)
def test_each_fact_alone_forbids_to_publish(name: str) -> None:
    changes, kind, message = BAD[name]
    refusal = preconditions.publication_refusal(dataclasses.replace(GOOD, **changes))  # type: ignore[arg-type] # by name
    assert isinstance(refusal, kind)
    assert message in str(refusal)


def test_compaction_of_the_same_time_completed_as_commit_is_completed() -> None:
    """Double completion (protocol.md: State on storage)."""
    files = instant(10, Action.COMPACTION, completed=13)
    facts = dataclasses.replace(
        GOOD,
        inflight=files[1],
        timeline=with_files(files),
        author=Author(),
        attempt=None,
    )
    refusal = preconditions.publication_refusal(facts)
    assert isinstance(refusal, errors.ConflictError)


def test_restore_that_completed_before_the_write_began_does_not_matter() -> None:
    files = instant(5, Action.RESTORE, completed=6)
    facts = dataclasses.replace(GOOD, begun_on=with_files(files), timeline=with_files(MINE, files))
    assert preconditions.publication_refusal(facts) is None
    assert preconditions.restore_refusal(facts.timeline) is None


def test_what_changed_of_a_table_is_shown_in_words() -> None:
    found = preconditions.table_refusal(dataclasses.replace(CONFIG, index=IndexKind.BLOOM), CONFIG)
    assert str(found) == (
        "index of table t is BLOOM, expected BUCKET, as when this write began: write the batch "
        "again"
    )
    other = dataclasses.replace(CONFIG, record_key_fields=("id", "line"), ordering_fields=("ts",))
    found = preconditions.table_refusal(other, CONFIG)
    assert "record key of table t is id, line, expected id, as when" in str(found)
    found = preconditions.table_refusal(
        dataclasses.replace(CONFIG, ordering_fields=("ts",)), CONFIG
    )
    assert "ordering fields of table t is ts, expected none, as when" in str(found)
