"""A writer that becomes a daemon after it has opened its table: `python daemon_writer.py TABLE`.

The process that is started opens the table, forks and ends. Its child begins a write, takes the
table lock, prints `begun`, and once a line comes on its standard input gives the lock back, commits
and prints `committed`, or why it could not.
"""

import os
import sys

import pyarrow as pa

from hoodie import environment, errors, table
from hoodie.model import commits, settings
from hoodie.transaction import authors, manager
from hoodie.transaction.locks import address_texts, opening
from hoodie.write import batches, sessions, tasks, write_task


def main(path: str) -> None:
    env = environment.system(parallelism=1)
    opened = table.open_table(path, env)
    if os.fork():
        os._exit(0)
    transaction = manager.TransactionOptions(
        settings=settings.WriteSettings(concurrency=settings.ConcurrencyMode.OPTIMISTIC),
        lock=address_texts.parse("filesystem"),
        author=authors.Author(writer_id="daemon"),
    )
    options = sessions.WriteOptions(operation=commits.Operation.UPSERT, transaction=transaction)
    row = {"id": "1", "part": "p", "a": 1, "b": None}
    data = pa.Table.from_pylist([row], opened.schema.arrow)
    session = opened.begin_write(options, data.column_names)
    assert isinstance(session, sessions.WriteSession)
    batch = batches.prepare(data, opened.config, opened.schema, commits.Operation.UPSERT)
    storage = env.open_storage(path)
    written = tasks.run(session.task, batch, write_task.WriteToken(), storage, env.engine)
    lock = opening.open_for("daemon", transaction.lock, storage, env)
    lock.acquire(60)
    print("begun", flush=True)
    sys.stdin.readline()
    is_held = lock.is_held()
    lock.close()
    try:
        session.commit(written)
        print("committed" if is_held else "lost the lock", flush=True)
    except errors.HoodieError as error:
        print(error, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
