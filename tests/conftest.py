"""What holds for every test.

Skips are forbidden where CI is set: a test that is skipped there proves nothing, and nobody would
see it. On a laptop a skip says what it lacks.
"""

import os
from collections.abc import Generator
from pathlib import Path
from typing import Final, TypeVar

import pytest
from hypothesis import settings

# The machine is shared: how long an example takes says nothing.
settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")

# Needs a cluster: `make test-cluster` names the folder, and a folder that is named is collected.
collect_ignore = ["cluster"]

_ONE_WORKER_EACH: Final = ("conformance", "jobs")
"""Folders whose tests share a server that takes long to start: an Apache Hudi, a Spark session."""

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say what stays together when several processes run the tests: a folder, or else a file."""
    here = Path(__file__).parent
    for item in items:
        folder, *rest = item.path.relative_to(here).parts
        is_whole = folder in _ONE_WORKER_EACH or not rest
        group = folder if is_whole else str(item.path.relative_to(here))
        item.add_marker(pytest.mark.xdist_group(group))
