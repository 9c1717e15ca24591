"""Which runs start when more want to than there are slots."""

import dataclasses
import random
from collections.abc import Iterable

import pytest

from hoodie_operator.api import configuration, kinds, objects
from hoodie_operator.reconcile import admission
from support.operators import operator_world as ow
from support.operators import rule_examples
from support.operators.flights_world import Flights
from support.operators.rule_examples import edited

TOTAL = "the operator"


def request(
    uid: str, age: int, *, priority: int = 0, limit: int = 2, **others: int
) -> admission.Request:
    """Return a request for a slot of the operator, and of others by name."""
    return admission.Request(
        uid=uid, order=(-priority, age, uid), holders=((TOTAL, limit), *others.items())
    )


def place(
    waiting: Iterable[admission.Request], at_work: Iterable[admission.Request], uid: str
) -> admission.Place | None:
    """Return the place of one of those that wait; None when it is admitted."""
    (found,) = (found for each, found in admission.places(waiting, at_work) if each.uid == uid)
    return found


def test_older_ones_go_first_and_a_priority_before_them() -> None:
    waiting = [request("young", 3), request("old", 1), request("urgent", 9, priority=1)]
    at_work = [request("running", 0)]
    assert place(waiting, at_work, "urgent") is None
    found = place(waiting, at_work, "old")
    assert found == admission.Place(number=1, full=TOTAL, limit=2)
    assert place(waiting, at_work, "young") == dataclasses.replace(found, number=2)


def test_one_that_is_full_holds_up_no_others() -> None:
    waiting = [request("a", 1, policy=1), request("b", 2, other=1)]
    at_work = [request("running", 0, policy=1)]
    assert place(waiting, at_work, "b") is None
    found = place(waiting, at_work, "a")
    assert found is not None
    assert found.full == "policy"


@pytest.mark.parametrize("seed", range(3))
def test_one_huge_table_starves_no_small_ones(seed: int) -> None:
    """Five hundred small tables and a huge one that always wants more, on three slots."""
    chance = random.Random(seed)
    slots, now = 3, 0
    duration = {f"small-{number:03}": chance.randint(1, 3) for number in range(500)}
    waiting = {name: request(name, chance.randint(0, 50), limit=slots) for name in duration}
    at_work: dict[str, int] = {}
    waited: dict[str, int] = {}
    huge = 0
    while any(name.startswith("small") for name in waiting):
        if not any(name.startswith("huge") for name in (*waiting, *at_work)):
            huge += 1
            waiting[f"huge-{huge}"] = request(f"huge-{huge}", now, limit=slots)
        for name in sorted(waiting, key=lambda each: waiting[each].order)[:8]:
            running = [request(each, 0, limit=slots) for each in at_work]
            if place(waiting.values(), running, name) is None:
                del waiting[name]
                at_work[name] = now + duration.get(name, 40)
                waited[name] = now
        now += 1
        at_work = {name: end for name, end in at_work.items() if end > now}
    work = sum(duration.values())
    # The huge one has a slot at most: what the others wait for is their own work on the rest.
    assert max(waited.values()) <= work / (slots - 1) + 40
    assert huge > 1, "the huge table was served meanwhile, too"


def test_actions_beyond_the_slots_wait_in_the_queue_and_follow() -> None:
    here = Flights()
    slots = configuration.Slots(total=1)
    here.limits = dataclasses.replace(here.limits, slots=slots)
    other = here.add(kinds.HUDI_TABLE, "others", edited(ow.TABLE, storage__path="others"))
    here.see_table(other)
    here.settle()
    here.end(here.uid(other), is_told=True)
    here.see_table(other)
    here.settle()
    here.started.clear()
    keys = [
        here.add(kinds.TABLE_ACTION, f"a-{name}", {"tableRef": {"name": name}, "type": "Archive"})
        for name in ("flights", "others")
    ]
    here.settle()
    assert [start.id.name for start in here.started] == ["a-flights"]
    assert here.condition(keys[1]) == (
        "Queued",
        "Queued",
        "next in the queue: the operator has 1 slot, all taken",
    )
    here.end(here.uid(keys[0]), is_told=True)
    here.see_table(here.table_key)
    here.settle()
    assert [start.id.name for start in here.started] == ["a-flights", "a-others"]


class Queue(ow.Outside):
    """Tables of two namespaces, each with an action, of which a few may run at once."""

    def __init__(self, count: int, slots: configuration.Slots) -> None:
        super().__init__()
        self.limits = dataclasses.replace(self.limits, slots=slots)
        self._number = 0
        for _ in range(count):
            self.ask("many")

    def ask(self, namespace: str, priority: int = 0) -> objects.ObjectKey:
        """Have an action of a table of its own wait."""
        self._number += 1
        name = f"t{self._number:03}"
        table = self.add(
            kinds.HUDI_TABLE,
            name,
            {**rule_examples.TABLE, "storage": {"path": name}},
            namespace=namespace,
        )
        self.see_table(table)
        status = self.by_key[table].status.model_copy(update={"provisioned": True})
        self.by_key[table] = dataclasses.replace(self.by_key[table], status=status)
        self.reconcile(table)
        spec = {"tableRef": {"name": name}, "type": "Archive", "priority": priority}
        key = self.add(kinds.TABLE_ACTION, f"a-{name}", spec, namespace=namespace)
        self.reconcile(key)
        return key

    def finish(self) -> None:
        """End the run that has been at work for longest."""
        run = next(run for runs in self.runs.values() for run in runs if run.is_running)
        self.end(run.id.uid, is_told=True)
        key = run.id.owner
        table = objects.ObjectKey(
            kind="HudiTable", namespace=key.namespace, name=key.name.removeprefix("a-")
        )
        self.now_ms += 1
        self.see_table(table)
        self.reconcile(key)

    def decide_all(self) -> int:
        """Decide about all actions, and return how many statuses were written."""
        keys = [key for key in self.by_key if key.kind == "TableAction"]
        return sum(len(self.reconcile(key)) for key in keys)


def test_slot_that_only_a_late_one_can_take_is_found() -> None:
    here = Queue(40, configuration.Slots(total=10, per_namespace=2))
    late = here.ask("few", priority=-5)
    assert here.condition(late)[0] == "Starting"
    later = [here.ask("few", priority=-5) for _ in range(3)]
    assert here.condition(later[1])[0] == "Queued"
    assert later[1] not in admission.to_decide(here.world)
    here.end(here.uid(late), is_told=True)
    here.now_ms += 1
    here.see_table(objects.ObjectKey(kind="HudiTable", namespace="few", name="t041"))
    here.reconcile(late)
    assert later[1] in admission.to_decide(here.world)


def test_place_in_a_long_queue_is_written_a_few_times_on_the_way_to_the_front() -> None:
    count = 40
    here = Queue(count, configuration.Slots(total=1))
    last = [key for key in here.by_key if key.kind == "TableAction"][-1]
    assert here.condition(last)[2].startswith("one of the next 64 in the queue: ")
    here.decide_all()
    here.ask("others")
    assert here.decide_all() == 0
    told = []
    for _ in range(count - 1):
        here.finish()
        # One starts, and those at the bounds 1, 2, 4, 8, 16 and 32 get further.
        assert here.decide_all() <= 2 + 6
        told.append(here.condition(last)[2].partition(" in the queue")[0])
    assert list(dict.fromkeys(told[:-1])) == [
        "one of the next 64",
        "one of the next 32",
        "one of the next 16",
        "one of the next 8",
        "one of the next 4",
        "one of the next 2",
        "next",
    ]
    assert here.condition(last)[0] == "Starting"


def test_writers_take_no_slots() -> None:
    here = Flights()
    here.limits = dataclasses.replace(here.limits, slots=configuration.Slots(total=1))
    here.add_writer("left")
    here.settle()
    here.add(kinds.TABLE_ACTION, "a", {"tableRef": {"name": "flights"}, "type": "Archive"})
    here.settle()
    assert [start.id.name for start in here.started] == ["left", "a"]


def test_policy_has_so_many_runs_at_most() -> None:
    here = Flights()
    here.limits = dataclasses.replace(here.limits, slots=configuration.Slots())
    here.see_table(here.table_key, [ow.commit(n) for n in range(1, 9)])
    here.add(
        kinds.RETENTION_POLICY,
        "kept",
        {
            "target": {"tableRef": {"name": "flights"}},
            "cleaning": {"keep": {"commits": 2}, "triggers": {"commits": 3}},
            "archiving": {"minCommits": 3, "maxCommits": 5},
            "maxRuns": 1,
        },
    )
    here.settle()
    (start,) = here.started
    assert [here.condition(key)[0] for key in here.actions() if key.name != start.id.name] == [
        "Queued"
    ]
