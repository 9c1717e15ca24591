"""Changes since a position, through the table's door."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hoodie import environment, errors, table
from hoodie.maintenance.archiving import planning as archive_planning
from hoodie.maintenance.cleaning import retention
from hoodie.maintenance.consumers import Progress
from hoodie.model import instants, moments, settings, table_config
from hoodie.model.instants import Instant, InstantTime, State
from hoodie.read import changes, positions, travel, where
from hoodie.timeline import transitions
from hoodie.transaction import authors
from support.tables import restores
from support.tables.indexed_tables import BESIDE
from support.tables.tables import CONFIG, Rows, SmallTable

PLAIN = replace(CONFIG, has_partial_updates=False)
COW = replace(PLAIN, table_type=table_config.TableType.COPY_ON_WRITE)
KINDS = pytest.mark.parametrize("config", [PLAIN, COW, CONFIG], ids=["mor", "cow", "partial"])
NOW = retention.Retention(retained=1, grace_ms=0)


class Pulled(SmallTable):
    """A table, and what of it is pulled."""

    def __init__(self, path: Path, config: table_config.TableConfig = PLAIN) -> None:
        super().__init__(path, config)
        mode = settings.ConcurrencyMode
        is_alone = config.is_copy_on_write
        self.more: dict[str, object] = {
            "concurrency": mode.OPTIMISTIC if is_alone else mode.NON_BLOCKING,
            **BESIDE,
        }

    def put(self, *ids: str, a: int = 0, part: str = "p") -> Instant:
        self.upsert([{"id": id_, "part": part, "a": a, "b": "x"} for id_ in ids], **self.more)
        return self.newest

    def drop(self, *ids: str, part: str = "p") -> None:
        self.delete([{"id": id_, "part": part} for id_ in ids], **self.more)

    def begin(self, *ids: str, a: int = 0, part: str = "p") -> Callable[[], object]:
        rows: Rows = [{"id": id_, "part": part, "a": a, "b": "x"} for id_ in ids]
        session = self.table.begin_write(self.options(f"late{a}", **self.more), list(rows[0]))
        written = self.write_files(session, rows)
        return lambda: session.commit(written)

    @property
    def newest(self) -> Instant:
        return self.table.timeline().completed_writes[-1]

    def clean(self) -> None:
        self.table.clean(NOW, self.options(**self.more).transaction)

    def archive(self) -> None:
        policy = archive_planning.Policy(commits_min=1, commits_max=2)
        assert self.table.archive(self.options(**self.more).transaction, policy).archived


def shown(found: changes.Changes) -> list[tuple[object, ...]]:
    """Return changes as texts such as `+1 a=5`."""
    rows = found.read().read_all().to_pylist()
    return sorted((row["_change"][0], row["id"], row["part"], row.get("a")) for row in rows)


def changed(pulled: Pulled, since: positions.Position, **more: object) -> Rows:
    """Return change data as rows."""
    return pulled.table.change_data(since, **more).read().read_all().to_pylist()


@KINDS
def test_each_changed_row_comes_once_as_it_is_now(
    config: table_config.TableConfig, tmp_path: Path
) -> None:
    pulled = Pulled(tmp_path / "t", config)
    pulled.put("1", "2", "3")
    first = pulled.table.changes()
    assert first.is_snapshot
    assert [row[1] for row in shown(first)] == ["1", "2", "3"]
    pulled.put("1", a=1)
    pulled.put("1", "4", a=2)
    pulled.drop("2")
    pulled.put("5", a=3)
    pulled.drop("5")
    found = pulled.table.changes(str(first.position))
    assert shown(found) == [("d", "2", "p", None), ("u", "1", "p", 2), ("u", "4", "p", 2)]
    assert len(found.writes) == 5
    assert not found.latecomers
    assert shown(pulled.table.changes(found.position)) == []
    assert pulled.table.changes(found.position).position == found.position
    without = pulled.table.changes(first.position, has_deletes=False)
    assert shown(without) == shown(found)[1:]


@KINDS
def test_services_change_nothing_and_hide_nothing(
    config: table_config.TableConfig, tmp_path: Path
) -> None:
    """T-Q06, T-X09: the same rows after compaction and archiving as before."""
    pulled = Pulled(tmp_path / "t", config)
    pulled.put("1", "2")
    position = pulled.table.changes().position
    late = pulled.put("1", "3", a=1)
    pulled.drop("2")
    pulled.put("1", a=2)
    expected = shown(pulled.table.changes(position))
    assert expected == [("d", "2", "p", None), ("u", "1", "p", 2), ("u", "3", "p", 1)]
    if not config.is_copy_on_write:
        pulled.compact()
    assert shown(pulled.table.changes(position)) == expected
    pulled.archive()
    assert pulled.table.timeline().find(late.requested_time) is None
    assert shown(pulled.table.changes(position)) == expected
    assert shown(pulled.table.changes(position.time)) == expected
    compacted = pulled.table.changes(position).position
    assert shown(pulled.table.changes(compacted)) == []


def test_archived_write_that_took_for_long_is_found_by_a_time(tmp_path: Path) -> None:
    pulled = Pulled(tmp_path / "t")
    pulled.put("1")
    finish = pulled.begin("2", a=2)
    for number in range(3):
        pulled.put("1", a=number)
    time = pulled.newest.completion_time
    finish()
    for number in range(3):
        pulled.put("3", a=number)
    pulled.archive()
    assert shown(pulled.table.changes(time)) == [("u", "2", "p", 2), ("u", "3", "p", 2)]


@pytest.mark.parametrize("begin", ["position", "time"])
def test_range_that_ends_among_archived_writes_goes_on_there(begin: str, tmp_path: Path) -> None:
    pulled = Pulled(tmp_path / "t")
    pulled.put("0")
    first = pulled.table.changes().position
    finish = pulled.begin("9", a=9)
    writes = [pulled.put("1", a=number) for number in range(3)]
    finish()
    for number in range(4):
        pulled.put("3", a=number)
    pulled.archive()
    end = writes[1].completion_time
    since = first if begin == "position" else first.time
    found = pulled.table.changes(since, until=end)
    assert shown(found) == [("u", "1", "p", 1)]
    rest = pulled.table.changes(found.position)
    assert shown(rest) == [("u", "1", "p", 2), ("u", "3", "p", 3), ("u", "9", "p", 9)]
    assert not rest.latecomers
    everything = pulled.table.changes(until=end)
    assert [row[1] for row in shown(everything)] == ["0", "1"]
    assert shown(pulled.table.changes(everything.position)) == shown(rest)


@KINDS
def test_cleaned_range_is_refused_or_all_rows_are_read(
    config: table_config.TableConfig, tmp_path: Path
) -> None:
    pulled = Pulled(tmp_path / "t", config)
    pulled.put("1", "2")
    position = pulled.table.changes().position
    for number in range(3):
        pulled.put("1", a=number)
        pulled.drop("2")
        if not config.is_copy_on_write:
            pulled.compact()
    pulled.clean()
    with pytest.raises(errors.GoneError, match="the earliest time after it that can be read is"):
        pulled.table.changes(position)
    again = pulled.table.changes(position, falls_back=True)
    assert again.is_snapshot
    assert shown(again) == [("u", "1", "p", 2)]
    if not config.has_partial_updates:
        without = pulled.table.changes(position, has_deletes=False)
        assert shown(without) == [("u", "1", "p", 2)]


def test_file_groups_that_no_write_touched_may_be_cleaned(tmp_path: Path) -> None:
    pulled = Pulled(tmp_path / "t", COW)
    pulled.put("1")
    for number in range(3):
        pulled.put("1", a=number, part="q")
    position = pulled.table.changes().position
    pulled.put("9", part="r")
    pulled.put("9", part="r", a=1)
    pulled.clean()
    assert shown(pulled.table.changes(position)) == [("u", "9", "r", 1)]


class TestLatecomers:
    """A completed file whose time is at or below a position that was given out."""

    @pytest.fixture
    def pulled(self, tmp_path: Path) -> Pulled:
        pulled = Pulled(tmp_path / "t")
        pulled.put("1")
        pulled.put("2")
        return pulled

    def rename(self, pulled: Pulled, write: Instant, completed: InstantTime) -> Instant:
        """Let a write have completed at another time."""
        moved = replace(write, completion_time=completed)
        (pulled.path / transitions.path(write)).rename(pulled.path / transitions.path(moved))
        return moved

    def test_it_belongs_to_the_next_increment(self, pulled: Pulled) -> None:
        finish = pulled.begin("3", a=3)
        pulled.put("1", a=1)
        newest = pulled.newest
        position = pulled.table.changes().position
        assert position.time == newest.completion_time
        finish()
        below = instants.format_time(instants.parse_time(position.time) - 1)
        late = self.rename(pulled, pulled.newest, below)
        pulled.put("4", a=4)
        found = pulled.table.changes(position)
        assert found.latecomers == (late,)
        assert shown(found) == [("u", "3", "p", 3), ("u", "4", "p", 4)]
        assert shown(pulled.table.changes(found.position)) == []
        # By the time alone it is passed by.
        assert shown(pulled.table.changes(position.time)) == [("u", "4", "p", 4)]

    def test_deletes_of_it_are_found(self, pulled: Pulled) -> None:
        pulled.put("1", a=1)
        position = pulled.table.changes().position
        pulled.drop("2")
        self.rename(pulled, pulled.newest, position.time)
        found = pulled.table.changes(position)
        assert len(found.latecomers) == 1
        assert shown(found) == [("d", "2", "p", None)]

    def test_range_up_to_a_position_stays_the_same(self, pulled: Pulled) -> None:
        """A consumer that dies between two positions reads the same rows again."""
        begin = pulled.table.changes().position
        pulled.put("1", a=1)
        end = pulled.table.changes(begin).position
        pulled.put("3", a=3)
        late = self.rename(pulled, pulled.newest, end.time)
        again = pulled.table.changes(begin, until=str(end))
        assert shown(again) == [("u", "1", "p", 1)]
        assert again.position == end
        assert [row["op"] for row in changed(pulled, begin, until=end)] == ["u"]
        assert [row[1] for row in shown(pulled.table.changes(until=end))] == ["1", "2"]
        rest = pulled.table.changes(end)
        assert rest.latecomers == (late,)
        assert shown(rest) == [("u", "3", "p", 3)]
        assert [row["record_key"] for row in changed(pulled, end)] == ["3"]
        whole = changed(pulled, begin, until=rest.position)
        assert sorted(row["record_key"] for row in whole) == ["1", "3"]

    def test_latecomer_that_an_end_has_counted_is_in_its_range(self, pulled: Pulled) -> None:
        begin = pulled.table.changes().position
        pulled.put("3", a=3)
        late = self.rename(pulled, pulled.newest, begin.time)
        end = pulled.table.changes(begin).position
        assert end.time == begin.time
        again = pulled.table.changes(begin, until=end)
        assert again.latecomers == (late,)
        assert shown(again) == [("u", "3", "p", 3)]

    def test_range_that_ends_before_it_begins_is_empty(self, pulled: Pulled) -> None:
        before = pulled.table.changes().position
        pulled.put("1", a=1)
        begin = pulled.table.changes().position
        found = pulled.table.changes(begin, until=before)
        assert shown(found) == []
        assert found.position == begin

    def test_write_that_was_rolled_back_since_is_an_error(self, pulled: Pulled) -> None:
        gone = pulled.put("3")
        position = pulled.table.changes().position
        for state in State:
            instant = gone if state is State.COMPLETED else gone.pending_in(state)
            (pulled.path / transitions.path(instant)).unlink()
        pulled.put("4")
        with pytest.raises(errors.GoneError, match="were rolled back"):
            pulled.table.changes(position)
        assert pulled.table.changes(position, falls_back=True).is_snapshot


class TestOrder:
    def test_range_ends_below_what_is_in_flight(self, tmp_path: Path) -> None:
        """T-Q05."""
        pulled = Pulled(tmp_path / "t")
        pulled.put("1")
        position = pulled.table.changes().position
        pulled.put("2")
        finish = pulled.begin("3", a=3)
        pulled.put("4")
        found = pulled.table.changes(position, is_ordered=True)
        assert [row[1] for row in shown(found)] == ["2"]
        assert [row[1] for row in shown(pulled.table.changes(position))] == ["2", "4"]
        finish()
        rest = pulled.table.changes(found.position, is_ordered=True)
        assert [row[1] for row in shown(rest)] == ["3", "4"]

    def test_range_ends_where_it_is_asked_to(self, tmp_path: Path) -> None:
        pulled = Pulled(tmp_path / "t")
        position = pulled.table.changes().position
        middle = [pulled.put("1", a=number) for number in range(3)][1]
        found = pulled.table.changes(position, until=middle.requested_time)
        assert shown(found) == [("u", "1", "p", 1)]
        assert found.position.time == middle.completion_time
        assert shown(pulled.table.changes(found.position)) == [("u", "1", "p", 2)]

    def test_compaction_that_orders_rows_anew_changes_them(self, tmp_path: Path) -> None:
        """Of equal ordering values the later requested one wins, unless it is compacted."""
        pulled = Pulled(tmp_path / "t")
        pulled.put("1")
        early = pulled.begin("1", a=1)
        pulled.put("1", a=2)
        service = replace(pulled.options(**pulled.more).transaction, author=authors.Author())
        planned = pulled.table.schedule_compaction(service)
        assert planned is not None
        early()
        first = pulled.table.changes()
        assert shown(first) == [("u", "1", "p", 2)]
        pulled.table.compact(planned, service)
        assert [row["a"] for row in pulled.rows()] == [1]
        found = pulled.table.changes(first.position)
        assert shown(found) == [("u", "1", "p", 1)]
        assert not found.writes


class TestConsumers:
    def test_it_goes_on_where_it_is_and_cleaning_waits(self, tmp_path: Path) -> None:
        pulled = Pulled(tmp_path / "t", COW)
        pulled.put("1", "2")
        first = pulled.table.changes(consumer="c")
        assert first.is_snapshot
        progress = Progress(to=first.position.time, position=str(first.position))
        pulled.table.advance_consumer("c", progress)
        for number in range(3):
            pulled.put("1", a=number)
        pulled.drop("2")
        pulled.clean()
        found = pulled.table.changes(consumer="c")
        assert shown(found) == [("d", "2", "p", None), ("u", "1", "p", 2)]
        # One that records its time alone goes on from there, too; a time of no position has none.
        pulled.table.advance_consumer("c", Progress(to=found.position.time))
        assert shown(pulled.table.changes(consumer="c")) == []

    def test_alive_consumer_keeps_its_position(self, tmp_path: Path) -> None:
        pulled = Pulled(tmp_path / "t")
        pulled.put("1")
        position = pulled.table.changes().position
        pulled.table.advance_consumer("c", Progress(to=position.time, position=str(position)))
        advanced = pulled.table.advance_consumer("c", Progress())
        assert advanced.consumer.record is not None
        assert advanced.consumer.record.position == str(position)


class TestBadInput:
    @pytest.fixture
    def pulled(self, tmp_path: Path) -> Pulled:
        pulled = Pulled(tmp_path / "t")
        pulled.put("1")
        return pulled

    def test_position_of_another_table(self, pulled: Pulled, tmp_path: Path) -> None:
        other = Pulled(tmp_path / "u", replace(PLAIN, name="other"))
        other.put("1")
        with pytest.raises(errors.InvalidInputError, match="is of another table"):
            pulled.table.changes(other.table.changes().position)

    def test_position_of_a_table_that_was_made_again(self, pulled: Pulled, tmp_path: Path) -> None:
        other = Pulled(tmp_path / "u")
        empty = other.table.changes().position
        other.put("1")
        for position in (empty, other.table.changes().position):
            with pytest.raises(errors.GoneError, match="made again"):
                pulled.table.changes(position)
        assert pulled.table.changes(position, falls_back=True).is_snapshot
        # As Apache Hudi makes tables: by their writes alone.
        for each in (pulled, other):
            properties = each.path / ".hoodie" / "hoodie.properties"
            lines = properties.read_text().splitlines()
            kept = [line for line in lines if table_config.TABLE_ID_KEY not in line]
            properties.write_text("\n".join(kept))
            each.table = table.open_table(str(each.path), each.env)
        with pytest.raises(errors.GoneError, match="made again"):
            pulled.table.changes(other.table.changes().position)

    def test_position_from_before_a_restore(self, pulled: Pulled) -> None:
        kept = pulled.table.changes().position
        pulled.put("2")
        position = pulled.table.changes().position
        gone = pulled.table.timeline().completed_writes[-1]
        restore = restores.put(pulled.path, gone)
        with pytest.raises(errors.GoneError, match=f"any more: {re.escape(str(restore))} restored"):
            pulled.table.changes(position)
        assert pulled.table.changes(position, falls_back=True).is_snapshot
        pulled.put("3")
        for read in (pulled.table.changes, pulled.table.change_data):
            found = read(kept, columns=["id"]).read().read_all().to_pylist()
            assert [row.get("id") or row["after"]["id"] for row in found] == ["3"]

    def test_what_is_no_position(self, pulled: Pulled) -> None:
        for text in ("", "x", str(pulled.table.changes().position)[:-1] + "."):
            with pytest.raises(errors.InvalidInputError):
                pulled.table.changes(text)
        with pytest.raises(errors.InvalidInputError, match="is in the future"):
            pulled.table.changes("9000-01-01")
        with pytest.raises(errors.InvalidInputError, match="expected one of them"):
            pulled.table.changes("2001-01-01", consumer="c")

    def test_columns(self, pulled: Pulled) -> None:
        names = ["a", "_hoodie_record_key"]
        found = pulled.table.changes("2001-01-01", columns=names).read().read_all()
        assert found.to_pylist() == [{"_change": "upsert", "a": 0, "_hoodie_record_key": "1"}]
        with pytest.raises(errors.NotFoundError, match="there is no column 'x'"):
            pulled.table.changes(columns=["x"])
        with pytest.raises(errors.InvalidInputError, match="expected a list of names"):
            pulled.table.changes(columns="a")

    def test_table_without_writes(self, tmp_path: Path) -> None:
        empty = Pulled(tmp_path / "e")
        found = empty.table.changes()
        assert shown(found) == []
        again = empty.table.changes(str(found.position))
        assert shown(again) == []
        empty.put("1")
        assert shown(empty.table.changes(again.position)) == [("u", "1", "p", 0)]


def test_columns_that_came_in_the_range_are_null_before(tmp_path: Path) -> None:
    pulled = Pulled(tmp_path / "t")
    pulled.put("1")
    position = pulled.table.changes().position
    pulled.put("2")
    wider = pulled.data([{"id": "3", "part": "p", "a": 3, "b": "x"}]).append_column("more", [["y"]])
    pulled.table.write(wider, pulled.options(adds_columns=True, **pulled.more))
    opened = table.open_table(str(pulled.path), pulled.env)
    rows = opened.changes(position, columns=["id", "more"]).read().read_all().to_pylist()
    assert sorted((row["id"], row["more"]) for row in rows) == [("2", None), ("3", "y")]


def test_ten_commits_of_one_file_group_cost_one_slice(tmp_path: Path) -> None:
    pulled = Pulled(tmp_path / "t", COW)
    pulled.put(*map(str, range(20)))
    position = pulled.table.changes().position
    for number in range(10):
        pulled.put("1", a=number)
    found = pulled.table.changes(position)
    assert len(found.units) == 1
    assert [len(each.after) for each in found.units] == [1]
    assert shown(found) == [("u", "1", "p", 9)]


def test_positions_are_of_writes_alone(tmp_path: Path) -> None:
    pulled = Pulled(tmp_path / "t")
    pulled.put("1")
    pulled.compact()
    position = pulled.table.changes().position
    assert isinstance(position, positions.Position)
    assert position.count == 1


def test_filter_leaves_file_groups_out_by_statistics(tmp_path: Path) -> None:
    """A row that does not meet it any more is no change; of a deleted one its key is known."""
    pulled = Pulled(tmp_path / "t", COW)
    pulled.table.initialise_metadata(pulled.options(**pulled.more).transaction)
    pulled.table = table.open_table(str(pulled.path), environment.system(parallelism=1))
    for part in "pqr":
        pulled.put("1", part=part, a=100)
    begin = pulled.table.changes().position
    for part, a in (("p", 1), ("q", 200)):
        pulled.put("1", part=part, a=a)
    pulled.drop("1", part="r")
    found = pulled.table.changes(begin, where=where.parse("a > 50"))
    assert [unit.may_upsert for unit in found.units[:2]] == [False, True]
    assert not any(unit.may_delete for unit in found.units)
    assert shown(found) == [("u", "1", "q", 200)]
    for text in ("part = 'r'", "a is null", "id = '1' and part > 'q'"):
        assert shown(pulled.table.changes(begin, where=where.parse(text))) == [
            ("d", "1", "r", None)
        ]
    with pytest.raises(errors.NotFoundError, match="there is no column 'x'"):
        pulled.table.changes(begin, where="x = 1")
    with pytest.raises(errors.InvalidInputError, match="column 'a'"):
        pulled.table.changes(begin, where=where.parse("a = 'text'"))


class TestByRequestedTimes:
    """The rule of Apache Hudi before 1.0: writes in the order in which they were requested."""

    @staticmethod
    def asked(since: object) -> travel.AsOf:
        return travel.AsOf(time=str(since), rule=moments.Rule.REQUESTED)

    def test_write_behind_a_pending_one_waits_for_it(self, tmp_path: Path) -> None:
        """T-Q05: by completion times it comes first, and the other one after it."""
        pulled = Pulled(tmp_path / "t")
        pulled.put("1", "2")
        position = pulled.table.changes().position
        begin = pulled.newest.requested_time
        commit = pulled.begin("2", a=1)
        pulled.put("1", a=2)
        assert shown(pulled.table.changes(position)) == [("u", "1", "p", 2)]
        nothing = pulled.table.changes(self.asked(begin))
        assert (shown(nothing), nothing.position) == ([], begin)
        commit()
        late, behind = sorted(
            pulled.table.timeline().completed_writes[-2:], key=lambda each: each.requested_time
        )
        assert str(late.completion_time) > str(behind.completion_time)
        both = [("u", "1", "p", 2), ("u", "2", "p", 1)]
        found = pulled.table.changes(self.asked(begin))
        assert (shown(found), found.position) == (both, behind.requested_time)
        assert found.writes == (behind, late)
        until = pulled.table.changes(self.asked(begin), until=late.requested_time)
        assert (shown(until), until.position) == (both[1:], late.requested_time)
        assert shown(pulled.table.changes(self.asked(until.position))) == both[:1]

    @KINDS
    def test_chain_is_the_snapshot(self, config: table_config.TableConfig, tmp_path: Path) -> None:
        pulled = Pulled(tmp_path / "t", config)
        begin, held = positions.BEGINNING, {}
        for number in range(6):
            pulled.put(str(number % 3), str(number), a=number)
            if number % 2:
                pulled.drop(str(number - 1))
            if number == 3 and not config.is_copy_on_write:
                pulled.compact()
            if number == 4:
                pulled.archive()
            found = pulled.table.changes(self.asked(begin))
            assert not found.is_snapshot
            for change, id_, _, a in shown(found):
                if change == "d":
                    del held[id_]
                else:
                    held[id_] = a
            begin = str(found.position)
            assert held == {row["id"]: row["a"] for row in pulled.rows()}

    def test_write_that_appears_below_is_not_found(self, tmp_path: Path) -> None:
        """Positions of completion times find it: that is what they are for."""
        pulled = Pulled(tmp_path / "t")
        pulled.put("1")
        position = pulled.table.changes().position
        pulled.put("2", a=1)
        pulled.put("3", a=2)
        newest = pulled.newest
        first, second = pulled.table.timeline().completed_writes[-2:]
        kept = pulled.path / transitions.path(first)
        content = kept.read_bytes()
        kept.unlink()
        for state in (State.REQUESTED, State.INFLIGHT):
            (pulled.path / transitions.path(first.pending_in(state))).unlink()
        found = pulled.table.changes(position)
        asked = pulled.table.changes(self.asked(first.requested_time))
        assert asked.position == second.requested_time == newest.requested_time
        kept.write_bytes(content)
        assert shown(pulled.table.changes(self.asked(asked.position))) == []
        assert shown(pulled.table.changes(found.position)) == [("u", "2", "p", 1)]

    def test_what_was_cleaned_is_refused(self, tmp_path: Path) -> None:
        pulled = Pulled(tmp_path / "t", COW)
        first = pulled.put("1")
        for number in range(3):
            pulled.put("1", a=number)
        pulled.clean()
        with pytest.raises(errors.GoneError, match="deleted p/"):
            pulled.table.changes(self.asked(first.requested_time))
        without = pulled.table.changes(self.asked(first.requested_time), has_deletes=False)
        assert shown(without) == [("u", "1", "p", 2)]

    def test_what_does_not_go_together(self, tmp_path: Path) -> None:
        pulled = Pulled(tmp_path / "t")
        pulled.put("1")
        position = pulled.table.changes().position
        asked = self.asked(pulled.newest.requested_time)
        for until in (position, str(position)):
            with pytest.raises(errors.InvalidInputError, match="is a position of completion times"):
                pulled.table.changes(asked, until=until)
        with pytest.raises(errors.InvalidInputError, match="is a position of completion times"):
            pulled.table.changes(self.asked(position))
        with pytest.raises(errors.InvalidInputError, match="without falls_back"):
            pulled.table.changes(asked, falls_back=True)
        with pytest.raises(errors.InvalidInputError, match="go by completion times, not by the ru"):
            pulled.table.change_data(asked)  # type: ignore[arg-type] # of another kind
        with pytest.raises(errors.InvalidInputError, match="is in the future"):
            pulled.table.changes(self.asked("9000-01-01"))
