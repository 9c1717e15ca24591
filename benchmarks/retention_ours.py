"""Our side of `retention.py`: a task on a table, in a process of its own.

    .venv/bin/python benchmarks/retention_ours.py TASK TABLE

TASK is one of `TASKS`. What it took goes to stdout, as JSON: seconds, also of CPU, the highest
resident memory while it ran, and how many files or instants it was about. A table must be of
`large_tables`. The process has planned a clean of a small table before, so that all is loaded.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "benchmarks")]  # our neighbours

import large_tables  # noqa: E402 (the path comes first)
import memory  # noqa: E402
import pyarrow as pa  # noqa: E402

from hoodie import environment, table  # noqa: E402
from hoodie.maintenance.archiving import planning as archiving  # noqa: E402
from hoodie.maintenance.cleaning import planning as cleaning  # noqa: E402
from hoodie.maintenance.cleaning import retention, service  # noqa: E402
from hoodie.model import commits, instants, settings  # noqa: E402
from hoodie.timeline import contents  # noqa: E402
from hoodie.transaction import authors, manager  # noqa: E402
from hoodie.transaction.locks import address_texts  # noqa: E402
from hoodie.write import sessions  # noqa: E402

RETAINED = 1
POLICY = archiving.Policy(commits_min=20, commits_max=30, compaction_delta_commits=5)
ROUNDS = 33
"""So many commits are measured: the archiver runs in each eleventh."""

_HOW = retention.Retention(retained=RETAINED, grace_ms=0)
_KEEPS_TEN = retention.Retention(retained=10)


def transaction(lock: str = "filesystem") -> manager.TransactionOptions:
    """Return how the tables are changed."""
    return manager.TransactionOptions(
        settings=settings.WriteSettings(
            concurrency=settings.ConcurrencyMode.NON_BLOCKING,
            clock_wait_ms=1,
            clock_skew_ms_max=1,
        ),
        lock=address_texts.parse(lock),
        author=authors.Author(),
    )


def plan(uri: str, env: environment.Environment) -> Mapping[str, object]:
    """Put the plan of a clean on the timeline."""
    opened = table.open_table(uri, env)
    target = manager.Target(
        storage=env.open_storage(uri), config=opened.config, schema=opened.schema
    )
    proposal = service.propose(target.storage, opened.config, _HOW)  # As a clean does.
    with closing(manager.open_client(target, transaction(), env)) as client:
        service.plan(client, opened.config, _HOW, proposal)
    return {"count": cleaning.file_count(proposal.removals), "commits_seen": proposal.commits_seen}


def clean(uri: str, env: environment.Environment) -> Mapping[str, object]:
    """Plan a clean and execute it."""
    lock = "in-process" if "://" in uri else "filesystem"
    done = table.open_table(uri, env).clean(_HOW, transaction(lock))
    return {"count": sum(len(each.deleted) for each in done.done)}


def archive(uri: str, env: environment.Environment) -> Mapping[str, object]:
    """Archive."""
    done = table.open_table(uri, env).archive(transaction(), POLICY)
    return {"count": len(done.archived)}


def use(uri: str, env: environment.Environment) -> Mapping[str, object]:
    """Open the table, commit, clean and archive, as a writer with policies does, in rounds."""
    spent: dict[str, list[float]] = {"commit": [], "clean": [], "archive": []}
    for number in range(ROUNDS):
        begin = time.perf_counter()
        opened = table.open_table(uri, env)
        commit(opened, hot_rows(number))
        committed = time.perf_counter()
        opened.clean(_KEEPS_TEN, transaction())
        cleaned = time.perf_counter()
        opened.archive(transaction(), POLICY)
        spent["commit"].append(committed - begin)
        spent["clean"].append(cleaned - committed)
        spent["archive"].append(time.perf_counter() - cleaned)
    return {"count": ROUNDS, "spent": spent}


TASKS: Mapping[str, Callable[[str, environment.Environment], Mapping[str, object]]] = {
    "plan": plan,
    "clean": clean,
    "archive": archive,
    "use": use,
}


def commit(opened: table.Table, rows: pa.Table) -> None:
    """Write rows."""
    options = sessions.WriteOptions(operation=commits.Operation.UPSERT, transaction=transaction())
    opened.write(rows, options)


def hot_rows(number: int) -> pa.Table:
    """Return the rows of a batch, whose keys all batches write."""
    return rows_of([f"hot{key}" for key in range(10)], number)


def rows_of(keys: list[str], number: int) -> pa.Table:
    """Return rows with these keys."""
    return pa.table(
        {
            "id": keys,
            "part": ["p0000"] * len(keys),
            "ts": [number] * len(keys),
            "value": [number] * len(keys),
        },
        schema=large_tables.SCHEMA,
    )


def planned_paths(uri: str) -> frozenset[str]:
    """Return the files of the only pending clean, and take that off the timeline."""
    env = environment.system(parallelism=1)
    (pending,) = table.open_table(uri, env).timeline().pending_of(instants.Action.CLEAN)
    storage = env.open_storage(uri)
    found = contents.read_clean_plan(storage, pending).paths
    for each in Path(uri, ".hoodie/timeline").glob("*.clean*"):
        if each.name.startswith((pending.requested_time, f".{pending.requested_time}")):
            each.unlink()
    return found


def main(task: str, uri: str) -> None:
    """Do a task and print what it took."""
    env = environment.system(parallelism=2)
    with tempfile.TemporaryDirectory() as folder:
        large_tables.create(f"{folder}/small", large_tables.compacted_whole(2, 1))
        clean(f"{folder}/small", env)
    memory.forget_peaks([memory.OWN])
    begin, begin_cpu = time.perf_counter(), time.process_time()
    found = TASKS[task](uri, env)
    seconds, cpu_s = time.perf_counter() - begin, time.process_time() - begin_cpu
    peak = memory.peak_bytes([memory.OWN])
    print(json.dumps({"seconds": seconds, "cpu_s": cpu_s, "peak_bytes": peak, **found}))


if __name__ == "__main__":
    main(*sys.argv[1:])
