"""Tables that Apache Hudi bootstrapped and left the rows outside of."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support import peer_ours
from support.judge import Judge
from support.peer_cases import SCHEMA, row
from support.peer_rows import assert_same_rows

SELECTORS = "org.apache.hudi.client.bootstrap.selector"


def bootstrapped(judge: Judge, folder: Path, mode: str) -> tuple[Path, pa.Table]:
    source, path = folder / "source", folder / "table"
    source.mkdir()
    columns = pa.schema([each for each in SCHEMA if each.name != "part"])
    rows = [{key: row(n, ts=1000)[key] for key in columns.names} for n in range(8)]
    data = pa.Table.from_pylist(rows, columns)
    pq.write_table(data, source / "rows.parquet", store_schema=False)
    judge.execute("SET hoodie.metadata.enable=false")
    try:
        judge.sql(
            f"CALL run_bootstrap(table => 'boot_{mode.lower()}', table_type => 'COPY_ON_WRITE',"
            f" bootstrap_path => '{source}', base_path => '{path}', rowKey_field => 'id',"
            " partition_path_field => '',"
            " key_generator_class => 'org.apache.hudi.keygen.NonpartitionedKeyGenerator',"
            f" selector_class => '{SELECTORS}.{mode}BootstrapModeSelector',"
            " bootstrap_overwrite => true)"
        )
    finally:
        judge.execute("RESET hoodie.metadata.enable")
    return path, data


def test_rows_of_a_metadata_only_bootstrap_are_refused(judge: Judge, tmp_path: Path) -> None:
    path, data = bootstrapped(judge, tmp_path, "MetadataOnly")
    assert_same_rows(judge.read(path), data, ["id"])
    with pytest.raises(peer_ours.CommandFailedError, match="METADATA_ONLY bootstrap"):
        peer_ours.read(path)
