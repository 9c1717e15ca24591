"""Writes of ours that are under way, for what Apache Hudi does meanwhile."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from hoodie import environment, table
from hoodie.model import commits, settings
from hoodie.transaction import authors, manager
from hoodie.transaction.locks import address_texts
from hoodie.write import batches, sessions, tasks, write_task

OPTIMISTIC = settings.WriteSettings(concurrency=settings.ConcurrencyMode.OPTIMISTIC)
NON_BLOCKING = replace(OPTIMISTIC, concurrency=settings.ConcurrencyMode.NON_BLOCKING)


def begun(
    path: Path,
    rows: pa.Table,
    write_settings: settings.WriteSettings = OPTIMISTIC,
    operation: commits.Operation = commits.Operation.UPSERT,
    *,
    writer_id: str = "ours",
) -> tuple[sessions.WriteSession, Sequence[commits.Written]]:
    """Begin a write, and write its data files; return what there is to commit."""
    env = environment.system(parallelism=2)
    opened = table.open_table(str(path), env)
    options = sessions.WriteOptions(
        operation=operation,
        transaction=manager.TransactionOptions(
            settings=write_settings,
            lock=address_texts.parse("filesystem"),
            author=authors.Author(writer_id=writer_id),
        ),
    )
    session = opened.begin_write(options, rows.column_names)
    assert isinstance(session, sessions.WriteSession)
    batch = batches.prepare(rows, opened.config, opened.schema, operation)
    storage = env.open_storage(str(path))
    return session, tasks.run(session.task, batch, write_task.WriteToken(), storage, env.engine)
