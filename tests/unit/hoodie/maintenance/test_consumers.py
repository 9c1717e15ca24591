"""Consumers hold cleaning back, until they are silent for too long.

What holds, wherever a process dies or pauses, whether the lock excludes anybody or not: of a
consumer whose update was answered without a clean that passed it, every file version that was
replaced at its time or later stays, until its limit is over.
"""

import json
import os
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from hoodie import errors, table
from hoodie.engine import local
from hoodie.filegroup import group_names, snapshots
from hoodie.maintenance import consumers
from hoodie.maintenance.archiving import planning as archive_planning
from hoodie.maintenance.cleaning import planning, retention
from hoodie.maintenance.cleaning import service as cleaning
from hoodie.maintenance.consumers import Progress, State
from hoodie.model import instants, settings, table_config
from hoodie.model.instants import Action, InstantTime
from hoodie.services import checking
from hoodie.storage.protocol import Storage
from hoodie.timeline import active, contents
from hoodie.transaction import manager
from hoodie.write import sessions
from support.tables.cleans import clean_plan
from support.tables.tables import CONFIG, SmallTable

COW = replace(CONFIG, table_type=table_config.TableType.COPY_ON_WRITE)
ALONE = replace(COW, chain=table_config.ChainName(id="c"), has_foreign_writers=False)
SHARED = replace(ALONE, has_foreign_writers=True)
CHAINS = pytest.mark.parametrize(
    "config", [replace(COW, chain=None), ALONE, SHARED], ids=["lock", "alone", "shared"]
)
NOW = retention.Retention(grace_ms=0, retained=1)
DAY_MS = consumers.DAY_MS
WRITES = 4


def rows(number: int) -> list[dict[str, object]]:
    return [{"id": str(n), "part": "pq"[n % 2], "a": number} for n in range(4)]


class Optimistic(SmallTable):
    """A small table of optimistic writers."""

    def options(self, writer_id: str = "w", **changes: object) -> sessions.WriteOptions:  # type: ignore[override] # by name
        changes.setdefault("concurrency", settings.ConcurrencyMode.OPTIMISTIC)
        return super().options(writer_id, **changes)  # type: ignore[arg-type] # by name


def filled(path: Path, config: table_config.TableConfig = COW) -> SmallTable:
    small = Optimistic(path, config)
    for number in range(WRITES):
        small.upsert(rows(number))
    return small


def completions(small: SmallTable) -> list[InstantTime]:
    """Return when the writes completed."""
    found = small.table.timeline().completed_writes
    return [each.completion_time for each in found if each.completion_time is not None]


def clean(small: SmallTable, how: retention.Retention = NOW) -> list[str]:
    done = small.table.clean(how, small.options().transaction).done
    return [path for each in done for path in each.deleted]


def advance(
    small: SmallTable, to: InstantTime | None = None, **changes: object
) -> consumers.Advanced:
    return small.table.advance_consumer("c", Progress(to=to, **changes))  # type: ignore[arg-type] # by name


def needed(small: SmallTable, consumed: InstantTime) -> set[str]:
    """Return the replaced files that a consumer needs."""
    snapshot = snapshots.take(storage_of(small), small.table.config)
    end = retention.Hold(time=InstantTime("9" * 17), reason="")
    names = group_names.TableNames(storage_of(small), small.table.config)
    found = planning.removals(snapshot, names, ["p", "q"], NOW, end)
    return {path for each in found if each.replaced_at >= consumed for path in each.paths}


def missing(small: SmallTable, paths: set[str]) -> set[str]:
    return {each for each in paths if not (small.path / each).exists()}


def file_of(small: SmallTable, name: str = "c") -> Path:
    return small.path / active.consumer_path(name)


class TestHolding:
    @CHAINS
    def test_clean_keeps_what_a_consumer_has_not_read(
        self, config: table_config.TableConfig, tmp_path: Path
    ) -> None:
        small = filled(tmp_path / "t", config)
        times = completions(small)
        wanted = needed(small, times[1])
        assert wanted
        assert advance(small, times[1]).is_new
        proposal = small.table.propose_clean(NOW)
        assert proposal.hold.reason == f"consumer c has read up to {times[1]}"
        assert not proposal.removals
        clean(small)
        assert not missing(small, wanted)
        assert not advance(small, times[2]).is_new
        assert clean(small)
        assert missing(small, wanted) == wanted - needed(small, times[2])
        assert not small.problems()

    def test_it_may_read_its_last_change_once_more(self, tmp_path: Path) -> None:
        small = filled(tmp_path / "t")
        times = completions(small)
        wanted = needed(small, times[1])
        advance(small, times[2])
        assert {*clean(small)} == wanted - needed(small, times[2])

    def test_new_one_begins_at_the_newest_instant(self, tmp_path: Path) -> None:
        small = filled(tmp_path / "t")
        found = advance(small)
        assert found.consumer.consumed == completions(small)[-1]
        again = small.upsert(rows(9))
        assert again
        kept = advance(small)
        assert (kept.is_new, kept.consumer.consumed) == (False, found.consumer.consumed)

    def test_consumer_of_an_empty_table_holds_all(self, tmp_path: Path) -> None:
        small = Optimistic(tmp_path / "t", COW)
        advance(small)
        for number in range(3):
            small.upsert(rows(number))
        assert not clean(small)
        assert needed(small, instants.format_time(0))

    def test_several_hold_by_the_last_of_them(self, tmp_path: Path) -> None:
        small = filled(tmp_path / "t")
        times = completions(small)
        for name, place in (("a", 3), ("b", 1), ("d", 2)):
            small.table.advance_consumer(name, Progress(to=times[place]))
        assert "consumer b has read" in small.table.propose_clean(NOW).hold.reason
        assert small.table.remove_consumer("b")
        assert "consumer d has read" in small.table.propose_clean(NOW).hold.reason
        assert [each.consumer.name for each in small.table.consumers()] == ["a", "d"]

    def test_timeline_without_consumers_costs_no_request(self, tmp_path: Path) -> None:
        small = filled(tmp_path / "t")
        counted = Counting(small.env.open_storage(str(small.path)), lambda: None)
        assert consumers.read_all(counted, small.table.timeline()) == ()  # type: ignore[arg-type] # passes calls on
        assert not counted.count

    def test_incremental_clean_goes_on_where_the_consumer_was(self, tmp_path: Path) -> None:
        small = filled(tmp_path / "t")
        times = completions(small)
        advance(small, times[2])
        assert clean(small)
        wanted = needed(small, times[2])
        small.upsert([{"id": "0", "part": "p", "a": 9}])
        advance(small, completions(small)[-1])
        proposal = small.table.propose_clean(NOW)
        assert proposal.commits_seen is not None
        assert proposal.paths >= wanted


class TestLimit:
    """A consumer that is dead does not hold cleaning for ever, and no clock ends its hold early."""

    def test_silent_one_holds_nothing_back(self, tmp_path: Path) -> None:
        small = filled(tmp_path / "t")
        advance(small, completions(small)[0], limit_ms=DAY_MS)
        age(small, 2 * DAY_MS)
        (found,) = small.table.consumers()
        assert found.state is State.EXPIRED
        assert clean(small)

    def test_limit_begins_again_with_each_update(self, tmp_path: Path) -> None:
        small = filled(tmp_path / "t")
        advance(small, completions(small)[0], limit_ms=DAY_MS)
        age(small, 2 * DAY_MS)
        assert advance(small).passed_by is None
        (found,) = small.table.consumers()
        assert (found.state, found.consumer.record and found.consumer.record.limit_ms) == (
            State.HOLDING,
            DAY_MS,
        )
        assert not clean(small)

    def test_age_counts_by_timeline_and_storage(self) -> None:
        """Between update and limit lies time of the storage: not that of a consumer or cleaner."""
        record = consumers.Record(
            version=1,
            consumer="c",
            consumed=instants.format_time(0),
            limit_ms=1_000,
            updated_at_ms=0,  # Its clock is far behind.
            updated_by="",
            update_id="",
        )
        found = consumers.Consumer(name="c", record=record, updated_ms=50_000)
        assert found.state_at(51_000) is State.HOLDING
        assert found.state_at(51_001) is State.EXPIRED

    def test_table_that_is_not_written_does_not_age(self, tmp_path: Path) -> None:
        small = filled(tmp_path / "t")
        advance(small, completions(small)[0], limit_ms=1)
        (found,) = small.table.consumers()
        assert found.state is State.HOLDING

    @pytest.mark.parametrize("limit_ms", [0, -1, consumers.LIMIT_MAX_MS + 1])
    def test_limit_out_of_range_is_refused(self, limit_ms: int) -> None:
        with pytest.raises(errors.InvalidInputError, match="limit of a consumer"):
            Progress(limit_ms=limit_ms)

    def test_consumer_that_comes_back_late_hears_of_the_clean(self, tmp_path: Path) -> None:
        small = filled(tmp_path / "t")
        times = completions(small)
        advance(small, times[0], limit_ms=DAY_MS)
        age(small, 2 * DAY_MS)
        clean(small)
        assert advance(small, times[1]).passed_by is not None
        assert advance(small, times[-1]).passed_by is None

    def test_update_while_a_clean_reads_the_file_counts(self, tmp_path: Path) -> None:
        """What it reads may be older than the time that the storage says, and not the reverse."""
        small = filled(tmp_path / "t")
        times = completions(small)
        for number in range(9):
            small.table.remove_consumer("c")
            advance(small, times[0], limit_ms=DAY_MS)
            age(small, 2 * DAY_MS)
            other = Hooked(small, number, lambda: advance(small, times[1]))
            read = consumers.read_all(other.storage, small.table.timeline())
            if not other.is_done:
                break
            assert (read[0].consumed, read[0].state_at(instants.parse_time(times[-1]))) in {
                (times[0], State.HOLDING),
                (times[1], State.HOLDING),
            }
        else:
            pytest.fail("reading a consumer takes more requests than expected")


def age(small: SmallTable, by_ms: int) -> None:
    """Let the file of the consumer be older, by the storage."""
    path = file_of(small)
    older_s = path.stat().st_mtime - by_ms / 1000
    os.utime(path, (older_s, older_s))


class TestUpdates:
    def test_it_never_moves_back(self, tmp_path: Path) -> None:
        small = filled(tmp_path / "t")
        times = completions(small)
        advance(small, times[2])
        with pytest.raises(errors.InvalidInputError, match="does not move back"):
            advance(small, times[1])
        assert small.table.consumers()[0].consumer.consumed == times[2]

    def test_it_cannot_have_read_what_has_not_completed(self, tmp_path: Path) -> None:
        small = filled(tmp_path / "t")
        with pytest.raises(errors.InvalidInputError, match="cannot have read up to 9999"):
            advance(small, InstantTime("9" * 17))
        assert not small.table.consumers()

    def test_second_process_of_one_name_is_found_by_what_it_expects(self, tmp_path: Path) -> None:
        small = filled(tmp_path / "t")
        times = completions(small)
        with pytest.raises(errors.ConflictError, match="is not declared, expected"):
            advance(small, times[2], expected=times[1])
        advance(small, times[1])
        advance(small, times[2], expected=times[1])
        with pytest.raises(errors.ConflictError, match="another process"):
            advance(small, times[3], expected=times[1])

    def test_update_between_read_and_write_is_not_overwritten(self, tmp_path: Path) -> None:
        small = filled(tmp_path / "t")
        times = completions(small)
        advance(small, times[1])
        answers = set()
        for number in range(40):
            other = Hooked(small, number, lambda: advance_anyhow(small, times[3]))
            try:
                other.table.advance_consumer("c", Progress(to=times[2]))
                answers.add("before")
            except errors.InvalidInputError:
                answers.add("refused")
            if not other.is_done:
                break
            assert small.table.consumers()[0].consumer.consumed == times[3]
            small.table.remove_consumer("c")
            advance(small, times[1])
        else:
            pytest.fail("an update takes more requests than expected")
        assert answers == {"before", "refused"}

    def test_lost_answer_of_an_update_is_found_out(self, tmp_path: Path) -> None:
        small = filled(tmp_path / "t")
        for call in ("create", "replace"):
            deaf = replace(small.env, open_storage=lambda uri, call=call: Deaf(small, uri, call))
            found = table.open_table(str(small.path), deaf).advance_consumer("c", Progress())
            assert found.is_new == (call == "create")

    @pytest.mark.parametrize(
        "name",
        ["", ".", "..", "../x", "a/b", "a\\b", ".hidden", "a b", "ä", "a\n", "x" * 64, "-o", "a\0"],
    )
    def test_names_that_are_no_names_are_refused(self, name: str, tmp_path: Path) -> None:
        small = filled(tmp_path / "t")
        with pytest.raises(errors.InvalidInputError, match="is not the name of a consumer"):
            small.table.advance_consumer(name, Progress())
        assert not small.table.remove_consumer(name)

    @pytest.mark.parametrize("name", ["a", "9", "A.b_c-1", "x" * 63, "20261121093012345", "a.json"])
    def test_names_of_letters_and_digits_are_taken(self, name: str, tmp_path: Path) -> None:
        small = filled(tmp_path / "t")
        small.table.advance_consumer(name, Progress())
        assert [each.consumer.name for each in small.table.consumers()] == [name]
        assert small.table.remove_consumer(name)
        assert not small.table.remove_consumer(name)


class TestArchiving:
    POLICY = archive_planning.Policy(commits_min=1, commits_max=2)

    @CHAINS
    def test_archiving_waits_with_the_commit_that_was_read_last(
        self, config: table_config.TableConfig, tmp_path: Path
    ) -> None:
        small = filled(tmp_path / "t", config)
        writes = small.table.timeline().completed_writes
        advance(small, writes[1].completion_time, limit_ms=DAY_MS)
        done = small.table.archive(small.options().transaction, self.POLICY)
        assert done.archived == writes[:1]
        assert any("consumer c has read up to" in each for each in done.holds)
        age(small, 2 * DAY_MS)
        done = small.table.archive(small.options().transaction, self.POLICY)
        assert done.archived == writes[1:3]

    def test_damaged_file_holds_all(self, tmp_path: Path) -> None:
        small = filled(tmp_path / "t")
        file_of(small).write_bytes(b"?")
        done = small.table.archive(small.options().transaction, self.POLICY)
        assert not done.archived
        assert any("hoodie consumer remove" in each for each in done.holds)

    def test_consumer_that_has_read_all_holds_nothing(self, tmp_path: Path) -> None:
        small = filled(tmp_path / "t")
        advance(small)
        assert len(small.table.archive(small.options().transaction, self.POLICY).archived) == 3


class TestDamage:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "is not JSON"),
            (b"\xff", "is not JSON"),
            (b"[" * 100_000, "is not JSON"),
            (b"[1]", "of version None"),
            (b'{"version": 2, "news": 1}', "of version 2"),
            (b'{"version": 1}', "consumer"),
        ],
    )
    def test_damaged_file_holds_every_clean_and_says_so(
        self, content: bytes, message: str, tmp_path: Path
    ) -> None:
        small = filled(tmp_path / "t")
        file_of(small).write_bytes(content)
        proposal = small.table.propose_clean(NOW)
        assert not proposal.removals
        assert message in proposal.hold.reason
        assert "hoodie consumer remove" in proposal.hold.reason
        assert not clean(small)
        assert small.table.consumers()[0].state is State.DAMAGED
        with pytest.raises(errors.FormatError, match="cannot be read"):
            advance(small)
        assert small.table.remove_consumer("c")
        assert clean(small)

    @pytest.mark.parametrize(
        "changes",
        [{"consumer": "other"}, {"consumed": "soon"}, {"limit_ms": 0}, {"limit_ms": 1 << 80}],
        ids=str,
    )
    def test_values_that_do_not_fit_are_damage(
        self, changes: dict[str, object], tmp_path: Path
    ) -> None:
        small = filled(tmp_path / "t")
        advance(small)
        path = file_of(small)
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))
        assert small.table.consumers()[0].state is State.DAMAGED

    def test_file_with_a_hostile_name_can_be_removed(self, tmp_path: Path) -> None:
        small = filled(tmp_path / "t")
        file_of(small, "a b").write_bytes(b"{}")
        assert not clean(small)
        assert small.table.remove_consumer("a b")
        assert clean(small)


class TestDeclaring:
    def test_what_was_cleaned_cannot_be_declared(self, tmp_path: Path) -> None:
        small = filled(tmp_path / "t")
        times = completions(small)
        assert clean(small)
        with pytest.raises(errors.InvalidInputError, match="deletes what was replaced since then"):
            advance(small, times[1])
        assert not small.table.consumers()
        assert advance(small, times[-1]).is_new

    def test_beginning_of_a_table_that_was_never_cleaned_can(self, tmp_path: Path) -> None:
        small = filled(tmp_path / "t")
        assert advance(small, instants.format_time(0)).is_new

    def test_what_was_archived_cannot(self, tmp_path: Path) -> None:
        small = filled(tmp_path / "t", ALONE)
        policy = archive_planning.Policy(commits_min=1, commits_max=2)
        early = completions(small)[0]
        assert small.table.archive(small.options().transaction, policy).archived
        with pytest.raises(errors.InvalidInputError, match="before"):
            advance(small, early)

    @pytest.mark.parametrize("is_empty", [False, True])
    def test_plan_of_another_engine_counts_by_what_it_retains(
        self, is_empty: bool, tmp_path: Path
    ) -> None:
        small = filled(tmp_path / "t")
        times = completions(small)
        put_foreign_clean(small, () if is_empty else ("p/x_0-0-0_20200101000000000.parquet",))
        found = consumers.passing(storage_of(small), small.table.timeline(), times[0])
        assert (found is None) == is_empty
        assert (
            consumers.passing(storage_of(small), small.table.timeline(), InstantTime("9" * 17))
            is None
        )


def storage_of(small: SmallTable) -> Storage:
    return small.env.open_storage(str(small.path))


def put_foreign_clean(small: SmallTable, paths: Sequence[str]) -> None:
    time = instants.next_time(InstantTime(str(small.table.timeline().greatest_time)))
    path = small.path / f".hoodie/timeline/{time}.clean.requested"
    path.write_bytes(clean_plan(*paths))


CHAIN_OR_NOT = pytest.mark.parametrize(
    "config", [replace(COW, chain=None), ALONE], ids=["lock", "alone"]
)


class TestRaces:
    """One stops right before any of its requests, the other does all that it does."""

    @CHAIN_OR_NOT
    def test_consumer_that_comes_during_a_clean(
        self, config: table_config.TableConfig, tmp_path: Path
    ) -> None:
        outcomes = set()
        for number in range(200):
            small = filled(tmp_path / f"t{number}", config)
            times = completions(small)
            wanted = needed(small, times[1])
            tried = Tried(lambda: advance(small, times[1]))  # noqa: B023 - called within the loop
            other = Hooked(small, number, tried)
            other.table.clean(NOW, small.options().transaction)
            if not other.is_done:
                break
            outcomes.add(tried.outcome)
            if tried.outcome == "answered":
                assert not missing(small, wanted), number
        else:
            pytest.fail("a clean takes more requests than expected")
        assert outcomes == {"answered", "refused"}

    @CHAIN_OR_NOT
    def test_clean_that_comes_during_a_declaration(
        self, config: table_config.TableConfig, tmp_path: Path
    ) -> None:
        outcomes = set()
        for number in range(60):
            small = filled(tmp_path / f"t{number}", config)
            times = completions(small)
            wanted = needed(small, times[1])
            other = Hooked(small, number, lambda: clean(small))  # noqa: B023 - within the loop
            tried = Tried(lambda: other.table.advance_consumer("c", Progress(to=times[1])))  # noqa: B023
            tried()
            if not other.is_done:
                break
            outcomes.add(tried.outcome)
            if tried.outcome == "answered":
                assert not missing(small, wanted), number
        else:
            pytest.fail("a declaration takes more requests than expected")
        assert outcomes == {"answered", "refused"}

    @CHAIN_OR_NOT
    def test_archiving_that_comes_during_a_declaration(
        self, config: table_config.TableConfig, tmp_path: Path
    ) -> None:
        outcomes = set()

        def archive(small: SmallTable) -> None:
            small.table.archive(small.options().transaction, TestArchiving.POLICY)

        for number in range(60):
            small = filled(tmp_path / f"t{number}", config)
            times = completions(small)
            other = Hooked(small, number, lambda: archive(small))  # noqa: B023 - within the loop
            tried = Tried(lambda: other.table.advance_consumer("c", Progress(to=times[0])))  # noqa: B023
            tried()
            if not other.is_done:
                break
            outcomes.add(tried.outcome)
            if tried.outcome == "answered":
                assert completions(small) == times, number
        else:
            pytest.fail("a declaration takes more requests than expected")
        assert outcomes == {"answered", "refused"}

    def test_consumer_that_comes_while_files_are_deleted_is_refused(self, tmp_path: Path) -> None:
        small = filled(tmp_path / "t")
        times = completions(small)
        tried = Tried(lambda: advance(small, times[1]))
        engine = HookedEngine(tried)
        other = table.open_table(str(small.path), replace(small.env, engine=engine))
        other.clean(NOW, small.options().transaction)
        assert tried.outcome == "refused"

    @CHAINS
    def test_clean_keeps_files_of_its_plan_for_a_consumer_that_came_since(
        self, config: table_config.TableConfig, tmp_path: Path
    ) -> None:
        """The next clean begins at the consumer; archiving does not take its groups for gone."""
        small = filled(tmp_path / "t", config)
        times = completions(small)
        wanted = needed(small, times[1])
        die_with_a_plan(small)
        file_of(small, "c").write_bytes(record_of(small, times[2]))
        (done,) = small.table.clean(NOW, small.options().transaction).done
        assert missing(small, wanted) == set(done.deleted) == wanted - needed(small, times[2])
        assert any("consumer c has read up to" in each for each in done.findings)
        last = retention_of_last_clean(small)
        assert last == (times[2], times[2])
        small.table.remove_consumer("c")
        assert set(clean(small)) >= wanted - {*done.deleted} - needed(small, times[3])
        assert not checking.errors_of(small.table.check(small.options().transaction.settings))

    def test_clean_that_looks_again_keeps_the_bound_of_a_consumer(self, tmp_path: Path) -> None:
        """A proposal of before the consumer does not hold under the lock."""
        small = filled(tmp_path / "t")
        proposal = small.table.propose_clean(NOW)
        advance(small, completions(small)[1])
        client = manager.open_client(small.table._target, small.options().transaction, small.env)
        with closing(client), pytest.raises(cleaning.OutdatedError):
            cleaning.plan(client, small.table.config, NOW, proposal)

    def test_plan_of_another_engine_that_says_no_bound(self, tmp_path: Path) -> None:
        """Nothing counts as cleaned by it: it may have left what it does not say."""
        small = filled(tmp_path / "t")
        times = completions(small)
        wanted = needed(small, times[1])
        content = record_of(small, times[1])
        put_foreign_clean(small, sorted(wanted))
        file_of(small, "c").write_bytes(content)
        (done,) = small.table.clean(NOW, small.options().transaction).done
        assert not done.deleted
        assert not missing(small, wanted)
        assert retention_of_last_clean(small)[0] == ""


def retention_of_last_clean(small: SmallTable) -> tuple[str | None, str | None]:
    """Return the bound of the last clean, and when the write completed that it begins with."""
    last = contents.read_last_clean(storage_of(small), small.table.timeline())
    assert last is not None
    earliest = last[1].earliest_retained
    timeline = small.table.timeline()
    return last[1].bound, None if earliest is None else timeline.completion_time(earliest)


def record_of(small: SmallTable, consumed: InstantTime) -> bytes:
    """Return the file of a consumer that was declared at a time."""
    small.table.advance_consumer("model", Progress())
    path = file_of(small, "model")
    found = json.loads(path.read_text()) | {"consumer": "c", "consumed": consumed}
    path.unlink()
    return json.dumps(found).encode()


def die_with_a_plan(small: SmallTable) -> None:
    def die() -> None:
        raise DyingError

    engine = HookedEngine(die)
    other = table.open_table(str(small.path), replace(small.env, engine=engine))
    with pytest.raises(DyingError):
        other.clean(NOW, small.options().transaction)
    assert small.table.timeline().pending_of(Action.CLEAN)


def advance_anyhow(small: SmallTable, to: InstantTime) -> None:
    advance(small, to)


class DyingError(Exception):
    """The process dies."""


class Tried:
    """Something that may be refused."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act
        self.outcome = ""

    def __call__(self) -> None:
        try:
            found = self._act()
        except (errors.ConflictError, errors.InvalidInputError):
            self.outcome = "refused"
        else:
            assert isinstance(found, consumers.Advanced)
            self.outcome = "answered" if found.passed_by is None else "refused"


class HookedEngine(local.LocalEngine):
    """An engine before whose tasks something happens."""

    def __init__(self, happening: Callable[[], object]) -> None:
        super().__init__(1)
        self._happening = happening

    def map(self, *arguments: object, **options: object) -> list[object]:  # type: ignore[override] # any task
        self._happening()
        return super().map(*arguments, **options)  # type: ignore[arg-type] # as they came


class Counting:
    """A storage that counts its calls, and before each of which something happens."""

    def __init__(self, storage: Storage, before_each: Callable[[], object]) -> None:
        self._storage = storage
        self._before_each = before_each
        self.count = 0

    def __getattr__(self, name: str) -> object:
        found = getattr(self._storage, name)
        if not callable(found):
            return found

        def call(*arguments: object, **options: object) -> object:
            self.count += 1
            self._before_each()
            return found(*arguments, **options)

        return call


class Deaf(Counting):
    """A storage that does what it is asked for, and does not answer the first of such calls."""

    def __init__(self, small: SmallTable, uri: str, call: str) -> None:
        super().__init__(small.env.open_storage(uri), lambda: None)
        self._call = call

    def __getattr__(self, name: str) -> object:
        found = super().__getattr__(name)
        if name != self._call:
            return found

        def call(*arguments: object, **options: object) -> object:
            assert callable(found)
            found(*arguments, **options)
            self._call = ""
            raise errors.StorageError("no answer")

        return call


class Hooked:
    """A table of another process, in which something happens once, before its n-th request."""

    def __init__(self, small: SmallTable, number: int, happening: Callable[[], object]) -> None:
        self._left = 1 << 60
        self._happening = happening
        self.is_done = False
        env = replace(
            small.env,
            open_storage=lambda uri: Counting(small.env.open_storage(uri), self._before_each),
        )
        self.table = table.open_table(str(small.path), env)
        self.storage: Storage = env.open_storage(str(small.path))
        self._left = number

    def _before_each(self) -> None:
        self._left -= 1
        if self._left == -1:
            self.is_done = True
            self._happening()
