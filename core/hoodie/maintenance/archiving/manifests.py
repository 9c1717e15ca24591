"""Publishing a manifest of the archived timeline, and deleting what none lists any more.

In a table without foreign writers an epoch publishes it, and is the commit; else it counts once
`_version_` has its number, under the table lock, which is asked before each step. Source:
`LSMTimelineWriter.java`; protocol.md: Archiving (AR4, AR5, AR7).
"""

import logging
from collections.abc import Iterable

from hoodie import errors
from hoodie.timeline import epochs, history_tree, history_writing
from hoodie.timeline.history_tree import TreeFile
from hoodie.transaction import publication, table_lock
from hoodie.transaction.client import Client

logger = logging.getLogger(__name__)


def publish(
    client: Client,
    scope: table_lock.LockScope,
    before: history_writing.Tree,
    files: Iterable[TreeFile],
    archived_below: str,
) -> int:
    """Have a manifest that lists these files count; return its number.

    Args:
        client: Whose change it is.
        scope: In which it was decided.
        before: The tree, read in that scope.
        files: Of the tree from now on.
        archived_below: Requested time below which everything is archived that may be.

    Raises:
        OvertakenError: The table has a chain, and another change was made first.
        HoodieError: Storage or lock failed; what was published is finished by the next run.
    """
    number = before.number_next
    path, content = history_tree.manifest_path(number), history_tree.encode_manifest(files)
    if scope.is_courtesy:
        change = epochs.Change(
            id=client.random.uuid(),
            time="",
            author=str(client.author),
            files={path: content},
            archived_below=archived_below,
        )
        publication.make(client, scope, change, scope.check)
        assert client.chain is not None, client.storage.uri
        client.chain.look(scope.check)
    else:
        scope.check()
        history_writing.put_manifest(client.storage, path, content, scope.check)
        scope.check()
        history_writing.raise_version(client.storage, number, scope.check)
    return number


def clean(
    client: Client,
    scope: table_lock.LockScope,
    before: history_writing.Tree,
    number: int,
    archived_below: str,
) -> None:
    """Delete old manifests and files that none lists; what is left is deleted after the next one.

    Args:
        client: Whose change it was.
        scope: In which the manifest was published.
        before: The tree before that.
        number: Of the manifest.
        archived_below: As of `publish`.
    """
    try:
        history_writing.clean(client.storage, before, number, archived_below, scope.check)
    except (errors.NotFoundError, errors.StorageError) as error:
        logger.warning("%s: old files of the history are left: %s", client.storage.uri, error)
