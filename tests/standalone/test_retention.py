"""A table that is kept small by a RetentionPolicy, with a Savepoint: from manifests to files."""

from pathlib import Path

from hoodie import environment, table
from hoodie.maintenance import consumers
from hoodie.model import instants
from hoodie_operator.api.conditions import Type
from support.operators.standalone_place import Place
from support.tables.cleans import clean_plan

COLUMNS = ("id", "fare")


def _declare(place: Place) -> None:
    spec = {
        "storage": {"path": "table"},
        "tableType": "CopyOnWrite",
        "schema": {"columns": [{"name": "id", "type": "string"}, {"name": "fare", "type": "int"}]},
        "keys": {"recordFields": ["id"]},
        "writeIndex": {"bucket": {"count": 1}},
    }
    place.declare("HudiTable", "trips", spec)
    table_ref = {"name": "trips"}
    files = {"path": "inbox/*.csv", "format": "CSV"}
    place.declare("Writer", "trips", {"tableRef": table_ref, "source": {"files": files}})


def _settle(place: Place, *options: str) -> table.Table:
    folders = ("-f", str(place.manifests), "--data", str(place.data), "--state", str(place.state))
    done = place.command("standalone", *folders, "--until-settled", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    return table.open_table(str(place.data / "table"), environment.system())


def _write(place: Place, *numbers: int) -> None:
    folder = place.data / "inbox"
    folder.mkdir(exist_ok=True)
    for number in numbers:
        (folder / f"{number:03}.csv").write_text(f"id,fare\na,{number}\n")


def _base_files(place: Place) -> set[Path]:
    return set((place.data / "table").glob("*.parquet"))


def test_old_versions_and_commits_go_but_for_those_of_a_savepoint(place: Place) -> None:
    _declare(place)
    _write(place, 1, 2)
    opened = _settle(place)
    (saved,) = (opened.timeline().completed_writes[-1],)
    kept = {each for each in _base_files(place) if saved.requested_time in each.name}
    place.declare("Savepoint", "second", {"tableRef": {"name": "trips"}, "comment": "before"})
    opened = _settle(place)
    assert [each.instant.requested_time for each in opened.savepoints()] == [saved.requested_time]

    _write(place, *range(3, 9))
    place.declare(
        "RetentionPolicy",
        "trips",
        {
            "target": {"tableRef": {"name": "trips"}},
            "cleaning": {
                "keep": {"commits": 2},
                "readerGrace": "1ms",
                "triggers": {"commits": 3},
            },
            "archiving": {"minCommits": 3, "maxCommits": 4},
        },
    )
    opened = _settle(place)
    left = _base_files(place)
    assert kept <= left
    assert len(left) < 8
    found = place.object("HudiTable", "trips")
    assert found is not None
    services = {each["name"]: each for each in found.status.model_dump()["services"]}
    assert services["Cleaning"]["policy"] == "RetentionPolicy/trips"
    assert "deleted" in services["Cleaning"]["last"]["message"]
    # Archiving never passes a savepoint, and says so.
    assert "savepoint" in services["Archiving"]["last"]["message"]
    assert opened.read().read_all().to_pylist()[0]["fare"] == 8

    (place.manifests / "Savepoint-second.yaml").unlink()
    _write(place, 9, 10, 11)
    opened = _settle(place, "--prune")
    assert opened.savepoints() == []
    # By the next clean, which may be the one after the savepoint went.
    _write(place, 12, 13, 14)
    opened = _settle(place)
    assert not kept & _base_files(place)
    assert list(opened.archived_instants())
    assert opened.read().read_all().to_pylist()[0]["fare"] == 14


def test_consumer_that_a_foreign_clean_has_passed_is_named_on_the_table(place: Place) -> None:
    """R6: Apache Hudi's cleaner does not wait for consumers."""
    _declare(place)
    _write(place, 1, 2, 3)
    opened = _settle(place)
    consumed = opened.timeline().completed_writes[0].completion_time
    opened.advance_consumer("billing", consumers.Progress(to=consumed))
    _settle(place)
    found = place.object("HudiTable", "trips")
    assert found is not None
    assert found.status.condition(Type.CONSUMER_PASSED) is None
    time = instants.next_time(instants.InstantTime(str(opened.timeline().greatest_time)))
    plan = place.data / "table" / ".hoodie" / "timeline" / f"{time}.clean.requested"
    plan.write_bytes(clean_plan("x_0-0-0_20200101000000000.parquet"))
    _settle(place)
    found = place.object("HudiTable", "trips")
    assert found is not None
    condition = found.status.condition(Type.CONSUMER_PASSED)
    assert condition is not None
    assert f"consumer billing has read up to {consumed}, and clean {time}" in condition.message
