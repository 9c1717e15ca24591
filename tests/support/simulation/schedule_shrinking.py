"""The smallest run that fails as a given one does, for a person to read.

First the plan is made smaller: fewer actors, fewer batches, fewer kinds of faults; a smaller plan
is another run, so some seeds of it are tried. Then, of what befell the run that is left, whatever
it fails without is left out. A run fails as another if the same check fails.
"""

import re
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from support.simulation import ambushes, chance, schedule
from support.simulation.schedule_fleet import Fleet
from support.simulation.schedule_plans import Plan

SEEDS_MAX = 40
RUNS_MAX = 1_500


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A run that failed.

    Attributes:
        plan: Which run.
        deviations: What happened in it by chance.
        check: Where it was found to be wrong: two runs that fail at one place fail alike.
        message: What is wrong.
        history: The steps of it.
    """

    plan: Plan
    deviations: chance.Deviations
    check: str
    message: str
    history: Sequence[str]


def run(
    plan: Plan, chances: chance.Chance | None = None, troupe: schedule.Troupe | None = None
) -> Failure | None:
    """Return how a run failed; None if it did not."""
    fleet = Fleet(plan, chances, troupe)
    try:
        fleet.run()
    except Exception as error:  # Whatever ends a run is a failure of it.
        return Failure(
            plan=plan,
            deviations=dict(fleet.chances.deviations),
            check=_check_of(error),
            message=f"{type(error).__name__}: {error}",
            history=tuple(fleet.time.history),
        )
    return None


class Shrinking:
    """Looks for a smaller failure, within a number of runs."""

    def __init__(self, failure: Failure, runs_max: int = RUNS_MAX) -> None:
        """Take the failure to begin with."""
        self.smallest = failure
        self._runs_left = runs_max

    def shrink(self) -> Failure:
        """Return the smallest failure found."""
        while any(self._try_plan(plan) for plan in _smaller(self.smallest.plan)):
            pass
        self._leave_out()
        return self.smallest

    def _try_plan(self, plan: Plan) -> bool:
        seeds = range(self.smallest.plan.seed, self.smallest.plan.seed + SEEDS_MAX)
        return any(self._is_alike(replace(plan, seed=seed), None) for seed in seeds)

    def _leave_out(self) -> None:
        """Leave out ever smaller parts of what happened, as long as the run fails without."""
        parts = 2
        while parts <= 2 * len(self.smallest.deviations) and self._runs_left > 0:
            keys = list(self.smallest.deviations)
            size = max(1, len(keys) // parts)
            is_smaller = False
            for begin in range(0, len(keys), size):
                without = set(keys[begin : begin + size])
                rest = {
                    key: answer
                    for key, answer in self.smallest.deviations.items()
                    if key not in without
                }
                if len(rest) < len(self.smallest.deviations):
                    script = chance.ScriptedChance(rest)
                    is_smaller |= self._is_alike(self.smallest.plan, script)
            if size == 1 and not is_smaller:
                return
            if not is_smaller:
                parts *= 2

    def _is_alike(self, plan: Plan, script: chance.Chance | None) -> bool:
        """Run, and keep the failure if it is the one that is looked for."""
        if self._runs_left <= 0:
            return False
        self._runs_left -= 1
        failure = run(plan, script)
        if failure is None or failure.check != self.smallest.check:
            return False
        self.smallest = failure
        return True


def _smaller(plan: Plan) -> Iterator[Plan]:
    """Yield plans with less of one thing."""
    candidates = (
        *(replace(plan, in_wait=_without(plan.in_wait, each)) for each in plan.in_wait),
        replace(plan, crash_rate=0.0),
        replace(plan, failure_rate=0.0),
        replace(plan, pause_rate=0.0),
        replace(plan, loss_rate=0.0),
        replace(plan, step_rate=0.0),
        replace(plan, has_shared_columns=False),
        replace(plan, engines=0),
        replace(plan, streamers=0),
        replace(plan, archivers=0, historians=0),
        replace(plan, historians=0),
        replace(plan, cleaners=0),
        replace(plan, upkeepers=0),
        replace(plan, indexers=max(plan.indexers - 1, 0)),
        replace(plan, savers=0),
        replace(plan, savers=max(plan.savers - 1, 0)),
        replace(plan, consumers=0),
        replace(plan, consumers=max(plan.consumers - 1, 0)),
        replace(plan, readers=0),
        replace(plan, readers=max(plan.readers - 1, 0)),
        replace(plan, janitors=0),
        replace(plan, janitors=max(plan.janitors - 1, 0)),
        replace(plan, compactors=0),
        replace(plan, compactors=max(plan.compactors - 1, 0)),
        replace(plan, batches=max(plan.batches - 1, 1)),
        replace(plan, writers=max(plan.writers - 1, 1)),
    )
    return (candidate for candidate in candidates if candidate != plan)


def _without(
    in_wait: Sequence[ambushes.Ambush], one: ambushes.Ambush
) -> tuple[ambushes.Ambush, ...]:
    return tuple(each for each in in_wait if each != one)


def _check_of(error: BaseException) -> str:
    """Return where an error was raised, and what it says but for names and times."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    words = re.findall(r"[a-z]+", str(error)) if frame.name == "run" else []
    return f"{type(error).__name__} in {frame.name}: {' '.join(words[:4])}"
