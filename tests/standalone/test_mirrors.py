"""A table with a mirror in Iceberg: from manifests to what engines read that know no Hudi."""

from typing import Any

import pyarrow.compute as pc
from pyiceberg.catalog import load_catalog

from hoodie_operator.api import hudi_table_status
from support.operators.standalone_place import Place
from support.tables import mirrors

SPEC: dict[str, Any] = {
    "storage": {"path": "table"},
    "schema": {"columns": [{"name": "id", "type": "string"}, {"name": "fare", "type": "int"}]},
    "keys": {"recordFields": ["id"]},
    "writeIndex": {"bucket": {"count": 1}},
    "tableType": "CopyOnWrite",
    "mirror": {"enabled": True, "interval": "1s", "keepSnapshots": 2},
}
TABLE_REF = {"name": "trips"}


def test_a_mirror_follows_its_table_and_tells_what_it_lacks(place: Place) -> None:
    place.declare("HudiTable", "trips", SPEC)
    files = {"path": "inbox/*.csv", "format": "CSV"}
    place.declare("Writer", "trips", {"tableRef": TABLE_REF, "source": {"files": files}})
    folder = place.data / "inbox"
    folder.mkdir()
    (folder / "1.csv").write_text("id,fare\n1,1\n2,2\n")
    _settle(place)
    _settle(place)  # The commit has come of age.
    found = mirrors.opened(place.data / "table").scan().to_arrow()
    assert pc.sum(found["fare"]).as_py() == 3
    told = place.object("HudiTable", "trips")
    assert told is not None
    assert isinstance(told.status, hudi_table_status.HudiTableStatus)
    mirror = told.status.mirror
    assert mirror is not None
    assert (mirror.unmirrored_commits, mirror.unmirrored_file_groups) == (0, 0)
    assert (mirror.snapshots, mirror.action, mirror.message) == (1, None, None)


def test_a_mirror_in_a_catalog_follows_its_table(place: Place) -> None:
    uri = f"sqlite:///{place.data}/catalog.db"
    catalog = {"name": uri, "table": "lake.trips"}
    place.declare("HudiTable", "trips", {**SPEC, "mirror": {**SPEC["mirror"], "catalog": catalog}})
    files = {"path": "inbox/*.csv", "format": "CSV"}
    place.declare("Writer", "trips", {"tableRef": TABLE_REF, "source": {"files": files}})
    folder = place.data / "inbox"
    folder.mkdir()
    for number in (1, 2):
        (folder / f"{number}.csv").write_text(f"id,fare\n1,{number}\n{number},2\n")
        _settle(place)
        _settle(place)
        opened = load_catalog("default", type="sql", uri=uri)
        found = opened.load_table("lake.trips").scan().to_arrow()
        opened.engine.dispose()  # type: ignore[attr-defined]
        assert found.num_rows == number
        told = place.object("HudiTable", "trips")
        assert told is not None
        assert isinstance(told.status, hudi_table_status.HudiTableStatus)
        assert told.status.mirror is not None
        assert (told.status.mirror.unmirrored_commits, told.status.mirror.snapshots) == (0, number)


def _settle(place: Place) -> None:
    folders = ("-f", str(place.manifests), "--data", str(place.data), "--state", str(place.state))
    done = place.command("standalone", *folders, "--until-settled")
    assert done.returncode == 0, done.stdout + done.stderr
