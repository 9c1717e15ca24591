"""Our side of the conformance tests: the command line `hoodie`, in this process or in another.

The names of commands and options are fixed (people script them), so these tests are written against
them. In this process a command costs what it does; `start` runs one beside us.
"""

import contextlib
import io
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hoodie.cli import program
from support.peer.peer_options import PeerTable

HOODIE = Path(sys.executable).parent / "hoodie"


class CommandFailedError(Exception):
    """A command ended with another exit code than 0; the message is its standard error."""

    def __init__(self, arguments: Sequence[str], exit_code: int, message: str) -> None:
        self.exit_code = exit_code
        super().__init__(f"hoodie {' '.join(arguments)} ended with {exit_code}: {message}")


def hoodie(*arguments: str | Path) -> dict[str, Any]:
    """Run a command in this process and return its JSON document.

    Raises:
        CommandFailedError: The exit code is not 0.
    """
    texts = [str(argument) for argument in arguments]
    answer, notes = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with contextlib.redirect_stdout(answer), contextlib.redirect_stderr(notes):
        exit_code = program.main([*texts, "--json"])
    if exit_code != 0:
        raise CommandFailedError(texts, exit_code, _text(notes))
    document: dict[str, Any] = json.loads(_text(answer))
    return document


def _text(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


def start(*arguments: str | Path) -> subprocess.Popen[str]:
    """Start a command in a process of its own."""
    return subprocess.Popen(
        [HOODIE, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def create(path: Path, table: PeerTable, schema: pa.Schema, options: Sequence[str] = ()) -> None:
    """Create the table that `table` describes, with further options of `hoodie create`."""
    schema_file = path.parent / f"{path.name}.schema.parquet"
    pq.write_table(schema.empty_table(), schema_file)
    arguments: list[str | Path] = ["create", path, "--schema", schema_file, "--name", table.name]
    if table.record_key:
        arguments += ["--record-key", ",".join(table.record_key)]
    if not table.merge_on_read:
        arguments += ["--type", "cow"]
    if table.partition_by:
        arguments += ["--partition-by", ",".join(table.partition_by)]
    if table.ordering is not None:
        arguments += ["--ordering", table.ordering]
    if table.partial_updates:
        arguments += ["--partial-updates"]
    arguments += [
        option for key, option in _FLAGS.items() if table.extra.get(key, "").lower() == "true"
    ]
    arguments += _index_arguments(table)
    arguments += ["--table-version", str(table.table_version)]
    hoodie(*arguments, *options)


_FLAGS = {
    "hoodie.datasource.write.hive_style_partitioning": "--hive-style",
    "hoodie.datasource.write.partitionpath.urlencode": "--url-encode",
    "hoodie.datasource.write.drop.partition.columns": "--drop-partition-columns",
}


def _index_arguments(table: PeerTable) -> list[str]:
    if table.buckets is None:
        index = table.extra.get("hoodie.index.type", "SIMPLE").lower().replace("_", "-")
        keeps = table.extra.get("hoodie.simple.index.update.partition.path") == "false"
        return ["--index", index, *(["--keep-partitions"] if keeps else [])]
    engine = table.extra.get("hoodie.index.bucket.engine")
    has_rings = engine == "CONSISTENT_HASHING"
    index = "consistent-hashing" if has_rings else "bucket"
    return ["--index", index, "--buckets", str(table.buckets)]


def read(path: Path, *arguments: str) -> pa.Table:
    """Return a snapshot of the table; `arguments` are further options of `hoodie read`."""
    output = path.parent / f"{path.name}.rows.parquet"
    hoodie("read", path, "--output", output, *arguments)
    table = pq.read_table(output)
    output.unlink()
    return table


def write_arguments(
    path: Path, input_file: Path, operation: str, settings: Mapping[str, str]
) -> list[str | Path]:
    """Return the command line of a write."""
    arguments: list[str | Path] = ["write", path, "--input", input_file, "--operation", operation]
    for key, value in settings.items():
        arguments += ["--set", f"{key}={value}"]
    return arguments


@dataclass(slots=True, kw_only=True)
class Hoodie:
    """We as the maker of a case: the first write creates the table.

    A delete is sent with the key and partition columns alone, so that it always deletes, as that of
    Apache Hudi does, unless `orders_deletes`. Without `concurrency` it is one of several writers,
    as the table's type has them.
    """

    table: PeerTable
    concurrency: str | None = None
    lock: str = "filesystem"
    settings: Mapping[str, str] = field(default_factory=dict)
    creation: Sequence[str] = ()
    orders_deletes: bool = False
    writes: int = 0

    def write(self, path: Path, rows: pa.Table, operation: str, *options: str) -> None:
        """Write rows, with further options of `hoodie write`."""
        if not (path / ".hoodie").exists():
            create(path, self.table, rows.schema, self.creation)
        if operation == "delete":
            ordering = [self.table.ordering] if self.orders_deletes and self.table.ordering else []
            names = [*self.table.partition_columns, *self.table.record_key, *ordering]
            rows = rows.select(list(dict.fromkeys(names)))
        self.writes += 1
        input_file = path.parent / f"input-{self.writes}.parquet"
        pq.write_table(rows, input_file)
        log_format = "parquet" if self.table.parquet_logs else "avro"
        settings = {"hoodie.logfile.data.block.format": log_format} | dict(self.settings)
        arguments = write_arguments(path, input_file, operation, settings)
        concurrency = self.concurrency or ("nbcc" if self.table.merge_on_read else "occ")
        arguments += ["--concurrency", concurrency, "--writer-id", "ours"]
        hoodie(*arguments, *options, "--lock", self.lock)

    def schedule_compaction(self, path: Path) -> str | None:
        """Write a plan; return its instant."""
        shown = hoodie("compact", path, "--schedule", "--lock", self.lock)
        instant: str | None = shown["instant"]
        return instant

    def execute_compaction(self, path: Path, instant: str) -> None:
        """Execute a plan."""
        hoodie("compact", path, "--execute", instant, "--lock", self.lock)
