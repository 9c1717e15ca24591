"""The most memory that this process has held since it was last asked to forget that."""

from pathlib import Path

_PROCESS = Path("/proc/self")


def begin() -> int:
    """Return the mebibytes that this process holds now, and measure from here on."""
    (_PROCESS / "clear_refs").write_text("5")
    return peak_mib()


def peak_mib() -> int:
    """Return the mebibytes that this process held at most."""
    lines = (_PROCESS / "status").read_text(encoding="ascii").splitlines()
    (line,) = (line for line in lines if line.startswith("VmHWM:"))
    return int(line.split()[1]) >> 10
