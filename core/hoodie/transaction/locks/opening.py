"""From a lock's address to a transaction's access to it."""

import importlib
from types import ModuleType
from typing import assert_never

from hoodie import clock, deferred, environment, errors, identity
from hoodie.background.protocol import Background
from hoodie.storage import locations
from hoodie.storage.protocol import Storage
from hoodie.transaction.locks import addresses
from hoodie.transaction.locks.file_system import DEFAULT_PATH, FileSystemLock, LockFiles
from hoodie.transaction.locks.in_process import InProcessLock
from hoodie.transaction.locks.leases import LeasedLock, LeaseStore
from hoodie.transaction.locks.protocol import LockOwner, LockProvider

with deferred.imports():
    from hoodie.transaction.locks import custom, storage_based, zookeeper


def open_for(
    name: str, address: addresses.LockAddress, storage: Storage, env: environment.Environment
) -> LockProvider:
    """Return a fresh access to a table's lock for one transaction, which closes it.

    Args:
        name: Who is to take it, for people.
        address: Which lock.
        storage: The table's storage.
        env: Time, ids, threads.

    Raises:
        UnsupportedError: A lock file was asked for where no file can be moved atomically.
        ConfigurationError: The provider, or its client, is not installed.
    """
    return open_lock(
        address,
        storage,
        LockOwner(
            id=env.random.uuid(),
            name=name,
            process=identity.as_of_now(env.process),
        ),
        waiting_clock=env.clock,
        random=env.random,
        background=env.background,
    )


def open_lock(
    address: addresses.LockAddress,
    storage: Storage,
    owner: LockOwner,
    *,
    waiting_clock: clock.Clock,
    random: identity.Random,
    background: Background,
) -> LockProvider:
    """Return a fresh access to a table's lock; nothing is taken or connected yet.

    Args:
        address: Which lock.
        storage: The table's storage.
        owner: Who is to take it; fresh for each access.
        waiting_clock: Waiting, expiry and the times in lock files.
        random: Jitter and names of nodes.
        background: Renews leases.

    Raises:
        UnsupportedError: A lock file was asked for where no file can be moved atomically.
        ConfigurationError: The provider, or its client, is not installed.
    """
    lock: LockProvider
    match address:
        case addresses.InProcessAddress():
            lock = InProcessLock(storage.uri, owner, waiting_clock)
        case addresses.FileSystemAddress():
            files, path = _lock_file(address, storage)
            lock = FileSystemLock(
                files,
                owner,
                path=path,
                expiry_s=address.expiry_s,
                polls=address.polling,
                waiting_clock=waiting_clock,
                random=random,
            )
        case addresses.StorageAddress() | addresses.DynamoDbAddress():
            store: LeaseStore = (
                storage_based.StorageLeases(address, storage, owner, waiting_clock)
                if isinstance(address, addresses.StorageAddress)
                else _extra("dynamodb").open_leases(
                    address, _implicit_key(address, storage), owner, waiting_clock, random
                )
            )
            lock = LeasedLock(
                store,
                owner,
                address.polling,
                waiting_clock=waiting_clock,
                random=random,
                background=background,
            )
        case addresses.ZooKeeperAddress():
            lock = zookeeper.ZooKeeperLock(
                address,
                owner,
                path=address.path or addresses.implicit_path(_as_hadoop_writes(storage.uri)),
                waiting_clock=waiting_clock,
                random=random,
            )
        case addresses.HiveAddress():
            lock = _extra("hive").open_hive_lock(
                address,
                owner,
                waiting_clock=waiting_clock,
                random=random,
                background=background,
            )
        case addresses.CustomAddress():
            lock = custom.find_factory(address.name)(
                address.text,
                storage,
                owner,
                waiting_clock=waiting_clock,
                random=random,
                background=background,
            )
        case _:
            assert_never(address)
    return lock


def _lock_file(address: addresses.FileSystemAddress, storage: Storage) -> tuple[LockFiles, str]:
    files: Storage = storage
    path = DEFAULT_PATH
    if address.directory is not None:
        files, path = locations.open_storage(address.directory), "lock"
    if not isinstance(files, LockFiles):
        raise errors.UnsupportedError(
            f"{files.uri} cannot hold a lock file: expected a directory of a file system"
        )
    return files, path


def _implicit_key(address: addresses.DynamoDbAddress, storage: Storage) -> str:
    return address.key or addresses.implicit_key(_as_hadoop_writes(storage.uri))


def _extra(name: str) -> ModuleType:
    """Return the module of a provider whose client comes with an extra of its name."""
    try:
        return importlib.import_module(f"{__package__}.{name}")
    except ImportError as error:
        raise errors.ConfigurationError(
            f"a {name} lock needs hudi-operator[{name}], which is not installed: {error}"
        ) from error


def _as_hadoop_writes(uri: str) -> str:
    return locations.resolve(uri).plain_text
