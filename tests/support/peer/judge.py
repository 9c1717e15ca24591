"""Apache Hudi as a judge: the client of `tests/conformance/judge_server.py`.

A `Judge` is one warm Spark session with the Apache Hudi bundle in its own process. It reads tables
that we wrote, writes and compacts tables that we then read, and shows a timeline as Hudi's own
classes see it. Several judges may run at once (two JVM writers of one table). Rows cross the border
as parquet files, so every type arrives as Hudi meant it.

Invariants:
- A judge that was closed leaves no process behind: server, JVM and workers are one process group.
- Nothing here imports our own library: what a judge says is Apache Hudi's opinion alone.
- One request at a time: calls from several threads queue up. To let two JVM writers overlap, take
  two judges; to hold one writer in flight, give its write a `Gate`.

What Apache Hudi 1.2.0 cannot do, found here: a table of version 8 with a payload class fails with
ArrayIndexOutOfBoundsException as soon as a query projects columns over its logs. Therefore `read`
asks for every column and projects afterwards; `Query.pushed_columns` asks Spark to project.
"""

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

ROOT = Path(__file__).parents[3]
SERVER = ROOT / "tests" / "conformance" / "judge_server.py"
PEER = ROOT / ".peers" / "hudi"
PYTHON = PEER / ".venv" / "bin" / "python"
RELEASE = os.environ.get("HUDI_RELEASE", "")
"""Another release to judge by, as `make conformance-releases` does; empty for the usual one."""
BUNDLE_PATTERN = "*hudi-spark3.5-bundle_2.12-*.jar"

META_COLUMNS = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
QUICK_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""For tests: half the start and warm-up time, at a third of the peak speed."""


class JudgeError(Exception):
    """Apache Hudi refused or failed; `causes` is the chain of exceptions, outermost first."""

    def __init__(self, operation: str, causes: Sequence["Cause"], trace: str) -> None:
        self.operation = operation
        self.causes = tuple(causes)
        self.trace = trace
        chain = "\n  caused by ".join(f"{cause.type}: {cause.message}" for cause in causes)
        super().__init__(f"Apache Hudi failed to {operation}: {chain}")


class JudgeLostError(Exception):
    """The judge's process ended or did not answer in time. The message holds the end of its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One exception of a chain; `type` is the Java or Python class."""

    type: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the JVM of a judge runs, and of which release it is."""

    name: str = "judge"
    release: str = RELEASE
    cores: int = 2
    memory_mb: int = 1536
    jvm_options: tuple[str, ...] = QUICK_JVM
    conf: Mapping[str, str] = field(default_factory=dict)
    log_level: str = "WARN"
    start_timeout_s: float = 120
    zone: str = "UTC"
    """Of the JVM and of its sessions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """What the judge runs on."""

    spark: str
    java: str
    hudi: str
    jvm_pid: int


class InstantState(StrEnum):
    """Names as in HoodieInstant.State."""

    REQUESTED = "REQUESTED"
    INFLIGHT = "INFLIGHT"
    COMPLETED = "COMPLETED"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class PeerInstant:
    """One instant of the active timeline as HoodieTableMetaClient lists it."""

    requested_time: str
    completion_time: str | None
    action: str
    state: InstantState


class QueryType(StrEnum):
    """Values of `hoodie.datasource.query.type`."""

    SNAPSHOT = "snapshot"
    READ_OPTIMIZED = "read_optimized"
    INCREMENTAL = "incremental"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What to read. Begin (exclusive) and end (inclusive) of an incremental query are completion
    times, `as_of` is a requested time; both as Apache Hudi 1.2.0 understands them. `select` is a
    statement of Spark SQL over what was read, under the name `scanned`.
    """

    type: QueryType = QueryType.SNAPSHOT
    select: str | None = None
    begin: str | None = None
    end: str | None = None
    as_of: str | None = None
    where: str | None = None
    pushed_columns: tuple[str, ...] = ()
    use_metadata_table: bool = False
    options: Mapping[str, str] = field(default_factory=dict)

    def reader_options(self) -> dict[str, str]:
        """Return the options of Spark's reader."""
        options = {
            "hoodie.datasource.query.type": self.type.value,
            "hoodie.metadata.enable": str(self.use_metadata_table).lower(),
        }
        if self.type is QueryType.INCREMENTAL:
            options["hoodie.datasource.read.begin.instanttime"] = self.begin or "000"
        if self.end is not None:
            options["hoodie.datasource.read.end.instanttime"] = self.end
        if self.as_of is not None:
            options["as.of.instant"] = self.as_of
        return options | dict(self.options)


SNAPSHOT = Query()


class Sink(StrEnum):
    """Where a measured scan puts its rows."""

    NOOP = "noop"
    ARROW = "arrow"
    PARQUET = "parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Holds a judge's write in flight: no row is handed over before the gate is open.

    The write's instant is already requested then (measured on Apache Hudi 1.2.0). Of `Judge.tag` it
    holds what comes after the table was opened.
    """

    path: Path

    @property
    def is_reached(self) -> bool:
        """Whether the write waits: it has begun, and knows what the table held then."""
        return Path(f"{self.path}.reached").exists()

    def open(self) -> None:
        """Let the write go on."""
        self.path.touch()

    @contextlib.contextmanager
    def holding(self, asked: Future[Any]) -> Iterator[None]:
        """Wait until what a judge was asked for is at the gate; open it in the end, in any case."""
        try:
            while not self.is_reached:
                assert not asked.done(), asked.result()
                time.sleep(0.05)
            yield
        finally:
            self.open()


def jars(release: str = RELEASE) -> Path:
    """Return the folder of a release's jars."""
    return (ROOT / ".peers" / f"hudi-{release}" if release else PEER) / "ivy" / "jars"


def release_name(release: str = RELEASE) -> str:
    """Return the number of a release, of the usual one too."""
    return max(jars(release).glob(BUNDLE_PATTERN)).stem.rpartition("-")[2]


def missing_peer(release: str = RELEASE) -> str | None:
    """Return what is missing to start a judge, or None."""
    folder = jars(release)
    if not PYTHON.exists() or not any(folder.glob(BUNDLE_PATTERN)):
        return f"Apache Hudi is not set up in {folder.relative_to(ROOT)}: run `make setup-peer`"
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        return "no Java found: neither `java` on PATH nor JAVA_HOME"
    return None


class Judge:
    """One Apache Hudi process. Use as a context manager; `folder` is for its rows and its log."""

    def __init__(self, folder: Path, settings: Settings | None = None) -> None:
        self._settings = settings or Settings()
        self._folder = folder
        self._answers: queue.Queue[str | None] = queue.Queue()
        self._lock = threading.Lock()
        self._serial = 0
        self._process: subprocess.Popen[str] | None = None
        self.log = folder / f"{self._settings.name}.log"
        self.seconds_last = 0.0
        """Wall time of the last operation, measured inside the judge."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start the process and wait for its greeting: 4 s on two quiet cores."""
        reason = missing_peer(self._settings.release)
        if reason is not None:
            raise JudgeLostError(reason)
        self._folder.mkdir(parents=True, exist_ok=True)
        environment = dict(os.environ)
        environment |= {"PYSPARK_PYTHON": str(PYTHON), "SPARK_LOCAL_IP": "127.0.0.1"}
        for name in ("SPARK_HOME", "PYTHONPATH", "PYSPARK_SUBMIT_ARGS"):
            environment.pop(name, None)
        with self.log.open("w") as log:
            self._process = subprocess.Popen(
                [PYTHON, SERVER, json.dumps(self.server_settings())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
                cwd=self._folder,
                start_new_session=True,
            )
        assert self._process.stdout is not None
        threading.Thread(target=self._listen, args=(self._process.stdout,), daemon=True).start()
        self._receive("start", 0, self._settings.start_timeout_s)

    def hfile(self, *words: str, timeout_s: float = 300) -> float:
        """Have `tests/conformance/HFileJudge.java` do something; return processor seconds."""
        return float(self._ask("hfile", {"words": words}, timeout_s=timeout_s)["seconds"])

    def bloom_filter(
        self,
        keys: Sequence[str],
        *,
        type_code: str,
        size: tuple[int, float, int],
        asked: Sequence[str],
        read: str,
    ) -> tuple[str, list[bool]]:
        """Return the text of a bloom filter of keys, and which keys another one may contain.

        The size of the filter is its entries, error rate and greatest number of entries.
        """
        request = {
            "keys": list(keys),
            "type": type_code,
            "size": size,
            "asked": list(asked),
            "read": read,
        }
        result = self._ask("bloom_filter", request, timeout_s=300)
        return result["text"], result["found"]

    def tag(
        self,
        path: Path,
        keys: pa.Table,
        options: Mapping[str, str],
        *,
        repetitions: int = 1,
        gate: Gate | None = None,
        timeout_s: float = 900,
    ) -> tuple[list[float], int]:
        """Look keys up by the index that options name, as a write does.

        Args:
            path: The table's root.
            keys: The columns `key` and `partition`.
            options: Of the writer.
            repetitions: How often.
            gate: Reached once the table is opened; the keys are looked up when it is open.
            timeout_s: After which the judge is given up.

        Returns:
            The seconds of each time, and how many of the keys are in the table.
        """
        with self._scratch("tag") as folder:
            folder.mkdir()
            pq.write_table(keys, folder / "keys.parquet")
            request = {
                "path": str(path),
                "keys": str(folder / "keys.parquet"),
                "options": dict(options),
                "repetitions": repetitions,
                "gate": None if gate is None else str(gate.path),
                "parallelism": self._settings.cores,
            }
            result = self._ask("tag", request, timeout_s=timeout_s)
        return result["seconds"], result["found"]

    def merge_records(self, older: bytes, newer: bytes, schema: bytes) -> tuple[bytes, bytes]:
        """Return the record that two of one key in a metadata table come to, and its schema."""
        records = {"older": older.hex(), "newer": newer.hex(), "schema": schema.decode()}
        result = self._ask("merge_records", records, timeout_s=60)
        return bytes.fromhex(result["content"]), result["schema"].encode()

    def close(self) -> None:
        """End the process group: first by the end of its input, after 10 s by force."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=10)
        self._kill(process)

    def kill(self) -> None:
        """Kill server and JVM at once, as a lost machine would: nothing is rolled back."""
        process, self._process = self._process, None
        if process is not None:
            self._kill(process)

    def versions(self) -> Versions:
        """Return the versions of Spark, Java and Apache Hudi, and the JVM's process id."""
        result = self._ask("describe", {}, timeout_s=60)
        return Versions(
            spark=result["spark"], java=result["java"], hudi=result["hudi"], jvm_pid=result["pid"]
        )

    def read(
        self,
        path: Path,
        query: Query = SNAPSHOT,
        *,
        columns: Sequence[str] = (),
        meta_columns: bool = False,
        timeout_s: float = 180,
    ) -> pa.Table:
        """Return the rows, in no particular order.

        Args:
            path: The table's root.
            query: Which rows; the default is a snapshot by listing, without the metadata table.
            columns: Projected here, after the read; empty means all.
            meta_columns: Whether the five `_hoodie_*` columns are returned too.
            timeout_s: After which the judge is given up.
        """
        with self._scratch("read") as output:
            arguments = self._scan_arguments(path, query) | {"output": str(output)}
            self._ask("read", arguments | {"sink": Sink.PARQUET}, timeout_s=timeout_s)
            table = read_parquet_folder(output)
        if columns:
            return table.select(list(columns))
        return table if meta_columns else without_meta_columns(table)

    def scan(
        self, path: Path, sink: Sink, query: Query = SNAPSHOT, *, timeout_s: float = 600
    ) -> float:
        """Read every row into `sink` and drop it; return the seconds measured inside."""
        with self._scratch("scan") as output:
            arguments = self._scan_arguments(path, query) | {"output": str(output)}
            self._ask("read", arguments | {"sink": sink.value}, timeout_s=timeout_s)
        return self.seconds_last

    def plan(self, path: Path, query: Query = SNAPSHOT, *, timeout_s: float = 600) -> int:
        """Return how many files a read of all rows needs; `seconds_last` is what finding them took.

        Args:
            path: The table's root.
            query: How it is read; a filter leaves no file out.
            timeout_s: After which the judge is given up.
        """
        arguments = self._scan_arguments(path, query) | {"sink": "files"}
        return int(self._ask("read", arguments, timeout_s=timeout_s)["files"])

    def write(
        self,
        path: Path,
        rows: pa.Table | Path,
        options: Mapping[str, str],
        *,
        operation: str = "upsert",
        gate: Gate | None = None,
        timeout_s: float = 300,
    ) -> float:
        """Write rows (or a parquet file) through Spark's data source; return the seconds inside.

        Args:
            path: The table's root; the first write creates the table.
            rows: What to write. For a delete the key, partition and ordering columns are enough.
            options: Every `hoodie.*` option; `support.peer.peer_options` builds them.
            operation: `hoodie.datasource.write.operation`.
            gate: Holds the write in flight until it is opened.
            timeout_s: After which the judge is given up.
        """
        with self._scratch("write") as folder:
            source = rows
            if isinstance(rows, pa.Table):
                folder.mkdir()
                source = folder / "rows.parquet"
                pq.write_table(rows, source, coerce_timestamps="us", store_schema=False)
            arguments = {
                "path": str(path),
                "input": str(source),
                "options": dict(options) | {"hoodie.datasource.write.operation": operation},
                "gate": None if gate is None else str(gate.path),
            }
            self._ask("write", arguments, timeout_s=timeout_s)
        return self.seconds_last

    def write_at_once(
        self,
        path: Path,
        inputs: Sequence[Sequence[Path]],
        options: Mapping[str, str],
        *,
        timeout_s: float = 600,
    ) -> list[list[float]]:
        """Write parquet files as many writers at one time; return the seconds of each write.

        Args:
            path: The root of a table that exists.
            inputs: The files of each writer, a write each, in order.
            options: As of `write`, for all writers.
            timeout_s: After which the judge is given up.
        """
        arguments = {
            "path": str(path),
            "inputs": [list(map(str, files)) for files in inputs],
            "options": dict(options) | {"hoodie.datasource.write.operation": "upsert"},
        }
        result = self._ask("write_at_once", arguments, timeout_s=timeout_s)
        spent: list[list[float]] = result["seconds"]
        return spent

    def schedule_compaction(
        self, path: Path, options: Mapping[str, str], *, timeout_s: float = 120
    ) -> str | None:
        """Write a plan for everything that has logs; return its instant, None if nothing is due.

        The options must hold the table's keys and index: Apache Hudi 1.2.0 fails without them.
        """
        due_at_once = {"hoodie.compact.inline.max.delta.commits": "1"}
        arguments = {"path": str(path), "options": due_at_once | dict(options)}
        result = self._ask("schedule_compaction", arguments, timeout_s=timeout_s)
        instant: str | None = result["instant"]
        return instant

    def execute_compaction(
        self, path: Path, instant: str, options: Mapping[str, str], *, timeout_s: float = 600
    ) -> float:
        """Execute the plan of `instant`; return the seconds inside."""
        arguments = {"path": str(path), "options": dict(options), "instant": instant}
        self._ask("execute_compaction", arguments, timeout_s=timeout_s)
        return self.seconds_last

    def compact(self, path: Path, options: Mapping[str, str]) -> str:
        """Schedule and execute; return the instant. Fails if there is nothing to compact."""
        instant = self.schedule_compaction(path, options)
        assert instant is not None, f"nothing to compact in {path}"
        self.execute_compaction(path, instant, options)
        return instant

    def schedule_clean(
        self, path: Path, options: Mapping[str, str], *, timeout_s: float = 120
    ) -> str | None:
        """Write the plan of a clean; return its instant, None if nothing is to be deleted."""
        arguments = {"path": str(path), "options": dict(options)}
        result = self._ask("schedule_clean", arguments, timeout_s=timeout_s)
        instant: str | None = result["instant"]
        return instant

    def schedule_index(
        self, path: Path, names: Sequence[str], options: Mapping[str, str]
    ) -> str | None:
        """Write the plan of some indexes; return its instant, None if all are there."""
        arguments = {"path": str(path), "options": dict(options), "names": list(names)}
        result = self._ask("schedule_index", arguments, timeout_s=120)
        instant: str | None = result["instant"]
        return instant

    def run_index(self, path: Path, instant: str, options: Mapping[str, str]) -> None:
        """Execute the plan of some indexes."""
        arguments = {"path": str(path), "options": dict(options), "instant": instant}
        self._ask("run_index", arguments, timeout_s=300)

    def clean(self, path: Path, options: Mapping[str, str], *, timeout_s: float = 300) -> float:
        """Execute pending cleans, plan another and execute it; return the seconds inside."""
        arguments = {"path": str(path), "options": dict(options)}
        self._ask("clean", arguments, timeout_s=timeout_s)
        return self.seconds_last

    def rollback(
        self, path: Path, instant: str, options: Mapping[str, str], *, timeout_s: float = 120
    ) -> None:
        """Take the commit with this requested time back."""
        arguments = {"path": str(path), "options": dict(options), "instant": instant}
        self._ask("rollback", arguments, timeout_s=timeout_s)

    def archive(self, path: Path, options: Mapping[str, str], *, timeout_s: float = 120) -> None:
        """Archive what the options let go."""
        self._ask("archive", {"path": str(path), "options": dict(options)}, timeout_s=timeout_s)

    def archived(
        self, path: Path, times: Iterable[str] = (), *, timeout_s: float = 120
    ) -> tuple[list[PeerInstant], dict[str, str | None]]:
        """Return the archived timeline, and the completion times that are found of instants."""
        arguments = {"path": str(path), "times": list(times)}
        result = self._ask("archived", arguments, timeout_s=timeout_s)
        instants = [
            PeerInstant(
                requested_time=item["requested_time"],
                completion_time=item["completion_time"],
                action=item["action"],
                state=InstantState(item["state"]),
            )
            for item in result["instants"]
        ]
        return instants, result["completion_times"]

    def completion_times(
        self, path: Path, times: Iterable[str], *, timeout_s: float = 120
    ) -> dict[str, str | None]:
        """Return the completion times that are found of instants, active or archived."""
        arguments = {"path": str(path), "times": list(times)}
        result = self._ask("completion_times", arguments, timeout_s=timeout_s)
        found: dict[str, str | None] = result["completion_times"]
        return found

    def lock(self, path: Path, options: Mapping[str, str], *, wait_s: int = 1) -> bool:
        """Take the lock of the table at `path` by Hudi's own provider; return whether it was had.

        It is kept until `unlock`; a second one of the same table is not supported.
        """
        arguments = {"path": str(path), "options": dict(options), "wait_s": wait_s}
        return bool(self._ask("lock", arguments, timeout_s=wait_s + 60)["acquired"])

    def unlock(self, path: Path) -> None:
        """Give the lock back."""
        self._ask("unlock", {"path": str(path)}, timeout_s=60)

    def storage_lease(self, text: str) -> dict[str, Any]:
        """Return what Hudi reads in the file of a storage-based lock, and writes of that."""
        return self._ask("storage_lease", {"text": text}, timeout_s=60)

    def timeline(self, path: Path, *, timeout_s: float = 60) -> list[PeerInstant]:
        """Return the active timeline, in Hudi's own order."""
        result = self._ask("timeline", {"path": str(path)}, timeout_s=timeout_s)
        return [
            PeerInstant(
                requested_time=item["requested_time"],
                completion_time=item["completion_time"],
                action=item["action"],
                state=InstantState(item["state"]),
            )
            for item in result["instants"]
        ]

    def listings(
        self, path: Path, *, timeout_s: float = 120
    ) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, int]]]:
        """Return file sizes by partition and name: by the metadata table, and by the storage."""
        result = self._ask("listings", {"path": str(path)}, timeout_s=timeout_s)
        return result["by_metadata"], result["by_storage"]

    def sql(self, statement: str, *, timeout_s: float = 180) -> pa.Table:
        """Run one statement of Spark SQL and return its rows; `CALL show_commits(...)` too."""
        with self._scratch("sql") as output:
            arguments = {"statement": statement, "sink": Sink.PARQUET, "output": str(output)}
            self._ask("sql", arguments, timeout_s=timeout_s)
            return read_parquet_folder(output)

    def execute(self, statement: str, *, timeout_s: float = 180) -> None:
        """Run one statement of Spark SQL that has no rows to return (INSERT, MERGE, SET)."""
        arguments = {"statement": statement, "sink": Sink.NOOP}
        self._ask("sql", arguments, timeout_s=timeout_s)

    def peak_memory_bytes(self, *, reset: bool = False) -> int:
        """Return the JVM's peak resident memory since it started or since the last reset."""
        return int(self._ask("memory", {"reset": reset}, timeout_s=60)["peak_bytes"])

    def server_settings(self) -> dict[str, Any]:
        """Return what the process starts its session with."""
        settings = self._settings
        bundle = max(jars(settings.release).glob(BUNDLE_PATTERN))
        java = [f"-Duser.timezone={settings.zone}", *settings.jvm_options]
        # Hudi measures object sizes by attaching to its own JVM, which costs seconds where a
        # debugger may not attach; it falls back to an estimate either way.
        java += ["-Djdk.attach.allowAttachSelf=true", "-Djol.skipHotspotSAAttach=true"]
        conf = {
            "spark.driver.extraClassPath": str(bundle),
            "spark.driver.memory": f"{settings.memory_mb}m",
            "spark.driver.extraJavaOptions": " ".join(java),
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.local.dir": str(self._folder / "spark"),
            "spark.default.parallelism": str(settings.cores),
            "spark.sql.shuffle.partitions": str(settings.cores),
            "spark.sql.session.timeZone": settings.zone,
            "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
            "spark.sql.warehouse.dir": str(self._folder / "warehouse"),
            "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
            "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
            "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
            "spark.speculation": "false",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        return {
            "master": f"local[{settings.cores}]",
            "name": settings.name,
            "log_level": settings.log_level,
            "conf": conf | dict(settings.conf),
        }

    def _scan_arguments(self, path: Path, query: Query) -> dict[str, Any]:
        return {
            "path": str(path),
            "options": query.reader_options(),
            "select": query.select,
            "where": query.where,
            "columns": list(query.pushed_columns),
        }

    @contextlib.contextmanager
    def _scratch(self, purpose: str) -> Iterator[Path]:
        with self._lock:
            self._serial += 1
            folder = self._folder / f"{purpose}-{self._serial:06d}"
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _ask(
        self, operation: str, arguments: Mapping[str, Any], *, timeout_s: float
    ) -> dict[str, Any]:
        with self._lock:
            if self._process is None:
                raise JudgeLostError(f"the judge {self._settings.name} is not running")
            self._serial += 1
            request = {"id": self._serial, "operation": operation, **arguments}
            assert self._process.stdin is not None
            try:
                self._process.stdin.write(json.dumps(request) + "\n")
                self._process.stdin.flush()
            except BrokenPipeError as error:
                raise self._lost(operation, "its process ended") from error
            return self._receive(operation, self._serial, timeout_s)

    def _receive(self, operation: str, serial: int, timeout_s: float) -> dict[str, Any]:
        try:
            line = self._answers.get(timeout=timeout_s)
        except queue.Empty:
            error = self._lost(operation, f"no answer within {timeout_s:.0f} s")
            self.kill()
            raise error from None
        if line is None:
            raise self._lost(operation, "its process ended")
        answer = json.loads(line)
        assert answer["id"] == serial, f"answer {answer['id']} to request {serial}"
        self.seconds_last = answer["seconds"]
        if not answer["ok"]:
            causes = [Cause(**cause) for cause in answer["error"]["causes"]]
            raise JudgeError(operation, causes, answer["error"]["trace"])
        result: dict[str, Any] = answer["result"]
        return result

    def _lost(self, operation: str, reason: str) -> JudgeLostError:
        tail = self.log.read_text(errors="replace")[-3000:]
        return JudgeLostError(
            f"{self._settings.name}: {operation}: {reason}; its log ends:\n{tail}"
        )

    def _listen(self, stream: IO[str]) -> None:
        for line in stream:
            self._answers.put(line)
        self._answers.put(None)

    @staticmethod
    def _kill(process: subprocess.Popen[str]) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()


def without_meta_columns(table: pa.Table) -> pa.Table:
    """Return the table without the five columns that Hudi adds."""
    return table.drop_columns([name for name in META_COLUMNS if name in table.column_names])


def read_parquet_folder(folder: Path) -> pa.Table:
    """Return what Spark wrote into a folder as one table, an empty one included."""
    return ds.dataset(sorted(str(path) for path in folder.glob("*.parquet"))).to_table()
