"""tools/environment.sh: an environment of another checkout is left as it is."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_linked_environment_is_not_cleared(tmp_path: Path) -> None:
    """A worktree may borrow the environment of another, whose path its own does not have."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "made-for").write_text("another checkout")
    (tmp_path / ".venv").symlink_to(other)
    script = f"set -eu; python=python3; source {ROOT}/tools/environment.sh; fill .venv no.txt"
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert ".venv is a link" in done.stderr
    assert [path.name for path in other.iterdir()] == ["made-for"]
