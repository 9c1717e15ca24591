"""What the operator costs beside a real API server with many tables, and how soon it reacts.

An operator process (`support.operators.cluster_operator`, real but for its storage) is given
tables and their policies in one namespace. Runs end at once, or are held at work, and observers
answer from a folder, so that the figures are the operator's own: time until all tables are ready,
memory, CPU and requests at rest with tables looked at every 30 s, time from an edit to the status
that answers it, and the same with many runs at work. Writes CLUSTER.md.

Usage: make bench-cluster, or PYTHONPATH=tests python benchmarks/cluster.py --tables 100 --runs 20
"""

import argparse
import concurrent.futures
import http.client
import random
import socket
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import machine
from rich.console import Console

from hoodie_operator.api import kinds
from support.kube import binaries, clusters, control_plane, objects
from support.operators import cluster_operator, rule_examples

RESULTS = Path(__file__).with_name("CLUSTER.md")
NAMESPACE = "bench"
LABELS = {"bench": "all"}
EDITS = 100
REST_S = 60.0
SETTLE_S = 60.0
POLL_S = 2.0
WAIT_S = 1200.0
TICKS_PER_S = 100
CONSOLE = Console(stderr=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """What a process costs while nothing is asked of it.

    Attributes:
        cpu: Of a core.
        requests_per_s: To the API server, those of its watches apart.
        memory_mib: Resident.
    """

    cpu: float
    requests_per_s: float
    memory_mib: float


def main() -> None:
    """Measure, and write a page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=1000, help="so many HudiTables and policies")
    parser.add_argument("--runs", type=int, default=200, help="so many runs at once")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    header = _header()
    with tempfile.TemporaryDirectory(prefix="hudi-bench-") as folder:
        plane = control_plane.ControlPlane(binaries.ensure(*binaries.FIRST), Path(folder) / "plane")
        try:
            plane.start()
            cluster = clusters.of_kubeconfig(plane.kubeconfig)
            rows = measure(cluster, Path(folder), options.tables, options.runs)
        finally:
            plane.stop()
    lines = [header, "| what | figure |", "|---|---:|"]
    lines += [f"| {name} | {figure} |" for name, figure in rows.items()]
    text = "\n".join([*lines, ""])
    print(text)
    options.results.write_text(text)


def measure(cluster: clusters.Cluster, folder: Path, count: int, runs: int) -> dict[str, str]:
    """Measure an operator with so many tables, and then so many runs at once."""
    clusters.install_crds(cluster)
    cluster.api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    CONSOLE.print(f"{count} tables are declared")
    _declare_retention(cluster)
    _declare_all(cluster, range(count))
    lake = folder / "lake"
    lake.mkdir()
    with cluster_operator.leading(cluster.kubeconfig, NAMESPACE, lake) as operator:
        CONSOLE.print("an operator begins")
        created_s = _seconds_until(lambda: _ready(cluster) == count)
        created_cpu_s = _cpu_s(operator.pid)
    port = _free_port()
    held = cluster_operator.Runs.HELD
    with cluster_operator.leading(
        cluster.kubeconfig, NAMESPACE, lake, runs=held, probed_at=port
    ) as operator:
        CONSOLE.print("another one begins")
        found_s = _edit(cluster, 0)
        time.sleep(SETTLE_S)
        rest = _rest(operator.pid, port)
        CONSOLE.print(f"{EDITS} edits")
        before, before_cpu_s, began_s = _requests(port), _cpu_s(operator.pid), time.monotonic()
        reactions = sorted(_edit(cluster, number) for number in _some(count))
        time.sleep(POLL_S)
        passed_s = time.monotonic() - began_s
        asked = _requests(port) - before - rest.requests_per_s * passed_s
        cpu_s = _cpu_s(operator.pid) - before_cpu_s - rest.cpu * passed_s
        CONSOLE.print(f"{runs} runs")
        _declare_all(cluster, range(count, count + runs))
        started_s = _seconds_until(lambda: _at_work(cluster) == runs)
        time.sleep(SETTLE_S)
        working = _rest(operator.pid, port)
    return {
        f"{count} tables and policies, all new, until all are ready": f"{created_s:.0f} s",
        "CPU of the operator for that": f"{created_cpu_s:.0f} s",
        "the same tables, from the start of a process until it reacts": f"{found_s:.1f} s",
        **_rest_rows("at rest", rest),
        f"from an edit to its answer, p50 of {EDITS}": f"{_ms(reactions, 0.5):.0f} ms",
        f"from an edit to its answer, p99 of {EDITS}": f"{_ms(reactions, 0.99):.0f} ms",
        "requests to the API server for an edit": f"{max(0.0, asked) / EDITS:.1f}",
        "CPU of the operator for an edit": f"{1000 * max(0.0, cpu_s) / EDITS:.0f} ms",
        f"{runs} tables more, until each has a run at work": f"{started_s:.0f} s",
        **_rest_rows(f"with {runs} runs at work", working),
    }


def _rest_rows(when: str, rest: Rest) -> dict[str, str]:
    return {
        f"memory {when}": f"{rest.memory_mib:.0f} MiB",
        f"CPU {when}, of a core": f"{100 * rest.cpu:.1f} %",
        f"requests to the API server {when}": f"{rest.requests_per_s:.2f} a second",
    }


def _rest(pid: int, port: int) -> Rest:
    cpu_s, requests = _cpu_s(pid), _requests(port)
    time.sleep(REST_S)
    return Rest(
        cpu=(_cpu_s(pid) - cpu_s) / REST_S,
        requests_per_s=(_requests(port) - requests) / REST_S,
        memory_mib=_memory_mib(pid),
    )


def _declare_all(cluster: clusters.Cluster, numbers: range) -> None:
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: _declare(cluster, number), numbers))


def _declare(cluster: clusters.Cluster, number: int) -> None:
    table, policy = f"table-{number}", f"policy-{number}"
    spec = rule_examples.edited(rule_examples.TABLE, storage={"path": f"bench/{number}"})
    target = {"target": {"tableRef": {"name": table}}, "triggers": {"deltaCommits": 4}}
    for kind, name, declared in (
        (kinds.HUDI_TABLE, table, spec),
        (kinds.COMPACTION_POLICY, policy, target),
    ):
        made = objects.document(kind, name, declared)
        made["metadata"]["labels"] = LABELS
        cluster.api.create(objects.collection(kind, NAMESPACE), made)


def _declare_retention(cluster: clusters.Cluster) -> None:
    spec = rule_examples.edited(
        rule_examples.RETENTION, target={"tableSelector": {"matchLabels": LABELS}}
    )
    made = objects.document(kinds.RETENTION_POLICY, "all", spec)
    cluster.api.create(objects.collection(kinds.RETENTION_POLICY, NAMESPACE), made)


def _seconds_until(holds: Callable[[], bool]) -> float:
    """Return after how long a condition holds.

    It is asked seldom: to list all tables keeps the API server from what is measured.
    """
    began_s = time.monotonic()
    while not holds():
        if time.monotonic() - began_s > WAIT_S:
            raise TimeoutError(f"not within {WAIT_S:.0f} s: the tables are as they are to be")
        time.sleep(POLL_S)
    return time.monotonic() - began_s


def _ready(cluster: clusters.Cluster) -> int:
    path = objects.collection(kinds.HUDI_TABLE, NAMESPACE)
    return sum(_is_ready(each) for each in cluster.api.get(path)["items"])


def _at_work(cluster: clusters.Cluster) -> int:
    path = objects.collection(kinds.HUDI_TABLE, NAMESPACE)
    runs = [each.get("status", {}).get("runs", {}) for each in cluster.api.get(path)["items"]]
    return sum("current" in each for each in runs)


def _is_ready(table: dict[str, Any]) -> bool:
    return bool(table.get("status", {}).get("state") == "Ready")


def _some(count: int) -> list[int]:
    return random.Random(1).choices(range(count), k=EDITS)


def _edit(cluster: clusters.Cluster, number: int) -> float:
    """Edit a table, and return after how many seconds its status answers."""
    path = objects.path(kinds.HUDI_TABLE, NAMESPACE, f"table-{number}")
    is_suspended = cluster.api.get(path)["spec"].get("suspend", False)
    began_s = time.monotonic()
    edited = cluster.api.merge(path, {"spec": {"suspend": not is_suspended}})
    wanted = edited["metadata"]["generation"]
    while cluster.api.get(path).get("status", {}).get("observedGeneration") != wanted:
        time.sleep(0.005)
    return time.monotonic() - began_s


def _ms(sorted_s: list[float], quantile: float) -> float:
    if quantile == 0.5:
        return statistics.median(sorted_s) * 1000
    return sorted_s[min(len(sorted_s) - 1, int(len(sorted_s) * quantile))] * 1000


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def _memory_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def _requests(port: int) -> float:
    """Return how often the API server has answered the operator; Kopf's watches are not counted."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
    finally:
        connection.close()
    counts = [line for line in lines if line.startswith("hudi_api_requests_total{")]
    return sum(float(line.rpartition(" ")[2]) for line in counts)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _header() -> str:
    return f"""# The operator with many tables

Written by `make bench-cluster` on {datetime.now(UTC):%Y-%m-%d}.
{machine.circumstances()}.

One operator beside a real kube-apiserver and etcd on the same machine; each table has a
CompactionPolicy, one RetentionPolicy selects them all, all are in one namespace, and tables are
looked at every 30 s. What runs and
observers do is left out; runs at work are Jobs that nobody carries out.
"""


if __name__ == "__main__":
    main()
