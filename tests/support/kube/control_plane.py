"""A control plane of real programs: etcd, kube-apiserver, controllers and scheduler.

It needs no root and leaves nothing behind but its folder. `python -m support.kube.control_plane
FOLDER` runs one until it is told to end (SIGTERM, Ctrl-C).
"""

import shutil
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from support.kube import api, binaries, credentials, programs

SERVICES: Final = "10.96.0.0/16"
SERVICE_ADDRESS: Final = "10.96.0.1"
"""Where pods find the API server."""

_CONTROLLERS = (
    "*",
    "-cloud-node-lifecycle-controller",
    "-node-route-controller",
    "-service-lb-controller",
)
_LOOPBACK = "127.0.0.1"
_DEFAULT_ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"


class ControlPlane:
    """One control plane in a folder of its own."""

    def __init__(
        self,
        built: binaries.Binaries,
        folder: Path,
        address: str = _LOOPBACK,
        logs: Path | None = None,
    ) -> None:
        """Take a place.

        Args:
            built: What to start.
            folder: For data, credentials and logs; must not be there.
            address: The IP address to answer at beside loopback; nodes need one that is not.
            logs: Where logs go, if not into the folder.
        """
        self.binaries = built
        self.folder = folder
        self.address = address
        self.logs = logs or folder / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self._port, self._etcd_port, self._peer_port = _free_ports(3)
        self.server = f"https://{address}:{self._port}"
        addresses = [_LOOPBACK, SERVICE_ADDRESS, address]
        self.credentials = credentials.make(folder / "credentials", addresses)
        credentials.make_accounts(self.credentials, self.server)
        self.api = api.connect(self.kubeconfig)
        self._started: dict[str, programs.Program] = {}

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.credentials.kubeconfig("admin")

    def start(self) -> None:
        """Start all, and return once a pod could be created in the default namespace."""
        self._start("etcd", *self._etcd_flags())
        self.start_api_server()
        self._start("kube-controller-manager", *self._controller_flags())
        self._start("kube-scheduler", *self._scheduler_flags())
        self._wait(lambda: self.api.is_there(_DEFAULT_ACCOUNT), "the controllers run")

    def start_api_server(self) -> None:
        """Start the API server, for the first time or again, and return once it is ready."""
        self._start("kube-apiserver", *self._api_server_flags())
        self._wait(lambda: self.api.is_there("/readyz"), "the API server is ready")

    def restart_api_server(self) -> None:
        """Kill the API server, and return once another one is ready."""
        self.program("kube-apiserver").kill()
        self.start_api_server()

    def program(self, name: str) -> programs.Program:
        """Return a part, to kill or to pause it."""
        return self._started[name]

    def stop(self) -> None:
        """End all, the API server after those that use it."""
        for name in ("kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd"):
            if name in self._started:
                # Nothing here is worth an orderly end: the data is thrown away.
                self._started[name].kill()

    def _start(self, name: str, *flags: str) -> None:
        command = [self.binaries.kube, name, *flags]
        self._started[name] = programs.Program(name, command, self.logs / f"{name}.log")

    def _wait(self, holds: Callable[[], bool], what: str) -> None:
        programs.wait_until(holds, what, needs=list(self._started.values()))

    def _etcd_flags(self) -> list[str]:
        clients = f"http://{_LOOPBACK}:{self._etcd_port}"
        peers = f"http://{_LOOPBACK}:{self._peer_port}"
        return [
            f"--data-dir={self.folder / 'etcd'}",
            "--unsafe-no-fsync",
            "--log-level=warn",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
        ]

    def _api_server_flags(self) -> list[str]:
        files = self.credentials
        # The address is told to pods as the service `kubernetes`, which loopback cannot be.
        endpoints = ["--endpoint-reconciler-type=none"] if self.address == _LOOPBACK else []
        return [
            f"--etcd-servers=http://{_LOOPBACK}:{self._etcd_port}",
            f"--bind-address={_LOOPBACK if self.address == _LOOPBACK else '0.0.0.0'}",
            f"--advertise-address={self.address}",
            f"--secure-port={self._port}",
            f"--service-cluster-ip-range={SERVICES}",
            f"--tls-cert-file={files.server}",
            f"--tls-private-key-file={files.server_key}",
            f"--client-ca-file={files.ca}",
            f"--token-auth-file={files.tokens}",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={files.accounts_key}",
            f"--service-account-signing-key-file={files.accounts_key}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            "--profiling=false",
            "--kubelet-preferred-address-types=InternalIP",
            # One user does all the requests of a test; fairness would only slow them down.
            "--enable-priority-and-fairness=false",
            "--v=1",
            *endpoints,
        ]

    def _controller_flags(self) -> list[str]:
        files = self.credentials
        return [
            f"--kubeconfig={files.kubeconfig('controllers')}",
            "--leader-elect=false",
            "--secure-port=0",
            "--use-service-account-credentials",
            f"--service-account-private-key-file={files.accounts_key}",
            f"--root-ca-file={files.ca}",
            f"--controllers={','.join(_CONTROLLERS)}",
            # With its default of 20 requests a second the controllers start 5 s later.
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
            "--v=1",
        ]

    def _scheduler_flags(self) -> list[str]:
        return [
            f"--kubeconfig={self.credentials.kubeconfig('scheduler')}",
            "--leader-elect=false",
            "--secure-port=0",
            "--v=1",
        ]


def _free_ports(count: int) -> list[int]:
    """Return ports that are free now; all are held until the last is known, so that they differ."""
    holders = [socket.socket() for _ in range(count)]
    try:
        for holder in holders:
            holder.bind((_LOOPBACK, 0))
        return [holder.getsockname()[1] for holder in holders]
    finally:
        for holder in holders:
            holder.close()


def main(folder: Path) -> None:
    """Run one control plane in a folder, which is emptied first, until told to end."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    shutil.rmtree(folder, ignore_errors=True)
    plane = ControlPlane(binaries.ensure("kube"), folder.resolve())
    try:
        plane.start()
        print(f"export KUBECONFIG={plane.kubeconfig}", flush=True)
        while True:
            signal.pause()
    finally:
        plane.stop()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m support.kube.control_plane FOLDER")
    main(Path(sys.argv[1]))
