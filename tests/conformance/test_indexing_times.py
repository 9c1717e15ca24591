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
from hoodie.model.key_changes import RECORD_INDEX
from hoodie.services import metadata_tables
from hoodie.transaction import authors
from hoodie.transaction.locks import address_texts
from hoodie.transaction.manager import TransactionOptions
from support.peer import peer_ours
from support.peer.judge import Judge, Query
from support.peer.peer_cases import BASE, SCHEMA, rows_of
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
ASYNC = {
    "hoodie.metadata.index.async": "true",
    "hoodie.metadata.streaming.write.enabled": "false",
}
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


@pytest.mark.parametrize("who", ["ours", "theirs", "theirs, both statistics"])
def test_statistics_that_apache_hudi_makes_after_an_indexing_action_are_not_used_here(
    who: str, judge: Judge, tmp_path: Path
) -> None:
    """Its own readers leave rows out, until both are built again; after its own indexer as well."""
    path = tmp_path / "table"
    made_with_files_alone(path)
    options = MADE.shared_options(filesystem_lock())
    if who == "ours":
        build(path, [BLOOM_FILTERS])
    else:
        names = STATISTICS if "both" in who else [BLOOM_FILTERS]
        build_by_theirs(judge, path, names, options | WITH_FILTERS)
    options |= WITH_FILTERS
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


@pytest.mark.parametrize("way", ["built", "written between"])
def test_statistics_of_apache_hudi_are_right_by_the_ways_out(
    way: str, judge: Judge, tmp_path: Path
) -> None:
    """Those that `docs/limits.md` names: it has none to make, or the last action is a write."""
    path = tmp_path / "table"
    ours = made_with_files_alone(path)
    if way == "built":
        build(path, STATISTICS)
    build(path, [BLOOM_FILTERS])
    if way == "written between":
        ours.write(path, rows_of(range(1), 15), "upsert")
    options = MADE.shared_options(filesystem_lock())
    judge.write(path, rows_of(range(1), 20), options | WITH_FILTERS)
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
    ours = peer_ours.Hoodie(table=INDEXED, concurrency="occ")
    with pytest.raises(peer_ours.CommandFailedError, match="rolled it back"):
        ours.write(path, rows_of(range(2), 30), "upsert")
    peer_ours.hoodie("index", "drop", path, RECORD_INDEX, *LOCK)
    build(path, [RECORD_INDEX])
    ours.write(path, rows_of(range(2), 30), "upsert")
    assert peer_ours.read(path).num_rows == ROWS
    assert validated(path).is_right
