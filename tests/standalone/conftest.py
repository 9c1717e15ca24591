"""A place for the standalone operator, cleaned up after each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.operators.standalone_place import Place


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Return a place whose operators and runs end with the test."""
    made = Place(tmp_path)
    yield made
    made.close()
