"""The Go module of the test cluster, as far as it can be checked without building it."""

import re
import stat
from pathlib import Path

import pytest

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


_GO = """#!/bin/sh
case $1 in
list) echo one ;;
build)
    echo "$@" >>"$BUILT"
    while [ "$1" != -o ]; do shift; done
    echo program >"$2" ;;
esac
"""


def test_only_what_is_asked_for_is_built_and_each_program_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    go, built = tmp_path / "bin" / "go", tmp_path / "built"
    go.parent.mkdir()
    go.write_text(_GO)
    go.chmod(go.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(go.parent), prepend=":")
    monkeypatch.setenv("BUILT", str(built))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def packages() -> list[str]:
        return [line.split()[-1] for line in built.read_text().splitlines()]

    found = binaries.ensure(*binaries.FIRST)
    assert Path(found.kube).read_text() == "program\n"
    assert packages() == ["./pause", "."]
    assert Path(found.helm).exists()
    assert Path(found.helm).exists()
    assert packages() == ["./pause", ".", "helm.sh/helm/v3/cmd/helm"]
    binaries.ensure()
    assert sorted(packages()) == sorted(each.package for each in binaries.PROGRAMS.values())
    assert "GB" in capsys.readouterr().err
