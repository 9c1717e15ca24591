"""Container images without a registry: archives made of layers, as `docker save` makes them."""

import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

PAUSE: Final = "hudi.test/pause:1"
"""Holds the namespaces of each pod."""

# Kubernetes' own namespace within containerd.
_CONTAINERD_NAMESPACE = "k8s.io"
# Tells which archive an image came from; it goes when another archive brings the same name.
_LABEL = "archive"
_LABEL_LENGTH = 40


def write_archive(
    target: Path, reference: str, config: Mapping[str, object], layers: Sequence[Path]
) -> Path:
    """Write an archive that `ctr images import` takes, and return its path.

    Args:
        target: Where.
        reference: The image's name; not `latest`, which would be pulled at each start.
        config: Entrypoint, environment and the like, as the image specification names them.
        layers: Tar files, the lowest first.
    """
    digests = [_digest(layer) for layer in layers]
    described = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
        }
    ).encode()
    config_name = f"{hashlib.sha256(described).hexdigest()}.json"
    names = [f"{digest}/layer.tar" for digest in digests]
    manifest = [{"Config": config_name, "RepoTags": [reference], "Layers": names}]
    with tarfile.open(target, "w") as archive:
        _add_bytes(archive, config_name, described)
        for name, layer in zip(names, layers, strict=True):
            archive.add(layer, arcname=name)
        _add_bytes(archive, "manifest.json", json.dumps(manifest).encode())
    return target


def write_layer(target: Path, files: Mapping[str, Path], links: Mapping[str, str]) -> Path:
    """Write a layer of programs and return its path.

    Args:
        target: Where.
        files: What lies where in the image; all can be executed.
        links: Symbolic links and what they point at.
    """
    with tarfile.open(target, "w") as layer:
        for name, path in files.items():
            with path.open("rb") as content:
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = path.stat().st_size, 0o755
                layer.addfile(entry, content)
        for name, destination in links.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, destination
            layer.addfile(entry)
    return target


def write_pause(folder: Path, program: Path) -> Path:
    """Write the archive of the image `PAUSE` and return its path."""
    layer = write_layer(folder / "pause.layer.tar", {"pause": program}, {})
    return write_archive(folder / "pause.tar", PAUSE, {"Entrypoint": ["/pause"]}, [layer])


def import_archive(socket: Path, archive: Path) -> None:
    """Make the image of an archive known to containerd, unless it came from the same bytes."""
    digest = _digest(archive)[:_LABEL_LENGTH]
    known = _ctr(socket, "images", "list", "--quiet", f"labels.{_LABEL}=={digest}")
    references = _references(archive)
    if set(references) <= set(known.split()):
        return
    _ctr(socket, "images", "import", str(archive))
    for reference in references:
        _ctr(socket, "images", "label", reference, f"{_LABEL}={digest}")


def _references(archive: Path) -> list[str]:
    with tarfile.open(archive) as opened:
        content = opened.extractfile("manifest.json")
        assert content is not None
        return [reference for image in json.load(content) for reference in image["RepoTags"]]


def _ctr(socket: Path, *arguments: str) -> str:
    command = ["ctr", "--address", str(socket), "--namespace", _CONTAINERD_NAMESPACE, *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _add_bytes(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))


def registry_files(archive: Path) -> dict[str, bytes]:
    """Return manifest and configuration of an archive's image, as a registry tells them.

    Who has imported the archive has the layers already, by the digests that their names are.
    """
    with tarfile.open(archive) as opened:

        def read(name: str) -> bytes:
            content = opened.extractfile(name)
            assert content is not None, name
            return content.read()

        def described(name: str) -> dict[str, object]:
            member = opened.getmember(name)
            kind = "application/vnd.docker.image.rootfs.diff.tar"
            digest = Path(member.name).stem
            return {"mediaType": kind, "size": member.size, "digest": f"sha256:{digest}"}

        (image,) = json.loads(read("manifest.json"))
        config = read(image["Config"])
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
            "config": {
                "mediaType": "application/vnd.docker.container.image.v1+json",
                "size": len(config),
                "digest": f"sha256:{hashlib.sha256(config).hexdigest()}",
            },
            "layers": [described(name) for name in image["Layers"]],
        }
    return {"manifest": json.dumps(manifest).encode(), "config": config}
