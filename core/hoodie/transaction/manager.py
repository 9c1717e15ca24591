"""Opens transactions: which table, on whose behalf, and the client that changes its timeline.

    with closing(manager.open_client(target, options, environment)) as client:
        ...                         scopes of the table lock, heartbeats; see `client`

A client has a lock provider of its own, which `close` ends. What is done with it is in `lifecycle`.
Compare `TransactionManager.java`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from hoodie import deferred, environment
from hoodie.model import schemas, settings, table_config
from hoodie.storage import protocol
from hoodie.timeline import chain, metadata_timelines
from hoodie.transaction import authors
from hoodie.transaction.locks import addresses

with deferred.imports():
    from hoodie.model import schema_evolution
    from hoodie.transaction import client, heartbeats
    from hoodie.transaction.locks import opening

_NO_COLUMNS = pa.schema([])


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionOptions:
    """On whose behalf a table is changed, and how.

    Attributes:
        settings: Equal for everything that writes the table.
        lock: The table's lock.
        author: A writer's or an action's run.
        guards: Called in the lock scope right before anything is published.
    """

    settings: settings.WriteSettings
    lock: addresses.LockAddress
    author: authors.Author
    guards: tuple[client.Guard, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The table that is changed.

    Attributes:
        storage: Its storage.
        config: Its configuration.
        schema: Its columns when it was opened, and those that the write adds.
        added: What the write adds or widens, as of when the table was opened.
        known_chain: Its chain, as its clients of this process know it; None has each find out.
    """

    storage: protocol.Storage
    config: table_config.TableConfig
    schema: schemas.TableSchema
    added: pa.Schema = _NO_COLUMNS
    known_chain: chain.Chain | None = None

    def grown_to(self, columns: schemas.TableSchema) -> Target:
        """Return the target of a write that adds columns: the table's, grown by them.

        Raises:
            InvalidInputError: The type of one of them has to stay.
        """
        added = schema_evolution.additions(self.schema, columns.arrow)
        schema_evolution.check_fixed(self.schema, added, self.config)
        return replace(self, schema=columns, added=added)


def open_client(
    target: Target,
    transaction: TransactionOptions,
    env: environment.Environment,
    *,
    claim: str | None = None,
    admit_beside: client.AdmitBeside | None = None,
) -> client.Client:
    """Return a client with an access of its own to the table's lock; close it.

    Args:
        target: The table.
        transaction: On whose behalf, and how.
        env: Time, ids, threads.
        claim: What a write does to the table, for those that begin later; None for a service,
            whose writes have no rows.
        admit_beside: Asked before a write begins beside others; None admits it.

    Raises:
        ConfigurationError: Heartbeats by these settings could expire though all is well.
    """
    provider = opening.open_for(str(transaction.author), transaction.lock, target.storage, env)
    session_s = addresses.session_s(transaction.lock)
    has_metadata = bool(target.config.metadata_partitions)
    try:
        return client.Client(
            client.Connection(
                storage=target.storage,
                provider=provider,
                env=env,
                settings=transaction.settings,
                author=transaction.author,
                guards=transaction.guards,
                claim=heartbeats.NO_ROWS if claim is None else claim,
                admit_beside=admit_beside,
                table_chain=target.known_chain or chain.opened(target.storage, target.config),
                # A table that does not tell its zone is refused under the lock, whatever it is.
                time_zone=target.config.zone,
                beside=metadata_timelines.opened(target.storage) if has_metadata else None,
                lock_session_ms=round(session_s * 1000),
            )
        )
    except BaseException:
        provider.close()
        raise
