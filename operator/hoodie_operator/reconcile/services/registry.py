"""The services of every table, in the order in which statuses tell them."""

from typing import Final

from hoodie_operator.reconcile.services.archiving import Archiving
from hoodie_operator.reconcile.services.cleaning import Cleaning
from hoodie_operator.reconcile.services.compaction import Compaction
from hoodie_operator.reconcile.services.protocol import TableService
from hoodie_operator.reconcile.services.savepoint_expiry import SavepointExpiry

SERVICES: Final[tuple[TableService, ...]] = (
    Compaction(),
    Cleaning(),
    Archiving(),
    SavepointExpiry(),
)
