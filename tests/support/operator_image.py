"""The image of the project, as `make image` builds it, in the nodes of the test cluster."""

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

import pytest

from support.kube import clusters

ROOT: Final = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def operator_image(cluster: clusters.Cluster) -> str:
    """The image's name; it is built unless it was, and known to the nodes."""
    command = [sys.executable, str(ROOT / "tools" / "image.py")]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    cluster.load_image(Path(done.stdout.strip()))
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    return f"localhost/hudi-operator:{version}"
