"""The options of the Spark example on Apache Hudi's page on concurrency control, as a whole."""

from pathlib import Path

import pytest

from support.contracts import lock_process
from support.servers.zookeeper_server import zookeeper
from support.tables.command_line import Run, put

__all__ = ["zookeeper"]

SCHEMA = """{"type": "record", "name": "tableName", "fields": [
    {"name": "uuid", "type": "string"},
    {"name": "partitionpath", "type": "string"},
    {"name": "ts", "type": "long"},
    {"name": "fare", "type": ["null", "double"], "default": null}
]}"""
ROWS = "uuid,partitionpath,ts,fare\na,asia,1,10\nb,asia,1,20\na,asia,2,30\n"


@pytest.fixture
def example(zookeeper: str) -> list[str]:
    """The options, in the page's order; of its names the server's alone is another."""
    host, _, port = zookeeper.partition(":")
    given = {
        # getQuickstartWriteConfigs
        "hoodie.insert.shuffle.parallelism": "2",
        "hoodie.upsert.shuffle.parallelism": "2",
        "hoodie.bulkinsert.shuffle.parallelism": "2",
        "hoodie.delete.shuffle.parallelism": "2",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.cleaner.policy.failed.writes": "LAZY",
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.write.lock.zookeeper.url": host,
        "hoodie.write.lock.zookeeper.port": port,
        "hoodie.write.lock.zookeeper.base_path": "/test",
        "hoodie.datasource.write.recordkey.field": "uuid",
        "hoodie.datasource.write.partitionpath.field": "partitionpath",
        "hoodie.table.name": "tableName",
    }
    return [word for key, value in given.items() for word in ("--set", f"{key}={value}")]


@pytest.fixture
def table(tmp_path: Path, hoodie: Run) -> Path:
    path = tmp_path / "table"
    created = hoodie(
        *("create", path, "--schema", put(tmp_path / "schema.avsc", SCHEMA)),
        *("--name", "tableName", "--type", "cow", "--buckets", "2"),
        *("--record-key", "uuid", "--partition-by", "partitionpath", "--ordering", "ts"),
    )
    assert created.code == 0, created.err
    return path


def test_options_of_the_page_are_accepted_and_work(
    hoodie: Run, table: Path, example: list[str], tmp_path: Path
) -> None:
    """T-O22."""
    rows = put(tmp_path / "rows.csv", ROWS)
    for _ in range(2):
        written = hoodie("write", table, "--input", rows, *example)
        assert written.code == 0, written.err
    read = hoodie("read", table, "--columns", "uuid,fare", "--json").rows
    assert sorted((row["uuid"], row["fare"]) for row in read) == [("a", 30.0), ("b", 20.0)]


def test_lock_of_the_page_is_where_its_spark_writers_have_it(
    hoodie: Run, table: Path, example: list[str], tmp_path: Path, zookeeper: str
) -> None:
    """T-O22: its provider is the page's default, its key the table's name."""
    rows = put(tmp_path / "rows.csv", ROWS)
    lock = f"zookeeper://{zookeeper}/test/tableName"
    with lock_process.Process(lock, str(table), "hold", "a Spark writer") as process:
        process.holding()
        patience = ("--set", "hoodie.write.lock.wait_time_ms=300")
        refused = hoodie("write", table, "--input", rows, *example, *patience)
    assert refused.code == 11
    assert "a Spark writer" in refused.err
    assert hoodie("timeline", table, "--json").document["instants"] == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.datasource.write.precombine.field", "fare"),
        ("hoodie.datasource.write.partitionpath.field", "uuid"),
        ("hoodie.table.name", "another"),
    ],
)
def test_option_that_the_table_does_not_agree_with_is_refused(
    hoodie: Run, table: Path, example: list[str], tmp_path: Path, key: str, value: str
) -> None:
    rows = put(tmp_path / "rows.csv", ROWS)
    changed = [f"{key}={value}" if word.startswith(f"{key}=") else word for word in example]
    refused = hoodie("write", table, "--input", rows, *changed)
    assert refused.code == 24
    assert f"--set {key}={value}, the table has" in refused.err
