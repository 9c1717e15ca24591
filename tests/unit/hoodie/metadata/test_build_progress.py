"""How far the build of an index is, as others see it."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from hoodie import clock, errors
from hoodie.cli.views import indexes as views
from hoodie.metadata import build_progress
from hoodie.metadata.build_outlook import Phase
from hoodie.metadata.build_progress import Progress
from hoodie.model import instants, json_values
from hoodie.storage.memory import MemoryStorage, MemoryStore
from support.tables.indexed_tables import KINDS, Indexed

TIME = instants.InstantTime("20261128000000000")


class Told(clock.Clock):
    """A clock that is set."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def now_ms(self) -> int:
        return round(self.now_s * 1000)

    def monotonic_s(self) -> float:
        return self.now_s

    def sleep_s(self, seconds: float) -> None:
        self.now_s += seconds


class Telling:
    """A builder that says how far it is."""

    def __init__(self) -> None:
        self.clock = Told()
        self.storage = MemoryStorage(MemoryStore(self.clock))
        self.heard: list[str] = []
        self.reporter = build_progress.Reporter(self.storage, self.clock, self.heard.append, TIME)

    def read(self) -> Progress | None:
        return build_progress.read(self.storage, TIME)


def test_time_left_is_that_of_the_phase() -> None:
    telling = Telling()
    telling.reporter("planning")
    telling.clock.now_s = 100.0
    for done in (0, 300, 600, 900, 1200):
        telling.reporter.count("reading statistics", done, 1200)
        telling.clock.now_s += 60
    telling.reporter.count("reading bloom filters", 0, 7)
    telling.clock.now_s += 4
    telling.reporter.count("reading bloom filters", 4, 7)
    assert telling.heard == [
        "planning",
        "reading statistics: 0 of 1200 files",
        "reading statistics: 300 of 1200 files, about 3 min left",
        "reading statistics: 600 of 1200 files, about 2 min left",
        "reading statistics: 900 of 1200 files, about 60 s left",
        "reading statistics: 1200 of 1200 files",
        "reading bloom filters: 0 of 7 files",
        "reading bloom filters: 4 of 7 files, about 3 s left",
    ]


PHASES = (Phase("reading statistics", 2.0), Phase("reading bloom filters", 6.0), Phase("last", 2.0))


def test_time_left_is_that_of_all_phases_once_one_has_shown_the_pace() -> None:
    telling = Telling()
    telling.reporter.expect(PHASES)
    # Three times as slow as where the costs were measured, all the time.
    for name, seconds in (("reading statistics", 6), ("reading bloom filters", 18), ("last", 6)):
        for second in range(seconds):
            telling.reporter.count(name, second, seconds)
            telling.clock.now_s += 1
    left = [re.search(r"about (\d+) s left", each) for each in telling.heard]
    told = [None if each is None else int(each[1]) for each in left]
    assert told == [None, *range(29, 0, -1)]
    telling.reporter("publishing")
    assert telling.heard[-1] == "publishing"


def test_phase_that_says_nothing_is_judged_by_the_others() -> None:
    telling = Telling()
    telling.reporter.expect(PHASES)
    telling.reporter.count("reading statistics", 0, 1)
    telling.clock.now_s += 4
    telling.reporter("reading bloom filters")
    assert telling.heard[-1] == "reading bloom filters, about 16 s left"
    telling.clock.now_s += 6
    telling.reporter("reading bloom filters")
    assert telling.heard[-1] == "reading bloom filters, about 10 s left"
    telling.clock.now_s += 60
    telling.reporter("reading bloom filters")
    # It may end at any moment.
    assert telling.heard[-1] == "reading bloom filters, about 4 s left"


def test_phase_without_work_is_passed_over_and_a_new_round_begins_anew() -> None:
    telling = Telling()
    telling.reporter.expect(PHASES)
    telling.reporter.count("reading bloom filters", 0, 4)
    telling.clock.now_s += 3
    telling.reporter.count("reading bloom filters", 2, 4)
    # Eight of ten units of cost, of which five are done in three seconds.
    assert telling.heard[-1].endswith("about 4 s left")
    telling.reporter.expect(PHASES[:1])
    telling.reporter.count("reading bloom filters", 0, 4)
    assert "left" not in telling.heard[-1]


@pytest.mark.parametrize("shared", [False, True])
def test_phases_that_are_expected_are_those_that_are_told(
    shared: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected: list[str] = []
    expect = build_progress.Reporter.expect

    def noted(self: build_progress.Reporter, phases: Sequence[Phase]) -> None:
        expected.extend(each.name for each in phases)
        assert all(each.cost_s > 0 for each in phases)
        expect(self, phases)

    monkeypatch.setattr(build_progress.Reporter, "expect", noted)
    indexed = Indexed(tmp_path / "t", KINDS["shared, cow" if shared else "cow"])
    heard: list[str] = []
    more = () if shared else ("record_index",)
    indexed.build(*indexed.names, *more, hear=heard.append)
    told = [each.partition(":")[0].partition(",")[0] for each in heard]
    assert expected
    assert list(dict.fromkeys(name for name in told if name in expected)) == expected
    counted = [each.partition(":")[0] for each in heard if ": " in each]
    assert set(counted) <= {*expected, "waiting"}


def test_it_is_on_storage_every_few_seconds_until_the_build_ends() -> None:
    telling = Telling()
    telling.reporter.count("reading statistics", 0, 100)
    assert telling.read() is None
    seen = []
    for second in range(1, 21):
        telling.clock.now_s = float(second)
        telling.reporter.count("reading statistics", second, 100)
        seen.append(telling.read())
    assert len({each.done for each in seen if each is not None}) == 4
    assert seen[-1] == Progress(
        phase="reading statistics",
        done=20,
        total=100,
        unit="files",
        left_ms=80_000,
        updated_ms=20_000,
    )
    telling.reporter.end()
    assert telling.read() is None
    telling.reporter.end()


def test_storage_that_fails_and_content_that_is_damaged_do_no_harm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    telling = Telling()
    telling.storage.create(build_progress.path_of(TIME), b"{")
    assert telling.read() is None

    def fail(*_: object) -> None:
        raise errors.StorageError("no answer")

    monkeypatch.setattr(telling.storage, "create", fail)
    monkeypatch.setattr(telling.storage, "delete", fail)
    telling.clock.now_s = 6.0
    telling.reporter.count("reading statistics", 1, 100)
    telling.reporter.end()
    assert telling.heard[-1].startswith("reading statistics: 1 of 100 files")


@pytest.mark.parametrize("kind", ["mor", "shared"])
def test_build_counts_files_and_status_shows_how_far_it_is(kind: str, tmp_path: Path) -> None:
    indexed = Indexed(tmp_path / "t", KINDS[kind])
    heard: list[str] = []
    shown: list[views.Document] = []

    def hear(what: str) -> None:
        heard.append(what)
        opened = indexed.opened()
        builds = opened.pending_indexes()
        if not builds:
            return
        [time] = [each.instant.requested_time for each in builds]
        storage = indexed.small.env.open_storage(str(indexed.small.path))
        assert opened.index_progress(builds) == {}
        said = Progress(phase="reading statistics", done=1, total=4, unit="files", left_ms=90_000)
        storage.create(build_progress.path_of(time), json_values.encode(said))
        progress = opened.index_progress(builds)
        pending = opened.pending(indexed.small.options().transaction.settings)
        shown.append(views.document("t", opened.config, builds, pending, progress))
        storage.delete(build_progress.path_of(time))

    indexed.build(hear=hear)
    assert any(each.startswith("reading statistics: 0 of ") for each in heard)
    assert any(each.startswith("reading bloom filters: 0 of ") for each in heard)
    rows = {each.name: each for each in shown[-1].indexes}
    row = rows["column_stats"]
    assert (row.state, row.phase, row.done, row.total, row.left_ms) == (
        "being built",
        "reading statistics",
        1,
        4,
        90_000,
    )
    assert rows["record_index"].phase is None
    assert views.hints(shown[-1]) == [f"{row.instant}: reading statistics, 1 of 4, 1 min 30 s left"]
