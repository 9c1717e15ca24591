"""What follows from a spec is worked out once, and goes with it."""

import gc

from hoodie_operator.api import fields, spec_memory


class Named(fields.Block):
    name: str


class Counted:
    """Counts how often something was worked out."""

    def __init__(self) -> None:
        self.count = 0
        self.length = spec_memory.remembered(self._length)

    def _length(self, block: Named, factor: int) -> int:
        self.count += 1
        return len(block.name) * factor


def test_same_block_with_equal_values_is_worked_out_once() -> None:
    counted, block = Counted(), Named(name="four")
    assert [counted.length(block, 2), counted.length(block, 2)] == [8, 8]
    assert counted.count == 1


def test_other_values_are_worked_out_anew() -> None:
    counted, block = Counted(), Named(name="four")
    assert [counted.length(block, factor) for factor in (2, 3, 2)] == [8, 12, 8]


def test_edited_block_is_worked_out_anew() -> None:
    counted, block = Counted(), Named(name="four")
    assert counted.length(block, 2) == 8
    assert counted.length(block.model_copy(update={"name": "of six"}), 2) == 12
    assert counted.length(block, 2) == 8


def test_what_was_worked_out_goes_with_its_block() -> None:
    made: list[Named] = []

    def copied(block: Named) -> Named:
        made.append(block.model_copy())
        return made[-1]

    find = spec_memory.remembered(copied)
    block = Named(name="a")
    held = find(block)
    assert find(block) is held
    before = len(gc.get_referrers(held))
    del block
    gc.collect()
    assert len(gc.get_referrers(held)) == before - 1


def test_block_that_takes_the_place_of_another_in_memory_is_no_other() -> None:
    counted = Counted()
    # A block that is gone leaves its place, and its number, to the next one.
    found = [counted.length(Named(name="n" * size), 1) for size in range(100)]
    assert found == list(range(100))
