"""`services.deletesKept` from the manifest to the rows: deletes that hold against late rows."""

from hoodie import environment, errors, table
from hoodie.model import instants
from support.operators.standalone_place import Place

KEPT = "hoodie.operator.compaction.deletes.kept.hours"
COLUMNS = {
    "id": "string",
    "version": "long",
    "fare": "double",
    "_hoodie_is_deleted": "boolean",
}


def _declare(place: Place, kept: str) -> None:
    columns = [{"name": name, "type": kind} for name, kind in COLUMNS.items()]
    spec = {
        "storage": {"path": "table"},
        "schema": {"columns": columns},
        "keys": {"recordFields": ["id"], "orderingFields": ["version"]},
        "merge": {"mode": "EventTime"},
        "writeIndex": {"bucket": {"count": 1}},
        "services": {"deletesKept": kept},
    }
    place.declare("HudiTable", "trips", spec)
    table_ref = {"name": "trips"}
    files = {"path": "inbox/*.csv", "format": "CSV"}
    place.declare("Writer", "trips", {"tableRef": table_ref, "source": {"files": files}})
    # A compaction after every commit.
    policy = {"target": {"tableRef": table_ref}, "triggers": {"deltaCommits": 1}}
    place.declare("CompactionPolicy", "trips", policy)


def _settle_with(place: Place, number: int, *rows: str) -> list[tuple[str, float]]:
    """Have a file written and compacted; return what the table then holds."""
    path = place.data / "inbox" / f"{number}.csv"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join((",".join(COLUMNS), *rows, "")))
    folders = ("-f", str(place.manifests), "--data", str(place.data), "--state", str(place.state))
    done = place.command("standalone", *folders, "--until-settled")
    assert done.returncode == 0, done.stdout + done.stderr
    opened = table.open_table(str(place.data / "table"), environment.system())
    assert opened.timeline().completed_writes[-1].action is instants.Action.COMMIT
    found = opened.read().read_all().to_pylist()
    return sorted((row["id"], row["fare"]) for row in found)


def test_delete_that_was_compacted_holds_against_a_row_that_comes_late(place: Place) -> None:
    _declare(place, "1d2h")
    written = _settle_with(place, 1, "a,2,1.5,false", "b,2,2.5,false")
    assert written == [("a", 1.5), ("b", 2.5)]
    assert _settle_with(place, 2, "a,5,,true") == [("b", 2.5)]
    late = _settle_with(place, 3, "a,3,9.5,false", "c,1,3.5,false")
    assert late == [("b", 2.5), ("c", 3.5)]
    found = place.object("HudiTable", "trips")
    assert found is not None
    assert found.status.model_dump()["settings"][KEPT] == "26"


def test_duration_that_is_not_of_whole_hours_is_refused(place: Place) -> None:
    _declare(place, "90m")
    done = place.command("validate", "-f", str(place.manifests))
    assert done.returncode == errors.InvalidInputError.exit_code
    assert "spec.services.deletesKept: must be in whole hours" in done.stderr
