"""Writes docs/compatibility.md from the results of `make conformance`.

PYTHONPATH=tests .venv/bin/python tests/conformance/compatibility_page.py RESULTS
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from support.peer import compatibility

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"


def main(arguments: Sequence[str]) -> int:
    """Write the page; return 1 if a combination has no result, which the page says."""
    results = compatibility.read(Path(arguments[0]))
    PAGE.write_text(compatibility.page(results))
    print(f"wrote {PAGE.relative_to(PAGE.parents[1])}")
    missing = len(compatibility.combinations()) - len(results)
    if missing:
        print(f"{missing} combinations have no result: run `make compatibility` again")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
