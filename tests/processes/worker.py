"""One process of the test of real processes: writes batches of a column, or compacts, until killed.

A copy-on-write table is written optimistically, any other without blocking.

    python worker.py write TABLE LOCK COLUMN FIRST   batches FIRST, FIRST + 1, ... of the column
    python worker.py compact TABLE LOCK              schedules and executes, again and again

It prints a line for each thing that was acknowledged. What a batch holds follows from its number.
"""

import random
import sys
import time

import pyarrow as pa

from hoodie import environment, errors, table
from hoodie.model import commits, results, settings, table_config
from hoodie.transaction import authors
from hoodie.transaction.locks import address_texts
from hoodie.write import sessions

KEYS = 200


def rows_of(column: str, number: int) -> dict[str, int]:
    """Return what a batch sets the column to, by key."""
    chance = random.Random(f"{column}-{number}")
    return {f"k{key:03d}": number for key in chance.sample(range(KEYS), 40)}


def transaction(
    opened: table.Table, lock: str, author: authors.Author
) -> sessions.TransactionOptions:
    is_cow = opened.config.table_type is table_config.TableType.COPY_ON_WRITE
    modes = settings.ConcurrencyMode
    return sessions.TransactionOptions(
        settings=settings.WriteSettings(
            concurrency=modes.OPTIMISTIC if is_cow else modes.NON_BLOCKING,
            conflict_retries_max=1_000,
            # Killed every moment, a writer would spend its short life taking others back.
            failed_writes_policy=settings.FailedWritesPolicy.NEVER,
            clock_wait_ms=0,
            lock_wait_ms=30_000,
        ),
        lock=address_texts.parse(lock),
        author=author,
    )


def write(opened: table.Table, lock: str, column: str, number: int) -> None:
    options = transaction(opened, lock, authors.Author(writer_id=column))
    while True:
        rows = rows_of(column, number)
        data = pa.table({"id": list(rows), column: pa.array(rows.values(), pa.int64())})
        result = opened.write(
            data,
            sessions.WriteOptions(
                operation=commits.Operation.UPSERT, transaction=options, batch_id=str(number)
            ),
        )
        is_new = isinstance(result, results.CommitResult)
        print(number, "written" if is_new else "was there", flush=True)
        number += 1


def compact(opened: table.Table, lock: str) -> None:
    options = transaction(opened, lock, authors.Author())
    while True:
        pending = [each.requested_time for each in opened.timeline().pending_compactions]
        planned = opened.schedule_compaction(options)
        for requested_time in [*pending, *([planned] if planned else [])]:
            try:
                opened.compact(requested_time, options)
                print(requested_time, "compacted", flush=True)
            except errors.ConflictError as error:
                print(requested_time, "conflict", error, flush=True)
        time.sleep(0.05)


def main() -> None:
    role, uri, lock, *rest = sys.argv[1:]
    opened = table.open_table(uri, environment.system(parallelism=1))
    if role == "write":
        write(opened, lock, rest[0], int(rest[1]))
    else:
        compact(opened, lock)


if __name__ == "__main__":
    main()
