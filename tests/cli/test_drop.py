"""Tables are found below a folder, and deleted when somebody names them."""

import io
import shutil
from pathlib import Path

import pytest

from hoodie import environment
from hoodie.services import dropping
from hoodie.storage import locations
from hoodie.transaction import authors, fencing, layout
from support.tables.command_line import Answer, Run, put


def fine(answer: Answer) -> Answer:
    assert answer.code == 0, answer.err
    return answer


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_table_is_deleted_by_its_name(hoodie: Run, table: Path, trips: Path) -> None:
    fine(hoodie("write", table, trips))
    before = files_of(table)
    refused = hoodie("drop", table)
    assert (refused.code, "expected --name table" in refused.err) == (20, True)
    refused = hoodie("drop", table, "--name", "trips")
    assert (refused.code, "is 'table', not 'trips'" in refused.err) == (20, True)
    shown = fine(hoodie("drop", table, "--dry-run", "--json")).document
    assert (shown["is_dry_run"], shown["files"], shown["name"]) == (True, len(before), "table")
    assert files_of(table) == before
    assert "deleted table table" in fine(hoodie("drop", table, "--name", "table")).out
    assert not table.exists()
    assert trips.exists()
    assert hoodie("drop", table, "--name", "table").code == 22


def test_name_is_asked_at_a_terminal(
    hoodie: Run, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal("no\n"))
    assert hoodie("drop", table).code == 20
    assert table.exists()
    monkeypatch.setattr("sys.stdin", Terminal("table\n"))
    fine(hoodie("drop", table))
    assert not table.exists()


def test_interrupted_drop_goes_on(
    hoodie: Run, table: Path, trips: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fine(hoodie("write", table, trips))

    def killed(*_: object) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(dropping, "delete", killed)
        assert hoodie("drop", table, "--name", "table").code != 0
    assert table.exists()
    assert hoodie("read", table).code == 22
    assert "deleted the rest of" in fine(hoodie("drop", table)).out
    assert not table.exists()


def test_table_of_the_operator_stays_unless_its_hudi_table_is_said_to_be_gone(
    hoodie: Run, table: Path, trips: Path
) -> None:
    fine(hoodie("write", table, trips, "--writer-id", "hand"))
    storage, env = locations.open_storage(str(table)), environment.system()
    assert storage.list(layout.ATTEMPTS)
    fencing.claim(storage, authors.Author(action_id="HudiTable/trips"), env.process)
    before = files_of(table)
    shown = fine(hoodie("drop", table, "--dry-run"))
    assert "note: the operator manages it, or did, as HudiTable trips." in shown.err
    refused = hoodie("drop", table, "--name", "table")
    assert refused.code == 20
    assert "is not deleted: the operator manages it, or did" in refused.err
    assert "Delete that, with deletionPolicy Delete; if it is gone" in refused.err
    assert files_of(table) == before
    fine(hoodie("drop", table, "--name", "table", "--unmanaged"))
    assert not table.exists()


def test_records_of_writers_and_actions_do_not_keep_a_table(
    hoodie: Run, table: Path, trips: Path
) -> None:
    fine(hoodie("write", table, trips, "--writer-id", "hand"))
    storage, env = locations.open_storage(str(table)), environment.system()
    fencing.claim(storage, authors.Author(action_id="compact-trips-1"), env.process)
    assert len(storage.list(layout.ATTEMPTS)) == 2
    fine(hoodie("drop", table, "--name", "table"))
    assert not table.exists()


def test_what_is_no_table_or_holds_one_stays(hoodie: Run, table: Path, tmp_path: Path) -> None:
    thesis = put(tmp_path / "papers" / "thesis.txt", "x")
    assert hoodie("drop", thesis.parent, "--name", "papers").code == 22
    shutil.copytree(table, table / "inner")
    refused = hoodie("drop", table, "--name", "table")
    assert (refused.code, "another table is in it, at inner" in refused.err) == (20, True)
    assert thesis.exists()
    assert (table / "inner").exists()


def test_tables_below_a_folder_are_listed(hoodie: Run, table: Path, tmp_path: Path) -> None:
    deep = tmp_path / "lake" / "bronze" / "clicks"
    fine(hoodie("create", deep, "--columns", "id long, day date", "--record-key", "id"))
    fine(hoodie("metadata", "init", table, "--lock", "filesystem"))  # Which is no table of its own.
    broken = tmp_path / "lake" / "broken" / ".hoodie"
    put(broken / "hoodie.properties", "hoodie.table.version=6\n")
    shown = fine(hoodie("tables", tmp_path, "--json")).document
    found = {each["path"]: each for each in shown["tables"]}
    assert list(found) == ["lake/broken", "lake/bronze/clicks", "table"]
    assert found["lake/bronze/clicks"]["record_key"] == ["id"]
    assert found["lake/broken"]["problem"]
    assert "note: lake/broken: " in fine(hoodie("tables", tmp_path)).err
    assert [
        each["path"] for each in fine(hoodie("tables", table, "--json")).document["tables"]
    ] == ["."]
    assert "there are no tables" in fine(hoodie("tables", tmp_path / "none")).out
