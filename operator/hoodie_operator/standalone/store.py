"""The objects of a state folder: one JSON file each, as Kubernetes would store it.

    STATE/objects/KIND/NAMESPACE.NAME.json
    STATE/refused.json                       what of the manifests was refused

Only the folder's owner writes; anybody may read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hoodie import clock, errors
from hoodie.model import json_values
from hoodie_operator.api import documents, kinds, manifests, objects
from hoodie_operator.reconcile import catalog, facts, observed_times
from hoodie_operator.standalone import state_files

_FOLDER = "objects"
_REFUSED = "refused.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refused:
    problems: tuple[manifests.Problem, ...]


class Store:
    """The objects of one state folder, held in memory and written through."""

    def __init__(self, state: Path, locate: catalog.Locate, our_clock: clock.Clock) -> None:
        """Read all objects.

        Args:
            state: The folder.
            locate: Tells where a table is.
            our_clock: The operator's.

        Raises:
            FormatError: A file is no object; the message names it.
            StorageError: The folder cannot be read.
        """
        self._state = state
        self._folder = state / _FOLDER
        self._objects = catalog.Catalog(locate, load(state).values())
        self._clock = our_clock
        self._statuses = observed_times.ObservedStatuses()
        for found in self._objects.values():
            self._statuses.hear(found, clock.monotonic_ms(self._clock))

    @property
    def by_key(self) -> catalog.Catalog:
        """All objects."""
        return self._objects

    @property
    def waits(self) -> Mapping[str, facts.Waits]:
        """What statuses tell to be waited for, by the uid of their object."""
        return self._statuses.waits

    def put(self, found: objects.AnyObject) -> None:
        """Store an object, new or changed."""
        state_files.replace_json(self._path(found.key), documents.to_document(found))
        self._objects.put(found)
        self._statuses.hear(found, clock.monotonic_ms(self._clock))

    def refuse(self, problems: Sequence[manifests.Problem]) -> None:
        """Store what of the manifests was refused, in place of what was before."""
        content = json_values.encode(_Refused(problems=tuple(problems)))
        state_files.replace(self._state / _REFUSED, content)

    def remove(self, key: objects.ObjectKey) -> None:
        """Remove an object; nothing when it is gone."""
        self._path(key).unlink(missing_ok=True)
        found = self._objects.get(key)
        if found is not None:
            self._statuses.forget(found.uid)
        self._objects.remove(key)

    def _path(self, key: objects.ObjectKey) -> Path:
        # Names hold no dot, so the file's name is taken apart in one way only.
        return self._folder / key.kind / f"{key.namespace}.{key.name}.json"


def load_refused(state: Path) -> Sequence[manifests.Problem]:
    """Return what of the manifests was refused when they were read last.

    Raises:
        InvalidInputError: The file holds something else.
        StorageError: It cannot be read.
    """
    path = state / _REFUSED
    content = state_files.read(path)
    return () if content is None else json_values.decode(_Refused, content, str(path)).problems


def load(state: Path) -> dict[objects.ObjectKey, objects.AnyObject]:
    """Return the objects of a state folder, of an owner or a bystander.

    Raises:
        FormatError: A file is no object; the message names it.
        StorageError: The folder cannot be read.
    """
    found: dict[objects.ObjectKey, objects.AnyObject] = {}
    for kind in kinds.KINDS:
        for path in sorted((state / _FOLDER / kind.name).glob("*.json")):
            if path.name.startswith("."):
                continue
            document = state_files.read_json(path)
            if document is None:
                continue
            try:
                loaded = documents.from_document(document)
            except errors.FormatError as error:
                raise errors.FormatError(f"{path}: {error}") from error
            found[loaded.key] = loaded
    return found
