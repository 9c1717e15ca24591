"""Indexes of a table that are built while its Writers go on: from manifests to files."""

import functools
import json
import os
import shutil
import signal
from pathlib import Path

from hoodie import environment, table
from hoodie.model import instants
from hoodie_operator.api import index_request, writer
from support.operators.standalone_place import Place

EXAMPLE = Path(__file__).parents[2] / "examples" / "index"
WRITERS = ("oslo", "rome")
INDEXES = {"column_stats", "partition_stats", "bloom_filters"}


def _declare(place: Place, *manifests: str) -> None:
    """Declare what the example declares in some of its files."""
    for folder in WRITERS:
        shutil.copytree(EXAMPLE / folder, place.data / folder, dirs_exist_ok=True)
    for name in manifests:
        shutil.copy(EXAMPLE / name, place.manifests)


def _want(place: Place, old: str, new: str) -> None:
    """Edit the manifest of the request."""
    path = place.manifests / "index.yaml"
    edited = path.read_text().replace(old, new)
    assert edited != path.read_text()
    partial = path.with_suffix(".partial")
    partial.write_text(edited)
    partial.replace(path)


def _status(place: Place) -> index_request.IndexRequestStatus:
    found = place.object("IndexRequest", "trips")
    assert found is not None
    assert isinstance(found.status, index_request.IndexRequestStatus)
    return found.status


def _attempts(place: Place) -> list[int]:
    """Return how many attempts each Writer needed."""
    found = []
    for name in WRITERS:
        stored = place.object("Writer", name)
        assert stored is not None
        assert isinstance(stored.status, writer.WriterStatus)
        found.append(0 if stored.status.runs is None else stored.status.runs.attempts)
    return found


def _opened(place: Place) -> table.Table:
    return table.open_table(str(place.data / "work" / "trips"), environment.system())


def _is(place: Place, kind: str, name: str, state: str) -> bool:
    return place.condition(kind, name)[0] == state


def _wait_for_request(place: Place, state: str) -> None:
    place.wait_for(
        lambda: _is(place, "IndexRequest", "trips", state),
        f"the request is {state}: {place.condition('IndexRequest', 'wanted')}",
    )


def _check(place: Place) -> None:
    """Wait for the Writers; check that every row is there, and every index right and used."""
    for name in WRITERS:
        place.wait_for(functools.partial(_is, place, "Writer", name, "Completed"), name)
    opened = _opened(place)
    lines = [
        line.split(",")[0]
        for path in EXAMPLE.glob("*/*.csv")
        for line in path.read_text().splitlines()[1:]
    ]
    assert sorted(opened.read().read_all().column("id").to_pylist()) == sorted(lines)
    assert set(opened.config.metadata_partitions) > INDEXES
    assert not opened.config.metadata_partitions_inflight
    assert not opened.pending_indexes()
    assert opened.validate_metadata().is_right


def test_index_is_built_while_writers_go_on_and_dropped_again(place: Place) -> None:
    """T-I19, T-I20."""
    _declare(place, "table.yaml", "writers.yaml")
    place.start_real()
    opened = place.data / "work" / "trips"
    place.wait_for(lambda: len(list(opened.glob("*/*.parquet"))) > 1, "both have begun")
    _declare(place, "index.yaml")
    _wait_for_request(place, "Ready")
    told = _status(place)
    assert (told.built, told.action, told.instant) == ("3/3", None, None)
    assert told.validated is not None
    assert told.validated.value == "Sample"
    _check(place)
    # No writer was stopped, restarted or refused, and writes completed after the build had begun.
    assert _attempts(place) == [1, 1]
    timeline = _opened(place).timeline()
    (indexing,) = (each for each in timeline.completed if each.action is instants.Action.INDEXING)
    times = [each.completion_time or "" for each in timeline.completed_writes]
    before = [time for time in times if time < indexing.requested_time]
    after = [time for time in times if time > indexing.requested_time]
    assert before
    assert after
    shown = place.command("get", "indexes", "--state", str(place.state))
    assert "3/3" in shown.stdout

    _want(place, "\nspec:", "\nspec:\n  ensure: Absent")
    _wait_for_request(place, "Absent")
    assert _opened(place).config.metadata_partitions == ("files",)
    _want(place, "\n  ensure: Absent", "\n  ensure: Present\n  deletionPolicy: Drop")
    _wait_for_request(place, "Ready")
    _check(place)


def test_build_whose_operator_and_run_were_killed_is_finished_by_the_next(place: Place) -> None:
    """T-I04, T-P07."""
    _declare(place, "table.yaml", "writers.yaml")
    operator = place.start_real()
    place.wait_for(lambda: _is(place, "HudiTable", "trips", "Ready"), "the table is there")
    _declare(place, "index.yaml")

    def started() -> list[int]:
        """Return the processes of builds."""
        found = []
        for path in place.state.glob("runs/tableaction.trips-indexbuild-*/process.json"):
            known = json.loads(path.read_text() or "null")
            found += [] if known is None else [int(known["pid"])]
        return found

    place.wait_for(lambda: bool(started()), "the build has a process")
    operator.send_signal(signal.SIGKILL)
    operator.wait()
    for pid in started():
        os.kill(pid, signal.SIGKILL)
    place.start_real()
    _wait_for_request(place, "Ready")
    _check(place)
    completed = _opened(place).timeline().completed
    assert sum(each.action is instants.Action.INDEXING for each in completed) == 1


def test_columns_are_chosen_and_changed_while_writers_go_on(place: Place) -> None:
    _declare(place, "table.yaml", "writers.yaml")
    place.start_real()
    place.wait_for(lambda: _is(place, "HudiTable", "trips", "Ready"), "the table is there")
    spec = {
        "tableRef": {"name": "trips"},
        "indexes": ["column_stats", "partition_stats", "record_index", "secondary_index_town"],
        "columns": {"secondary_index_town": "city"},
        "validation": "Whole",
    }
    for columns in (["fare"], ["distance_km", "fare"]):
        place.declare("IndexRequest", "trips", {**spec, "statisticsColumns": columns})
        place.wait_for(
            lambda columns=columns: _opened(place).config.statistics_columns == tuple(columns),
            "the columns are these",
        )
        _wait_for_request(place, "Ready")
        assert _status(place).built == "4/4"
        assert _opened(place).validate_metadata().is_right
    for name in WRITERS:
        place.wait_for(functools.partial(_is, place, "Writer", name, "Completed"), name)
    assert _attempts(place) == [1, 1]
    opened = _opened(place)
    assert set(opened.config.metadata_partitions) == {"files", *spec["indexes"]}
    assert opened.validate_metadata().is_right
