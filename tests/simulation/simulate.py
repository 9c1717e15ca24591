"""Runs the simulation for many seeds, on all cores, and tells a failure so that it can be read.

    python tests/simulation/simulate.py --seeds 10000 --first 0
    python tests/simulation/simulate.py --replay optimistic:1148
    python tests/simulation/simulate.py --explore

A failure is printed as its seed and the smallest run found that fails alike: what befell it, and
its steps. The exit code is then 1.
"""

import argparse
import concurrent.futures
import gc
import itertools
import logging
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rich import console, markup, progress, table

from support.simulation import schedule, schedule_exploration, schedule_models, schedule_shrinking
from support.simulation.schedule_plans import Plan, Scenario, plan_of

CHUNK = 20
SHOWN_MAX = 3


@dataclass(kw_only=True)
class Tally:
    """What came of a scenario.

    Attributes:
        runs: How many were made.
        failures: Seed and message of each that failed.
        busy_s: Processor time of all processes together.
        elapsed_s: Time by the clock.
    """

    runs: int = 0
    failures: list[tuple[int, str]] = field(default_factory=list)
    busy_s: float = 0.0
    elapsed_s: float = 0.0

    @property
    def rate(self) -> str:
        """Runs a second of a core that does nothing else."""
        return f"{self.runs / self.busy_s:.0f}" if self.busy_s else "-"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of some seeds."""

    runs: int
    failures: Sequence[tuple[int, str]]
    busy_s: float


def main(arguments: Sequence[str]) -> int:
    """Do as the arguments say; return the exit code."""
    logging.disable(logging.CRITICAL)  # What the library survives, it survives in masses here.
    options = _parser().parse_args(arguments)
    screen = console.Console(highlight=False, soft_wrap=True)
    if options.explore:
        return _explore(screen, options.jobs)
    if options.replay:
        scenario, seed = options.replay
        return _replay(screen, scenario, seed)
    tallies = {scenario: Tally() for scenario in options.scenario or Scenario}
    _run_all(screen, tallies, range(options.first, options.first + options.seeds), options.jobs)
    screen.print(_summary(tallies))
    failed = [(scenario, seed) for scenario, tally in tallies.items() for seed, _ in tally.failures]
    for scenario, seed in failed[:SHOWN_MAX]:
        _replay(screen, scenario, seed)
    return 1 if failed else 0


def run_seeds(scenario: Scenario, seeds: Sequence[int]) -> Outcome:
    """Run some seeds of a scenario."""
    logging.disable(logging.CRITICAL)
    begun_s = time.process_time()
    failures = []
    with schedule.Troupe() as troupe:
        for seed in seeds:
            failure = schedule_shrinking.run(plan_of(scenario, seed), troupe=troupe)
            if failure is not None:
                failures.append((seed, failure.message))
    return Outcome(runs=len(seeds), failures=failures, busy_s=time.process_time() - begun_s)


def _run_all(
    screen: console.Console, tallies: dict[Scenario, Tally], seeds: range, jobs: int
) -> None:
    columns = (
        progress.TextColumn("{task.description:14}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("{task.fields[rate]} runs/s"),
        progress.TextColumn("{task.fields[failures]} failed"),
        progress.TimeRemainingColumn(),
    )
    with (
        progress.Progress(*columns, console=screen) as bar,
        _pool(jobs) as pool,
    ):
        bars = {
            scenario: bar.add_task(
                scenario.value, total=len(seeds), rate="-", failures=0, start=False
            )
            for scenario in tallies
        }
        for scenario, tally in tallies.items():
            bar.start_task(bars[scenario])
            begun_s = time.monotonic()
            for outcome in pool.map(run_seeds, itertools.repeat(scenario), _chunks(seeds)):
                tally.runs += outcome.runs
                tally.failures += outcome.failures
                tally.busy_s += outcome.busy_s
                tally.elapsed_s = time.monotonic() - begun_s
                bar.update(
                    bars[scenario],
                    completed=tally.runs,
                    rate=f"{tally.runs / tally.elapsed_s:.0f}",
                    failures=len(tally.failures),
                )


def _pool(jobs: int) -> concurrent.futures.ProcessPoolExecutor:
    """Return processes that share the cores."""
    context = multiprocessing.get_context("spawn")
    cores = context.Queue()
    for number in range(jobs):
        cores.put(number)
    return concurrent.futures.ProcessPoolExecutor(
        jobs, mp_context=context, initializer=_settle_down, initargs=(cores,)
    )


def _settle_down(cores: "multiprocessing.Queue[int]") -> None:
    """Let this process waste no time on what it is not here for.

    Its threads take turns: they would wander between all cores, and one that is woken would
    interrupt the one who wakes it, only to wait for the interpreter that this one still has. And
    what was imported is there to stay: no collection of garbage need look at it.
    """
    if sys.platform == "linux":
        allowed = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {allowed[cores.get() % len(allowed)]})
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    gc.freeze()


def _chunks(seeds: range) -> Iterator[range]:
    return (seeds[begin : begin + CHUNK] for begin in range(0, len(seeds), CHUNK))


def _summary(tallies: dict[Scenario, Tally]) -> table.Table:
    found = table.Table("scenario", title="Simulation")
    for name in ("runs", "failures", "runs/s", "runs/s of a core"):
        found.add_column(name, justify="right")
    for scenario, tally in tallies.items():
        rate = f"{tally.runs / tally.elapsed_s:.0f}" if tally.elapsed_s else "-"
        found.add_row(scenario.value, str(tally.runs), str(len(tally.failures)), rate, tally.rate)
    return found


def _replay(screen: console.Console, scenario: Scenario, seed: int) -> int:
    """Run one seed, and tell how it fails."""
    screen.rule(f"{scenario.value}, seed {seed}")
    failure = schedule_shrinking.run(plan_of(scenario, seed))
    if failure is None:
        screen.print("Nothing failed.")
        return 0
    screen.print(f"[bold red]Failed:[/] {markup.escape(failure.message)}")
    with screen.status("Looking for the smallest run that fails alike"):
        smallest = schedule_shrinking.Shrinking(failure).shrink()
    screen.print(told(smallest), markup=False)
    screen.print(f"Replay: make simulate REPLAY={scenario.value}:{seed}")
    return 1


def explore_model(name: str) -> tuple[schedule_exploration.Explored | None, str]:
    """Follow every interleaving of a small model; return what was found, and what is wrong."""
    logging.disable(logging.CRITICAL)
    try:
        return schedule_exploration.explore(schedule_models.MODELS[name]), ""
    except AssertionError as error:
        return None, str(error)


def _explore(screen: console.Console, jobs: int) -> int:
    found = table.Table("model", title="All interleavings")
    for column in ("states", "runs", "interleavings", "failed"):
        found.add_column(column, justify="right")
    wrong = []
    with (
        progress.Progress(console=screen) as bar,
        _pool(jobs) as pool,
    ):
        models = bar.add_task("models", total=len(schedule_models.MODELS))
        results = pool.map(explore_model, schedule_models.MODELS)
        for name, (explored, message) in zip(schedule_models.MODELS, results, strict=True):
            bar.advance(models)
            if explored is None:
                wrong.append(f"{name}: {message}")
                found.add_row(name, "-", "-", "-", "1")
            else:
                counts = (explored.states, explored.runs, explored.interleavings)
                found.add_row(name, *(f"{count:,}" for count in counts), "0")
    screen.print(found)
    for message in wrong:
        screen.print(message, markup=False)
    return 1 if wrong else 0


def told(failure: schedule_shrinking.Failure) -> str:
    """Return a failure as a person reads it."""
    befell = [
        f"  step {key.step} of {key.process}, {key.question}: {answer}"
        for key, answer in failure.deviations.items()
    ]
    return "\n".join(
        [
            f"The smallest run that fails alike: {failure.message}",
            f"Who is there: {_actors(failure.plan)}",
            "What befalls them (who goes on next, faults, pauses):",
            *(befell or ["  nothing"]),
            "What happens (virtual ms):",
            *failure.history,
        ]
    )


def _actors(plan: Plan) -> str:
    counts = {
        "writers": plan.writers,
        "compactors": plan.compactors,
        "janitors": plan.janitors,
        "readers": plan.readers,
        "engines": plan.engines,
    }
    named = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    return f"{named}; {plan.batches} batches each, {plan.mode.value}, seed {plan.seed}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=1_000, help="how many of each scenario")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument(
        "--scenario", type=Scenario, action="append", help="one of them only; may be repeated"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument(
        "--explore", action="store_true", help="follow all interleavings of small models instead"
    )
    parser.add_argument(
        "--replay", type=_replayed, metavar="SCENARIO:SEED", help="run one seed again"
    )
    return parser


def _replayed(text: str) -> tuple[Scenario, int]:
    name, _, seed = text.partition(":")
    return Scenario(name), int(seed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
