"""Markers, by which everything that a write leaves behind can be found (2.1, W8, W13)."""

from dataclasses import replace

import pytest

from hoodie import errors
from hoodie.model import commits
from hoodie.model.instants import InstantTime
from hoodie.storage.memory import MemoryStorage
from hoodie.transaction import markers
from support.simulation.schedule_world import GROUPS, metadata, stat

TIME = InstantTime("20260528202640000")
BASE = f"p=1/x/f1_0-1-0_{TIME}.parquet"
LOG = f"p/.f2_{TIME}.log.1_0-1-0"
ROOT_LOG = f".f3_{TIME}.log.1_0-1-0"


def alive() -> None:
    """Do nothing: the heart beats."""


def test_marker_stands_where_apache_hudi_looks_for_it() -> None:
    storage = MemoryStorage()
    for path in (BASE, LOG, ROOT_LOG):
        markers.mark(storage, TIME, path)
        markers.mark(storage, TIME, path)
    assert [info.path for info in storage.list(".hoodie/.temp", is_recursive=True)] == sorted(
        f".hoodie/.temp/{TIME}/{path}.marker.CREATE" for path in (BASE, LOG, ROOT_LOG)
    )
    assert markers.marked_files(storage, TIME) == sorted((BASE, LOG, ROOT_LOG))


def test_other_files_beside_markers_are_passed_by() -> None:
    storage = MemoryStorage()
    storage.create(f".hoodie/.temp/{TIME}/MARKERS.type", b"TIMELINE_SERVER_BASED")
    markers.mark(storage, TIME, LOG)
    assert markers.marked_files(storage, TIME) == [LOG]


def test_files_of_failed_tasks_are_deleted_and_those_in_stats_kept() -> None:
    """W13: a log file that rolled over stands in the stat's log files."""
    storage = MemoryStorage()
    group = GROUPS[0]
    first, second = (f".{group.file_id}_{TIME}.log.{n}_0-1-0" for n in (1, 2))
    failed = f"p/.{group.file_id}_{TIME}.log.1_0-1-9"
    for path in (f"p/{first}", f"p/{second}", failed):
        markers.mark(storage, TIME, path)
        storage.create(path, b"x")
    never_written = f"p/.{group.file_id}_{TIME}.log.1_0-1-8"
    markers.mark(storage, TIME, never_written)
    stats = metadata([stat(group, f"p/{first}", b"", 1, log_files=(first, second))]).stats
    assert markers.finalise(storage, TIME, stats, alive) == 2
    assert [info.name for info in storage.list("p")] == [first, second]


def test_change_data_in_stats_is_kept_and_that_of_failed_tasks_deleted() -> None:
    """CD2; and of one execution alone, by its stage."""
    storage = MemoryStorage()
    own, failed, other = (f"p/.f2_{TIME}.log.1_0-{n}.cdc" for n in ("1-0", "1-9", "2-0"))
    for path in (own, failed, other):
        markers.mark(storage, TIME, path)
        storage.create(path, b"x")
    written = stat(GROUPS[0], BASE, b"", 1)
    logs = (commits.ChangeDataLog(path=own, size_bytes=1),)
    stats = [replace(written, change_data=logs)]
    assert markers.finalise(storage, TIME, stats, alive, stage=1) == 1
    assert [info.path for info in storage.list("p")] == [own, other]


def test_all_data_files_and_markers_of_an_instant_can_be_deleted() -> None:
    storage = MemoryStorage()
    for path in (BASE, LOG):
        markers.mark(storage, TIME, path)
        storage.create(path, b"x")
    storage.create("p/another", b"x")
    assert markers.delete_data_files(storage, TIME, alive) == 2
    assert [info.path for info in storage.list("", is_recursive=True)] == ["p/another"]
    assert markers.delete_data_files(storage, TIME, alive) == 0


def test_deletion_stops_when_somebody_else_may_be_at_work() -> None:
    """C2, P1: only what was listed is deleted, and nothing after the heartbeat expired."""
    storage = MemoryStorage()
    for path in (BASE, LOG, ROOT_LOG):
        markers.mark(storage, TIME, path)
        storage.create(path, b"x")
    asked = []

    def expire() -> None:
        markers.mark(storage, TIME, f"p/of-a-successor{len(asked)}")
        storage.create(f"p/of-a-successor{len(asked)}", b"x")
        asked.append(None)
        if len(asked) == 3:
            raise errors.HeartbeatExpiredError

    with pytest.raises(errors.HeartbeatExpiredError):
        markers.delete_data_files(storage, TIME, expire)
    assert len(asked) == 3
    left = [info.path for info in storage.list("", is_recursive=True)]
    assert len([path for path in left if path in {BASE, LOG, ROOT_LOG}]) == 1
    assert len(markers.marked_files(storage, TIME)) == 6


def test_markers_kept_by_a_timeline_server_are_read_with_those_beside_them() -> None:
    """As a Spark writer leaves them; the end of a file may be cut off, so they may not be all."""
    storage = MemoryStorage()
    directory = markers.directory_of(TIME)
    storage.create(f"{directory}/MARKERS.type", b"TIMELINE_SERVER_BASED")
    storage.create(f"{directory}/MARKERS0", f"{BASE}.marker.MERGE\n{LOG}.marker.CRE".encode())
    storage.create(f"{directory}/MARKERS12", f"{ROOT_LOG}.marker.CREATE\n".encode())
    storage.create(f"{directory}/MARKERS12.tmp", b"p/x.marker.CREATE\n")
    found = markers.find(storage, TIME)
    assert found.paths == tuple(sorted((BASE, ROOT_LOG)))
    assert not found.is_complete


def test_direct_markers_tell_all_and_no_marker_tells_nothing() -> None:
    storage = MemoryStorage()
    assert not markers.find(storage, TIME).is_complete
    markers.mark(storage, TIME, LOG)
    assert markers.find(storage, TIME).is_complete
