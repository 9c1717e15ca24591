"""The table of all types of TableAction that start runs."""

from collections.abc import Mapping
from typing import Final

from hoodie_operator.api.table_action import ActionType
from hoodie_operator.reconcile.actions.compaction import Compaction
from hoodie_operator.reconcile.actions.configure import Configure
from hoodie_operator.reconcile.actions.deletions import DeletePartitions, DeleteRows
from hoodie_operator.reconcile.actions.indexes import IndexBuild, IndexDrop
from hoodie_operator.reconcile.actions.metadata import MetadataDrop, MetadataInit
from hoodie_operator.reconcile.actions.mirroring import Mirror
from hoodie_operator.reconcile.actions.retention import (
    Archive,
    Clean,
    CreateSavepoint,
    DeleteSavepoints,
)
from hoodie_operator.reconcile.actions.rollback import Rollback
from hoodie_operator.reconcile.actions.services import ActionService

BY_TYPE: Final[Mapping[ActionType, ActionService]] = {
    ActionType.COMPACTION: Compaction(),
    ActionType.ROLLBACK: Rollback(),
    ActionType.CLEAN: Clean(),
    ActionType.ARCHIVE: Archive(),
    ActionType.CREATE_SAVEPOINT: CreateSavepoint(),
    ActionType.DELETE_SAVEPOINTS: DeleteSavepoints(),
    ActionType.DELETE_PARTITIONS: DeletePartitions(),
    ActionType.DELETE_ROWS: DeleteRows(),
    ActionType.CONFIGURE: Configure(),
    ActionType.METADATA_INIT: MetadataInit(),
    ActionType.METADATA_DROP: MetadataDrop(),
    ActionType.INDEX_BUILD: IndexBuild(),
    ActionType.INDEX_DROP: IndexDrop(),
    ActionType.MIRROR: Mirror(),
}
"""All but those of earlier releases (`table_action.RETIRED`), which start nothing."""
