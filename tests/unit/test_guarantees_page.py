"""The tests that the table of guarantees names are there."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "guarantees.md"
NAMED = re.compile(r"`(?P<file>test_\w+\.py)?(?:::(?P<test>\w+))?`")


def test_every_test_that_is_named_exists() -> None:
    file = ""
    named = 0
    for found in NAMED.finditer(PAGE.read_text(encoding="utf-8")):
        # A test alone is of the file that was named before it.
        file = found["file"] or file
        paths = list(TESTS.rglob(file))
        assert paths, file
        if found["test"]:
            assert any(f"def {found['test']}(" in path.read_text("utf-8") for path in paths), found
        named += 1
    assert named > 10
