"""Builds the image of operator, observers, runs and lock servers, without a registry.

Usage: python tools/image.py [--context FOLDER]

Prints the path of an archive that `docker load`, `kind load image-archive`, `ctr images import` and
`buildah pull docker-archive:` take. With --context only what the Dockerfile needs is laid out, for
another builder. What is made is kept in the user's cache folder, under a hash of all that goes in:

    wheels/HASH/     the packages of requirements/image.txt, and pip
    base/HASH.tar    a root file system of Debian packages
    images/HASH.tar  the archive; the last ones only, as each has 1 GB
    storage/HASH/    buildah's layers made of wheels and base
"""

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCKERFILE = ROOT / "Dockerfile"
ENTRYPOINT = ROOT / "tools" / "image_entrypoint.sh"
PACKAGES = ROOT / "requirements" / "image.txt"
BUILDERS = ROOT / "requirements" / "build.txt"
PROJECT = ("pyproject.toml", "README.md", "LICENSE", "core", "operator", "jobs")

SUITE = "bookworm"
DEBIAN_PACKAGES = ("ca-certificates", "openjdk-17-jre-headless", "python3", "tini")
PYTHON_VERSION = "3.11"
"""Of that suite, as the C library below; wheels are chosen for them, not for this program's."""
MACHINE = os.uname().machine
GLIBC_MINOR = 36
WHEEL_PLATFORMS = (
    *(f"manylinux_2_{minor}_{MACHINE}" for minor in range(GLIBC_MINOR, 4, -1)),
    f"manylinux2014_{MACHINE}",  # The older name of some; pip takes the even older ones with it.
)
SOURCE_PACKAGES = ("pyspark",)
"""They have no wheels; what is made of them is for every Python and platform."""

IMAGES_KEPT = 3
_NEEDED = {"buildah": "buildah", "mmdebstrap": "mmdebstrap"}
_BASE_OPTIONS = (
    "--variant=minbase",
    # openjdk's scripts fail without this folder.
    '--essential-hook=mkdir -p "$1/usr/share/man/man1"',
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-include=/usr/share/doc/*/copyright",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
    '--aptopt=Apt::Install-Recommends "false"',
)


def version() -> str:
    """Return the project's version, which is the image's tag."""
    found: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    return found


def name() -> str:
    """Return the image's name in the archive."""
    return f"localhost/hudi-operator:{version()}"


def files_of(roots: Iterable[Path]) -> Iterator[Path]:
    """Return the files below folders, or the files that are given, without what runs left there."""
    for root in roots:
        found = [root] if root.is_file() else sorted(root.rglob("*"))
        yield from (each for each in found if each.is_file() and "__pycache__" not in each.parts)


def key_of(words: Iterable[str], files: Iterable[Path] = ()) -> str:
    """Return a hash of words, and of files by their place in the repository and their content."""
    digest = hashlib.sha256()
    for word in words:
        digest.update(f"{word}\0".encode())
    for path in files:
        content = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT)}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def wheels_key() -> str:
    """Return what the wheels stand on."""
    return key_of((PYTHON_VERSION, *WHEEL_PLATFORMS), (PACKAGES, BUILDERS))


def base_key() -> str:
    """Return what the base stands on."""
    return key_of((SUITE, MACHINE, *DEBIAN_PACKAGES, *_BASE_OPTIONS))


def image_key() -> str:
    """Return what the image stands on."""
    ours = files_of([DOCKERFILE, ENTRYPOINT, Path(__file__), *(ROOT / each for each in PROJECT)])
    return key_of((wheels_key(), base_key()), ours)


def cache() -> Path:
    """Return the folder that keeps what is made."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "hudi-operator" / "image"


def archive_of(kept: Path, key: str) -> Path:
    """Return where the archive of an image is, or will be."""
    return kept / "images" / f"{key}.tar"


def make_archive(kept: Path, key: str) -> Path:
    """Return the archive of the image, and make it unless it is there.

    Args:
        kept: The cache.
        key: What the image stands on, taken once: sources may change while it is built.
    """
    archive = archive_of(kept, key)
    if archive.exists():
        return archive  # Another one made it, while this one waited.
    _need_programs()
    base = _make_base(kept)
    context = kept / "context"
    lay_out(context, kept)
    with _step("Building the image"):
        tag = f"{name()}-{key}"
        _buildah(
            kept,
            *("build", "--layers", "--isolation=chroot", "--pull-never", "--tag", tag),
            *("--build-arg", f"BASE={base}", str(context)),
        )
    with _step(f"Writing {archive}"):
        archive.parent.mkdir(parents=True, exist_ok=True)
        partial = archive.with_suffix(".partial")
        partial.unlink(missing_ok=True)
        # Not the OCI layout: Docker, kind and containerd keep the name of the image of this one.
        _buildah(kept, "push", "--quiet", tag, f"docker-archive:{partial}:{name()}")
        partial.replace(archive)
    shutil.rmtree(context)
    _forget(kept, tag)
    return archive


def lay_out(context: Path, kept: Path) -> None:
    """Put into a folder, which is emptied, all that the Dockerfile needs.

    Args:
        context: The folder.
        kept: The cache.
    """
    wheels = _make_wheels(kept)
    shutil.rmtree(context, ignore_errors=True)
    (context / "project").mkdir(parents=True)
    shutil.copy(DOCKERFILE, context / "Dockerfile")
    shutil.copy(ENTRYPOINT, context / "entrypoint.sh")
    shutil.copytree(wheels / "packages", context / "wheels", copy_function=_link)
    _link(next((wheels / "pip").glob("pip-*.whl")), context / "pip.whl")
    with _step("Building the project's wheel"):
        _pip(
            "wheel", "--no-deps", "--no-build-isolation", "-w", str(context / "project"), str(ROOT)
        )


def _make_wheels(kept: Path) -> Path:
    folder = kept / "wheels" / wheels_key()
    if folder.exists():
        folder.touch()
        return folder
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    sources = ",".join(SOURCE_PACKAGES)
    with _step("Fetching the packages' wheels (0.6 GB the first time)"):
        from_sources, ready = split_lock(partial)
        _pip(
            *("download", "--quiet", "--no-deps", "--require-hashes", "--only-binary=:all:"),
            *("--implementation=cp", f"--python-version={PYTHON_VERSION}"),
            *(f"--platform={each}" for each in WHEEL_PLATFORMS),
            *("-d", str(partial / "packages"), "-r", str(ready)),
        )
        _pip(
            *("wheel", "--quiet", "--no-deps", "--require-hashes", "--no-build-isolation"),
            *(f"--no-binary={sources}", "-w", str(partial / "packages"), "-r", str(from_sources)),
        )
        _pip("download", "--quiet", "--no-deps", "-d", str(partial / "pip"), "-r", str(BUILDERS))
    partial.replace(folder)
    return folder


def split_lock(folder: Path) -> tuple[Path, Path]:
    """Write the lock as two into a new folder, and return their paths.

    Args:
        folder: The folder.

    Returns:
        The lock of packages that are built here, and of those that have wheels.
    """
    folder.mkdir(parents=True)
    parts: dict[bool, list[str]] = {True: [], False: []}
    is_source = False
    for line in PACKAGES.read_text(encoding="utf-8").splitlines(keepends=True):
        if not line.startswith((" ", "#")):
            is_source = line.startswith(tuple(f"{each}==" for each in SOURCE_PACKAGES))
        parts[is_source].append(line)
    paths = folder / "sources.txt", folder / "ready.txt"
    for path, lines in zip(paths, (parts[True], parts[False]), strict=True):
        path.write_text("".join(lines), encoding="utf-8")
    return paths


def _make_base(kept: Path) -> str:
    """Return the name of the base among buildah's images; it is made unless it is there."""
    tag = f"localhost/hudi-operator-base:{base_key()}"
    archive = kept / "base" / f"{base_key()}.tar"
    if not archive.exists():
        archive.parent.mkdir(parents=True, exist_ok=True)
        partial = archive.with_suffix(".partial.tar")
        with _step(f"Making a base of Debian packages: {', '.join(DEBIAN_PACKAGES)}"):
            _run(
                (
                    *("mmdebstrap", "--quiet", f"--include={','.join(DEBIAN_PACKAGES)}"),
                    *(*_BASE_OPTIONS, SUITE, str(partial)),
                )
            )
            partial.replace(archive)
    known = _buildah(kept, "images", "--format", "{{.Name}}:{{.Tag}}").split()
    if tag not in known:
        with _step("Handing the base to buildah"):
            container = _buildah(kept, "from", "scratch").strip()
            _buildah(kept, "add", "--quiet", container, str(archive), "/")
            _buildah(kept, "commit", "--quiet", "--rm", container, tag)
    return tag


def _forget(kept: Path, tag: str) -> None:
    """Remove what older builds left: archives, wheels, bases, and layers made of them."""
    for folder, count in (("images", IMAGES_KEPT), ("wheels", 1), ("base", 1), ("storage", 1)):
        found = sorted((kept / folder).iterdir(), key=lambda path: path.stat().st_mtime)
        for path in found[:-count]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for older in _buildah(kept, "images", "--format", "{{.Name}}:{{.Tag}}").split():
        if older.startswith("localhost/hudi-operator:") and older != tag:
            _buildah(kept, "rmi", older)


def _buildah(kept: Path, *arguments: str) -> str:
    # A storage of its own: nothing is left among the machine's images, and nothing is taken there.
    storage = kept / "storage" / key_of((wheels_key(), base_key()))
    places = ("--root", str(storage / "layers"), "--runroot", str(storage / "run"))
    return _run(("buildah", *places, *arguments))


def _pip(*arguments: str) -> None:
    _run((sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments))


def _run(command: Sequence[str]) -> str:
    """Run a command and return what it printed; its complaints are shown when it fails."""
    # Both large tools put what they unpack there, and /tmp may be memory.
    scratch = cache() / "tmp"
    scratch.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        command,
        check=False,
        text=True,
        capture_output=True,
        env={**os.environ, "TMPDIR": str(scratch)},
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def _need_programs() -> None:
    missing = [package for program, package in _NEEDED.items() if shutil.which(program) is None]
    if missing:
        sys.exit(
            f"missing prerequisite: {', '.join(missing)} (Debian packages of these names); "
            "or lay out a context for another builder with --context"
        )


def _link(source: str | Path, target: str | Path) -> str | Path:
    """Have a file at another place as well, without a copy where the file system can."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy(source, target)
    return target


@contextmanager
def _step(told: str) -> Iterator[None]:
    print(f"==> {told}", file=sys.stderr, flush=True)
    before_s = time.monotonic()
    yield
    print(f"    {time.monotonic() - before_s:.0f} s", file=sys.stderr, flush=True)


@contextmanager
def _only_one(kept: Path) -> Iterator[None]:
    kept.mkdir(parents=True, exist_ok=True)
    with (kept / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main() -> None:
    """Build the image, or lay out what another builder needs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--context", type=Path, help="lay out this folder, and build nothing")
    arguments = parser.parse_args()
    key = image_key()
    if arguments.context is None and archive_of(cache(), key).exists():
        # Without waiting for a build of another checkout. The last ones that were used are kept.
        archive_of(cache(), key).touch()
        print(archive_of(cache(), key))
        return
    with _only_one(cache()):
        if arguments.context is not None:
            lay_out(arguments.context, cache())
            print(arguments.context)
        else:
            print(make_archive(cache(), key))


if __name__ == "__main__":
    main()
