"""Restores and rollbacks of completed writes, made by hand, as Apache Hudi has them.

The instants that they took back are gone from the timeline.
"""

import json
from dataclasses import replace
from pathlib import Path

from hoodie.format import avro_container, rollback_avro, timeline_schemas
from hoodie.maintenance.rollback import planning
from hoodie.model import instants, plans
from hoodie.storage.local import LocalStorage
from hoodie.timeline import transitions

_SCHEMA = {
    "type": "record",
    "name": "HoodieRestoreMetadata",
    "fields": [{"name": "instantsToRollback", "type": {"type": "array", "items": "string"}}],
}


def put(table: Path, gone: instants.Instant) -> instants.Instant:
    """Take a completed write off the timeline, and put the restore there that did; return it.

    Args:
        table: The table's folder.
        gone: The table's newest write; its data files stay, as nothing names them any more.
    """
    assert gone.completion_time is not None, gone
    _take_off(table, gone)
    time = instants.next_time(gone.completion_time)
    restore = replace(
        gone,
        action=instants.Action.RESTORE,
        requested_time=time,
        completion_time=time,
    )
    taken_back = {"instantsToRollback": [gone.requested_time]}
    content = avro_container.encode(avro_container.schema(_SCHEMA), taken_back)
    (table / transitions.path(restore)).write_bytes(content)
    return restore


def put_rollback(
    table: Path, gone: instants.Instant, *, is_listed: bool = True, is_of_java: bool = True
) -> instants.Instant:
    """Take a completed write back, its files as well; return the rollback.

    Args:
        table: The table's folder.
        gone: The table's newest write.
        is_listed: Whether its files were found by listing, as those of completed writes are; else
            the plan is one by markers.
        is_of_java: Whether Apache Hudi did it.
    """
    assert gone.completion_time is not None, gone
    storage = LocalStorage(str(table))
    plan = planning.plan_of(gone, planning.listed_files(storage, gone.requested_time))
    requests = plan.requests
    if is_listed:
        requests = tuple(replace(each, file_id="", base_instant_time="") for each in requests)
    plan = replace(plan, requests=requests)
    _take_off(table, gone)
    for path in plan.paths:
        storage.delete(path)
    time = instants.next_time(gone.completion_time)
    done = plans.RollbackDone(requested_time=time, duration_ms=1, plan=plan, deleted=plan.paths)
    rollback = replace(
        gone, action=instants.Action.ROLLBACK, requested_time=time, completion_time=time
    )
    planned = rollback_avro.encode_plan(plan, storage.uri)
    said = rollback_avro.encode_metadata(done, storage.uri)
    if is_of_java:
        planned = _as_java(timeline_schemas.ROLLBACK_PLAN, planned)
        said = _as_java(timeline_schemas.ROLLBACK_METADATA, said)
    for instant, content in (
        (rollback.pending_in(instants.State.REQUESTED), planned),
        (rollback.pending_in(instants.State.INFLIGHT), b""),
        (rollback, said),
    ):
        (table / transitions.path(instant)).write_bytes(content)
    return rollback


def _as_java(schema: avro_container.Schema, content: bytes) -> bytes:
    """Return a file of the timeline with a schema that tells the Java class of texts."""
    marked = json.loads(schema.text) | {"avro.java.string": "String"}
    fields = avro_container.decode(content, "ours").fields
    return avro_container.encode(avro_container.schema(marked), fields)


def _take_off(table: Path, gone: instants.Instant) -> None:
    for state in instants.State:
        instant = gone if state is instants.State.COMPLETED else gone.pending_in(state)
        (table / transitions.path(instant)).unlink()
