"""Applies each mutant of the list to a copy of the core, and checks that its judge fails.

    python tests/simulation/mutate.py                         all mutants
    python tests/simulation/mutate.py --only 'rollback'       those whose names contain a text
    python tests/simulation/mutate.py --search --only NAME    look for a seed in every scenario

The exit code is 1 if a mutant was missed, or does not fit the code.
"""

import argparse
import concurrent.futures
import json
import logging
import os
import sys
from collections.abc import Sequence

from rich import console

from support.simulation import schedule, schedule_shrinking, text_mutants
from support.simulation.schedule_plans import Scenario, plan_of


def main(arguments: Sequence[str]) -> int:
    """Do as the arguments say; return the exit code."""
    options = _parser().parse_args(arguments)
    if options.hunt:
        _hunt(*options.hunt)
        return 0
    mutants = text_mutants.load()
    names = [name for name in mutants if options.only in name]
    screen = console.Console(highlight=False, soft_wrap=True, markup=False)

    def judge(name: str) -> text_mutants.Verdict:
        if options.search:
            return _search(name, mutants, options.seeds)
        return text_mutants.judge(name, mutants, options.seeds)

    missed = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for name, verdict in zip(names, pool.map(judge, names), strict=True):
            missed += verdict.result is not text_mutants.Result.CAUGHT
            screen.print(f"{verdict.result.value:8} {name}: {verdict.message}")
    screen.print(f"{len(names) - missed} of {len(names)} mutants were caught.")
    return 1 if missed else 0


def _search(name: str, mutants: dict[str, text_mutants.Mutant], seeds: int) -> text_mutants.Verdict:
    """Look for a seed that catches a mutant in every scenario, whatever its judge is."""
    try:
        with text_mutants.copy_of_core(text_mutants.together(name, mutants)) as core:
            return text_mutants.hunt(core, list(Scenario), 0, seeds)
    except text_mutants.MisfitError as error:
        return text_mutants.Verdict(result=text_mutants.Result.MISFIT, message=str(error))


def _hunt(scenario: Scenario, first: int, count: int) -> None:
    """Print the first seed that fails, and how; for `text_mutants.hunt`."""
    logging.disable(logging.CRITICAL)
    with schedule.Troupe() as troupe:
        for seed in range(first, first + count):
            failure = schedule_shrinking.run(plan_of(scenario, seed), troupe=troupe)
            if failure is not None:
                print(json.dumps({"seed": seed, "message": failure.message}))
                return
    print(json.dumps(None))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--only", default="", help="part of the names of those to judge")
    parser.add_argument("--search", action="store_true", help="try every scenario from seed 0 on")
    parser.add_argument(
        "--seeds", type=int, default=text_mutants.SEEDS_MAX, help="how many are tried of a scenario"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--hunt", type=_hunted, help=argparse.SUPPRESS)
    return parser


def _hunted(text: str) -> tuple[Scenario, int, int]:
    scenario, first, count = text.split(":")
    return Scenario(scenario), int(first), int(count)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
