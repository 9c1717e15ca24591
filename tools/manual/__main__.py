"""Writes the sources of the site into a folder, which is emptied before."""

import shutil
import sys
from pathlib import Path

from manual import pages

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent


def main(folder: Path) -> None:
    """Write the sources.

    Args:
        folder: Below the repository's `build/`.
    """
    files = [
        str(path.relative_to(ROOT))
        for top in ("*", "docs/**/*", "benchmarks/*", "examples/**/*", "charts/**/*", "crds/*")
        for path in ROOT.glob(top)
    ]
    found = pages.site(files, lambda path: (ROOT / path).read_text(encoding="utf-8"))
    shutil.rmtree(folder, ignore_errors=True)
    for place, text in found.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text(text, encoding="utf-8")
    shutil.copy(HERE / "conf.py", folder)
    shutil.copytree(ROOT / "docs" / "site" / "_static", folder / "_static")
    sys.stdout.write(f"{folder}: {len(found)} pages\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
