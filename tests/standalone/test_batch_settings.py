"""A setting of a running writer is changed: real processes, and no restart."""

import subprocess
import sys

from hoodie import environment, errors, table
from hoodie.model import commits, instants
from support.operators.standalone_place import Place


def test_running_writer_begins_to_plan_compactions_without_a_restart(place: Place) -> None:
    place.declare_flights(["left"])
    place.declare_writer("left", pacing={"commitInterval": "3s"})
    folders = ("-f", str(place.manifests), "--data", str(place.data), "--state", str(place.state))
    operator = subprocess.Popen(
        [sys.executable, "-m", "hoodie_operator", "standalone", *folders],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    place.processes.append(operator)

    def commit_count() -> int:
        try:
            opened = table.open_table(str(place.data / "flights"), environment.system())
        except errors.HoodieError:
            return 0
        writes = opened.timeline().completed_writes
        return sum(each.action is instants.Action.DELTA_COMMIT for each in writes)

    place.wait_for(lambda: commit_count() >= 1, "a commit")
    place.declare_writer("left", pacing={"commitInterval": "3s"}, compaction={"deltaCommits": 1})
    place.wait_for(lambda: commit_count() >= 4, "all commits")
    opened = table.open_table(str(place.data / "flights"), environment.system())
    timeline = opened.timeline()
    told = opened.metadata(timeline.completed_writes)
    extras = [told[each].extra for each in timeline.completed_writes]
    # A compaction, which may have been executed by now, carries none.
    carried = [each[commits.BATCH_SETTINGS_KEY] for each in extras if commits.BATCH_ID_KEY in each]
    assert len(set(carried)) == 2
    assert carried[0] != carried[-1]
    assert any(each.action.completed is instants.Action.COMMIT for each in timeline.instants)
    assert len(list(place.state.glob("runs/writer.left.*"))) == 1

    def is_taken_up() -> bool:
        found = place.object("Writer", "left")
        status = {} if found is None else found.status.model_dump()
        last = status.get("last_commit") or {}
        return bool(last) and last["batch_settings_hash"] == status["batch_settings_hash"]

    place.wait_for(is_taken_up, "the status of the writer")
