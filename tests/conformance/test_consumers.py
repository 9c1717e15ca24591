"""Consumers beside Apache Hudi: it passes their files by, and reads the increments they hold."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import environment, table
from hoodie.maintenance.archiving import planning
from hoodie.maintenance.cleaning import retention
from hoodie.model import instants, settings
from hoodie.timeline import active
from hoodie.transaction import authors, manager
from hoodie.transaction.locks import address_texts
from hoodie_operator.observing import tables
from support.peer import peer_ours
from support.peer.judge import Judge, Query, QueryType
from support.peer.peer_cases import BASE, SCHEMA, row
from support.peer.peer_options import PeerTable, filesystem_lock
from support.peer.peer_rows import assert_same_rows

TABLES = {
    "mor": replace(BASE, name="consumed"),
    "cow": replace(BASE, name="consumed", merge_on_read=False),
}
KEY = ["part", "id", "ts"]
WRITES = 10
READ = 3
"""After so many writes the consumer has stopped."""
HOW = retention.Retention(retained=1, grace_ms=0)
POLICY = planning.Policy(commits_min=2, commits_max=4, compaction_delta_commits=2)


def rows_of(ts: int) -> pa.Table:
    return pa.Table.from_pylist([row(number, ts=ts) for number in range(6)], SCHEMA)


def opened(path: Path) -> table.Table:
    return table.open_table(str(path), environment.system())


def transaction() -> manager.TransactionOptions:
    return manager.TransactionOptions(
        settings=settings.WriteSettings(),
        lock=address_texts.parse("filesystem"),
        author=authors.Author(),
    )


def fill(judge: Judge, peer: PeerTable, path: Path, writes: range) -> None:
    """Write by turns, and compact now and then."""
    ours, theirs = peer_ours.Hoodie(table=peer), peer.shared_options(filesystem_lock())
    for number in writes:
        if number % 2 == 0:
            ours.write(path, rows_of(1000 + number), "upsert")
        else:
            judge.write(path, rows_of(1000 + number), theirs)
        if peer.merge_on_read and number % 3 == 2:
            judge.compact(path, theirs)


def completions(path: Path) -> list[instants.InstantTime]:
    """Return when each write of rows completed."""
    found = opened(path).timeline().completed_writes
    return [
        each.completion_time
        for each in found
        if each.completion_time is not None and each.action is not instants.Action.COMPACTION
    ]


@pytest.mark.parametrize("kind", TABLES)
def test_increments_that_a_consumer_has_not_read_stay_readable(
    kind: str, judge: Judge, tmp_path: Path
) -> None:
    """Whatever is cleaned and archived by us; and their cleaner passes it, which is shown."""
    peer, path = TABLES[kind], tmp_path / "table"
    fill(judge, peer, path, range(READ))
    before = judge.timeline(path)
    consumed = peer_ours.hoodie("consumer", "advance", path, "billing")["consumed"]
    assert (path / active.consumer_path("billing")).exists()
    assert judge.timeline(path) == before
    fill(judge, peer, path, range(READ, READ + 1))
    first = completions(path)[-1]
    fill(judge, peer, path, range(READ + 1, WRITES))
    increment = Query(type=QueryType.INCREMENTAL, begin=consumed, end=first)
    assert_same_rows(judge.read(path, increment), rows_of(1000 + READ), KEY)
    opened(path).clean(HOW, transaction())
    found = opened(path).clean(HOW, transaction())
    assert "consumer billing has read up to" in found.held_by
    archived = opened(path).archive(transaction(), POLICY)
    assert any("consumer billing" in each or "retains" in each for each in archived.holds)
    assert_same_rows(judge.read(path, increment), rows_of(1000 + READ), KEY)
    assert_same_rows(judge.read(path), rows_of(1000 + WRITES - 1), KEY)
    (state,) = peer_ours.hoodie("consumer", "list", path)["consumers"]
    assert (state["state"], state["passed_by"]) == ("holding", None)

    theirs = peer.shared_options(filesystem_lock()) | {
        "hoodie.clean.policy": "KEEP_LATEST_COMMITS",
        "hoodie.clean.commits.retained": "1",
    }
    judge.write(path, rows_of(4000), theirs)
    judge.clean(path, theirs)
    (state,) = peer_ours.hoodie("consumer", "list", path)["consumers"]
    assert (state["state"], state["passed_by"] is not None) == ("holding", True)
    observer = tables.TableObserver(environment.system())
    uri = opened(path).uri
    seen = observer.look(tables.TableTarget(uri=uri, settings=settings.WriteSettings()))
    (passed,) = seen.passed_consumers
    assert (passed.name, passed.consumed) == ("billing", consumed)
    judge.archive(
        path,
        theirs
        | {
            "hoodie.archive.automatic": "true",
            "hoodie.keep.min.commits": "2",
            "hoodie.keep.max.commits": "3",
        },
    )
    assert (path / active.consumer_path("billing")).exists()
    judge.write(path, rows_of(5000), theirs)
    assert_same_rows(judge.read(path), rows_of(5000), KEY)
    assert_same_rows(peer_ours.read(path), rows_of(5000), KEY)
    checked = peer_ours.hoodie("check", path)
    assert checked["findings"] == []
    assert [each["subject"] for each in checked["notes"]] == ["consumer billing"]
