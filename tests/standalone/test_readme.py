"""The commands that the README shows for manifests, run as they stand there."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_commands_on_manifests_work_as_the_readme_shows_them(tmp_path: Path) -> None:
    (script,) = re.findall(
        r"^```sh\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL
    )
    trips = tmp_path / "examples" / "trips"
    shutil.copytree(ROOT / "examples" / "trips", trips, ignore=shutil.ignore_patterns("work"))
    programs = Path(sys.executable).parent
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        check=False,
        capture_output=True,
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Writer/rides is valid" in done.stdout
    assert done.stdout.count("1 file committed") >= 2
    assert list((trips / "work" / "trips" / "Oslo").glob("*.parquet")), "it is compacted"
