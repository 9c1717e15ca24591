"""Each batch is written once, whoever wrote in between (WR1)."""

from dataclasses import replace

import pytest

from hoodie import errors
from hoodie.format import timeline_avro
from hoodie.model import commits, instants
from hoodie.timeline import active, contents, transitions
from hoodie.transaction import authors, fencing, writer_batches
from hoodie.transaction.client import AlreadyWritten, Completion
from hoodie.transaction.writer_batches import KEPT, LEDGER_KEY, Ledger
from support.simulation import faulty_storage
from support.simulation.schedule_world import World


def extra(world: World, number: int) -> dict[str, str]:
    instant = world.timeline.completed_writes[number]
    return dict(contents.read_commit(world.storage, instant).extra)


def test_batch_that_the_table_holds_is_not_begun() -> None:
    world = World()
    assert isinstance(world.write(world.writer("a"), "b1"), Completion)
    assert isinstance(world.write(world.writer("a"), "b1"), AlreadyWritten)
    assert isinstance(world.write(world.writer("another"), "b1"), Completion)
    assert len(world.timeline.completed_writes) == 2


def test_every_commit_carries_the_ledger_of_all_writers() -> None:
    world = World()
    world.write(world.writer("a"), "a1")
    world.write(world.writer("b"), "b1")
    world.write(world.writer("a"), "a2")
    world.write(world.writer("c"))
    service = world.writer("service")
    planned = world.schedule_compaction(service)
    assert planned is not None
    world.compact(service, planned.requested_time)
    assert writer_batches.decode(extra(world, -1)[LEDGER_KEY], "commit") == {
        "a": ("a1", "a2"),
        "b": ("b1",),
    }
    ledger = writer_batches.read(world.storage, world.timeline)
    assert (ledger.last("a"), ledger.last("b"), ledger.last("c")) == ("a2", "b1", None)


def test_commit_names_writer_attempt_batch_and_write() -> None:
    world = World()
    author = authors.Author(writer_id="a", attempt=3)
    world.write(world.client(world.process("p"), author), "a1")
    ids = extra(world, 0)
    assert (ids[commits.WRITER_ID_KEY], ids[commits.ATTEMPT_KEY], ids[commits.BATCH_ID_KEY]) == (
        "a",
        "3",
        "a1",
    )
    inflight = next(each for each in world.timeline.files if each.state.value == "inflight")
    path = transitions.path(inflight)
    profile = timeline_avro.decode_commit(world.storage.read(path))
    assert profile.extra[commits.WRITE_ID_KEY] == ids[commits.WRITE_ID_KEY]


def test_ledger_is_found_behind_commits_of_apache_hudi() -> None:
    world = World()
    world.write(world.writer("a"), "a1")
    for number in range(3):
        world.write(world.writer(f"jvm{number}"))
        _strip_newest(world)
    assert isinstance(world.write(world.writer("a"), "a1"), AlreadyWritten)
    world.write(world.writer("a"), "a2")
    assert writer_batches.decode(extra(world, -1)[LEDGER_KEY], "")["a"] == ("a1", "a2")


def _strip_newest(world: World) -> None:
    """Make the newest commit one of a writer that knows no ledger."""
    path = transitions.path(world.timeline.completed_writes[-1])
    commit = timeline_avro.decode_commit(world.storage.read(path))
    content = timeline_avro.encode_commit(
        type(commit)(operation=commit.operation, stats=commit.stats, extra={"schema": "{}"})
    )
    world.storage.replace(path, content, if_match=world.storage.stat(path).version)


@pytest.mark.parametrize("is_given_up", [False, True])
def test_batch_of_a_commit_that_appeared_late_is_held(*, is_given_up: bool) -> None:
    """A commit with an earlier completion time than two others, which did not know of it.

    Its author may have been told that its outcome is not known, and have given the write up.
    """
    world = World()
    late, other = world.writer("late"), world.writer("other")
    world.write(late, "b1")
    path = transitions.path(world.timeline.completed_writes[-1])
    content = world.storage.read(path)
    world.storage.delete(path)
    world.write(other, "b1")
    world.write(other, "b2")
    world.storage.create(path, content)
    if is_given_up:
        record = fencing.read(world.storage, late.author)
        assert record is not None
        fencing.give_up(world.storage, late.author, record.record.write_id)
    assert writer_batches.read(world.storage, world.timeline).last("late") is None
    assert isinstance(world.write(late, "b1"), AlreadyWritten)
    world.write(late, "b2")
    ledger = writer_batches.read(world.storage, world.timeline)
    assert ledger.batches["late"] == ("b1", "b2")


def test_commit_published_late_hides_no_batches_that_it_did_not_know() -> None:
    """Its author lost the lock right before; its completion time is the greatest all the same."""
    world = World()
    world.write(world.writer("late"), "x")
    late = world.timeline.completed_writes[-1]
    content = world.storage.read(transitions.path(late))
    world.storage.delete(transitions.path(late))
    world.write(world.writer("a"), "b1")
    known = writer_batches.read(world.storage, world.timeline)
    world.write(world.writer("a"), "b2")
    after = instants.next_time(world.timeline.greatest_time)
    world.storage.create(transitions.path(replace(late, completion_time=after)), content)
    assert writer_batches.read(world.storage, world.timeline).batches == {
        "a": ("b1", "b2"),
        "late": ("x",),
    }
    told = writer_batches.read(world.storage, world.timeline, known)
    assert told.batches == {"a": ("b1", "b2"), "late": ("x",)}
    assert isinstance(world.write(world.writer("a"), "b1"), AlreadyWritten)
    world.write(world.writer("c"), "c1")
    assert writer_batches.decode(extra(world, -1)[LEDGER_KEY], "")["a"] == ("b1", "b2")


def test_ledger_that_apache_hudi_carried_on_hides_no_batches_that_it_did_not_know() -> None:
    """Apache Hudi leaves out a key that its options do not name, and one that has no value."""
    world = World()
    world.write(world.writer("late"), "x")
    late = transitions.path(world.timeline.completed_writes[-1])
    content = world.storage.read(late)
    world.storage.delete(late)
    world.write(world.writer("a"), "a1")
    world.write(world.writer("jvm"))
    path = transitions.path(world.timeline.completed_writes[-1])
    commit = timeline_avro.decode_commit(world.storage.read(path))
    carried = replace(commit, extra={LEDGER_KEY: extra(world, 0)[LEDGER_KEY]})
    version = world.storage.stat(path).version
    world.storage.replace(path, timeline_avro.encode_commit(carried), if_match=version)
    world.storage.create(late, content)
    assert writer_batches.read(world.storage, world.timeline).batches == {
        "a": ("a1",),
        "late": ("x",),
    }


def test_batch_whose_time_became_that_of_another_write_is_written() -> None:
    """Its author recorded the time and lost the lock, so that its own instant was never there."""
    world = World()
    author = authors.Author(writer_id="a")
    writer = world.client(world.process("a"), author)
    others = world.write(world.writer("b"), "b1")
    assert isinstance(others, Completion)
    record = fencing.AttemptRecord(
        attempt=author.attempt,
        write_id="never requested",
        requested_time=others.instant.requested_time,
        process=writer.process,
        batch_id="a1",
    )
    fencing.write(world.storage, author, None, record)
    assert isinstance(world.write(writer, "a1"), Completion)
    assert writer_batches.committed(world.storage, world.timeline, "a") == {"a1"}


def test_batch_of_a_commit_that_was_taken_back_is_written_again() -> None:
    """As a restore does it."""
    world = World()
    writer = world.writer("a")
    world.write(writer, "b1")
    world.write(writer, "b2")
    newest = world.timeline.completed_writes[-1]
    for each in world.timeline.files:
        if each.requested_time == newest.requested_time:
            world.storage.delete(transitions.path(each))
    assert isinstance(world.write(writer, "b2"), Completion)


def test_known_ledger_is_read_anew_where_its_commit_was_taken_back() -> None:
    """As a rollback does whose target completed late: its batch is to be written again."""
    world = World()
    world.write(world.writer("a"), "b1")
    world.write(world.writer("late"), "x")
    known = writer_batches.read(world.storage, world.timeline)
    assert known.holds("late", "x")
    newest = world.timeline.completed_writes[-1]
    world.storage.delete(transitions.path(newest))
    now = writer_batches.read(world.storage, world.timeline, known)
    assert now.batches == {"a": ("b1",)}


def test_known_ledger_spares_reading_what_it_covers() -> None:
    world = World()
    process = world.process("reader")
    storage = faulty_storage.FaultyStorage(world.storage, process, world.faults)
    world.write(world.writer("a"), "b1")
    known = writer_batches.read(storage, world.timeline)
    storage.calls.clear()
    assert writer_batches.read(storage, world.timeline, known) == known
    assert storage.calls == []
    for number in range(2):
        world.write(world.writer(f"jvm{number}"))
        _strip_newest(world)
    newer = writer_batches.read(storage, world.timeline, known)
    assert newer.batches == known.batches
    assert len(storage.calls) == 2


def test_oldest_batches_are_forgotten() -> None:
    ledger = Ledger()
    for number in range(KEPT + 5):
        ledger = ledger.including("a", [f"b{number}"])
    assert not ledger.holds("a", "b4")
    assert ledger.holds("a", "b5")
    assert ledger.including("a", ["b5"]).batches == ledger.batches


def test_all_batches_of_the_active_timeline_are_known_to_whoever_asks_for_all() -> None:
    world = World()
    writer = world.writer("a")
    for number in range(3):
        world.write(writer, f"b{number}")
        world.write(world.writer("c"), f"c{number}")
    held = writer_batches.committed(world.storage, world.timeline, "a")
    assert held == {"b0", "b1", "b2"}
    assert writer_batches.committed(world.storage, world.timeline, "d") == frozenset()


@pytest.mark.parametrize("text", ["", "[]", '{"a": "b"}', '{"a": [1]}', "[" * 100_000])
def test_broken_ledger_is_named(text: str) -> None:
    with pytest.raises(errors.FormatError, match=LEDGER_KEY):
        writer_batches.decode(text, "20260528202640000 deltacommit completed")


def test_ledger_survives_its_text() -> None:
    batches = {"wrîter": ("b 1", '"'), "b": ()}
    assert writer_batches.decode(writer_batches.encode(batches), "") == batches


def test_empty_table_holds_nothing() -> None:
    world = World()
    assert writer_batches.read(world.storage, active.from_files([])) == Ledger()
    with pytest.raises(errors.InvalidInputError, match="batch id"):
        world.write(world.writer("a"), "")
