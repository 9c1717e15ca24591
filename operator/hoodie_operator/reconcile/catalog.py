"""All objects, found by what decisions ask for: kind, namespace, table, location.

A decision about one of a thousand tables must not look at the others. Decisions get a
`CatalogView`, which cannot be changed; only the outside that holds the `Catalog` changes it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

from hoodie_operator.api import (
    hudi_table,
    kinds,
    objects,
    service_policy,
)
from hoodie_operator.api.states import State

_ANY: Final = ""
"""In place of a table's name: of objects that choose tables by their labels."""

Locate = Callable[[hudi_table.HudiTableSpec], str | None]
"""Returns the normalised URI of a table; None when it has none."""

Identify = Callable[[str, objects.AnyObject], str]
"""Returns what tells the place of a HudiTable at a URI from all others: parts between slashes."""

_Group = dict[objects.ObjectKey, objects.AnyObject]


class CatalogView(Mapping[objects.ObjectKey, objects.AnyObject]):
    """The objects by key, and by what else they are asked for, as decisions take them."""

    def __init__(self, locate: Locate, identify: Identify) -> None:
        """Hold nothing.

        Args:
            locate: Tells where a table is.
            identify: Tells places apart.
        """
        self._locate = locate
        self._identify = identify
        self._by_key: _Group = {}
        self._by_kind: dict[tuple[str, str], _Group] = {}
        self._by_table: dict[tuple[str, str, str], _Group] = {}
        self._by_owner: dict[str, _Group] = {}
        self._at: dict[str, _Group] = {}
        self._below: dict[str, _Group] = {}
        self._queued: _Group = {}
        self._places: dict[objects.ObjectKey, str] = {}
        self._spots: dict[objects.ObjectKey, str] = {}

    def __getitem__(self, key: objects.ObjectKey) -> objects.AnyObject:
        return self._by_key[key]

    def __iter__(self) -> Iterator[objects.ObjectKey]:
        return iter(self._by_key)

    def __len__(self) -> int:
        return len(self._by_key)

    def of(self, kind: kinds.Kind, namespace: str) -> Collection[objects.AnyObject]:
        """Return the objects of a kind in a namespace."""
        return self._by_kind.get((kind.name, namespace), {}).values()

    def all_of(self, kind: kinds.Kind) -> list[objects.AnyObject]:
        """Return the objects of a kind in all namespaces."""
        groups = [group for (name, _), group in self._by_kind.items() if name == kind.name]
        return [found for group in groups for found in group.values()]

    def of_table(
        self, kind: kinds.Kind, namespace: str, table: str
    ) -> Collection[objects.AnyObject]:
        """Return the objects of a kind that name a table."""
        return self._by_table.get((kind.name, namespace, table), {}).values()

    def choosing_tables(self, kind: kinds.Kind, namespace: str) -> Collection[objects.AnyObject]:
        """Return the objects of a kind that choose tables by labels."""
        return self.of_table(kind, namespace, _ANY)

    def owned_by(self, uid: str) -> Collection[objects.AnyObject]:
        """Return the objects that were made for an object."""
        return self._by_owner.get(uid, {}).values()

    def queued(self) -> Collection[objects.AnyObject]:
        """Return the TableActions that tell that they wait for a slot."""
        return self._queued.values()

    def overlapping(self, table: objects.Table) -> list[objects.AnyObject]:
        """Return the HudiTables of all namespaces at a table's place, in it and around it."""
        uri = self.place(table)
        if uri is None:
            return []
        spot = self._identify(uri, table)
        found = dict(self._below.get(spot, {}))
        for place in _enclosing(spot):
            found.update(self._at.get(place, {}))
        return list(found.values())

    def place(self, table: objects.Table) -> str | None:
        """Return where a table is, held or not; None when it has no place."""
        return self._places.get(table.key) or self._locate(table.spec)


class Catalog(CatalogView):
    """The catalog as the outside holds it, which alone changes it, between two decisions."""

    def __init__(
        self,
        locate: Locate,
        found: Iterable[objects.AnyObject] = (),
        identify: Identify = lambda uri, table: uri,
    ) -> None:
        """Take the objects.

        Args:
            locate: Tells where a table is.
            found: The objects.
            identify: Tells places apart; by default one URI is one place.
        """
        super().__init__(locate, identify)
        for each in found:
            self.put(each)

    def put(self, found: objects.AnyObject) -> None:
        """Hold an object, in place of the one of its key."""
        before = self._by_key.get(found.key)
        if found.status.state == State.QUEUED.value:
            self._queued[found.key] = found
        else:
            self._queued.pop(found.key, None)
        if before is not None and before.spec is found.spec:
            # A status, most often: everything it is found by stays.
            for group in self._groups(before):
                group[found.key] = found
            self._by_key[found.key] = found
            return
        self._remove(found.key)
        self._by_key[found.key] = found
        if isinstance(found.spec, hudi_table.HudiTableSpec):
            place = self._locate(found.spec)
            if place is not None:
                self._places[found.key] = place
                self._spots[found.key] = self._identify(place, found)
        for group in self._groups(found):
            group[found.key] = found

    def remove(self, key: objects.ObjectKey) -> None:
        """Hold an object no longer; nothing when it is not held."""
        self._queued.pop(key, None)
        self._remove(key)

    def _remove(self, key: objects.ObjectKey) -> None:
        before = self._by_key.pop(key, None)
        if before is None:
            return
        for group in self._groups(before):
            group.pop(key, None)
        self._places.pop(key, None)
        self._spots.pop(key, None)

    def _groups(self, found: objects.AnyObject) -> Iterator[_Group]:
        key = found.key
        yield self._by_kind.setdefault((key.kind, key.namespace), {})
        table = _table_of(found)
        if table is not None:
            yield self._by_table.setdefault((key.kind, key.namespace, table), {})
        if found.owner is not None:
            yield self._by_owner.setdefault(found.owner.uid, {})
        place = self._spots.get(key)
        if place is not None:
            yield self._at.setdefault(place, {})
            yield self._below.setdefault(place, {})
            for each in _enclosing(place):
                yield self._below.setdefault(each, {})


def _table_of(found: objects.AnyObject) -> str | None:
    match found.spec:
        case spec if isinstance(spec, objects.SpecOfTable):
            return spec.table_ref.name
        case service_policy.Policy():
            reference = found.spec.target.table_ref
            return _ANY if reference is None else reference.name
    return None


def _enclosing(uri: str) -> Iterator[str]:
    """Yield the places around a normalised URI, from the nearest on."""
    place = uri
    while "/" in place:
        place = place.rpartition("/")[0]
        yield place
