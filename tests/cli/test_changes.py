"""`hoodie changes`."""

from pathlib import Path

from support.tables.command_line import TRIPS, Answer, Run, put


def fine(answer: Answer) -> Answer:
    assert answer.code == 0, answer.err
    return answer


def changed(answer: Answer) -> list[tuple[str, str]]:
    return sorted((row["_change"], row["id"]) for row in fine(answer).rows)


def test_each_run_goes_on_where_the_last_one_ended(
    hoodie: Run, table: Path, trips: Path, tmp_path: Path
) -> None:
    fine(hoodie("write", table, "--input", trips))
    kept = tmp_path / "kept"
    first = hoodie("changes", table, "--position", kept, "--json")
    assert changed(first) == [("upsert", "a"), ("upsert", "b"), ("upsert", "c")]
    assert f"all rows; position {kept.read_text().strip()}" in first.err
    assert changed(hoodie("changes", table, "--position", kept, "--json")) == []
    before = kept.read_text()
    fine(hoodie("delete", table, "--where", "id = 'b'"))
    assert changed(hoodie("changes", table, "--since", before, "--no-deletes", "--json")) == []
    for text, found in (("id = 'b'", [("delete", "b")]), ("id = 'a'", [])):
        filtered = hoodie("changes", table, "--since", before, "--where", text, "--json")
        assert changed(filtered) == found
    output = tmp_path / "out.csv"
    written = fine(hoodie("changes", table, "--position", kept, "--output", output))
    assert "1 write; position" in written.err
    assert output.read_text().splitlines()[1].startswith('"delete","b"')
    assert kept.read_text() != before


def test_range_that_ends_before_the_first_commit(hoodie: Run, table: Path, trips: Path) -> None:
    fine(hoodie("write", table, "--input", trips))
    for since in ((), ("--since", "2012-01-01T00:00:00Z")):
        early = fine(hoodie("changes", table, *since, "--until", "2013-01-01T00:00:00Z", "--json"))
        assert not early.rows
        assert "had no commit yet as of 20130101000000000" in early.err


def test_reader_by_requested_times(hoodie: Run, table: Path, trips: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    asked = ("changes", table, "--rule", "requested", "--position", kept, "--json")
    fine(hoodie("write", table, "--input", trips))
    assert changed(hoodie(*asked)) == [("upsert", "a"), ("upsert", "b"), ("upsert", "c")]
    fine(hoodie("delete", table, "--where", "id = 'b'"))
    assert changed(hoodie(*asked)) == [("delete", "b")]
    assert changed(hoodie(*asked)) == []
    newest = fine(hoodie("timeline", table, "--json")).document["instants"][-1]
    assert kept.read_text().strip() == newest["requested_time"]
    for other in (("--consumer", "c"), ("--or-all",), ("--cdc",)):
        usage = hoodie("changes", table, "--rule", "requested", *other)
        assert usage.code == 2
        assert "do not go with --rule requested" in usage.err


def test_consumer_goes_on_where_it_is(hoodie: Run, table: Path, trips: Path) -> None:
    fine(hoodie("write", table, "--input", trips))
    asked = ("changes", table, "--consumer", "billing", "--json")
    assert len(fine(hoodie(*asked, "--advance")).rows) == 3
    assert fine(hoodie(*asked)).rows == []
    (row,) = fine(hoodie("consumer", "list", table, "--json")).document["consumers"]
    assert row["name"] == "billing"
    fine(hoodie("delete", table, "--where", "id = 'b'"))
    for _ in range(2):
        assert changed(hoodie(*asked)) == [("delete", "b")]


def test_wrong_usage_and_what_is_gone(
    hoodie: Run, table: Path, trips: Path, tmp_path: Path
) -> None:
    fine(hoodie("write", table, "--input", trips))
    assert hoodie("changes", table, "--advance").code == 2
    assert hoodie("changes", table, "--since", "x", "--consumer", "c").code == 2
    assert hoodie("changes", table, "--since", "x").code == 20
    assert hoodie("changes", table, "--output", str(table / "x.csv")).code == 20
    kept = tmp_path / "kept"
    fine(hoodie("changes", table, "--position", kept, "--json"))
    for _ in range(3):
        fine(hoodie("write", table, "--input", trips))
        fine(hoodie("compact", table))
    fine(hoodie("clean", table, "--keep-commits", "1", "--grace", "0"))
    before = kept.read_text()
    gone = hoodie("changes", table, "--position", kept, "--json")
    assert gone.code == 25
    assert kept.read_text() == before
    again = hoodie("changes", table, "--position", kept, "--or-all", "--json")
    assert len(fine(again).rows) == 3
    assert "all rows are read: " in again.err
    put(kept, "nonsense")
    assert hoodie("changes", table, "--position", kept).code == 20


def test_each_change_of_each_write(hoodie: Run, table: Path, trips: Path, tmp_path: Path) -> None:
    fine(hoodie("write", table, "--input", trips))
    kept = tmp_path / "kept"
    first = fine(hoodie("changes", table, "--cdc", "--position", kept, "--json"))
    assert [row["op"] for row in first.rows] == ["i", "i", "i"]
    fine(hoodie("write", table, "--input", trips))
    fine(hoodie("delete", table, "--where", "id = 'b'"))
    asked = ("changes", table, "--cdc", "--since", kept.read_text(), "--columns", "id", "--json")
    rows = fine(hoodie(*asked)).rows
    assert [row["op"] for row in rows] == ["u", "u", "u", "d"]
    assert (rows[-1]["before"], rows[-1]["after"]) == ({"id": "b"}, None)
    net = fine(hoodie(*asked, "--net")).rows
    assert sorted(row["op"] for row in net) == ["d", "u", "u"]
    for wrong in (
        ["--net"],
        ["--cdc", "--no-deletes"],
        ["--cdc", "--or-all"],
        ["--cdc", "--where", "id = 'a'"],
    ):
        assert hoodie("changes", table, *wrong).code == 2
    assert fine(hoodie("changes", table, "--cdc")).out.startswith('"op","ts_ms","record_key"')


def test_change_data_is_captured_later(hoodie: Run, tmp_path: Path, schema: Path) -> None:
    path = tmp_path / "cow"
    asked = ("--schema", schema, "--record-key", "id", "--buckets", "1", "--type", "cow")
    fine(hoodie("create", path, *asked))
    trips = put(tmp_path / "trips.csv", TRIPS)
    fine(hoodie("write", path, "--input", trips))
    told = fine(hoodie("configure", path, "--change-data", "data-before-after")).out
    assert "stored by writes: DATA_BEFORE_AFTER" in told
    fine(hoodie("write", path, "--input", trips))
    assert list(path.rglob("*.cdc"))
    rows = fine(hoodie("changes", path, "--cdc", "--json")).rows
    assert [row["op"] for row in rows] == ["i"] * 3 + ["u"] * 3
    off = fine(hoodie("configure", path, "--change-data", "off", "--json")).document
    assert off["change_data"] is None
    assert fine(hoodie("changes", path, "--cdc", "--json")).rows == rows
    assert hoodie("configure", path, "--change-data", "all").code == 2
    assert hoodie("configure", path).code == 2
