"""What follows from a spec, worked out once for as long as the spec is held.

Specs are frozen, and who holds objects keeps one and the same spec until it is edited. So what
follows from one is found by its identity: to hash or compare a whole spec costs more than most of
what is worked out of it.
"""

import functools
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar, TypeVarTuple

from hoodie_operator.api import fields

BlockT = TypeVar("BlockT", bound=fields.Block)
Others = TypeVarTuple("Others")
FoundT = TypeVar("FoundT")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known(Generic[BlockT, FoundT]):
    """What was worked out last of a block.

    Attributes:
        block: Of which; it is not kept alive by this.
        others: With what else.
        found: What came of it.
    """

    block: "weakref.ref[BlockT]"
    others: tuple[object, ...]
    found: FoundT


def remembered(
    work_out: Callable[[BlockT, *Others], FoundT],
) -> Callable[[BlockT, *Others], FoundT]:
    """Have a pure function of a block and of values remember its last result for each block.

    It holds as many as there are blocks that somebody else holds: each goes with its block.

    Args:
        work_out: Its first argument is found by identity, all others must be equal. What it returns
            must not hold the block, which would never go then.
    """
    known: dict[int, _Known[BlockT, FoundT]] = {}

    @functools.wraps(work_out)
    def find(block: BlockT, *others: *Others) -> FoundT:
        number = id(block)
        before = known.get(number)
        if before is not None and before.block() is block and before.others == others:
            return before.found
        found = work_out(block, *others)
        # The number is given to another block only after this one was forgotten.
        reference = weakref.ref(block, lambda _: known.pop(number, None))
        known[number] = _Known(block=reference, others=others, found=found)
        return found

    return find
