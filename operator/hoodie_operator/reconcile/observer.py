"""What an outside is asked to look at: in this process, or by somebody who may read the storage."""

from dataclasses import dataclass
from typing import Protocol

from hoodie.model import settings
from hoodie_operator.api import objects, writer
from hoodie_operator.reconcile import facts


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTarget:
    """A table to look at.

    Attributes:
        uri: Where.
        settings: By which heartbeats are judged.
    """

    uri: str
    settings: settings.WriteSettings


class Observer(Protocol):
    """Looks at what objects are about. Nothing raises: what cannot be seen is told as a problem."""

    def look_at_table(self, target: TableTarget) -> facts.TableFacts:
        """Return what a table's storage tells now."""
        ...

    def look_at_source(self, generation: int, source: writer.Source) -> facts.SourceFacts:
        """Return what a writer's source tells now."""
        ...

    def look_at_lock(self, found: objects.Lock, before: facts.LockFacts | None) -> facts.LockFacts:
        """Return whether a lock provider answers now."""
        ...
