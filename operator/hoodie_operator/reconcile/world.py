"""The world as one decision takes it: all objects, all facts, the time.

A world is a view and not a copy: of a thousand tables, nothing is copied for a decision about one.
Decisions cannot change it, since all in it are frozen values and mappings without setters. It does
change when the outside takes what is new. So an outside makes a world for each decision and does
not use it after the next change: in a cluster, not across an `await`.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from hoodie_operator.api import configuration, kinds, objects
from hoodie_operator.reconcile import catalog, facts, names, observed_times


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The operator's own settings, the same for every object.

    Attributes:
        data_roots: URIs of which every table lies below one; relative paths begin at the first.
        reference_grace_ms: How long a missing reference may be on its way.
        service_accounts: Those that tables may name; None where accounts mean nothing.
        lock_hosts: Names and patterns of hosts that lock providers may name; None for all.
        allowed: What else objects may name; None where that means nothing, or for all.
        schedule_deadline_ms: An attempt waits no longer for a pod and a node for it.
        image_deadline_ms: An attempt waits no longer for its image and container.
        start_deadline_ms: An attempt that tells of no progress for this long was not started.
        stop_grace_ms: Between asking an attempt to stop and killing it.
        services: What keeps tables small that no policy targets; None for nothing.
        slots: How many TableActions run at once; None for no limit.
        run_defaults: What runs get where nothing is declared, as a text that changes with it.
    """

    data_roots: tuple[str, ...]
    reference_grace_ms: int = 0
    service_accounts: frozenset[str] | None = None
    lock_hosts: tuple[str, ...] | None = None
    allowed: configuration.Allowed | None = None
    schedule_deadline_ms: int = 600_000
    image_deadline_ms: int = 600_000
    start_deadline_ms: int = 180_000
    stop_grace_ms: int = 60_000
    services: configuration.ServiceDefaults | None = None
    slots: configuration.Slots | None = None
    run_defaults: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """All that a decision may depend on.

    Attributes:
        now_ms: The operator's clock, which never goes back while the process runs.
        monotonic_ms: Its monotonic time, by which `facts.Heard` and looks are.
        limits: Its settings.
        by_key: All objects.
        seen: All facts.
    """

    now_ms: int
    monotonic_ms: int
    limits: Limits
    by_key: catalog.CatalogView
    seen: facts.Facts

    def now(self, owner: objects.AnyObject) -> observed_times.Now:
        """Return when is decided about an object."""
        return observed_times.Now(
            wall_ms=self.now_ms,
            monotonic_ms=self.monotonic_ms,
            waits=self.seen.waits.get(owner.uid, facts.Waits()),
        )

    def tables(self, namespace: str) -> Collection[objects.Table]:
        """Return the HudiTables of a namespace."""
        found = self.by_key.of(kinds.HUDI_TABLE, namespace)
        return cast("Collection[objects.Table]", found)

    def tables_overlapping(self, table: objects.Table) -> Collection[objects.Table]:
        """Return the HudiTables of all namespaces at a table's place, in it or around it."""
        return cast("Collection[objects.Table]", self.by_key.overlapping(table))

    def actions_for(self, owner: objects.AnyObject) -> Collection[objects.Action]:
        """Return the TableActions that say that they were made for an object."""
        return [
            cast("objects.Action", found)
            for found in self.by_key.owned_by(owner.uid)
            if found.key.kind == kinds.TABLE_ACTION.name
            and found.key.namespace == owner.key.namespace
            and found.owner == names.owner(owner)
        ]

    def policies_naming(self, kind: kinds.Kind, table: objects.Table) -> Collection[objects.Policy]:
        """Return the policies of a kind that name a table."""
        return cast("Collection[objects.Policy]", self._of_table(kind, table))

    def policies_choosing(self, kind: kinds.Kind, namespace: str) -> Collection[objects.Policy]:
        """Return the policies of a kind and a namespace that choose tables by their labels."""
        return cast("Collection[objects.Policy]", self.by_key.choosing_tables(kind, namespace))

    def writers_of(self, table: objects.Table) -> list[objects.Writer]:
        """Return a table's Writers, the oldest first."""
        found = cast("Collection[objects.Writer]", self._of_table(kinds.WRITER, table))
        return sorted(found, key=lambda writer: writer.seniority)

    def actions_of(self, table: objects.Table) -> list[objects.Action]:
        """Return a table's TableActions, the oldest first."""
        found = cast("Collection[objects.Action]", self._of_table(kinds.TABLE_ACTION, table))
        return sorted(found, key=lambda action: action.seniority)

    def queued_actions(self) -> Collection[objects.Action]:
        """Return the TableActions of all namespaces that wait for a slot, as they tell."""
        return cast("Collection[objects.Action]", self.by_key.queued())

    def owning_policy(self, action: objects.Action) -> objects.Policy | None:
        """Return the policy that a TableAction was made for; None for none."""
        owner = action.owner
        if owner is None or owner.kind not in {kind.name for kind in kinds.POLICIES}:
            return None
        found = self._get(kinds.BY_NAME[owner.kind], action.key.namespace, owner.name)
        return None if found is None or found.uid != owner.uid else cast("objects.Policy", found)

    def savepoints_of(self, table: objects.Table) -> Collection[objects.Savepoint]:
        """Return a table's Savepoints."""
        return cast("Collection[objects.Savepoint]", self._of_table(kinds.SAVEPOINT, table))

    def index_requests_of(self, table: objects.Table) -> list[objects.IndexRequest]:
        """Return a table's IndexRequests, the oldest first."""
        found = cast("Collection[objects.IndexRequest]", self._of_table(kinds.INDEX_REQUEST, table))
        return sorted(found, key=lambda request: request.seniority)

    def table(self, namespace: str, name: str) -> objects.Table | None:
        """Return a HudiTable; None when there is none."""
        return cast("objects.Table | None", self._get(kinds.HUDI_TABLE, namespace, name))

    def lock(self, namespace: str, name: str) -> objects.Lock | None:
        """Return a LockProvider; None when there is none."""
        return cast("objects.Lock | None", self._get(kinds.LOCK_PROVIDER, namespace, name))

    def writer(self, key: objects.ObjectKey) -> objects.Writer | None:
        """Return a Writer; None when there is none."""
        return cast("objects.Writer | None", self.by_key.get(key))

    def action(self, key: objects.ObjectKey) -> objects.Action | None:
        """Return a TableAction; None when there is none."""
        return cast("objects.Action | None", self.by_key.get(key))

    def runs(self, owner: objects.AnyObject) -> Sequence[facts.Run]:
        """Return what is known of an object's attempts, in their order."""
        return sorted(facts.of_owner(self.seen.runs, owner), key=lambda run: run.id.attempt)

    def is_namespace_ending(self, found: objects.AnyObject) -> bool:
        """Return whether an object goes with its namespace, where nothing can be made any more."""
        refusal = self.seen.refusals.get(found.uid)
        return found.is_deleting and refusal is not None and refusal.is_namespace_ending

    def has_run_at_work(self, owner: objects.AnyObject) -> bool:
        """Return whether an attempt of an object has not ended."""
        return any(run.is_running for run in facts.of_owner(self.seen.runs, owner))

    def ownerless_runs(self, table: objects.Table) -> Iterator[facts.Run]:
        """Yield the runs at work on a table whose Writer or TableAction is gone.

        A deleted object's pods take their time to end.
        """
        name = f"{table.key.namespace}/{table.name}"
        for run in self.runs_at_work():
            if run.table != name:
                continue
            owner = self.by_key.get(run.id.owner)
            if owner is None or owner.uid != run.id.uid:
                yield run

    def runs_at_work(self) -> Iterable[facts.Run]:
        """Return the attempts of all objects that have not ended."""
        if self.seen.at_work is not None:
            return self.seen.at_work
        return (run for runs in self.seen.runs.values() for run in runs if run.is_running)

    def _get(self, kind: kinds.Kind, namespace: str, name: str) -> objects.AnyObject | None:
        return self.by_key.get(objects.ObjectKey(kind=kind.name, namespace=namespace, name=name))

    def _of_table(self, kind: kinds.Kind, table: objects.Table) -> Collection[objects.AnyObject]:
        return self.by_key.of_table(kind, table.key.namespace, table.name)
