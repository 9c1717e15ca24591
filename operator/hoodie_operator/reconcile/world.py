"""The world as one reconcile sees it: all objects, all facts, the time. Immutable."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from hoodie_operator.api import kinds, objects
from hoodie_operator.reconcile import facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The operator's own settings, the same for every object.

    Attributes:
        data_root: URI that relative table paths begin at, and that every table lies below.
        reference_grace_ms: How long a missing reference may be on its way.
        start_deadline_ms: An attempt that tells of no progress for this long was not started.
        stop_grace_ms: Between asking an attempt to stop and killing it.
    """

    data_root: str
    reference_grace_ms: int = 0
    start_deadline_ms: int = 180_000
    stop_grace_ms: int = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A snapshot.

    Attributes:
        now_ms: The operator's clock.
        limits: Its settings.
        by_key: All objects.
        seen: All facts.
    """

    now_ms: int
    limits: Limits
    by_key: Mapping[objects.ObjectKey, objects.AnyObject]
    seen: facts.Facts

    def tables(self, namespace: str | None = None) -> Iterator[objects.Table]:
        """Yield the HudiTables, of one namespace or all."""
        return cast("Iterator[objects.Table]", self._of(kinds.HUDI_TABLE, namespace))

    def writers(self, namespace: str) -> Iterator[objects.Writer]:
        """Yield the Writers of a namespace."""
        return cast("Iterator[objects.Writer]", self._of(kinds.WRITER, namespace))

    def policies(self, namespace: str) -> Iterator[objects.Policy]:
        """Yield the CompactionPolicies of a namespace."""
        return cast("Iterator[objects.Policy]", self._of(kinds.COMPACTION_POLICY, namespace))

    def actions(self, namespace: str) -> Iterator[objects.Action]:
        """Yield the TableActions of a namespace."""
        return cast("Iterator[objects.Action]", self._of(kinds.TABLE_ACTION, namespace))

    def writers_of(self, table: objects.Table) -> list[objects.Writer]:
        """Return a table's Writers, the oldest first."""
        found = self.writers(table.key.namespace)
        return sorted(
            (writer for writer in found if writer.spec.table_ref.name == table.name),
            key=lambda writer: writer.seniority,
        )

    def actions_of(self, table: objects.Table) -> list[objects.Action]:
        """Return a table's TableActions, the oldest first."""
        found = self.actions(table.key.namespace)
        return sorted(
            (action for action in found if action.spec.table_ref.name == table.name),
            key=lambda action: action.seniority,
        )

    def table(self, namespace: str, name: str) -> objects.Table | None:
        """Return a HudiTable; None when there is none."""
        return cast("objects.Table | None", self._get(kinds.HUDI_TABLE, namespace, name))

    def lock(self, namespace: str, name: str) -> objects.Lock | None:
        """Return a LockProvider; None when there is none."""
        return cast("objects.Lock | None", self._get(kinds.LOCK_PROVIDER, namespace, name))

    def action(self, key: objects.ObjectKey) -> objects.Action | None:
        """Return a TableAction; None when there is none."""
        return cast("objects.Action | None", self.by_key.get(key))

    def runs(self, owner: objects.AnyObject) -> Sequence[facts.Run]:
        """Return what is known of an object's attempts, in their order."""
        return sorted(self.seen.runs.get(owner.uid, ()), key=lambda run: run.id.attempt)

    def has_run_at_work(self, owner: objects.AnyObject) -> bool:
        """Return whether an attempt of an object has not ended."""
        return any(run.is_running for run in self.seen.runs.get(owner.uid, ()))

    def _get(self, kind: kinds.Kind, namespace: str, name: str) -> objects.AnyObject | None:
        return self.by_key.get(objects.ObjectKey(kind=kind.name, namespace=namespace, name=name))

    def _of(self, kind: kinds.Kind, namespace: str | None) -> Iterator[objects.AnyObject]:
        for key, found in self.by_key.items():
            if key.kind == kind.name and namespace in (None, key.namespace):
                yield found
