"""The Python that the README shows, run in a Spark session that nothing was set for."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa

from hoodie import environment, table
from hoodie.model import commits, schemas, settings, table_config
from hoodie.transaction import authors, manager
from hoodie.transaction.locks import address_texts
from hoodie.write import sessions

ROOT = Path(__file__).parents[2]
COLUMNS = pa.schema(
    [("id", pa.string()), ("carrier", pa.string()), ("month", pa.int32()), ("delay", pa.int32())]
)
ROWS = [{"id": str(n), "carrier": f"c{n % 3}", "month": 1 + n % 2, "delay": n} for n in range(12)]
RUN = """
import ast, json, sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "false"
for block in json.load(sys.stdin):
    *statements, last = ast.parse(block).body
    scope = {"spark": spark}
    exec(compile(ast.Module(statements, []), "README.md", "exec"), scope)
    frame = eval(compile(ast.Expression(last.value), "README.md", "eval"), scope)
    print("found", json.dumps(sorted(list(row) for row in frame.collect())))
"""


def write_table(uri: str) -> None:
    config = table_config.TableConfig(
        name="flights",
        record_key_fields=("id",),
        partition_fields=("month",),
        has_partial_updates=True,
        bucket_count=2,
    )
    schema = schemas.from_arrow(COLUMNS, "flights")
    opened = table.create_table(uri, config, schema, environment.system(parallelism=1))
    options = sessions.WriteOptions(
        operation=commits.Operation.UPSERT,
        transaction=manager.TransactionOptions(
            settings=settings.WriteSettings(clock_wait_ms=0),
            lock=address_texts.parse("in-process"),
            author=authors.Author(writer_id="test"),
        ),
    )
    for rows in (ROWS, ROWS[:5]):
        opened.write(pa.Table.from_pylist(rows, COLUMNS), options)


def test_python_of_the_readme_works_in_a_plain_session(tmp_path: Path) -> None:
    write_table(str(tmp_path / "flights"))
    whole = (ROOT / "README.md").read_text().replace("file:///tmp/", f"file://{tmp_path}/")
    text = whole.partition("## A table in PySpark\n")[2]
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        check=False,
        capture_output=True,
        cwd=tmp_path,
        env={
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_SUBMIT_ARGS": "--master local[1] --conf spark.ui.enabled=false pyspark-shell",
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        input=json.dumps(blocks),
        text=True,
    )
    assert done.returncode == 0, done.stderr
    expected = sorted([row["carrier"], row["month"]] for row in ROWS if row["month"] == 1)
    found = [json.loads(line[6:]) for line in done.stdout.splitlines() if line.startswith("found ")]
    assert found == [expected, expected]
