"""A process of ours that is killed at a step: `python dying_writer.py TABLE INPUT STEP`.

Steps: `written`, its data files are there and nothing is committed; `rollback-planned` and
`rollback-begun`, a rollback of such a write was requested, or made inflight. It prints the instant
of the write, then kills itself as SIGKILL does: nothing is tidied.
"""

import os
import signal
import sys

import pyarrow.parquet as pq

from hoodie import environment, table
from hoodie.maintenance.rollback import execution, planning
from hoodie.model import commits, settings
from hoodie.timeline import transitions
from hoodie.transaction import authors, heartbeats, manager, markers
from hoodie.transaction.locks import address_texts
from hoodie.write import batches, sessions, tasks, write_task


def main(path: str, source: str, step: str) -> None:
    env = environment.system()
    opened = table.open_table(path, env)
    storage = env.open_storage(path)
    transaction = manager.TransactionOptions(
        settings=settings.WriteSettings(failed_writes_policy=settings.FailedWritesPolicy.NEVER),
        lock=address_texts.parse("filesystem"),
        author=authors.Author(writer_id="dying"),
    )
    upsert = commits.Operation.UPSERT
    data = pq.read_table(source)
    options = sessions.WriteOptions(operation=upsert, transaction=transaction)
    session = opened.begin_write(options, data.column_names)
    assert isinstance(session, sessions.WriteSession)
    batch = batches.prepare(data, opened.config, opened.schema, upsert)
    tasks.run(session.task, batch, write_task.WriteToken(), storage, env.engine)
    print(session.requested_time, flush=True)
    if step != "written":
        session.abort(has_tasks_left=True)
        storage.delete(heartbeats.path_of(session.requested_time))
        target = manager.Target(storage=storage, config=opened.config, schema=opened.schema)
        client = manager.open_client(target, transaction, env)
        found = opened.timeline().find(session.requested_time)
        assert found is not None
        plan = planning.plan_of(found, markers.marked_files(storage, session.requested_time))
        held = execution.request(client, opened.config, plan)
        if step == "rollback-begun":
            transitions.start(storage, held.opened.requested, b"", held.opened.heartbeat.is_own)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
