"""A change enqueues the objects that depend on it: at once, but policies, which only sum up."""

import json
from typing import Any

from hoodie_operator.api import kinds, objects, resources
from hoodie_operator.api.resources import Manifest
from hoodie_operator.cluster import health
from hoodie_operator.cluster.client import api
from hoodie_operator.cluster.control import event_handler, object_states
from hoodie_operator.cluster.informer import resync, store
from hoodie_operator.reconcile import effective
from support.operators import cluster_helpers, rule_examples
from support.operators.api_server import ApiServer
from support.simulation.moved_clock import MovedClock

TABLE = objects.ObjectKey(kind="HudiTable", namespace="n", name="flights")
POLICY = objects.ObjectKey(kind="RetentionPolicy", namespace="n", name="all")
SELECTOR = {"tableSelector": {"matchLabels": {"tier": "gold"}}}


class Watched:
    """A work queue that watch events fill."""

    def __init__(self, client: api.Api) -> None:
        self.clock = MovedClock()
        known = store.Store(
            effective.locator(["file:///data"]), cluster_helpers.read_run, self.clock
        )
        self.handler = event_handler.EventHandler(
            client,
            known,
            object_states.ObjectStates(),
            resync.Scope(),
            probes=health.Health(self.clock),
            our_clock=self.clock,
        )
        self._version = 0

    def change(self, kind: kinds.Kind, name: str, spec: dict[str, Any], **status: Any) -> None:  # noqa: ANN401 - JSON
        self._version += 1
        manifest: Manifest = {
            "apiVersion": "hudi.dev/v1alpha1",
            "kind": kind.name,
            "metadata": {
                "name": name,
                "namespace": "n",
                "uid": f"uid-of-{name}",
                "labels": {"tier": "gold"},
                "generation": 1,
                "resourceVersion": str(self._version),
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": spec,
            "status": status,
        }
        self.handler.on_watch_event("MODIFIED", json.loads(json.dumps(manifest)))

    def due(self) -> list[objects.ObjectKey]:
        """Return what is decided about now."""
        found = []
        while (taken := self.handler.queue.pop(self.clock.now_s)) is not None:
            found.append(taken[0])
        return sorted(found)


def test_policy_sums_up_once_for_all_changes_of_a_moment() -> None:
    async def scenario(client: api.Api) -> None:
        here = Watched(client)
        spec = {**rule_examples.RETENTION, "target": SELECTOR}
        here.change(kinds.RETENTION_POLICY, "all", spec)
        assert here.due() == [POLICY]
        for number in range(3):
            here.change(kinds.HUDI_TABLE, "flights", rule_examples.TABLE, uri=f"file:///{number}")
            assert here.due() == [TABLE]
            here.clock.now_s += 0.4
        assert here.due() == [POLICY]
        here.clock.now_s += 10
        assert here.due() == []
        here.change(kinds.HUDI_TABLE, "flights", rule_examples.TABLE)
        here.change(kinds.RETENTION_POLICY, "all", spec, observedGeneration=1)
        assert here.due() == [TABLE, POLICY]

    ApiServer().use(scenario)


def test_change_of_an_action_may_free_a_slot() -> None:
    async def scenario(client: api.Api) -> None:
        here = Watched(client)
        here.change(kinds.HUDI_TABLE, "flights", rule_examples.TABLE)
        assert not here.handler.are_slots_changed.is_set()
        here.change(kinds.TABLE_ACTION, "old", rule_examples.ACTION)
        assert here.handler.are_slots_changed.is_set()
        here.handler.are_slots_changed.clear()
        here.handler.on_gone(resources.BY_KIND["TableAction"], "n", "old", "uid-of-old")
        assert here.handler.are_slots_changed.is_set()

    ApiServer().use(scenario)
