"""No duplicates in deployment models A and B: one writer, its compactions inline or beside it.

Model C, several processes, is in tests/processes. The table of promises is docs/guarantees.md.
"""

import random
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from hoodie.maintenance.archiving import planning
from hoodie.maintenance.cleaning import retention
from hoodie.model import commits, instants, settings, table_config
from hoodie.transaction import authors, manager
from hoodie.transaction.locks import address_texts
from hoodie.write import sessions
from support.tables.tables import CONFIG, SmallTable

BATCHES = 8
KEYS = [f"k{number}" for number in range(40)]
ALONE = settings.WriteSettings(
    concurrency=settings.ConcurrencyMode.SINGLE_WRITER, clock_wait_ms=0, combines_inserts=True
)
WITHOUT_DUPLICATES = replace(ALONE, drops_duplicates=True)
WHOLE_ROWS = replace(CONFIG, has_partial_updates=False)

CLEANED = retention.Retention(policy=retention.Policy.VERSIONS, retained=1, grace_ms=0)
ARCHIVED = planning.Policy(commits_min=1, commits_max=2, compaction_delta_commits=1)

Row = Mapping[str, object]
Write = Callable[[Sequence[Row]], object]


def batches() -> list[list[Row]]:
    """Return rows of keys that come again and again, in a batch and among batches."""
    chance = random.Random(7)
    return [
        [{"id": key, "part": "p", "a": number, "b": None} for key in chance.choices(KEYS, k=15)]
        for number in range(BATCHES)
    ]


def transaction(
    write: settings.WriteSettings, author: authors.Author
) -> manager.TransactionOptions:
    """Return what needs no lock but one of this process."""
    return manager.TransactionOptions(
        settings=write, lock=address_texts.parse("in-process"), author=author
    )


def compact(small: SmallTable) -> bool:
    """Compact once, and return whether there was anything to compact."""
    service = transaction(ALONE, authors.Author())
    planned = small.table.schedule_compaction(service)
    if planned is not None:
        small.table.compact(planned, service)
    return planned is not None


def clean_and_archive(small: SmallTable) -> None:
    """Delete what is replaced, and keep one commit on the active timeline."""
    service = transaction(ALONE, authors.Author())
    small.table.clean(CLEANED, service)
    small.table.archive(service, ARCHIVED)


def write_inline(small: SmallTable, write: Write) -> None:
    """Model A: the writer itself compacts, cleans and archives between its batches."""
    for number, rows in enumerate(batches()):
        write(rows)
        if number % 3 == 1:
            if not small.table.config.is_copy_on_write:
                compact(small)
            clean_and_archive(small)


def write_beside_services(small: SmallTable, write: Write) -> None:
    """Model B: compactions, cleans and archiving run in a thread of the writer's process."""
    has_compacted, is_done = threading.Event(), threading.Event()
    failures: list[BaseException] = []

    def serve() -> None:
        try:
            while not is_done.is_set():
                if compact(small):
                    has_compacted.set()
                clean_and_archive(small)
        except BaseException as error:
            failures.append(error)
            raise

    service = threading.Thread(target=serve)
    service.start()
    try:
        *first, last = batches()
        for rows in first:
            write(rows)
        assert has_compacted.wait(60), "nothing runs beside the writer"
        write(last)
    finally:
        is_done.set()
        service.join()
    assert not failures


MODELS = [write_inline, write_beside_services]
TYPES = table_config.TableType


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("operation", "write_settings", "newest_wins"),
    [
        (commits.Operation.UPSERT, ALONE, True),
        (commits.Operation.INSERT, WITHOUT_DUPLICATES, False),
        (commits.Operation.BULK_INSERT, WITHOUT_DUPLICATES, False),
    ],
)
def test_one_writer_leaves_no_duplicates(
    tmp_path: Path,
    model: Callable[[SmallTable, Write], None],
    operation: commits.Operation,
    write_settings: settings.WriteSettings,
    *,
    newest_wins: bool,
) -> None:
    """S72-S74, S77; T-O24 and T-O25."""
    check(SmallTable(tmp_path / "t", WHOLE_ROWS), model, operation, write_settings, newest_wins)


@pytest.mark.parametrize(
    ("operation", "write_settings", "newest_wins"),
    [
        (commits.Operation.UPSERT, ALONE, True),
        (commits.Operation.INSERT, WITHOUT_DUPLICATES, False),
    ],
)
def test_one_writer_leaves_no_duplicates_in_copy_on_write_tables(
    tmp_path: Path,
    operation: commits.Operation,
    write_settings: settings.WriteSettings,
    *,
    newest_wins: bool,
) -> None:
    """S72, S73; a bulk insert takes empty buckets only there."""
    config = replace(WHOLE_ROWS, table_type=TYPES.COPY_ON_WRITE)
    small = SmallTable(tmp_path / "t", config)
    check(small, write_inline, operation, write_settings, newest_wins)


def check(
    small: SmallTable,
    model: Callable[[SmallTable, Write], None],
    operation: commits.Operation,
    write_settings: settings.WriteSettings,
    newest_wins: bool,
) -> None:
    options = sessions.WriteOptions(
        operation=operation,
        transaction=transaction(write_settings, authors.Author(writer_id="w")),
    )
    model(small, lambda rows: small.table.write(small.data(rows), options))
    expected: dict[object, object] = {}
    for row in (row for rows in batches() for row in rows):
        if newest_wins or row["id"] not in expected:
            expected[row["id"]] = row["a"]
    clean_and_archive(small)
    assert list(small.table.archived_instants()), "nothing was archived"
    archived = [each.instant for each in small.table.archived_instants()]
    actions = {each.action for each in (*archived, *small.table.timeline().completed)}
    assert instants.Action.CLEAN in actions or operation is not commits.Operation.UPSERT
    found = [(row["id"], row["a"]) for row in small.rows()]
    assert sorted(found, key=str) == sorted(expected.items(), key=str)
    assert small.problems() == []
