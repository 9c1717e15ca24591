"""A write whose process was killed, and whose Writer runs no more, is rolled back by policy."""

import json
import os
import signal
import subprocess
import sys

from hoodie import environment, errors, table
from hoodie.model import instants
from support.operators.standalone_place import Place


def _operator(place: Place) -> "subprocess.Popen[bytes]":
    folders = ("-f", str(place.manifests), "--data", str(place.data), "--state", str(place.state))
    operator = subprocess.Popen(
        [sys.executable, "-m", "hoodie_operator", "standalone", *folders],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    place.processes.append(operator)
    return operator


def _pending(place: Place) -> list[instants.Instant]:
    try:
        opened = table.open_table(str(place.data / "flights"), environment.system())
    except errors.HoodieError:
        return []
    return [each for each in opened.timeline().pending if each.action.is_write]


def test_stuck_write_of_a_killed_process_is_rolled_back(place: Place) -> None:
    place.declare_flights(["left"])
    place.declare_writer("left", pacing={"commitInterval": "10m"})
    operator = _operator(place)
    place.wait_for(lambda: bool(_pending(place)), "a write")
    operator.kill()
    operator.wait()
    for path in place.state.glob("runs/writer.left.*/process.json"):
        os.kill(json.loads(path.read_text())["pid"], signal.SIGKILL)
    (stuck,) = _pending(place)
    place.declare_writer("left", suspend=True)
    place.declare(
        "RetentionPolicy",
        "past",
        {
            "target": {"tableRef": {"name": "flights"}},
            "cleaning": {"keep": {"commits": 10}},
            "stuck": {"after": "1s", "action": "RollBack"},
        },
    )
    _operator(place)

    def rollbacks() -> int:
        opened = table.open_table(str(place.data / "flights"), environment.system())
        completed = opened.timeline().completed
        return sum(each.action is instants.Action.ROLLBACK for each in completed)

    place.wait_for(lambda: rollbacks() == 1, "the rollback")
    assert not _pending(place)

    def told() -> list[str]:
        found = place.object("HudiTable", "flights")
        status = {} if found is None else found.status.model_dump()
        return [each["instant"] for each in status.get("stuck") or ()]

    place.wait_for(lambda: stuck.requested_time not in told(), "the status of the table")
