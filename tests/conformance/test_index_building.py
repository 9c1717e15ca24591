"""Indexes that we build beside our writers, used and kept up by Apache Hudi."""

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import parquet as pq

from hoodie import environment, errors, table
from hoodie.filegroup import metadata_table
from hoodie.format import metadata_avro
from hoodie.format.metadata_avro import RecordType
from hoodie.model import results, table_config
from hoodie.model.file_statistics import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    META_COLUMNS,
    PARTITION_STATS,
)
from hoodie.model.key_changes import RECORD_INDEX
from hoodie.timeline import active, index_definitions
from hoodie.timeline import table_properties as properties
from hoodie.transaction import authors
from hoodie.transaction.locks import address_texts
from hoodie.transaction.manager import TransactionOptions
from support.peer import peer_ours
from support.peer.judge import QUICK_JVM, Gate, InstantState, Judge, JudgeError, Query, Settings
from support.peer.peer_cases import BASE, SCHEMA, row, rows_of
from support.peer.peer_indexes import ASYNC
from support.peer.peer_listings import assert_same_files
from support.peer.peer_options import PeerTable, filesystem_lock, table_properties
from support.peer.peer_rows import assert_same_rows
from support.tables.tables import QUICK

KEY = ["part", "id"]
MADE = replace(
    BASE,
    name="indexed",
    metadata_table=True,
    bloom_filter=True,
    extra={"hoodie.metadata.index.bloom.filter.enable": "true"},
)
TABLES = {
    "mor": MADE,
    "mor, version 8": replace(MADE, table_version=8),
    "cow": replace(MADE, merge_on_read=False),
    "cow, without partitions": replace(MADE, merge_on_read=False, partition_by=()),
}
SKIPPING = {"hoodie.enable.data.skipping": "true"}
LOCK = ("--lock", "filesystem")
ADDS_COLUMNS = ("--set", "hoodie.datasource.write.reconcile.schema=true")
OFF = {
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.index.bloom.filter.enable": "false",
}
SHARED = {
    "mor": (MADE, OFF, {}),
    "mor, async": (MADE, ASYNC, ASYNC),
    "cow": (TABLES["cow"], OFF, {}),
    "cow, async": (TABLES["cow"], ASYNC, ASYNC),
    "version 8": (TABLES["mor, version 8"], ASYNC, ASYNC),
}
"""What is written, by which options before the index is there, and by which afterwards."""
INFLIGHT = "hoodie.table.metadata.partitions.inflight"


def built(path: Path, made: PeerTable, names: Sequence[str] = ()) -> peer_ours.Hoodie:
    """Make a table whose indexes are built while it is written; return its writer."""
    ours = peer_ours.Hoodie(table=made, concurrency="occ" if made.buckets is None else None)
    peer_ours.create(path, made, SCHEMA)
    peer_ours.hoodie("configure", path, "--no-foreign-writers", *LOCK)
    ours.write(path, rows_of(range(12), 1), "upsert")
    peer_ours.hoodie("metadata", "init", path, "--files-only", *LOCK)
    if made.merge_on_read and made.buckets is not None:
        plan = ours.schedule_compaction(path)
        assert plan is not None
        ours.execute_compaction(path, plan)
    ours.write(path, rows_of(range(6, 18), 2), "upsert")
    heard: list[str] = []

    def hear(what: str) -> None:
        heard.append(what)
        if len(heard) in (2, 3):
            ours.write(path, rows_of(range(10, 14 + len(heard)), 2 + len(heard)), "upsert")

    if not names:
        names = [COLUMN_STATS, *([PARTITION_STATS] if made.partition_by else []), BLOOM_FILTERS]
    done = build(path, names, hear)
    assert done.built == tuple(names)
    assert len(heard) > 3
    ours.write(path, rows_of(range(3), 9), "upsert")
    return ours


def build(
    path: Path,
    names: Sequence[str],
    hear: object,
    columns: Sequence[str] | None = None,
    *,
    secondary: Mapping[str, str] | None = None,
    is_partitioned: bool = False,
) -> results.IndexResult:
    env = environment.system(parallelism=2)
    transaction = TransactionOptions(
        settings=QUICK, lock=address_texts.parse("filesystem"), author=authors.Author()
    )
    assert callable(hear)
    opened = table.open_table(str(path), env)
    return opened.build_index(
        names,
        transaction,
        hear,
        columns=columns,
        secondary=secondary,
        is_partitioned=is_partitioned,
    )


def by_metadata(where: str, options: Mapping[str, str] = SKIPPING) -> Query:
    return Query(use_metadata_table=True, where=where, options=options)


@pytest.mark.parametrize("kind", TABLES)
def test_apache_hudi_reads_by_our_index_and_keeps_it_up(
    kind: str, judge: Judge, tmp_path: Path
) -> None:
    made = TABLES[kind]
    path = tmp_path / "table"
    ours = built(path, made)
    indexing = [each for each in judge.timeline(path) if each.action == "indexing"]
    assert [each.state for each in indexing] == [InstantState.COMPLETED]
    listed = judge.read(path)
    assert_same_rows(judge.read(path, Query(use_metadata_table=True)), listed, KEY)
    for where in ("ts > 5", "id = 'key-003'", "id = 'none'"):
        found = judge.read(path, by_metadata(where))
        assert_same_rows(found, judge.read(path, Query(where=where)), KEY)
        assert_same_rows(peer_ours.read(path, "--where", where), found, KEY)
    assert not judge.read(path, by_metadata("ts > 1000")).num_rows
    peer_ours.hoodie("configure", path, "--foreign-writers", *LOCK)
    judge.write(path, rows_of(range(8, 20), 20), made.write_options())
    ours.write(path, rows_of(range(16, 24), 21), "upsert")
    validated = peer_ours.hoodie("metadata", "validate", path)
    for each in ("differences", "statistics", "filters"):
        assert validated[each] == [], each
    assert validated["filters_compared"]
    assert_same_files(path)
    status = peer_ours.hoodie("index", "status", path)
    ready = {each["name"] for each in status["indexes"] if each["state"] == "ready"}
    assert {COLUMN_STATS, BLOOM_FILTERS} <= ready
    found = judge.read(path, by_metadata("ts > 19"))
    assert_same_rows(found, judge.read(path, Query(where="ts > 19")), KEY)
    assert_same_rows(peer_ours.read(path, "--where", "ts > 19"), found, KEY)


def test_apache_hudi_leaves_files_out_by_our_index(judge: Judge, tmp_path: Path) -> None:
    """It does not open what has no matching row: such a file may be broken."""
    path = tmp_path / "table"
    built(path, TABLES["cow"])
    found = judge.read(path, by_metadata("ts = 9"))
    assert found.num_rows == 3
    broken = [
        each
        for each in path.glob("*/*.parquet")
        if 9 not in pq.read_table(each, columns=["ts"]).column("ts").to_pylist()
    ]
    assert broken
    for each in broken:
        each.write_bytes(b"broken")
        each.with_name(f".{each.name}.crc").unlink(missing_ok=True)
    assert_same_rows(judge.read(path, by_metadata("ts = 9")), found, KEY)
    with pytest.raises(JudgeError):
        judge.read(path, Query(where="ts = 9"))


def test_bloom_index_of_apache_hudi_finds_keys_by_filters_that_we_built(tmp_path: Path) -> None:
    """It throws where a base file has no filter in the metadata table."""
    made = replace(TABLES["cow"], buckets=None)
    by_filters = made.write_options() | {
        "hoodie.index.type": "BLOOM",
        "hoodie.bloom.index.use.metadata": "true",
    }
    path = tmp_path / "table"
    built(path, made)
    peer_ours.hoodie("configure", path, "--foreign-writers", *LOCK)
    opens = "--add-opens=java.base/java.util.concurrent.locks=ALL-UNNAMED"
    with Judge(tmp_path / "judge", Settings(jvm_options=(*QUICK_JVM, opens))) as judge:
        judge.write(path, rows_of(range(5, 9), 30), by_filters)
        found = judge.read(path)
    assert found.num_rows == 18
    assert found.column("ts").to_pylist().count(30) == 4


BY_RECORD_INDEX = {
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.index.partition.stats.enable": "false",
}
INDEXED = replace(MADE, buckets=None, bloom_filter=False, extra=BY_RECORD_INDEX)
RECORD_INDEXED = {
    "mor": INDEXED,
    "cow, version 8": replace(INDEXED, merge_on_read=False, table_version=8),
    "cow, without partitions": replace(INDEXED, merge_on_read=False, partition_by=()),
}


@pytest.mark.parametrize("kind", RECORD_INDEXED)
def test_apache_hudi_finds_keys_by_a_record_index_that_we_built_and_keeps_it_up(
    kind: str, judge: Judge, tmp_path: Path
) -> None:
    """Its upserts go to the file groups that the index names, and add their keys to it."""
    made = RECORD_INDEXED[kind]
    path = tmp_path / "table"
    ours = built(path, made, [RECORD_INDEX])
    indexing = [each for each in judge.timeline(path) if each.action == "indexing"]
    assert [each.state for each in indexing] == [InstantState.COMPLETED]
    listed = judge.read(path)
    assert_same_rows(judge.read(path, Query(use_metadata_table=True)), listed, KEY)
    peer_ours.hoodie("configure", path, "--foreign-writers", *LOCK)
    options = {**made.write_options(), "hoodie.index.type": "RECORD_INDEX"}
    judge.write(path, rows_of(range(8, 22), 20), options)
    ours.write(path, rows_of(range(16, 26), 21), "upsert")
    judge.write(path, rows_of(range(24, 28), 22), options)
    assert judge.read(path).num_rows == 28
    for number in (3, 9, 17, 23, 27):
        where = f"id = 'key-{number:03d}'"
        found = judge.read(path, by_metadata(where))
        assert found.num_rows == 1
        assert_same_rows(found, judge.read(path, Query(where=where)), KEY)
        assert_same_rows(peer_ours.read(path, "--where", where), found, KEY)
    validated = peer_ours.hoodie("metadata", "validate", path)
    assert validated["keys"] == []
    assert validated["differences"] == []
    assert_same_files(path)
    status = peer_ours.hoodie("index", "status", path)
    assert "ready" in {each["state"] for each in status["indexes"] if each["name"] == RECORD_INDEX}


def test_apache_hudi_leaves_files_out_by_our_record_index(judge: Judge, tmp_path: Path) -> None:
    """It does not open what has no matching key: such a file may be broken."""
    path = tmp_path / "table"
    built(path, replace(INDEXED, merge_on_read=False), [RECORD_INDEX])
    where = "id = 'key-003'"
    found = judge.read(path, by_metadata(where))
    assert found.num_rows == 1
    broken = [
        each
        for each in path.glob("*/*.parquet")
        if "key-003" not in pq.read_table(each, columns=["id"]).column("id").to_pylist()
    ]
    assert broken
    for each in broken:
        each.write_bytes(b"broken")
        each.with_name(f".{each.name}.crc").unlink(missing_ok=True)
    assert_same_rows(judge.read(path, by_metadata(where)), found, KEY)
    with pytest.raises(JudgeError):
        judge.read(path, Query(where=where))


def shared(path: Path, made: PeerTable) -> peer_ours.Hoodie:
    """Make a table with base files and a metadata table that other engines may write."""
    ours = peer_ours.Hoodie(table=made, concurrency="occ" if made.buckets is None else None)
    peer_ours.create(path, made, SCHEMA)
    ours.write(path, rows_of(range(12), 1), "upsert")
    if made.merge_on_read and made.buckets is not None:
        plan = ours.schedule_compaction(path)
        assert plan is not None
        ours.execute_compaction(path, plan)
    peer_ours.hoodie("metadata", "init", path, "--files-only", *LOCK)
    return ours


@contextmanager
def pending(
    judge: Judge,
    path: Path,
    rows: pa.Table,
    options: Mapping[str, str],
    gate: Gate,
    *,
    operation: str = "upsert",
) -> Iterator[None]:
    """Have Apache Hudi begin a write, and complete it in the end."""
    with ThreadPoolExecutor(1) as threads:
        slow = threads.submit(judge.write, path, rows, options, operation=operation, gate=gate)
        try:
            with gate.holding(slow):
                yield
        finally:
            slow.result()


def in_flight(
    judge: Judge, path: Path, options: Mapping[str, str], gate: Gate
) -> AbstractContextManager[None]:
    """Have Apache Hudi begin a write of six rows, and complete it in the end."""
    return pending(judge, path, rows_of(range(9, 15), 7), options, gate)


def check_shared(judge: Judge, path: Path, ready: set[str]) -> None:
    """Check the indexes of a table against its files, and reads by them against full scans."""
    assert set(table_properties(path)["hoodie.table.metadata.partitions"].split(",")) == ready
    validated = peer_ours.hoodie("metadata", "validate", path)
    for each in ("differences", "statistics", "filters"):
        assert validated[each] == [], each
    assert_same_files(path)
    for where in ("ts > 5", "ts = 7", "id = 'key-003'", "id = 'none'"):
        found = judge.read(path, by_metadata(where))
        assert_same_rows(found, judge.read(path, Query(where=where)), KEY)
        assert_same_rows(peer_ours.read(path, "--where", where), found, KEY)


@pytest.mark.parametrize("kind", SHARED)
def test_writer_of_apache_hudi_in_flight_is_waited_for(
    kind: str, judge: Judge, second_judge: Judge, tmp_path: Path
) -> None:
    """T-I02, T-I09, T-I11: what it did not log is in the index; what it writes later it logs."""
    made, before, afterwards = SHARED[kind]
    path = tmp_path / "table"
    ours = shared(path, made)
    options = made.shared_options(filesystem_lock())
    gate = Gate(path=tmp_path / "gate")
    heard: list[str] = []
    is_waiting = threading.Event()

    def hear(what: str) -> None:
        heard.append(what)
        if what.startswith("waiting"):
            is_waiting.set()

    names = [COLUMN_STATS, PARTITION_STATS, BLOOM_FILTERS]
    with ThreadPoolExecutor(1) as threads:
        with in_flight(second_judge, path, options | before, gate):
            building = threads.submit(build, path, names, hear)
            while not is_waiting.wait(0.1):
                assert not building.done(), building.result()
            wait_for(lambda: INFLIGHT in table_properties(path), building)
            if made.merge_on_read:  # Else the two would conflict.
                ours.write(path, rows_of(range(3), 8), "upsert")
        # One after the other (ADR 0051).
        assert set(building.result().built) == set(names), heard
    assert all("is pending, of another engine" in each for each in heard if "waiting" in each)
    ready = {"files", *names}
    check_shared(judge, path, ready)
    assert judge.read(path).column("ts").to_pylist().count(7) == 6
    for number in range(2):
        judge.write(path, rows_of(range(8 + number, 20), 20 + number), options | afterwards)
        ours.write(path, rows_of(range(16, 24), 30 + number), "upsert")
    check_shared(judge, path, ready)
    assert not judge.read(path, by_metadata("ts > 1000")).num_rows
    indexing = [each for each in judge.timeline(path) if each.action == "indexing"]
    assert {each.state for each in indexing} == {InstantState.COMPLETED}


KEPT_UP = {"hoodie.metadata.global.record.level.index.enable": "true"}
KEPT_UP_BY_PARTITION = {"hoodie.metadata.record.level.index.enable": "true"}
WITHOUT_BUCKETS = replace(
    MADE,
    buckets=None,
    bloom_filter=False,
    extra={
        "hoodie.metadata.index.column.stats.enable": "false",
        "hoodie.metadata.index.partition.stats.enable": "false",
        "hoodie.embed.timeline.server": "true",
    },
)
RECORD_SHARED = {
    "mor": (WITHOUT_BUCKETS, KEPT_UP, "RECORD_INDEX"),
    "cow": (replace(WITHOUT_BUCKETS, merge_on_read=False), KEPT_UP, "RECORD_INDEX"),
    "cow, of partitions": (
        replace(WITHOUT_BUCKETS, merge_on_read=False),
        KEPT_UP_BY_PARTITION,
        "RECORD_LEVEL_INDEX",
    ),
    "cow with buckets": (
        replace(WITHOUT_BUCKETS, merge_on_read=False, buckets=2),
        KEPT_UP,
        "BUCKET",
    ),
}
"""What is written, by which options once the index is there, and by which index."""


@pytest.mark.parametrize("kind", RECORD_SHARED)
def test_record_index_has_what_a_writer_of_apache_hudi_in_flight_wrote(
    kind: str, judge: Judge, second_judge: Judge, tmp_path: Path
) -> None:
    """Each row is found by its key then, also what either engine writes later."""
    made, kept_up, index = RECORD_SHARED[kind]
    path = tmp_path / "table"
    ours = shared(path, made)
    options = made.occ_options(filesystem_lock())
    gate = Gate(path=tmp_path / "gate")
    heard: list[str] = []
    is_waiting = threading.Event()

    def hear(what: str) -> None:
        heard.append(what)
        if what.startswith("waiting"):
            is_waiting.set()

    is_partitioned = kept_up is KEPT_UP_BY_PARTITION
    with ThreadPoolExecutor(1) as threads:
        with in_flight(second_judge, path, options, gate):
            building = threads.submit(
                build, path, [RECORD_INDEX], hear, is_partitioned=is_partitioned
            )
            while not is_waiting.wait(0.1):
                assert not building.done(), building.result()
        assert building.result().built == (RECORD_INDEX,), heard
    check_keys(judge, path, 15)
    by_index = options | kept_up | {"hoodie.index.type": index}
    judge.write(path, rows_of(range(8, 20), 20), by_index)
    ours.write(path, rows_of(range(16, 24), 30), "upsert")
    check_keys(judge, path, 24)
    judge.write(path, rows_of(range(3, 6), 40), by_index, operation="delete")
    ours.write(path, rows_of(range(4, 26), 50), "upsert")
    judge.write(path, rows_of(range(3, 28), 60), by_index)
    check_keys(judge, path, 28)
    # By its own options it makes another, and drops one.
    judge.write(path, rows_of(range(4), 70), options)
    assert RECORD_INDEX not in table_properties(path)["hoodie.table.metadata.partitions"]


def check_keys(judge: Judge, path: Path, count: int) -> None:
    """Check that each of the first rows is there once, and found by its key."""
    assert RECORD_INDEX in table_properties(path)["hoodie.table.metadata.partitions"]
    listed = judge.read(path)
    ids = listed.column("id").to_pylist()
    assert len(ids) == len(set(ids)) == count
    assert_same_rows(judge.read(path, Query(use_metadata_table=True)), listed, KEY)
    validated = peer_ours.hoodie("metadata", "validate", path)
    assert [validated[each] for each in ("differences", "keys")] == [[], []]
    assert_same_files(path)
    for number in (3, 9, 14, 17, 23, 99):
        where = f"id = 'key-{number:03d}'"
        found = judge.read(path, by_metadata(where))
        assert_same_rows(found, judge.read(path, Query(where=where)), KEY)
        assert_same_rows(peer_ours.read(path, "--where", where), found, KEY)


def of_part(rows: pa.Table, number: int) -> pa.Table:
    """Return the rows of one of the partitions, so that writes do not conflict."""
    parts = sorted(set(rows.column("part").to_pylist()))
    return rows.filter(pc.equal(rows.column("part"), parts[number]))


STREAMING = {**ASYNC, "hoodie.metadata.streaming.write.enabled": "true"}
OPTION = {
    BLOOM_FILTERS: "hoodie.metadata.index.bloom.filter.enable",
    COLUMN_STATS: "hoodie.metadata.index.column.stats.enable",
    PARTITION_STATS: "hoodie.metadata.index.partition.stats.enable",
}
COMPACTS = {"hoodie.metadata.compact.max.delta.commits": "1"}
OTHERS_OFF = {
    BLOOM_FILTERS: {OPTION[COLUMN_STATS]: "false"},
    COLUMN_STATS: {OPTION[BLOOM_FILTERS]: "false", OPTION[PARTITION_STATS]: "false"},
    PARTITION_STATS: {OPTION[BLOOM_FILTERS]: "false"},
}
OVERLAPPED = [
    *((BLOOM_FILTERS, each) for each in ("on, streaming", "on", "off")),
    # With streaming writes it fails while it has column_stats alone (J6 of ADR 0032).
    *((COLUMN_STATS, each) for each in ("on", "off")),
    # Its option alone does not keep it from making them where it has column_stats.
    *((PARTITION_STATS, each) for each in ("on, streaming", "on")),
]


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["mor", "cow"])
@pytest.mark.parametrize(("name", "option"), OVERLAPPED)
def test_index_becomes_ready_while_writes_of_apache_hudi_overlap(
    name: str, kind: str, option: str, judge: Judge, second_judge: Judge, tmp_path: Path
) -> None:
    """ADR 0051: a write that began once it was inflight logs there, or drops it when it ends."""
    made = TABLES[kind]
    path = tmp_path / "table"
    ours = shared(path, made)
    options = made.shared_options(filesystem_lock()) | OTHERS_OFF[name]
    off = {OPTION[name]: "false"}
    later = options | {"off": off, "on": ASYNC, "on, streaming": STREAMING}[option]
    ready = {"files", name}
    if name == PARTITION_STATS:
        build(path, [COLUMN_STATS], lambda what: None)
        ready.add(COLUMN_STATS)
    heard: list[str] = []
    is_over = threading.Event()

    def hear(what: str) -> None:
        heard.append(what)
        assert not is_over.is_set()

    first, second = (Gate(path=tmp_path / name) for name in ("first", "second"))
    before = of_part(rows_of(range(9, 15), 7), 0)
    meanwhile = of_part(rows_of(range(6, 18), 9), 1)
    with ThreadPoolExecutor(1) as threads, ExitStack() as ends:
        ends.callback(is_over.set)
        with pending(second_judge, path, before, options | ASYNC, first):
            building = threads.submit(build, path, [name], hear)
            wait_for(lambda: INFLIGHT in table_properties(path), building)
            if made.merge_on_read:  # Else the two would conflict.
                ours.write(path, rows_of(range(3), 8), "upsert")
            ends.enter_context(pending(judge, path, meanwhile, later, second))
        assert building.result().built == (name,), heard
        assert set(named_ready(path)) == ready
    if option == "off":
        assert name not in named_ready(path)
        return
    check_shared(judge, path, ready)
    judge.write(path, rows_of(range(8, 20), 20), later)
    ours.write(path, rows_of(range(16, 24), 30), "upsert")
    judge.write(path, rows_of(range(10, 22), 40), later | COMPACTS)
    check_shared(judge, path, ready)
    assert not judge.read(path, by_metadata("ts > 1000")).num_rows


KEYS_OVERLAPPED = {
    **RECORD_SHARED,
    "mor, of partitions": (WITHOUT_BUCKETS, KEPT_UP_BY_PARTITION, "RECORD_LEVEL_INDEX"),
}


def with_partition(rows: pa.Table, kept_up: Mapping[str, str], number: int) -> pa.Table:
    """Return rows with some of a new partition, where a record index is one of each."""
    if kept_up is not KEPT_UP_BY_PARTITION:
        return rows
    more = [row(each, ts=9, part=f"new-{number}") for each in range(number, number + 3)]
    return pa.concat_tables([rows, pa.Table.from_pylist(more, SCHEMA)])


def check_ids(judge: Judge, path: Path, expected: Collection[int]) -> None:
    """Check that a table has the rows of some numbers, and each is found by its key."""
    ids = sorted(judge.read(path).column("id").to_pylist())
    assert ids == [f"key-{number:03d}" for number in sorted(expected)]
    check_keys(judge, path, len(expected))


@pytest.mark.sample(0)  # Minutes; of one that is streamed below.
@pytest.mark.parametrize("kind", KEYS_OVERLAPPED)
@pytest.mark.parametrize("option", ["on, streaming", "on", "off"])
@pytest.mark.parametrize("operation", ["upsert", "delete"])
def test_record_index_becomes_ready_while_writes_of_apache_hudi_overlap(
    kind: str, option: str, operation: str, judge: Judge, second_judge: Judge, tmp_path: Path
) -> None:
    """ADR 0052, ADR 0053: a write that began once it was inflight logs there, or drops it."""
    made, kept_up, index = KEYS_OVERLAPPED[kind]
    path = tmp_path / "table"
    ours = shared(path, made)
    options = made.occ_options(filesystem_lock())
    by_index = {"hoodie.index.type": index}
    later = (
        options
        | {
            "off": {},
            "on": kept_up | ASYNC | by_index,
            "on, streaming": kept_up | STREAMING | by_index,
        }[option]
    )
    heard: list[str] = []
    is_over = threading.Event()

    def hear(what: str) -> None:
        heard.append(what)
        assert not is_over.is_set()

    first, second = (Gate(path=tmp_path / name) for name in ("first", "second"))
    is_partitioned = kept_up is KEPT_UP_BY_PARTITION
    before = with_partition(of_part(rows_of(range(9, 15), 7), 0), kept_up, 30)
    meanwhile = of_part(rows_of(range(6, 18), 9), 1)
    if operation == "upsert":
        meanwhile = with_partition(meanwhile, kept_up, 40)
    expected = {*range(12), *numbers_of(before)}
    with ThreadPoolExecutor(1) as threads, ExitStack() as ends:
        ends.callback(is_over.set)
        with pending(second_judge, path, before, options | kept_up | ASYNC, first):
            building = threads.submit(
                build, path, [RECORD_INDEX], hear, is_partitioned=is_partitioned
            )
            wait_for(lambda: INFLIGHT in table_properties(path), building)
            overlapping = pending(judge, path, meanwhile, later, second, operation=operation)
            ends.enter_context(overlapping)
        assert building.result().built == (RECORD_INDEX,), heard
        assert set(named_ready(path)) == {"files", RECORD_INDEX}
    if option == "off":
        assert RECORD_INDEX not in named_ready(path)
        return
    changed = {*numbers_of(meanwhile)}
    expected = expected | changed if operation == "upsert" else expected - changed
    check_ids(judge, path, expected)
    judge.write(path, rows_of(range(8, 20), 20), later)
    ours.write(path, rows_of(range(16, 24), 30), "upsert")
    judge.write(path, rows_of(range(10, 22), 40), later | COMPACTS)
    check_ids(judge, path, expected | {*range(8, 24)})


SLOW_RETRIES = {
    "hoodie.write.lock.wait_time_ms_between_retry": "8000",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "8000",
}
"""Of a lock: another that waits for it takes it first."""


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", KEYS_OVERLAPPED)
@pytest.mark.parametrize("operation", ["upsert", "delete"])
def test_record_index_becomes_ready_above_keys_that_apache_hudi_has_streamed(
    kind: str, operation: str, judge: Judge, second_judge: Judge, tmp_path: Path
) -> None:
    """ADR 0052, ADR 0053: by streaming writes they are there, pending, before it completes."""
    made, kept_up, index = KEYS_OVERLAPPED[kind]
    path = tmp_path / "table"
    shared(path, made)
    options = made.occ_options(filesystem_lock()) | kept_up
    streaming = options | STREAMING | {"hoodie.index.type": index} | SLOW_RETRIES
    first, second = (Gate(path=tmp_path / name) for name in ("first", "second"))
    is_partitioned = kept_up is KEPT_UP_BY_PARTITION
    before = with_partition(of_part(rows_of(range(9, 15), 7), 0), kept_up, 30)
    meanwhile = of_part(rows_of(range(6, 18), 9), 1)
    if operation == "upsert":
        meanwhile = with_partition(meanwhile, kept_up, 40)
    is_publishing, is_streamed, is_over = (threading.Event() for _ in range(3))

    def hear(what: str) -> None:
        assert not is_over.is_set()
        if what == "publishing" and INFLIGHT in table_properties(path):
            is_publishing.set()
            is_streamed.wait(120)

    with ThreadPoolExecutor(1) as threads, ExitStack() as ends:
        ends.callback(is_over.set)
        with pending(second_judge, path, before, options | ASYNC, first):
            building = threads.submit(
                build, path, [RECORD_INDEX], hear, is_partitioned=is_partitioned
            )
            wait_for(lambda: INFLIGHT in table_properties(path), building)
            begun = times_of(path)
            overlapping = pending(judge, path, meanwhile, streaming, second, operation=operation)
            ends.enter_context(overlapping)
            [late] = times_of(path) - begun
        wait_for(is_publishing.is_set, building)
        wait_for(lambda: takes_lock(path), building)
        second.open()
        folder = path / ".hoodie" / "metadata" / RECORD_INDEX
        wait_for(lambda: list(folder.glob(f".record-index-*_{late}.log.*")), building)
        time.sleep(2)
        is_streamed.set()
        time.sleep(1)
        (path / LOCK_FILE).unlink()
        assert building.result().built == (RECORD_INDEX,)
    completed = [each.name for each in (path / ".hoodie" / "timeline").glob("*_*.*")]
    [indexed] = [each for each in completed if each.endswith(".indexing")]
    [written] = [each for each in completed if each.startswith(late)]
    assert indexed.split("_")[1] < written.split("_")[1]
    changed, expected = {*numbers_of(meanwhile)}, {*range(12), *numbers_of(before)}
    check_ids(judge, path, expected | changed if operation == "upsert" else expected - changed)


@pytest.mark.sample(1)
def test_plan_of_several_indexes_is_divided_beside_writes_of_apache_hudi_that_overlap(
    judge: Judge, second_judge: Judge, tmp_path: Path
) -> None:
    """ADR 0053: none was pending when it was made, and at any later time there is one."""
    made, kept_up, _ = RECORD_SHARED["cow"]
    path = tmp_path / "table"
    shared(path, made)
    options = made.occ_options(filesystem_lock()) | kept_up | ASYNC | {OPTION[COLUMN_STATS]: "true"}
    gates: list[Gate] = []
    planned: list[str] = []
    inflight: set[str] = set()
    with ExitStack() as ends:

        def begin() -> None:
            number = len(gates)
            gates.append(Gate(path=tmp_path / f"gate-{number}"))
            rows = of_part(rows_of(range(9, 18), 7 + number), number)
            writer = (second_judge, judge)[number % 2]
            ends.enter_context(pending(writer, path, rows, options, gates[-1]))

        def hear(what: str) -> None:
            if what.startswith("planning"):
                planned.append(what.removeprefix("planning "))
            if what == f"planning {COLUMN_STATS}, {RECORD_INDEX}":
                begin()
            named = table_properties(path).get(INFLIGHT)
            if what.startswith("waiting") and named is not None and named not in inflight:
                inflight.add(named)
                begin()
                gates[-2].open()

        assert build(path, [COLUMN_STATS, RECORD_INDEX], hear).built == (COLUMN_STATS, RECORD_INDEX)
    assert planned == [f"{COLUMN_STATS}, {RECORD_INDEX}", COLUMN_STATS, RECORD_INDEX]
    assert inflight == {COLUMN_STATS, RECORD_INDEX}
    assert set(named_ready(path)) == {"files", COLUMN_STATS, RECORD_INDEX}
    assert not peer_ours.hoodie("metadata", "validate", path)["statistics"]
    check_keys(judge, path, 18)


LOCK_FILE = Path(".hoodie") / "lock"


def takes_lock(path: Path) -> bool:
    """Take the lock that is a file; return whether it was free."""
    try:
        (path / LOCK_FILE).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def wait_for(look: Callable[[], object], building: "Future[results.IndexResult]") -> None:
    """Look until there is something to see, while an index is built."""
    end_s = time.monotonic() + 120
    while not look():
        assert time.monotonic() < end_s
        assert not building.done(), building.result()
        time.sleep(0.05)


def times_of(path: Path) -> set[str]:
    """Return the requested times of what was requested."""
    return {each.name[:17] for each in (path / ".hoodie" / "timeline").glob("*.requested")}


def numbers_of(rows: pa.Table) -> list[int]:
    return [int(each.removeprefix("key-")) for each in rows.column("id").to_pylist()]


@pytest.mark.parametrize("kind", ["mor", "cow"])
@pytest.mark.parametrize("is_named", [False, True], ids=["before", "inflight"])
def test_index_that_a_writer_of_apache_hudi_makes_itself_is_not_built_twice(
    is_named: bool, kind: str, judge: Judge, second_judge: Judge, tmp_path: Path
) -> None:
    """T-I16: its option is on, and it leaves it to nobody: it makes them when it commits.

    Also those that are inflight by then (ADR 0051).
    """
    made = TABLES[kind]
    path = tmp_path / "table"
    shared(path, made)
    options = made.shared_options(filesystem_lock())
    gate = Gate(path=tmp_path / "gate")
    heard: list[str] = []

    def hear(what: str) -> None:
        heard.append(what)
        if what.startswith("waiting") and (not is_named or INFLIGHT in table_properties(path)):
            gate.open()

    names = [COLUMN_STATS, PARTITION_STATS, BLOOM_FILTERS]
    with in_flight(second_judge, path, options, gate):
        done = build(path, names, hear)
    assert set(done.built) < set(names), heard
    check_shared(judge, path, {"files", *names})
    assert not [
        each
        for each in judge.timeline(path)
        if each.action == "indexing" and each.state is not InstantState.COMPLETED
    ]


def test_writer_of_apache_hudi_whose_option_is_off_drops_the_index(
    judge: Judge, tmp_path: Path
) -> None:
    """The way out that `docs/limits.md` names is that option."""
    made = TABLES["cow"]
    path = tmp_path / "table"
    ours = shared(path, made)
    build(path, [COLUMN_STATS, PARTITION_STATS, BLOOM_FILTERS], lambda what: None)
    off = {"hoodie.metadata.index.bloom.filter.enable": "false"}
    judge.write(path, rows_of(range(5), 8), made.shared_options(filesystem_lock()) | off)
    check_shared(judge, path, {"files", COLUMN_STATS, PARTITION_STATS})
    build(path, [BLOOM_FILTERS], lambda what: None)
    ours.write(path, rows_of(range(3, 9), 9), "upsert")
    check_shared(judge, path, {"files", COLUMN_STATS, PARTITION_STATS, BLOOM_FILTERS})


def name_partitions(path: Path, ready: str, inflight: str | None) -> None:
    """Name the partitions of a metadata table in the table's properties."""
    env = environment.system()
    names = {
        table_config.METADATA_PARTITIONS_KEY: ready,
        table_config.METADATA_PARTITIONS_INFLIGHT_KEY: inflight,
    }
    properties.update(env.open_storage(str(path)), names, env.clock, lambda: None)


EVERY = (BLOOM_FILTERS, COLUMN_STATS, PARTITION_STATS)


def with_inflight(path: Path, kind: str) -> dict[str, str]:
    """Make a table whose indexes are inflight; return the options of its writers."""
    made = TABLES[kind]
    shared(path, made)
    build(path, EVERY, lambda what: None)
    name_partitions(path, "files", ",".join(EVERY))
    return made.shared_options(filesystem_lock())


def named_ready(path: Path) -> list[str]:
    return table_properties(path)["hoodie.table.metadata.partitions"].split(",")


@pytest.mark.parametrize("kind", ["mor", "cow"])
def test_writer_of_apache_hudi_whose_option_is_off_does_not_log_to_an_inflight_index(
    kind: str, judge: Judge, tmp_path: Path
) -> None:
    """J7 of ADR 0032: nor does it drop the index, before that is ready."""
    path = tmp_path / "table"
    options = with_inflight(path, kind) | OFF
    judge.write(path, rows_of(range(9, 15), 7), options)
    assert all((path / ".hoodie" / "metadata" / each).is_dir() for each in EVERY)
    name_partitions(path, ",".join(("files", *EVERY)), None)
    validated = table.open_table(str(path), environment.system()).validate_metadata()
    assert validated.statistics, "its files have none there"
    judge.write(path, rows_of(range(5), 8), options)
    assert named_ready(path) == ["files"]


@pytest.mark.parametrize("kind", ["mor", "cow"])
@pytest.mark.parametrize("option", ["off", "on", "on, streaming"])
def test_writer_of_apache_hudi_completes_by_the_index_that_became_ready_meanwhile(
    kind: str, option: str, judge: Judge, tmp_path: Path
) -> None:
    """J7, J8 of ADR 0032: it began while that was inflight, and drops it, or has logged there."""
    path = tmp_path / "table"
    options = with_inflight(path, kind)
    options |= OFF if option == "off" else ASYNC
    if option == "on, streaming":
        options["hoodie.metadata.streaming.write.enabled"] = "true"
    with in_flight(judge, path, options, Gate(path=tmp_path / "gate")):
        name_partitions(path, ",".join(("files", *EVERY)), None)
    if option == "off":
        assert named_ready(path) == ["files"]
        assert not any((path / ".hoodie" / "metadata" / each).is_dir() for each in EVERY)
    else:
        check_shared(judge, path, {"files", *EVERY})


@pytest.mark.parametrize("kind", ["mor", "cow"])
@pytest.mark.parametrize("option", ["off", "on", "on, streaming"])
def test_writer_of_apache_hudi_completes_by_the_record_index_that_became_ready_meanwhile(
    kind: str, option: str, judge: Judge, tmp_path: Path
) -> None:
    """J8 of ADR 0032."""
    made, kept_up, _ = RECORD_SHARED[kind]
    path = tmp_path / "table"
    shared(path, made)
    build(path, [RECORD_INDEX], lambda what: None)
    name_partitions(path, "files", RECORD_INDEX)
    options = made.occ_options(filesystem_lock())
    if option != "off":
        options |= {**kept_up, **ASYNC}
    if option == "on, streaming":
        options["hoodie.metadata.streaming.write.enabled"] = "true"
    with in_flight(judge, path, options, Gate(path=tmp_path / "gate")):
        name_partitions(path, f"files,{RECORD_INDEX}", None)
    if option == "off":
        assert named_ready(path) == ["files"]
        assert not (path / ".hoodie" / "metadata" / RECORD_INDEX).is_dir()
    else:
        check_keys(judge, path, 15)


def test_partition_of_a_write_that_knows_no_index_has_later_ones_fail_while_it_is_inflight(
    judge: Judge, tmp_path: Path
) -> None:
    """J17 of ADR 0053: its option is off, and it makes no file groups of the partition."""
    made, kept_up, _ = RECORD_SHARED["cow, of partitions"]
    path = tmp_path / "table"
    shared(path, made)
    build(path, [RECORD_INDEX], lambda what: None, is_partitioned=True)
    name_partitions(path, "files", RECORD_INDEX)
    options = made.occ_options(filesystem_lock())
    judge.write(path, rows_in("new", range(100, 103)), options)
    with pytest.raises(JudgeError, match="recordLocationList"):
        judge.write(path, rows_in("new", range(102, 105)), options | kept_up | ASYNC)


def rows_in(part: str, numbers: range) -> pa.Table:
    """Return rows of a partition."""
    return pa.Table.from_pylist([row(each, ts=9, part=part) for each in numbers], SCHEMA)


OF_NAMES = "secondary_index_of_name"
DEFINITIONS = Path(".hoodie") / ".index_defs" / "index.json"


def inflight_of_names(path: Path) -> PeerTable:
    """Make a table whose secondary index is inflight, and defined."""
    made, _, _ = RECORD_SHARED["cow"]
    shared(path, made)
    build(path, [RECORD_INDEX, OF_NAMES], lambda what: None, secondary={OF_NAMES: "name"})
    name_partitions(path, f"files,{RECORD_INDEX}", OF_NAMES)
    return made


def test_apache_hudi_reads_by_a_secondary_index_that_is_defined_and_inflight(
    judge: Judge, tmp_path: Path
) -> None:
    """J18 of ADR 0053: so it cannot be defined before it is ready."""
    path = tmp_path / "table"
    inflight_of_names(path)
    for each in (path / ".hoodie" / "metadata" / OF_NAMES).glob("*.hfile"):
        each.unlink()  # As one begins.
    where = "name = 'name 3 of 1'"
    assert judge.read(path, Query(where=where)).num_rows == 1
    assert not judge.read(path, by_metadata(where)).num_rows


def test_streaming_write_of_apache_hudi_is_not_in_a_secondary_index_that_is_defined_meanwhile(
    judge: Judge, tmp_path: Path
) -> None:
    """J19 of ADR 0053: though it was inflight when the write began."""
    path = tmp_path / "table"
    made = inflight_of_names(path)
    definitions = (path / DEFINITIONS).read_bytes()
    index_definitions.remove(environment.system().open_storage(str(path)), [OF_NAMES])
    options = made.occ_options(filesystem_lock()) | KEPT_UP | STREAMING
    with in_flight(judge, path, options, Gate(path=tmp_path / "gate")):
        (path / DEFINITIONS).write_bytes(definitions)
        name_partitions(path, f"files,{RECORD_INDEX},{OF_NAMES}", None)
    where = "name = 'name 9 of 7'"
    assert judge.read(path, Query(where=where)).num_rows == 1
    assert not judge.read(path, by_metadata(where)).num_rows


@pytest.mark.parametrize("kind", ["mor", "cow"])
def test_index_that_we_drop_beside_apache_hudi_can_be_built_again(
    kind: str, judge: Judge, tmp_path: Path
) -> None:
    """T-I19, T-I22."""
    made = TABLES[kind]
    path = tmp_path / "table"
    ours = shared(path, made)
    options = made.shared_options(filesystem_lock()) | ASYNC
    names = [COLUMN_STATS, PARTITION_STATS, BLOOM_FILTERS]
    build(path, names, lambda what: None)
    judge.write(path, rows_of(range(5), 8), options)
    peer_ours.hoodie("index", "drop", path, *names, *LOCK)
    judge.write(path, rows_of(range(7), 9), options)
    check_shared(judge, path, {"files"})
    assert build(path, names, lambda what: None).built == tuple(names)
    judge.write(path, rows_of(range(4, 9), 10), options)
    ours.write(path, rows_of(range(3, 11), 11), "upsert")
    check_shared(judge, path, {"files", *names})
    # Made by Apache Hudi itself, under names that it gives again.
    peer_ours.hoodie("index", "drop", path, *names, *LOCK)
    judge.write(path, rows_of(range(6), 12), made.shared_options(filesystem_lock()))
    check_shared(judge, path, {"files", *names})
    ours.write(path, rows_of(range(3, 11), 13), "upsert")
    check_shared(judge, path, {"files", *names})


def columns_of(path: Path) -> set[str]:
    """Return the columns of which each file has statistics that is there, without meta columns."""
    storage = environment.system(parallelism=1).open_storage(str(path))
    beside = metadata_table.MetadataTable(storage, active.load(storage))
    found = set()
    for values in beside.partition(COLUMN_STATS).with_prefixes([""]).values():
        record = metadata_avro.decode_statistics(values[-1], COLUMN_STATS, RecordType.COLUMN_STATS)
        if record is not None:
            found.add(record.column)
    return found - set(META_COLUMNS)


@pytest.mark.parametrize("kind", ["mor", "mor, version 8", "cow"])
def test_statistics_of_columns_that_we_chose_are_kept_up_by_apache_hudi(
    kind: str, judge: Judge, tmp_path: Path
) -> None:
    """By its option of the same columns; they are changed beside its writers."""
    made = TABLES[kind]
    path = tmp_path / "table"
    ours = shared(path, made)
    names = [COLUMN_STATS, PARTITION_STATS]
    of_filters = {"hoodie.metadata.index.bloom.filter.enable": "false"}
    for number, columns in enumerate((["ts"], ["id", "ts"], ["id"])):
        assert build(path, names, lambda what: None, columns).built == tuple(names)
        shown = peer_ours.hoodie("describe", path, "--spark-options", *LOCK)["options"]
        chosen = "hoodie.metadata.index.column.stats.column.list"
        options = made.shared_options(filesystem_lock()) | of_filters | {chosen: shown[chosen]}
        judge.write(path, rows_of(range(8 + number, 20), 20 + number), options)
        ours.write(path, rows_of(range(16, 24), 30 + number), "upsert")
        judge.write(path, rows_of(range(4), 40 + number), options)
        assert columns_of(path) == set(columns)
        check_shared(judge, path, {"files", *names})
    assert not judge.read(path, by_metadata("id > 'z'")).num_rows


@pytest.mark.parametrize("kind", ["mor", "cow"])
def test_apache_hudi_reads_by_statistics_of_partitions_that_we_built_while_a_column_was_widened(
    kind: str, judge: Judge, tmp_path: Path
) -> None:
    """Its readers cannot merge records of two types."""
    made = TABLES[kind]
    path = tmp_path / "table"
    ours = peer_ours.Hoodie(table=made, concurrency="occ" if made.buckets is None else None)
    peer_ours.create(path, made, SCHEMA)
    peer_ours.hoodie("configure", path, "--no-foreign-writers", *LOCK)
    ours.write(path, rows_of(range(12), 1), "upsert")
    peer_ours.hoodie("metadata", "init", path, "--files-only", *LOCK)
    wide = SCHEMA.set(SCHEMA.get_field_index("quantity"), pa.field("quantity", pa.int64()))
    rows = rows_of(range(3), 2).to_pylist()
    grown = pa.Table.from_pylist([{**each, "quantity": 2**40} for each in rows], wide)
    heard: list[str] = []

    def hear(what: str) -> None:
        heard.append(what)
        if what == "publishing":
            ours.write(path, rows_of(range(2, 6), 3), "upsert")
            ours.write(path, grown, "upsert", *ADDS_COLUMNS)

    names = [COLUMN_STATS, PARTITION_STATS]
    assert build(path, names, hear).built == tuple(names), heard
    ours.write(path, rows_of(range(4, 8), 4), "upsert")
    for where in (f"quantity >= {2**40}", "quantity < 0", "ts > 3", "id = 'key-003'"):
        found = judge.read(path, by_metadata(where))
        assert_same_rows(found, judge.read(path, Query(where=where)), KEY)
        assert_same_rows(peer_ours.read(path, "--where", where), found, KEY)
    assert judge.read(path, by_metadata(f"quantity >= {2**40}")).num_rows == 2
    validated = peer_ours.hoodie("metadata", "validate", path)
    assert validated["statistics"] == []


@pytest.mark.parametrize("kind", ["mor", "cow"])
def test_column_that_apache_hudi_adds_does_not_make_older_partitions_wrong(
    kind: str, judge: Judge, tmp_path: Path
) -> None:
    made = replace(TABLES[kind], buckets=None)
    path = tmp_path / "table"
    judge.write(path, rows_of(range(12), 1), made.write_options())
    parts = sorted(set(rows_of(range(12), 1).column("part").to_pylist()))
    assert len(parts) > 1
    grown = rows_of(range(12), 2).append_column("added", pa.array(range(12), pa.int64()))
    own = pc.equal(grown.column("part"), parts[0])
    judge.write(path, grown.filter(own), made.write_options())
    peer_ours.hoodie("adopt", path, "--index", "simple", *LOCK)
    for command in ("--foreign-writers", "--no-foreign-writers"):
        peer_ours.hoodie("configure", path, command, *LOCK)
        validated = peer_ours.hoodie("metadata", "validate", path)
        found = [(each["path"], each["column"]) for each in validated["statistics"]]
        # Of the partition that has the column it leaves the nulls of older files out.
        assert {(part, "added") for part in parts[1:]} <= set(found)
        assert {column for _, column in found} == {"added"}
        assert not any(each["is_relied_on"] for each in validated["statistics"])
        for where in ("added IS NULL", "added = 3", "added > 5", "id = 'key-004'"):
            expected = judge.read(path, Query(where=where))
            assert_same_rows(peer_ours.read(path, "--where", where), expected, KEY)


@pytest.mark.parametrize("kind", ["mor", "cow, without partitions"])
def test_plan_of_apache_hudi_is_left_to_it_and_its_index_is_kept_up(
    kind: str, judge: Judge, tmp_path: Path
) -> None:
    """T-I16: our indexer beside its plan; our writers write before, and after it was executed."""
    made = TABLES[kind]
    path = tmp_path / "table"
    ours = shared(path, made)
    options = made.shared_options(filesystem_lock()) | ASYNC
    planned = judge.schedule_index(path, [BLOOM_FILTERS], options)
    assert planned is not None
    with pytest.raises(errors.ConflictError, match="was planned by another engine"):
        build(path, [BLOOM_FILTERS], lambda what: None)
    ours.write(path, rows_of(range(3), 8), "upsert")
    judge.run_index(path, planned, options)
    assert build(path, [BLOOM_FILTERS], lambda what: None) == results.IndexResult()
    ours.write(path, rows_of(range(8, 16), 9), "upsert")
    check_shared(judge, path, {"files", BLOOM_FILTERS})


def planned_by_ours(path: Path, names: Sequence[str]) -> str:
    """Leave a plan whose builder has died, and return its time."""
    found: list[str] = []

    def die(what: str) -> None:
        if "reading" in what:
            opened = table.open_table(str(path), environment.system(parallelism=1))
            found.extend(each.instant.requested_time for each in opened.pending_indexes())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(path, names, die)
    (planned,) = found
    return planned


@pytest.mark.parametrize("kind", ["mor", "cow, without partitions"])
def test_apache_hudi_builds_beside_a_plan_of_ours_which_is_given_up(
    kind: str, judge: Judge, tmp_path: Path
) -> None:
    """T-I16: its indexer makes a plan of its own, and does not execute ours, which has begun."""
    made = TABLES[kind]
    path = tmp_path / "table"
    ours = shared(path, made)
    options = made.shared_options(filesystem_lock()) | ASYNC
    planned = planned_by_ours(path, [BLOOM_FILTERS])
    theirs = judge.schedule_index(path, [BLOOM_FILTERS], options)
    assert theirs is not None
    with pytest.raises(JudgeError, match="No requested index instant found"):
        judge.run_index(path, planned, options)
    judge.run_index(path, theirs, options)
    ours.write(path, rows_of(range(8, 16), 9), "upsert")
    assert build(path, [BLOOM_FILTERS], lambda what: None) == results.IndexResult()
    ours.write(path, rows_of(range(3, 6), 10), "upsert")
    indexing = [each for each in judge.timeline(path) if each.action == "indexing"]
    assert [each.requested_time for each in indexing] == [theirs]
    check_shared(judge, path, {"files", BLOOM_FILTERS})


NINE = {"hoodie.write.table.version": "9", "hoodie.write.auto.upgrade": "true"}
STATISTICS = [COLUMN_STATS, PARTITION_STATS]


def version_of(path: Path) -> str:
    return table_properties(path)["hoodie.table.version"]


@pytest.mark.sample(1)
@pytest.mark.parametrize("is_planned", [True, False], ids=["planned", "built"])
def test_upgrade_of_apache_hudi_keeps_the_metadata_table_that_we_made(
    is_planned: bool, judge: Judge, tmp_path: Path
) -> None:
    """S142, T-M06: `files` is complete; a plan of ours is executed afterwards."""
    made = TABLES["mor, version 8"]
    path = tmp_path / "table"
    ours = shared(path, made)
    build(path, [BLOOM_FILTERS], lambda what: None)
    if is_planned:
        planned_by_ours(path, STATISTICS)
    else:
        build(path, STATISTICS, lambda what: None)
    ours.write(path, rows_of(range(4), 7), "upsert")
    options = made.shared_options(filesystem_lock()) | ASYNC
    judge.write(path, rows_of(range(5), 8), options | NINE)
    assert version_of(path) == "9"
    check_shared(
        judge,
        path,
        {"files", BLOOM_FILTERS} if is_planned else {"files", BLOOM_FILTERS, *STATISTICS},
    )
    done = build(path, STATISTICS, lambda what: None)
    assert done.built == (tuple(STATISTICS) if is_planned else ())
    assert not table.open_table(str(path), environment.system(parallelism=1)).pending_indexes()
    judge.write(path, rows_of(range(7), 9), options | {"hoodie.write.table.version": "9"})
    ours = replace(ours, table=replace(made, table_version=9))
    ours.write(path, rows_of(range(3, 9), 10), "upsert")
    check_shared(judge, path, {"files", BLOOM_FILTERS, *STATISTICS})


@pytest.mark.parametrize("who", ["ours", "theirs"])
def test_upgrade_by_the_first_write_of_a_jvm_fails_whoever_made_the_metadata_table(
    who: str, judge: Judge, tmp_path: Path
) -> None:
    """It compacts that; limits.md says why, and that the next JVM goes on."""
    made = replace(TABLES["cow"], table_version=8)
    path = tmp_path / "table"
    options = made.shared_options(filesystem_lock()) | ASYNC
    if who == "ours":
        shared(path, made)
    else:
        judge.write(path, rows_of(range(12), 1), options)
    judge.write(path, rows_of(range(3), 2), options)
    before = judge.read(path)
    with (
        Judge(tmp_path / "judge", Settings(jvm_options=QUICK_JVM)) as new,
        pytest.raises(JudgeError, match="Index 7 out of bounds for length 7"),
    ):
        new.write(path, rows_of(range(5), 8), options | NINE)
    assert version_of(path) == "9"
    assert_same_rows(judge.read(path), before, KEY)
    assert_same_rows(peer_ours.read(path), before, KEY)
    judge.write(path, rows_of(range(5), 8), options | NINE)
    check_shared(judge, path, {"files"})


def test_downgrade_of_apache_hudi_drops_our_statistics_which_are_built_again(
    judge: Judge, tmp_path: Path
) -> None:
    """S143, T-M06: 1.2.0 deletes indexes of a later form alone, and leaves our plan."""
    made = TABLES["cow"]
    path = tmp_path / "table"
    ours = shared(path, made)
    build(path, [BLOOM_FILTERS, COLUMN_STATS], lambda what: None)
    planned_by_ours(path, [PARTITION_STATS])
    judge.execute(f"CREATE TABLE lowered USING hudi LOCATION '{path}'")
    judge.sql("CALL downgrade_table(table => 'lowered', to_version => 'EIGHT')")
    assert version_of(path) == "8"
    check_shared(judge, path, {"files", BLOOM_FILTERS})
    with pytest.raises(errors.InvalidInputError, match="build both"):
        build(path, [PARTITION_STATS], lambda what: None)
    assert build(path, STATISTICS, lambda what: None).built == tuple(STATISTICS)
    made = replace(made, table_version=8)
    options = made.shared_options(filesystem_lock()) | ASYNC
    judge.write(path, rows_of(range(5), 8), options)
    replace(ours, table=made).write(path, rows_of(range(3, 9), 9), "upsert")
    check_shared(judge, path, {"files", BLOOM_FILTERS, *STATISTICS})


def test_downgrade_to_version_6_and_back_leaves_our_metadata_table(
    judge: Judge, tmp_path: Path
) -> None:
    """S143: 1.2.0 does not delete it; this project reads it again from version 8 on."""
    made = TABLES["mor, version 8"]
    path = tmp_path / "table"
    shared(path, made)
    build(path, [BLOOM_FILTERS, COLUMN_STATS], lambda what: None)
    planned_by_ours(path, [PARTITION_STATS])
    judge.execute(f"CREATE TABLE sixth USING hudi LOCATION '{path}'")
    judge.sql("CALL downgrade_table(table => 'sixth', to_version => 'SIX')")
    assert version_of(path) == "6"
    with pytest.raises(peer_ours.CommandFailedError, match="version 6 is not read"):
        peer_ours.read(path)
    judge.sql("CALL upgrade_table(table => 'sixth', to_version => 'NINE')")
    check_shared(judge, path, {"files", BLOOM_FILTERS, COLUMN_STATS})
    assert build(path, [PARTITION_STATS], lambda what: None).built == (PARTITION_STATS,)
    options = replace(made, table_version=9).shared_options(filesystem_lock()) | ASYNC
    judge.write(path, rows_of(range(5), 8), options)
    check_shared(judge, path, {"files", BLOOM_FILTERS, *STATISTICS})
