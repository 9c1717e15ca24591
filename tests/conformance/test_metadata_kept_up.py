"""Tables whose metadata table Apache Hudi made, changed by us and by it in turn.

At each stage the files that the metadata table names are those on storage, and the rows are the
same however they are read: by us and by Apache Hudi, with the metadata table and without it.
"""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from support.peer import peer_ours, peer_turns
from support.peer.judge import RELEASE, Judge, Query
from support.peer.peer_cases import BASE, SCHEMA, rows_of
from support.peer.peer_listings import assert_same_files
from support.peer.peer_rows import assert_same_rows

KEY = ["part", "id"]
FILES_ONLY = {
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.index.partition.stats.enable": "false",
    "hoodie.metadata.compact.max.delta.commits": "4",
    "hoodie.clean.commits.retained": "1",
    "hoodie.cleaner.commits.retained": "1",
}
MERGE_ON_READ = replace(BASE, name="kept", metadata_table=True, extra=FILES_ONLY)
WITH_STATISTICS = replace(
    MERGE_ON_READ, extra={key: FILES_ONLY[key] for key in FILES_ONLY if "stats" not in key}
)
RECORD_INDEX = {
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.global.record.level.index.min.filegroup.count": "2",
    "hoodie.metadata.record.index.min.filegroup.count": "2",
}
TABLES = {
    "mor": WITH_STATISTICS,
    "cow, version 8, made by ours": replace(WITH_STATISTICS, merge_on_read=False, table_version=8),
    "cow, record index": replace(
        WITH_STATISTICS, merge_on_read=False, extra=WITH_STATISTICS.extra | RECORD_INDEX
    ),
    "without partitions, files alone, made by ours": replace(MERGE_ON_READ, partition_by=()),
}
if RELEASE:
    TABLES |= {
        f"{kind}, version 8": replace(made, table_version=8)
        for kind, made in TABLES.items()
        if made.table_version != 8
    }
if RELEASE.startswith("1.0."):
    TABLES = {kind: made for kind, made in TABLES.items() if made.table_version == 8}
BY_METADATA = Query(use_metadata_table=True)
SKIPPING = replace(BY_METADATA, options={"hoodie.enable.data.skipping": "true"})


def stages(judge: Judge, path: Path, kind: str) -> Iterator[str]:
    """Change a table by both engines, in all ways that change which files it has."""
    made = TABLES[kind]
    often = {"hoodie.metadata.compact.max.delta.commits": "4"}
    ours = peer_ours.Hoodie(table=made, settings=often, orders_deletes=True)
    peer_ours.create(path, made, SCHEMA)
    if "made by ours" in kind:
        ours.write(path, rows_of(range(5), 0), "upsert")
        files_only = ["--files-only"] if "files alone" in kind else []
        peer_ours.hoodie("metadata", "init", path, "--lock", "filesystem", *files_only)
        yield "made by ours"
    yield from peer_turns.changes(judge, path, made, ours)


def assert_their_listings_are_the_same(judge: Judge, path: Path, damaged: Path) -> None:
    """Compare what Apache Hudi lists by metadata table and by storage, as its validator does.

    In a copy `damaged` they differ.
    """
    by_metadata, by_storage = judge.listings(path)
    assert by_metadata == by_storage
    shutil.copytree(path, damaged)
    (longer, *_) = (damaged / part / name for part, names in by_storage.items() for name in names)
    longer.write_bytes(longer.read_bytes() + b"x")
    assert judge.listings(damaged)[0] == by_metadata
    assert judge.listings(damaged)[1] != by_metadata


@pytest.mark.sample(0)  # Default tables of Apache Hudi in turn: test_local_time.py.
@pytest.mark.parametrize("kind", TABLES)
def test_both_engines_keep_one_metadata_table_up(kind: str, judge: Judge, tmp_path: Path) -> None:
    path = tmp_path / "table"
    for stage in stages(judge, path, kind):
        try:
            assert_same_files(path)
            listed = judge.read(path)
            assert_same_rows(judge.read(path, BY_METADATA), listed, KEY)
            assert_same_rows(peer_ours.read(path), listed, KEY)
            if "ours" not in stage:
                continue
            newest = max(listed.column("ts").to_pylist())
            for where in (
                f"ts = {newest}",
                f"amount > {newest}.5 AND quantity IS NOT NULL",
                "id IN ('key-003', 'key-005', 'key-099')",
            ):
                found = judge.read(path, replace(SKIPPING, where=where))
                assert_same_rows(found, judge.read(path, Query(where=where)), KEY)
                assert_same_rows(peer_ours.read(path, "--where", where), found, KEY)
        except AssertionError as error:
            raise AssertionError(f"{stage}: {error}") from error
    assert_their_listings_are_the_same(judge, path, tmp_path / "damaged")
    validated = peer_ours.hoodie("metadata", "validate", path)
    found = [validated[name] for name in ("differences", "statistics", "filters", "keys")]
    assert found == [[], [], [], []]
