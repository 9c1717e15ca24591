"""The image of the project, as `make image` builds it, in the nodes of the test cluster."""

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

import pytest

from support.kube import clusters

ROOT: Final = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def image_archive() -> Path:
    """The image as an archive, built unless it was."""
    command = [sys.executable, str(ROOT / "tools" / "image.py")]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return Path(done.stdout.strip())


@pytest.fixture(scope="session")
def operator_image(cluster: clusters.Cluster, image_archive: Path) -> str:
    """The image's name; the nodes know it."""
    cluster.load_image(image_archive)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    return f"localhost/hudi-operator:{version}"
