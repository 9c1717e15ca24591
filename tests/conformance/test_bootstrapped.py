"""Tables that Apache Hudi bootstrapped: by its procedure, and by the operation of its data source.

FULL_RECORD copies the rows into the table. METADATA_ONLY leaves them in files outside of it, and
only what is written later is in the table.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.peer import peer_ours
from support.peer.judge import Judge
from support.peer.peer_cases import DEFAULTS, SCHEMA, row
from support.peer.peer_options import PeerTable
from support.peer.peer_rows import assert_same_rows

SELECTORS = "org.apache.hudi.client.bootstrap.selector"
GENERATOR = "org.apache.hudi.keygen.NonpartitionedKeyGenerator"
COLUMNS = pa.schema([each for each in SCHEMA if each.name != "part"])
Bootstrap = Callable[[Judge, Path, Path, PeerTable, str], None]


def rows_of(numbers: range, ts: int) -> pa.Table:
    rows = [row(n, ts=ts) for n in numbers]
    only = [{key: each[key] for key in COLUMNS.names} for each in rows]
    return pa.Table.from_pylist(only, COLUMNS)


def options_of(table: PeerTable) -> dict[str, str]:
    return table.write_options() | {"hoodie.datasource.write.keygenerator.class": GENERATOR}


def by_procedure(judge: Judge, source: Path, path: Path, table: PeerTable, mode: str) -> None:
    """Give it the ordering field, too: it has no parameter for that, and fails without one."""
    table_type = "MERGE_ON_READ" if table.merge_on_read else "COPY_ON_WRITE"
    judge.execute("SET hoodie.metadata.enable=false")
    try:
        judge.sql(
            f"CALL run_bootstrap(table => '{table.name}', table_type => '{table_type}',"
            f" bootstrap_path => '{source}', base_path => '{path}', rowKey_field => 'id',"
            f" partition_path_field => '', key_generator_class => '{GENERATOR}',"
            f" selector_class => '{SELECTORS}.{mode}BootstrapModeSelector',"
            " bootstrap_overwrite => true, options => 'hoodie.table.ordering.fields=ts,"
            "hoodie.datasource.write.precombine.field=ts')"
        )
    finally:
        judge.execute("RESET hoodie.metadata.enable")


def by_data_source(judge: Judge, source: Path, path: Path, table: PeerTable, mode: str) -> None:
    options = {
        "hoodie.bootstrap.base.path": str(source),
        "hoodie.bootstrap.mode.selector": f"{SELECTORS}.{mode}BootstrapModeSelector",
        "hoodie.bootstrap.keygen.class": GENERATOR,
        "hoodie.bootstrap.parallelism": "2",
    }
    nothing = rows_of(range(0), 0)
    judge.write(path, nothing, options_of(table) | options, operation="bootstrap")


def bootstrapped(
    judge: Judge, folder: Path, bootstrap: Bootstrap, table: PeerTable, mode: str
) -> Path:
    """Return the root of a table that was bootstrapped from eight rows."""
    source, path = folder / "source", folder / "table"
    source.mkdir()
    pq.write_table(rows_of(range(8), 1000), source / "rows.parquet", store_schema=False)
    bootstrap(judge, source, path, table, mode)
    return path


def table_of(bootstrap: Bootstrap, mode: str, *, is_merge_on_read: bool) -> PeerTable:
    name = f"{bootstrap.__name__}_{mode.lower()}_{'mor' if is_merge_on_read else 'cow'}"
    return replace(DEFAULTS, name=name, partition_by=(), merge_on_read=is_merge_on_read)


def assert_sound(judge: Judge, path: Path, expected: pa.Table) -> None:
    assert_same_rows(judge.read(path), expected, ["id"])
    assert_same_rows(peer_ours.read(path), expected, ["id"])
    assert peer_ours.hoodie("check", path)["findings"] == []


@pytest.mark.parametrize("is_merge_on_read", [False, True])
def test_full_record_bootstrap_by_procedure_is_read(
    is_merge_on_read: bool, judge: Judge, tmp_path: Path
) -> None:
    table = table_of(by_procedure, "FullRecord", is_merge_on_read=is_merge_on_read)
    path = bootstrapped(judge, tmp_path, by_procedure, table, "FullRecord")
    assert_sound(judge, path, rows_of(range(8), 1000))


@pytest.mark.parametrize("is_merge_on_read", [False, True])
def test_full_record_bootstrap_by_data_source_is_read_also_after_an_upsert(
    is_merge_on_read: bool, judge: Judge, tmp_path: Path
) -> None:
    table = table_of(by_data_source, "FullRecord", is_merge_on_read=is_merge_on_read)
    path = bootstrapped(judge, tmp_path, by_data_source, table, "FullRecord")
    assert_sound(judge, path, rows_of(range(8), 1000))
    more = rows_of(range(6, 10), 2000)
    judge.write(path, more, options_of(table))
    assert_sound(judge, path, pa.concat_tables([rows_of(range(6), 1000), more]))


@pytest.mark.parametrize("bootstrap", [by_procedure, by_data_source])
def test_rows_of_a_metadata_only_bootstrap_are_refused(
    bootstrap: Bootstrap, judge: Judge, tmp_path: Path
) -> None:
    table = table_of(bootstrap, "MetadataOnly", is_merge_on_read=False)
    path = bootstrapped(judge, tmp_path, bootstrap, table, "MetadataOnly")
    assert_same_rows(judge.read(path), rows_of(range(8), 1000), ["id"])
    with pytest.raises(peer_ours.CommandFailedError, match="METADATA_ONLY bootstrap") as caught:
        peer_ours.read(path)
    assert caught.value.exit_code == 21
