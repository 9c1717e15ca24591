"""Reads as of an earlier moment: what a read returned then, or an error that says why not."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hoodie import errors, table
from hoodie.filegroup import past
from hoodie.maintenance import savepoints
from hoodie.maintenance.archiving import planning as archive_planning
from hoodie.maintenance.cleaning import retention
from hoodie.model import commits, instants, moments, settings, table_config, time_zones
from hoodie.model.instants import Instant, InstantTime
from hoodie.read import travel, where
from hoodie.storage.protocol import Storage
from hoodie.timeline import active, archived, transitions
from support.tables import history, restores
from support.tables.indexed_tables import BESIDE, Indexed
from support.tables.tables import CONFIG, SmallTable

OPTIMISTIC = settings.ConcurrencyMode.OPTIMISTIC
KINDS = {
    "mor": CONFIG,
    "cow": replace(CONFIG, table_type=table_config.TableType.COPY_ON_WRITE),
    "mor alone": replace(CONFIG, chain=table_config.ChainName(id="c"), has_foreign_writers=False),
    "one partition": replace(CONFIG, partition_fields=()),
}
NOW = retention.Retention(retained=1, grace_ms=0)
PENDING = (instants.State.REQUESTED, instants.State.INFLIGHT)
Rows = list[dict[str, object]]


class Past(SmallTable):
    """A table that remembers what was read after each write."""

    def __init__(self, path: Path, config: table_config.TableConfig = CONFIG) -> None:
        super().__init__(path, config)
        self.more: dict[str, object] = {}
        if config.is_copy_on_write:
            self.more = {"concurrency": OPTIMISTIC}
        self.was: list[tuple[Instant, Rows]] = []

    def put(self, rows: Rows) -> None:
        self.upsert(rows, **self.more)
        self.remember()

    def remember(self) -> None:
        self.was.append((self.newest, self.rows()))

    @property
    def newest(self) -> Instant:
        return self.table.timeline().completed_writes[-1]

    def clean(self) -> list[str]:
        found = self.table.clean(NOW, self.options(**self.more).transaction).done
        return [path for each in found for path in each.deleted]

    def archive(self, kept: int = 2) -> None:
        policy = archive_planning.Policy(commits_min=kept, commits_max=kept + 1)
        self.table.archive(self.options(**self.more).transaction, policy)

    def refusal_of(self, instant: Instant) -> errors.GoneError | None:
        try:
            self.table.plan_read(as_of=instant.requested_time)
        except errors.GoneError as error:
            return error
        return None

    @property
    def storage(self) -> Storage:
        return self.env.open_storage(str(self.path))

    def check_all(self) -> None:
        """Check that each state that was remembered is read, or is refused."""
        for instant, rows in self.was:
            assert self.rows(as_of=instant.requested_time) == rows, instant
            assert self.rows(as_of=instant.completion_time) == rows, instant


def filled(path: Path, config: table_config.TableConfig, writes: int = 5) -> Past:
    made = Past(path, config)
    for number in range(writes):
        made.put(
            [
                {"id": "1", "part": "p", "a": number},
                {"id": str(number), "part": "q", "a": number},
            ]
        )
        if number == 2 and not config.is_copy_on_write:
            made.compact()
            made.remember()
    return made


def before(time: str | None) -> InstantTime:
    assert time is not None
    return instants.format_time(instants.parse_time(time) - 1)


@pytest.mark.parametrize("config", KINDS.values(), ids=KINDS)
class TestMoments:
    def test_each_write_and_compaction(
        self, config: table_config.TableConfig, tmp_path: Path
    ) -> None:
        """T-Q02, T-Q03: equal to a completion, between two, and before all."""
        made = filled(tmp_path / "t", config)
        made.check_all()
        for (_, rows), (instant, _) in zip(made.was, made.was[1:], strict=False):
            assert made.rows(as_of=before(instant.completion_time)) == rows
        assert made.rows(as_of=before(made.was[0][0].completion_time)) == []
        assert made.rows(as_of=datetime(2001, 1, 1, tzinfo=UTC)) == []

    def test_archived_writes(self, config: table_config.TableConfig, tmp_path: Path) -> None:
        made = filled(tmp_path / "t", config, writes=8)
        made.archive()
        assert len(made.table.timeline().completed_writes) < len(made.was)
        made.check_all()
        assert made.rows(as_of=before(made.was[0][0].completion_time)) == []

    def test_what_was_cleaned_is_refused(
        self, config: table_config.TableConfig, tmp_path: Path
    ) -> None:
        made = filled(tmp_path / "t", config)
        if not config.is_copy_on_write:
            made.compact()
        assert made.clean()
        for _ in range(2):
            refused = 0
            for instant, rows in made.was:
                gone = made.refusal_of(instant)
                if gone is None:
                    assert made.rows(as_of=instant.requested_time) == rows
                    continue
                refused += 1
                assert "deleted" in str(gone)
                assert made.rows(as_of=gone.readable) in [rows for _, rows in made.was]
                with pytest.raises(errors.GoneError):
                    made.rows(as_of=before(gone.readable))
            assert 0 < refused < len(made.was)
            made.archive(1)

    def test_what_a_savepoint_keeps_is_read(
        self, config: table_config.TableConfig, tmp_path: Path
    ) -> None:
        made = filled(tmp_path / "t", config)
        saved, rows = made.was[1]
        wanted = savepoints.Wanted(commit=saved.requested_time, comment="x")
        made.table.create_savepoint(wanted, made.options(**made.more).transaction)
        made.compact() if not config.is_copy_on_write else None
        assert made.clean()
        assert made.rows(as_of=f"savepoint:{saved.requested_time}") == rows
        assert made.rows(as_of=saved.requested_time) == rows
        with pytest.raises(errors.GoneError):
            made.rows(as_of=made.was[2][0].requested_time)
        with pytest.raises(errors.NotFoundError, match="no savepoint of instant"):
            made.rows(as_of=f"savepoint:{made.was[0][0].requested_time}")


def test_replaced_file_groups_are_read_as_of_before(tmp_path: Path) -> None:
    made = Past(tmp_path / "t", KINDS["cow"])
    made.put([{"id": str(n), "part": "pq"[n % 2], "a": n} for n in range(6)])
    overwrite = made.options(operation=commits.Operation.INSERT_OVERWRITE, **made.more)
    made.table.write(made.data([{"id": "9", "part": "p", "a": 9}]), overwrite)
    made.remember()
    deletion = made.options(
        operation=commits.Operation.DELETE_PARTITION, partitions=("q",), **made.more
    )
    made.table.delete_partitions(deletion)
    made.remember()
    assert [len(rows) for _, rows in made.was] == [6, 4, 1]
    made.check_all()
    assert made.clean()
    with pytest.raises(errors.GoneError) as caught:
        made.rows(as_of=made.was[0][0].requested_time)
    assert caught.value.readable == made.was[1][0].completion_time
    made.was.pop(0)
    made.check_all()


class TestRules:
    """T-Q10: a write that was requested earlier completes after the time that is asked for."""

    @pytest.fixture
    def made(self, tmp_path: Path) -> Past:
        made = Past(tmp_path / "t")
        made.put([{"id": "1", "part": "p", "a": 1}])
        late = [{"id": "2", "part": "p", "a": 2}]
        session = made.table.begin_write(made.options("late", **BESIDE), list(late[0]))
        written = made.write_files(session, late)
        made.upsert([{"id": "3", "part": "p", "a": 3}], **BESIDE)
        made.remember()
        session.commit(written)
        made.remember()
        return made

    def test_by_ours_it_is_not_there(self, made: Past) -> None:
        made.check_all()
        assert [row["id"] for row in made.rows(as_of=made.was[1][0].requested_time)] == ["1", "3"]

    def test_by_that_of_apache_hudi_it_is(self, made: Past) -> None:
        time = made.was[1][0].requested_time
        asked = travel.AsOf(time=time, rule=moments.Rule.REQUESTED)
        assert [row["id"] for row in made.rows(as_of=asked)] == ["1", "2", "3"]
        early = travel.AsOf(time=made.was[0][0].requested_time, rule=moments.Rule.REQUESTED)
        assert [row["id"] for row in made.rows(as_of=early)] == ["1"]

    def test_pending_instant_is_no_moment(self, made: Past) -> None:
        session = made.table.begin_write(made.options("x", **BESIDE), ["id", "part", "a"])
        with pytest.raises(errors.InvalidInputError, match="has not completed"):
            made.rows(as_of=session.task.instant_time)


def test_columns_of_then_or_of_now(tmp_path: Path) -> None:
    made = Past(tmp_path / "t")
    made.put([{"id": "1", "part": "p", "a": 1}])
    wider = made.data([{"id": "1", "part": "p", "a": 2}]).append_column("more", [["x"]])
    made.table.write(wider, made.options(adds_columns=True))
    made.table = table.open_table(str(made.path), made.env)
    first = made.was[0][0].requested_time
    assert made.rows(as_of=first) == [{"id": "1", "part": "p", "a": 1, "b": None, "more": None}]
    then = travel.AsOf(time=first, columns=travel.Columns.THEN)
    assert made.rows(as_of=then) == [{"id": "1", "part": "p", "a": 1, "b": None}]
    assert made.table.columns_of("file", then).names == ["id", "part", "a", "b"]
    before_all = travel.AsOf(time="2001-01-01", columns=travel.Columns.THEN)
    assert made.table.read(as_of=before_all).schema.names == ["id", "part", "a", "b"]


class TestPruning:
    """Statistics and indexes of now leave out what was there then."""

    @pytest.fixture(params=["mor alone", "cow alone"])
    def indexed(
        self, tmp_path: Path, request: pytest.FixtureRequest
    ) -> tuple[Indexed, InstantTime]:
        """Of a copy-on-write table the record index loses keys as they are deleted."""
        kinds = {"mor alone": KINDS["mor alone"]}
        kinds["cow alone"] = replace(kinds["mor alone"], table_type=KINDS["cow"].table_type)
        indexed = Indexed(tmp_path / "t", kinds[request.param])
        indexed.build(*indexed.names, "record_index")
        indexed.small.table = indexed.opened()
        indexed.upsert(0, 9, a=5)
        indexed.compact()
        time = indexed.small.table.timeline().completed_writes[-1].requested_time
        gone = [{"id": row["id"], "part": row["part"]} for row in indexed.small.rows()[:3]]
        indexed.small.delete(gone, **indexed.more)
        indexed.upsert(3, 9, a=700)
        indexed.compact()
        return indexed, time

    @pytest.mark.parametrize(
        ("text", "keeps"),
        [
            ("a = 5", lambda row: row["a"] == 5),
            ("a < 100", lambda row: row["a"] < 100),
            ("id in ('0', '1')", lambda row: row["id"] in "01"),
            ("id = '2'", lambda row: row["id"] == "2"),
        ],
    )
    def test_they_are_not_asked(
        self,
        indexed: tuple[Indexed, InstantTime],
        text: str,
        keeps: Callable[[dict[str, object]], bool],
    ) -> None:
        found, time = indexed
        opened = found.opened()
        assert {"record_index", "partition_stats"} < set(opened.config.metadata_partitions)
        everything = opened.read(as_of=time).read_all().to_pylist()
        then = opened.read(where=where.parse(text), as_of=time).read_all().to_pylist()
        assert then
        assert then == [row for row in everything if keeps(row)]
        assert not opened.read(where=where.parse(text)).read_all().num_rows


class TestCleansThatAreNotOver:
    def test_plan_of_a_pending_clean_counts(self, tmp_path: Path) -> None:
        made = filled(tmp_path / "t", KINDS["cow"], writes=3)
        first, second, _ = made.was
        assert made.clean()
        (name,) = (made.path / active.DIRECTORY).glob("*.clean")
        name.unlink()
        with pytest.raises(errors.GoneError, match="deleted p/"):
            made.rows(as_of=first[0].requested_time)
        assert made.rows(as_of=second[0].requested_time) == second[1]

    def test_damaged_clean_may_have_deleted_anything(self, tmp_path: Path) -> None:
        made = filled(tmp_path / "t", KINDS["cow"], writes=3)
        assert made.clean()
        for each in (made.path / active.DIRECTORY).glob("*.clean*"):
            each.write_bytes(b"?")
        with pytest.raises(errors.GoneError, match=r"what .* clean completed deletes is not known"):
            made.rows(as_of=made.was[1][0].requested_time)


def test_restore_leaves_a_gap(tmp_path: Path) -> None:
    made = filled(tmp_path / "t", KINDS["cow"], writes=4)
    gone = made.newest
    completed = restores.put(made.path, gone)
    with pytest.raises(errors.GoneError, match="rolled back what was written since") as caught:
        made.rows(as_of=gone.completion_time)
    assert caught.value.readable == completed.completion_time
    for instant, rows in made.was[:3]:
        assert made.rows(as_of=instant.requested_time) == rows


class TestRollbacksOfCompletedWrites:
    """Apache Hudi has them; they look like those of failed writes but for how files were found."""

    @pytest.fixture(params=["cow", "mor"])
    def made(self, request: pytest.FixtureRequest, tmp_path: Path) -> Past:
        return filled(tmp_path / "t", KINDS[request.param], writes=4)

    def test_rollback_leaves_a_gap(self, made: Past) -> None:
        gone = made.newest
        rollback = restores.put_rollback(made.path, gone)
        message = f"{rollback} rolled back what began at {gone.requested_time}, and may have compl"
        for time in (gone.completion_time, gone.requested_time):
            with pytest.raises(errors.GoneError, match=message) as caught:
                made.rows(as_of=time)
            assert caught.value.readable == rollback.completion_time
            with pytest.raises(errors.GoneError, match=message):
                made.table.changes(time)
        for instant, rows in made.was[:3]:
            assert made.rows(as_of=instant.requested_time) == rows
        assert made.rows(as_of=rollback.completion_time) == made.was[2][1]
        made.put([{"id": "9", "part": "p", "a": 9}])
        for since, count in ((made.was[2][0].completion_time, 1), (rollback.completion_time, 1)):
            found = made.table.changes(since).read().read_all()
            assert found.num_rows == count
        with pytest.raises(errors.GoneError, match=message):
            made.rows(as_of=gone.completion_time)

    def test_rollback_of_a_failed_write_leaves_none(self, made: Past) -> None:
        """By markers nothing is taken back that completed; by this project nothing at all."""
        gone, (_, rows) = made.newest, made.was[2]
        restores.put_rollback(made.path, gone, is_listed=False)
        assert made.rows(as_of=gone.completion_time) == rows
        made.put([{"id": "9", "part": "p", "a": 9}])
        other = made.newest
        restores.put_rollback(made.path, other, is_of_java=False)
        assert made.rows(as_of=other.completion_time) == rows
        assert made.table.changes(gone.completion_time).read().read_all().num_rows == 0

    def test_rollback_that_is_not_over_counts(self, made: Past) -> None:
        gone = made.newest
        rollback = restores.put_rollback(made.path, gone)
        (made.path / transitions.path(rollback)).unlink()
        with pytest.raises(errors.GoneError, match="may have completed before"):
            made.rows(as_of=gone.completion_time)
        # Apache Hudi leaves some like that for good: the table as it is now is read all the same.
        found = made.table.changes()
        assert found.is_snapshot
        assert found.read().read_all().num_rows == len(made.was[-2][1])
        assert not made.table.change_data(found.position).read().read_all().num_rows
        inflight = rollback.pending_in(instants.State.INFLIGHT)
        (made.path / transitions.path(inflight)).unlink()
        assert made.rows(as_of=gone.completion_time) == made.was[2][1]

    def test_archived_rollback_counts(self, made: Past) -> None:
        gone = made.newest
        rollback = restores.put_rollback(made.path, gone)
        for number in range(4):
            made.put([{"id": "9", "part": "p", "a": number}])
        if not made.table.config.is_copy_on_write:
            made.compact()
        made.put([{"id": "9", "part": "p", "a": 9}])
        made.archive(1)
        assert made.table.timeline().find(rollback.requested_time) is None
        with pytest.raises(errors.GoneError, match="may have completed before"):
            made.rows(as_of=gone.completion_time)
        for instant, rows in (each for each in made.was if each[0] != gone):
            assert made.rows(as_of=instant.requested_time) == rows

    def test_plan_that_cannot_be_read_is_asked_of_the_metadata(self, made: Past) -> None:
        gone = made.newest
        rollback = restores.put_rollback(made.path, gone)
        planned = made.path / transitions.path(rollback.pending_in(instants.State.REQUESTED))
        planned.write_bytes(b"")
        with pytest.raises(errors.GoneError, match="may have completed before"):
            made.rows(as_of=gone.completion_time)
        (made.path / transitions.path(rollback)).write_bytes(b"?")
        for instant, _ in made.was[:3]:
            with pytest.raises(errors.GoneError, match=f"what {rollback} rolls back is not known"):
                made.rows(as_of=instant.requested_time)

    def test_what_completed_after_all_is_there(self, made: Past) -> None:
        """A process that was paused may publish what a rollback took back."""
        gone = made.newest
        paths = [made.path / transitions.path(gone.pending_in(state)) for state in PENDING]
        paths.append(made.path / transitions.path(gone))
        kept = {path: path.read_bytes() for path in paths}
        data = {path: path.read_bytes() for path in made.path.rglob(f"*_{gone.requested_time}.*")}
        restores.put_rollback(made.path, gone)
        for path, content in (kept | data).items():
            path.write_bytes(content)
        assert made.rows(as_of=gone.requested_time) == made.was[-1][1]


def test_times_before_a_trimmed_history_are_refused(tmp_path: Path) -> None:
    made = filled(tmp_path / "t", KINDS["cow"], writes=6)
    for _ in range(2):
        made.archive(1)
        for number in range(2):
            made.put([{"id": "1", "part": "p", "a": number}])
    first, second = sorted((made.path / archived.DIRECTORY).glob("*.parquet"))
    del first
    history.put_manifest(made.storage, 9, second.name)
    with pytest.raises(errors.GoneError, match=r"the history before .* was trimmed"):
        made.rows(as_of="2001-01-01")


class TestTimes:
    BERLIN = replace(CONFIG, time_zone=time_zones.TimeZone("Europe/Berlin"))
    NOW_MS = 1_792_890_000_000 + 86_400_000
    """A day after clocks were put back from 03:00 to 02:00 in Berlin."""

    def moment(
        self, time: str | datetime, config: table_config.TableConfig = CONFIG
    ) -> InstantTime:
        timeline = active.from_files(())
        found = travel.moment_of(travel.as_of(time), timeline, config, self.NOW_MS)
        return found.time

    @pytest.mark.parametrize(
        ("text", "in_utc", "in_berlin"),
        [
            ("2026-07-01", "20260701000000000", "20260701000000000"),
            ("2026-07-01 12:00:01.5", "20260701120001500", "20260701120001500"),
            ("2026-07-01T12:00:01", "20260701120001000", "20260701120001000"),
            ("2026-07-01T12:00:01Z", "20260701120001000", "20260701140001000"),
            ("2026-07-01 12:00:01+02:00", "20260701100001000", "20260701120001000"),
            ("20260701120001002", "20260701120001002", "20260701120001002"),
            ("20260701120001", "20260701120001999", "20260701120001999"),
        ],
    )
    def test_texts(self, text: str, in_utc: str, in_berlin: str) -> None:
        assert self.moment(text) == in_utc
        assert self.moment(text, self.BERLIN) == in_berlin
        if not text.isdigit():
            assert self.moment(datetime.fromisoformat(text), self.BERLIN) == in_berlin

    @pytest.mark.parametrize("time", ["2026-10-25 02:30", "2026-10-25T01:30:00Z"])
    def test_hour_that_clocks_show_twice_is_refused(self, time: str) -> None:
        self.moment(time)
        with pytest.raises(errors.InvalidInputError, match=r"show the hour of .* twice"):
            self.moment(time, self.BERLIN)
        for outside in ("2026-10-25 01:59", "2026-10-25 03:00", "2026-10-25T02:00:00Z"):
            self.moment(outside, self.BERLIN)

    def test_offset_needs_the_zone_of_the_table(self) -> None:
        unknown = replace(CONFIG, time_zone=None)
        assert self.moment("2026-07-01", unknown) == "20260701000000000"
        with pytest.raises(errors.ConfigurationError, match="does not state the time zone"):
            self.moment("2026-07-01T00:00:00Z", unknown)

    def test_future_is_refused(self) -> None:
        with pytest.raises(errors.InvalidInputError, match="is in the future of the table"):
            self.moment("2026-10-27")

    @pytest.mark.parametrize(
        ("text", "in_utc", "in_berlin"),
        [
            # It is 2026-10-26 02:00 in Berlin, whose clocks were put back a day and an hour ago.
            ("now", "20261026010000000", "20261026020000000"),
            ("16 min ago", "20261026004400000", "20261026014400000"),
            ("today", "20261026000000000", "20261026000000000"),
            ("yesterday", "20261025000000000", "20261025000000000"),
            ("Yesterday at 14:30", "20261025143000000", "20261025143000000"),
            ("3 days ago", "20261023010000000", "20261023030000000"),
        ],
    )
    def test_times_relative_to_now(self, text: str, in_utc: str, in_berlin: str) -> None:
        assert self.moment(text) == in_utc
        assert self.moment(text, self.BERLIN) == in_berlin
        fixed = travel.fixed(text, self.BERLIN, self.NOW_MS)
        later = travel.moment_of(fixed, active.from_files(()), self.BERLIN, self.NOW_MS + 99_000)
        assert later.time == in_berlin

    def test_relative_times_obey_the_rules_of_the_zone(self) -> None:
        unknown = replace(CONFIG, time_zone=None)
        with pytest.raises(errors.ConfigurationError, match="does not state the time zone"):
            self.moment("16 min ago", unknown)
        with pytest.raises(errors.InvalidInputError, match=r"show the hour of .* twice"):
            self.moment("24 h 30 min ago", self.BERLIN)
        with pytest.raises(errors.InvalidInputError, match="is in the future of the table"):
            self.moment("today 23:59")

    @pytest.mark.parametrize("text", ["", "soon", "2026", "savepoint:x", "202607011200010021"])
    def test_what_is_no_moment_is_refused(self, text: str) -> None:
        with pytest.raises(errors.InvalidInputError):
            self.moment(text)

    def test_other_values_are_refused(self) -> None:
        with pytest.raises(errors.InvalidInputError, match="expected an instant"):
            travel.as_of(17)  # type: ignore[arg-type] # it is what is tested


def test_gaps_are_passed_one_after_the_other() -> None:
    gaps = [
        past.Gap(first=InstantTime(first), end=InstantTime(end), cause="")
        for first, end in [("5", "7"), ("1", "3"), ("2", "5"), ("8", "9")]
    ]
    found = {time: past.earliest_readable(gaps, InstantTime(time)) for time in "0123456789"}
    assert found == {
        "0": "0", "1": "7", "2": "7", "3": "7", "4": "7", "5": "7", "6": "7", "7": "7", "8": "9",
        "9": "9",
    }  # fmt: skip
