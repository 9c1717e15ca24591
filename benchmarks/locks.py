"""Measures the table lock: acquiring and giving it back, alone and with others who want it.

    python benchmarks/locks.py [--rounds N] [--contenders N] [--only NAME] [--results FILE]

Each provider has its real server on this machine: ZooKeeper, moto for S3 and DynamoDB, a Hive
Metastore over Derby. `alone` is one access that stays open; `fresh` opens and closes one for each
holding, as a transaction does, connection included. With contenders each is a process (a thread
where the lock is in-process) that takes the lock and gives it back, doing nothing in between.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests")]  # `support`

from hoodie.clock import SystemClock  # noqa: E402
from hoodie_operator.standalone.embedded_zookeeper import EmbeddedZooKeeper  # noqa: E402
from support.contracts import lock_process  # noqa: E402
from support.peer import hive_metastore  # noqa: E402
from support.servers import aws_server  # noqa: E402

CLOCK = SystemClock()
WAIT_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One lock to measure, of one table."""

    address: str
    table: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What was measured; times in milliseconds."""

    name: str
    acquire_ms: float
    release_ms: float
    fresh_ms: float
    holdings_per_s: float
    wait_ms: float
    wait_95_ms: float


Serve = Callable[[ExitStack, Path], Provider]


def _in_process(_: ExitStack, folder: Path) -> Provider:
    return Provider(address="in-process", table=str(folder / "table"))


def _file_system(_: ExitStack, folder: Path) -> Provider:
    return Provider(address="filesystem", table=str(folder / "table"))


def _storage(_: ExitStack, folder: Path) -> Provider:
    return Provider(address="storage", table=str(folder / "table"))


def _zookeeper(stack: ExitStack, folder: Path) -> Provider:
    zookeeper = EmbeddedZooKeeper(folder / "zookeeper", CLOCK)
    servers = zookeeper.start()
    stack.callback(zookeeper.stop)
    return Provider(address=f"zookeeper://{servers}/hudi/table", table=str(folder / "table"))


def _implicit_zookeeper(stack: ExitStack, folder: Path) -> Provider:
    explicit = _zookeeper(stack, folder)
    servers = explicit.address.removeprefix("zookeeper://").partition("/")[0]
    return Provider(address=f"zookeeper-implicit://{servers}", table=explicit.table)


def _aws(stack: ExitStack, folder: Path) -> str:
    url = stack.enter_context(aws_server.running(folder))
    os.environ.update(aws_server.settings(url))
    return url


def _storage_on_s3(stack: ExitStack, folder: Path) -> Provider:
    url = _aws(stack, folder)
    with urllib.request.urlopen(urllib.request.Request(f"{url}/bucket", method="PUT")):
        return Provider(address="storage", table="s3://bucket/table")


def _dynamodb(stack: ExitStack, folder: Path) -> Provider:
    address = f"dynamodb://us-east-1/locks/table?endpoint={_aws(stack, folder)}"
    return Provider(address=address, table=str(folder / "table"))


def _hive(stack: ExitStack, folder: Path) -> Provider:
    servers = stack.enter_context(hive_metastore.running(folder))
    # This metastore takes the lock of a silent holder after 3 s.
    return Provider(address=f"hive://{servers}/lake/trips?heartbeat-s=1", table=str(folder / "t"))


PROVIDERS: Mapping[str, Serve] = {
    "in-process": _in_process,
    "file system": _file_system,
    "storage, local": _storage,
    "ZooKeeper": _zookeeper,
    "ZooKeeper, implicit": _implicit_zookeeper,
    "storage, S3 (moto)": _storage_on_s3,
    "DynamoDB (moto)": _dynamodb,
    "Hive Metastore (Derby)": _hive,
}


def _measure(name: str, provider: Provider, rounds: int, contenders: int) -> Result:
    lock = lock_process.open_lock(provider.address, provider.table, "alone")
    acquired, released, fresh = [], [], []
    for _ in range(rounds + 1):
        start_s = CLOCK.monotonic_s()
        lock.acquire(WAIT_S)
        held_s = CLOCK.monotonic_s()
        lock.release()
        acquired.append(held_s - start_s)
        released.append(CLOCK.monotonic_s() - held_s)
    lock.close()
    for _ in range(max(3, rounds // 4)):
        start_s = CLOCK.monotonic_s()
        one = lock_process.open_lock(provider.address, provider.table, "fresh")
        one.acquire(WAIT_S)
        one.close()
        fresh.append(CLOCK.monotonic_s() - start_s)
    seconds, waits = _contend(provider, rounds, contenders)
    return Result(
        name=name,
        acquire_ms=statistics.median(acquired[1:]) * 1000,
        release_ms=statistics.median(released[1:]) * 1000,
        fresh_ms=statistics.median(fresh) * 1000,
        holdings_per_s=len(waits) / seconds,
        wait_ms=statistics.median(waits) * 1000,
        wait_95_ms=statistics.quantiles(waits, n=20)[-1] * 1000,
    )


def _contend(provider: Provider, rounds: int, contenders: int) -> tuple[float, list[float]]:
    """Return how long all took, and how long each acquisition did."""
    if provider.address == "in-process":
        return _contend_in_threads(provider, rounds, contenders)
    command = [sys.executable, __file__, "--contend", provider.address, provider.table]
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(
                    [*command, "--rounds", str(rounds)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for _ in range(contenders)
        ]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        start_s = CLOCK.monotonic_s()
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        answers = [process.communicate()[0] for process in processes]
        seconds = CLOCK.monotonic_s() - start_s
    return seconds, [wait_s for answer in answers for wait_s in json.loads(answer)]


def _contend_in_threads(
    provider: Provider, rounds: int, contenders: int
) -> tuple[float, list[float]]:
    waits: list[float] = []

    def take() -> None:
        waits.extend(_waits(provider.address, provider.table, rounds))

    threads = [threading.Thread(target=take) for _ in range(contenders)]
    start_s = CLOCK.monotonic_s()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return CLOCK.monotonic_s() - start_s, waits


def _waits(address: str, table: str, rounds: int) -> list[float]:
    lock = lock_process.open_lock(address, table, "contender")
    waits = []
    for _ in range(rounds):
        start_s = CLOCK.monotonic_s()
        lock.acquire(WAIT_S)
        waits.append(CLOCK.monotonic_s() - start_s)
        lock.release()
    lock.close()
    return waits


def _table(results: list[Result], rounds: int, contenders: int) -> str:
    lines = [
        f"{rounds} holdings each, {contenders} contenders; {os.cpu_count()} cores; medians in ms.",
        "",
        "| provider | acquire | release | fresh access | holdings/s | wait | wait, 95 % |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {each.name} | {each.acquire_ms:.2f} | {each.release_ms:.2f} | {each.fresh_ms:.2f} "
            f"| {each.holdings_per_s:.0f} | {each.wait_ms:.0f} | {each.wait_95_ms:.0f} |"
            for each in results
        ),
    ]
    return "\n".join(lines) + "\n"


def _main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--contenders", type=int, default=8)
    parser.add_argument("--only", default="", help="measure providers whose name has this")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--contend", nargs=2, metavar=("ADDRESS", "TABLE"), help="be a contender")
    options = parser.parse_args()
    if options.contend:
        print("ready", flush=True)
        sys.stdin.readline()
        address, contended = options.contend
        print(json.dumps(_waits(address, contended, options.rounds)))
        return
    results = []
    for name, serve in PROVIDERS.items():
        if options.only in name:
            with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
                provider = serve(stack, Path(folder))
                results.append(_measure(name, provider, options.rounds, options.contenders))
            print(results[-1], flush=True)
    text = _table(results, options.rounds, options.contenders)
    print(text)
    if options.results:
        options.results.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    _main()
