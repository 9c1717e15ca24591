"""Run a command beside a whole cluster, in private namespaces, so that nothing of it is left.

    python -m support.kube.isolation COMMAND...

Mounts, network, processes and what the machine's fixed places hold (/run, /var/lib, ...) are the
run's own. When it ends, or is killed, the kernel takes them all. What a killed run leaves are empty
cgroups and an empty folder, which the next run removes. Needs root and Debian's packages
(tools/cluster_packages.sh). The command finds the cluster by `HUDI_TEST_KUBECONFIG`.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from support.kube import binaries, clusters, control_plane, node

LOGS: Final = Path(__file__).parents[3] / "build" / "test-cluster" / "logs"

_INSIDE = "--inside"
_CGROUP_PREFIX = "hudi-operator-tests-"
# Where CNI plug-ins, containerd and kubelet write whatever they are told.
_COVERED = ("/var/lib", "/var/log", "/usr/libexec")
# What the kubelet wants of the kernel holds for the whole machine. It reads and writes these.
_KERNEL_SETTINGS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)


def main(command: list[str]) -> int:
    """Run a command beside a cluster and return its exit code."""
    folder = binaries.cache_folder() / "cluster"
    folder.mkdir(parents=True, exist_ok=True)
    # Within, nothing can be fetched.
    binaries.ensure(*binaries.FIRST)
    with _only_one(folder / "lock"):
        _sweep()
        shutil.rmtree(LOGS, ignore_errors=True)
        try:
            return subprocess.run(_isolated(folder, command), check=False).returncode
        finally:
            _sweep()


def _isolated(folder: Path, command: list[str]) -> list[str]:
    return [
        # Whoever kills this process kills all: the kernel ends the first process of the namespaces
        # with it, and every other one with the first.
        "setpriv", "--pdeathsig", "KILL", "--",
        "unshare", "--mount", "--net", "--pid", "--ipc",
        "--fork", "--mount-proc", "--kill-child=KILL", "--",
        # The first process has to bury those whose parents have gone, which a shell does.
        "bash", "-c", '"$@"; exit $?', "init",
        sys.executable, "-m", "support.kube.isolation", _INSIDE, str(os.getpid()),
        str(folder), *command,
    ]  # fmt: skip


def run_inside(run_name: str, folder: Path, command: list[str]) -> int:
    """Start a cluster in the namespaces that this process is in, and run a command beside it.

    Args:
        run_name: Tells its cgroup from those of other runs. Within a namespace of processes, their
            numbers do not: a kubelet would end the pods of another run, which it does not know.
        folder: Where its store is kept.
        command: What is run.
    """
    began = time.monotonic()
    run = folder / "run"
    _cover_machine(run)
    node.make_bridge()
    plane = control_plane.ControlPlane(
        binaries.ensure(*binaries.FIRST), run / "cluster", node.ADDRESS, logs=LOGS
    )
    plane.start()
    real = node.Node(plane, folder / "containerd", f"{_CGROUP_PREFIX}{run_name}")
    real.start()
    # Tests cannot begin anew what this process has begun.
    signal.signal(signal.SIGUSR1, lambda *_: plane.restart_api_server())
    print(f"==> The cluster is ready after {time.monotonic() - began:.1f} s", file=sys.stderr)
    environment = {
        **os.environ,
        clusters.KUBECONFIG: str(plane.kubeconfig),
        clusters.CONTAINERD: str(real.socket),
        clusters.KEEPER: str(os.getpid()),
    }
    return subprocess.run(command, check=False, env=environment).returncode


def _cover_machine(run: Path) -> None:
    """Put folders and files of our own over those that the parts of a node write."""
    run.mkdir(exist_ok=True)
    # Containers are mounted by containerd's children, which only see shared mounts.
    _mount("--make-rshared", "/")
    _mount("-t", "tmpfs", "tmpfs", str(run))
    _mount("-t", "tmpfs", "tmpfs", "/run")
    for covered in _COVERED:
        upper, work = run / "over" / covered[1:] / "upper", run / "over" / covered[1:] / "work"
        upper.mkdir(parents=True)
        work.mkdir()
        options = f"lowerdir={covered},upperdir={upper},workdir={work}"
        _mount("-t", "overlay", "overlay", "-o", options, covered)
    for name in _KERNEL_SETTINGS:
        setting = Path("/proc/sys") / name
        if setting.exists():
            copy = run / "kernel" / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(setting.read_text())
            _mount("--bind", str(copy), str(setting))


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def _sweep() -> None:
    """Remove the cgroups of runs that have ended; those of living processes cannot be."""
    for pattern in node.cgroup_folders(f"{_CGROUP_PREFIX}*"):
        for root in pattern.parent.glob(pattern.name):
            for folder in [*sorted(root.rglob("*/"), reverse=True), root]:
                with contextlib.suppress(OSError):
                    folder.rmdir()


@contextlib.contextmanager
def _only_one(path: Path) -> Iterator[None]:
    """Hold a lock: containerd's store, which outlives runs, has one owner."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("==> Waiting for another run beside a cluster", file=sys.stderr)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    if sys.argv[1:2] == [_INSIDE]:
        sys.exit(run_inside(sys.argv[2], Path(sys.argv[3]), sys.argv[4:]))
    if len(sys.argv) == 1:
        sys.exit("usage: python -m support.kube.isolation COMMAND...")
    sys.exit(main(sys.argv[1:]))
