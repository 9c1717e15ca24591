"""What is held of one namespace leaves room for others."""

from hypothesis import given
from hypothesis import strategies as st

from hoodie_operator.cluster.adapters.holdings import Holdings

MAX = 100


def test_one_namespace_may_hold_all_while_no_other_needs_it() -> None:
    held = Holdings(MAX)
    assert held.hold("a", "1", 60)
    assert held.hold("a", "2", 40)
    assert not held.hold("a", "3", 1)
    assert held.hold("a", "1", 50)
    assert held.hold("a", "3", 10)


def test_namespace_within_its_share_is_held_beside_one_that_has_taken_all() -> None:
    held = Holdings(MAX)
    assert held.hold("greedy", "1", MAX)
    assert held.hold("modest", "2", MAX // 2)
    assert not held.hold("modest", "3", 1)
    assert not held.hold("greedy", "1", MAX)
    assert held.hold("greedy", "1", MAX // 2)


def test_what_is_released_makes_room() -> None:
    held = Holdings(MAX)
    assert held.hold("a", "1", MAX)
    held.release("1")
    held.release("1")
    assert held.hold("b", "2", MAX)


@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.integers(0, 9), st.integers(0, 2 * MAX)), max_size=60
    )
)
def test_never_more_is_held_than_all_shares_beside_one_that_was_there_first(
    steps: list[tuple[str, int, int]],
) -> None:
    held = Holdings(MAX)
    sizes: dict[str, int] = {}
    for namespace, number, size in steps:
        uid = f"{namespace}{number}"
        sizes.pop(uid, None)
        if held.hold(namespace, uid, size):
            sizes[uid] = size
        assert sum(sizes.values()) <= 2 * MAX
