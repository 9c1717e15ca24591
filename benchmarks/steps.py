"""What one side of a benchmark measured."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One timed step; `peak_bytes` is the highest resident memory while it ran."""

    name: str
    seconds: float
    peak_bytes: int
    stored_bytes: int

    def __str__(self) -> str:
        return (
            f"{self.name:28} {self.seconds:8.3f} s {self.peak_bytes / 2**20:8.0f} MiB"
            f" {self.stored_bytes / 1e6:8.1f} MB"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """All steps of one workload, once."""

    side: str
    workload: str
    steps: tuple[Step, ...]
    rows: int
