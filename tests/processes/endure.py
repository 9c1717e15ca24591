"""Processes on one table for so long, killed, paused and cut off at random; then judged.

    python tests/processes/endure.py --mode optimistic --seconds 600 --seed 7 [--lock filesystem]
    python tests/processes/endure.py --mode optimistic --seconds 600 --lock lying [--storage s3]
    python tests/processes/endure.py --mode copy-on-write --seconds 600 --metadata-table
    python tests/processes/endure.py --mode copy-on-write --seconds 600 --indexed --lock lying

The lock of ten processes is a real ZooKeeper's by default, which is stopped, frozen and robbed of
its sessions as well, beyond a network that is cut. A lying lock says yes to everybody: the table
has a chain then, eight writers, and services beside them, and nothing is excused. S3 is an emulator
that answers requests one by one.

All of it is in namespaces of its own (network, processes), of which nothing stays, however this
ends. The exit code is 1 if an invariant does not hold; the table and what its processes said are
kept then.
"""

import argparse
import logging
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from hoodie import environment, table
from hoodie.clock import SystemClock
from hoodie_operator.standalone.embedded_zookeeper import EmbeddedZooKeeper
from processes import fleet, judgement, network, trouble, worker
from processes.judgement import Judge
from processes.trouble import SESSION_S, LockService, Trouble
from support.contracts import lying_lock
from support.servers import aws_server

ZOOKEEPER = "zookeeper"
LYING = lying_lock.NAME
S3 = "s3"
_SITES = ("site-1", "site-2")
_ISOLATED = "--isolated"
_ISOLATION = ("unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
_START_S = 120.0
_TICK_S = 0.5


def main(arguments: Sequence[str]) -> int:
    """Do as the arguments say; return the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.storage == S3 and options.lock == ZOOKEEPER:
        parser.error("the emulator is not in the network of ZooKeeper: name another lock")
    if not options.isolated:
        if lacking := _lacking():
            print(f"a network that can be cut needs {lacking}", file=sys.stderr)
            return 1
        os.execvp(_ISOLATION[0], [*_ISOLATION, sys.executable, __file__, *arguments, _ISOLATED])
    logging.disable(logging.CRITICAL)  # What clients of ZooKeeper survive, they survive in masses.
    network.raise_loopback()
    directory = Path(tempfile.mkdtemp(prefix="endure-"))
    try:
        verdict = run(directory, options)
    except AssertionError as error:
        print(f"\nFailed: {error}\nSee {directory}", file=sys.stderr)
        return 1
    shutil.rmtree(directory)
    where = f"{options.mode}, {options.lock} lock, {options.storage} storage"
    print(f"{where}, seed {options.seed}: every invariant held")
    print(
        f"  {verdict.batches} batches, {verdict.compactions} compactions, {verdict.cleans} cleans, "
        f"{verdict.archived} instants archived, {verdict.builds} builds, {verdict.reads} reads, "
        f"{verdict.epochs} epochs, {verdict.late} published after their lock was lost"
    )
    print(f"  survived: {_counts(verdict.survived)}")
    return 0


def _lacking() -> str:
    """Return what a network of namespaces cannot be made without, and is not there."""
    if os.geteuid() != 0:
        return "root"
    packages = {"unshare": "util-linux", "nsenter": "util-linux", "ip": "iproute2"}
    missing = [name for name in packages if shutil.which(name) is None]
    return ", ".join(f"{name} (package {packages[name]} on Debian)" for name in missing)


def run(directory: Path, options: argparse.Namespace) -> judgement.Verdict:
    """Run a fleet and judge it.

    Raises:
        AssertionError: An invariant does not hold, or a process failed.
    """
    crew = fleet.crew_of(worker.ModeName(options.mode), has_lock=options.lock != LYING)
    # The emulator serves one request at a time, and came to a halt with one client more.
    crew = replace(crew, has_cleaner=options.storage != S3, has_indexer=options.indexed)
    with (
        _table_uri(directory, options.storage) as uri,
        _lock_service(directory, options.lock) as (lock, service),
    ):
        opened = worker.MODES[crew.mode].create(uri, crew.columns, has_chain=options.lock == LYING)
        try:
            return _endure(directory, crew, opened, (lock, service), options)
        except BaseException:
            if options.storage == S3:
                _keep(opened, directory / "table")
            raise


def _endure(
    directory: Path,
    crew: fleet.Crew,
    opened: table.Table,
    place: tuple[str, LockService | None],
    options: argparse.Namespace,
) -> judgement.Verdict:
    """Let a fleet work on a table, and judge it."""
    lock, service = place
    if options.metadata_table or options.indexed:
        opened = opened.initialise_metadata(
            worker.transaction(crew.mode, lock), has_statistics=not options.indexed
        )
    commands = (lambda _: ()) if service is None else service.cables.command
    workers = fleet.Fleet(directory, crew, opened.uri, lock, commands, _SITES)
    chance = random.Random(options.seed)
    befalls = Trouble(workers, opened, service, chance)
    try:
        _live(workers, befalls, options.seconds, chance)
    finally:
        workers.stop()
    befalls.mend_all()
    lease_ms = None if service is None else round(SESSION_S * 1000)
    judge = Judge(opened, crew.mode, workers.actors)
    return judge.judge(lock, lease_ms, befalls.expiries_ms)


def _live(crew: fleet.Fleet, befalls: Trouble, seconds: float, chance: random.Random) -> None:
    """Let the fleet work so long, counted from when each has done something."""
    for actor in crew.actors:
        crew.start(actor)
    deadline_s = time.monotonic() + _START_S
    while not all(actor.is_at_work for actor in crew.actors if _has_work(actor)):
        assert time.monotonic() < deadline_s, "the fleet does not come to work"
        time.sleep(0.1)
    begun_s = told_s = time.monotonic()
    while (now_s := time.monotonic()) < begun_s + seconds:
        time.sleep(chance.uniform(0.02, 2 * _TICK_S))
        befalls.go_on()
        if now_s > told_s:
            told_s = now_s + 10
            line = f"  {now_s - begun_s:4.0f} of {seconds:.0f} s: {_counts(befalls.counts)}"
            print(line, end="\n" if not sys.stdout.isatty() else "\r", flush=True)
    print(f"  {seconds:.0f} s: {_counts(befalls.counts)}", flush=True)


def _has_work(actor: fleet.Actor) -> bool:
    # There may be nothing to compact or to roll back yet.
    return actor.role in (worker.Role.WRITER, worker.Role.READER)


@contextmanager
def _table_uri(directory: Path, kind: str) -> Iterator[str]:
    if kind != S3:
        yield str(directory / "table")
        return
    with aws_server.running(directory) as url:
        os.environ.update(aws_server.settings(url))
        aws_server.make_bucket(url, "endure")
        yield "s3://endure/table"


def _keep(opened: table.Table, target: Path) -> None:
    """Copy what an emulator has of a table, which it loses when it ends."""
    storage = environment.system().open_storage(opened.uri)
    for info in storage.list("", is_recursive=True):
        path = target / info.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(storage.read(info.path))
        os.utime(path, (info.modified_ms / 1000,) * 2)


@contextmanager
def _lock_service(directory: Path, kind: str) -> Iterator[tuple[str, LockService | None]]:
    if kind == LYING:
        site = directory / "site"
        lying_lock.install(site)
        sys.path.insert(0, str(site))  # The fleet's processes have the same path.
        yield lying_lock.ADDRESS, None
        return
    if kind != ZOOKEEPER:
        yield kind, None
        return
    cables = network.Network(_SITES)
    server = EmbeddedZooKeeper(
        directory / "zookeeper", SystemClock(), tick_ms=500, host=network.HOST
    )
    address = server.start()
    lock = (
        f"zookeeper://{address}{trouble.LOCK_PATH}"
        f"?session-timeout-s={SESSION_S:g}&connection-timeout-s={SESSION_S:g}"
    )
    try:
        yield lock, LockService(server=server, address=address, cables=cables, sites=_SITES)
    finally:
        server.stop()


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "nothing"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Let processes endure, and judge them.")
    parser.add_argument("--mode", choices=list(worker.ModeName), required=True)
    parser.add_argument("--lock", choices=(ZOOKEEPER, "filesystem", LYING), default=ZOOKEEPER)
    parser.add_argument("--storage", choices=("local", S3), default="local")
    parser.add_argument("--metadata-table", action="store_true", help="give the table one")
    parser.add_argument("--indexed", action="store_true", help="and build and drop its indexes")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(_ISOLATED, action="store_true", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
