"""A place with manifests, data and state, and the operator on it, with fake jobs or real ones."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from hoodie import environment
from hoodie.model import settings
from hoodie_operator.api import group, objects
from hoodie_operator.observing.tables import TableObserver, TableTarget
from hoodie_operator.standalone import store

PROGRAMS = Path(__file__).parents[2] / "standalone" / "programs"
PATIENCE_S = 180.0

TABLE = {
    "storage": {"path": "flights"},
    "schema": {
        "columns": [
            {"name": "id", "type": "string"},
            {"name": "a", "type": "string"},
            {"name": "b", "type": "int"},
        ]
    },
    "keys": {"recordFields": ["id"]},
    "merge": {"partialUpdates": True},
    "writeIndex": {"bucket": {"count": 2}},
    "concurrency": {"mode": "NonBlocking", "lockRef": {"name": "lock"}},
}


class Place:
    """A folder of manifests and what belongs to it."""

    def __init__(self, root: Path) -> None:
        self.manifests = root / "manifests"
        self.data = root / "data"
        self.state = root / "state"
        self.control = root / "control.json"
        self.processes: list[subprocess.Popen[str]] = []
        for folder in (self.manifests, self.data):
            folder.mkdir()
        self.behave()

    # What users do

    def declare(self, kind: str, name: str, spec: dict[str, Any], file: str | None = None) -> Path:
        """Write a manifest; one of the same file replaces it."""
        path = self.manifests / (file or f"{kind}-{name}.yaml")
        document = {
            "apiVersion": group.API_VERSION,
            "kind": kind,
            "metadata": {"name": name},
            "spec": spec,
        }
        partial = path.with_suffix(".partial")
        partial.write_text(yaml.safe_dump(document))
        partial.replace(path)
        return path

    def declare_flights(self, writers: Sequence[str] = ("left", "right"), **edits: Any) -> None:  # noqa: ANN401
        """Declare a lock, a table and writers of one column each, with four files each."""
        self.declare("LockProvider", "lock", {"type": "FileSystem"})
        self.declare("HudiTable", "flights", {**TABLE, **edits})
        for name in writers:
            self.declare_writer(name)

    def declare_writer(self, name: str, **edits: Any) -> None:  # noqa: ANN401
        """Declare a writer."""
        column = {"left": "a", "right": "b"}.get(name, "a")
        for number in range(1, 5):
            self.put_file(name, number, column)
        files = {"path": f"{name}/*.csv", "format": "CSV"}
        retry = {"backoff": {"initial": "100ms", "max": "1s"}}
        spec = {"tableRef": {"name": "flights"}, "source": {"files": files}, "retry": retry}
        self.declare("Writer", name, {**spec, **edits})

    def put_file(self, folder: str, number: int, column: str = "a") -> None:
        """Write one input file."""
        path = self.data / folder / f"{number}.csv"
        path.parent.mkdir(exist_ok=True)
        rows = [f"{number}-{row},{number}" for row in range(10)]
        path.write_text("\n".join([f"id,{column}", *rows, ""]))

    # What fake jobs do

    def behave(self, **control: object) -> None:
        """Say how fake jobs behave from now on."""
        partial = self.control.with_suffix(".partial")
        partial.write_text(json.dumps(control))
        partial.replace(self.control)

    @property
    def journal(self) -> list[list[str]]:
        """What fake jobs did, in order."""
        path = self.control.with_suffix(".journal")
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def commits(self, writer: str) -> list[str]:
        """The files that the table's timeline holds of a writer, in order."""
        # The journal lacks the commit after which a job was killed.
        uri = f"file://{self.data.resolve()}/flights"
        target = TableTarget(uri=uri, settings=settings.WriteSettings())
        seen = TableObserver(environment.system()).look(target)
        return [
            (commit.batch_id or "").partition("@")[0]
            for commit in seen.commits
            if commit.writer_id == writer
        ]

    # The operator

    @property
    def environment(self) -> dict[str, str]:
        paths = os.pathsep.join(filter(None, (str(PROGRAMS), os.environ.get("PYTHONPATH"))))
        return {**os.environ, "PYTHONPATH": paths, "FAKE_CONTROL": str(self.control)}

    def start(self, *options: str) -> "subprocess.Popen[str]":
        """Start an operator with fake jobs."""
        arguments = [str(self.manifests), str(self.state), str(self.data), *options]
        process = subprocess.Popen(
            [sys.executable, "-m", "fake_operator", *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.processes.append(process)
        return process

    def start_real(self, *options: str) -> "subprocess.Popen[str]":
        """Start `hudi-operator standalone` itself."""
        folders = ("--data", str(self.data), "--state", str(self.state))
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "hoodie_operator", "standalone"),
                *("-f", str(self.manifests), *folders, *options),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.processes.append(process)
        return process

    def settle(self, *options: str) -> tuple[int, str]:
        """Run an operator with fake jobs until settled; return exit code and output."""
        process = self.start(*options)
        output, _ = process.communicate(timeout=PATIENCE_S)
        return process.returncode, output

    def command(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run `hudi-operator` itself."""
        return subprocess.run(
            [sys.executable, "-m", "hoodie_operator", *arguments],
            env={**os.environ, "COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    # What is there

    def object(self, kind: str, name: str) -> objects.AnyObject | None:
        """Return a stored object."""
        for key, found in store.load(self.state).items():
            if (key.kind, key.name) == (kind, name):
                return found
        return None

    def condition(self, kind: str, name: str) -> tuple[str, str, str]:
        """Return an object's state, and reason and message of its Ready condition."""
        found = self.object(kind, name)
        if found is None or not found.status.conditions:
            return "", "", ""
        ready = found.status.conditions[0]
        return found.status.state or "", ready.reason, ready.message

    def wait_for(self, is_so: Callable[[], bool], what: str) -> None:
        """Wait until something is so."""
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < deadline, f"never: {what}\n{self.journal}"
            time.sleep(0.05)

    def close(self) -> None:
        """End what the test has started: its operators, and what their runs left."""
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        for path in self.state.glob("runs/*/process.json"):
            known = json.loads(path.read_text())
            if known is not None and not (path.parent / "end.json").exists():
                _kill(known["pid"], known["start_ticks"])


def _kill(pid: int, start_ticks: int) -> None:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # It has ended by itself.
        stat = Path(f"/proc/{pid}/stat").read_text()
        if stat.rpartition(")")[2].split()[19] == str(start_ticks):
            os.kill(pid, signal.SIGKILL)
