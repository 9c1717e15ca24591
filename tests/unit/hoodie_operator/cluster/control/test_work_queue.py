"""Keys come up once, in the order in which they are due, and never while they are at work."""

import random

import pytest

from hoodie_operator.api import objects
from hoodie_operator.cluster.control import work_queue

KEYS = [objects.ObjectKey(kind="Writer", namespace="n", name=name) for name in "abcde"]


def test_earliest_wish_counts() -> None:
    queue = work_queue.WorkQueue()
    assert queue.add(KEYS[0], 5.0)
    assert not queue.add(KEYS[0], 9.0)
    assert queue.add(KEYS[0], 2.0)
    assert queue.pop(1.0) is None
    assert queue.pop(3.0) == (KEYS[0], 2.0)
    assert queue.pop(9.0) is None


def test_key_at_work_waits() -> None:
    queue = work_queue.WorkQueue()
    queue.begin(KEYS[0])
    queue.add(KEYS[0], 1.0)
    queue.add(KEYS[1], 2.0)
    assert queue.next_due_s() == 2.0
    assert queue.pop(9.0) == (KEYS[1], 2.0)
    assert queue.pop(9.0) is None
    queue.end(KEYS[0])
    assert queue.pop(9.0) == (KEYS[0], 1.0)


@pytest.mark.parametrize("seed", range(50))
def test_any_history_is_as_a_plain_map_would_have_it(seed: int) -> None:
    chance = random.Random(seed)
    queue = work_queue.WorkQueue()
    due: dict[objects.ObjectKey, float] = {}
    busy: set[objects.ObjectKey] = set()
    for now_s in range(200):
        key = chance.choice(KEYS)
        match chance.randrange(4):
            case 0:
                wish_s = now_s + chance.randrange(-5, 20)
                due[key] = min(due.get(key, wish_s), wish_s)
                queue.add(key, wish_s)
            case 1 if key not in busy:
                busy.add(key)
                queue.begin(key)
            case 2 if key in busy:
                busy.discard(key)
                queue.end(key)
            case 3:
                free = {each: at_s for each, at_s in due.items() if each not in busy}
                assert queue.next_due_s() == min(free.values(), default=None)
                taken = queue.pop(now_s)
                if taken is None:
                    assert all(at_s > now_s for at_s in free.values())
                else:
                    assert free[taken[0]] == taken[1] == min(free.values())
                    del due[taken[0]]
        assert len(queue) == len(due)
        waiting = [at_s for at_s in due.values() if at_s <= now_s]
        assert queue.waiting_count(now_s) == len(waiting)
