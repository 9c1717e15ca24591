"""`hoodie adopt`, and tables whose writers look keys up."""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hoodie import environment
from hoodie.model import table_config
from hoodie.timeline import table_properties
from support.tables import unstated
from support.tables.command_line import Answer, Run, put


def fine(answer: Answer) -> Answer:
    assert answer.code == 0, answer.err
    return answer


def made(hoodie: Run, path: Path, schema: Path, *options: str) -> Path:
    fine(hoodie("create", path, "--schema", schema, "--record-key", "id", *options))
    return path


def test_table_is_adopted_with_a_simple_index(
    hoodie: Run, tmp_path: Path, schema: Path, trips: Path
) -> None:
    table = made(hoodie, tmp_path / "t", schema, "--index", "simple")
    fine(hoodie("write", table, "--input", trips))
    unstated.forget_index(table)
    shown = fine(hoodie("describe", table))
    assert "not stated (hoodie adopt)" in shown.out
    refused = hoodie("write", table, "--input", trips)
    assert (refused.code, "hoodie adopt URI --index simple" in refused.err) == (21, True)
    tried = fine(hoodie("adopt", table, "--index", "simple", "--dry-run"))
    assert tried.out.splitlines() == [
        f"file://{table} can be adopted: index SIMPLE, times of UTC",
        "hoodie.operator.index=SIMPLE",
    ]
    assert hoodie("write", table, "--input", trips).code == 21
    done = fine(hoodie("adopt", table, "--index", "simple", "--lock", "filesystem", "--json"))
    assert done.document == {
        "table": f"file://{table}",
        "index": "SIMPLE",
        "buckets": None,
        "time_zone": "UTC",
        "is_done": True,
        "changes": {"hoodie.operator.index": "SIMPLE"},
    }
    again = fine(hoodie("adopt", table, "--index", "simple"))
    assert "nothing to change" in again.out
    other = hoodie("adopt", table, "--index", "bucket", "--buckets", "2")
    assert "states index SIMPLE, not 2 buckets by id: an index that is stated" in other.err
    columns = "id,city,fare,seats,updated_at,day,at\n"
    more = put(tmp_path / "more.csv", f"{columns}a,Bonn,1,1,2,,\nz,Bern,1,1,2,,\n")
    fine(hoodie("write", table, "--input", more, "--set", "hoodie.index.type=SIMPLE"))
    rows = {row["id"]: row["city"] for row in fine(hoodie("read", table, "--json")).rows}
    assert rows == {"a": "Bonn", "b": "Oslo", "c": "Rome", "z": "Bern"}
    assert fine(hoodie("check", table)).code == 0
    assert "SIMPLE" in fine(hoodie("describe", table)).out
    options = fine(hoodie("describe", table, "--spark-options")).out.splitlines()
    assert "hoodie.index.type=SIMPLE" in options
    assert "hoodie.write.concurrency.mode=OPTIMISTIC_CONCURRENCY_CONTROL" in options
    assert not any("bucket" in line.lower() for line in options)


def test_table_is_adopted_with_its_buckets(
    hoodie: Run, table: Path, schema: Path, trips: Path
) -> None:
    fine(hoodie("write", table, "--input", trips))
    unstated.forget_index(table)
    wrong = hoodie("adopt", table, "--index", "simple")
    assert (wrong.code, "all of buckets" in wrong.err) == (24, True)
    wrong = hoodie("adopt", table, "--index", "bucket")
    assert (wrong.code, "--buckets" in wrong.err) == (24, True)
    wrong = hoodie("adopt", table, "--index", "bucket", "--buckets", "3")
    assert (wrong.code, "not distributed over 3 buckets" in wrong.err) == (24, True)
    assert "(--buckets)" in wrong.err
    assert "(--bucket-fields)" in wrong.err
    fine(hoodie("adopt", table, "--index", "bucket", "--buckets", "2"))
    fine(hoodie("write", table, "--input", trips))
    assert len(fine(hoodie("read", table, "--json")).rows) == 3


def test_wrong_statement_is_removed_by_hand_and_made_again(
    hoodie: Run, tmp_path: Path, schema: Path, trips: Path
) -> None:
    """docs/spark-writers.md, What was stated wrongly."""
    table = made(hoodie, tmp_path / "t", schema, "--index", "global-simple")
    fine(hoodie("write", table, "--input", trips))
    refused = hoodie("adopt", table, "--index", "bloom")
    assert (refused.code, "spark-writers.md" in refused.err) == (24, True)
    properties = table / ".hoodie" / "hoodie.properties"
    kept = [
        line
        for line in properties.read_text().splitlines(keepends=True)
        if not line.startswith(("hoodie.operator.index=", "hoodie.operator.index.update"))
    ]
    properties.write_text("".join(kept))
    fine(hoodie("adopt", table, "--index", "bloom"))
    fine(hoodie("write", table, "--input", trips))
    assert "BLOOM" in fine(hoodie("describe", table)).out


ZONE = "hoodie.table.timeline.timezone"
ENCODING = "hoodie.table.complex.keygen.encoding"
SLASHES = "hoodie.datasource.write.slash.separated.date.partitioning"


def stated(path: Path, **properties: str | None) -> None:
    """Change what a table states; `_` stands for a dot."""
    env = environment.system()
    changes = {name.replace("_", "."): value for name, value in properties.items()}
    table_properties.update(env.open_storage(str(path)), changes, env.clock, lambda: None)


def test_encoding_of_keys_is_read_from_them(
    hoodie: Run, tmp_path: Path, schema: Path, trips: Path
) -> None:
    options = ("--partition-by", "city,seats", "--table-version", "8", "--index", "simple")
    table = made(hoodie, tmp_path / "t", schema, *options)
    fine(hoodie("write", table, "--input", trips))
    unstated.forget_index(table)
    stated(table, **{ENCODING: None})
    refused = hoodie("write", table, "--input", trips)
    assert refused.code == 21
    done = fine(hoodie("adopt", table, "--index", "simple", "--json"))
    assert done.document["changes"] == {
        "hoodie.operator.index": "SIMPLE",
        ENCODING: "FIELD_PREFIXED",
    }
    fine(hoodie("write", table, "--input", trips))
    assert len(fine(hoodie("read", table, "--json")).rows) == 3
    shown = fine(hoodie("describe", table, "--spark-options")).out.splitlines()
    assert "hoodie.write.complex.keygen.new.encoding=false" in shown
    assert "hoodie.write.complex.keygen.validation.enable=false" in shown
    # As an earlier release has written them.
    stated(table, **{ENCODING: "VALUE_ONLY"})
    fine(hoodie("write", table, "--input", trips))
    stated(table, **{ENCODING: None})
    refused = hoodie("adopt", table)
    assert refused.code == 24
    assert "HUDI-7001" in refused.err


def test_keys_and_paths_of_rows_are_compared(
    hoodie: Run, tmp_path: Path, schema: Path, trips: Path
) -> None:
    table = made(hoodie, tmp_path / "t", schema, "--partition-by", "day", "--index", "simple")
    days = put(
        tmp_path / "days.csv",
        "id,city,fare,seats,updated_at,day,at\na,Bonn,1,1,2,2024-03-15,\n",
    )
    fine(hoodie("write", table, "--input", days))
    unstated.forget_index(table)
    wrong = hoodie("adopt", table, "--index", "simple", "--key-option", f"{SLASHES}=true")
    assert wrong.code == 24
    assert "has the partition path '2024-03-15', expected '2024/03/15'" in wrong.err
    fine(hoodie("adopt", table, "--index", "simple", "--key-option", f"{SLASHES}=false"))
    assert fine(hoodie("describe", table, "--json")).document["key_generator"] == "SIMPLE"
    changed = hoodie("adopt", table, "--key-option", f"{SLASHES}=true")
    assert (changed.code, "is not changed" in changed.err) == (24, True)
    other = hoodie("adopt", table, "--key-option", "hoodie.table.name=x")
    assert (other.code, "--key-option hoodie.table.name" in other.err) == (24, True)


def test_table_with_a_key_within_a_column_is_refused(hoodie: Run, tmp_path: Path) -> None:
    rows = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": ["a"], "c": [{"x": "a"}]}), rows)
    table = made(hoodie, tmp_path / "t", rows, "--index", "simple")
    fine(hoodie("write", table, "--input", rows))
    unstated.forget_index(table)
    unstated.put(table, {"hoodie.table.recordkey.fields": "c.x"})
    refused = hoodie("adopt", table, "--index", "simple", "--dry-run")
    assert (refused.code, "'c.x' is within column 'c'" in refused.err) == (21, True)
    assert "can be read and compacted as it is" in refused.err
    assert fine(hoodie("count", table)).out == "1 row\n"


def test_rows_that_stayed_in_their_partition_have_other_paths(
    hoodie: Run, tmp_path: Path, schema: Path
) -> None:
    index = ("--index", "global-simple", "--keep-partitions")
    table = made(hoodie, tmp_path / "t", schema, "--partition-by", "day", "--type", "cow", *index)
    for day, ids in (("2024-03-15", "ab"), ("2024-03-16", "b")):
        lines = "".join(f"{each},Bonn,1,1,2,{day},\n" for each in ids)
        days = put(tmp_path / "days.csv", f"id,city,fare,seats,updated_at,day,at\n{lines}")
        fine(hoodie("write", table, "--input", days))
    unstated.forget_index(table)
    moving = hoodie("adopt", table, "--index", "global-simple")
    assert moving.code == 24
    assert "has the partition path '2024-03-15', expected '2024-03-16'" in moving.err
    wrong = ("--key-option", f"{SLASHES}=true")
    assert hoodie("adopt", table, *index, *wrong).code == 24
    fine(hoodie("adopt", table, *index))


def test_nothing_to_state_is_said(hoodie: Run, tmp_path: Path, schema: Path, trips: Path) -> None:
    table = made(hoodie, tmp_path / "t", schema, "--index", "simple")
    unstated.forget_index(table)
    refused = hoodie("adopt", table)
    assert (refused.code, "nothing to state" in refused.err) == (24, True)
    refused = hoodie("adopt", table, "--key-option", f"{SLASHES}=false")
    assert (refused.code, "hoodie adopt URI --index simple" in refused.err) == (21, True)
    stated(table, **{table_config.INDEX_KEY: "SIMPLE", ZONE: None})
    refused = hoodie("adopt", table)
    assert (refused.code, "nothing to state" in refused.err) == (24, True)
    refused = hoodie("adopt", table, "--key-option", f"{SLASHES}=false")
    assert (refused.code, "--time-zone" in refused.err) == (21, True)


def test_zone_of_a_table_that_is_only_read_is_stated_alone(
    hoodie: Run, tmp_path: Path, schema: Path, trips: Path
) -> None:
    table = made(hoodie, tmp_path / "t", schema, "--index", "simple")
    fine(hoodie("write", table, "--input", trips))
    unstated.forget_index(table)
    stated(table, **{ZONE: None})
    shown = fine(hoodie("timeline", table))
    assert re.search(r"completed  20\d\d-\d\d-\d\d \d\d:\d\d:\d\d ", shown.out)
    assert "of a zone that is not stated (hoodie adopt)" in shown.err
    wrong = hoodie("adopt", table, "--time-zone", "Asia/Tokyo")
    assert (wrong.code, "540 min behind" in wrong.err) == (24, True)
    done = fine(hoodie("adopt", table, "--time-zone", "UTC"))
    assert "was adopted: index not stated, times of UTC" in done.out
    shown = fine(hoodie("timeline", table))
    assert re.search(r" (just now|\d+ s ago) ", shown.out)
    assert shown.err == ""
    assert len(fine(hoodie("read", table, "--json")).rows) == 3
    refused = hoodie("write", table, "--input", trips)
    assert (refused.code, "hoodie adopt URI --index simple" in refused.err) == (21, True)
    fine(hoodie("adopt", table, "--index", "simple"))
    fine(hoodie("write", table, "--input", trips))


def test_rows_are_added_to_a_table_without_a_record_key(
    hoodie: Run, tmp_path: Path, schema: Path, trips: Path
) -> None:
    table = made(hoodie, tmp_path / "t", schema, "--index", "simple", "--partition-by", "city")
    fine(hoodie("write", table, "--input", trips))
    unstated.forget_index(table)
    stated(table, **{"hoodie.table.recordkey.fields": None})
    fine(hoodie("adopt", table, "--index", "simple"))
    assert fine(hoodie("describe", table, "--json")).document["record_key"] == []
    for operation in ("insert", "bulk_insert", "insert"):
        fine(hoodie("write", table, "--input", trips, "--operation", operation))
    rows = fine(hoodie("read", table, "--json", "--columns", "id,_hoodie_record_key")).rows
    assert sorted(row["id"] for row in rows) == sorted("abc" * 4)
    assert len({row["_hoodie_record_key"] for row in rows}) == 12
    refused = hoodie("write", table, "--input", trips)
    assert (refused.code, "bulk_insert or an overwrite, not upsert" in refused.err) == (21, True)
    fine(hoodie("delete", table, "--where", "id = 'a'"))
    rows = fine(hoodie("read", table, "--json", "--columns", "id")).rows
    assert sorted(row["id"] for row in rows) == sorted("bc" * 4)
    options = fine(hoodie("describe", table, "--spark-options")).out
    assert "recordkey.field" not in options
    assert fine(hoodie("check", table)).code == 0


def test_rows_without_a_record_key_have_no_bucket(hoodie: Run, table: Path, trips: Path) -> None:
    stated(table, **{"hoodie.table.recordkey.fields": None})
    refused = hoodie("write", table, "--input", trips, "--operation", "insert")
    assert (refused.code, "expected the index simple or bloom" in refused.err) == (21, True)
