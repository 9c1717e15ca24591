"""Any history of events: what is decided stays safe, comes to rest, and ends with everything done.

Runs advance, commit, fail, are killed; the observer lags; specs change, objects come and go; the
operator forgets nothing because it holds nothing. After each step:

    - the same world gives the same effects, and no effect on the outside is asked for twice;
    - no attempt is started twice, none beside another of the same object, and no object goes while
      its run is at work (`Outside` asserts it);
    - no two runs at work write with one id;
    - no attempt starts before the time that was told, or after as many failures as are allowed;
    - what is settled has nothing at work and nothing to do, and all of it is Ready or Stalled;
    - a SingleWriter table has one run at a time, every table one compaction and one plan;
    - a run is asked for nothing that is committed, and no file is committed twice;
    - every object says how it is.

A seed that fails fails again.
"""

import dataclasses
import functools
import random

import pytest

from hoodie.contract import job_specs
from hoodie_operator.api import execution, kinds, objects, times
from hoodie_operator.api.conditions import Type
from hoodie_operator.reconcile import decide, effects, facts
from support.operators import operator_world as ow
from support.operators.rule_examples import edited

SEEDS = 30
STEPS = 150
FILES = ("1", "2", "3")
WRITERS = {"left": "a", "right": "b"}
RETRIES = 2
POLICY = {"target": {"tableRef": {"name": "flights"}}, "triggers": {"deltaCommits": 2}}
ACTION = {"tableRef": {"name": "flights"}, "type": "Compaction"}
ACTIONS_MAX = 3
DELAYS_MS = (500, 7_000, 70_000, 1_000_000)
ERRORS = ("Conflict", "Storage", "Cancelled", "Fenced", "Configuration", None)


class History:
    """A table, two writers and a policy, with a storage that runs really commit to."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.here = ow.Outside()
        self.is_created = False
        self.commits: list[facts.Commit] = []
        self.plans: list[facts.Pending] = []
        self.planned_by: dict[str, facts.RunId] = {}
        self.files = list(FILES)
        self.asked_count = 0
        # Comings and goings leave little time for anything else.
        self.has_goings = self.random.random() < 0.4
        self.spec = ow.TABLE
        if self.random.random() < 0.5:
            self.spec = edited(
                self.spec, concurrency={"mode": "SingleWriter", "lockRef": {"name": "zk"}}
            )
        if self.random.random() < 0.5:
            self.spec = edited(self.spec, deletionPolicy="Delete", deletionProtection=False)
        self.lock = self.here.add(kinds.LOCK_PROVIDER, "zk", ow.LOCK)
        self.here.see_lock(self.lock)
        self.table = _key(kinds.HUDI_TABLE, "flights")
        self.writers = {name: _key(kinds.WRITER, name) for name in WRITERS}
        self.policy = _key(kinds.COMPACTION_POLICY, "often")
        self.declare()

    def step(self) -> None:
        """Let one thing happen."""
        todo, weights = zip(
            *(
                (self.look, 6),
                (self.reconcile_one, 6),
                (self.reconcile_all, 8),
                (self.wait, 3),
                (self.work, 8),
                (self.finish, 3),
                (self.fail, 3),
                (self.add_file, 4),
                (self.edit, 1),
                (self.remove, 1),
                (self.declare, 2),
                (self.ask, 1),
            ),
            strict=True,
        )
        self.random.choices(todo, weights)[0]()
        self.check()

    # What the outside does

    def look(self) -> None:
        if self.table in self.here.by_key:
            self.here.see_table(self.table, self.commits, self.plans, is_there=self.is_created)
        for name, key in self.writers.items():
            if key in self.here.by_key:
                self.here.see_source(key, [[file] for file in self.files], ["id", WRITERS[name]])

    def reconcile_one(self) -> None:
        self.reconcile(self.random.choice(sorted(self.here.by_key)))

    def reconcile_all(self) -> None:
        for key in sorted(self.here.by_key, key=lambda key: decide.ORDER.index(key.kind)):
            self.reconcile(key)

    def reconcile(self, key: objects.ObjectKey) -> None:
        if key not in self.here.by_key:
            return
        assert self.here.decide(key) == self.here.decide(key)
        done = self.here.reconcile(key)
        for effect in done:
            if isinstance(effect, effects.StartRun):
                self.check_asked(effect)
                self.check_patience(key)
        again = self.here.decide(key)
        starts = [each for each in (*done, *again) if isinstance(each, effects.StartRun)]
        assert len(starts) <= 1
        stops = [each for each in again if isinstance(each, effects.StopRun)]
        assert not any(stop in done for stop in stops if not stop.is_killed)

    def check_asked(self, start: effects.StartRun) -> None:
        if isinstance(start.work, job_specs.WriteBatches):
            asked = {(start.writer_id, batch.id) for batch in start.work.batches}
            assert not asked & self.held(), "a run is asked for what is committed"

    def check_patience(self, key: objects.ObjectKey) -> None:
        """Check that an attempt that was started waited long enough, and is not one too many."""
        found = self.here.by_key[key]
        runs = found.status.model_dump()["runs"]
        retry = getattr(found.spec, "retry", execution.Retry())
        assert runs["failures"] <= retry.limit
        if runs["next_attempt_time"] is not None:
            assert self.here.now_ms >= times.epoch_ms(runs["next_attempt_time"])

    def wait(self) -> None:
        self.here.now_ms += self.random.choice(DELAYS_MS)

    # What runs do

    def running(self) -> list[facts.Run]:
        return [run for runs in self.here.runs.values() for run in runs if run.is_running]

    def work(self) -> None:
        """Do one step of what a run is for; one that was told to stop is fenced."""
        running = [run for run in self.running() if run.stop_requested_ms is None]
        if running:
            run = self.random.choice(running)
            self.here.progress(run.id.uid)
            self.do(run)

    def finish(self) -> None:
        """Do all that a run is for, and end well."""
        running = [run for run in self.running() if run.stop_requested_ms is None]
        if running:
            run = self.random.choice(running)
            while self.do(run):
                pass
            self.here.now_ms += 1
            self.here.end(run.id.uid, is_told=True)

    def fail(self) -> None:
        if self.running():
            run = self.random.choice(self.running())
            self.here.now_ms += 1
            kind = "Cancelled" if run.stop_requested_ms else self.random.choice(ERRORS)
            self.here.end(run.id.uid, kind)

    # What users do

    def add_file(self) -> None:
        self.files.append(str(len(self.files) + 1))

    def edit(self) -> None:
        flag = self.random.random() < 0.3
        what = self.random.choice(("writer", "table", "protocol", "lock", "policy"))
        if what == "writer":
            self.edit_one(self.random.choice(list(self.writers.values())), suspend=flag)
        elif what == "table":
            self.edit_one(self.table, suspend=flag)
        elif what == "protocol":
            self.edit_one(self.table, concurrency__externalWriters=flag)
        elif what == "policy":
            self.edit_one(self.policy, timeLimit=self.random.choice(("1h", "3h")))
        else:
            self.here.see_lock(self.lock, is_ready=not flag)

    def edit_one(self, key: objects.ObjectKey, **edits: object) -> None:
        if key in self.here.by_key and not self.here.by_key[key].is_deleting:
            self.here.edit(key, **edits)

    def remove(self) -> None:
        """Delete something that was declared, or all of it."""
        if not self.has_goings:
            return
        declared = [self.table, self.policy, *self.writers.values()]
        for key in self.random.choice([declared, declared, *([key] for key in declared)]):
            if key in self.here.by_key:
                self.here.delete(key)

    def declare(self) -> None:
        """Declare what is not there; nobody does who waits for a table to go."""
        table = self.here.world.table("default", "flights")
        if table is not None and table.is_deleting:
            return
        retry = {"limit": RETRIES}
        specs = {
            self.table: self.spec,
            self.policy: {**POLICY, "retry": retry},
            **{key: ow.writer_spec(retry=retry) for key in self.writers.values()},
        }
        for key, spec in specs.items():
            if key not in self.here.by_key:
                self.here.add(kinds.BY_NAME[key.kind], key.name, spec)

    def ask(self) -> None:
        """Ask for a compaction."""
        if self.asked_count < ACTIONS_MAX:
            self.asked_count += 1
            spec = {**ACTION, "retry": {"limit": RETRIES}}
            self.here.add(kinds.TABLE_ACTION, f"asked-{self.asked_count}", spec)

    # What must hold

    def check(self) -> None:
        running = [self.start_of(run) for run in self.running()]
        compactions = [start for start in running if isinstance(start.work, job_specs.Compact)]
        writes = [start for start in running if isinstance(start.work, job_specs.WriteBatches)]
        assert len(compactions) <= 1
        assert len({start.writer_id for start in writes}) == len(writes)
        # Those that are asked for by a user plan beside one that is pending.
        assert len(self.plans) <= 1 + self.asked_count
        table = self.here.world.table("default", "flights")
        if table is not None and not table.spec.is_non_blocking:
            assert len(writes) + len(compactions) <= 1
        batches = [(each.writer_id, each.batch_id) for each in self.commits if each.batch_id]
        assert len(batches) == len(set(batches))
        self.check_told()

    def check_told(self) -> None:
        found = self.here.by_key.values()
        for each in found:
            if each.status.conditions is not None:
                ready = each.status.condition(Type.READY)
                assert ready is not None
                assert ready.reason
                assert ready.message
        # It costs as much as a round.
        if self.random.random() < 0.2 and decide.is_settled(self.here.world):
            assert not self.running()
            assert not [effect for key in self.here.by_key for effect in self.here.decide(key)]
            assert all(_is_ready_or_stalled(each) or each.is_deleting for each in found)

    def end_well(self) -> None:
        """Let everything go well from here: it settles, with all files committed."""
        self.here.see_lock(self.lock)
        self.edit_one(self.table, suspend=False)
        # What a user has to mend is mended by an edit, which forgets the failures.
        for key in self.writers.values():
            self.edit_one(key, suspend=False)
        self.edit_one(self.policy, timeLimit="2h")
        for _ in range(60):
            self.let_go()
            self.declare()
            self.look()
            self.reconcile_all()
            self.check()
            for run in self.running():
                if run.stop_requested_ms is None:
                    while self.do(run):
                        pass
                self.here.end(run.id.uid, is_told=run.stop_requested_ms is None)
            self.here.now_ms += 400_000
            self.look()
            self.reconcile_all()
            if decide.is_settled(self.here.world) and not self.is_missing_any():
                break
        assert decide.is_settled(self.here.world), self.told()
        assert self.here.condition(self.table)[0] == "Ready", self.told()
        writers = self.here.world.writers_of(self.here.world.table("default", "flights"))
        is_single = self.spec["concurrency"]["mode"] == "SingleWriter"
        for writer in writers[:1] if is_single else writers:
            wanted = {(writer.name, ow.token(file)) for file in self.files}
            assert wanted <= self.held(), self.told()

    def let_go(self) -> None:
        """Delete what a deleted table waits for."""
        table = self.here.world.table("default", "flights")
        if table is not None and table.is_deleting:
            for writer in self.here.world.writers_of(table):
                self.here.delete(writer.key)

    def is_missing_any(self) -> bool:
        declared = {self.table, self.policy, *self.writers.values()}
        return not declared <= {
            key for key, each in self.here.by_key.items() if not each.is_deleting
        }

    def held(self) -> set[tuple[str | None, str | None]]:
        return {(commit.writer_id, commit.batch_id) for commit in self.commits}

    def told(self) -> str:
        return "\n".join(
            f"{key}: {self.here.condition(key)}"
            for key, found in self.here.by_key.items()
            if found.status.conditions
        )

    def do(self, run: facts.Run) -> bool:
        """Do one step of a run; return whether there is another."""
        start = self.start_of(run)
        self.here.now_ms += 1000
        match start.work:
            case job_specs.CreateTable():
                self.is_created = True
            case job_specs.WriteBatches() as work:
                held = self.held()
                left = [each for each in work.batches if (start.writer_id, each.id) not in held]
                if left:
                    made = ow.commit(self.now_s, writer_id=start.writer_id, batch_id=left[0].id)
                    self.commits.append(made)
                return len(left) > 1
            case job_specs.Compact() as work:
                return self.compact(start, work)
            case job_specs.DropTable():
                self.is_created = False
                self.commits.clear()
                self.plans.clear()
        return False

    def start_of(self, run: facts.Run) -> effects.StartRun:
        (start,) = (each for each in self.here.started if each.id == run.id)
        return start

    def compact(self, start: effects.StartRun, work: job_specs.Compact) -> bool:
        if any(commit.action_id == start.action_id for commit in self.commits):
            return False
        mine = [
            plan
            for plan in self.plans
            if plan.requested_time == work.instant_time
            or self.planned_by.get(plan.requested_time) == start.id
        ]
        if not mine:
            assert work.instant_time is None, "a plan to execute is gone"
            is_asked = (start.action_id or "").startswith("asked-")
            assert is_asked or not self.plans, "a second plan is made beside a pending one"
            self.plans.append(ow.planned(self.now_s, action_id=start.action_id))
            self.planned_by[self.plans[-1].requested_time] = start.id
            return True
        self.plans.remove(mine[0])
        made = ow.compaction(self.now_s, start.action_id)
        self.commits.append(dataclasses.replace(made, requested_time=mine[0].requested_time))
        return False

    @property
    def now_s(self) -> int:
        return (self.here.now_ms - ow.START_MS) // 1000


def _key(kind: kinds.Kind, name: str) -> objects.ObjectKey:
    return objects.ObjectKey(kind=kind.name, namespace="default", name=name)


def _is_ready_or_stalled(found: objects.AnyObject) -> bool:
    return found.status.is_true(Type.READY) or found.status.is_true(Type.STALLED)


@functools.cache
def _history(seed: int) -> History:
    history = History(seed)
    history.look()
    for _ in range(STEPS):
        history.step()
    return history


@pytest.mark.parametrize("seed", range(SEEDS))
def test_any_history_is_safe_and_ends_well(seed: int) -> None:
    _history(seed).end_well()


def test_histories_reach_what_they_are_for() -> None:
    works: set[str] = set()
    attempts = 0
    for seed in range(SEEDS):
        history = _history(seed)
        works |= {type(start.work).__name__ for start in history.here.started}
        works |= {
            start.work.step.value
            for start in history.here.started
            if isinstance(start.work, job_specs.Compact)
        }
        attempts = max([attempts, *(start.id.attempt for start in history.here.started)])
    assert works == {
        "CreateTable",
        "WriteBatches",
        "Compact",
        "DropTable",
        "schedule-and-execute",
        "execute",
    }
    assert attempts > 2
