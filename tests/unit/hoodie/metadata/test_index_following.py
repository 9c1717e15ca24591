"""A commit without rows follows an index, so that its action is not the last; ADR 0050."""

from contextlib import closing
from pathlib import Path

import pytest

from hoodie import errors
from hoodie.metadata import index_following
from hoodie.model import commits, instants
from hoodie.timeline import active, contents, schema_history
from hoodie.transaction import configuration, manager
from support.simulation import invariants
from support.tables.indexed_tables import CHAINED, KINDS, Indexed, rows_of
from support.tables.tables import CONFIG

SHARED = [kind for kind in KINDS if kind.startswith("shared")]


def timeline_of(indexed: Indexed) -> active.ActiveTimeline:
    found = indexed.opened().timeline()
    invariants.check_indexing_is_followed(found)
    return found


@pytest.mark.parametrize("kind", SHARED)
def test_index_of_a_table_that_is_not_written_is_followed_by_a_commit_without_rows(
    kind: str, tmp_path: Path
) -> None:
    indexed = Indexed(tmp_path / "t", KINDS[kind])
    before, rows = timeline_of(indexed), indexed.small.rows()
    for names in (indexed.names[:-1], indexed.names[-1:]):  # Each of two builds.
        indexed.build(*names)
        after = timeline_of(indexed)
        last = max(after.instants, key=lambda each: each.requested_time)
        storage = indexed.small.env.open_storage(str(indexed.small.path))
        metadata = contents.read_commit(storage, last)
        assert not metadata.stats
        assert metadata.operation == commits.Operation.UPSERT.value
        newest = max(before.completed_writes, key=lambda each: each.requested_time)
        stored = contents.read_stored_columns(storage, newest)
        assert metadata.extra[commits.SCHEMA_KEY] == stored.schema
        assert schema_history.LATEST_KEY not in metadata.extra
        assert indexed.opened().validate_metadata().is_right
    assert len(after.completed_writes) == len(before.completed_writes) + 2
    assert indexed.small.rows() == rows
    indexed.upsert(3, 5, 7)
    indexed.check()


def test_index_of_a_table_that_was_written_meanwhile_needs_no_such_commit(tmp_path: Path) -> None:
    indexed = Indexed(tmp_path / "t", CONFIG)

    def write(what: str) -> None:
        if what.startswith("planning"):
            return
        if not written:
            written.append(what)
            indexed.upsert(20, 22)

    written: list[str] = []
    number = len(indexed.opened().timeline().completed_writes)
    indexed.build(hear=write)
    assert written
    assert len(timeline_of(indexed).completed_writes) == number + 1
    indexed.build()
    assert len(timeline_of(indexed).completed_writes) == number + 1


def test_build_that_died_after_the_commit_makes_no_second(
    tmp_path: Path,
) -> None:
    indexed = Indexed(tmp_path / "t", CONFIG)
    number = len(indexed.opened().timeline().completed_writes)

    def die(what: str) -> None:
        if what == "publishing":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        indexed.build(hear=die)
    assert len(timeline_of(indexed).completed_writes) == number + 1
    assert indexed.opened().pending_indexes()
    indexed.build()
    assert len(timeline_of(indexed).completed_writes) == number + 1
    indexed.check()


def test_commit_that_cannot_complete_is_rolled_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexed = Indexed(tmp_path / "t", CONFIG)

    def fail(*_: object) -> None:
        raise errors.StorageError("out of order")

    with monkeypatch.context() as patched:
        patched.setattr(index_following.stored_schemas, "as_of", fail)
        with pytest.raises(errors.StorageError, match="out of order"):
            indexed.build()
    timeline = timeline_of(indexed)
    assert [each.action for each in timeline.pending] == [instants.Action.INDEXING]
    indexed.build()
    timeline_of(indexed)
    indexed.check()


def test_indexing_action_that_is_the_last_is_followed_by_the_next_build_of_it(
    tmp_path: Path,
) -> None:
    """As Apache Hudi's own indexer leaves it, and earlier releases of this project did."""
    indexed = Indexed(tmp_path / "t", CONFIG)
    follow_nothing(indexed)
    assert indexed.opened().timeline().last_indexing is not None
    indexed.build()
    assert indexed.opened().timeline().last_indexing is None
    indexed.check()


def test_commit_that_is_gone_when_the_index_is_published_is_made_again(tmp_path: Path) -> None:
    """As by a rollback whose own instant was archived since."""
    indexed = Indexed(tmp_path / "t", CONFIG)
    heard: list[str] = []

    def take_off(what: str) -> None:
        heard.append(what)
        if heard.count("publishing") == 1 and what == "publishing":
            take_off_last_write(indexed)

    indexed.build(hear=take_off)
    assert "waiting: no later write has completed" in heard
    timeline_of(indexed)


def follow_nothing(indexed: Indexed) -> None:
    """Have an index built of which no later write is on the timeline."""
    indexed.build()
    take_off_last_write(indexed)


def take_off_last_write(indexed: Indexed) -> None:
    timeline = indexed.opened().timeline()
    last = max(timeline.completed_writes, key=lambda each: each.requested_time)
    for path in (indexed.small.path / active.DIRECTORY).glob(f"{last.requested_time}*"):
        path.unlink()
    beside = indexed.small.path / ".hoodie" / "metadata" / active.DIRECTORY
    for path in beside.glob(f"{last.requested_time}*"):
        path.unlink()


@pytest.mark.parametrize("has_chain", [False, True])
def test_table_with_an_index_is_opened_to_other_engines_behind_such_a_commit(
    has_chain: bool, tmp_path: Path
) -> None:
    indexed = Indexed(tmp_path / "t", CHAINED)
    number = len(indexed.opened().timeline().completed_writes)
    indexed.build()
    timeline = indexed.opened().timeline()
    assert timeline.last_indexing is not None
    assert len(timeline.completed_writes) == number  # Where no other engine writes there is none.
    transaction = indexed.small.options().transaction
    config = indexed.opened().config
    target = manager.Target(
        storage=indexed.small.env.open_storage(str(indexed.small.path)),
        config=config,
        schema=indexed.small.table.schema,
    )
    # An index may be built between the look at the timeline and the scope that lets others in.
    with closing(manager.open_client(target, transaction, indexed.small.env)) as client:
        with pytest.raises(errors.ConflictError, match="is the last action, expected a later"):
            configuration.switch_off(client, config)
        with pytest.raises(errors.ConflictError, match="is the last action, expected a later"):
            configuration.switch_on(client, config, has_foreign_writers=True)
    opened = indexed.opened().configure_chain(
        transaction, has_chain=has_chain, has_foreign_writers=True
    )
    assert opened.config.has_foreign_writers
    timeline = indexed.opened().timeline()
    assert timeline.last_indexing is None
    assert len(timeline.completed_writes) == number + 1
    assert len(indexed.small.rows()) == len(rows_of(0, 9))
