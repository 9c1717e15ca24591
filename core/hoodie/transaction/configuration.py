"""Changes of the table's own configuration, and of who may write it.

    change      properties, under the table lock; in a table with a chain by an epoch (CH14)
    switch_on   a chain for a table that has none; or others may write it, or no longer may (CH12)
    switch_off  the chain's last epoch; writers that began before are refused
    capture     whether writes store what they change, and how much of it

Whoever has a write open when the chain, the foreign writers or change data change is refused at its
completion: it began under other rules. So none of them is changed while another's write is pending,
where that is seen. Source: the user's rules CH12 and CH14; protocol.md: The chain.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from hoodie import errors
from hoodie.model import change_data, instants, table_config
from hoodie.timeline import chain, epochs, partition_buckets, table_properties
from hoodie.transaction import admission, publication, table_lock
from hoodie.transaction.client import Client

Changes = Mapping[str, str | None]
"""New values by key; None removes the key."""


Decision = Callable[[table_config.TableConfig], Changes]
"""Returns what is to be changed of a table's configuration; empty for nothing."""


def change(client: Client, decision: Decision) -> None:
    """Change properties of a table.

    Args:
        client: Whose change it is.
        decision: Called under the lock, and again where another change came first.

    Raises:
        ConflictError: The properties change without our lock; or as the decision.
        HoodieError: As `publication.put`.
    """

    def decide(scope: table_lock.LockScope) -> None:
        client.check_guards()
        changes = decision(table_properties.load(client.storage, client.clock))
        if changes:
            put(client, scope, changes)

    client.lock.decide(decide)


def put(
    client: Client,
    scope: table_lock.LockScope,
    changes: Changes,
    beside: Mapping[str, bytes] | None = None,
    withdrawn: tuple[str, ...] = (),
) -> None:
    """Change properties of a table, as decided in this scope.

    Args:
        client: Whose change it is.
        scope: In which it was decided.
        changes: The change.
        beside: Contents by path that an epoch publishes first; for a table with a chain.
        withdrawn: Paths of the files of a plan that it deletes; for a table with a chain.

    Raises:
        HoodieError: As `change`.
    """
    if scope.view is None:
        table_properties.update(client.storage, changes, client.clock, scope.check)
    else:
        _make(client, scope, changes, beside=beside, withdrawn=withdrawn)


def switch_on(
    client: Client, expected: table_config.TableConfig, *, has_foreign_writers: bool
) -> table_config.TableConfig:
    """Give a table a chain, if it has none, and say whether others write it.

    Args:
        client: Whose change it is.
        expected: The table's configuration before.
        has_foreign_writers: Whether others write it.

    Returns:
        The configuration since.

    Raises:
        ConflictError: A write is pending, or the configuration is not the expected one; or others
            are let in where no write has followed an indexing action.
        UnsupportedError: The storage creates a file that is there already; or the table has bucket
            counts by partition, and nobody else is to write it.
    """

    def decide(scope: table_lock.LockScope) -> None:
        config = admission.admit_table(client, scope, expected)
        _refuse_pending(scope)
        if has_foreign_writers:
            _refuse_last_indexing(scope)
        else:
            partition_buckets.check_none(client.storage)  # From now on nobody gives it any.
        name = config.chain or table_config.ChainName(id=client.random.uuid())
        wanted = replace(config, chain=name, has_foreign_writers=has_foreign_writers)
        if scope.view is None:
            chain.switch_on(client.storage, wanted, str(client.author), scope.timeline, scope.check)
        elif config != wanted:
            _make(client, scope, chain.properties(wanted))

    client.lock.decide(decide)
    return table_properties.load(client.storage, client.clock)


def switch_off(client: Client, expected: table_config.TableConfig) -> table_config.TableConfig:
    """End the chain of a table; without one it counts as written by others.

    Returns:
        The configuration since.

    Raises:
        ConflictError: A write is pending, or the configuration is not the expected one; or no write
            has followed an indexing action.
    """

    def decide(scope: table_lock.LockScope) -> None:
        config = admission.admit_table(client, scope, expected)
        if scope.view is None:
            return
        _refuse_pending(scope)
        _refuse_last_indexing(scope)
        wanted = replace(config, chain=None, has_foreign_writers=True)
        _make(client, scope, chain.properties(wanted), is_last=True)

    client.lock.decide(decide)
    return table_properties.load(client.storage, client.clock)


def capture(
    client: Client, expected: table_config.TableConfig, mode: change_data.LoggingMode | None
) -> table_config.TableConfig:
    """Have writes of a table store what they change, or no longer do so.

    Args:
        client: Whose change it is.
        expected: The table's configuration before.
        mode: What they are to store; None for nothing.

    Returns:
        The configuration since.

    Raises:
        ConflictError: A write is pending, or the configuration is not the expected one.
    """

    def decide(scope: table_lock.LockScope) -> None:
        config = admission.admit_table(client, scope, expected)
        newest = scope.timeline.greatest_time or ""
        changes = table_config.change_data_properties(config, mode, newest)
        if changes:
            _refuse_pending(scope)
            put(client, scope, changes)

    client.lock.decide(decide)
    return table_properties.load(client.storage, client.clock)


def _make(
    client: Client,
    scope: table_lock.LockScope,
    changes: Changes,
    *,
    beside: Mapping[str, bytes] | None = None,
    withdrawn: tuple[str, ...] = (),
    is_last: bool = False,
) -> None:
    change = epochs.Change(
        id=client.random.uuid(),
        time="",
        author=str(client.author),
        properties=changes,
        beside=beside or {},
        withdrawn=withdrawn,
        is_last=is_last,
    )
    publication.make(client, scope, change, scope.check)


def _refuse_pending(scope: table_lock.LockScope) -> None:
    for each in scope.timeline.pending_of(*instants.WRITES):
        raise errors.ConflictError(
            f"{each} is pending, and began by the rules that are to change: wait until it has "
            "ended, or run hoodie rollback --all"
        )
    for each in scope.timeline.pending_of(instants.Action.INDEXING):
        raise errors.ConflictError(
            f"{each} builds an index by the rules that are to change: finish it by hoodie index "
            "build, or give it up by hoodie index drop"
        )


def _refuse_last_indexing(scope: table_lock.LockScope) -> None:
    """Refuse to let others in who would make indexes at the time of that action (ADR 0050)."""
    last = scope.timeline.last_indexing
    if last is not None:
        raise errors.ConflictError(
            f"{last} is the last action, expected a later write, since writers of Apache Hudi make "
            "indexes at the time of an action that is the last: retry"
        )
