"""The Go module of the test cluster, as far as it can be checked without building it."""

import re
from pathlib import Path

from support.kube import binaries


def _go_mod() -> str:
    return (binaries.MODULE / "go.mod").read_text(encoding="utf-8")


def test_programs_tell_the_version_that_the_module_requires() -> None:
    assert re.findall(r"k8s\.io/kubernetes v(\S+)", _go_mod()) == [binaries.VERSION]


def test_all_parts_of_kubernetes_have_one_version() -> None:
    parts = re.findall(r"^\t(k8s\.io/\S+) => \1 v0\.(\S+)$", _go_mod(), re.MULTILINE)
    assert len(parts) > 20
    assert {f"1.{version}" for _, version in parts} == {binaries.VERSION}


def test_fingerprint_changes_with_every_file_of_the_module(tmp_path: Path) -> None:
    files = {"go.mod": "a", "go.sum": "b", "main.go": "c", "pause/main.go": "d"}
    (tmp_path / "pause").mkdir()
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    seen = {binaries.fingerprint(tmp_path)}
    for name in files:
        (tmp_path / name).write_text("changed")
        seen.add(binaries.fingerprint(tmp_path))
    assert len(seen) == 1 + len(files)
