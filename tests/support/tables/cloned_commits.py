"""Tables with thousands of commits, in a moment: a write, and copies of it at later times.

The time of a write is in the names of its files, in its metadata, and in its log blocks, everywhere
with as many digits, and nothing there is compressed or has a checksum. So a copy is the same bytes
with another time.
"""

from collections.abc import Iterator
from dataclasses import replace

from hoodie.model import instants
from hoodie.timeline import transitions
from support.tables.tables import SmallTable


def put(small: SmallTable, write: instants.Instant, count: int) -> None:
    """Put copies of a write of log files behind all that a table has.

    Args:
        small: The table.
        write: Completed; on the timeline.
        count: How many.
    """
    old = write.requested_time.encode()
    assert write.completion_time is not None
    found = [
        *small.path.rglob(f".*_{write.requested_time}.log.*"),
        *(small.path / transitions.path(each) for each in _states(write)),
    ]
    stored = {each: each.read_bytes() for each in found}
    assert len(found) > len(instants.State), f"{write} has no log files"
    assert all(write.completion_time.encode() not in content for content in stored.values())
    for copy in _copies(small, write, count):
        new = copy.requested_time.encode()
        for path, content in stored.items():
            name = path.name.replace(write.requested_time, copy.requested_time)
            name = name.replace(write.completion_time, str(copy.completion_time))
            path.with_name(name).write_bytes(content.replace(old, new))


def _copies(small: SmallTable, write: instants.Instant, count: int) -> Iterator[instants.Instant]:
    time = small.table.timeline().greatest_time
    assert time is not None
    for _ in range(count):
        requested = instants.next_time(time)
        time = instants.next_time(requested)
        yield replace(write, requested_time=requested, completion_time=time)


def _states(write: instants.Instant) -> Iterator[instants.Instant]:
    yield write
    for state in (instants.State.REQUESTED, instants.State.INFLIGHT):
        yield write.pending_in(state)
