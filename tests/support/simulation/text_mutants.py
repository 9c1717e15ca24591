"""Mutants of the core: single edits of its text that a simulation, or a test, must catch.

    edit    a text that stands once in a file of the core, and what takes its place
    pair    two checks guard each other: either alone may be missing, both together may not
    judge   what fails with the edits: a scenario of the simulation from a seed on, or a test

The list is `tests/simulation/mutants.toml`. Each mutant is applied to a copy of the core, which a
process of its own imports; the sources themselves are never changed.
"""

import enum
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.simulation.schedule_plans import Scenario

ROOT = Path(__file__).parents[3]
LIST = ROOT / "tests" / "simulation" / "mutants.toml"
PROGRAM = ROOT / "tests" / "simulation" / "mutate.py"
SEEDS_MAX = 500
"""Seeds that are tried from the recorded one on: what a seed stands for changes with the code."""

TIME_LIMIT_S = 300
MISFITS = ("AttributeError", "ImportError", "NameError", "SyntaxError", "TypeError")
"""What a mutant fails with that does not fit the code."""

_TEST_FAILED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One edit.

    Attributes:
        name: What no longer holds.
        file: Below core/hoodie.
        old: Stands there once.
        new: Takes its place.
        scenario: Of the simulation, some seed of which fails; None where a test is the judge.
        seed: The first to try.
        test: Fails otherwise; a pytest node.
        partners: Names of the mutants that are applied as well.
        why: Why the simulation cannot show it, or which check guards the same.
        is_sample: Whether the test suite judges it, too.
    """

    name: str
    file: str
    old: str
    new: str
    scenario: Scenario | None
    seed: int
    test: str
    partners: tuple[str, ...] = ()
    why: str = ""
    is_sample: bool = False

    @property
    def judge(self) -> str:
        """What catches it."""
        return self.test if self.scenario is None else self.scenario.value


class Result(enum.Enum):
    """What came of a mutant."""

    CAUGHT = "caught"
    MISSED = "missed"
    MISFIT = "does not fit the code"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came of a mutant, and how it was found.

    Attributes:
        result: Whether it was caught.
        seed: Of the simulation; None for a test.
        message: What failed.
    """

    result: Result
    seed: int | None = None
    message: str = ""


class MisfitError(AssertionError):
    """A mutant's text does not stand in its file once."""


def load(path: Path = LIST) -> dict[str, Mutant]:
    """Return the mutants of a list by name."""
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]
    found = {entry["name"]: _mutant(entry) for entry in entries}
    assert len(found) == len(entries), "two mutants have one name"
    return found


def edited(mutants: Sequence[Mutant], core: Path = ROOT / "core") -> Mapping[str, str]:
    """Return the files of the core that some mutants change, as they are with them.

    Raises:
        MisfitError: The text to replace does not stand there once.
    """
    found: dict[str, str] = {}
    for each in mutants:
        text = found.get(each.file)
        if text is None:
            text = (core / "hoodie" / each.file).read_text(encoding="utf-8")
        count = text.count(each.old)
        if count != 1:
            raise MisfitError(
                f"mutant {each.name!r}: expected its text once in {each.file}, found it {count} "
                f"times; write it for the code as it is now:\n{each.old}"
            )
        found[each.file] = text.replace(each.old, each.new)
    return found


@contextmanager
def copy_of_core(mutants: Sequence[Mutant]) -> Iterator[Path]:
    """Yield a copy of the core with some mutants in it."""
    changes = edited(mutants)
    with tempfile.TemporaryDirectory(prefix="mutant-") as directory:
        copy = Path(directory) / "core"
        shutil.copytree(ROOT / "core", copy)
        for file, text in changes.items():
            (copy / "hoodie" / file).write_text(text, encoding="utf-8")
        yield copy


def together(name: str, mutants: Mapping[str, Mutant]) -> tuple[Mutant, ...]:
    """Return what is applied to judge a mutant: itself, and its partners."""
    return (mutants[name], *(mutants[partner] for partner in mutants[name].partners))


def judge(name: str, mutants: Mapping[str, Mutant], seeds_max: int = SEEDS_MAX) -> Verdict:
    """Apply a mutant, and see whether its judge fails."""
    mutant = mutants[name]
    try:
        with copy_of_core(together(name, mutants)) as core:
            if mutant.scenario is None:
                return _judge_by_test(core, mutant.test)
            return hunt(core, [mutant.scenario], mutant.seed, seeds_max)
    except MisfitError as error:
        return Verdict(result=Result.MISFIT, message=str(error))


def hunt(core: Path, scenarios: Collection[Scenario], first: int, count: int) -> Verdict:
    """Run seeds of scenarios on a copy of the core until one fails."""
    for scenario in scenarios:
        command = [str(PROGRAM), "--hunt", f"{scenario.value}:{first}:{count}"]
        try:
            done = _run(core, command)
        except subprocess.TimeoutExpired:
            return Verdict(result=Result.MISSED, message=f"not ended after {TIME_LIMIT_S} s")
        if done.returncode != 0:
            return Verdict(result=Result.MISFIT, message=done.stderr[-2_000:])
        found = json.loads(done.stdout)
        if found is not None:
            message = f"{scenario.value}:{found['seed']}: {found['message']}"
            is_misfit = found["message"].startswith(MISFITS)
            result = Result.MISFIT if is_misfit else Result.CAUGHT
            return Verdict(result=result, seed=found["seed"], message=message)
    return Verdict(result=Result.MISSED, message=f"{count} seeds from {first} on hold")


def _judge_by_test(core: Path, test: str) -> Verdict:
    options = ["-q", "-x", "-n0", "-p", "no:randomly", "-p", "no:cacheprovider", "--no-header"]
    try:
        done = _run(core, ["-m", "pytest", *options, test])
    except subprocess.TimeoutExpired:
        return Verdict(result=Result.MISSED, message=f"not ended after {TIME_LIMIT_S} s")
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    message = " ".join(failed) or done.stdout[-1_000:]
    if done.returncode == 0:
        return Verdict(result=Result.MISSED, message=f"{test} passes")
    is_misfit = done.returncode != _TEST_FAILED or any(each in message for each in MISFITS)
    return Verdict(result=Result.MISFIT if is_misfit else Result.CAUGHT, message=message)


def _run(core: Path, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    paths = [core, *(ROOT / each for each in ("operator", "jobs", "tests"))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_S,
        check=False,
    )


def _mutant(entry: Mapping[str, str]) -> Mutant:
    scenario, _, seed = entry.get("seed", "").partition(":")
    assert bool(scenario) != bool(entry.get("test")), (
        f"{entry['name']}: a seed or a test catches it"
    )
    return Mutant(
        name=entry["name"],
        file=entry["file"],
        old=entry["old"],
        new=entry["new"],
        scenario=Scenario(scenario) if scenario else None,
        seed=int(seed or 0),
        test=entry.get("test", ""),
        partners=tuple(entry.get("with", ())),
        why=entry.get("why", ""),
        is_sample=bool(entry.get("sample")),
    )
