"""`hoodie rollback` and `hoodie heartbeats`, and what `hoodie check` says to do."""

import re
from pathlib import Path

import pyarrow as pa

from hoodie import environment, table
from hoodie.model import commits, settings
from hoodie.transaction import authors, manager
from hoodie.transaction.locks import address_texts
from hoodie.write import batches, sessions, tasks, write_task
from support.tables.command_line import Answer, Run

NEVER = settings.FailedWritesPolicy.NEVER


def fine(answer: Answer) -> Answer:
    assert answer.code == 0, answer.err
    return answer


def begin(path: Path, writer_id: str) -> sessions.WriteSession:
    """Begin a write from this process and write its data."""
    env = environment.system()
    opened = table.open_table(str(path), env)
    options = sessions.WriteOptions(
        operation=commits.Operation.UPSERT,
        transaction=manager.TransactionOptions(
            settings=settings.WriteSettings(failed_writes_policy=NEVER),
            lock=address_texts.parse("filesystem"),
            author=authors.Author(writer_id=writer_id),
        ),
    )
    data = pa.Table.from_pylist([{"id": "z", "city": "Rome"}], opened.schema.arrow)
    session = opened.begin_write(options, data.column_names)
    assert isinstance(session, sessions.WriteSession)
    batch = batches.prepare(data, opened.config, opened.schema, commits.Operation.UPSERT)
    storage = env.open_storage(str(path))
    tasks.run(session.task, batch, write_task.WriteToken(), storage, env.engine)
    return session


def test_failed_write_is_found_told_of_and_taken_back(
    hoodie: Run, table: Path, trips: Path
) -> None:
    fine(hoodie("write", table, "--input", trips))
    session = begin(table, "failing")
    session.abort(has_tasks_left=False)
    time = session.requested_time
    checked = hoodie("check", table)
    assert checked.code == 1
    assert re.search(rf"error: {time} deltacommit inflight: its owner is dead", checked.out)
    assert f"hint: `hoodie rollback {table} --all` rolls back failed writes" in checked.err
    (row,) = fine(hoodie("heartbeats", table, "--json")).document["pending"]
    assert (row["requested_time"], row["heartbeat"]) == (time, "missing")
    assert (row["is_alive"], row["remedy"]) == (False, "roll back")
    shown = fine(hoodie("heartbeats", table))
    assert re.search(rf"{time} +deltacommit +inflight +missing", shown.out)
    assert "hoodie rollback" in shown.err
    done = fine(hoodie("rollback", table, "--instant", time))
    assert re.fullmatch(
        rf"rolled back {time} deltacommit: 0 files deleted, by rollback \d{{17}}\n", done.out
    )
    assert fine(hoodie("check", table)).err == "no findings\n"
    assert fine(hoodie("heartbeats", table)).out == "nothing is pending\n"
    assert fine(hoodie("rollback", table, "--all")).out == "nothing to roll back\n"
    assert len(fine(hoodie("read", table, "--json")).rows) == 3


def test_live_write_is_told_of_and_left_alone(hoodie: Run, table: Path, trips: Path) -> None:
    session = begin(table, "at-work")
    time = session.requested_time
    shown = fine(hoodie("heartbeats", table))
    assert re.search(rf"{time} +deltacommit +inflight +beating +[\d.]+ s", shown.out)
    assert "hint" not in shown.err
    refused = hoodie("rollback", table, "--instant", time)
    assert refused.code == 10
    assert "writer at-work" in refused.err
    assert "retry" not in refused.err
    assert fine(hoodie("rollback", table, "--all")).out == "nothing to roll back\n"
    session.abort(has_tasks_left=False)
    done = fine(hoodie("rollback", table, "--all", "--json")).document
    assert [each["target"] for each in done["rollbacks"]] == [time]
    # A single writer would have done it before it writes.
    begin(table, "failing").abort(has_tasks_left=False)
    fine(hoodie("write", table, "--input", trips))
    assert fine(hoodie("rollback", table, "--all")).out == "nothing to roll back\n"


def test_leftovers_are_removed(hoodie: Run, table: Path, trips: Path) -> None:
    fine(hoodie("write", table, "--input", trips))
    marker = table / ".hoodie/.temp/20990101000000000/Rome/x.marker.CREATE"
    marker.parent.mkdir(parents=True)
    marker.touch()
    assert "hoodie rollback" in fine(hoodie("check", table)).err
    assert fine(hoodie("rollback", table, "--all")).out == "removed 1 file of ended instants\n"
    assert not marker.exists()
    assert fine(hoodie("check", table)).err == "no findings\n"


def test_wrong_requests_are_refused(hoodie: Run, table: Path, trips: Path) -> None:
    fine(hoodie("write", table, "--input", trips))
    committed = fine(hoodie("timeline", table, "--json")).document["instants"][0]["requested_time"]
    assert hoodie("rollback", table).code == 2
    assert hoodie("rollback", table, "--all", "--instant", committed).code == 2
    assert hoodie("rollback", table, "--instant", "yesterday").code == 20
    unknown = hoodie("rollback", table, "--instant", "20200101000000000")
    assert (unknown.code, "20200101000000000" in unknown.err) == (22, True)
    taken = hoodie("rollback", table, "--instant", committed)
    assert (taken.code, "took effect" in taken.err) == (10, True)
    eager = ("--set", "hoodie.clean.failed.writes.policy=EAGER", "--concurrency", "nbcc")
    refused = hoodie("write", table, "--input", trips, *eager)
    assert (refused.code, "EAGER" in refused.err) == (24, True)
