"""`hudi-operator` from the command line: on real jobs and real tables, and on what does not fit."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import clock, environment, errors, table
from hoodie.model import commits, results, settings
from hoodie.transaction import authors, manager
from hoodie.transaction.locks import addresses
from hoodie.write import sessions
from hoodie_operator.api import attempts, kinds, objects
from hoodie_operator.reconcile import effective
from hoodie_operator.standalone import ownership, store
from support.operators.standalone_place import PATIENCE_S, Place

WIDTH = 120
"""What fits a terminal of a usual width."""


def _standalone(place: Place, *options: str) -> "subprocess.CompletedProcess[str]":
    folders = ("-f", str(place.manifests), "--data", str(place.data), "--state", str(place.state))
    return place.command("standalone", *folders, "--until-settled", *options)


@pytest.fixture
def settled(place: Place) -> Place:
    """A place where two writers and a compaction, real ones, are done."""
    place.declare_flights()
    place.declare(
        "CompactionPolicy",
        "often",
        {"target": {"tableRef": {"name": "flights"}}, "triggers": {"deltaCommits": 8}},
    )
    ended = _standalone(place)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return place


def test_real_jobs_write_and_compact_what_the_manifests_declare(settled: Place) -> None:
    opened = table.open_table(str(settled.data / "flights"), environment.system())
    rows = opened.read().read_all().sort_by("id").to_pylist()
    assert rows == sorted(
        (
            {"id": f"{number}-{row}", "a": str(number), "b": number}
            for number in range(1, 5)
            for row in range(10)
        ),
        key=lambda row: str(row["id"]),
    )
    actions = [instant.action.value for instant in opened.timeline().completed_writes]
    assert sorted(actions) == ["commit", *["deltacommit"] * 8]
    _get_prints_like_kubectl(settled)
    _describe_tells_everything(settled)
    _logs_are_those_of_the_newest_attempt(settled)
    _diff_tells_what_would_change(settled)


def test_optimistic_writer_that_lost_is_tried_again_until_all_is_written(place: Place) -> None:
    place.declare_flights(
        concurrency={"mode": "Optimistic", "conflictRetries": 0},
        writeIndex={"bucket": {"count": 1}},
    )
    files = {"path": "left/*.csv", "format": "CSV", "filesPerCommit": 4}
    place.declare_writer("left", source={"files": files}, pacing={"commitInterval": "6s"})
    operator = place.start_real("--until-settled")
    location = place.data / "flights"
    place.wait_for(lambda: _is_writing(location, "left"), "a write of left")
    # Of one bucket, whose file group left is writing to: left, still open, cannot win any more.
    _write_row(location, "outsider")
    output, _ = operator.communicate(timeout=PATIENCE_S)
    assert operator.returncode == 0, output

    left = place.object("Writer", "left")
    assert left is not None
    history = left.status.model_dump()["runs"]["history"]
    first, last = history[0], history[-1]
    assert (first["outcome"], first["error_kind"]) == (attempts.Outcome.FAILED, "WriteConflict")
    assert "both wrote to file group" in first["message"]
    assert last["outcome"] is attempts.Outcome.SUCCEEDED
    opened = table.open_table(str(location), environment.system())
    rows = {row["id"]: (row["a"], row["b"]) for row in opened.read().read_all().to_pylist()}
    assert rows == {"outsider": ("x", None)} | {
        f"{number}-{row}": (str(number), number) for number in range(1, 5) for row in range(10)
    }


def _is_writing(location: Path, writer_id: str) -> bool:
    if not (location / ".hoodie" / "hoodie.properties").exists():
        return False
    opened = table.open_table(str(location), environment.system())
    told = opened.metadata(opened.timeline().pending).values()
    return any(each.extra.get(commits.WRITER_ID_KEY) == writer_id for each in told)


def _write_row(location: Path, writer_id: str) -> None:
    opened = table.open_table(str(location), environment.system())
    options = sessions.WriteOptions(
        operation=commits.Operation.UPSERT,
        transaction=manager.TransactionOptions(
            settings=settings.WriteSettings(
                concurrency=settings.ConcurrencyMode.OPTIMISTIC,
                clock_wait_ms=0,
                conflict_retries_max=10,
            ),
            lock=addresses.FileSystemAddress(),
            author=authors.Author(writer_id=writer_id),
        ),
    )
    opened.write(pa.table({"id": [writer_id], "a": ["x"]}), options)


def _get_prints_like_kubectl(place: Place) -> None:
    state = ("--state", str(place.state))
    printed = place.command("get", "tables", *state)
    heading, row = printed.stdout.splitlines()
    assert heading.split()[:4] == ["NAME", "MODE", "COMMITS", "BACKLOG"]
    assert row.split()[:3] == ["flights", "NonBlocking", "9"]
    assert max(map(len, (heading, row))) <= WIDTH
    assert printed.stderr == ""
    writers = place.command("get", "hw", *state).stdout.splitlines()
    assert [line.split()[0] for line in writers] == ["NAME", "left", "right"]
    assert max(map(len, writers)) <= WIDTH
    for everything in (("get",), ("get", "all")):
        lines = place.command(*everything, *state).stdout.split("\n\n")
        shown = {each.splitlines()[0]: each.splitlines()[2:] for each in lines}
        assert {"huditables:", "writers:", "compactionpolicies:", "tableactions:"} <= set(shown)
        assert [line.split()[0] for line in shown["writers:"]] == ["left", "right"]
    one = json.loads(place.command("get", "hw", "left", "-o", "json", *state).stdout)
    assert (one["kind"], one["status"]["state"]) == ("Writer", "Completed")
    wide = place.command("get", "writers", "left", "-o", "wide", *state).stdout
    assert "all 4 files committed" in wide
    listed = json.loads(place.command("get", "actions", "-o", "json", *state).stdout)
    assert {item["spec"]["type"] for item in listed["items"]} == {"Compaction"}
    compaction = listed["items"][0]
    assert compaction["status"]["result"]["fileGroups"] == 2
    assert [owner["name"] for owner in compaction["metadata"]["ownerReferences"]] == ["often"]


def _describe_tells_everything(place: Place) -> None:
    told = place.command("describe", "writer", "left", "--state", str(place.state)).stdout
    for part in (
        "Name:         left",
        "Runs:         1 attempt\n",
        "log.txt",
        "UpToDate",
    ):
        assert part in told


def _logs_are_those_of_the_newest_attempt(place: Place) -> None:
    state = ("--state", str(place.state))
    whole = place.command("logs", "writer", "left", *state).stdout
    assert "opening the table" in whole
    assert whole.splitlines()[-1].endswith("with success")
    followed = place.command("logs", "writer", "left", "--follow", "--tail", "1", *state)
    assert followed.stdout == whole.splitlines(keepends=True)[-1]
    # A policy has no attempts of its own: they are those of the actions that it has made.
    compaction = place.command("logs", "policy", "often", "--attempt", "1", *state).stdout
    assert "with success" in compaction
    missing = place.command("logs", "writer", "left", "--attempt", "2", *state)
    assert missing.returncode == errors.NotFoundError.exit_code
    assert missing.stderr == "error: Writer left has no log of an attempt 2\n"


def _diff_tells_what_would_change(place: Place) -> None:
    command = ("diff", "-f", str(place.manifests), "--state", str(place.state))
    same = place.command(*command)
    assert (same.returncode, same.stdout) == (0, "")
    place.declare_writer("left", suspend=True)
    place.declare("LockProvider", "other", {"type": "FileSystem"})
    (place.manifests / "CompactionPolicy-often.yaml").unlink()
    changed = place.command(*command, "--prune")
    assert changed.returncode == errors.EXIT_FINDINGS
    assert sorted(changed.stdout.splitlines()) == [
        "    spec.suspend: false -> true",
        "+ LockProvider other",
        "- CompactionPolicy often",
        "~ Writer left",
    ]
    names = {
        each["name"]: each["change"]
        for each in json.loads(place.command(*command, "-o", "json").stdout)
    }
    assert names == {"other": "created", "left": "changed"}
    place.declare_flights(["left"], writeIndex={"bucket": {"count": 64}})
    refused = place.command(*command)
    assert refused.returncode == errors.InvalidInputError.exit_code
    assert "spec.writeIndex: cannot be changed" in refused.stderr


def test_what_was_left_unsettled_is_told_to_be_old(place: Place) -> None:
    place.state.mkdir()
    store.Store(place.state, effective.locator("file:///"), clock.SystemClock()).put(
        objects.Object(
            key=objects.ObjectKey(kind="LockProvider", namespace="default", name="zk"),
            uid="1",
            generation=1,
            created_ms=0,
            spec=kinds.LOCK_PROVIDER.spec.model_validate_json('{"type": "FileSystem"}'),
            status=kinds.LOCK_PROVIDER.status(),
        )
    )
    get = ("get", "locks", "--state", str(place.state))
    assert "this is the state that the last one left" in place.command(*get).stderr
    with ownership.owned(place.state):
        assert place.command(*get).stderr == ""


def test_reason_for_what_does_not_run_is_told(place: Place) -> None:
    place.declare_flights(["left", "middle"])
    ended = _standalone(place)
    assert ended.returncode == errors.EXIT_FINDINGS
    state = ("--state", str(place.state))
    assert "SharedColumns" in place.command("get", "writers", *state).stdout
    told = place.command("describe", "hw", "middle", *state).stdout
    assert "both write columns a" in told


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        ({"tableRef": {"nam": "flights"}}, "spec.tableRef.nam: unknown field, did you mean nam"),
        ({"operation": "Merge"}, 'spec.operation: is "Merge", expected one of Upsert, Insert'),
        ({"suspend": "no"}, 'spec.suspend: is "no", expected true or false'),
        (
            {"source": {"files": {"path": "s3://bucket/x.csv", "format": "CSV"}}},
            "spec.source.files.path: must be a path of a file system",
        ),
    ],
)
def test_manifest_that_does_not_fit_is_told_and_nothing_is_begun(
    place: Place, edit: dict[str, object], told: str
) -> None:
    place.declare_flights(["left"])
    place.declare_writer("left", **edit)
    ended = _standalone(place)
    assert ended.returncode == errors.InvalidInputError.exit_code
    assert f"Writer-left.yaml, document 1: {told}" in ended.stderr
    assert not place.state.exists()
    validated = place.command("validate", "-f", str(place.manifests))
    assert validated.returncode == errors.InvalidInputError.exit_code
    assert told in validated.stderr


def test_word_in_another_case_is_taken_and_told(place: Place) -> None:
    place.declare_flights(["left"])
    place.declare_writer("left", operation="BULK_INSERT")
    validated = place.command("validate", "-f", str(place.manifests))
    assert validated.returncode == 0, validated.stderr
    place_of_word = "Writer-left.yaml, document 1: spec.operation"
    told = f'{place_of_word}: is "BULK_INSERT", taken for BulkInsert, which an API server expects'
    assert validated.stderr.splitlines() == [told]
    differs = place.command("diff", "-f", str(place.manifests), "-o", "json")
    assert "BULK_INSERT" not in differs.stdout, differs.stderr


def test_validation_follows_references_and_keys(place: Place) -> None:
    place.declare_flights(["left"], keys={"recordFields": ["c"]})
    (place.manifests / "LockProvider-lock.yaml").unlink()
    validated = place.command("validate", "-f", str(place.manifests))
    assert validated.returncode == errors.InvalidInputError.exit_code
    assert "spec.concurrency.lockRef: refers to LockProvider lock, which no" in validated.stderr
    assert "record key field 'c' is not a column" in validated.stderr


def test_object_that_does_not_fit_is_not_told_to_be_missing_as_well(place: Place) -> None:
    place.declare_flights(["left"], keys={"recordField": ["id"]})
    validated = place.command("validate", "-f", str(place.manifests))
    place_of_table = "HudiTable-flights.yaml, document 1"
    assert validated.stderr.splitlines() == [
        f"{place_of_table}: spec.keys.recordFields: is missing",
        f"{place_of_table}: spec.keys.recordField: unknown field, did you mean recordFields?",
    ]
    (place.manifests / "HudiTable-flights.yaml").write_text("kind: [")
    (line,) = place.command("validate", "-f", str(place.manifests)).stderr.splitlines()
    assert line.startswith("HudiTable-flights.yaml: is not valid YAML: ")


def test_valid_manifests_are_told_one_by_one(place: Place) -> None:
    place.declare_flights(["left"])
    validated = place.command("validate", "-f", str(place.manifests))
    assert validated.returncode == 0, validated.stderr
    assert set(validated.stdout.splitlines()) == {
        "HudiTable/flights is valid",
        "LockProvider/lock is valid",
        "Writer/left is valid",
    }


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("none/*.csv", "SourceNotFound"),
        ("../*.csv", "PathNotAllowed"),
        ("/etc/passwd", "PathNotAllowed"),
    ],
)
def test_source_that_is_not_there_or_not_allowed_stalls_the_writer(
    place: Place, source: str, reason: str
) -> None:
    place.declare_flights([])
    place.declare_writer("left", source={"files": {"path": source, "format": "CSV"}})
    ended = _standalone(place)
    assert ended.returncode == errors.EXIT_FINDINGS, ended.stdout
    assert place.condition("Writer", "left")[1] == reason


def test_link_out_of_the_data_root_is_refused(place: Place, tmp_path: Path) -> None:
    env = tmp_path / "outside"
    env.mkdir()
    (env / "1.csv").write_text("id,a\n1,x\n")
    (place.data / "linked").symlink_to(env)
    (place.data / "flights").symlink_to(env / "flights")
    place.declare_flights([])
    place.declare_writer("left", source={"files": {"path": "linked/*.csv", "format": "CSV"}})
    ended = _standalone(place)
    assert ended.returncode == errors.EXIT_FINDINGS
    assert place.condition("HudiTable", "flights")[:2] == ("Stalled", "PathNotAllowed")
    assert not (env / "flights").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["get", "all", "left"], 20, "error: get all left: expected the kind of left"),
        (["get", "pods"], 20, "error: 'pods' is not a kind, expected tables, writers"),
        (["get", "tables", "--state", "/nowhere"], 22, "error: /nowhere is not a state folder"),
        (["standalone", "-f", "/nowhere"], 22, "error: /nowhere: there is no such file or folder"),
        (["standalone"], 2, "hint: run `hudi-operator standalone --help`"),
        (["frobnicate"], 2, "error: No such command"),
    ],
)
def test_wrong_command_is_one_clear_line(
    place: Place, arguments: list[str], code: int, told: str
) -> None:
    ended = place.command(*arguments)
    assert ended.returncode == code
    assert told in ended.stderr
    assert "Traceback" not in ended.stderr


def test_folder_without_manifests_is_told(place: Place) -> None:
    (place.manifests / "empty.yaml").touch()
    for ended in (_standalone(place), place.command("validate", "-f", str(place.manifests))):
        assert ended.returncode == errors.InvalidInputError.exit_code
        assert "declares no objects, expected YAML manifests" in ended.stderr


def test_refused_edit_is_told_with_the_object_whose_spec_goes_on(place: Place) -> None:
    place.declare_flights(["left"])
    assert _standalone(place).returncode == 0
    place.declare_flights(["left"], writeIndex={"bucket": {"count": 64}})
    folders = ("-f", str(place.manifests), "--data", str(place.data), "--state", str(place.state))
    operator = place.start_real()
    state = ("--state", str(place.state))
    told = "HudiTable-flights.yaml, document 1: spec.writeIndex: cannot be changed once the table"
    place.wait_for(
        lambda: told in place.command("get", "tables", *state).stderr, "that it is refused"
    )
    described = place.command("describe", "table", "flights", *state).stdout
    assert f"Refused:      {told}" in described
    assert "count: 64" not in described
    assert "Refused:" not in place.command("describe", "writer", "left", *state).stdout
    operator.terminate()
    output, _ = operator.communicate(timeout=PATIENCE_S)
    assert output.count(told) == 1
    place.declare_flights(["left"])
    assert place.command("standalone", *folders, "--until-settled").returncode == 0
    assert place.command("get", "tables", *state).stderr == ""


def test_interrupt_stops_the_runs_and_the_next_start_goes_on(place: Place) -> None:
    place.declare_flights(["left"])
    for number in (2, 3, 4):
        (place.data / "left" / f"{number}.csv").unlink()
    assert _standalone(place).returncode == 0
    location = place.data / "flights"
    # With the other files, and a run that goes on until it is stopped.
    place.declare_writer("left", pacing={"commitInterval": "10m"})
    folders = ("-f", str(place.manifests), "--data", str(place.data), "--state", str(place.state))
    operator = subprocess.Popen(
        [sys.executable, "-m", "hoodie_operator", "standalone", *folders],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
    )
    place.processes.append(operator)
    place.wait_for(lambda: _is_writing(location, "left"), "a write of left")
    operator.send_signal(signal.SIGINT)
    output, _ = operator.communicate(timeout=PATIENCE_S)
    assert operator.returncode == 128 + signal.SIGINT, output
    assert "stopping the runs" in output
    assert not _alive(place), output
    place.declare_writer("left")
    assert _standalone(place).returncode == 0
    opened = table.open_table(str(location), environment.system())
    assert len(opened.timeline().completed_writes) == 4
    assert opened.read(["id"]).read_all().num_rows == 40


def _alive(place: Place) -> list[int]:
    pids = [json.loads(path.read_text())["pid"] for path in place.state.glob("runs/*/process.json")]
    return [pid for pid in pids if Path(f"/proc/{pid}/cmdline").exists()]


def test_killed_jobs_and_a_killed_operator_leave_the_content_right(place: Place) -> None:
    place.declare_flights(["left"])
    place.declare_writer("left", pacing={"commitInterval": "2s"})
    place.declare_writer("right")
    place.declare(
        "CompactionPolicy",
        "often",
        {
            "target": {"tableRef": {"name": "flights"}},
            "triggers": {"deltaCommits": 2},
            "retry": {"backoff": {"initial": "100ms", "max": "1s"}},
        },
    )
    folders = ("-f", str(place.manifests), "--data", str(place.data), "--state", str(place.state))
    operator = subprocess.Popen(
        [sys.executable, "-m", "hoodie_operator", "standalone", *folders],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    place.processes.append(operator)
    uri = str(place.data / "flights")

    def commit_count() -> int:
        try:
            opened = table.open_table(uri, environment.system())
        except errors.HoodieError:
            return 0
        return len(opened.timeline().completed_writes)

    place.wait_for(lambda: commit_count() >= 1, "a commit")
    for path in place.state.glob("runs/writer.left.*/process.json"):
        os.kill(json.loads(path.read_text())["pid"], signal.SIGKILL)
    operator.kill()
    operator.wait()
    place.wait_for(lambda: bool(list(place.state.glob("runs/*/process.json"))), "runs")
    ended = _standalone(place)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    opened = table.open_table(uri, environment.system())
    rows = {row["id"]: (row["a"], row["b"]) for row in opened.read().read_all().to_pylist()}
    assert rows == {
        f"{number}-{row}": (str(number), number) for number in range(1, 5) for row in range(10)
    }
    written = opened.metadata(opened.timeline().completed_writes)
    batches = [
        (metadata.extra[commits.WRITER_ID_KEY], metadata.extra[commits.BATCH_ID_KEY])
        for metadata in written.values()
        if commits.BATCH_ID_KEY in metadata.extra
    ]
    assert len(batches) == len(set(batches)) == 8
    found = opened.check(settings.WriteSettings())
    # What the killed write left stays invisible, and is told; nothing else is wrong.
    wrong = [each for each in found if each.severity is results.Severity.ERROR]
    assert all("nothing of it is visible" in each.message for each in wrong), wrong
