"""The machine that a figure is of."""

import os
import platform
from pathlib import Path


def circumstances() -> str:
    """Return what else a figure depends on: machine, what it does already, Python."""
    load = os.getloadavg()[0]
    return f"{described()}, load {load:.1f} before; Python {platform.python_version()}"


def described() -> str:
    """Return its cores, processor and memory, as the head of a page of figures tells them."""
    processor = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores ({processor}), {memory_gib:.0f} GiB"
