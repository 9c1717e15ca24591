"""What simulated worlds survive, they survive in masses: it is not logged."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def no_log() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
