"""Tables that do not say how their records are found: refused, and adopted."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from hoodie import errors, table
from hoodie.model import settings, table_config
from hoodie.model.table_config import IndexKind
from hoodie.model.time_zones import TimeZone
from hoodie.timeline import table_properties
from hoodie.write import sessions
from support.tables.tables import CONFIG, SmallTable

ROWS = [{"id": str(n), "part": "p", "a": n, "b": "x"} for n in range(20)]
ALONE = {"concurrency": settings.ConcurrencyMode.SINGLE_WRITER}
SIMPLE = replace(CONFIG, bucket_count=None, index=IndexKind.SIMPLE)


def unstated(path: Path, config: table_config.TableConfig, **changes: str | None) -> SmallTable:
    """Return a table with rows, without the properties that Apache Hudi does not store."""
    small = SmallTable(path / "t", config)
    small.upsert(ROWS, **ALONE)
    small.upsert(ROWS[:5], small_file_bytes=0, **ALONE)
    stored = [table_config.BUCKET_COUNT_KEY, table_config.HASH_FIELDS_KEY, table_config.INDEX_KEY]
    put(small, dict.fromkeys(stored) | changes)
    return small


def put(small: SmallTable, changes: dict[str, str | None]) -> None:
    storage = small.env.open_storage(str(small.path))
    table_properties.update(storage, changes, small.env.clock, lambda: None)
    reopen(small)


def reopen(small: SmallTable) -> None:
    small.table = table.open_table(str(small.path), small.env)


def adopt(
    small: SmallTable,
    index: IndexKind,
    buckets: int | None = None,
    *,
    zone: str | None = None,
    is_preview: bool = False,
) -> dict[str, str]:
    declared = replace(
        small.table.config,
        index=None if index is IndexKind.BUCKET else index,
        bucket_count=buckets,
    )
    if zone is not None:
        declared = replace(declared, time_zone=TimeZone(zone))
    transaction = small.options(**ALONE).transaction
    found = small.table.adopt(declared, transaction, is_preview=is_preview)
    reopen(small)
    return dict(found)


@pytest.mark.parametrize("index", [IndexKind.SIMPLE, IndexKind.BLOOM])
def test_table_is_written_once_it_states_its_index(tmp_path: Path, index: IndexKind) -> None:
    small = unstated(tmp_path, SIMPLE)
    assert small.table.config.index_kind is None
    assert len(small.rows()) == len(ROWS)
    with pytest.raises(errors.UnsupportedError, match="hoodie adopt URI --index simple"):
        small.upsert(ROWS, **ALONE)
    assert adopt(small, index, is_preview=True) == {table_config.INDEX_KEY: index.value}
    assert small.table.config.index_kind is None
    assert adopt(small, index) == {table_config.INDEX_KEY: index.value}
    assert small.table.config.index_kind is index
    assert adopt(small, index) == {}
    small.upsert([{**row, "b": "new"} for row in ROWS], **ALONE)
    assert [row["b"] for row in small.rows()] == ["new"] * len(ROWS)


def test_table_whose_file_groups_are_all_of_buckets_is_refused(tmp_path: Path) -> None:
    small = unstated(tmp_path, CONFIG)
    with pytest.raises(errors.ConfigurationError, match=r"all of buckets.*--index bucket"):
        adopt(small, IndexKind.SIMPLE)
    with pytest.raises(errors.ConfigurationError, match="not distributed over 3 buckets"):
        adopt(small, IndexKind.BUCKET, 3)
    assert small.table.config.index_kind is None
    adopt(small, IndexKind.BUCKET, 2)
    assert small.table.config.bucket_count == 2
    small.upsert(ROWS)
    assert len(small.rows()) == len(ROWS)


LOCAL = {"hoodie.table.timeline.timezone": "LOCAL"}


def test_table_in_local_time_is_written_once_it_states_its_zone(tmp_path: Path) -> None:
    # The times of our own instants are UTC, as those of a JVM in UTC are.
    small = unstated(tmp_path, SIMPLE, **LOCAL)
    with pytest.raises(errors.UnsupportedError, match="hoodie adopt --time-zone"):
        adopt(small, IndexKind.SIMPLE)
    with pytest.raises(errors.ConfigurationError, match="behind those of Asia/Kolkata"):
        adopt(small, IndexKind.SIMPLE, zone="Asia/Kolkata")
    with pytest.raises(errors.ConfigurationError, match="ahead of those of America/Lima"):
        adopt(small, IndexKind.SIMPLE, zone="America/Lima")
    with pytest.raises(errors.ConfigurationError, match="no time zone 'Mars/Olympus'"):
        adopt(small, IndexKind.SIMPLE, zone="Mars/Olympus")
    assert small.table.config.time_zone is None
    assert adopt(small, IndexKind.SIMPLE, zone="Etc/UCT") == {
        table_config.INDEX_KEY: "SIMPLE",
        table_config.TIME_ZONE_KEY: "Etc/UCT",
    }
    assert small.table.config.zone == TimeZone("Etc/UCT")
    assert adopt(small, IndexKind.SIMPLE, zone="Etc/UCT") == {}
    small.upsert(ROWS, **ALONE)
    assert len(small.rows()) == len(ROWS)


def test_zone_is_stated_alone(tmp_path: Path) -> None:
    small = unstated(tmp_path, SIMPLE, **LOCAL)
    put(small, {table_config.INDEX_KEY: "SIMPLE"})
    assert adopt(small, IndexKind.SIMPLE, zone="UTC") == {table_config.TIME_ZONE_KEY: "UTC"}
    small.upsert(ROWS, **ALONE)
    assert len(small.rows()) == len(ROWS)


def test_table_that_was_copied_takes_any_zone(tmp_path: Path) -> None:
    small = unstated(tmp_path, SIMPLE, **LOCAL)
    for file in (small.path / ".hoodie" / "timeline").iterdir():
        os.utime(file, (0, 0))
    assert adopt(small, IndexKind.SIMPLE, zone="Asia/Kolkata", is_preview=True)


def test_another_zone_that_was_stated_meanwhile_is_a_conflict(tmp_path: Path) -> None:
    small = unstated(tmp_path, SIMPLE, **LOCAL)
    before = small.table
    adopt(small, IndexKind.SIMPLE, zone="UTC")
    small.table = before
    with pytest.raises(errors.ConflictError, match=r"timeline\.zone changed concurrently"):
        adopt(small, IndexKind.SIMPLE, zone="Etc/UCT")


def test_table_with_consistent_hashing_is_refused(tmp_path: Path) -> None:
    small = unstated(tmp_path, SIMPLE)
    folder = small.path / ".hoodie" / ".bucket_index" / "consistent_hashing_metadata" / "p"
    folder.mkdir(parents=True)
    (folder / "00000000000000.hashing_meta").write_text("{}")
    with pytest.raises(errors.ConfigurationError, match="consistent hashing"):
        adopt(small, IndexKind.SIMPLE)


def test_table_that_is_not_written_for_another_reason_is_refused(tmp_path: Path) -> None:
    small = unstated(tmp_path, SIMPLE, **{table_config.METADATA_PARTITIONS_KEY: "expr_index_a"})
    with pytest.raises(errors.FormatError, match="without files"):
        adopt(small, IndexKind.SIMPLE)


def test_index_that_this_release_does_not_write_is_refused(tmp_path: Path) -> None:
    small = unstated(tmp_path, SIMPLE, **{table_config.INDEX_KEY: "INMEMORY"})
    assert len(small.rows()) == len(ROWS)
    with pytest.raises(errors.UnsupportedError, match=r"BUCKET, CONSISTENT.*INMEMORY"):
        small.upsert(ROWS, **ALONE)


def test_index_beside_buckets_is_refused(tmp_path: Path) -> None:
    small = unstated(
        tmp_path,
        SIMPLE,
        **{table_config.INDEX_KEY: "SIMPLE", table_config.BUCKET_COUNT_KEY: "2"},
    )
    with pytest.raises(errors.UnsupportedError, match="one index"):
        small.upsert(ROWS, **ALONE)
    with pytest.raises(errors.ConfigurationError, match="expected one of the two"):
        SmallTable(tmp_path / "u", replace(CONFIG, index=IndexKind.SIMPLE))


def test_write_that_began_before_the_index_was_stated_is_refused(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t", SIMPLE)
    options = small.options(**ALONE)
    session = small.table.begin_write(options, ["id", "part", "a", "b"])
    assert isinstance(session, sessions.WriteSession)
    stats = small.run_task(session, ROWS)
    put(small, {table_config.INDEX_KEY: "BLOOM"})
    with pytest.raises(errors.ConflictError, match=r"index of table small is .*BLOOM"):
        session.commit(stats)
