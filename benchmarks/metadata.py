"""Measures the metadata table, beside Apache Hudi with its own; writes METADATA.md.

    .venv/bin/python benchmarks/metadata.py [--repeat N] [--only NAME]... [--results FILE]

Small commits of one writer, with and without a metadata table, and with each of its partitions;
making one for a table of 100,000 files in 1,000 partitions; plans of reads of that table by it and
by listing, on a local disk and on an S3 emulator that takes 20 ms for each request; a filter on a
sorted table by column statistics; look-ups of single keys among ten million by a record index.
Apache Hudi runs in a warm session.
"""

import argparse
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]  # `support` and our neighbours

import large_tables  # noqa: E402 (the path comes first)
import machine  # noqa: E402
import memory  # noqa: E402
import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.compute as pc  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
import retention_ours  # noqa: E402
import slow_s3  # noqa: E402
import small_commits  # noqa: E402
from rich.console import Console  # noqa: E402
from small_commits import KINDS  # noqa: E402

from hoodie import environment, table  # noqa: E402
from hoodie.model import commits, file_statistics, schemas, table_config  # noqa: E402
from hoodie.read import where as filters  # noqa: E402
from hoodie.write import sessions  # noqa: E402
from support.peer.judge import Judge, Query, Settings  # noqa: E402
from support.peer.peer_options import PeerTable, filesystem_lock  # noqa: E402

RESULTS = ROOT / "benchmarks" / "METADATA.md"
WORK = ROOT / "benchmarks" / "work" / "metadata"
COMMITS = 60
PEER_COMMITS = 23
FILES_ONLY = {
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.index.partition.stats.enable": "false",
}
PARTITION_COMMITS, PARTITION_PEER_COMMITS = 30, 12
PARTITIONS, GROUP_FILES = 1_000, 100
LATENCY_MS = 20
S3_PARTITIONS = 50
KEYS, KEYED_PARTITIONS, LOOK_UPS = 10_000_000, 10, 20
SORTED_ROWS, SORTED_PARTITIONS = 10_000_000, 100
RECORD_INDEX = {
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
}
SKIPPING = {"hoodie.enable.data.skipping": "true"}
KEYED = PeerTable(
    name="keyed",
    partition_by=("part",),
    merge_on_read=False,
    buckets=4,
    metadata_table=True,
    extra=RECORD_INDEX | FILES_ONLY,
)
WRITTEN = PeerTable(
    name="commits",
    ordering="ts",
    buckets=small_commits.BUCKETS,
    parallelism=1,
    merge_on_read=False,
    bloom_filter=True,
)
FILTERS = {"hoodie.metadata.index.bloom.filter.enable": "true"}
PARTITIONS_OF = {
    "none": WRITTEN,
    "`files`": replace(WRITTEN, metadata_table=True, extra=FILES_ONLY),
    "and statistics": replace(WRITTEN, metadata_table=True),
    "and bloom filters": replace(WRITTEN, metadata_table=True, extra=FILTERS),
    "and a record index": replace(WRITTEN, metadata_table=True, extra=FILTERS | RECORD_INDEX),
}
NONE = "part = 'none'"
CONSOLE = Console(stderr=True)

_HEAD = """# The metadata table

Written by `benchmarks/metadata.py` on {date}.
{circumstances}.
Apache Hudi {hudi} on Spark {spark}, Java {java}, in a warm session with a heap of 4 GiB.
The metadata tables have the partition `files`; those with statistics also `column_stats` and
`partition_stats`, as Apache Hudi makes them by default.
"""


def median_ms(spent_s: Sequence[float]) -> float:
    """Return the median of seconds, in milliseconds."""
    return statistics.median(spent_s) * 1000


def fresh(name: str) -> Path:
    """Return a place for a table."""
    path = WORK / name
    shutil.rmtree(path, ignore_errors=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def small(judge: Judge, repeat: int) -> Iterator[str]:
    """Measure commits of ten rows, of one writer."""
    yield f"""
## Small commits

Batches of {small_commits.BATCH_ROWS} rows of one non-blocking writer, medians in ms of {COMMITS}
commits ({PEER_COMMITS} of Apache Hudi's), of the fastest of {repeat} runs. The lock's hold is that
of the completion. Every tenth commit is followed by a compaction of the metadata table: the mean
has it.

| who | metadata table | commit | mean | lock held | commits a second |
|---|---|---:|---:|---:|---:|
"""
    for kind in ("foreign", "chain-ours"):
        for title in ("no", "yes", "with statistics"):
            runs = [ours_small(kind, title) for _ in range(repeat)]
            made = min(runs, key=lambda run: statistics.median(each.latency_ms for each in run))
            spent = [each.latency_ms for each in made]
            hold = statistics.median(each.hold_ms or 0 for each in made)
            yield (
                f"| ours, {KINDS[kind].title} | {title} | "
                f"{statistics.median(spent):.1f} | {statistics.mean(spent):.1f} | {hold:.0f} | "
                f"{1000 / statistics.mean(spent):.0f} |\n"
            )
    for title, options in (
        ("no", {"hoodie.metadata.enable": "false"}),
        ("yes", {"hoodie.metadata.enable": "true", **FILES_ONLY}),
        ("with statistics", {"hoodie.metadata.enable": "true"}),
    ):
        spent = [each * 1000 for each in theirs_small(judge, options)]
        yield (
            f"| Apache Hudi | {title} | {statistics.median(spent):.0f} | "
            f"{statistics.mean(spent):.0f} | | {1000 / statistics.mean(spent):.1f} |\n"
        )


def ours_small(kind: str, metadata: str) -> list[small_commits.Commit]:
    """Return the commits of a run, the first ones left out.

    Args:
        kind: Of the table.
        metadata: Whether it has a metadata table, or one with statistics, as the page says it.
    """
    CONSOLE.print(f"ours, {KINDS[kind].title}, metadata table: {metadata}")
    path = fresh("small")
    opened = small_commits.create(path, KINDS[kind])
    if metadata != "no":
        made_by = small_commits.transaction("non-blocking", KINDS[kind])
        opened = opened.initialise_metadata(made_by, has_statistics=metadata != "yes")
    transaction = small_commits.transaction("non-blocking", KINDS[kind], "writer")
    batches = small_commits.batches_of(0, COMMITS + 5)
    return [small_commits.commit(opened, each, transaction) for each in batches][5:]


def theirs_small(judge: Judge, options: dict[str, str]) -> list[float]:
    """Return the seconds of Apache Hudi's commits, the first ones left out."""
    CONSOLE.print(f"Apache Hudi, {options}")
    path, inputs = fresh("small"), fresh("inputs")
    inputs.mkdir()
    peer = PeerTable(name="commits", ordering="ts", buckets=small_commits.BUCKETS, parallelism=1)
    lock = filesystem_lock(skew_ms=small_commits.CLOCK_WAIT_MS)
    written = peer.nbcc_options(lock) | options
    files = []
    for number, batch in enumerate(small_commits.batches_of(0, PEER_COMMITS + 3)):
        files.append(inputs / f"{number}.parquet")
        pq.write_table(batch, files[-1])
    for file in files[:3]:
        judge.write(path, file, written)
    return judge.write_at_once(path, [files[3:]], written)[0]


def each_partition(judge: Judge, repeat: int) -> Iterator[str]:
    """Measure what each partition costs commits of ten rows, to tables that Apache Hudi made."""
    yield f"""
## What each partition costs a commit

Upserts of {small_commits.BATCH_ROWS} rows into a copy-on-write table that Apache Hudi made, of one
optimistic writer with the lock of the file system, whose hold has {small_commits.CLOCK_WAIT_MS} ms
of waiting for other clocks twice; medians in ms of {PARTITION_COMMITS} commits, of the faster of
{repeat} runs of ours. Then Apache Hudi commits to the same table, {PARTITION_PEER_COMMITS} times.

| metadata table | ours | mean | lock held | Apache Hudi | mean | ratio |
|---|---:|---:|---:|---:|---:|---:|
"""
    for title, peer in PARTITIONS_OF.items():
        runs = []
        for _ in range(repeat):
            options = peer.occ_options(filesystem_lock(skew_ms=small_commits.CLOCK_WAIT_MS))
            path, batches = fresh("each"), iter(written_batches())
            for _ in range(3):
                judge.write(path, next(batches), options)
            (path / ".hoodie" / ".hoodie.properties.crc").unlink()
            with (path / ".hoodie" / "hoodie.properties").open("a") as properties:
                # Apache Hudi does not store it, and our writers need it.
                properties.write(f"hoodie.bucket.index.num.buckets={small_commits.BUCKETS}\n")
            runs.append(ours_each(path, batches))
        ours = min(runs, key=median_of)
        theirs = [judge.write(path, next(batches), options) * 1000 for _ in range(2)]
        theirs = [
            judge.write(path, next(batches), options) * 1000 for _ in range(PARTITION_PEER_COMMITS)
        ]
        spent, their_median = median_of(ours), statistics.median(theirs)
        yield (
            f"| {title} | {spent:.1f} | {statistics.mean(each.latency_ms for each in ours):.1f} | "
            f"{statistics.median(each.hold_ms or 0 for each in ours):.0f} | {their_median:.0f} | "
            f"{statistics.mean(theirs):.0f} | {their_median / spent:.0f} |\n"
        )


def written_batches() -> Iterator[Path]:
    """Yield files of batches, each of the same keys."""
    inputs = fresh("inputs")
    inputs.mkdir()
    count = PARTITION_COMMITS + PARTITION_PEER_COMMITS + 20
    for number, batch in enumerate(small_commits.batches_of(0, count)):
        path = inputs / f"{number}.parquet"
        pq.write_table(batch, path)
        yield path


def ours_each(path: Path, batches: Iterator[Path]) -> list[small_commits.Commit]:
    """Return our commits to a table that Apache Hudi made, the first ones left out."""
    made_by = small_commits.transaction("optimistic", KINDS["foreign"], "writer")
    opened = table.open_table(str(path), environment.system(parallelism=1))
    some = islice(batches, PARTITION_COMMITS + 5)
    return [small_commits.commit(opened, pq.read_table(each), made_by) for each in some][5:]


def median_of(made: Sequence[small_commits.Commit]) -> float:
    """Return the median latency of commits, in milliseconds."""
    return statistics.median(each.latency_ms for each in made)


def large(judge: Judge, repeat: int) -> Iterator[str]:
    """Measure tables of many files."""
    count = PARTITIONS * GROUP_FILES
    path = fresh("large")
    CONSOLE.print("making a large table")
    steps = GROUP_FILES // large_tables.GROUPS
    shape = large_tables.Shape(partitions=PARTITIONS, steps=large_tables.deltas(steps, PARTITIONS))
    large_tables.create(str(path), shape)
    listed = planned(repeat, path, has_metadata=False)
    none_listed = planned(repeat, path, has_metadata=False, where=NONE)
    opened = table.open_table(str(path), environment.system())
    # Its files are none that could be looked into.
    made = measured(
        lambda: opened.initialise_metadata(retention_ours.transaction(), has_statistics=False)
    )
    by_metadata = planned(repeat, path, has_metadata=True)
    none_by_metadata = planned(repeat, path, has_metadata=True, where=NONE)
    CONSOLE.print("Apache Hudi plans")
    theirs, theirs_none = (
        {by: ask(judge, path, repeat, use_metadata_table=by) for by in (False, True)}
        for ask in (their_plan, their_count)
    )
    yield f"""
## {count:,} files in {PARTITIONS:,} partitions

Seconds, the fastest of {repeat} runs, and the peak of this process in MiB. Ours open the table each
time, as Apache Hudi does, whose plan of a read of all is what `Dataset.inputFiles` takes. Of a
partition that does not exist it is a query that counts its rows.

| what | ours | Apache Hudi | ratio | our peak |
|---|---:|---:|---:|---:|
| making a metadata table | {made.seconds:.1f} | | | {made.peak_mib} |
{_compared("plan of a read of all, by listing", listed, theirs[False])}
{_compared("plan of a read of all, by the metadata table", by_metadata, theirs[True])}
{_compared("of a partition that does not exist, by listing", none_listed, theirs_none[False])}
{_compared("of such a partition, by the metadata table", none_by_metadata, theirs_none[True])}
"""
    yield from on_s3()


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What something took of this process."""

    seconds: float
    peak_mib: int


def _compared(title: str, ours: Measured, theirs_s: float) -> str:
    ratio = theirs_s / ours.seconds
    return f"| {title} | {ours.seconds:.2f} | {theirs_s:.2f} | {ratio:.1f} | {ours.peak_mib} |"


def their_plan(judge: Judge, path: Path, repeat: int, *, use_metadata_table: bool) -> float:
    """Return the seconds of Apache Hudi's fastest plan of a read of all files."""
    spent = []
    for _ in range(repeat + 1):
        found = judge.plan(path, Query(use_metadata_table=use_metadata_table))
        assert found == PARTITIONS * GROUP_FILES, found
        spent.append(judge.seconds_last)
    return min(spent)


def their_count(judge: Judge, path: Path, repeat: int, *, use_metadata_table: bool) -> float:
    """Return the seconds of Apache Hudi's fastest query that finds nothing."""
    query = Query(
        use_metadata_table=use_metadata_table,
        where=NONE,
        select="SELECT count(*) AS n FROM scanned",
    )
    spent = []
    for _ in range(repeat + 1):
        judge.read(path, query)
        spent.append(judge.seconds_last)
    return min(spent)


def planned(repeat: int, path: Path, *, has_metadata: bool, where: str | None = None) -> Measured:
    """Return what our fastest plan of a read took."""
    runs = [
        measured(lambda: plan(str(path), has_metadata=has_metadata, where=where))
        for _ in range(repeat)
    ]
    return min(runs, key=lambda run: run.seconds)


def plan(uri: str, *, has_metadata: bool, where: str | None = None) -> None:
    """Plan a read of a table."""
    wanted = None if where is None else filters.parse(where)
    found = table.open_table(uri, environment.system()).explain_read(where=wanted)
    assert found.has_metadata_table is has_metadata, uri


def measured(work: Callable[[], object]) -> Measured:
    """Return what a run took."""
    memory.forget_peaks([memory.OWN])
    begin_s = time.perf_counter()
    work()
    seconds = time.perf_counter() - begin_s
    return Measured(seconds=seconds, peak_mib=memory.peak_bytes([memory.OWN]) >> 20)


def on_s3() -> Iterator[str]:
    """Count the requests of a plan in an object store."""
    with slow_s3.running(WORK, LATENCY_MS) as emulator:
        uri = f"{emulator.new_bucket()}/large"
        CONSOLE.print("making a table on S3")
        shape = large_tables.Shape(
            partitions=S3_PARTITIONS, steps=large_tables.deltas(1, S3_PARTITIONS)
        )
        large_tables.create(uri, shape)
        found = {}
        for has_metadata in (False, True):
            if has_metadata:
                transaction = retention_ours.transaction("in-process")
                opened = table.open_table(uri, environment.system())
                opened.initialise_metadata(transaction, has_statistics=False)
            emulator.asked()
            begin_s = time.perf_counter()
            plan(uri, has_metadata=has_metadata)
            found[has_metadata] = time.perf_counter() - begin_s, len(emulator.asked())
    (listed_s, listings), (metadata_s, requests) = found[False], found[True]
    files = S3_PARTITIONS * large_tables.GROUPS
    yield f"""
On an S3 emulator (moto, {LATENCY_MS} ms of sleep for each request), {files:,} files in
{S3_PARTITIONS} partitions: opening the table and planning a read of all of it takes {requests}
requests and {metadata_s:.2f} s by the metadata table, {listings} and {listed_s:.2f} s by listing,
which asks once for each 1,000 files; with the metadata table the number does not depend on them.
"""


def skipping(judge: Judge, repeat: int) -> Iterator[str]:
    """Measure a filter on a column by which a table is sorted."""
    path = fresh("sorted")
    CONSOLE.print(f"writing {SORTED_ROWS:,} sorted rows")
    opened = write_parts(path, sorted_rows, SORTED_PARTITIONS)
    made = measured(lambda: opened.initialise_metadata(retention_ours.transaction()))
    first = SORTED_ROWS // 2 + 17
    where = f"value >= {first} AND value < {first + 1000}"

    def ours(uri: Path) -> None:
        read = table.open_table(str(uri), environment.system()).read(where=filters.parse(where))
        assert read.read_all().num_rows == 1000

    mine = min((measured(lambda: ours(path)) for _ in range(repeat)), key=lambda run: run.seconds)
    theirs = {}
    for skips in ("true", "false"):
        query = Query(
            use_metadata_table=True,
            where=where,
            options={
                "hoodie.enable.data.skipping": skips,
                "hoodie.metadata.index.column.stats.enable": "true",
            },
        )
        spent = []
        for _ in range(repeat + 1):
            assert judge.read(path, query).num_rows == 1000
            spent.append(judge.seconds_last)
        theirs[skips] = min(spent)
    yield f"""
## A filter on a sorted table

{SORTED_ROWS:,} rows in {SORTED_PARTITIONS} partitions with {KEYED.buckets} buckets each,
copy-on-write, whose partitions hold ranges of a column that is no partition column; 1,000 rows of
one. The fastest of {repeat} runs in seconds, the table opened each time; our peak in MiB. The
metadata table with statistics was made in {made.seconds:.1f} s ({made.peak_mib} MiB). Without data
skipping Apache Hudi takes {theirs["false"]:.2f} s.

| what | ours | Apache Hudi | ratio | our peak |
|---|---:|---:|---:|---:|
{_compared("with data skipping", mine, theirs["true"])}
"""


def look_ups(judge: Judge, repeat: int) -> Iterator[str]:
    """Measure reads of one key by a record index, which Apache Hudi builds of rows of ours."""
    path, one = fresh("keyed"), fresh("one.parquet")
    CONSOLE.print(f"writing {KEYS:,} rows")
    write_parts(path, keyed_rows, KEYED_PARTITIONS)
    CONSOLE.print("Apache Hudi builds the record index")
    pq.write_table(keyed_rows(0).slice(0, 1), one)
    judge.write(path, one, KEYED.write_options())
    keys = [f"key-{number:09d}" for number in range(17, KEYS, KEYS // LOOK_UPS)]
    for key in keys[:2]:
        our_look_up(path, key)
        their_look_up(judge, path, key)
    ours = [our_look_up(path, key) for _ in range(repeat) for key in keys]
    theirs = [their_look_up(judge, path, key) for key in keys]
    index = sum(each.stat().st_size for each in path.glob(".hoodie/metadata/record_index/*"))
    yield f"""
## Look-ups of a key among {KEYS:,}

A copy-on-write table of {KEYED_PARTITIONS} partitions with {KEYED.buckets} buckets each, written by
ours, whose record index of {index >> 20} MiB Apache Hudi built. Ours open the table for each
look-up of {LOOK_UPS} ({repeat} times); milliseconds.

| | median | slowest |
|---|---:|---:|
| ours | {median_ms(ours):.0f} | {max(ours) * 1000:.0f} |
| Apache Hudi | {median_ms(theirs):.0f} | {max(theirs) * 1000:.0f} |
"""


def write_parts(
    path: Path, rows_of: Callable[[int], pa.Table], count: int, *, has_filters: bool = False
) -> table.Table:
    """Write a table of many keys, a partition at a time; perhaps with bloom filters in its files.

    It has no metadata table then.
    """
    assert KEYED.buckets is not None
    config = table_config.TableConfig(
        name=KEYED.name,
        table_type=table_config.TableType.COPY_ON_WRITE,
        record_key_fields=("id",),
        partition_fields=KEYED.partition_by,
        bucket_count=KEYED.buckets,
    )
    schema = schemas.from_arrow(rows_of(0).schema, config.name)
    opened = table.create_table(str(path), config, schema, environment.system())
    options = sessions.WriteOptions(
        operation=commits.Operation.BULK_INSERT,
        transaction=small_commits.transaction("optimistic", KINDS["foreign"], "writer"),
    )
    if has_filters:
        opened = opened.initialise_metadata(options.transaction, has_statistics=False)
        opened.build_index([file_statistics.BLOOM_FILTERS], options.transaction)
        opened = table.open_table(str(path), environment.system())
    for part in range(count):
        opened.write(rows_of(part), options)
    if has_filters:
        opened.drop_metadata(options.transaction)
    return table.open_table(str(path), environment.system())


def keyed_rows(part: int) -> pa.Table:
    """Return the rows of a partition of the table that has a record index."""
    return _rows(part, KEYS // KEYED_PARTITIONS)


def sorted_rows(part: int) -> pa.Table:
    """Return the rows of a partition of the sorted table."""
    return _rows(part, SORTED_ROWS // SORTED_PARTITIONS)


def _rows(part: int, count: int) -> pa.Table:
    numbers = np.arange(part * count, (part + 1) * count)
    texts = pa.array(numbers).cast(pa.string())
    return pa.table(
        {
            "id": pc.binary_join_element_wise("key", pc.utf8_lpad(texts, 9, "0"), "-"),
            "part": pa.repeat(f"p{part}", count),
            "value": numbers,
        }
    )


def our_look_up(path: Path, key: str) -> float:
    """Return the seconds of a read of one key."""
    begin_s = time.perf_counter()
    opened = table.open_table(str(path), environment.system())
    assert opened.read(where=filters.parse(f"id = '{key}'")).read_all().num_rows == 1
    return time.perf_counter() - begin_s


def their_look_up(judge: Judge, path: Path, key: str) -> float:
    """Return the seconds of a query of Apache Hudi's for one key."""
    query = Query(use_metadata_table=True, where=f"id = '{key}'", options=SKIPPING | RECORD_INDEX)
    assert judge.read(path, query).num_rows == 1
    return judge.seconds_last


PARTS = {
    "small": small,
    "each-partition": each_partition,
    "large": large,
    "skipping": skipping,
    "look-ups": look_ups,
}


def main(arguments: Sequence[str]) -> int:
    """Measure, and write the report."""
    parser = argparse.ArgumentParser(description="Measure the metadata table.")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", action="append", choices=PARTS)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    WORK.mkdir(parents=True, exist_ok=True)
    settings = replace(Settings(name="metadata", cores=2), memory_mb=4096, jvm_options=())
    with Judge(fresh("judge"), settings) as judge:
        versions = judge.versions()
        parts = [
            _HEAD.format(
                date=datetime.now(UTC).date(),
                circumstances=machine.circumstances(),
                hudi=versions.hudi,
                spark=versions.spark,
                java=versions.java,
            )
        ]
        for name in options.only or PARTS:
            parts += PARTS[name](judge, options.repeat)
    options.results.write_text("".join(parts))
    CONSOLE.print(f"wrote {options.results}")
    shutil.rmtree(WORK)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
