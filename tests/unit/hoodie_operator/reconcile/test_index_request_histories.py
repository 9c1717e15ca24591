"""Any history of IndexRequests: builds are killed at any step, observed late, and asked otherwise.

Runs decide by the core's own `index_decisions`. After each step:

    - the same world gives the same effects, and none is asked for twice;
    - one run at a time changes which indexes a table has;
    - a run is asked for nothing that the core refuses to begin;
    - nothing that was decided drops an index that an object wants that is older than one that does
      not.

In the end all is as the objects want it, and no plan and no half-built index is left, also after
the objects are gone.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from hoodie import errors
from hoodie.contract import job_specs
from hoodie.metadata import index_decisions
from hoodie.model import instants, plans, table_config
from hoodie_operator.api import index_request, kinds, objects
from hoodie_operator.reconcile import decide, effects, facts
from support.operators import operator_world as ow
from support.operators.flights_world import Flights

SEEDS = 60
STEPS = 100
NAMES = ("column_stats", "bloom_filters")
REQUESTS = {"one": list(NAMES), "two": ["bloom_filters"], "three": ["column_stats"]}
EXCLUSIVE = (job_specs.BuildIndexes, job_specs.DropIndexes)
STATISTICS = "column_stats"
COLUMNS = (None, ["a"], ["a", "b"])
ERRORS = ("Conflict", "Storage", "Cancelled", None)
DELAYS_MS = (500, 7_000, 70_000, 1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A pending indexing action, and the run that executes it."""

    time: instants.InstantTime
    names: tuple[str, ...]
    action_id: str | None
    columns: tuple[str, ...] | None = None
    executor: facts.RunId | None = None


class History:
    """A table with a metadata table, and objects that come, change and go."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.here = Flights()
        self.ready: set[str] = set()
        self.inflight: set[str] = set()
        self.columns: tuple[str, ...] | None = None
        self.plans: list[Plan] = []
        self.time = 0
        self.works: set[str] = set()
        self.look()

    # What happens

    def step(self) -> None:
        todo, weights = zip(
            *(
                (self.look, 8),
                (self.reconcile_all, 10),
                (self.wait, 3),
                (self.work, 10),
                (self.fail, 4),
                (self.declare, 3),
                (self.edit, 2),
                (self.remove, 1),
                (self.interfere, 1),
            ),
            strict=True,
        )
        self.random.choices(todo, weights)[0]()
        self.check()

    def look(self) -> None:
        """Have the observer see the table as it is."""
        here = self.here
        here.now_ms += 1
        alive = {run.id for run in self.running()}
        pending = [
            facts.Pending(
                requested_time=each.time,
                action="indexing",
                action_id=each.action_id,
                indexes=each.names,
                is_alive=each.executor in alive,
            )
            for each in self.plans
        ]
        here.see_table(here.table_key, [ow.commit(1)], pending)
        here.change_stored(
            metadata_partitions=("files", *sorted(self.ready)),
            metadata_partitions_inflight=tuple(sorted(self.inflight)),
            properties=self.properties,
        )

    @property
    def properties(self) -> dict[str, str]:
        """Those that have the columns of statistics."""
        if self.columns is None or STATISTICS not in self.ready:
            return {}
        return {table_config.STATISTICS_COLUMNS_KEY: ",".join(self.columns)}

    def reconcile_all(self) -> None:
        here = self.here
        for key in sorted(here.by_key, key=lambda key: decide.ORDER.index(key.kind)):
            if key not in here.by_key:
                continue
            assert here.decide(key) == here.decide(key)
            done = here.reconcile(key)
            again = here.decide(key)
            starts = [each for each in (*done, *again) if isinstance(each, effects.StartRun)]
            assert len(starts) <= 1
            self.works |= {type(each.work).__name__ for each in starts}
            for start in starts:
                self.check_drop(start)

    def wait(self) -> None:
        self.here.now_ms += self.random.choice(DELAYS_MS)

    def declare(self) -> None:
        name = self.random.choice(list(REQUESTS))
        if self.key(name) not in self.here.by_key:
            spec = {
                "tableRef": {"name": "flights"},
                "indexes": REQUESTS[name],
                "ensure": self.random.choice(("Present", "Present", "Absent")),
                "deletionPolicy": self.random.choice(("Retain", "Drop")),
                "validation": self.random.choice(("None", "Sample", "Whole")),
                "retry": {"limit": 100},
            }
            columns = self.random.choice(COLUMNS)
            if columns is not None and STATISTICS in REQUESTS[name]:
                spec["statisticsColumns"] = columns
            self.here.add(kinds.INDEX_REQUEST, name, spec)

    def edit(self) -> None:
        key = self.key(self.random.choice(list(REQUESTS)))
        found = self.here.by_key.get(key)
        if found is None or found.is_deleting:
            return
        edits: dict[str, object] = self.random.choice(
            (
                {"ensure": self.random.choice(("Present", "Absent"))},
                {"suspend": self.random.random() < 0.5},
                {"validation": self.random.choice(("None", "Whole"))},
                {"deletionPolicy": self.random.choice(("Retain", "Drop"))},
                {"statisticsColumns": self.random.choice(COLUMNS)}
                if STATISTICS in found.spec.indexes  # type: ignore[attr-defined]  # an IndexRequest
                else {},
            )
        )
        self.here.edit(key, **edits)

    def remove(self) -> None:
        key = self.key(self.random.choice(list(REQUESTS)))
        if key in self.here.by_key:
            self.here.delete(key)

    def interfere(self) -> None:
        """Have somebody drop an index, who is not the operator."""
        if not self.plans:
            self.ready.discard(self.random.choice(NAMES))

    # What runs do

    def running(self) -> list[facts.Run]:
        return [run for runs in self.here.runs.values() for run in runs if run.is_running]

    def work(self) -> None:
        running = [run for run in self.running() if run.stop_requested_ms is None]
        if running:
            run = self.random.choice(running)
            self.here.progress(run.id.uid)
            self.go_on(run)

    def go_on(self, run: facts.Run) -> bool:
        """Do one step of a run; return whether there is another."""
        (start,) = (each for each in self.here.started if each.id == run.id)
        self.here.now_ms += 1000
        try:
            match start.work:
                case job_specs.BuildIndexes() as work:
                    is_left = self.build(start, work)
                case job_specs.DropIndexes() as work:
                    is_left = self.drop(start, work.names)
                case _:
                    is_left = False
        except errors.ConflictError:
            self.here.end(run.id.uid, "Conflict")
            return False
        if not is_left:
            self.here.end(run.id.uid, is_told=True)
        return is_left

    def build(self, start: effects.StartRun, work: job_specs.BuildIndexes) -> bool:
        """Take one step of a build, as the core decides it."""
        seen = self.here.tables[self.here.uid(self.here.table_key)].config
        assert seen is not None
        config = replace(
            seen,
            metadata_partitions=("files", *sorted(self.ready)),
            metadata_partitions_inflight=tuple(sorted(self.inflight)),
            properties=self.properties,
        )
        request = index_decisions.Request(work.names, work.statistics_columns)
        step = index_decisions.next_step(request, config, [_build(each) for each in self.plans])
        match step:
            case index_decisions.Nothing():
                return False
            case index_decisions.Schedule(missing):
                assert not self.plans
                self.time += 1
                time = instants.InstantTime(ow.time(self.time))
                columns = work.statistics_columns if STATISTICS in missing else None
                plan = Plan(time=time, names=missing, action_id=start.action_id, columns=columns)
                self.plans.append(plan)
            case index_decisions.Drop(old):
                self.ready -= set(old)
            case index_decisions.GiveUp(found):
                self.give_up(start, found.instant.requested_time)
            case index_decisions.Execute(found):
                self.execute(start, found.instant.requested_time)
        return True

    def execute(self, start: effects.StartRun, time: str) -> None:
        plan = self.taken_over(start, time)
        if not self.inflight >= set(plan.names):
            self.inflight |= set(plan.names)
            return
        self.inflight -= set(plan.names)
        self.ready |= set(plan.names)
        if STATISTICS in plan.names:
            self.columns = plan.columns
        self.plans.remove(plan)

    def drop(self, start: effects.StartRun, names: Sequence[str]) -> bool:
        for plan in list(self.plans):
            if set(plan.names) & set(names):
                self.give_up(start, plan.time)
                return True
        self.ready -= set(names)
        self.inflight -= set(names)
        return False

    def give_up(self, start: effects.StartRun, time: str) -> None:
        plan = self.taken_over(start, time)
        self.inflight -= set(plan.names)
        self.plans.remove(plan)

    def taken_over(self, start: effects.StartRun, time: str) -> Plan:
        (number,) = (number for number, each in enumerate(self.plans) if each.time == time)
        alive = {run.id for run in self.running()} - {start.id}
        if self.plans[number].executor in alive:
            raise errors.ConflictError("somebody alive executes it")
        self.plans[number] = replace(self.plans[number], executor=start.id)
        return self.plans[number]

    def fail(self) -> None:
        if self.running():
            run = self.random.choice(self.running())
            self.here.now_ms += 1
            kind = "Cancelled" if run.stop_requested_ms else self.random.choice(ERRORS)
            self.here.end(run.id.uid, kind)

    # What must hold

    def check(self) -> None:
        running = {run.id for run in self.running()}
        works = [each for each in self.here.started if each.id in running]
        assert sum(isinstance(each.work, EXCLUSIVE) for each in works) <= 1
        assert len(self.plans) <= 1
        assert not self.ready & self.inflight

    def check_drop(self, start: effects.StartRun) -> None:
        """Check that no run starts that drops what the oldest object that names it wants."""
        if not isinstance(start.work, job_specs.DropIndexes):
            return
        for name in start.work.names:
            oldest = next((each for each in self.requests() if name in each.spec.indexes), None)
            assert oldest is None or oldest.spec.ensure is index_request.Ensure.ABSENT

    def requests(self) -> list[objects.IndexRequest]:
        """Return the objects that stay, the oldest first."""
        table = self.here.world.table("default", "flights")
        assert table is not None
        found = self.here.world.index_requests_of(table)
        return [each for each in found if not each.is_deleting]

    def settle(self) -> None:
        """Let everything go well from here."""
        here = self.here
        for each in self.requests():
            here.edit(each.key, suspend=False)
        for _ in range(40):
            # A build whose index somebody dropped before it was seen is mended by a user.
            for each in self.failed():
                here.edit(each.key, priority=each.spec.priority + 1)
            self.look()
            self.reconcile_all()
            for run in self.running():
                if run.stop_requested_ms is not None:
                    here.end(run.id.uid, "Cancelled")
                    continue
                while run.is_running and self.go_on(run):
                    self.check()
            here.now_ms += 400_000
            self.look()
            self.reconcile_all()
            self.check()
            is_going = any(each.is_deleting for each in here.by_key.values())
            if decide.is_settled(here.world) and not is_going and not self.failed():
                return
        raise AssertionError(self.told())

    def failed(self) -> list[objects.IndexRequest]:
        """Return the objects whose action has failed."""
        return [
            each
            for each in self.requests()
            if each.status.conditions and self.here.condition(each.key)[1] == "ActionFailed"
        ]

    def told(self) -> str:
        return "\n".join(
            f"{key}: {self.here.condition(key)}"
            for key, found in self.here.by_key.items()
            if found.status.conditions
        )

    def end_well(self) -> None:
        """Check that all is as the objects want it, and that all is gone with them."""
        self.settle()
        wanted: dict[str, bool] = {}
        older: list[objects.IndexRequest] = []
        for each in self.requests():
            state = self.here.condition(each.key)[0]
            is_present = each.spec.ensure is index_request.Ensure.PRESENT
            is_refused = any(
                wanted.get(name, is_present) is not is_present for name in each.spec.indexes
            ) or (is_present and any(_has_others(each, other) for other in older))
            wants = "Stalled" if is_refused else "Ready" if is_present else "Absent"
            assert state == wants, self.told()
            if not is_refused:
                older.append(each)
                wanted |= {name: wanted.get(name, is_present) for name in each.spec.indexes}
                assert all((name in self.ready) is is_present for name in each.spec.indexes)
                if is_present and each.spec.statistics_columns is not None:
                    assert set(self.columns or ()) == set(each.spec.statistics_columns)
        assert not self.plans
        assert not self.inflight
        for each in self.requests():
            self.here.edit(each.key, deletionPolicy="Drop")
            self.here.delete(each.key)
        dropped = {name for name, is_present in wanted.items() if is_present}
        self.settle()
        assert not self.requests()
        assert not self.plans
        assert not self.inflight
        assert not self.ready & dropped

    def key(self, name: str) -> objects.ObjectKey:
        return objects.ObjectKey(kind=kinds.INDEX_REQUEST.name, namespace="default", name=name)


def _has_others(each: objects.IndexRequest, other: objects.IndexRequest) -> bool:
    """Return whether two objects that want statistics want them of different columns."""
    mine, theirs = each.spec.statistics_columns, other.spec.statistics_columns
    both = other.spec.ensure is index_request.Ensure.PRESENT
    return both and mine is not None and theirs is not None and set(mine) != set(theirs)


def _build(plan: Plan) -> index_decisions.Build:
    columns = plan.columns
    extra = {} if columns is None else {index_decisions.COLUMNS_KEY: ",".join(columns)}
    partitions = tuple(
        plans.IndexedPartition(name=name, through="", extra=extra) for name in plan.names
    )
    return index_decisions.Build(
        instant=instants.Instant(
            requested_time=plan.time,
            action=instants.Action.INDEXING,
            state=instants.State.REQUESTED,
        ),
        plan=plans.Indexing(partitions=partitions),
    )


@pytest.mark.parametrize("seed", range(SEEDS))
def test_any_history_of_requests_is_safe_and_ends_well(seed: int) -> None:
    history = History(seed)
    for _ in range(STEPS):
        history.step()
    history.end_well()


def test_histories_build_and_drop() -> None:
    works: set[str] = set()
    for seed in range(25):
        history = History(seed)
        for _ in range(STEPS):
            history.step()
        works |= history.works
    assert works == {"BuildIndexes", "DropIndexes"}
