"""The commands that the README shows, run as they stand there."""

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_commands_of_the_readme_work(program_path: Path, tmp_path: Path) -> None:
    (script,) = re.findall(
        r"^```bash\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL
    )
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script.replace("/tmp/", f"{tmp_path}/")],
        check=False,
        capture_output=True,
        cwd=ROOT,
        env={**os.environ, "PATH": f"{program_path.parent}:{os.environ['PATH']}"},
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert '"ada",9.9' in done.stdout
    assert "no findings" in done.stdout + done.stderr
