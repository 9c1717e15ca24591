"""On whose behalf a `Table` is changed, from texts as the command line takes them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hoodie import deferred, errors, identity
from hoodie.model import column_names, compaction_options, settings
from hoodie.storage import locations, uris
from hoodie.transaction import authors, manager
from hoodie.transaction.locks import addresses

with deferred.imports():
    from hoodie.transaction.locks import address_texts

SINGLE_WRITER = "single-writer"
_MODES = {
    SINGLE_WRITER: settings.ConcurrencyMode.SINGLE_WRITER,
    "occ": settings.ConcurrencyMode.OPTIMISTIC,
    "nbcc": settings.ConcurrencyMode.NON_BLOCKING,
}
_MODE_KEY = "hoodie.write.concurrency.mode"


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """On whose behalf a table is changed, and how.

    Attributes:
        transaction: Of writes.
        compaction: Which compactions a write plans after its commit.
    """

    transaction: manager.TransactionOptions
    compaction: compaction_options.CompactionOptions = compaction_options.DEFAULTS

    def named(self, writer_id: str) -> "Writer":
        """Return the same on behalf of another writer."""
        author = replace(self.transaction.author, writer_id=writer_id)
        return replace(self, transaction=replace(self.transaction, author=author))

    @property
    def service(self) -> manager.TransactionOptions:
        """On whose behalf table services run: those of the same lock and settings."""
        return replace(self.transaction, author=authors.Author())

    @property
    def service_beside_writers(self) -> manager.TransactionOptions:
        """The same of a service that runs beside several writers, whose mode is their concern."""
        found = self.service
        mode = found.settings.concurrency
        if mode is settings.ConcurrencyMode.SINGLE_WRITER:
            mode = settings.ConcurrencyMode.OPTIMISTIC
        return replace(found, settings=replace(found.settings, concurrency=mode))


def lock_of(uri: str) -> addresses.LockAddress:
    """Return the lock of a table for which none was named: in its own storage.

    Args:
        uri: The table's.
    """
    scheme = locations.resolve(uri).scheme
    if scheme == uris.LOCAL:
        return addresses.FileSystemAddress()
    if scheme == uris.MEMORY:
        return addresses.InProcessAddress()
    return addresses.StorageAddress()


def writer_of(
    uri: str,
    random: identity.Random,
    *,
    writer_id: str | None = None,
    concurrency: str | None = None,
    lock: str | addresses.LockAddress | None = None,
    options: Mapping[str, str] | None = None,
) -> Writer:
    """Return the writer that a caller describes.

    Args:
        uri: The table's.
        random: Names a non-blocking writer for which there is no name.
        writer_id: Its name, unique among the table's writers; None for an unnamed one.
        concurrency: `single-writer`, `occ` or `nbcc`; None for what the options say, or else one.
        lock: The table's lock, or the text of its address; None for `lock_of`.
        options: Settings of writers and compaction, by Hudi's keys.

    Raises:
        InvalidInputError: A text is malformed, or not one of those.
        ConfigurationError: A key is not known, options contradict each other, or the lock does not
            protect the table from its other writers.
    """
    given = dict(options or {})
    if concurrency is not None:
        if concurrency not in _MODES:
            raise errors.InvalidInputError(
                f"concurrency {concurrency!r}: expected one of {', '.join(_MODES)}"
            )
        if _MODE_KEY in given:
            raise errors.ConfigurationError(
                f"concurrency {concurrency!r} with settings {_MODE_KEY}: expected one of them"
            )
    planning = {key: given.pop(key) for key in [*given] if key in compaction_options.NAMES}
    known = {name for key in settings.KEYS for name in (key.name, *key.aliases)}
    if unknown := sorted(given.keys() - known):
        raise errors.ConfigurationError(
            f"settings: unknown key {unknown[0]}; docs/settings.md lists the keys"
            f"{column_names.similar(unknown[0], known)}"
        )
    defaults = settings.WriteSettings(concurrency=_MODES[concurrency or SINGLE_WRITER])
    found = settings.from_properties(given, defaults)
    if found.contradiction is not None:
        raise errors.ConfigurationError(found.contradiction)
    if isinstance(lock, str):
        address = address_texts.parse(lock)
    else:
        address = lock_of(uri) if lock is None else lock
    is_alone = found.concurrency is settings.ConcurrencyMode.SINGLE_WRITER
    is_shared = locations.resolve(uri).scheme != uris.MEMORY
    if not is_alone and is_shared and isinstance(address, addresses.InProcessAddress):
        raise errors.ConfigurationError(
            "lock in-process with several writers: it excludes no other process, expected "
            "filesystem, storage, zookeeper://HOST:PORT/BASE/KEY or another lock that all writers "
            "share"
        )
    if found.concurrency is settings.ConcurrencyMode.NON_BLOCKING and writer_id is None:
        writer_id = f"python-{random.uuid()}"
    return Writer(
        transaction=manager.TransactionOptions(
            settings=found, lock=address, author=authors.Author(writer_id=writer_id)
        ),
        compaction=compaction_options.from_properties(planning),
    )
