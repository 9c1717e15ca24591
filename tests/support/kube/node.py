"""A real node beside a control plane: containerd, kubelet, kube-proxy and DNS, for pods that run.

Terms: the bridge is the network of all pods; its own address serves as the node's, the API server's
and the DNS server's, so that it does not matter what network the machine has.

Only for private namespaces (`support.kube.isolation`): it changes mounts, firewall and cgroups.
"""

import json
import subprocess
from pathlib import Path
from typing import Final

import yaml

from support.kube import api, control_plane, images, programs
from support.kube.credentials import NODE

ADDRESS: Final = "10.244.0.1"
"""Of the bridge."""

_BRIDGE = "pods"
_NETWORK = "10.244.0.0/24"
_FIRST_POD = "10.244.0.10"
_CGROUPS = Path("/sys/fs/cgroup")
_PODS_WEIGHT = 8


class Node:
    """The one node of a cluster."""

    def __init__(self, plane: control_plane.ControlPlane, store: Path, cgroup: str) -> None:
        """Take a place.

        Args:
            plane: Of whom it is a node; answers at `ADDRESS`.
            store: containerd's, which survives so that images are imported once; on a disk, as an
                overlay cannot lie on another one. One running node each.
            cgroup: The name of the cgroup that pods run below.
        """
        self._plane = plane
        self._store = store
        self._cgroup = cgroup
        self._folder = plane.folder / "node"
        self._folder.mkdir()
        self.socket = self._folder / "containerd.sock"

    def start(self) -> None:
        """Start all, and return once pods can run."""
        self._start("containerd", "containerd", f"--config={self._containerd_config()}")
        asked = ["ctr", "--address", str(self.socket), "version"]
        programs.wait_until(lambda: _succeeds(*asked), "containerd answers")
        pause = images.write_pause(self._folder, Path(self._plane.binaries.pause))
        images.import_archive(self.socket, pause)
        for folder in cgroup_folders(self._cgroup):
            folder.mkdir(exist_ok=True)
            _weigh(folder)
        _forward_packets()
        kube = self._plane.binaries.kube
        files = self._plane.credentials
        self._start(
            "kubelet", kube, "kubelet",
            f"--config={self._kubelet_config()}",
            f"--kubeconfig={files.kubeconfig(NODE)}",
            f"--root-dir={self._folder / 'kubelet'}",
            f"--cert-dir={self._folder / 'kubelet-certificates'}",
            f"--hostname-override={NODE}",
            f"--node-ip={ADDRESS}",
        )  # fmt: skip
        self._start("kube-proxy", kube, "kube-proxy", f"--config={self._proxy_config()}")
        self._start("coredns", kube, "coredns", "-conf", str(self._dns_config()))
        programs.wait_until(self._is_ready, "the node is ready")

    def _start(self, name: str, *command: str) -> None:
        programs.Program(name, command, self._plane.logs / f"{name}.log")

    def _is_ready(self) -> bool:
        answer = self._plane.api.request("GET", f"/api/v1/nodes/{NODE}")
        # Until the kubelet has registered it, it is not found.
        return answer.is_accepted and api.is_true(answer.body, "Ready")

    def _write(self, name: str, content: str) -> Path:
        path = self._folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
        return path

    def _containerd_config(self) -> Path:
        self._network_config()
        self._store.mkdir(parents=True, exist_ok=True)
        return self._write(
            "containerd.toml",
            f"""\
version = 2
root = "{self._store}"
state = "{self._folder}/containerd"
# Without CAP_SYS_RESOURCE nobody may lower these scores, and runc dies trying.
oom_score = 0
[grpc]
address = "{self.socket}"
[ttrpc]
address = "{self.socket}.ttrpc"
[plugins."io.containerd.internal.v1.opt"]
path = "{self._folder}/opt"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{images.PAUSE}"
disable_apparmor = true
restrict_oom_score_adj = true
tolerate_missing_hugetlb_controller = true
disable_hugetlb_controller = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{self._folder}/network"
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
default_runtime_name = "runc"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
""",
        )

    def _network_config(self) -> None:
        addresses = {
            "type": "host-local",
            "dataDir": str(self._folder / "pod-addresses"),
            "ranges": [[{"subnet": _NETWORK, "rangeStart": _FIRST_POD, "gateway": ADDRESS}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        }
        bridge = {
            "type": "bridge",
            "bridge": _BRIDGE,
            "isGateway": True,
            "ipMasq": True,
            "hairpinMode": True,
            "ipam": addresses,
        }
        ports = {"type": "portmap", "capabilities": {"portMappings": True}}
        network = {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge, ports]}
        self._write("network/10-pods.conflist", json.dumps(network))

    def _kubelet_config(self) -> Path:
        return self._write(
            "kubelet.yaml",
            yaml.safe_dump(
                {
                    "apiVersion": "kubelet.config.k8s.io/v1beta1",
                    "kind": "KubeletConfiguration",
                    "address": ADDRESS,
                    "healthzBindAddress": "127.0.0.1",
                    # Everybody may come in: nobody else is in this network namespace.
                    "authentication": {
                        "anonymous": {"enabled": True},
                        "webhook": {"enabled": False},
                    },
                    "authorization": {"mode": "AlwaysAllow"},
                    "cgroupDriver": "cgroupfs",
                    "cgroupRoot": f"/{self._cgroup}",
                    "failCgroupV1": False,
                    "failSwapOn": False,
                    "oomScoreAdj": 0,
                    "clusterDomain": "cluster.local",
                    "clusterDNS": [ADDRESS],
                    "resolvConf": str(self._write("resolv.conf", "")),
                    "containerRuntimeEndpoint": f"unix://{self.socket}",
                    "podLogsDir": str(self._folder / "pod-logs"),
                    "volumePluginDir": str(self._folder / "volume-plugins"),
                    # Tests fill disks and memory of pods, not of the machine.
                    "evictionHard": {
                        "memory.available": "100Mi",
                        "nodefs.available": "1%",
                        "nodefs.inodesFree": "1%",
                        "imagefs.available": "1%",
                    },
                    # Images cannot be pulled again.
                    "imageGCHighThresholdPercent": 100,
                    "nodeStatusUpdateFrequency": "5s",
                    "nodeLeaseDurationSeconds": 20,
                    "syncFrequency": "10s",
                }
            ),
        )

    def _proxy_config(self) -> Path:
        kubeconfig = self._plane.credentials.kubeconfig("proxy")
        return self._write(
            "proxy.yaml",
            yaml.safe_dump(
                {
                    "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
                    "kind": "KubeProxyConfiguration",
                    "clientConnection": {"kubeconfig": str(kubeconfig)},
                    "hostnameOverride": NODE,
                    "oomScoreAdj": 0,
                    "clusterCIDR": _NETWORK,
                    "mode": "iptables",
                    "conntrack": {"maxPerCore": 0, "min": 0},
                }
            ),
        )

    def _dns_config(self) -> Path:
        return self._write(
            "Corefile",
            f"""\
.:53 {{
  bind {ADDRESS}
  errors
  kubernetes cluster.local in-addr.arpa ip6.arpa {{
    kubeconfig {self._plane.kubeconfig}
    ttl 2
  }}
}}
""",
        )


def make_bridge() -> None:
    """Make the pods' network, before the API server starts at its address."""
    _run("ip", "link", "set", "lo", "up")
    _run("ip", "link", "add", _BRIDGE, "type", "bridge")
    _run("ip", "address", "add", f"{ADDRESS}/24", "dev", _BRIDGE)
    _run("ip", "link", "set", _BRIDGE, "up")


def _forward_packets() -> None:
    """Let packets of pods go on, and through the firewall that kube-proxy writes."""
    for name in ("ipv4/ip_forward", "bridge/bridge-nf-call-iptables"):
        setting = Path("/proc/sys/net") / name
        if setting.exists():  # The second is there with a module of the kernel, or built in.
            setting.write_text("1\n")


def cgroup_folders(name: str) -> list[Path]:
    """Return the folders of a cgroup: one in version 2, in version 1 one of each controller."""
    if (_CGROUPS / "cgroup.controllers").exists():
        return [_CGROUPS / name]
    # A controller's second name is a link to the folder it shares with others.
    roots = (root for root in _CGROUPS.iterdir() if root.is_dir() and not root.is_symlink())
    return [root / name for root in roots]


def _weigh(cgroup: Path) -> None:
    """Give all pods together the weight of several processes, which they are, not of one."""
    for name, normal in (("cpu.shares", 1024), ("cpu.weight", 100)):
        if (weight := cgroup / name).exists():
            weight.write_text(str(normal * _PODS_WEIGHT))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _succeeds(*command: str) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0
