"""Every command does what its help says, on real tables."""

import gzip
import importlib.util
import json
import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from hoodie.cli import spark_job
from support.tables.command_line import Answer, Run, put


def fine(answer: Answer) -> Answer:
    assert answer.code == 0, answer.err
    return answer


def ids(answer: Answer) -> list[str]:
    return sorted(row["id"] for row in fine(answer).rows)


def test_table_is_created_with_a_metadata_table(hoodie: Run, tmp_path: Path, schema: Path) -> None:
    create = ("create", tmp_path / "t", "--schema", schema, "--record-key", "id")
    refused = hoodie(*create, "--lock", "filesystem")
    assert (refused.code, "--metadata-table only" in refused.err) == (2, True)
    fine(hoodie(*create, "--metadata-table", "--lock", "filesystem"))
    shown = fine(hoodie("metadata", "status", tmp_path / "t", "--json")).document
    assert [each["name"] for each in shown["partitions"]] == ["column_stats", "files"]
    assert shown["problem"] is None


def test_metadata_table_is_made_with_statistics_or_without(
    hoodie: Run, table: Path, trips: Path
) -> None:
    fine(hoodie("write", table, "--input", trips))
    init = ("metadata", "init", table, "--lock", "filesystem")
    assert "column_stats" not in fine(hoodie(*init, "--files-only")).out
    assert "column_stats" in fine(hoodie(*init, "--rebuild")).out
    validated = fine(hoodie("metadata", "validate", table, "--json")).document
    assert (validated["differences"], validated["statistics"]) == ([], [])
    assert validated["files_read"] == validated["files"] > 0
    refused = hoodie("metadata", "status", table, "--files-only")
    assert (refused.code, "--files-only is an option of init only" in refused.err) == (2, True)


def test_created_table_is_described(hoodie: Run, tmp_path: Path, schema: Path) -> None:
    table = tmp_path / "trips"
    created = fine(
        hoodie(
            *(
                "create",
                table,
                "--schema",
                schema,
                "--record-key",
                "id",
                "--ordering",
                "updated_at",
            ),
            *("--partition-by", "city", "--buckets", "3", "--hive-style"),
        )
    )
    assert created.out == f"created table trips in file://{table}\n"
    shown = fine(hoodie("describe", table, "--json")).document
    assert shown["name"] == "trips"
    assert shown["table"] == f"file://{table}"
    assert (shown["record_key"], shown["partition_by"]) == (["id"], ["city"])
    assert (shown["merge_mode"], shown["ordering"]) == ("EVENT_TIME_ORDERING", ["updated_at"])
    assert (shown["buckets"], shown["version"]) == (3, 9)
    assert shown["columns"][0] == {
        "name": "id",
        "type": "string",
        "is_nullable": False,
        "role": "record key, bucket",
    }
    text = fine(hoodie("describe", table)).out
    assert re.search(r"partitioned by +city", text)
    assert re.search(r"updated_at +int64 +yes +ordering", text)


def test_partition_columns_that_are_in_paths_alone(
    hoodie: Run, tmp_path: Path, schema: Path, trips: Path
) -> None:
    table = tmp_path / "trips"
    create = ("create", table, "--schema", schema, "--record-key", "id", "--drop-partition-columns")
    refused = hoodie(*create)
    assert "--drop-partition-columns without --partition-by" in refused.err
    fine(hoodie(*create, "--partition-by", "city"))
    fine(hoodie("write", table, "--input", trips))
    text = fine(hoodie("describe", table)).out
    assert re.search(r"partition values +in the names of folders", text)
    printed = fine(hoodie("describe", table, "--spark-options")).out
    assert "hoodie.datasource.write.drop.partition.columns=true" in printed
    for source in ("file", "path"):
        arguments = ("read", table, "--columns", "id,city", "--where", "city = 'Oslo'", "--json")
        assert fine(hoodie(*arguments, "--partition-values", source)).rows == [
            {"id": "b", "city": "Oslo"}
        ]
    assert "folder" in hoodie("read", table, "--partition-values", "folder").err


def test_spark_options_are_printed_for_one_table(hoodie: Run, tmp_path: Path, schema: Path) -> None:
    table = tmp_path / "orders"
    fine(hoodie("create", table, "--schema", schema, "--record-key", "id", "--buckets", "3"))
    lock = "zookeeper://zk:2181/hudi/orders"
    shown = fine(hoodie("describe", table, "--spark-options", "--lock", lock, "--json")).document
    assert shown["options"]["hoodie.bucket.index.num.buckets"] == "3"
    assert shown["options"]["hoodie.write.lock.zookeeper.base_path"] == "/hudi"
    text = fine(hoodie("describe", table, "--spark-options", "--lock", lock)).out
    printed = dict(line.split("=", 1) for line in text.splitlines())
    assert printed == shown["options"]
    alone = fine(hoodie("describe", table, "--spark-options", "--concurrency", "occ")).out
    assert "hoodie.write.concurrency.mode=OPTIMISTIC_CONCURRENCY_CONTROL" in alone
    refused = hoodie("describe", table, "--lock", lock)
    assert "--spark-options" in refused.err


def test_copy_on_write_table_holds_base_files_alone(
    hoodie: Run, tmp_path: Path, schema: Path, trips: Path
) -> None:
    table = tmp_path / "cow"
    create = ("create", table, "--schema", schema, "--record-key", "id", "--type", "cow")
    fine(hoodie(*create))
    assert fine(hoodie("describe", table, "--json")).document["type"] == "COPY_ON_WRITE"
    for concurrency in ("single-writer", "occ"):
        fine(hoodie("write", table, "--input", trips, "--concurrency", concurrency))
    slices = fine(hoodie("slices", table, "--json")).document["slices"]
    assert slices
    assert all(each["base_file"] and not each["logs"] for each in slices)
    fine(hoodie("check", table))
    refused = hoodie("compact", table)
    assert refused.code == 24
    assert "is COPY_ON_WRITE: its writes leave no log files" in refused.err
    refused = hoodie("write", table, "--input", trips, "--concurrency", "nbcc")
    assert refused.code == 24
    assert "needs table type MERGE_ON_READ" in refused.err


def test_parquet_file_gives_the_schema(hoodie: Run, table: Path, trips: Path) -> None:
    fine(hoodie("write", table, "--input", trips))
    copy, other = table.parent / "copy.parquet", table.parent / "other"
    fine(hoodie("read", table, "--output", copy))
    fine(hoodie("create", other, "--schema", copy, "--record-key", "id", "--table-version", "8"))
    fine(hoodie("write", other, "--input", copy))
    assert ids(hoodie("read", other, "--json")) == ["a", "b", "c"]
    assert fine(hoodie("describe", other, "--json")).document["version"] == 8


def test_written_rows_are_read(hoodie: Run, table: Path, trips: Path) -> None:
    written = fine(hoodie("write", table, "--input", trips))
    assert re.fullmatch(
        r"committed \d{17}: upsert of 3 rows, \d files?, [\d.]+ KiB, in [\d.]+ s, "
        r"of which the write took [\d.]+ s\n",
        written.out,
    )
    rows = {row["id"]: row for row in fine(hoodie("read", table, "--json")).rows}
    assert rows["a"] == {
        "id": "a",
        "city": "Rome",
        "fare": 10.5,
        "seats": 1,
        "updated_at": 1,
        "day": "2013-01-01",
        "at": "2013-01-01 05:00:00.000000Z",
    }
    assert (rows["b"]["fare"], rows["c"]["seats"], rows["c"]["day"]) == (None, None, None)


def test_parquet_file_adds_columns_where_that_is_set(
    hoodie: Run, table: Path, trips: Path, tmp_path: Path
) -> None:
    fine(hoodie("write", table, "--input", trips))
    more = tmp_path / "more.parquet"
    fine(hoodie("read", table, "--output", more))
    rows = parquet.read_table(more).drop_columns(["day"])
    parquet.write_table(rows.append_column("eta", pa.array([0.5] * len(rows))), more)
    refused = hoodie("write", table, "--input", more)
    assert refused.code == 20
    assert "the table has no column 'eta'" in refused.err
    assert "hoodie.datasource.write.reconcile.schema" in refused.err
    setting = ("--set", "hoodie.datasource.write.reconcile.schema=true")
    fine(hoodie("write", table, "--input", more, *setting))
    (row,) = fine(hoodie("read", table, "--json", "--where", "id = 'a'")).rows
    assert (row["eta"], row["day"]) == (0.5, None)


def test_rows_are_chosen_and_columns_too(hoodie: Run, table: Path, trips: Path) -> None:
    fine(hoodie("write", table, "--input", trips))

    def read(where: str) -> list[str]:
        return ids(hoodie("read", table, "--json", "--columns", "fare,id", "--where", where))

    assert read("city = 'Rome'") == ["a", "c"]
    assert read("city = 'Rome' and not fare > 8") == ["c"]
    assert read("fare is null or seats in (1)") == ["a", "b"]
    assert read("day >= '2013-01-02'") == ["b"]
    assert read("at = '2013-01-01 05:00:00'") == read("at >= '2013-01-01T06:00:00+01:00'") == ["a"]
    answer = fine(hoodie("read", table, "--columns", "seats,id", "--where", "id = 'b'"))
    assert answer.out == '"seats","id"\n2,"b"\n'
    assert fine(hoodie("read", table, "--limit", "1", "--columns", "city")).out.count("\n") == 2


def test_meta_columns_are_read_when_asked_for(hoodie: Run, table: Path, trips: Path) -> None:
    fine(hoodie("write", table, "--input", trips))
    (row,) = fine(
        hoodie("read", table, "--json", "--meta", "--columns", "city", "--where", "id = 'a'")
    ).rows
    assert list(row) == [
        "_hoodie_commit_time",
        "_hoodie_commit_seqno",
        "_hoodie_record_key",
        "_hoodie_partition_path",
        "_hoodie_file_name",
        "city",
    ]
    assert (row["_hoodie_record_key"], row["city"]) == ("a", "Rome")
    (row,) = fine(
        hoodie(*("read", table, "--json", "--columns", "_hoodie_record_key"), "--where", "id = 'a'")
    ).rows
    assert row == {"_hoodie_record_key": "a"}


@pytest.mark.parametrize("name", ["out.parquet", "out.csv"])
def test_rows_go_to_files(hoodie: Run, table: Path, trips: Path, name: str) -> None:
    fine(hoodie("write", table, "--input", trips))
    path = table.parent / name
    answer = fine(hoodie("read", table, "--output", path, "--json"))
    assert answer.document == {"table": f"file://{table}", "output": str(path), "rows": 3}
    fine(
        hoodie(
            "create",
            table.parent / "copy",
            "--schema",
            table.parent / "trips.avsc",
            "--record-key",
            "id",
        )
    )
    fine(hoodie("write", table.parent / "copy", "--input", path))
    assert fine(hoodie("read", table.parent / "copy", "--where", "id='a'")).out == (
        fine(hoodie("read", table, "--where", "id = 'a'")).out
    )


def test_upserts_and_deletes_change_rows(hoodie: Run, table: Path, trips: Path) -> None:
    fine(hoodie("write", table, "--input", trips))
    newer = put(table.parent / "newer.json", '{"id": "a", "city": "Bari"}\n{"id": "d"}\n')
    gone = put(table.parent / "gone.csv", "id\nb\n")
    fine(hoodie("write", table, "--input", newer))
    deleted = fine(hoodie("write", table, "--input", gone, "--operation", "delete", "--json"))
    assert (deleted.document["deletes"], deleted.document["records"]) == (1, 0)
    assert ids(hoodie("read", table, "--json")) == ["a", "c", "d"]
    (row,) = fine(hoodie("read", table, "--json", "--where", "id = 'a'")).rows
    assert (row["city"], row["fare"]) == ("Bari", None)


def test_partial_updates_keep_what_the_input_lacks(hoodie: Run, table: Path, trips: Path) -> None:
    partial = table.parent / "partial"
    schema = table.parent / "trips.avsc"
    fine(hoodie("create", partial, "--schema", schema, "--record-key", "id", "--partial-updates"))
    fine(hoodie("write", partial, "--input", trips))
    change = put(table.parent / "change.csv", "id,city,seats\na,,4\n")
    fine(hoodie("write", partial, "--input", change))
    for _ in ("from logs", "compacted"):
        (row,) = fine(hoodie("read", partial, "--json", "--where", "id = 'a'")).rows
        assert (row["city"], row["fare"], row["seats"]) == ("Rome", 10.5, 4)
        fine(hoodie("compact", partial))


def test_json_lines_carry_the_columns_that_a_line_has(
    hoodie: Run, table: Path, trips: Path
) -> None:
    partial = table.parent / "partial"
    schema = table.parent / "trips.avsc"
    fine(hoodie("create", partial, "--schema", schema, "--record-key", "id", "--partial-updates"))
    fine(hoodie("write", partial, "--input", trips))
    lines = put(table.parent / "lines.json", '{"id": "a", "seats": 4}\n{"id": "b"}\n')
    fine(hoodie("write", partial, "--input", lines, "--concurrency", "nbcc"))
    rows = {row["id"]: row["seats"] for row in fine(hoodie("read", partial, "--json")).rows}
    assert rows == {"a": 4, "b": 2, "c": None}


def test_many_files_make_one_commit(hoodie: Run, table: Path, tmp_path: Path) -> None:
    header = "id|city|fare|seats|updated_at|day|at\n"
    first = put(tmp_path / "1.csv", header + "a|Rome|NA|||NA|\nb|Oslo|1||||\n")
    second = tmp_path / "2.csv.gz"
    second.write_bytes(gzip.compress((header + "a|Bari|2||||\n").encode()))
    answer = fine(
        hoodie("write", table, "--input", first, second, "--delimiter", "|", "--null-text", "NA")
    )
    assert "upsert of" in answer.out
    rows = {row["id"]: row["city"] for row in fine(hoodie("read", table, "--json")).rows}
    assert rows == {"a": "Bari", "b": "Oslo"}
    assert len(fine(hoodie("timeline", table, "--json")).document["instants"]) == 1


def test_batch_is_written_once(hoodie: Run, table: Path, trips: Path) -> None:
    batch = ("--writer-id", "w", "--batch-id", "2013")
    assert fine(hoodie("write", table, "--input", trips, *batch, "--json")).document["is_written"]
    again = fine(hoodie("write", table, "--input", trips, *batch))
    assert again.out == "batch 2013 is in the table already, nothing was written\n"
    (instant,) = fine(hoodie("timeline", table, "--json")).document["instants"]
    assert instant["writer_id"] == "w"


def test_chain_shows_changes_in_their_order(
    hoodie: Run, tmp_path: Path, schema: Path, trips: Path
) -> None:
    """Of a table without foreign writers; one of a later release is read only."""
    table = tmp_path / "own"
    fine(hoodie("create", table, "--schema", schema, "--record-key", "id", "--no-foreign-writers"))
    for writer in ("left", "right"):
        fine(hoodie("write", table, "--input", trips, "--writer-id", writer))
    fine(hoodie("compact", table))
    shown = fine(hoodie("timeline", table, "--chain", "--json")).document["epochs"]
    assert [each["number"] for each in shown] == [0, 1, 2, 3, 4]
    assert [each["author"] for each in shown[:3]] == ["creation", "writer left", "writer right"]
    assert [name.partition(".")[2] for each in shown for name in each["files"]] == [
        *("deltacommit", "deltacommit", "compaction.requested", "commit")
    ]
    newest = fine(hoodie("timeline", table, "--chain", "--limit", "1"))
    assert "writer left" not in newest.out
    assert "the newest of 5 epochs" in newest.err + newest.out
    properties = table / ".hoodie/hoodie.properties"
    properties.write_text(
        properties.read_text().replace("hoodie.operator.chain=1", "hoodie.operator.chain=2")
    )
    refused = hoodie("write", table, "--input", trips)
    assert "has a chain of version 2, expected 1 at most" in refused.err
    assert ids(hoodie("read", table, "--json")) == ["a", "b", "c"]


def test_table_without_a_chain_says_so(hoodie: Run, table: Path) -> None:
    fine(hoodie("configure", table, "--no-chain"))
    refused = hoodie("timeline", table, "--chain")
    assert refused.code != 0
    assert "has no chain" in refused.err


def test_timeline_tells_what_happened(hoodie: Run, table: Path, trips: Path) -> None:
    assert fine(hoodie("timeline", table)).out == "the timeline is empty\n"
    fine(hoodie("write", table, "--input", trips))
    fine(hoodie("write", table, "--input", trips, "--concurrency", "nbcc", "--writer-id", "eta"))
    planned = fine(hoodie("compact", table, "--schedule", "--json")).document["instant"]
    first, second, plan = fine(hoodie("timeline", table, "--json")).document["instants"]
    assert (first["writer_id"], second["writer_id"]) == (None, "eta")
    assert (second["action"], second["state"]) == ("deltacommit", "completed")
    assert (second["operation"], second["records"], second["deletes"]) == ("upsert", 3, 0)
    assert first["completion_time"] < second["requested_time"] < second["completion_time"]
    assert (plan["action"], plan["state"]) == ("compaction", "requested")
    assert (plan["requested_time"], plan["completion_time"]) == (planned, None)
    text = fine(hoodie("timeline", table)).out
    assert re.search(r"deltacommit +completed +(just now|\d+ s ago) +upsert +3 .* eta ", text)
    assert re.search(rf"{planned} +compaction +requested", text)
    newest = fine(hoodie("timeline", table, "--limit", "1", "--json")).document["instants"]
    assert [each["requested_time"] for each in newest] == [planned]


def test_compaction_is_planned_executed_and_done_once(
    hoodie: Run, table: Path, trips: Path
) -> None:
    assert fine(hoodie("compact", table)).out == "nothing to compact\n"
    fine(hoodie("write", table, "--input", trips))
    fine(hoodie("write", table, "--input", trips))
    before = fine(hoodie("read", table, "--json")).out
    planned = fine(hoodie("compact", table, "--schedule")).out.split()[-1]
    pending = fine(hoodie("slices", table, "--json")).document["slices"]
    assert {each["pending_compaction"] for each in pending} == {planned}
    done = fine(hoodie("compact", table, "--execute", planned))
    assert re.match(rf"compacted {planned}: [12] file groups?, 3 rows, ", done.out)
    assert hoodie("compact", table, "--execute", planned).code == 10
    compacted = fine(hoodie("slices", table, "--json")).document["slices"]
    assert all(each["base_file"] and not each["logs"] for each in compacted)
    assert sorted(fine(hoodie("read", table, "--json")).rows, key=str) == sorted(
        [json.loads(line) for line in before.splitlines()], key=str
    )
    assert fine(hoodie("compact", table)).out == "nothing to compact\n"


def test_compaction_runs_on_spark(hoodie: Run, table: Path, trips: Path) -> None:
    for _ in range(2):
        fine(hoodie("write", table, "--input", trips))
    spark = ("--engine", "spark")
    done = fine(hoodie("compact", table, *spark, "--json")).document
    assert (done["file_groups"], done["records"]) == (2, 3)
    assert done["completion_time"] > done["instant"]
    assert ids(hoodie("read", table, "--json", "--read-optimized")) == ["a", "b", "c"]


def test_spark_job_that_ends_without_a_result_is_told(
    hoodie: Run, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Some other program in its place, that knows no specs.
    monkeypatch.setattr(spark_job, "MODULE", "json.tool")
    answer = hoodie("compact", table, "--engine", "spark")
    assert answer.code == 30
    assert "error: the Spark job ended with exit code 0 and without a result" in answer.err


def test_spark_that_is_not_installed_is_named(
    hoodie: Run, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    answer = hoodie("compact", table, "--engine", "spark")
    assert answer.code == 24
    assert answer.err.startswith("error: --engine spark needs the package pyspark, expected")


def test_slices_tell_bases_and_logs(hoodie: Run, table: Path, trips: Path) -> None:
    assert fine(hoodie("slices", table)).out == "0 file groups, 0 B, of which 0 B in 0 log files\n"
    fine(hoodie("write", table, "--input", trips))
    fine(hoodie("write", table, "--input", trips))
    text = fine(hoodie("slices", table)).out
    group = "0000000[01]-0000-0000-0000-000000000000-0"
    assert re.search(rf"\. +{group} +\d{{17}} +[\d.]+ KiB +1 +[\d.]+ KiB", text)
    assert "in 2 log files" in text


def test_read_optimized_reads_what_was_compacted(hoodie: Run, table: Path, trips: Path) -> None:
    fine(hoodie("write", table, "--input", trips))
    gone = put(table.parent / "gone.csv", "id\na\n")
    fine(hoodie("write", table, "--input", gone, "--operation", "delete"))
    assert ids(hoodie("read", table, "--json", "--read-optimized")) == ["a", "b", "c"]
    assert ids(hoodie("read", table, "--json")) == ["b", "c"]
    fine(hoodie("compact", table))
    assert ids(hoodie("read", table, "--json", "--read-optimized")) == ["b", "c"]


def test_sound_table_has_no_findings(hoodie: Run, table: Path, trips: Path) -> None:
    fine(hoodie("write", table, "--input", trips))
    answer = fine(hoodie("check", table))
    assert (answer.out, answer.err) == ("", "no findings\n")
    assert fine(hoodie("check", table, "--json")).document == {
        "table": f"file://{table}",
        "findings": [],
        "notes": [],
    }


def test_commands_take_uris(hoodie: Run, table: Path, trips: Path) -> None:
    fine(hoodie("write", f"file://{table}", "--input", f"file://{trips}"))
    assert ids(hoodie("read", f"file://{table}/", "--json")) == ["a", "b", "c"]


@pytest.mark.parametrize(
    "command",
    [
        *("create", "write", "read", "describe", "timeline", "slices", "heartbeats", "check"),
        *("compact", "rollback", "savepoint", "stats", "metadata"),
    ],
)
def test_every_command_explains_itself(hoodie: Run, command: str) -> None:
    answer = fine(hoodie(command, "--help"))
    assert f"hoodie {command}" in answer.out
    assert "--json" in answer.out
    assert fine(hoodie("--help")).out.count(command) >= 1


def test_plan_of_a_read_is_explained(hoodie: Run, table: Path, trips: Path) -> None:
    fine(hoodie("write", table, "--input", trips))
    shown = fine(hoodie("read", table, "--where", "id = 'a'", "--explain", "--json")).document
    assert (shown["steps"][2]["means"], shown["files"]) == ("buckets of keys", 1)
    assert (shown["steps"][2]["considered"], shown["steps"][2]["left"]) == (2, 1)
    assert not shown["has_metadata_table"]
    assert 1 <= shown["requests"]["list"] <= 2
    text = fine(hoodie("read", table, "--where", "id = 'a'", "--explain")).out
    assert re.search(r"file slices, by buckets of keys +2 +1 +1\n", text)
    assert "files from a listing of the storage" in text


def test_table_without_a_metadata_table_says_so(hoodie: Run, table: Path) -> None:
    assert "has no metadata table" in fine(hoodie("metadata", "status", table)).out
    refused = hoodie("metadata", "validate", table)
    assert refused.code == 22
    assert "has no metadata table" in refused.err


def test_help_of_read_has_the_grammar(hoodie: Run) -> None:
    text = fine(hoodie("read", "--help")).out
    assert 'name [ "not" ] "in" "(" literal { "," literal } ")"' in text
    assert 'name "is" [ "not" ] "null"' in text


def test_help_without_arguments_and_version(hoodie: Run) -> None:
    assert "Usage: hoodie" in fine(hoodie()).out
    assert re.fullmatch(r"hoodie \d+\.\d+\.\d+\n", fine(hoodie("--version")).out)


def test_columns_may_have_other_names_in_the_input(hoodie: Run, table: Path) -> None:
    partial = table.parent / "partial"
    schema = table.parent / "trips.avsc"
    fine(hoodie("create", partial, "--schema", schema, "--record-key", "id", "--partial-updates"))
    bare = put(table.parent / "bare.csv", "x,Rome,1\n")
    fine(
        hoodie(
            *("write", partial, "--input", bare, "--no-header"),
            *("--column", "id=_c0", "--column", "city=_c1"),
        )
    )
    (row,) = fine(hoodie("read", partial, "--json")).rows
    assert (row["id"], row["city"], row["fare"]) == ("x", "Rome", None)


def test_compaction_that_was_left_planned_is_run(hoodie: Run, table: Path, trips: Path) -> None:
    fine(hoodie("write", table, "--input", trips, "--concurrency", "nbcc", "--writer-id", "w"))
    planned = fine(hoodie("compact", table, "--schedule", "--json")).document["instant"]
    assert fine(hoodie("compact", table, "--json")).document["instant"] == planned
    assert fine(hoodie("compact", table, "--json")).document["instant"] is None


def test_table_is_configured_for_its_writers(hoodie: Run, table: Path, trips: Path) -> None:
    """A chain by default; foreign writers are excluded by an option, and described."""
    for option, has_chain, has_foreign_writers in (
        ("--no-foreign-writers", True, False),
        ("--foreign-writers", True, True),
        ("--no-chain", False, True),
        ("--no-foreign-writers", True, False),
        ("--no-chain", False, True),
        ("--chain", True, True),
    ):
        shown = fine(hoodie("configure", table, option, "--json")).document
        assert (shown["has_chain"], shown["has_foreign_writers"]) == (
            has_chain,
            has_foreign_writers,
        ), option
        fine(hoodie("write", table, "--input", trips))
        assert ids(hoodie("read", table, "--json")) == ["a", "b", "c"]
        assert fine(hoodie("check", table)).code == 0
    told = fine(hoodie("configure", table, "--no-foreign-writers")).out
    assert told.endswith("table: hoodie only, kept apart by a chain\n")
    assert "hoodie only, kept apart by a chain" in fine(hoodie("describe", table)).out
    refused = hoodie("describe", table, "--spark-options")
    assert "is written by hoodie only: `hoodie configure" in refused.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "expected --[no-]chain, --[no-]foreign-writers or --change-data"),
        (["--no-chain", "--no-foreign-writers"], "a table without foreign writers has a chain"),
    ],
)
def test_configuration_that_cannot_be_is_refused(
    hoodie: Run, table: Path, options: list[str], message: str
) -> None:
    refused = hoodie("configure", table, *options)
    assert (refused.code, message in refused.err.replace("\n", " ")) == (2, True), refused.err


def test_check_reports_what_another_engine_did_without_the_lock(
    hoodie: Run, table: Path, trips: Path
) -> None:
    """CH13: its instant is between two that the chain ordered, and none of ours knew it."""
    fine(hoodie("write", table, "--input", trips))
    fine(hoodie("write", table, "--input", trips))
    timeline = table / ".hoodie/timeline"
    (first, _) = sorted(timeline.glob("*_*.deltacommit"))
    requested, _, rest = first.name.partition("_")
    theirs = f"{int(requested) + 1}"
    for suffix in (".deltacommit.requested", ".deltacommit.inflight"):
        source = timeline / f"{requested}{suffix}"
        (timeline / f"{theirs}{suffix}").write_bytes(source.read_bytes())
    completion = int(rest.partition(".")[0]) + 1
    (timeline / f"{theirs}_{completion}.deltacommit").write_bytes(first.read_bytes())
    findings = hoodie("check", table, "--json").document["findings"]
    assert any(
        each["subject"].endswith(f"/{2:020d}")
        and f"{theirs}" in each["message"]
        and "completed by another engine at the same time as epoch 2" in each["message"]
        for each in findings
    ), findings
    fine(hoodie("write", table, "--input", trips))
    document = fine(hoodie("timeline", table, "--chain", "--json")).document
    assert document["epochs"][-1]["foreign"] == [f"{theirs}_{completion}.deltacommit"]


def test_bulk_insert_sorts_its_rows(hoodie: Run, table: Path, trips: Path) -> None:
    bulk = ("write", table, "--input", trips, "--operation", "bulk_insert")
    upsert = fine_refusal(hoodie("write", table, "--input", trips, "--sort-by", "fare"))
    assert "rows of operation upsert cannot be sorted by fare" in upsert
    unknown = fine_refusal(hoodie(*bulk, "--sort-by", "city,fair"))
    assert "by 'fair', expected a column of the table; similar: fare" in unknown
    assert "'fare' is given twice" in fine_refusal(hoodie(*bulk, "--sort-by", "fare,fare"))
    assert "a name is empty" in fine_refusal(hoodie(*bulk, "--sort-by", ""))
    fine(hoodie(*bulk, "--sort-by", "city, fare"))
    for path in table.rglob("*.parquet"):
        rows = parquet.read_table(path, columns=["city", "fare"], partitioning=None).to_pylist()
        assert rows == sorted(rows, key=lambda row: (row["city"], row["fare"]))
    assert len(ids(hoodie("read", table, "--json"))) == 3


def fine_refusal(answer: Answer) -> str:
    assert answer.code == 20, answer.err
    return answer.err


def test_new_and_updated_rows_are_counted_if_asked_for(
    hoodie: Run, table: Path, trips: Path
) -> None:
    first = hoodie("write", table, "--input", trips, "--count")
    assert "upsert of 3 rows (3 new, 0 updated), " in first.out, first.err
    again = hoodie("write", table, "--input", trips, "--count")
    assert "upsert of 3 rows (0 new, 3 updated), " in again.out, again.err
    shown = hoodie("write", table, "--input", trips, "--count", "--json").document
    assert (shown["inserted"], shown["updated"], shown["unchanged"]) == (0, 3, 0)
    unasked = hoodie("write", table, "--input", trips, "--json").document
    assert (unasked["inserted"], unasked["updated"], unasked["unchanged"]) == (None, None, None)
