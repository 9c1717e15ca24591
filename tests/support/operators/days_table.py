"""A small table in a lake of pods: one Writer, a file and a commit a day."""

import json
from collections.abc import Mapping
from typing import Any, Final

from hoodie import environment, table
from hoodie_operator.api import group
from support.kube import programs
from support.operators import flights_example, installed_operator

DAYS: Final = 9
_END_S: Final = 180.0
_READY: Final = ("--for=condition=Ready", f"--timeout={_END_S:.0f}s")
ENOUGH: Final = (
    "{engine: Local, resources: {requests: {cpu: 50m, memory: 512Mi}, limits: {memory: 1Gi}}}"
)
TOO_LITTLE: Final = (
    "{engine: Local, resources: {requests: {cpu: 50m, memory: 40Mi}, limits: {memory: 40Mi}}}"
)
TOO_LARGE_EXECUTORS: Final = (
    "{engine: Spark, executors: {instances: 1, resources: {requests: {cpu: '512', memory: 1Gi}}}}"
)
"""What its Writer runs on."""

_DECLARED = """
apiVersion: hudi.dev/v1alpha1
kind: HudiTable
metadata: {name: days}
spec:
  storage:
    path: days
    volumes: [{name: lake, persistentVolumeClaim: lake, mountPath: /data}]
  schema: {columns: [{name: id, type: string}, {name: part, type: string}, {name: day, type: int}]}
  keys: {recordFields: [id], partitionFields: [part]}
  writeIndex: {bucket: {count: 1}}
  metadata: {enabled: true}
---
apiVersion: hudi.dev/v1alpha1
kind: Writer
metadata: {name: days}
spec:
  tableRef: {name: days}
  source: {files: {path: in/*.csv, format: CSV, filesPerCommit: 1}}
  runtime: RUNTIME
  pacing: {commitInterval: INTERVAL}
  retry: {backoff: {initial: 1s}}
"""

_SAVED = """
apiVersion: hudi.dev/v1alpha1
kind: Savepoint
metadata: {name: all-days}
spec: {tableRef: {name: days}, comment: "all days"}
"""
_KEPT = f"""
apiVersion: hudi.dev/v1alpha1
kind: CompactionPolicy
metadata: {{name: days}}
spec: {{target: {{tableRef: {{name: days}}}}, triggers: {{deltaCommits: 1}}}}
---
apiVersion: hudi.dev/v1alpha1
kind: RetentionPolicy
metadata: {{name: days}}
spec:
  target: {{tableRef: {{name: days}}}}
  cleaning: {{keep: {{versions: 1}}, readerGrace: 1ms, triggers: {{commits: {DAYS + 1}}}}}
  archiving: {{minCommits: 2, maxCommits: 4}}
"""


def declare(lake: installed_operator.Lake, runtime: str = ENOUGH, *, interval: str = "10s") -> None:
    """Declare the table and its Writer, whose input is there.

    Args:
        lake: Where.
        runtime: What the Writer runs on.
        interval: From a commit to the next; a test must reach the Writer before the last one.
    """
    lake.kubectl("apply", "-f", str(flights_example.MANIFESTS / "volume" / "data.yaml"))
    folder = lake.folder / "in"
    folder.mkdir()
    for day in range(DAYS):
        (folder / f"{day}.csv").write_text(f"id,part,day\nk{day},a,{day}\nall,a,{day}\n")
    declared = _DECLARED.replace("RUNTIME", runtime).replace("INTERVAL", interval)
    lake.kubectl("apply", "-f", "-", stdin=declared)


def status(lake: installed_operator.Lake) -> dict[str, Any]:
    """Return the Writer's status."""
    (found,) = lake.list("writers")
    told: dict[str, Any] = found.get("status") or {}
    return told


def committed(lake: installed_operator.Lake) -> int:
    """Return how many files the Writer tells to be committed."""
    return int((status(lake).get("files") or {}).get("committed", 0))


def plan_compactions(lake: installed_operator.Lake) -> None:
    """Change what the Writer does after its next commits: it may plan compactions, in a while."""
    change = {"spec": {"compaction": {"deltaCommits": 1000}}}
    lake.kubectl("patch", "writer", "days", "--type=merge", "-p", json.dumps(change))


def is_taken_up(lake: installed_operator.Lake) -> bool:
    """Return whether the Writer's newest commit was made with what it is to do after each now."""
    told = status(lake)
    (found,) = lake.list("writers")
    if told.get("observedGeneration") != found["metadata"]["generation"]:
        return False
    last = told.get("lastCommit") or {}
    return bool(last) and last.get("batchSettingsHash") == told["batchSettingsHash"]


def attempts(lake: installed_operator.Lake) -> Mapping[str, str]:
    """Return the attempts of the Writer: number to the uid of its Job."""
    found = lake.list("jobs", f"{group.GROUP}/owner-kind=Writer")
    return {
        each["metadata"]["labels"][f"{group.GROUP}/attempt"]: each["metadata"]["uid"]
        for each in found
    }


def drivers(lake: installed_operator.Lake) -> list[str]:
    """Return the names of the Writer's pods that run."""
    pods = lake.list("pods", f"{group.GROUP}/owner-kind=Writer")
    return [
        str(each["metadata"]["name"]) for each in pods if each["status"].get("phase") == "Running"
    ]


def check(lake: installed_operator.Lake) -> None:
    """Check that each file was committed once, and that the table holds what they say."""
    opened = table.open_table(str(lake.folder / "days"), environment.system(parallelism=1))
    assert len(flights_example.commits(opened)["days"]) == DAYS
    _check_rows(opened)


def _check_rows(opened: table.Table) -> None:
    rows = {row["id"]: row["day"] for row in opened.read().read_all().to_pylist()}
    assert rows == {**{f"k{day}": day for day in range(DAYS)}, "all": DAYS - 1}
    assert opened.explain_read().has_metadata_table
    assert opened.validate_metadata().is_right


def keep_small(lake: installed_operator.Lake) -> None:
    """Have the table compacted, cleaned and archived, and a savepoint kept until it is let go."""
    opened = table.open_table(str(lake.folder / "days"), environment.system(parallelism=1))
    newest = opened.timeline().completed_writes[-1].requested_time
    lake.kubectl("apply", "-f", "-", stdin=_SAVED)
    lake.kubectl("wait", "savepoint.hudi.dev/all-days", *_READY)
    lake.kubectl("apply", "-f", "-", stdin=_KEPT)
    programs.wait_until(lambda: _last(lake, "Cleaning") != "", "the table is cleaned", _END_S)
    programs.wait_until(lambda: _last(lake, "Archiving") != "", "old commits leave", _END_S)
    assert [each.instant.requested_time for each in opened.savepoints()] == [newest]
    # What the savepoint names stays, and no commit from it on leaves.
    assert "deleted 0 files" in _last(lake, "Cleaning")
    lake.await_ready()
    (found,) = lake.list("huditables")
    partitions = {each["name"]: each["ready"] for each in found["status"]["metadata"]["partitions"]}
    assert partitions == {"column_stats": True, "files": True, "partition_stats": True}
    lake.kubectl("delete", "savepoint.hudi.dev", "all-days", f"--timeout={_END_S:.0f}s")
    assert opened.savepoints() == []
    _check_rows(opened)


def _last(lake: installed_operator.Lake, service: str) -> str:
    """Return what the table tells of the last run of a service; empty for none."""
    (found,) = lake.list("huditables")
    for each in (found.get("status") or {}).get("services", ()):
        if each["name"] == service and "last" in each:
            return str(each["last"]["message"])
    return ""
