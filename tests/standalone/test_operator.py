"""The standalone operator on real processes: killed, restarted, edited, pruned; jobs are fakes."""

import dataclasses
import json
import os
import signal
from pathlib import Path

from hoodie import errors
from hoodie_operator.api import documents, kinds, objects
from support.operators.standalone_place import PATIENCE_S, Place

FILES = ["1.csv", "2.csv", "3.csv", "4.csv"]


def test_everything_is_done_and_the_operator_ends(place: Place) -> None:
    place.declare_flights()
    place.declare(
        "CompactionPolicy",
        "often",
        {"target": {"tableRef": {"name": "flights"}}, "triggers": {"deltaCommits": 3}},
    )
    code, output = place.settle()
    assert code == 0, output
    assert place.commits("left") == place.commits("right") == FILES
    assert [words for words in place.journal if words[0] == "compact"]
    assert place.condition("Writer", "left") == (
        "Completed",
        "UpToDate",
        "all 4 files committed",
    )


def test_settled_place_starts_nothing_again(place: Place) -> None:
    place.declare_flights()
    assert place.settle()[0] == 0
    before = place.journal
    assert place.settle()[0] == 0
    assert place.journal == before


def test_lost_state_folder_writes_nothing_twice(place: Place) -> None:
    place.declare_flights()
    assert place.settle()[0] == 0
    place.state.rename(place.state.with_name("lost"))
    code, output = place.settle()
    assert code == 0, output
    assert place.commits("left") == place.commits("right") == FILES


def test_run_outlives_a_killed_operator_and_is_found_again(place: Place) -> None:
    place.declare_flights(["left"])
    place.behave(held={"left": 1})
    operator = place.start()
    place.wait_for(lambda: len(place.commits("left")) == 1, "the first commit")
    operator.kill()
    operator.wait()
    place.behave(held={"left": 2})
    place.wait_for(lambda: len(place.commits("left")) == 2, "a commit without an operator")
    place.behave(delay_s=0.5)
    code, output = place.settle()
    assert code == 0, output
    starts = [words for words in place.journal if words[:2] == ["start", "left"]]
    assert len(starts) == 1, "the run is the same"
    assert place.commits("left") == FILES
    found = place.object("Writer", "left")
    assert found is not None
    assert found.status.model_dump()["runs"]["attempts"] == 1


def test_operator_killed_again_and_again_loses_and_doubles_nothing(place: Place) -> None:
    place.declare_flights()
    place.declare(
        "CompactionPolicy",
        "often",
        {"target": {"tableRef": {"name": "flights"}}, "triggers": {"deltaCommits": 2}},
    )
    place.behave(delay_s=0.2)

    def is_all_written() -> bool:
        return len(place.commits("left")) + len(place.commits("right")) == 8

    for kills in range(8):
        lines = len(place.journal)

        def lives(lines: int = lines) -> bool:
            # Where all is written there may be nothing left to do.
            return len(place.journal) > lines or is_all_written()

        operator = place.start()
        place.wait_for(lives, f"life after {kills} kills")
        operator.kill()
        operator.wait()
        if is_all_written():
            break
    code, output = place.settle()
    assert code == 0, output
    assert place.commits("left") == place.commits("right") == FILES
    starts = [tuple(words[1:3]) for words in place.journal if words[0] == "start"]
    assert len(starts) == len(set(starts)), "no attempt is started twice"


def test_killed_job_is_followed_by_one_that_goes_on(place: Place) -> None:
    place.declare_flights(["left"])
    place.behave(held={"left": 2})
    operator = place.start()
    place.wait_for(lambda: len(place.commits("left")) == 2, "two commits")
    (pid_file,) = place.state.glob("runs/writer.left.*/process.json")
    os.kill(_pid(pid_file), signal.SIGKILL)
    place.behave()
    output, _ = operator.communicate(timeout=PATIENCE_S)
    assert operator.returncode == 0, output
    assert place.commits("left") == FILES
    ends = [words[2:] for words in place.journal if words[:2] == ["end", "left"]]
    assert ends == [["2", "done"]]


def _pid(path: Path) -> int:
    text = path.read_text()
    return int(text.partition('"pid": ')[2].partition(",")[0])


def test_killed_compaction_is_executed_again_by_its_plan(place: Place) -> None:
    place.declare_flights(["left"])
    place.declare(
        "CompactionPolicy",
        "often",
        {
            "target": {"tableRef": {"name": "flights"}},
            "triggers": {"deltaCommits": 4},
            "retry": {"backoff": {"initial": "100ms", "max": "1s"}},
        },
    )
    place.behave(held={"compaction": 0})
    operator = place.start()
    place.wait_for(lambda: any(words[0] == "plan" for words in place.journal), "a plan")
    (pid_file,) = place.state.glob("runs/tableaction.flights-compaction*/process.json")
    os.kill(_pid(pid_file), signal.SIGKILL)
    place.behave()
    output, _ = operator.communicate(timeout=PATIENCE_S)
    assert operator.returncode == 0, output
    plans = [words[3] for words in place.journal if words[0] == "plan"]
    compacted = [words[3] for words in place.journal if words[0] == "compact"]
    assert plans == compacted
    assert len(plans) == 1


def test_failures_that_pass_are_tried_again(place: Place) -> None:
    place.declare_flights(["left"])
    place.behave(errors={"left": ["Conflict", "LockTimeout", "Storage"]})
    code, output = place.settle()
    assert code == 0, output
    ends = [words[3] for words in place.journal if words[:2] == ["end", "left"]]
    assert ends == ["Conflict", "LockTimeout", "Storage", "done"]


def test_failure_that_does_not_pass_stalls_and_tells_by_the_exit_code(place: Place) -> None:
    place.declare_flights()
    place.behave(errors={"left": ["Configuration"]})
    code, output = place.settle()
    assert code == errors.EXIT_FINDINGS, output
    state, reason, message = place.condition("Writer", "left")
    assert (state, reason) == ("Stalled", "RunFailed")
    assert message == "attempt 1: Configuration: as the test wants it"
    assert place.condition("Writer", "right")[0] == "Completed"


def test_failed_writer_is_tried_again_by_command(place: Place) -> None:
    place.declare_flights(["left"])
    place.behave(errors={"left": ["Configuration"]})
    place.settle()
    known = ("--state", str(place.state))
    asked = place.command("retry", "writer", "left", *known)
    assert asked.stdout == "Writer left: another attempt is asked for\n"
    assert "no operator runs" in asked.stderr
    code, output = place.settle()
    assert code == 0, output
    ends = [words[3] for words in place.journal if words[:2] == ["end", "left"]]
    assert ends == ["Configuration", "done"]
    again = place.command("retry", "writer", "left", *known)
    assert again.returncode == errors.InvalidInputError.exit_code
    assert "Writer left has no failed attempt: Completed: all 4 files committed" in again.stderr


def test_request_of_another_attempt_is_taken_up_by_an_operator_at_work(place: Place) -> None:
    place.declare_flights(["left"])
    place.behave(errors={"left": ["Configuration"]})
    place.start("--serve")
    place.wait_for(lambda: place.condition("Writer", "left")[0] == "Stalled", "the failure")
    place.command("retry", "writer", "left", "--state", str(place.state))
    place.wait_for(lambda: place.condition("Writer", "left")[0] == "Completed", "the success")
    assert not list(place.state.glob("retries/*/*"))


def test_crashing_job_is_given_up_after_its_retries(place: Place) -> None:
    place.declare_flights(["left"])
    place.declare_writer(
        "left", retry={"limit": 1, "backoff": {"initial": "100ms", "max": "100ms"}}
    )
    place.behave(crash=["left"])
    code, _ = place.settle()
    assert code == errors.EXIT_FINDINGS
    state, reason, message = place.condition("Writer", "left")
    assert (state, reason) == ("Stalled", "RetriesExhausted")
    assert "the process ended without a result, exit code 3" in message


def test_suspended_writer_stops_and_resumes_where_it_was(place: Place) -> None:
    place.declare_flights(["left"])
    place.behave(held={"left": 1})
    operator = place.start("--serve")
    place.wait_for(lambda: len(place.commits("left")) == 1, "the first commit")
    place.declare_writer("left", suspend=True)
    place.wait_for(lambda: place.condition("Writer", "left")[0] == "Suspended", "a suspension")
    assert place.commits("left") == FILES[:1]
    place.behave()
    place.declare_writer("left", suspend=False)
    place.wait_for(lambda: place.condition("Writer", "left")[0] == "Completed", "the end")
    assert place.commits("left") == FILES
    assert operator.poll() is None


def test_new_file_is_noticed_and_written(place: Place) -> None:
    place.declare_flights(["left"])
    place.start("--serve")
    place.wait_for(lambda: place.condition("Writer", "left")[0] == "Completed", "the end")
    place.put_file("left", 5)
    place.wait_for(lambda: place.commits("left") == [*FILES, "5.csv"], "the new file")


def test_copied_file_is_not_written_again_and_a_changed_one_is(place: Place) -> None:
    place.declare_flights(["left"])
    assert place.settle()[0] == 0
    place.put_file("left", 2)
    os.utime(place.data / "left" / "3.csv", (1, 1))
    assert place.settle()[0] == 0
    assert place.commits("left") == FILES
    (place.data / "left" / "2.csv").write_text("id,a\nx,changed\n")
    assert place.settle()[0] == 0
    assert place.commits("left") == [*FILES, "2.csv"]


def test_hanging_job_is_killed_after_its_grace(place: Place) -> None:
    place.declare_flights(["left"])
    place.behave(hang=["left"])
    place.start("--serve", "--impatient")
    place.wait_for(lambda: ["hangs", "left", "1"] in place.journal, "a hanging job")
    place.declare_writer("left", suspend=True)
    place.wait_for(lambda: place.condition("Writer", "left")[0] == "Suspended", "its end")


# Manifests that change, break and vanish


def test_table_cannot_be_changed_where_none_can(place: Place) -> None:
    place.declare_flights()
    assert place.settle()[0] == 0
    place.declare_flights(writeIndex={"bucket": {"count": 3}})
    code, output = place.settle()
    assert code == errors.InvalidInputError.exit_code
    assert (
        "HudiTable-flights.yaml, document 1: spec.writeIndex: cannot be changed once the table was "
        "created or adopted (HudiTable flights exists)" in output
    )
    found = place.object("HudiTable", "flights")
    assert found is not None
    assert found.generation == 1


def test_vanished_manifest_removes_nothing_without_pruning(place: Place) -> None:
    place.declare_flights()
    assert place.settle()[0] == 0
    (place.manifests / "Writer-left.yaml").unlink()
    code, output = place.settle()
    assert code == 0
    assert "no manifest declares Writer left any longer; kept" in output
    assert place.object("Writer", "left") is not None


def test_vanished_manifest_is_pruned_when_asked_for_and_the_data_stays(place: Place) -> None:
    place.declare_flights()
    assert place.settle()[0] == 0
    for path in place.manifests.glob("Writer-*"):
        path.unlink()
    (place.manifests / "HudiTable-flights.yaml").unlink()
    operator = place.start("--serve", "--prune")
    place.wait_for(lambda: place.object("HudiTable", "flights") is None, "pruning")
    place.wait_for(lambda: place.object("Writer", "left") is None, "pruning of the writer")
    assert place.object("LockProvider", "lock") is not None
    assert (place.data / "flights" / ".hoodie" / "hoodie.properties").exists()
    assert operator.poll() is None


def test_pruned_table_is_dropped_when_its_policy_is_delete(place: Place) -> None:
    place.declare_flights(deletionPolicy="Delete", deletionProtection=False)
    assert place.settle()[0] == 0
    for path in place.manifests.glob("*.yaml"):
        if not path.name.startswith("LockProvider"):
            path.unlink()
    place.start("--serve", "--prune")
    place.wait_for(lambda: place.object("HudiTable", "flights") is None, "pruning")
    assert not (place.data / "flights" / ".hoodie").exists()


def test_actions_that_an_earlier_release_left_in_the_state_folder_drop_nothing(
    place: Place,
) -> None:
    place.declare_flights()
    assert place.settle()[0] == 0
    table = place.object("HudiTable", "flights")
    assert table is not None
    for action_type in ("Create", "Delete"):
        spec = {"tableRef": {"name": "flights"}, "type": action_type}
        name = f"flights-{action_type.lower()}"
        key = dataclasses.replace(table.key, kind=kinds.TABLE_ACTION.name, name=name)
        old: objects.AnyObject = objects.Object(
            key=key,
            uid=name,
            generation=1,
            created_ms=table.created_ms,
            owner=objects.Owner(kind="HudiTable", name="flights", uid=table.uid),
            spec=kinds.TABLE_ACTION.spec.model_validate_json(json.dumps(spec)),
            status=kinds.TABLE_ACTION.status(),
        )
        path = place.state / "objects" / "TableAction" / f"default.{name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(documents.to_document(old)))
    runs = sorted((place.state / "runs").iterdir())
    code, told = place.settle()
    assert code == 0, told
    assert place.object("TableAction", "flights-create") is None
    assert place.object("TableAction", "flights-delete") is None
    assert sorted((place.state / "runs").iterdir()) == runs
    assert (place.data / "flights" / ".hoodie" / "hoodie.properties").exists()


def test_broken_manifest_freezes_pruning(place: Place) -> None:
    place.declare_flights()
    assert place.settle()[0] == 0
    (place.manifests / "Writer-left.yaml").unlink()
    broken = place.manifests / "broken.yaml"
    broken.write_text("kind: [")
    place.start("--serve", "--prune")
    # Something that comes after several looks at the folder shows that they happened.
    place.put_file("right", 5, "b")
    place.wait_for(lambda: "5.csv" in place.commits("right"), "a round")
    place.put_file("right", 6, "b")
    place.wait_for(lambda: "6.csv" in place.commits("right"), "another round")
    assert place.object("Writer", "left") is not None
    broken.unlink()
    place.wait_for(lambda: place.object("Writer", "left") is None, "pruning")


def test_broken_manifest_stops_no_other(place: Place) -> None:
    place.declare_flights()
    (place.manifests / "broken.yaml").write_text("kind: [")
    code, output = place.settle()
    assert code == errors.InvalidInputError.exit_code
    assert "refused: broken.yaml: is not valid YAML" in output
    assert place.commits("left") == FILES


def test_object_whose_manifest_no_longer_fits_is_not_told_to_have_vanished(place: Place) -> None:
    place.declare_flights()
    assert place.settle()[0] == 0
    place.declare_writer("left", operation="Merge")
    code, output = place.settle()
    assert code == errors.InvalidInputError.exit_code
    assert output.count("Writer-left.yaml") == 1
    assert "no manifest declares" not in output
    (place.manifests / "Writer-right.yaml").unlink()
    assert "no manifest declares Writer right any longer; kept" in place.settle()[1]


def test_second_operator_of_a_state_folder_is_refused(place: Place) -> None:
    place.declare_flights()
    place.start("--serve")
    place.wait_for(lambda: place.object("Writer", "left") is not None, "the first operator")
    refused = place.command(
        "standalone", "-f", str(place.manifests), "--state", str(place.state), "--until-settled"
    )
    assert refused.returncode == errors.AlreadyExistsError.exit_code
    assert "another operator (pid " in refused.stderr
