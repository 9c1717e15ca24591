"""Tables without buckets: writers look keys up, in runs as anywhere else."""

from typing import Any

import pytest

from hoodie import environment, table
from support.operators.standalone_place import Place

SPEC: dict[str, Any] = {
    "storage": {"path": "table"},
    "schema": {"columns": [{"name": "id", "type": "string"}, {"name": "fare", "type": "int"}]},
    "keys": {"recordFields": ["id"]},
    "concurrency": {"mode": "Optimistic"},
}


@pytest.mark.parametrize("kind", ["Simple", "Bloom"])
@pytest.mark.parametrize("table_type", ["MergeOnRead", "CopyOnWrite"])
def test_two_writers_find_the_records_of_each_other(
    place: Place, kind: str, table_type: str
) -> None:
    place.declare(
        "HudiTable", "trips", {**SPEC, "tableType": table_type, "writeIndex": {"type": kind}}
    )
    for number, writer in enumerate(("east", "west")):
        folder = place.data / writer
        folder.mkdir()
        for batch in range(2):
            fare = 10 * batch + number
            (folder / f"{batch}.csv").write_text(f"id,fare\nboth,{fare}\n{writer},{fare}\n")
        files = {"path": f"{writer}/*.csv", "format": "CSV"}
        spec = {"tableRef": {"name": "trips"}, "source": {"files": files}}
        place.declare("Writer", writer, spec)
    folders = ("-f", str(place.manifests), "--data", str(place.data), "--state", str(place.state))
    done = place.command("standalone", *folders, "--until-settled")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = table.open_table(str(place.data / "table"), environment.system()).read().read_all()
    found = dict(zip(*rows.select(["id", "fare"]).to_pydict().values(), strict=True))
    assert len(rows) == len(found), "a record is there twice"
    assert found.pop("both") in (10, 11)
    assert found == {"east": 10, "west": 11}
