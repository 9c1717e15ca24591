"""An index whose building processes are killed while both engines write; `make killed-builds`."""

from pathlib import Path

import pytest

from support.peer import killed_builds
from support.peer.judge import Judge
from support.peer.killed_builds import Death, Plan

PLANS = [
    Plan(kind="bloom filters, cow", has_zookeeper=False, builds=[[Death("named", 0.0)]]),
    Plan(
        kind="secondary index, mor",
        has_zookeeper=True,
        builds=[[Death("written", 0.02), Death("planned", 0.5)]],
    ),
]


@pytest.mark.sample(0)
@pytest.mark.parametrize("plan", PLANS, ids=lambda each: each.kind)
def test_killed_builds_are_finished_and_look_ups_equal_full_scans(
    plan: Plan, judge: Judge, zookeeper: str, tmp_path: Path
) -> None:
    """T-I04, T-I20: beside processes of this project and a JVM that write."""
    run = killed_builds.Run.of(judge, plan, tmp_path, 1, zookeeper)
    run.go()
    assert any(each.startswith("killed") for each in run.counts), run.counts
