"""What holds for every test.

With `--sample`, as `make test` has it, some tests against Apache Hudi run: the first of each file,
and those that a mark names, with so many of their parameters. `make conformance` runs them all.

Skips are forbidden where CI is set: a test that is skipped there proves nothing, and nobody would
see it. On a laptop a skip says what it lacks.
"""

import logging
import os
from collections import Counter
from collections.abc import Generator, Iterator
from typing import Final, TypeVar

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

# The machine is shared: how long an example takes says nothing.
settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")

# They need a cluster, and other engines: `make test-cluster` and `make engines` name the folders,
# and a folder that is named is collected.
collect_ignore = ["cluster", "engines"]

_APART: Final = (
    "cluster/test_controller_kills.py",
    "cluster/test_flights.py",
    "cluster/test_flights_disturbed.py",
    "cluster/test_leaders.py",
    "cluster/test_specs_on_server.py",
)
"""Files whose tests take long and share nothing but the cluster."""
_TOGETHER: Final = ("conformance", "jobs")
"""Folders whose tests share a server that takes long to start: an Apache Hudi, a Spark session."""

_INDEXES: Final = (
    "conformance/test_bloom_filters.py",
    "conformance/test_expression_index.py",
    "conformance/test_index_building.py",
    "conformance/test_indexing_times.py",
    "conformance/test_local_time.py",
    "conformance/test_lookups.py",
    "conformance/test_metadata_kept_up.py",
    "conformance/test_metadata_listing.py",
    "conformance/test_metadata_statistics.py",
    "conformance/test_partitioned_record_index.py",
    "conformance/test_secondary_index.py",
)
"""Half of the tests of conformance, by their duration: they have an Apache Hudi of their own."""

_LONG: Final = (
    "simulation/test_fleets.py",
    "simulation/test_indexing.py",
    "unit/hoodie/metadata/test_record_index_building.py",
)
"""Files that take minutes each."""

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


def _forbid_skip(report: Report) -> Report:
    # An expected failure is reported as skipped, too, and is none.
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"skipped where CI is set, which forbids skips: {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return _forbid_skip((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _forbid_skip((yield))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sample", action="store_true", help="run some tests of conformance only")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take a sample, if asked to. Run the longest tests first: none is waited for at the end."""
    if config.getoption("--sample"):
        left_out = _left_out(items)
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]
    items.sort(key=lambda item: (not item.get_closest_marker("alone"), _place(item.nodeid)[0]))


def _left_out(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests of conformance, and others that are marked, that are not in the sample.

    In the order of their files: another plugin may have shuffled them.
    """
    found = []
    taken: Counter[str] = Counter()
    folder = "tests/conformance/"
    for item in sorted(items, key=_order):
        mark = item.get_closest_marker("sample")
        # A test that is marked counts by itself, the others of a file together.
        name = item.nodeid.partition("[" if mark else "::")[0]
        taken[name] += 1
        if (mark or name.startswith(folder)) and taken[name] > (mark.args[0] if mark else 1):
            found.append(item)
    return found


def _order(item: pytest.Item) -> tuple[str, int, int]:
    """Return the place of a test in its file, and among those of its name, as they are written."""
    spec = getattr(item, "callspec", None)
    indices = tuple(spec.indices.values()) if spec is not None else ()
    line = item.reportinfo()[1] or 0
    return item.nodeid.partition("::")[0], line, sum(indices)


@pytest.fixture(autouse=True)
def _log_as_before() -> Iterator[None]:
    """Undo what a command that a test calls does to the log: the next test may look at it."""
    loggers = [logging.getLogger(name) for name in ("", "hoodie", "hoodie_jobs")]
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Distribute tests over processes in their order here, by `_Scheduling`."""
    config.option.loadscopereorder = False
    return _Scheduling(config, log)


class _Scheduling(LoadScopeScheduling):
    """Keeps tests that share a set-up in one process.

    `--dist=loadgroup` would do it by marks, but does nothing under pytest 9.2 (pytest-xdist 3.8.0,
    issue 1386).
    """

    def _split_scope(self, nodeid: str) -> str:
        return _place(nodeid)[1]


def _place(nodeid: str) -> tuple[int, str]:
    """Return how late a test begins, and the tests that it stays together with, by a name."""
    file = nodeid.partition("::")[0].removeprefix("tests/")
    folder = file.partition("/")[0]
    if file in _APART:
        return 0, nodeid
    if file in _INDEXES:
        return 1, "indexes"
    if folder in _TOGETHER:
        return 1, folder
    if file in _LONG:
        return 1, file
    return 2, file
