"""Rows are sorted by a Writer and deleted by a TableAction, in runs of the operator."""

from typing import Any

import pytest
from pyarrow import parquet

from hoodie import environment, table
from support.operators.standalone_place import Place

SPEC: dict[str, Any] = {
    "storage": {"path": "table"},
    "schema": {"columns": [{"name": "id", "type": "string"}, {"name": "fare", "type": "int"}]},
    "keys": {"recordFields": ["id"]},
    "concurrency": {"mode": "Optimistic"},
    "writeIndex": {"type": "Simple"},
}
TABLE_REF = {"name": "trips"}


@pytest.mark.parametrize("table_type", ["MergeOnRead", "CopyOnWrite"])
def test_sorted_rows_that_match_are_deleted_once(place: Place, table_type: str) -> None:
    place.declare("HudiTable", "trips", {**SPEC, "tableType": table_type})
    inbox = place.data / "inbox"
    inbox.mkdir()
    (inbox / "1.csv").write_text("id,fare\na,30\nb,-1\nc,20\nd,-7\ne,10\n")
    files = {"path": "inbox/*.csv", "format": "CSV"}
    writer = {"tableRef": TABLE_REF, "operation": "BulkInsert", "sortBy": ["fare"]}
    place.declare("Writer", "trips", {**writer, "source": {"files": files}})
    _settle(place)
    (path,) = (place.data / "table").rglob("[!.]*.parquet")
    assert parquet.read_table(path).column("fare").to_pylist() == [-7, -1, 10, 20, 30]

    spec = {"tableRef": TABLE_REF, "type": "DeleteRows", "deleteRows": {"where": "fare < 0"}}
    place.declare("TableAction", "negative", spec)
    assert _settle(place) == ["a", "c", "e"]
    status = _status_of(place, "negative")
    assert (status.state, status.result.deletes) == ("Succeeded", 2)

    (inbox / "2.csv").write_text("id,fare\nf,-3\n")
    assert _settle(place) == ["a", "c", "e", "f"]
    place.declare("TableAction", "none", {**spec, "deleteRows": {"where": "fare > 100"}})
    assert _settle(place) == ["a", "c", "e", "f"]
    assert _status_of(place, "none").result.findings == ("no rows match",)


def _status_of(place: Place, action: str) -> Any:  # noqa: ANN401 - a document
    found = place.object("TableAction", action)
    assert found is not None
    return found.status


def _settle(place: Place) -> list[str]:
    folders = ("-f", str(place.manifests), "--data", str(place.data), "--state", str(place.state))
    done = place.command("standalone", *folders, "--until-settled")
    assert done.returncode == 0, done.stdout + done.stderr
    opened = table.open_table(str(place.data / "table"), environment.system())
    return sorted(opened.read(["id"]).read_all().column("id").to_pylist())
