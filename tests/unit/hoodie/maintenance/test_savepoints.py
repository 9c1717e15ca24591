"""Savepoints: what they keep, from which commits, and how they come and go (protocol.md)."""

from dataclasses import replace
from pathlib import Path

import pytest

from hoodie import errors
from hoodie.format import savepoint_avro
from hoodie.maintenance import savepoints
from hoodie.model import files, instants, plans, results, settings, table_config, time_zones
from hoodie.timeline import active, contents, transitions
from hoodie.transaction import manager
from support.peer.replacements import Replacements
from support.tables.cleans import clean_plan, cleaned
from support.tables.tables import CONFIG, QUICK, SmallTable

WITHOUT_CHAIN = replace(CONFIG, chain=None)
CHAINED = replace(CONFIG, chain=table_config.ChainName(id="c"))
ALONE = replace(CHAINED, has_foreign_writers=False)
COPY_ON_WRITE = replace(
    ALONE, table_type=table_config.TableType.COPY_ON_WRITE, has_partial_updates=False
)
CONFIGS = {"lock": WITHOUT_CHAIN, "chain": CHAINED, "alone": ALONE, "cow": COPY_ON_WRITE}


class Saved:
    """A table with a few commits, and short ways to its savepoints."""

    def __init__(self, path: Path, config: table_config.TableConfig) -> None:
        self.small = SmallTable(path, config)
        self.path = path

    @property
    def transaction(self) -> manager.TransactionOptions:
        return self.small.options().transaction

    @property
    def timeline(self) -> active.ActiveTimeline:
        return active.load(self.small.env.open_storage(str(self.path)))

    @property
    def commits(self) -> list[instants.Instant]:
        return list(self.timeline.completed_writes)

    def write(self, *keys: str, part: str = "p") -> instants.Instant:
        mode = settings.ConcurrencyMode.NON_BLOCKING
        if self.small.table.config.is_copy_on_write:
            mode = settings.ConcurrencyMode.OPTIMISTIC
        rows = [{"id": key, "part": part, "a": 1, "b": "x"} for key in keys]
        done = self.small.upsert(rows, concurrency=mode)
        assert isinstance(done, results.CommitResult)
        return done.instant

    def create(
        self, commit: instants.Instant | None = None, comment: str = ""
    ) -> results.SavepointResult:
        time = commit.requested_time if commit is not None else None
        wanted = savepoints.Wanted(commit=time, comment=comment)
        return self.small.table.create_savepoint(wanted, self.transaction)

    def delete(
        self, *commits: instants.Instant, older_than_ms: int | None = None
    ) -> tuple[instants.Instant, ...]:
        times = frozenset(each.requested_time for each in commits)
        doomed = savepoints.Doomed(commits=times, older_than_ms=older_than_ms)
        return self.small.table.delete_savepoints(doomed, self.transaction)

    def data_files(self, *, until: instants.Instant | None = None) -> set[str]:
        """Return the data files of writes that completed by then, by what commits say."""
        storage = self.small.env.open_storage(str(self.path))
        limit = str(until.completion_time) if until is not None else "9"
        found: set[str] = set()
        for each in self.commits:
            if str(each.completion_time) <= limit:
                for stat in contents.read_commit(storage, each).stats:
                    names = stat.log_files or (stat.path.rpartition("/")[2],)
                    found |= {files.join(stat.partition_path, name) for name in names}
        return found

    def put(self, action: str, content: bytes) -> instants.Instant:
        """Put a completed instant on the timeline, with its pending files."""
        time = self.next_time()
        for state in ("requested", "inflight"):
            (self.path / f".hoodie/timeline/{time}.{action}.{state}").write_bytes(b"")
        return Replacements(self.small)._put(time, action, content)

    def plan_clean(self, *paths: str) -> None:
        storage = self.small.env.open_storage(str(self.path))
        storage.create(f"{active.DIRECTORY}/{self.next_time()}.clean.requested", clean_plan(*paths))

    def next_time(self) -> instants.InstantTime:
        return Replacements(self.small)._next_time()


@pytest.fixture(params=CONFIGS)
def saved(request: pytest.FixtureRequest, tmp_path: Path) -> Saved:
    return Saved(tmp_path / "t", CONFIGS[request.param])


@pytest.fixture
def shared(tmp_path: Path) -> Saved:
    """Return a table that other engines write as well."""
    return Saved(tmp_path / "t", CHAINED)


@pytest.fixture
def alone(tmp_path: Path) -> Saved:
    return Saved(tmp_path / "t", ALONE)


def test_savepoint_keeps_the_files_of_the_newest_commit(saved: Saved) -> None:
    saved.write("a", "b", "c")
    newest = saved.write("a", part="q")
    made = saved.create(comment="why")
    assert made.is_new
    assert (made.instant.requested_time, made.instant.action) == (
        newest.requested_time,
        instants.Action.SAVEPOINT,
    )
    assert made.savepoint.paths == saved.data_files()
    (listed,) = saved.small.table.savepoints()
    assert listed == replace(made, is_new=False)
    assert (listed.savepoint.by, listed.savepoint.comment) == ("writer w", "why")
    assert saved.small.problems() == []
    assert str(made.instant.completion_time) > str(newest.completion_time)


def test_protected_paths_are_those_of_all_savepoints(saved: Saved) -> None:
    storage = saved.small.env.open_storage(str(saved.path))
    saved.write("a")
    assert savepoints.protected_paths(storage, saved.timeline) == frozenset()
    first = saved.create()
    saved.write("b", part="q")
    second = saved.create()
    together = first.savepoint.paths | second.savepoint.paths
    assert savepoints.protected_paths(storage, saved.timeline) == together
    saved.delete(saved.commits[0])
    assert savepoints.protected_paths(storage, saved.timeline) == second.savepoint.paths


def test_savepoint_of_an_earlier_commit_has_what_a_read_as_of_it_needs(saved: Saved) -> None:
    first = saved.write("a", "b", "c")
    second = saved.write("a", "b")
    saved.write("a", "d", part="r")
    made = saved.create(second)
    if saved.small.table.config.is_copy_on_write:
        # A rewritten group is in its newest base file alone.
        groups = {path.partition("_")[0] for path in made.savepoint.paths}
        assert len(groups) == len(made.savepoint.paths)
        assert made.savepoint.paths <= saved.data_files(until=second)
        assert not made.savepoint.paths <= saved.data_files(until=first)
    else:
        assert made.savepoint.paths == saved.data_files(until=second)


def test_compaction_that_completed_later_leaves_the_slices_before_it(alone: Saved) -> None:
    alone.write("a", "b", "c")
    before = alone.write("a", "b", "c")
    logs = alone.data_files()
    assert alone.small.compact() is not None
    after = alone.write("a")
    made = alone.create(before)
    assert made.savepoint.paths == logs
    later = alone.create(after)
    assert not later.savepoint.paths & logs
    assert later.savepoint.paths == alone.data_files() - logs


def test_file_group_that_was_replaced_since_is_kept(shared: Saved) -> None:
    before = shared.write("a", "b", "c")
    kept = shared.data_files()
    replacements = Replacements(shared.small)
    replaced = replacements.retire(replacements.live_groups("p"))
    assert shared.create(before).savepoint.paths == kept
    # The replace commit itself is a commit as well, of which nothing is left.
    assert shared.create(replaced).savepoint.paths == frozenset()


def test_repeated_creation_is_done_already_and_another_comment_is_refused(saved: Saved) -> None:
    saved.write("a")
    made = saved.create(comment="one")
    assert saved.create(comment="one") == replace(made, is_new=False)
    with pytest.raises(errors.AlreadyExistsError, match="with the comment 'one'"):
        saved.create(comment="two")
    assert [each.instant for each in saved.small.table.savepoints()] == [made.instant]


def test_there_is_nothing_to_keep(alone: Saved) -> None:
    with pytest.raises(errors.NotFoundError, match="there is no completed write"):
        alone.create()
    commit = alone.write("a")
    nowhere = replace(commit, requested_time=instants.InstantTime("20200101000000000"))
    with pytest.raises(errors.NotFoundError, match="any more: it was archived"):
        alone.create(nowhere)
    ahead = replace(commit, requested_time=instants.InstantTime("29990101000000000"))
    with pytest.raises(errors.NotFoundError, match=r"no instant 2999\d+ on the timeline$"):
        alone.create(ahead)
    with pytest.raises(errors.InvalidInputError, match="4097 characters"):
        alone.create(comment="x" * 4097)
    assert not list((alone.path / ".hoodie/timeline").glob("*.savepoint*"))


def test_pending_write_is_not_kept(alone: Saved) -> None:
    alone.write("a")
    rows = [{"id": "z", "part": "p", "a": 1, "b": "x"}]
    data = alone.small.data(rows)
    session = alone.small.table.begin_write(alone.small.options(), data.column_names)
    pending = replace(alone.commits[0], requested_time=session.requested_time)
    with pytest.raises(errors.ConflictError, match="is pending, expected a completed write"):
        alone.create(pending)


class TestCleaned:
    """Nothing is kept of which a part is gone, or will be."""

    def test_commit_below_what_the_last_clean_retains_is_refused(self, saved: Saved) -> None:
        first, second = saved.write("a"), saved.write("a")
        saved.put("clean", cleaned(second.requested_time))
        with pytest.raises(errors.ConflictError, match=f"older than {second.requested_time}"):
            saved.create(first)
        assert saved.create(second).is_new

    def test_clean_before_the_last_does_not_count(self, alone: Saved) -> None:
        first = alone.write("a")
        alone.put("clean", cleaned("99999999999999999"))
        alone.put("clean", cleaned(first.requested_time))
        assert alone.create(first).is_new

    def test_commit_whose_files_were_cleaned_by_versions_is_refused(self, alone: Saved) -> None:
        """Such a clean does not say which commits it retains."""
        before = alone.write("a", "b", "c")
        logs = alone.data_files()
        assert alone.small.compact() is not None
        newest = alone.write("a")
        for path in logs:
            (alone.path / path).unlink()
        alone.put("clean", cleaned("", *logs))
        with pytest.raises(errors.ConflictError, match="was cleaned: keep a later commit"):
            alone.create(before)
        assert not alone.create(newest).savepoint.paths & logs

    def test_slice_that_was_cleaned_is_missed_though_the_commit_itself_is_there(
        self, alone: Saved
    ) -> None:
        alone.write("a", "b", "c")
        first = alone.data_files()
        before = alone.write("a", part="q")
        assert alone.small.compact() is not None
        alone.create(before, "whole")
        alone.delete(before)
        for path in first:
            (alone.path / path).unlink()
        alone.put("clean", cleaned("", *first))
        with pytest.raises(errors.ConflictError, match="was cleaned: keep a later commit"):
            alone.create(before)

    def test_pending_clean_of_a_file_is_in_the_way(self, saved: Saved) -> None:
        saved.write("a", "b", "c")
        before = saved.data_files()
        saved.plan_clean(next(iter(before)))
        with pytest.raises(errors.ConflictError, match="clean requested is going to delete p/"):
            saved.create()
        assert not list((saved.path / ".hoodie/timeline").glob("*.savepoint*"))

    def test_pending_clean_of_other_files_is_not(self, alone: Saved) -> None:
        alone.write("a", "b", "c")
        logs = alone.data_files()
        alone.small.compact()
        alone.plan_clean(*logs)
        assert not alone.create().savepoint.paths & logs

    def test_pending_clean_without_a_plan_is_in_the_way(self, alone: Saved) -> None:
        alone.write("a")
        name = f"{alone.next_time()}.clean.inflight"
        (alone.path / ".hoodie/timeline" / name).write_bytes(b"")
        with pytest.raises(errors.ConflictError, match="has no plan: run hoodie clean"):
            alone.create()

    def test_missing_file_is_told(self, alone: Saved) -> None:
        alone.write("a")
        (path,) = alone.data_files()
        (alone.path / path).unlink()
        with pytest.raises(errors.ConflictError, match="is missing: run hoodie check"):
            alone.create()

    def test_repeated_creation_looks_again(self, alone: Saved) -> None:
        alone.write("a")
        alone.create()
        (path,) = alone.data_files()
        alone.plan_clean(path)
        with pytest.raises(errors.ConflictError, match="is going to delete"):
            alone.create()


def test_deleted_savepoint_leaves_nothing(saved: Saved) -> None:
    first, second = saved.write("a"), saved.write("b")
    saved.create(first)
    kept = saved.create(second)
    (deleted,) = saved.delete(first)
    assert deleted.requested_time == first.requested_time
    assert [each.instant for each in saved.small.table.savepoints()] == [kept.instant]
    names = [path.name for path in (saved.path / ".hoodie/timeline").glob("*.savepoint*")]
    assert all(name.startswith(second.requested_time) for name in names)
    with pytest.raises(errors.NotFoundError, match=f"{first.requested_time} .* has no savepoint"):
        saved.delete(first)
    assert saved.create(first).is_new
    saved.write("c")
    assert len(saved.small.table.savepoints()) == 2
    assert saved.small.problems() == []


def test_age_counts_up_to_the_newest_instant(saved: Saved) -> None:
    first = saved.write("a")
    saved.create(first)
    assert saved.delete(older_than_ms=0) == ()
    saved.write("b")
    assert saved.delete(older_than_ms=86_400_000) == ()
    (deleted,) = saved.delete(older_than_ms=0)
    assert deleted.requested_time == first.requested_time
    assert saved.small.table.savepoints() == []


@pytest.mark.parametrize(
    ("saved_at_ms", "minutes"),
    [
        # Clocks are put forward, and back, between the savepoint and the newest commit.
        (1_774_746_000_000 - 30 * 60_000, 59),
        (1_792_890_000_000 - 30 * 60_000, 59),
        # The savepoint is from the second of the hours that clocks show alike.
        (1_792_890_000_000 + 30 * 60_000, 59),
    ],
)
def test_savepoint_is_not_older_when_clocks_are_changed(saved_at_ms: int, minutes: int) -> None:
    zone = time_zones.TimeZone("Europe/Berlin")
    now_ms = saved_at_ms + minutes * 60_000
    commit = zone.format(saved_at_ms - 60_000)
    timeline = active.from_files(
        instants.Instant(
            requested_time=requested_time,
            action=action,
            state=instants.State.COMPLETED,
            completion_time=zone.format(completed_ms),
        )
        for requested_time, action, completed_ms in (
            (commit, instants.Action.COMMIT, saved_at_ms - 30_000),
            (commit, instants.Action.SAVEPOINT, saved_at_ms),
            (zone.format(now_ms - 1), instants.Action.COMMIT, now_ms),
        )
    )
    doomed = savepoints.Doomed(older_than_ms=60 * 60_000)
    assert not savepoints.chosen(timeline, doomed, now_ms, zone)


def test_commit_of_the_future_makes_no_savepoint_old(tmp_path: Path) -> None:
    saved = Saved(tmp_path / "t", WITHOUT_CHAIN)
    saved.create(saved.write("a"))
    last = saved.write("b")
    (completed,) = (saved.path / ".hoodie/timeline").glob(f"{last.requested_time}_*.deltacommit")
    completed.rename(completed.with_name(f"{last.requested_time}_29990101000000000.deltacommit"))
    assert saved.delete(older_than_ms=86_400_000) == ()
    assert len(saved.delete(older_than_ms=0)) == 1


def test_of_two_files_of_one_savepoint_both_protect_and_both_are_deleted(alone: Saved) -> None:
    """Two engines may complete one at a time, after a lock was lost."""
    commit = alone.write("a")
    made = alone.create()
    path = transitions.path(made.instant)
    time = alone.next_time()
    twin = path.replace(str(made.instant.completion_time), time)
    (alone.path / twin).write_bytes((alone.path / path).read_bytes())
    alone.write("b")  # It is known from now on, as of another engine.
    assert len(alone.small.table.savepoints()) == 2
    assert len(alone.delete(commit)) == 2
    assert alone.small.table.savepoints() == []


def test_damaged_savepoint_protects_by_refusal_and_can_be_deleted(alone: Saved) -> None:
    commit = alone.write("a")
    made = alone.create()
    (alone.path / transitions.path(made.instant)).write_bytes(b"nothing")
    storage = alone.small.env.open_storage(str(alone.path))
    with pytest.raises(errors.FormatError):
        savepoints.protected_paths(storage, alone.timeline)
    assert len(alone.delete(commit)) == 1


class TestBegunAndNotCompleted:
    """`<commit>.savepoint.inflight` alone, which is never taken for a write."""

    @pytest.fixture
    def stray(self, saved: Saved) -> Saved:
        saved.write("a", "b", "c")
        saved.write("a")
        for commit in saved.commits:
            path = saved.path / f".hoodie/timeline/{commit.requested_time}.savepoint.inflight"
            path.write_bytes(b"")
        return saved

    def pending(self, saved: Saved) -> list[instants.Instant]:
        return list(saved.timeline.pending_of(instants.Action.SAVEPOINT))

    def test_everything_goes_on(self, stray: Saved) -> None:
        before = stray.small.rows()
        done = stray.small.table.roll_back_failed(stray.transaction)
        assert (done.done, done.passed_over) == ((), ())
        with pytest.raises(errors.ConflictError, match="expected a pending instant"):
            stray.small.table.roll_back(stray.commits[0].requested_time, stray.transaction)
        stray.write("d")
        if not stray.small.table.config.is_copy_on_write:
            assert stray.small.compact() is not None
        assert len(stray.small.rows()) == len(before) + 1
        assert stray.small.problems() == []
        storage = stray.small.env.open_storage(str(stray.path))
        assert savepoints.protected_paths(storage, stray.timeline) == frozenset()
        assert len(self.pending(stray)) == 2
        notes = [each.message for each in stray.small.table.check(QUICK)]
        # While it is new it may be at work: Apache Hudi's have no heartbeat.
        assert all("in progress" in note for note in notes), notes
        assert len(notes) == 2

    def test_creation_completes_it(self, stray: Saved) -> None:
        made = stray.create()
        assert made.instant.requested_time == stray.commits[-1].requested_time
        (left,) = self.pending(stray)
        assert left.requested_time == stray.commits[0].requested_time

    def test_deletion_removes_it(self, stray: Saved) -> None:
        assert stray.delete(stray.commits[0]) == ()
        (left,) = self.pending(stray)
        assert left.requested_time == stray.commits[1].requested_time

    def test_sweep_passes_it_by(self, stray: Saved) -> None:
        """Markers of the commit that it would keep are leftovers all the same."""
        commit = stray.commits[0]
        marker = stray.path / f".hoodie/.temp/{commit.requested_time}/p/f.parquet.marker.CREATE"
        marker.parent.mkdir(parents=True)
        marker.write_bytes(b"")
        assert stray.small.table.roll_back_failed(stray.transaction).leftovers == 1
        assert not marker.exists()


def test_rollback_of_a_commit_with_a_savepoint_is_refused(saved: Saved) -> None:
    """T-R04."""
    commit = saved.write("a")
    saved.create()
    with pytest.raises(errors.ConflictError, match="expected a pending instant"):
        saved.small.table.roll_back(commit.requested_time, saved.transaction)


def test_writes_and_reads_go_on_where_every_commit_has_a_savepoint(saved: Saved) -> None:
    saved.write("a")
    saved.create()
    saved.write("b")
    saved.create()
    saved.write("c")
    saved.create()
    assert [row["id"] for row in saved.small.rows()] == ["a", "b", "c"]
    assert saved.small.problems() == []


def test_other_engines_savepoint_is_listed_and_deleted(saved: Saved) -> None:
    commit = saved.write("a")
    (path,) = saved.data_files()
    partition, _, name = path.rpartition("/")
    from_hudi = plans.Savepoint(
        by="", comment="theirs", saved_at_ms=1, file_names={partition: (name,)}
    )
    time = saved.next_time()
    directory = saved.path / ".hoodie/timeline"
    (directory / f"{commit.requested_time}.savepoint.inflight").write_bytes(b"")
    done = directory / f"{commit.requested_time}_{time}.savepoint"
    done.write_bytes(savepoint_avro.encode(from_hudi))
    saved.write("b")
    (listed,) = saved.small.table.savepoints()
    assert listed.savepoint == from_hudi
    saved.delete(commit)
    assert not done.exists()
