"""Writes in flight that nothing shows to be of ours, as those of another engine."""

from hoodie import table
from hoodie.model import instants
from hoodie.timeline import transitions
from hoodie.transaction import layout
from support.tables.tables import SmallTable


class Anonymous:
    """A write of ours whose heartbeat and inflight file do not say so, until it is to complete.

    Attributes:
        instant: Its instant.
        own: What these files say, by path.
    """

    def __init__(self, small: SmallTable, time: instants.InstantTime) -> None:
        self._storage = small.env.open_storage(str(small.path))
        found = table.open_table(str(small.path), small.env).timeline().find(time)
        assert found is not None
        self.instant = found
        self.own = {
            path: self._storage.read(path)
            for path in (f"{layout.HEARTBEATS}/{time}", transitions.path(found))
        }
        self._put(dict.fromkeys(self.own, b""))

    def restore(self) -> None:
        """Let it say whose it is."""
        self._put(self.own)

    def _put(self, contents_by_path: dict[str, bytes]) -> None:
        for path, content in contents_by_path.items():
            _, version = self._storage.fetch(path)
            self._storage.replace(path, content, if_match=version)
