"""Whom a change concerns: the objects whose decisions look at the one that changed."""

from collections.abc import Iterator
from typing import cast

from hoodie_operator.api import (
    hudi_table,
    kinds,
    lock_provider,
    objects,
    service_policy,
)
from hoodie_operator.reconcile import catalog


def of(found: catalog.CatalogView, changed: objects.AnyObject) -> Iterator[objects.ObjectKey]:
    """Yield the keys of an object that came, changed or went, and of all whom that concerns.

    A key may come more than once, and may be of an object that is not there.

    Args:
        found: All objects.
        changed: The object, as it is or was.
    """
    key = changed.key
    yield key
    if changed.owner is not None:
        owner = changed.owner
        yield objects.ObjectKey(kind=owner.kind, namespace=key.namespace, name=owner.name)
    match changed.spec:
        case lock_provider.LockProviderSpec():
            yield from _users(found, key)
        case hudi_table.HudiTableSpec():
            yield from of_table(found, cast("objects.Table", changed))
        case spec if isinstance(spec, objects.SpecOfTable):
            yield from _beside(found, key.namespace, spec.table_ref.name)
        case service_policy.Policy() if _has_new_rules(found, cast("objects.Policy", changed)):
            # It may have targeted others before.
            for each in found.of(kinds.HUDI_TABLE, key.namespace):
                yield each.key
            for kind in kinds.POLICIES:
                yield from (each.key for each in found.of(kind, key.namespace))


def lock_of(found: catalog.CatalogView, asking: objects.AnyObject) -> objects.ObjectKey | None:
    """Return the LockProvider of a table, or of the table of a Writer or a TableAction.

    Args:
        found: All objects.
        asking: The object.
    """
    namespace = asking.key.namespace
    table: objects.AnyObject | None = asking
    if isinstance(asking.spec, objects.SpecOfTable):
        name = asking.spec.table_ref.name
        key = objects.ObjectKey(kind=kinds.HUDI_TABLE.name, namespace=namespace, name=name)
        table = found.get(key)
    if table is None or not isinstance(table.spec, hudi_table.HudiTableSpec):
        return None
    lock = table.spec.concurrency.lock_ref
    if lock is None:
        return None
    return objects.ObjectKey(kind=kinds.LOCK_PROVIDER.name, namespace=namespace, name=lock.name)


def of_table(found: catalog.CatalogView, table: objects.Table) -> Iterator[objects.ObjectKey]:
    """Yield the keys of all whom a change of a table concerns, of what its storage tells, too."""
    lock = lock_of(found, table)
    if lock is not None:
        yield lock
    yield from _beside(found, table.key.namespace, table.name)
    yield from (each.key for each in found.overlapping(table))


def _users(found: catalog.CatalogView, lock: objects.ObjectKey) -> Iterator[objects.ObjectKey]:
    for each in found.of(kinds.HUDI_TABLE, lock.namespace):
        reference = cast("objects.Table", each).spec.concurrency.lock_ref
        if reference is not None and reference.name == lock.name:
            # Whoever works on the table needs the lock as well.
            yield from _beside(found, lock.namespace, each.name)


def _beside(found: catalog.CatalogView, namespace: str, table: str) -> Iterator[objects.ObjectKey]:
    """Yield a table's key, and those of all that name it, or choose tables of its namespace."""
    yield objects.ObjectKey(kind=kinds.HUDI_TABLE.name, namespace=namespace, name=table)
    of_table = (
        kinds.WRITER,
        kinds.TABLE_ACTION,
        kinds.SAVEPOINT,
        kinds.INDEX_REQUEST,
        *kinds.POLICIES,
    )
    for kind in of_table:
        yield from (each.key for each in found.of_table(kind, namespace, table))
    for kind in kinds.POLICIES:
        yield from (each.key for each in found.choosing_tables(kind, namespace))


def _has_new_rules(found: catalog.CatalogView, policy: objects.Policy) -> bool:
    """Return whether a change of a policy may be one of what it says, and not of its status."""
    is_told = policy.status.observed_generation == policy.generation
    return not is_told or policy.is_deleting or policy.key not in found
