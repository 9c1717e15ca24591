"""A network of this machine alone: sites with an address each, and cables that can be cut.

This process stands at `HOST`; what runs in a site reaches it, and nothing else, through the site's
cable. A cut cable loses packets without a word, as a broken switch does. It needs network
namespaces (root), and must itself run in one of its own, where nothing of it is left behind.
"""

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

HOST = "198.18.0.1"
"""Our own address; the block is kept for tests of networks (RFC 2544)."""

_BRIDGE = "bridge0"
_START_S = 10.0


def raise_loopback() -> None:
    """Let processes of this network namespace reach each other at 127.0.0.1."""
    _ip("link", "set", "lo", "up")


class Network:
    """Sites around a bridge, for as long as this process lives."""

    def __init__(self, sites: Sequence[str]) -> None:
        """Build it."""
        _ip("link", "add", _BRIDGE, "type", "bridge")
        _ip("address", "add", f"{HOST}/24", "dev", _BRIDGE)
        _ip("link", "set", _BRIDGE, "up")
        self._namespaces: dict[str, Path] = {}
        self._keepers = []
        for number, site in enumerate(sites, start=1):
            # A namespace is there while somebody is in it: this one is, until its input ends.
            keeper = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE)
            self._keepers.append(keeper)
            self._namespaces[site] = _namespace_of(keeper.pid)
            inside, peer = self.command(site), str(keeper.pid)
            _ip("link", "add", site, "type", "veth", "peer", "name", "cable", "netns", peer)
            _ip("link", "set", site, "master", _BRIDGE, "up")
            _ip("address", "add", f"198.18.0.{number + 1}/24", "dev", "cable", inside=inside)
            for device in ("cable", "lo"):
                _ip("link", "set", device, "up", inside=inside)

    def command(self, site: str) -> tuple[str, ...]:
        """Return what stands before a command that is to run in a site."""
        return ("nsenter", f"--net={self._namespaces[site]}")

    def cut(self, site: str) -> None:
        """Lose every packet from and to a site from now on."""
        _ip("link", "set", site, "down")

    def mend(self, site: str) -> None:
        """Carry packets again."""
        _ip("link", "set", site, "up")


def _namespace_of(pid: int) -> Path:
    """Return the namespace of a process that is about to enter one of its own."""
    ours, theirs = Path("/proc/self/ns/net").readlink(), Path(f"/proc/{pid}/ns/net")
    deadline_s = time.monotonic() + _START_S
    while theirs.readlink() == ours:
        assert time.monotonic() < deadline_s, "no network namespace could be made"
        time.sleep(0.01)
    return theirs


def _ip(*arguments: str, inside: Sequence[str] = ()) -> None:
    subprocess.run([*inside, "ip", *arguments], check=True)
