"""Indexes that a writer of Apache Hudi 1.2.0 makes right after an indexing action.

It makes each at the requested time of the last action that completed, if that is an indexing action
of whichever engine, and before each rolls back what has that time in the metadata table: the base
files of the index before. So does its indexer with a plan of several indexes. Source:
`HoodieBackedTableMetadataWriter.java` (generateUniqueInstantTime, commitInternal).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import environment, table
from hoodie.model.file_statistics import BLOOM_FILTERS, COLUMN_STATS, PARTITION_STATS
from hoodie.model.instants import Action
from hoodie.model.key_changes import RECORD_INDEX
from hoodie.services import metadata_tables
from hoodie.storage.local import LocalStorage
from hoodie.timeline import active
from hoodie.transaction import authors
from hoodie.transaction.locks import address_texts
from hoodie.transaction.manager import TransactionOptions
from support.peer import peer_ours
from support.peer.judge import Judge, Query, QueryType
from support.peer.peer_cases import BASE, SCHEMA, rows_of
from support.peer.peer_indexes import ASYNC
from support.peer.peer_listings import assert_same_files
from support.peer.peer_options import PeerTable, filesystem_lock, table_properties
from support.peer.peer_rows import assert_same_rows
from support.tables.tables import QUICK

KEY = ["part", "id"]
LOCK = ("--lock", "filesystem")
MADE = replace(BASE, name="indexed", merge_on_read=False, metadata_table=True)
INDEXED = replace(
    MADE,
    buckets=None,
    extra={
        "hoodie.embed.timeline.server": "true",
        "hoodie.metadata.global.record.level.index.enable": "true",
    },
)
STATISTICS = (COLUMN_STATS, PARTITION_STATS)
WITH_FILTERS = {"hoodie.metadata.index.bloom.filter.enable": "true"}
SKIPPING = {"hoodie.enable.data.skipping": "true"}
ROWS = 12


def made_with_files_alone(path: Path, made: PeerTable = MADE) -> peer_ours.Hoodie:
    """Make a table, each row with a value of its own, whose metadata table has no index."""
    peer_ours.create(path, made, SCHEMA)
    ours = peer_ours.Hoodie(table=made, concurrency="occ" if made.buckets is None else None)
    rows = pa.concat_tables([rows_of(range(n, n + 1), n) for n in range(ROWS)])
    ours.write(path, rows, "upsert")
    peer_ours.hoodie("metadata", "init", path, "--files-only", *LOCK)
    return ours


def ready(path: Path) -> set[str]:
    return set(table_properties(path)["hoodie.table.metadata.partitions"].split(","))


def build(path: Path, names: Sequence[str]) -> None:
    opened = table.open_table(str(path), environment.system(parallelism=2))
    transaction = TransactionOptions(
        settings=QUICK, lock=address_texts.parse("filesystem"), author=authors.Author()
    )
    assert opened.build_index(names, transaction).built == tuple(names)


def build_by_theirs(
    judge: Judge, path: Path, names: Sequence[str], options: Mapping[str, str]
) -> None:
    planned = judge.schedule_index(path, names, options | ASYNC)
    assert planned is not None
    judge.run_index(path, planned, options | ASYNC)


def validated(path: Path) -> metadata_tables.Validation:
    return table.open_table(str(path), environment.system(parallelism=2)).validate_metadata()


def last_action(path: Path) -> Action:
    """Return what Apache Hudi takes for the last action that has completed."""
    timeline = active.listed(LocalStorage(str(path)))
    completed = [each for each in timeline.instants if each.is_completed]
    return max(completed, key=lambda each: each.requested_time).action


def missed(judge: Judge, path: Path) -> list[str]:
    """Return by which filters Apache Hudi leaves rows out; of ours each has all of its rows."""
    found = []
    for where in (f"ts = {n}" for n in range(ROWS)):
        listed = judge.read(path, Query(where=where))
        assert_same_rows(peer_ours.read(path, "--where", where), listed, KEY)
        skipping = Query(use_metadata_table=True, where=where, options=SKIPPING)
        if judge.read(path, skipping).num_rows != listed.num_rows:
            found.append(where)
    return found


@pytest.mark.sample(0)  # A minute each.
@pytest.mark.parametrize("names", [[BLOOM_FILTERS], STATISTICS], ids=["one", "both statistics"])
def test_statistics_that_apache_hudi_makes_after_its_own_indexer_are_not_used_here(
    names: Sequence[str], judge: Judge, tmp_path: Path
) -> None:
    """Its own readers leave rows out, until both are built again."""
    path = tmp_path / "table"
    made_with_files_alone(path)
    options = MADE.shared_options(filesystem_lock()) | WITH_FILTERS
    build_by_theirs(judge, path, names, options)
    judge.write(path, rows_of(range(1), 20), options)
    assert missed(judge, path)
    assert not validated(path).is_right
    # Also once the metadata table is compacted.
    compacts = {"hoodie.metadata.compact.max.delta.commits": "1"}
    judge.write(path, rows_of(range(1), 30), options | compacts)
    assert missed(judge, path)
    peer_ours.hoodie("index", "drop", path, *STATISTICS, *LOCK)
    assert missed(judge, path) == []
    build(path, STATISTICS)
    judge.write(path, rows_of(range(1), 40), options)
    assert missed(judge, path) == []
    assert validated(path).is_right
    assert_same_files(path)


@pytest.mark.parametrize("made", [MADE, replace(MADE, merge_on_read=True)], ids=["cow", "mor"])
def test_statistics_that_apache_hudi_makes_after_a_build_of_ours_are_right(
    made: PeerTable, judge: Judge, tmp_path: Path
) -> None:
    """The build ends behind a commit without rows, which is the last action (ADR 0050)."""
    path = tmp_path / "table"
    made_with_files_alone(path, made)
    changed = Query(type=QueryType.INCREMENTAL)
    before = judge.read(path, changed)
    build(path, [BLOOM_FILTERS])
    assert last_action(path) is (Action.DELTA_COMMIT if made.merge_on_read else Action.COMMIT)
    assert_same_rows(judge.read(path, changed), before, KEY)
    options = made.shared_options(filesystem_lock()) | WITH_FILTERS
    judge.write(path, rows_of(range(1), 20), options)
    assert {*STATISTICS, BLOOM_FILTERS} <= ready(path)
    assert missed(judge, path) == []
    assert validated(path).is_right
    assert_same_files(path)


def test_record_index_of_ours_stays_when_apache_hudi_makes_statistics_right_after_it(
    judge: Judge, tmp_path: Path
) -> None:
    path = tmp_path / "table"
    ours = made_with_files_alone(path, INDEXED)
    build(path, [RECORD_INDEX])
    options = INDEXED.occ_options(filesystem_lock()) | {"hoodie.index.type": "RECORD_INDEX"}
    judge.write(path, rows_of(range(1), 20), options)
    assert {*STATISTICS, RECORD_INDEX} <= ready(path)
    assert missed(judge, path) == []
    for number in range(ROWS):
        by_key = Query(use_metadata_table=True, where=f"id = 'key-{number:03}'", options=SKIPPING)
        assert judge.read(path, by_key).num_rows == 1
    ours.write(path, rows_of(range(2), 30), "upsert")
    assert peer_ours.read(path).num_rows == ROWS
    assert validated(path).is_right


def test_table_whose_last_action_is_of_the_indexer_of_apache_hudi_gets_a_later_one(
    judge: Judge, tmp_path: Path
) -> None:
    """By a build of what is there already, as an IndexRequest repeats it."""
    path = tmp_path / "table"
    made_with_files_alone(path)
    options = MADE.shared_options(filesystem_lock()) | WITH_FILTERS
    build_by_theirs(judge, path, [BLOOM_FILTERS], options)
    assert last_action(path) is Action.INDEXING
    peer_ours.hoodie("index", "build", path, BLOOM_FILTERS, *LOCK)
    assert last_action(path) is Action.COMMIT
    judge.write(path, rows_of(range(1), 20), options)
    assert {*STATISTICS, BLOOM_FILTERS} <= ready(path)
    assert missed(judge, path) == []
    assert validated(path).is_right


def test_record_index_that_a_writer_of_apache_hudi_rolls_back_is_refused_here(
    judge: Judge, tmp_path: Path
) -> None:
    """Its indexer made it, and the next write the statistics; its own readers miss rows by it."""
    path = tmp_path / "table"
    made_with_files_alone(path, INDEXED)
    options = INDEXED.occ_options(filesystem_lock())
    off = {"hoodie.metadata.index.column.stats.enable": "false"}
    build_by_theirs(judge, path, [RECORD_INDEX], options | off)
    judge.write(path, rows_of(range(1), 20), options | {"hoodie.index.type": "RECORD_INDEX"})
    assert RECORD_INDEX in ready(path)
    assert missed(judge, path) == []
    by_key = Query(use_metadata_table=True, where="id = 'key-003'", options=SKIPPING)
    assert not judge.read(path, by_key).num_rows
    assert peer_ours.read(path, "--where", "id = 'key-003'").num_rows == 1
    (wrong,) = validated(path).keys
    assert "rolled it back. `hoodie index drop` and `hoodie index build`" in wrong.problem
    ours = peer_ours.Hoodie(table=INDEXED, concurrency="occ")
    with pytest.raises(peer_ours.CommandFailedError, match="rolled it back"):
        ours.write(path, rows_of(range(2), 30), "upsert")
    peer_ours.hoodie("index", "drop", path, RECORD_INDEX, *LOCK)
    build(path, [RECORD_INDEX])
    ours.write(path, rows_of(range(2), 30), "upsert")
    assert peer_ours.read(path).num_rows == ROWS
    assert validated(path).is_right
