"""From the configuration to a running operator: everything that acts, put together."""

from hoodie import clock
from hoodie_operator.api import configuration, fields
from hoodie_operator.cluster.adapters import names
from hoodie_operator.cluster.adapters.fences import Fences
from hoodie_operator.cluster.adapters.lock_servers import LockServers
from hoodie_operator.cluster.adapters.observers import ClusterObservers
from hoodie_operator.cluster.adapters.runs import JobRuns
from hoodie_operator.cluster.client import api
from hoodie_operator.cluster.control import controller, observation, ports
from hoodie_operator.cluster.process import leader, leases
from hoodie_operator.reconcile import effective, world


async def run(told: configuration.Configuration, place: leader.Place) -> None:
    """Run an operator as it is configured, until it is told to stop.

    Args:
        told: The configuration.
        place: Who and where this process is.

    Raises:
        InvalidInputError: No API server is known.
        OSError: The port cannot be had.
    """

    def make_adapters(
        server: api.Api, election: leases.Election, our_clock: clock.Clock
    ) -> ports.Adapters:
        found = names.Names(told.lock_servers.allowed)
        fences = Fences(lambda: election.number, our_clock, lambda: election.is_held, found)
        return ports.Adapters(
            runs=JobRuns(server, fences, told, our_clock),
            observers=ClusterObservers(server, told, our_clock),
            locks=LockServers(server, told, our_clock, found, namespace=place.namespace),
        )

    await leader.run(place, settings(told), effective.locator(told.data_roots), make_adapters)


def settings(told: configuration.Configuration) -> controller.Settings:
    """Return how a controller works that is configured so."""
    limits = told.limits
    accounts = told.service_accounts
    return controller.Settings(
        limits=world.Limits(
            data_roots=told.data_roots,
            reference_grace_ms=fields.duration_ms(limits.reference_grace),
            service_accounts=frozenset({accounts.default, *accounts.allowed}),
            lock_hosts=told.lock_servers.allowed,
            allowed=told.allowed,
            schedule_deadline_ms=fields.duration_ms(limits.schedule_deadline),
            image_deadline_ms=fields.duration_ms(limits.image_deadline),
            start_deadline_ms=fields.duration_ms(limits.start_deadline),
            stop_grace_ms=fields.duration_ms(limits.stop_grace),
            services=told.services,
            slots=told.slots,
            run_defaults=told.model_dump_json(include={"image", "resources", "service_accounts"}),
        ),
        namespaces=told.watch_namespaces,
        runs_kept=limits.runs_kept,
        pace=observation.Pace(
            busy_s=fields.duration_ms(told.observers.busy_interval) / 1000,
            idle_s=fields.duration_ms(told.observers.idle_interval) / 1000,
            source_s=fields.duration_ms(told.observers.source_interval) / 1000,
        ),
    )
