"""The processes of a pod, to kill or to freeze them, where those of its node are seen from here.

So they are beside a cluster in private namespaces, and beside kind's nodes on one's own machine.
"""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Pod = dict[str, Any]


def send(pod: Pod, number: signal.Signals) -> None:
    """Send a signal to all processes of a pod.

    Raises:
        LookupError: None of them is seen.
    """
    found = list(_of(pod["metadata"]["uid"]))
    if not found:
        raise LookupError(f"no process of pod {pod['metadata']['name']} is seen from here")
    for process in found:
        # With the first process of a container all others of it end.
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)


def _of(uid: str) -> Iterator[int]:
    # As the kubelet names a pod's cgroup, by either of its drivers.
    names = (f"pod{uid}", f"pod{uid.replace('-', '_')}")
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            groups = (folder / "cgroup").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue  # It has ended meanwhile.
        if any(name in groups for name in names):
            yield int(folder.name)
