"""The example of flights in a cluster: its input, what its table has to hold, how far it is."""

import dataclasses
import importlib.util
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hoodie import table
from hoodie.model import instants
from hoodie.model.commits import WRITER_ID_KEY
from hoodie_operator.api import group
from hoodie_operator.manifests import naming
from support.operators import installed_operator

FOLDER: Final = Path(__file__).parents[3] / "examples" / "flights"
MANIFESTS: Final = FOLDER / "kubernetes"
LAST_MONTH: Final = 6
"""Of the year that the example has, half is enough."""

COMMITS: Final[Mapping[str, int]] = {"schedules": 3, "actuals": LAST_MONTH}
"""An airport each, and a month each."""

_KEY = [("time_hour", "ascending"), ("carrier", "ascending"), ("flight", "ascending")]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Flights:
    """What the Writers read.

    Attributes:
        folder: Their files, as they have to lie in the volume.
        rows: What the table has to hold in the end.
    """

    folder: Path
    rows: pa.Table

    def are_in(self, opened: table.Table) -> bool:
        """Return whether a table holds them, each once, and nothing else."""
        found = opened.read().read_all().select(self.rows.column_names)
        return bool(found.sort_by(_KEY).equals(self.rows.sort_by(_KEY)))


@pytest.fixture(scope="session")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Flights:
    """The flights of the first half of the year."""
    folder = tmp_path_factory.mktemp("flights")
    subprocess.run([sys.executable, str(FOLDER / "prepare.py"), str(folder)], check=True)
    for path in (folder / "schedules").iterdir():
        header, *lines = path.read_text().splitlines(keepends=True)
        month = header.rstrip().split(",").index("month")
        first = [line for line in lines if int(line.split(",")[month]) <= LAST_MONTH]
        path.write_text("".join([header, *first]))
    for path in (folder / "actuals").iterdir():
        if int(path.stem.rpartition("-")[2]) > LAST_MONTH:
            path.unlink()
    preparation = _preparation()
    everything: pa.Table = preparation.read_typed(preparation.source_path())
    return Flights(folder=folder, rows=everything.filter(pc.field("month") <= LAST_MONTH))


def _preparation() -> ModuleType:
    spec = importlib.util.spec_from_file_location("flights_prepare", FOLDER / "prepare.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def running(lake: installed_operator.Lake) -> frozenset[tuple[str, str]]:
    """Return which roles run for which owner, as (owner, role)."""
    return frozenset(
        (
            each["metadata"]["labels"][f"{group.GROUP}/owner-name"],
            each["metadata"]["labels"][naming.ROLE],
        )
        for each in lake.list("pods", f"{group.GROUP}/attempt")
        if each["status"].get("phase") == "Running"
    )


def are_done(lake: installed_operator.Lake) -> bool:
    """Return whether the Writers have committed all, and a compaction has been executed."""
    files = [each.get("status", {}).get("files") or {} for each in lake.list("writers")]
    actions = [
        each.get("status", {}).get("state")
        for each in lake.list("tableactions")
        if each["spec"]["type"] == "Compaction"
    ]
    return all(
        each.get("total") and each.get("total") == each.get("committed") for each in files
    ) and actions == ["Succeeded"] * max(1, len(actions))


def commits(opened: table.Table) -> dict[str, list[instants.Instant]]:
    """Return the completed writes of each Writer; compactions are the empty name's."""
    found: dict[str, list[instants.Instant]] = {}
    # A write that was broken off is pending until the next one, or a rollback, takes it back.
    completed = [each for each in opened.timeline().instants if each.completion_time is not None]
    for instant, metadata in opened.metadata(completed).items():
        found.setdefault(metadata.extra.get(WRITER_ID_KEY) or "", []).append(instant)
    return found


def check(opened: table.Table, expected: Flights) -> None:
    """Check that each file was committed once, something was compacted, and all rows are right."""
    found = commits(opened)
    assert {name: len(found[name]) for name in COMMITS} == COMMITS
    assert found[""]
    assert expected.are_in(opened)


def overlap(first: Sequence[instants.Instant], second: Sequence[instants.Instant]) -> bool:
    """Return whether a write of the one began while one of the other was under way."""
    return any(
        one.requested_time < str(other.completion_time)
        and other.requested_time < str(one.completion_time)
        for one in first
        for other in second
    )
