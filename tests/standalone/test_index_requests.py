"""Indexes of a table that are built while its Writers go on: from manifests to files."""

import json
import os
import signal
from typing import Any

from hoodie import environment, table
from hoodie.model import instants
from hoodie_operator.api import index_request, writer
from support.operators.standalone_place import Place

TABLE: dict[str, Any] = {
    "storage": {"path": "table"},
    "tableType": "CopyOnWrite",
    "schema": {
        "columns": [
            {"name": "id", "type": "string"},
            {"name": "region", "type": "string"},
            {"name": "fare", "type": "int"},
        ]
    },
    "keys": {"recordFields": ["id"], "partitionFields": ["region"]},
    "writeIndex": {"bucket": {"count": 1}},
    "concurrency": {"mode": "Optimistic", "lockRef": {"name": "lock"}},
    "metadata": {"enabled": True},
}
TABLE_REF = {"name": "trips"}
REGIONS = ("east", "west")
FILES = 12
INDEXES = ["column_stats", "partition_stats", "bloom_filters"]


def _declare(place: Place) -> None:
    """Declare a table, and two Writers that take their time."""
    place.declare("LockProvider", "lock", {"type": "FileSystem"})
    place.declare("HudiTable", "trips", TABLE)
    for region in REGIONS:
        folder = place.data / region
        folder.mkdir()
        for number in range(FILES):
            rows = f"id,region,fare\n{region}-{number},{region},{number}\n"
            (folder / f"{number:02}.csv").write_text(rows)
        files = {"path": f"{region}/*.csv", "format": "CSV"}
        spec = {"tableRef": TABLE_REF, "source": {"files": files}}
        place.declare("Writer", region, {**spec, "pacing": {"commitInterval": "500ms"}})


def _request(place: Place, **spec: object) -> None:
    place.declare("IndexRequest", "wanted", {"tableRef": TABLE_REF, "indexes": INDEXES, **spec})


def _status(place: Place) -> index_request.IndexRequestStatus:
    found = place.object("IndexRequest", "wanted")
    assert found is not None
    assert isinstance(found.status, index_request.IndexRequestStatus)
    return found.status


def _attempts(place: Place) -> list[int]:
    """Return how many attempts each Writer needed."""
    found = []
    for region in REGIONS:
        stored = place.object("Writer", region)
        assert stored is not None
        assert isinstance(stored.status, writer.WriterStatus)
        found.append(0 if stored.status.runs is None else stored.status.runs.attempts)
    return found


def _opened(place: Place) -> table.Table:
    return table.open_table(str(place.data / "table"), environment.system())


def _is(place: Place, kind: str, name: str, state: str) -> bool:
    return place.condition(kind, name)[0] == state


def _wait_for_request(place: Place, state: str) -> None:
    place.wait_for(
        lambda: _is(place, "IndexRequest", "wanted", state),
        f"the request is {state}: {place.condition('IndexRequest', 'wanted')}",
    )


def _check(place: Place) -> None:
    """Check that every row is there, and every index right and used."""
    opened = _opened(place)
    rows = opened.read().read_all()
    assert sorted(rows.column("id").to_pylist()) == sorted(
        f"{region}-{number}" for region in REGIONS for number in range(FILES)
    )
    assert set(INDEXES) < set(opened.config.metadata_partitions)
    assert not opened.config.metadata_partitions_inflight
    assert opened.validate_metadata().is_right
    assert not opened.pending_indexes()


def test_indexes_are_dropped_and_built_while_writers_go_on(place: Place) -> None:
    _declare(place)
    _request(place, ensure="Absent")
    place.start_real()
    _wait_for_request(place, "Absent")
    begun = len(place.commits("east"))
    _request(place)
    _wait_for_request(place, "Ready")
    told = _status(place)
    assert (told.built, told.action) == ("3/3", None)
    assert told.validated is not None
    assert told.validated.value == "Sample"
    for region in REGIONS:
        place.wait_for(lambda name=region: _is(place, "Writer", name, "Completed"), region)  # type: ignore[misc]  # bound now
    # No writer was stopped, restarted or refused, and both went on meanwhile.
    assert _attempts(place) == [1, 1]
    _check(place)
    timeline = _opened(place).timeline()
    (indexing,) = (each for each in timeline.completed if each.action is instants.Action.INDEXING)
    assert indexing.completion_time is not None
    beside = [
        each
        for each in timeline.completed_writes
        if (each.completion_time or "") > indexing.requested_time
    ]
    assert beside, f"all writes had ended before; {begun} commits when it began"

    shown = place.command("get", "indexes", "--state", str(place.state))
    assert "3/3" in shown.stdout
    _request(place, deletionPolicy="Drop")
    _wait_for_request(place, "Ready")


def test_build_whose_operator_and_run_were_killed_is_finished_by_the_next(place: Place) -> None:
    _declare(place)
    operator = place.start_real()
    place.wait_for(lambda: _is(place, "HudiTable", "trips", "Ready"), "the table is there")
    _request(place)
    runs = place.state / "runs"

    def started() -> list[int]:
        """Return the processes of builds."""
        found = []
        for path in runs.glob("tableaction.trips-indexbuild-*/process.json"):
            known = json.loads(path.read_text() or "null")
            found += [] if known is None else [int(known["pid"])]
        return found

    place.wait_for(lambda: bool(started()), "the build has a process")
    operator.send_signal(signal.SIGKILL)
    for pid in started():
        os.kill(pid, signal.SIGKILL)
    operator.wait()
    place.start_real()
    _wait_for_request(place, "Ready")
    for region in REGIONS:
        place.wait_for(lambda name=region: _is(place, "Writer", name, "Completed"), region)  # type: ignore[misc]  # bound now
    _check(place)
    completed = _opened(place).timeline().completed
    assert sum(each.action is instants.Action.INDEXING for each in completed) == 1
