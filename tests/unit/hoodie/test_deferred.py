"""Deferred modules run when they are first used, once; and what opening a table runs."""

import importlib
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pytest

import hoodie
from hoodie import deferred

_THREADS = 8


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose modules are modules of `hoodie`."""
    monkeypatch.setattr(hoodie, "__path__", [*hoodie.__path__, str(tmp_path)])
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("hoodie.late")]:
        del sys.modules[name]
        vars(hoodie).pop(name.partition(".")[2], None)


def test_module_runs_when_it_is_first_used(folder: Path) -> None:
    found = _deferred(folder, "late", "value = 3\ndef twice(): return value * 2\n")
    assert "value" not in vars(found)
    assert found.__name__ == "hoodie.late"
    assert found.__file__ == str(folder / "late.py")
    assert found.twice() == 6
    assert vars(found)["value"] == 3
    assert type(found) is ModuleType
    assert isinstance(found.__loader__, SourceFileLoader)
    assert found.__spec__ is not None
    assert found.__spec__.loader is found.__loader__


def test_others_import_it_as_ever(folder: Path) -> None:
    found = _deferred(folder, "late", "class Value: pass\n")
    again = importlib.import_module("hoodie.late")
    assert again is found
    assert pickle.loads(pickle.dumps(again.Value)) is found.Value
    assert importlib.reload(found) is found
    with pytest.raises(AttributeError, match="has no attribute 'nope'"):
        _ = found.nope


def test_threads_wait_until_it_has_run_once(folder: Path) -> None:
    code = "import time\nruns = [1]\ntime.sleep(0.05)\nlast = len(runs)\n"
    found = _deferred(folder, "late", code)
    begin = threading.Barrier(_THREADS)

    def use(_: int) -> tuple[int, int]:
        begin.wait()
        return id(found.runs), found.last

    with ThreadPoolExecutor(_THREADS) as threads:
        seen = set(threads.map(use, range(_THREADS)))
    assert len(seen) == 1


def test_module_may_ask_for_itself_while_it_runs(folder: Path) -> None:
    found = _deferred(folder, "late", "first = 1\nimport hoodie.late\nnow = hoodie.late.first\n")
    assert found.now == 1


def test_one_that_fails_is_tried_again(folder: Path) -> None:
    found = _deferred(folder, "late", "import nowhere_to_be_found\n")
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError, match="nowhere_to_be_found"):
            _ = found.value
    (folder / "late.py").write_text("value = 'mended, and longer than before'\n")
    assert found.value == "mended, and longer than before"


def test_packages_and_modules_of_others_are_not_deferred(folder: Path) -> None:
    (folder / "late").mkdir()
    (folder / "late" / "__init__.py").write_text("value = 4\n")
    with deferred.imports():
        found = importlib.import_module("hoodie.late")
        other = importlib.import_module("colorsys")
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("hoodie.late.nope")
    assert vars(found)["value"] == 4
    assert "hls_to_rgb" in vars(other)


def test_imports_after_the_block_run_at_once(folder: Path) -> None:
    before = list(sys.meta_path)
    with pytest.raises(ZeroDivisionError), deferred.imports():
        raise ZeroDivisionError
    assert sys.meta_path == before
    (folder / "late.py").write_text("value = 5\n")
    assert vars(importlib.import_module("hoodie.late"))["value"] == 5


def test_all_are_run_before_a_fork() -> None:
    program = """
import sys
from hoodie import deferred, table
deferred.load()
print([name for name, each in sys.modules.items() if type(each).__name__ == "_Deferred"])
print("hoodie.maintenance.cleaning.service" in sys.modules)
"""
    assert _run(program) == "[]\nTrue\n"


_ASKS_DUCKDB = """
import sys
import duckdb, hoodie
connection = duckdb.connect()
hoodie.open_table(sys.argv[1]).scan(["id"], "id > 1 and name <> 'x'").to_duckdb(connection, "t")
assert connection.sql("select id from t").fetchall() == [(3,)]
print(*(name for name, each in sys.modules.items() if type(each).__name__ != "_Deferred"))
"""


def test_scan_with_a_filter_for_duckdb_imports_no_dataset(tmp_path: Path) -> None:
    uri = str(tmp_path / "trips")
    made = hoodie.create_table(uri, {"id": pa.int64(), "name": pa.string()}, "id")
    made.insert(pa.table({"id": [1, 2, 3], "name": ["a", "x", "b"]}), bulk=True)
    modules = _run(_ASKS_DUCKDB, uri).split()
    assert "pyarrow.parquet" in modules
    assert not {"pandas", "pyarrow.dataset", "hoodie.door.datasets"} & set(modules)


_OPENS = """
import sys
import hoodie
opened = hoodie.open_table(sys.argv[1])
assert opened.scan().count() == 3
ran = [name for name, each in sys.modules.items() if type(each).__name__ != "_Deferred"]
print(len([name for name in ran if name.startswith("hoodie")]), *ran)
"""


def test_opening_and_counting_a_table_runs_no_services(tmp_path: Path) -> None:
    """What they import is most of what they take in a process of its own."""
    uri = str(tmp_path / "trips")
    made = hoodie.create_table(uri, {"id": pa.int64()}, "id")
    made.insert(pa.table({"id": [1, 2, 3]}), bulk=True)
    count, *ran = _run(_OPENS, uri).split()
    # 114 as this was written, and 334 before modules were deferred.
    assert int(count) < 130
    heavy = {
        "hoodie.filegroup.metadata_table",
        "hoodie.maintenance.compaction.service",
        "hoodie.metadata.initialising",
        "hoodie.read.changes",
        "hoodie.services.adoption",
        "hoodie.services.checking",
        "hoodie.services.mirrors.values",
        "hoodie.transaction.lifecycle",
        "hoodie.transaction.locks.zookeeper",
        "hoodie.write.sessions",
        "kazoo",
        "obstore",
        "pandas",
        "pyarrow.dataset",
    }
    assert heavy.isdisjoint(ran)
    assert {"hoodie.table", "hoodie.read.planning", "pyarrow"} <= {*ran}


def _deferred(folder: Path, name: str, code: str) -> ModuleType:
    (folder / f"{name}.py").write_text(code)
    with deferred.imports():
        return importlib.import_module(f"hoodie.{name}")


def _run(program: str, *arguments: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
    ).stdout
