"""Apache Hudi behind a pipe: one warm Spark session that does what JSON lines on stdin ask.

Runs in the peer's own environment (pyspark 3.5 and the Apache Hudi bundle) and imports nothing of
ours, so that what it says about a table is Apache Hudi's opinion alone. A JVM takes more than ten
seconds to start; this process pays that once and then serves a whole test session or benchmark.

Protocol. Each request is one line `{"id": 7, "operation": "read", ...arguments}`; each answer is
one line `{"id": 7, "ok": true, "seconds": 1.2, "result": {...}}` or `{"id": 7, "ok": false,
"seconds": 0.1, "error": {"causes": [{"type", "message"}], "trace"}}`. `seconds` is the wall time
of the operation inside this process. The first line that is written, without a request, is the
greeting with id 0. End of input ends the process, and the JVM with it.

Answers go to a private copy of stdout. The descriptors 1 and 2 both lead to stderr: the JVM, Ivy
and Spark's shell scripts write on both, and would break the protocol.

Arguments on the command line: the JVM options as one JSON object, see `Settings` in
`tests/support/peer/judge.py`.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
import traceback
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any, TypeVar

from py4j.java_gateway import JavaObject, JavaPackage
from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import DataFrame, SparkSession

TRACE_CHARACTERS_MAX = 20_000
RETRY_S = 0.05
HFILE_JUDGE = Path(__file__).with_name("HFileJudge.java")

Batch = TypeVar("Batch")


class Server:
    """The operations. Each takes the request and returns the result, both plain JSON."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.jvm: Any = spark._jvm
        self.locks: dict[str, Any] = {}
        self.hfiles: Any = None
        self.operations = {
            "describe": self.describe,
            "write": self.write,
            "write_at_once": self.write_at_once,
            "read": self.read,
            "sql": self.sql,
            "schedule_compaction": self.schedule_compaction,
            "execute_compaction": self.execute_compaction,
            "schedule_clean": self.schedule_clean,
            "schedule_index": self.schedule_index,
            "run_index": self.run_index,
            "clean": self.clean,
            "rollback": self.rollback,
            "archive": self.archive,
            "archived": self.archived,
            "completion_times": self.completion_times,
            "lock": self.lock,
            "unlock": self.unlock,
            "storage_lease": self.storage_lease,
            "timeline": self.timeline,
            "listings": self.listings,
            "hfile": self.hfile,
            "tag": self.tag,
            "bloom_filter": self.bloom_filter,
            "merge_records": self.merge_records,
            "memory": self.memory,
        }

    def describe(self, _request: dict[str, Any]) -> dict[str, Any]:
        """Return the versions and the JVM's process id."""
        return {
            "pid": self._jvm_pid(),
            "spark": self.spark.version,
            "java": self.jvm.java.lang.System.getProperty("java.version"),
            "hudi": self._hudi_version(),
        }

    def write(self, request: dict[str, Any]) -> dict[str, Any]:
        """Write the parquet file or folder `input` through the Hudi data source.

        `gate`, if given, is a file name: the first row is handed over only when it exists. By then
        the instant is requested, so the writer stays in flight for as long as the caller likes.
        """
        frame = self.spark.read.parquet(request["input"])
        if request.get("gate"):
            frame = held_back(frame, request["gate"])
        writer = frame.write.format("hudi").options(**request["options"])
        writer.mode("append").save(request["path"])
        return {}

    def write_at_once(self, request: dict[str, Any]) -> dict[str, Any]:
        """Write parquet files as many writers at one time: each has a list of `inputs`, in order.

        Returns the seconds of each write.
        """

        def work(files: list[str]) -> list[float]:
            spent = []
            for file in files:
                begin = time.perf_counter()
                self.write(request | {"input": file})
                spent.append(time.perf_counter() - begin)
            return spent

        with futures.ThreadPoolExecutor(len(request["inputs"])) as threads:
            return {"seconds": list(threads.map(work, request["inputs"]))}

    def read(self, request: dict[str, Any]) -> dict[str, Any]:
        """Read the table at `path` and send the rows to `sink`.

        Sinks: `parquet` writes files into the folder `output`; `arrow` collects record batches
        into this process; `noop` makes every row and drops it; `schema` and `files` read no rows:
        the second lists the files that a read of all rows needs, and returns how many.
        """
        reader = self.spark.read.format("hudi").options(**request["options"])
        frame = reader.load(request["path"])
        if request.get("where"):
            frame = frame.where(request["where"])
        if request.get("columns"):
            frame = frame.select(*request["columns"])
        if request.get("select"):
            frame.createOrReplaceTempView("scanned")
            frame = self.spark.sql(request["select"])
        return self._send(frame, request)

    def sql(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run one statement; the sinks are those of `read`."""
        return self._send(self.spark.sql(request["statement"]), request)

    def schedule_compaction(self, request: dict[str, Any]) -> dict[str, Any]:
        """Write a compaction plan; the instant is null if nothing is due."""
        with self._write_client(request) as client:
            instant = client.scheduleCompaction(self.jvm.org.apache.hudi.common.util.Option.empty())
            return {"instant": instant.get() if instant.isPresent() else None}

    def execute_compaction(self, request: dict[str, Any]) -> dict[str, Any]:
        """Execute and commit the plan of `instant`."""
        with self._write_client(request) as client:
            client.compact(request["instant"], True)
            return {}

    def schedule_clean(self, request: dict[str, Any]) -> dict[str, Any]:
        """Write the plan of a clean; the instant is null if nothing is to be deleted."""
        kind = self.jvm.org.apache.hudi.common.model.TableServiceType.CLEAN
        with self._write_client(request) as client:
            nothing = self.jvm.org.apache.hudi.common.util.Option.empty()
            instant = client.scheduleTableService(nothing, kind)
            return {"instant": instant.get() if instant.isPresent() else None}

    def schedule_index(self, request: dict[str, Any]) -> dict[str, Any]:
        """Write the plan of the indexes `names`; the instant is null if all are there."""
        kinds = self.jvm.org.apache.hudi.metadata.MetadataPartitionType
        wanted = self.jvm.java.util.ArrayList()
        for name in request["names"]:
            wanted.add(kinds.valueOf(name.upper()))
        with self._write_client(request) as client:
            instant = client.scheduleIndexing(wanted, self.jvm.java.util.ArrayList())
            return {"instant": instant.get() if instant.isPresent() else None}

    def run_index(self, request: dict[str, Any]) -> dict[str, Any]:
        """Execute the plan of `instant`."""
        with self._write_client(request) as client:
            return {"done": client.index(request["instant"]).isPresent()}

    def clean(self, request: dict[str, Any]) -> dict[str, Any]:
        """Execute pending cleans, then plan another and execute it."""
        with self._write_client(request) as client:
            client.clean()
            return {}

    def rollback(self, request: dict[str, Any]) -> dict[str, Any]:
        """Take back the commit `instant`."""
        with self._write_client(request) as client:
            return {"done": client.rollback(request["instant"])}

    def archive(self, request: dict[str, Any]) -> dict[str, Any]:
        """Archive what the options let go."""
        with self._write_client(request) as client:
            client.archive()
            return {}

    def archived(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the archived instants, and the completion time that is found of each `time`."""
        client = self._meta_client(request)
        return {
            "instants": [
                {
                    "requested_time": instant.requestedTime(),
                    "completion_time": instant.getCompletionTime(),
                    "action": instant.getAction(),
                    "state": instant.getState().name(),
                }
                for instant in client.getArchivedTimeline().getInstants()
            ],
            **self.completion_times(request),
        }

    def completion_times(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the completion time that is found of each `time`, active or archived."""
        client = self._meta_client(request)
        factory = client.getTimelineLayout().getTimelineFactory()
        view = factory.createCompletionTimeQueryView(client)
        found = {time: view.getCompletionTime(time) for time in request["times"]}
        return {
            "completion_times": {
                time: each.get() if each.isPresent() else None for time, each in found.items()
            },
        }

    def lock(self, request: dict[str, Any]) -> dict[str, Any]:
        """Take the table's lock with Hudi's own provider and keep it until `unlock`."""
        properties = self.jvm.org.apache.hudi.common.config.TypedProperties()
        for key, value in ({"hoodie.base.path": request["path"]} | request["options"]).items():
            properties.setProperty(key, value)
        configuration = self.jvm.org.apache.hudi.common.config.LockConfiguration(properties)
        provider: Any = self.jvm
        for part in request["options"]["hoodie.write.lock.provider"].split("."):
            provider = getattr(provider, part)
        lock = provider(configuration, storage_configuration(self.spark))
        seconds = self.jvm.java.util.concurrent.TimeUnit.SECONDS
        give_up = time.monotonic() + request["wait_s"]
        try:
            acquired = bool(lock.tryLock(request["wait_s"], seconds))
            # Some providers answer at once: it is Hudi's lock manager that tries them again.
            while not acquired and time.monotonic() < give_up:
                time.sleep(RETRY_S)
                acquired = bool(lock.tryLock(1, seconds))
        except Py4JJavaError as error:
            # ZooKeeper's provider throws where the others return false.
            if "FAILED_TO_ACQUIRE" not in str(error.java_exception.getMessage()):
                raise
            acquired = False
        if acquired:
            self.locks[request["path"]] = lock
        elif "FileSystemBased" not in request["options"]["hoodie.write.lock.provider"]:
            # Closing that one deletes the lock file, whoever owns it (seen in 1.2.0).
            lock.close()
        return {"acquired": acquired}

    def unlock(self, request: dict[str, Any]) -> dict[str, Any]:
        """Give the lock back."""
        lock = self.locks.pop(request["path"])
        lock.unlock()
        lock.close()
        return {}

    def storage_lease(self, request: dict[str, Any]) -> dict[str, Any]:
        """Read the file of a storage-based lock, and write what was read."""
        models = self.jvm.org.apache.hudi.client.transaction.lock.models
        stream = self.jvm.java.io.ByteArrayInputStream(request["text"].encode())
        lease = models.StorageLockFile.createFromStream(stream, "1")
        data = models.StorageLockData(lease.isExpired(), lease.getValidUntilMs(), lease.getOwner())
        return {
            "expired": lease.isExpired(),
            "valid_until_ms": lease.getValidUntilMs(),
            "owner": lease.getOwner(),
            "text": bytes(models.StorageLockFile.toByteArray(data)).decode(),
        }

    def timeline(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the active timeline as HoodieTableMetaClient sees it, in Hudi's own order."""
        client = self._meta_client(request)
        return {
            "instants": [
                {
                    "requested_time": instant.requestedTime(),
                    "completion_time": instant.getCompletionTime(),
                    "action": instant.getAction(),
                    "state": instant.getState().name(),
                }
                for instant in client.getActiveTimeline().getInstants()
            ]
        }

    def listings(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the sizes of a table's files by its metadata table, and by its storage.

        The procedure `validate_metadata_table_files` takes both from the metadata table (1.2.0).
        """
        path = request["path"]
        hudi = self.jvm.org.apache.hudi
        engine = hudi.common.engine.HoodieLocalEngineContext(storage_configuration(self.spark))
        storage = self._meta_client(request).getStorage()
        used = hudi.common.config.HoodieMetadataConfig.newBuilder().enable(True).build()
        metadata = hudi.metadata
        listed = {
            "by_metadata": metadata.HoodieBackedTableMetadata(engine, storage, used, path),
            "by_storage": metadata.FileSystemBackedTableMetadata(engine, storage, path),
        }
        return {
            name: {
                partition: {
                    info.getPath().getName(): info.getLength()
                    for info in lister.getAllFilesInPartition(
                        hudi.storage.StoragePath(f"{path}/{partition}".rstrip("/"))
                    )
                }
                for partition in lister.getAllPartitionPaths()
            }
            for name, lister in listed.items()
        }

    def hfile(self, request: dict[str, Any]) -> dict[str, Any]:
        """Read or write an HFile as `HFileJudge.java` does with `words`; returns processor time."""
        if self.hfiles is None:
            compiler = self.jvm.org.codehaus.janino.SimpleCompiler()
            loader = self.jvm.java.lang.Thread.currentThread().getContextClassLoader()
            compiler.setParentClassLoader(loader)
            compiler.cook(HFILE_JUDGE.read_text())
            loaded = compiler.getClassLoader().loadClass(HFILE_JUDGE.stem)
            self.hfiles = loaded.newInstance()
        return {"seconds": float(self.hfiles.apply(" ".join(request["words"])))}

    def bloom_filter(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the text of a bloom filter of `keys`, and which of `asked` another may contain."""
        factory = self.jvm.org.apache.hudi.common.bloom.BloomFilterFactory
        made = factory.createBloomFilter(*request["size"], request["type"])
        for key in request["keys"]:
            made.add(key)
        read = factory.fromString(request["read"], request["type"])
        return {
            "text": made.serializeToString(),
            "found": [bool(read.mightContain(key)) for key in request["asked"]],
        }

    def tag(self, request: dict[str, Any]) -> dict[str, Any]:
        """Look the keys of the parquet file `keys` up, as a write with `options` does, some times.

        It has the columns `key` and `partition`. Returns the seconds of each time, and how many of
        the keys are in the table. `gate`, if given, is a file name: the table has been opened, and
        the look-up begins only when it exists.
        """
        hudi = self.jvm.org.apache.hudi
        payload = hudi.common.model.EmptyHoodieRecordPayload()
        listed = self.jvm.java.util.ArrayList()
        for row in self.spark.read.parquet(request["keys"]).collect():
            key = hudi.common.model.HoodieKey(row["key"], row["partition"])
            # A record index asks each record whether it deletes: it must have a payload.
            listed.add(hudi.common.model.HoodieAvroRecord(key, payload))
        jsc: Any = self.spark.sparkContext._jsc
        records = jsc.parallelize(listed, request["parallelism"]).cache()
        records.count()
        context = hudi.client.common.HoodieSparkEngineContext(jsc)
        with self._write_client(request) as write_client:
            config = write_client.getConfig()
            spent = []
            for _ in range(request["repetitions"]):
                reader = hudi.client.SparkRDDReadClient(context, config)
                if request.get("gate"):
                    wait_at(request["gate"])
                # Another RDD each time: an index caches the one that it is given.
                given = records.coalesce(request["parallelism"])
                begin = time.perf_counter()
                new = reader.filterExists(given).count()
                spent.append(time.perf_counter() - begin)
        return {"seconds": spent, "found": len(listed) - new}

    def merge_records(self, request: dict[str, Any]) -> dict[str, Any]:
        """Merge records of a metadata table, which are bytes of `schema` in hexadecimal digits."""
        avro, hudi = self.jvm.org.apache.avro, self.jvm.org.apache.hudi
        utilities, option = hudi.avro.HoodieAvroUtils, hudi.common.util.Option
        schema = avro.Schema.Parser().parse(request["schema"])
        older, newer = (
            hudi.metadata.HoodieMetadataPayload(
                option.of(utilities.bytesToAvro(bytes.fromhex(request[name]), schema))
            )
            for name in ("older", "newer")
        )
        record = newer.preCombine(older).getInsertValue(schema).get()
        return {
            "content": bytes(utilities.avroToBytes(record)).hex(),
            "schema": record.getSchema().toString(),
        }

    def memory(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the JVM's peak resident memory in bytes since the last call with `reset`."""
        process = Path("/proc") / str(self._jvm_pid())
        lines = (process / "status").read_text().splitlines()
        kilobytes = {name: value for name, _, value in (line.partition(":") for line in lines)}
        if request.get("reset"):
            (process / "clear_refs").write_text("5")
        return {"peak_bytes": int(kilobytes["VmHWM"].split()[0]) * 1024}

    def _send(self, frame: DataFrame, request: dict[str, Any]) -> dict[str, Any]:
        match request["sink"]:
            case "parquet":
                frame.write.mode("overwrite").parquet(request["output"])
                return {}
            case "arrow":
                # Spark 4 has it as the public `toArrow`.
                batches = frame._collect_as_arrow()
                return {"rows": sum(batch.num_rows for batch in batches)}
            case "noop":
                frame.write.format("noop").mode("overwrite").save()
                return {}
            case "schema":
                return {"schema": frame.schema.jsonValue()}
            case "files":
                # An array of the JVM: 100,000 names are not sent one by one.
                return {"files": len(frame._jdf.inputFiles())}
            case other:
                raise ValueError(f"sink {other!r} is none of parquet, arrow, noop, schema, files")

    def _jvm_pid(self) -> int:
        return int(self.jvm.java.lang.ProcessHandle.current().pid())

    def _hudi_version(self) -> str:
        told = self.jvm.org.apache.hudi.HoodieVersion
        if not isinstance(told, JavaPackage):
            return str(told.get())
        # Releases before 1.1 do not tell it: the file's name does.
        bundle = self.spark.conf.get("spark.driver.extraClassPath") or ""
        return bundle.removesuffix(".jar").rpartition("-")[2]

    def _meta_client(self, request: dict[str, Any]) -> Any:  # noqa: ANN401 (of the JVM)
        builder = self.jvm.org.apache.hudi.common.table.HoodieTableMetaClient.builder()
        configuration = storage_configuration(self.spark)
        return builder.setConf(configuration).setBasePath(request["path"]).build()

    @contextlib.contextmanager
    def _write_client(self, request: dict[str, Any]) -> Iterator[Any]:
        # Hudi's stored procedures make the same client; they cannot take an option with a comma.
        options = self.jvm.PythonUtils.toScalaMap(self.jvm.java.util.HashMap(request["options"]))
        client = self.jvm.org.apache.hudi.HoodieCLIUtils.createHoodieWriteClient(
            self.spark._jsparkSession,
            request["path"],
            options,
            self.jvm.scala.Option.apply(None),  # a name would be looked up in the catalog
        )
        try:
            yield client
        finally:
            client.close()


def storage_configuration(spark: SparkSession) -> JavaObject:
    """Return Hadoop's configuration as Hudi's classes want it."""
    jvm: Any = spark._jvm
    jsc: Any = spark.sparkContext._jsc
    configuration: JavaObject = jvm.org.apache.hudi.hadoop.fs.HadoopFSUtils.getStorageConf(
        jsc.hadoopConfiguration()
    )
    return configuration


def wait_at(gate: str) -> None:
    """Make the file of the name `gate` and `.reached`, and return when the file `gate` exists."""
    Path(f"{gate}.reached").touch()
    while not Path(gate).exists():
        time.sleep(0.05)


def held_back(frame: DataFrame, gate: str) -> DataFrame:
    """Return the same rows, of which none comes before the file `gate` exists.

    When the first is asked for, the file of its name and `.reached` is made.
    """

    def wait(batches: Iterator[Batch]) -> Iterator[Batch]:
        # Not by `wait_at`: a worker has not imported this module.
        open(f"{gate}.reached", "w").close()  # noqa: PTH123 (as below)
        while not os.path.exists(gate):  # noqa: PTH110 (runs in a worker; keep its pickle small)
            time.sleep(0.05)
        yield from batches

    return frame.mapInArrow(wait, frame.schema)


def session(settings: dict[str, Any]) -> SparkSession:
    """Start Spark with the Hudi bundle on the class path."""
    builder = SparkSession.builder.master(settings["master"]).appName(settings["name"])
    for key, value in settings["conf"].items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel(settings["log_level"])
    return spark


def explain(error: BaseException) -> dict[str, Any]:
    """Return the chain of causes, the Java ones included, outermost first."""
    causes: list[dict[str, str]] = []
    java: Any = None
    match error:
        case Py4JJavaError():
            java = error.java_exception
        case CapturedException():
            java = getattr(error, "_origin", None)
    if java is None:
        causes.append({"type": type(error).__name__, "message": str(error)})
    while java is not None:
        causes.append({"type": java.getClass().getName(), "message": str(java.getMessage())})
        java = java.getCause()
    return {"causes": causes, "trace": traceback.format_exc()[-TRACE_CHARACTERS_MAX:]}


def main() -> None:
    """Serve requests until the input ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    started = time.perf_counter()
    server = Server(session(json.loads(sys.argv[1])))
    greeting = {"id": 0, "ok": True, "result": server.describe({})}
    print(json.dumps(greeting | {"seconds": time.perf_counter() - started}), file=answers)
    for line in sys.stdin:
        request = json.loads(line)
        started = time.perf_counter()
        answer: dict[str, Any] = {"id": request["id"]}
        try:
            answer |= {"ok": True, "result": server.operations[request["operation"]](request)}
        # The edge of the loop: the caller gets the error.
        except Exception as error:
            answer |= {"ok": False, "error": explain(error)}
        answer["seconds"] = time.perf_counter() - started
        print(json.dumps(answer), file=answers)


if __name__ == "__main__":
    main()
