"""Restores, made by hand: the instants that they took back are gone from the timeline."""

from dataclasses import replace
from pathlib import Path

from hoodie.format import avro_container
from hoodie.model import instants
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
    for state in instants.State:
        instant = gone if state is instants.State.COMPLETED else gone.pending_in(state)
        (table / transitions.path(instant)).unlink()
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
