"""Operators on a real API server, as processes: they may be told to stop, or killed.

`python -m support.operators.cluster_operator ARGUMENTS` is one of them; see `main`.
"""

import asyncio
import contextlib
import dataclasses
import enum
import functools
import multiprocessing.context
import multiprocessing.process
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from hoodie import clock, startup
from hoodie_operator.api import configuration
from hoodie_operator.cluster import logs
from hoodie_operator.cluster.adapters import fences, names
from hoodie_operator.cluster.adapters import runs as cluster_runs
from hoodie_operator.cluster.client import api, logins
from hoodie_operator.cluster.control import controller, ports
from hoodie_operator.cluster.process import leader, leases
from hoodie_operator.reconcile import effective, world
from support.operators import cluster_helpers

Process: TypeAlias = "subprocess.Popen[bytes]"

DATA_ROOTS = ("file:///data",)
LEASE = "hudi-operator"
_END_S = 30
_TOLD = configuration.parse(b"dataRoots: [/data]\nimage: {name: 'hudi:1'}", "operator.yaml")


class Runs(enum.Enum):
    """What an operator's runs are.

    Those that are suspended Jobs have done their work as soon as they are started, or are held at
    work. Those of pods are the operator's own, which somebody else has to run.
    """

    DONE = "done"
    HELD = "held"
    PODS = "pods"


def settings(
    namespace: str, *, is_hasty: bool = False, creations_kept_s: float = 3600.0
) -> controller.Settings:
    """Return the settings of an operator of one namespace; a hasty one soon takes a watch for dead.

    As with others it lists more often than that, so that it knows what a watch should have brought.
    """
    limits = world.Limits(data_roots=DATA_ROOTS, reference_grace_ms=2000)
    found = controller.Settings(
        limits=limits,
        namespaces=(namespace,),
        runs_kept=2,
        creations_kept_s=creations_kept_s,
    )
    return dataclasses.replace(found, listing_s=4.0, late_s=8.0) if is_hasty else found


def start(  # noqa: PLR0913 - the command line
    kubeconfig: Path,
    namespace: str,
    lake: Path,
    name: str = "one",
    *,
    runs: Runs = Runs.DONE,
    probed_at: int = 0,
    is_hasty: bool = False,
    home: str | None = None,
) -> Process:
    """Start an operator; its log is beside the lake.

    Args:
        kubeconfig: Of its cluster.
        namespace: What it watches.
        lake: See `cluster_helpers.Lake`.
        name: Of the process.
        runs: What its runs are.
        probed_at: The port of its probes; 0 for none that is known.
        is_hasty: See `settings`.
        home: Where its lease is; by default the namespace.
    """
    command = [sys.executable, "-m", "support.operators.cluster_operator"]
    arguments = [str(kubeconfig), namespace, str(lake), name, runs.value]
    arguments += [str(probed_at), "hasty" if is_hasty else "patient", home or namespace]
    with lake.with_name(f"{name}.log").open("ab") as log:
        return subprocess.Popen([*command, *arguments], stderr=log)


def fork(
    kubeconfig: Path, namespace: str, lake: Path, name: str, runs: Runs
) -> multiprocessing.process.BaseProcess:
    """Start an operator at once, where many are begun: what it imports was imported before."""
    arguments = (str(kubeconfig), namespace, str(lake), name, runs.value)
    process = _nursery().Process(target=_forked, args=arguments, daemon=True)
    process.start()
    return process


@functools.cache
def _nursery() -> multiprocessing.context.ForkServerContext:
    nursery = multiprocessing.get_context("forkserver")
    nursery.set_forkserver_preload([__name__])
    return nursery


def _forked(kubeconfig: str, namespace: str, lake: str, name: str, runs: str) -> None:
    log = os.open(Path(lake).with_name(f"{name}.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, sys.stderr.fileno())
    main(kubeconfig, namespace, lake, name, runs)


@contextlib.contextmanager
def leading(  # noqa: PLR0913 - see `start`
    kubeconfig: Path,
    namespace: str,
    lake: Path,
    *,
    runs: Runs = Runs.DONE,
    probed_at: int = 0,
    is_hasty: bool = False,
    home: str | None = None,
) -> Iterator[Process]:
    """Have an operator at work for a while, see `start`; it ends as it is told to."""
    process = start(
        kubeconfig,
        namespace,
        lake,
        runs=runs,
        probed_at=probed_at,
        is_hasty=is_hasty,
        home=home,
    )
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(_END_S) == 0, lake.with_name("one.log").read_text()
    finally:
        process.kill()
        process.wait()


def main(  # noqa: PLR0913, PLR0917 - the command line
    kubeconfig: str,
    namespace: str,
    lake: str,
    name: str,
    runs: str,
    probed_at: str = "0",
    haste: str = "patient",
    home: str | None = None,
) -> None:
    """Run an operator until it is told to stop, or killed."""
    logs.to_stderr()
    kind = Runs(runs)
    held = cluster_helpers.Lake(Path(lake), ends_at_once=kind is Runs.DONE)
    place = leader.Place(
        namespace=home or namespace,
        lease=LEASE,
        instance=name,
        host="127.0.0.1",
        port=int(probed_at),
    )

    def make_adapters(
        server: api.Api, election: leases.Election, our_clock: clock.Clock
    ) -> ports.Adapters:
        made: ports.Runs = cluster_helpers.FakeRuns(server, held)
        if kind is Runs.PODS:
            guards = fences.Fences(
                # As in `starting`: the number grows where the Lease is made anew.
                lambda: election.number,
                our_clock,
                lambda: election.is_held,
                names.Names(allowed=("127.0.0.1",)),
            )
            made = cluster_runs.JobRuns(server, guards, _TOLD, our_clock)
        return cluster_helpers.helpers(server, held, made, our_clock)

    asyncio.run(
        leader.run(
            place,
            settings(
                namespace,
                is_hasty=haste == "hasty",
                # The Jobs of the operator's own runs are removed while the test looks on.
                creations_kept_s=0.0 if kind is Runs.PODS else 3600.0,
            ),
            effective.locator(DATA_ROOTS),
            make_adapters,
            logins.Logins({"KUBECONFIG": kubeconfig}),
        )
    )


if __name__ == "__main__":
    startup.leave_out_pandas()
    main(*sys.argv[1:])
