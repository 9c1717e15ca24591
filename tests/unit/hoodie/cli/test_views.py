"""Values of a table as rows: what people and programs are shown of them."""

import datetime

import pyarrow as pa

from hoodie.cli import grids
from hoodie.cli.views import configuration, read_plans, rows, slices, timelines
from hoodie.model import commits, files, instants, json_values, table_config, time_zones
from hoodie.read import planning

T1, T2, T3 = (instants.InstantTime(f"2026112109580{second}000") for second in (1, 2, 3))


def texts(grid: grids.Grid) -> list[dict[str, str]]:
    return [
        {column.heading: text for column, text in zip(grid.columns, row, strict=True) if text}
        for row in grid.rows
    ]


def stat(records: int, deletes: int, size_bytes: int) -> commits.WriteStat:
    return commits.WriteStat(
        file_id="f",
        partition_path="",
        path="f",
        prev_commit="null",
        records=records,
        inserts=0,
        updates=0,
        deletes=deletes,
        size_bytes=size_bytes,
    )


NOW_MS = instants.parse_time(T2) + 16 * 60_000
COMPLETED = instants.Instant(
    requested_time=T1,
    action=instants.Action.DELTA_COMMIT,
    state=instants.State.COMPLETED,
    completion_time=T2,
)
INFLIGHT = instants.Instant(
    requested_time=T3, action=instants.Action.COMPACTION, state=instants.State.INFLIGHT
)
METADATA = commits.CommitMetadata(
    operation="UPSERT",
    stats=(stat(1000, 1, 2048), stat(500, 0, 1024)),
    extra={commits.WRITER_ID_KEY: "eta"},
)


def test_completed_instant_tells_what_it_wrote() -> None:
    shown = timelines.document("file:///t", (COMPLETED,), {COMPLETED: METADATA})
    assert shown.instants == (
        timelines.InstantRow(
            requested_time=T1,
            action="deltacommit",
            state="completed",
            completion_time=T2,
            duration_ms=1000,
            writer_id="eta",
            operation="upsert",
            records=1500,
            deletes=1,
            files=2,
            bytes=3072,
        ),
    )
    assert texts(timelines.grid(shown, time_zones.UTC_ZONE, NOW_MS)) == [
        {
            "requested": T1,
            "action": "deltacommit",
            "state": "completed",
            "completed": "16 min ago",
            "operation": "upsert",
            "rows": "1,500",
            "took": "1.00 s",
            "writer": "eta",
            "deletes": "1",
            "size": "3.0 KiB",
            "files": "2",
            "completion time": T2,
        }
    ]


def test_pending_instant_has_written_nothing_yet() -> None:
    profile = commits.CommitMetadata(operation="COMPACT", stats=(stat(9, 9, 9),))
    shown = timelines.document("file:///t", (INFLIGHT,), {INFLIGHT: profile})
    assert texts(timelines.grid(shown, time_zones.UTC_ZONE, NOW_MS)) == [
        {
            "requested": T3,
            "action": "compaction",
            "state": "inflight",
            "operation": "compact",
        }
    ]
    assert shown.instants[0].records is None


def test_timeline_fits_eighty_columns_with_what_matters() -> None:
    shown = timelines.document("file:///t", (COMPLETED, INFLIGHT), {COMPLETED: METADATA})
    fit = grids.fit(timelines.grid(shown, time_zones.UTC_ZONE, NOW_MS), 80)
    assert fit.hidden == ("writer", "deletes", "size", "files", "completion time")
    assert grids.total_width(fit.widths.values()) <= 80
    assert grids.fit(timelines.grid(shown, time_zones.UTC_ZONE, NOW_MS), 150).hidden == ()


def log_file(group: files.FileGroupId, version: int, size_bytes: int) -> files.LogFile:
    return files.LogFile(
        group=group,
        name=f".f_{version}.log",
        instant_time=T2,
        version=version,
        write_token="1-0-1",
        size_bytes=size_bytes,
    )


GROUP = files.FileGroupId("city=Rome", "00000003-0000-0000-0000-000000000000-0")
ROOT_GROUP = files.FileGroupId("", "00000000-0000-0000-0000-000000000000-0")
SLICES = (
    files.FileSlice(
        group=ROOT_GROUP,
        base_instant_time=T1,
        base_file=None,
        log_files=(log_file(ROOT_GROUP, 1, 100),),
    ),
    files.FileSlice(
        group=GROUP,
        base_instant_time=T1,
        base_file=files.BaseFile(
            group=GROUP, name="f.parquet", instant_time=T1, write_token="1-0-1", size_bytes=4096
        ),
        log_files=(log_file(GROUP, 1, 1024), log_file(GROUP, 2, 512)),
    ),
)


def test_slices_tell_base_logs_and_pending_compaction() -> None:
    shown = slices.document("file:///t", SLICES, {GROUP: T3})
    assert texts(slices.grid(shown)) == [
        {
            "partition": ".",
            "file group": ROOT_GROUP.file_id,
            "base instant": T1,
            "logs": "1",
            "log size": "100 B",
        },
        {
            "partition": "city=Rome",
            "file group": GROUP.file_id,
            "base instant": T1,
            "base size": "4.0 KiB",
            "logs": "2",
            "log size": "1.5 KiB",
            "pending compaction": T3,
        },
    ]
    assert shown.slices[1].logs == (".f_1.log", ".f_2.log")
    assert slices.summary(shown) == "2 file groups, 5.6 KiB, of which 1.6 KiB in 3 log files"


def test_slices_fit_eighty_columns_with_short_file_groups() -> None:
    grid = slices.grid(slices.document("file:///t", SLICES, {GROUP: T3}))
    fit = grids.fit(grid, 80)
    assert fit.hidden == ("pending compaction",)
    assert fit.widths[1] >= 12


CONFIG = table_config.TableConfig(
    name="trips",
    record_key_fields=("id",),
    partition_fields=("city",),
    ordering_fields=("at",),
    merge_mode=table_config.MergeMode.EVENT_TIME,
    has_partial_updates=True,
    bucket_count=4,
    hash_fields=("id",),
    properties={"hoodie.table.name": "trips"},
)


def test_description_tells_configuration_and_columns() -> None:
    schema = pa.schema(
        [
            pa.field("id", pa.string(), nullable=False),
            pa.field("city", pa.string()),
            pa.field("at", pa.timestamp("us", "UTC")),
        ]
    )
    shown = configuration.document("file:///t", CONFIG, schema)
    facts = {row["property"]: row["value"] for row in texts(configuration.facts(shown))}
    assert facts == {
        "table": "file:///t",
        "name": "trips",
        "type": "MERGE_ON_READ",
        "version": "9",
        "record key": "id",
        "partitioned by": "city",
        "ordering": "at",
        "merge mode": "EVENT_TIME_ORDERING",
        "partial updates": "null keeps the older value",
        "buckets": "4",
        "times": "UTC",
        "written by": "any engine, kept apart by the lock",
    }
    assert texts(configuration.columns(shown)) == [
        {"column": "id", "type": "string", "nullable": "no", "role": "record key, bucket"},
        {"column": "city", "type": "string", "nullable": "yes", "role": "partition"},
        {"column": "at", "type": "timestamp[us, tz=UTC]", "nullable": "yes", "role": "ordering"},
    ]


def test_rows_tell_null_from_texts_and_cut_long_ones() -> None:
    data = pa.table(
        {
            "id": ["a", None],
            "count": [1, None],
            "day": [datetime.date(2013, 1, 31), None],
            "raw": [b"\xff", b"ok"],
            "list": [[1, 2], None],
            "long": ["x" * 300, ""],
        }
    )
    first, second = rows.grid(data).rows
    assert first[:5] == ("a", "1", "2013-01-31", "b'\\xff'", "[1, 2]")
    assert (len(first[5]), first[5][-1]) == (200, "…")
    assert second == ("null", "null", "null", "b'ok'", "null", "")


def test_documents_are_json() -> None:
    for shown in (
        timelines.document("file:///t", (COMPLETED, INFLIGHT), {COMPLETED: METADATA}),
        slices.document("file:///t", SLICES, {GROUP: T3}),
        configuration.document("file:///t", CONFIG, pa.schema({"id": pa.string()})),
    ):
        assert json_values.decode(type(shown), json_values.encode(shown), "it") == shown


def test_plan_tells_what_was_skipped_and_why_statistics_were_not_used() -> None:
    means = planning.Means
    shown = read_plans.Document(
        table="t",
        has_metadata_table=True,
        steps=(
            planning.Step(means=means.PARTITION_VALUES, considered=1000, left=1000),
            planning.Step(
                means=means.PARTITION_STATISTICS, considered=1000, left=1000, unused="of that"
            ),
            planning.Step(means=means.COLUMN_STATISTICS, considered=9000, left=20),
        ),
        files=30,
        bytes=2048,
        requests={"list": 1, "names": 2, "open_input": 4, "read": 1},
    )
    assert [row[1:] for row in read_plans.grid(shown).rows] == [
        ("1,000", "0", "1,000"),
        ("1,000", "0", "1,000"),
        ("9,000", "8,980", "20"),
    ]
    assert read_plans.lines(shown) == [
        "partition statistics not used: of that",
        "reads 30 files, 2.0 KiB",
        "files from the metadata table",
        "8 requests to plan: 3 listings, 5 reads",
    ]
