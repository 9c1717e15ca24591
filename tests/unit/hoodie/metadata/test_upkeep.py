"""Metadata tables that the library makes and keeps up, beside the tables that they are of."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from hoodie import environment, errors, table
from hoodie.filegroup import metadata_table
from hoodie.format import timeline_avro
from hoodie.maintenance.archiving import planning
from hoodie.maintenance.cleaning import retention
from hoodie.metadata import upkeep
from hoodie.model import instants, plans, settings, table_config
from hoodie.storage.protocol import Storage
from hoodie.timeline import active, metadata_timelines, transitions
from hoodie.transaction import metadata_commits, publication, table_lock
from hoodie.transaction.client import Client
from support.tables.tables import CONFIG, SmallTable

CHAINED = replace(CONFIG, chain=table_config.ChainName(id="c"))
KINDS = {
    "mor": CONFIG,
    "cow": replace(CONFIG, table_type=table_config.TableType.COPY_ON_WRITE),
    "without partitions": replace(CONFIG, partition_fields=()),
    "chain": CHAINED,
    "chain, ours alone": replace(CHAINED, has_foreign_writers=False),
}
OFTEN = {"metadata_delta_commits_max": 3}


def rows_of(first: int, last: int, a: int = 0) -> list[dict[str, object]]:
    return [{"id": str(n), "part": f"p{n % 3}", "a": a, "b": "x"} for n in range(first, last)]


class Kept:
    """A table with a metadata table of ours."""

    def __init__(self, path: Path, config: table_config.TableConfig = CONFIG) -> None:
        self.small = SmallTable(path, config)
        if config.is_copy_on_write:
            self.more = {"concurrency": settings.ConcurrencyMode.OPTIMISTIC}
        else:
            self.more = {}
        self.storage: Storage = environment.system(parallelism=1).open_storage(str(path))
        self.beside = metadata_timelines.opened(self.storage)

    def init(self, *, is_rebuilt: bool = False) -> None:
        self.small.table = self.small.table.initialise_metadata(
            self.small.options().transaction, is_rebuilt=is_rebuilt
        )

    def upsert(self, rows: list[dict[str, object]], **changes: object) -> None:
        self.small.upsert(rows, **{**OFTEN, **self.more, **changes})

    @property
    def timeline(self) -> active.ActiveTimeline:
        return active.listed(self.beside)

    def names(self) -> list[str]:
        return list(self.beside.names(metadata_table.FILES))

    def bases(self) -> list[str]:
        return [each for each in self.names() if each.endswith(metadata_table.EXTENSION)]

    def check(self) -> None:
        """Check that reads use it, and that it says what the storage says."""
        opened = table.open_table(str(self.small.path), self.small.env)
        assert opened.explain_read().has_metadata_table
        assert opened.validate_metadata().is_right


@pytest.fixture(params=KINDS)
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Kept:
    return Kept(tmp_path / "t", KINDS[request.param])


@pytest.fixture
def plain(tmp_path: Path) -> Kept:
    made = Kept(tmp_path / "t")
    made.init()
    return made


def compactions(kept: Kept) -> list[instants.Instant]:
    writes = kept.timeline.completed_writes
    return [each for each in writes if each.action is instants.Action.COMMIT]


def test_every_change_is_in_it(kept: Kept) -> None:
    kept.upsert(rows_of(0, 9))
    kept.init()
    kept.check()
    for a in range(1, 6):
        kept.upsert(rows_of(a, 9 + a, a))
        kept.check()
    if not kept.small.table.config.is_copy_on_write:
        kept.small.delete(rows_of(0, 2))
        assert kept.small.compact() is not None
        kept.check()
        kept.upsert(rows_of(3, 5, 7))
    how = retention.Retention(retained=1, grace_ms=0)
    done = kept.small.table.clean(how, kept.small.options().transaction)
    assert done.done
    assert done.done[0].deleted
    kept.check()
    assert compactions(kept)
    assert not kept.small.problems()


def test_empty_table_gets_one(plain: Kept) -> None:
    plain.check()
    times = [each.requested_time for each in plain.timeline.completed]
    assert times == [f"{number:017}" for number in range(3)]
    plain.upsert(rows_of(0, 3))
    plain.check()


def test_one_that_is_there_is_not_made_again(plain: Kept) -> None:
    with pytest.raises(errors.AlreadyExistsError, match="--rebuild"):
        plain.init()
    plain.upsert(rows_of(0, 3))
    plain.init(is_rebuilt=True)
    plain.check()
    assert len(plain.timeline.completed) == 3


def test_dropped(plain: Kept) -> None:
    plain.upsert(rows_of(0, 3))
    transaction = plain.small.options().transaction
    assert plain.small.table.drop_metadata(transaction)
    opened = table.open_table(str(plain.small.path), plain.small.env)
    assert not opened.config.metadata_partitions
    assert not plain.beside.list("", is_recursive=True)
    assert not opened.drop_metadata(transaction)
    plain.small.table = opened
    plain.upsert(rows_of(0, 3))
    assert len(plain.small.rows()) == 3


def test_write_that_began_before_it_was_made_publishes_nothing(tmp_path: Path) -> None:
    made = Kept(tmp_path / "t")
    session = made.small.table.begin_write(made.small.options(), ["id", "part", "a", "b"])
    written = made.small.write_files(session, rows_of(0, 3))
    made.init()
    with pytest.raises(errors.ConflictError, match="presence of a metadata table"):
        session.commit(written)
    made.upsert(rows_of(3, 5))
    made.check()
    assert [row["id"] for row in made.small.rows()] == ["3", "4"]


def test_compaction_is_due_after_so_many_delta_commits(plain: Kept) -> None:
    plain.upsert(rows_of(0, 3))
    assert not compactions(plain)
    plain.upsert(rows_of(0, 3, 1))
    (compaction,) = compactions(plain)
    assert [each for each in plain.bases() if compaction.requested_time in each]
    plain.check()


def test_check_compares_it_with_the_storage(plain: Kept) -> None:
    plain.upsert(rows_of(0, 3))
    assert not plain.small.problems()
    (log,) = [each for each in plain.names() if plain.timeline.completed[-1].requested_time in each]
    plain.beside.delete(f"{metadata_table.FILES}/{log}")
    opened = table.open_table(str(plain.small.path), plain.small.env)
    plain.small.table = opened
    (problem,) = plain.small.problems()
    assert "has no log file of" in problem
    assert "hoodie metadata init --rebuild" in problem
    assert len(plain.small.rows()) == 3


@pytest.mark.parametrize("pattern", ["*", "*.hfile"])
@pytest.mark.parametrize("has_compactions", [False, True])
def test_table_whose_base_file_was_deleted_by_hand_is_listed(
    plain: Kept, pattern: str, *, has_compactions: bool
) -> None:
    """Its log files may be gone, too: reads found no rows."""
    plain.upsert(rows_of(0, 3))
    if has_compactions:
        for a in range(5):
            plain.upsert(rows_of(0, 3, a))
        assert compactions(plain)
    else:
        plain.init(is_rebuilt=True)
    for each in (plain.small.path / ".hoodie" / "metadata" / metadata_table.FILES).glob(pattern):
        each.unlink()
    opened = table.open_table(str(plain.small.path), plain.small.env)
    assert len(opened.read().read_all()) == 3
    assert not opened.explain_read().has_metadata_table
    if pattern == "*":
        with pytest.raises(errors.FormatError, match="has no file groups"):
            plain.upsert(rows_of(3, 5))
        return
    # A compaction would hide that.
    for a in range(5):
        plain.upsert(rows_of(3, 5, a))
    opened = table.open_table(str(plain.small.path), plain.small.env)
    assert len(opened.read().read_all()) == 5
    assert not opened.explain_read().has_metadata_table


def test_old_files_go_and_instants_are_archived(plain: Kept) -> None:
    for a in range(26):
        plain.upsert(rows_of(0, 2, a))
    plain.check()
    assert len(plain.bases()) == upkeep.SLICES_KEPT
    counted = len(plain.timeline.completed)
    assert counted > 26, "the data's timeline has them still"
    policy = planning.Policy(commits_min=2, commits_max=3, compaction_delta_commits=1)
    assert plain.small.compact()
    transaction = plain.small.options().transaction
    assert plain.small.table.archive(transaction, policy).archived
    for a in range(6):
        plain.upsert(rows_of(0, 2, a))
    plain.check()
    assert len(plain.timeline.completed) < counted
    assert plain.beside.names(".hoodie/timeline/history")


@pytest.mark.parametrize("is_empty", [False, True])
def test_files_that_a_lost_lock_lets_go_late_are_not_of_one_made_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_empty: bool
) -> None:
    """The process that compacts may stop between two deletions, and lose its lock meanwhile."""
    kept = Kept(tmp_path / "t")
    if not is_empty:
        kept.upsert(rows_of(0, 9))
    kept.init()
    removed: list[str] = []
    kind = type(kept.beside)
    remove = kind.delete_unordered

    def record(storage: Storage, paths: Iterable[str]) -> None:
        gone = list(paths)
        removed.extend(gone)
        remove(storage, gone)

    monkeypatch.setattr(kind, "delete_unordered", record)
    for a in range(3 * upkeep.SLICES_KEPT):
        kept.upsert(rows_of(0, 2, a))
    assert removed
    assert is_empty or any(metadata_timelines.FIRST_TIMES[0] in path for path in removed)
    kept.init(is_rebuilt=True)
    remove(kept.beside, removed)
    kept.check()


def test_base_file_of_a_maker_that_was_too_late_does_not_count(plain: Kept) -> None:
    """Its first instant is that of the metadata table that was made again meanwhile."""
    (late,) = plain.bases()
    content = plain.beside.read(f"{metadata_table.FILES}/{late}")
    plain.upsert(rows_of(0, 9))
    plain.init(is_rebuilt=True)
    (made,) = plain.bases()
    for stage in (0, 999_999_999):
        _, token, rest = late.split("_")
        assert token not in made
        name = f"files-0000-0_0-{stage}-0_{rest}"
        plain.beside.create(f"{metadata_table.FILES}/{name}", content)
        plain.check()
        plain.upsert(rows_of(0, 3, stage), metadata_delta_commits_max=100)
        plain.check()


@pytest.mark.parametrize("is_archived", [False, True])
def test_second_completion_of_one_delta_commit_is_removed(plain: Kept, is_archived: bool) -> None:
    """It is of an executor who was paused; its instant of the table may be archived by then."""
    plain.upsert(rows_of(0, 3))
    late = plain.timeline.completed[-1]
    plain.upsert(rows_of(0, 2, 1), metadata_delta_commits_max=100)
    plain.small.compact()
    transaction = plain.small.options().transaction
    if is_archived:
        policy = planning.Policy(commits_min=2, commits_max=3, compaction_delta_commits=1)
        for a in range(3):
            plain.upsert(rows_of(0, 2, a), metadata_delta_commits_max=100)
        plain.small.compact()
        assert plain.small.table.archive(transaction, policy).archived
    timeline = active.listed(plain.storage)
    assert (late.requested_time in {each.requested_time for each in timeline.completed}) is (
        not is_archived
    )
    again = replace(late, completion_time=plain.timeline.completed[-1].completion_time)
    plain.beside.create(transitions.path(again), plain.beside.read(transitions.path(late)))
    assert plain.timeline.duplicates
    plain.small.table.roll_back_failed(transaction)
    assert not plain.timeline.duplicates
    plain.check()


def test_compaction_waits_for_a_delta_commit_that_may_be_taken_off(
    plain: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = plain.small.options(writer_id="dead")
    session = plain.small.table.begin_write(options, ["id", "part", "a", "b"])
    written = plain.small.write_files(session, rows_of(0, 3))
    with monkeypatch.context() as patch:
        patch.setattr(transitions, "complete", _fail)
        patch.setattr(type(session), "abort", lambda *_, **__: None)
        with pytest.raises(errors.StorageError):
            session.commit(written)
    pending = session.requested_time
    assert pending in plain.timeline.write_completion_times
    for a in range(4):
        plain.upsert(rows_of(0, 3, a), acknowledges_order_dependence=True)
    assert not compactions(plain)
    plain.check()


def test_writer_that_is_overtaken_writes_its_log_files_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Kept(tmp_path / "t", KINDS["chain, ours alone"])
    made.init()
    put = metadata_commits.put
    scopes: list[table_lock.LockScope] = []

    def put_and_be_overtaken(
        client: Client, scope: table_lock.LockScope, *rest: object
    ) -> Mapping[str, bytes]:
        found = put(client, scope, *rest)
        scopes.append(scope)
        if len(scopes) == 1:
            publication.take_number(client, scope, scope.check)
        return found

    monkeypatch.setattr(metadata_commits, "put", put_and_be_overtaken)
    made.upsert(rows_of(0, 3))
    assert len(scopes) == 2
    made.check()
    time = made.timeline.completed[-1].requested_time
    assert len([name for name in made.names() if time in name]) == 2


def _fail(*_: object, **__: object) -> None:
    raise errors.StorageError("no")


def test_pending_compaction_of_a_process_that_died_is_withdrawn(plain: Kept) -> None:
    plain.upsert(rows_of(0, 3))
    time = instants.InstantTime("20200101000000000")
    base = f"{metadata_table.FILES}/files-0000-0_0-0-0_{time}{metadata_table.EXTENSION}"
    plan = timeline_avro.encode_compaction_plan(plans.CompactionPlan(operations=()))
    plain.beside.create(base, b"half")
    plain.beside.create(f"{active.DIRECTORY}/{time}.compaction.requested", plan)
    plain.upsert(rows_of(0, 3, 1))
    assert plain.timeline.find(time) is None
    assert base.rpartition("/")[2] not in plain.bases()
    assert compactions(plain)
    plain.check()
