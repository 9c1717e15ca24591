"""The programs of a cluster: built from tests/cluster/kube once, then kept in the user's cache.

They are known by a hash of the module's files, so that each version is built once on a machine, by
whichever checkout comes first, and each program when somebody needs it: a cluster begins with
`FIRST`. `python -m support.kube.binaries [NAME...]` builds what is missing of some or of all,
telling how far it is, and prints the folder.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

MODULE: Final = Path(__file__).parents[2] / "cluster" / "kube"
VERSION: Final = "1.34.4"
"""Of Kubernetes; go.mod names it, too, and a test compares the two."""

_SOURCES = ("*.go", "go.mod", "go.sum")
_TOLD_EVERY_S = 15
_MINUTES_TOLD = "15 to 30 minutes"
_SIZES_TOLD = "0.3 GB here, and 5 GB in Go's own caches (`go clean -cache -modcache` frees them)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Binaries:
    """A folder of programs; one that is asked for and not there is built, or waited for."""

    folder: Path

    @property
    def kube(self) -> str:
        """The multi-call program; its first argument chooses a part."""
        return self._path("kube")

    @property
    def helm(self) -> str:
        return self._path("helm")

    @property
    def kwok(self) -> str:
        return self._path("kwok")

    @property
    def pause(self) -> str:
        return self._path("pause")

    def _path(self, name: str) -> str:
        path = self.folder / name
        if not path.exists():
            ensure(name)
        return str(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What is built.

    Attributes:
        package: What of a module.
        module: The module's folder below the main one; kwok has one of its own, since it stands on
            an older version of Kubernetes' libraries.
        settings: What the linker writes into it.
    """

    package: str
    module: str = "."
    settings: Mapping[str, str] = field(default_factory=dict)


def _version_settings() -> dict[str, str]:
    major, minor, _ = VERSION.split(".")
    component = "k8s.io/component-base/version"
    return {
        f"{component}.gitVersion": f"v{VERSION}",
        f"{component}.gitMajor": major,
        f"{component}.gitMinor": minor,
        f"{component}.gitTreeState": "clean",
        "k8s.io/client-go/pkg/version.gitVersion": f"v{VERSION}",
    }


PROGRAMS: Final[Mapping[str, Program]] = {
    "pause": Program(package="./pause"),
    "kube": Program(package=".", settings=_version_settings()),
    "helm": Program(package="helm.sh/helm/v3/cmd/helm"),
    "kwok": Program(package="sigs.k8s.io/kwok/cmd/kwok", module="kwok"),
}


FIRST: Final = ("pause", "kube")
"""What a cluster begins with."""


def cache_folder() -> Path:
    """Return where this project keeps what is costly to make, for all checkouts of one user."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "hudi-operator"


def fingerprint(module: Path = MODULE) -> str:
    """Return what changes when a program of the module may."""
    digest = hashlib.sha256(repr(PROGRAMS).encode())
    for path in sorted(path for pattern in _SOURCES for path in module.rglob(pattern)):
        digest.update(f"{path.relative_to(module)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def ensure(*names: str) -> Binaries:
    """Return the programs, of which some are there now: built, if they were not yet.

    Args:
        names: Which; none for all.

    Raises:
        SystemExit: Go is missing, or does not build them; the message is for people.
    """
    folder = cache_folder() / "kube" / fingerprint()
    wanted = names or tuple(PROGRAMS)
    if not _missing(folder, wanted):
        return Binaries(folder=folder)
    if shutil.which("go") is None:
        raise SystemExit("missing prerequisite: Go 1.25 or newer; found none")
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder.parent / "lock"):
        for name in _missing(folder, wanted):
            _build(name, PROGRAMS[name], folder / name)
    return Binaries(folder=folder)


def _missing(folder: Path, names: Sequence[str]) -> list[str]:
    return [name for name in names if not (folder / name).exists()]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(name: str, program: Program, target: Path) -> None:
    """Build one program, so that it is there whole or not at all."""
    _tell(
        f"Building {name} for the test cluster, once on this machine; all programs take "
        f"{_MINUTES_TOLD} of two cores, {_SIZES_TOLD}"
    )
    environment = {**os.environ, "CGO_ENABLED": "0"}
    module = MODULE / program.module
    listed = subprocess.run(
        ["go", "list", "-deps", program.package],
        cwd=module, env=environment, stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    if listed.returncode != 0:
        raise SystemExit(f"the packages of {name} cannot be fetched: see above")
    packages_max = len(listed.stdout.split())
    flags = ["-s", "-w", *(f"-X {key}={value}" for key, value in program.settings.items())]
    began = told = time.monotonic()
    # With -v each package that is compiled is named.
    command = ["go", "build", "-v", "-trimpath", "-buildvcs=false", "-ldflags", " ".join(flags)]
    made = target.with_suffix(".new")
    with subprocess.Popen(
        [*command, "-o", made, program.package],
        cwd=module, env=environment, stderr=subprocess.PIPE, text=True,
    ) as building:  # fmt: skip
        assert building.stderr is not None
        lines: list[str] = []
        for line in building.stderr:
            lines.append(line)
            if time.monotonic() - told > _TOLD_EVERY_S:
                told = time.monotonic()
                seconds = told - began
                _tell(f"{name}: {len(lines)} of at most {packages_max} packages, {seconds:.0f} s")
    if building.returncode != 0:
        raise SystemExit(f"{name} was not built:\n" + "".join(lines[-20:]))
    made.rename(target)
    _tell(f"{name}: built, {target.stat().st_size / 1e6:.0f} MB, {time.monotonic() - began:.0f} s")


def _tell(text: str) -> None:
    print(f"==> {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    print(ensure(*sys.argv[1:]).folder)
