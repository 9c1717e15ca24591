"""Equal parts of many specs and statuses, held once.

A thousand tables differ in little more than their names and places, and at rest their services show
the same. Each nested block is an object with two tables of its own, so that a spec of 800 bytes
takes ten times that where none is shared.
"""

import weakref
from typing import TypeVar

from hoodie_operator.api import conditions, fields, hudi_table_status

BlockT = TypeVar("BlockT", bound=fields.Block)
StatusT = TypeVar("StatusT", bound=conditions.Status)

# By themselves, and neither as keys nor as values kept alive by this.
_held: weakref.WeakKeyDictionary[fields.Block, "weakref.ref[fields.Block]"]
_held = weakref.WeakKeyDictionary()


def with_shared_parts(block: BlockT) -> BlockT:
    """Return an equal block, of which each nested one is the one that others hold, too.

    The block itself stays one of its own, so that what it belongs to can be told by it. Nested ones
    are frozen; one with a map in it cannot be looked up, and stays as it is. Which of its fields
    were set, and which have their defaults, is not told of a nested one any more.
    """
    shared = {name: _shared(part) for name, part in block if isinstance(part, fields.Block)}
    return block.model_copy(update=shared) if shared else block


def with_shared_services(status: StatusT) -> StatusT:
    """Return an equal status, in which the status of each service is held once."""
    if not isinstance(status, hudi_table_status.HudiTableStatus) or status.services is None:
        return status
    services = tuple(_shared(each) for each in status.services)
    return status.model_copy(update={"services": services})


def _shared(block: BlockT) -> BlockT:
    found = with_shared_parts(block)
    try:
        held = _held.setdefault(found, weakref.ref(found))()
    except TypeError:
        return found
    # It is there: its key is equal, and alive; equal blocks are of one class.
    assert isinstance(held, type(block))
    return held
