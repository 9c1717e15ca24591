"""A table with a metadata table: from manifests to files, and what is told where files are lost."""

import shutil
from typing import Any

from hoodie import environment, table
from hoodie_operator.api.conditions import Type
from support.operators.standalone_place import Place

SPEC: dict[str, Any] = {
    "storage": {"path": "table"},
    "schema": {"columns": [{"name": "id", "type": "string"}, {"name": "fare", "type": "int"}]},
    "keys": {"recordFields": ["id"]},
    "writeIndex": {"bucket": {"count": 1}},
    "metadata": {"enabled": True},
}
TABLE_REF = {"name": "trips"}


def _settle(place: Place) -> table.Table:
    folders = ("-f", str(place.manifests), "--data", str(place.data), "--state", str(place.state))
    done = place.command("standalone", *folders, "--until-settled")
    assert done.returncode == 0, done.stdout + done.stderr
    return table.open_table(str(place.data / "table"), environment.system())


def _write(place: Place, number: int) -> None:
    folder = place.data / "inbox"
    folder.mkdir(exist_ok=True)
    (folder / f"{number}.csv").write_text(f"id,fare\n{number},{number}\n")


def _told(place: Place) -> Any:  # noqa: ANN401 - a document
    found = place.object("HudiTable", "trips")
    assert found is not None
    return found.status


def test_metadata_table_is_kept_and_made_again_after_it_has_lost_files(place: Place) -> None:
    place.declare("HudiTable", "trips", SPEC)
    files = {"path": "inbox/*.csv", "format": "CSV"}
    place.declare("Writer", "trips", {"tableRef": TABLE_REF, "source": {"files": files}})
    _write(place, 1)
    _write(place, 2)
    opened = _settle(place)
    assert opened.explain_read().has_metadata_table
    told = _told(place).metadata
    names = [(each.name, each.ready) for each in told.partitions]
    assert names == [("column_stats", True), ("files", True)]
    assert (told.delta_commits, told.message) == (3, None)
    assert _told(place).condition(Type.METADATA_TABLE_UNUSABLE) is None

    shutil.rmtree(place.data / "table" / ".hoodie" / "metadata" / "files")
    opened = _settle(place)
    condition = _told(place).condition(Type.METADATA_TABLE_UNUSABLE)
    assert condition is not None
    assert condition.message.startswith(f"{opened.metadata_status().problem}; ")
    assert len(opened.read().read_all()) == 2

    place.declare(
        "TableAction",
        "again",
        {"tableRef": TABLE_REF, "type": "MetadataInit", "metadataInit": {"rebuild": True}},
    )
    opened = _settle(place)
    assert opened.validate_metadata().is_right
    _settle(place)
    assert _told(place).condition(Type.METADATA_TABLE_UNUSABLE) is None
    action = place.object("TableAction", "again")
    assert action is not None
    assert action.status.state == "Succeeded"

    place.declare("HudiTable", "trips", {**SPEC, "metadata": {"enabled": False}})
    _write(place, 3)
    opened = _settle(place)
    assert not opened.config.metadata_partitions
    assert _told(place).metadata is None
    assert len(opened.read().read_all()) == 3
