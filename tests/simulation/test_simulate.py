"""The program behind `make simulate`: what it prints, and its exit code."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from hoodie.write import conflicts
from support.simulation import schedule_shrinking
from support.simulation.schedule_plans import Scenario, plan_of

pytestmark = pytest.mark.simulation

PROGRAM = Path(__file__).with_name("simulate.py")


@pytest.fixture
def simulate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("simulate", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_seed_that_does_not_fail_is_told(
    simulate: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert simulate.main(["--replay", "optimistic:1"]) == 0
    assert "Nothing failed." in capsys.readouterr().out


def test_failure_is_told_with_its_smallest_history(
    simulate: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conflicts, "candidates", lambda *_: ())
    seed = next(
        seed
        for seed in range(100)
        if schedule_shrinking.run(plan_of(Scenario.OPTIMISTIC, seed)) is not None
    )
    assert simulate.main(["--replay", f"optimistic:{seed}"]) == 1
    out = capsys.readouterr().out
    for part in (
        "The smallest run that fails alike",
        "2 writers; 1 batches each",
        "next: w",
        "w0.1: lock",
        f"Replay: make simulate REPLAY=optimistic:{seed}",
    ):
        assert part in out
    # Two writes that overlap: no more is needed.
    assert len(out.splitlines()) < 60
