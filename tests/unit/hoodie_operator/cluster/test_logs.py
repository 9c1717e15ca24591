"""What libraries log of the API server's refusals is one line, and all else is logged as it is."""

import logging
from collections.abc import Iterator
from typing import cast

import aiohttp
import pytest

from hoodie_operator.cluster import logs

LIBRARY = "a_library"


@pytest.fixture
def refusals() -> Iterator[logs.Refusals]:
    yield logs.Refusals(LIBRARY)
    logger = logging.getLogger(LIBRARY)
    logger.handlers, logger.propagate = [], True
    logger.setLevel(logging.NOTSET)


class Logged(logging.Handler):
    """Keeps the records of an operator's log. Pytest's own is put on the loggers of libraries."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def logged() -> Iterator[Logged]:
    found = Logged()
    logging.getLogger().addHandler(found)
    yield found
    logging.getLogger().removeHandler(found)


def _refusal() -> aiohttp.ClientResponseError:
    return aiohttp.ClientResponseError(cast("aiohttp.RequestInfo", None), (), status=404)


def test_refusal_is_kept_and_not_logged(refusals: logs.Refusals, logged: Logged) -> None:
    logger = logging.getLogger(f"{LIBRARY}.watching")
    for layer in ("the watcher", "all of it"):
        try:
            try:
                raise _refusal()
            except aiohttp.ClientResponseError as error:
                raise RuntimeError("404 page not found") from error
        except RuntimeError as error:
            logger.exception("%s has failed: %s", layer, error)  # noqa: TRY401 - as Kopf does
    assert refusals.first == "the watcher has failed: 404 page not found"
    assert not logged.records


def test_bug_is_logged_with_where_it_is(refusals: logs.Refusals, logged: Logged) -> None:
    logger = logging.getLogger(f"{LIBRARY}.handling")
    try:
        int("a bug")
    except ValueError:
        logger.exception("a handler has failed")
    logger.error("and so has another")
    logger.warning("nobody needs this")
    assert refusals.first == ""
    assert [(each.getMessage(), bool(each.exc_info)) for each in logged.records] == [
        ("a handler has failed", True),
        ("and so has another", False),
    ]
