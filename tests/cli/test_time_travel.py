"""`hoodie read --as-of`."""

from pathlib import Path

from support.tables.command_line import Answer, Run


def fine(answer: Answer) -> Answer:
    assert answer.code == 0, answer.err
    return answer


def test_table_is_read_as_it_was(hoodie: Run, table: Path, trips: Path) -> None:
    fine(hoodie("write", table, "--input", trips))
    (first,) = fine(hoodie("timeline", table, "--json")).document["instants"]
    whole = fine(hoodie("read", table, "--json")).rows
    fine(hoodie("delete", table, "--where", "id = 'a'"))
    asked = ("--as-of", first["requested_time"])
    assert len(fine(hoodie("read", table, "--json")).rows) == len(whole) - 1
    assert fine(hoodie("read", table, "--json", *asked)).rows == whole
    assert fine(hoodie("read", table, "--json", *asked, "--as-of-rule", "requested")).rows == whole
    assert fine(hoodie("read", table, "--json", *asked, "--as-of-columns", "then")).rows == whole
    explained = fine(hoodie("read", table, *asked, "--explain", "--where", "fare > 1000"))
    assert "file slices, by column statistics" in explained.out
    nothing = fine(hoodie("read", table, "--json", "--as-of", "2013-01-01T00:00:00Z"))
    assert not nothing.rows
    assert "had no commit yet as of 20130101000000000" in nothing.err


def test_times_relative_to_now_are_taken(hoodie: Run, table: Path, trips: Path) -> None:
    fine(hoodie("write", table, "--input", trips))
    whole = fine(hoodie("read", table, "--json")).rows
    assert fine(hoodie("read", table, "--json", "--as-of", "now")).rows == whole
    assert not fine(hoodie("read", table, "--json", "--as-of", "2 hours ago")).rows
    assert len(fine(hoodie("changes", table, "--json", "--since", "yesterday")).rows) == len(whole)
    history = fine(hoodie("history", table, "--key", "a", "--since", "3 days ago", "--json"))
    assert len(history.rows) == 1
    assert fine(hoodie("count", table, "--as-of", "a week ago")).out.strip() == "0 rows"


def test_moments_that_are_none_are_refused(hoodie: Run, table: Path, trips: Path) -> None:
    fine(hoodie("write", table, "--input", trips))
    future = hoodie("read", table, "--as-of", "9000-01-01")
    assert future.code == 20
    assert "is in the future of the table" in future.err
    soon = hoodie("read", table, "--as-of", "soon")
    assert soon.code == 20
    assert "16 min ago or yesterday 14:30" in soon.err
    assert hoodie("read", table, "--as-of", "savepoint:20130101000000000").code == 22
    usage = hoodie("read", table, "--as-of-columns", "then")
    assert usage.code == 2
    assert "go with --as-of" in usage.err


def test_cleaned_moment_names_the_earliest_readable_one(
    hoodie: Run, table: Path, trips: Path
) -> None:
    for _ in range(3):
        fine(hoodie("write", table, "--input", trips))
        fine(hoodie("compact", table))
    first = fine(hoodie("timeline", table, "--json")).document["instants"][0]
    fine(hoodie("clean", table, "--keep-commits", "1", "--grace", "0"))
    gone = hoodie("read", table, "--as-of", first["requested_time"], "--json")
    assert gone.code == 25
    readable = gone.err.rpartition("that can be read is ")[2].split()[0].strip('"}.')
    assert fine(hoodie("read", table, "--as-of", readable, "--json")).rows
