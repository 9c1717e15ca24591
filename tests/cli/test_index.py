"""`hoodie index`: indexes built beside writers, shown and dropped."""

import contextlib
import shutil
from pathlib import Path

import pytest

from hoodie import environment, errors, opening
from hoodie import table as table_module
from hoodie.cli import run_settings
from hoodie.model import table_config
from hoodie.timeline import table_properties
from hoodie.transaction import authors
from support.tables.command_line import Answer, Run

LOCK = ("--lock", "filesystem")
STATISTICS = "column_stats"
FILTERS = "bloom_filters"
KEYS = "record_index"


def fine(answer: Answer) -> Answer:
    assert answer.code == 0, answer.err
    return answer


def with_metadata(hoodie: Run, table: Path, trips: Path) -> Path:
    """Return a table that no other engine writes, with a metadata table of its files alone."""
    fine(hoodie("configure", table, "--no-foreign-writers", *LOCK))
    fine(hoodie("write", table, "--input", trips, *LOCK))
    fine(hoodie("metadata", "init", table, "--files-only", *LOCK))
    return table


def states(hoodie: Run, table: Path) -> dict[str, str]:
    shown = fine(hoodie("index", "status", table, "--json")).document
    return {each["name"]: each["state"] for each in shown["indexes"]}


def columns_shown(hoodie: Run, table: Path) -> dict[str, str | None]:
    """Return of what indexes are, as `index status` shows it."""
    shown = fine(hoodie("index", "status", table, "--json")).document
    found = {each["name"]: each["of"] for each in shown["indexes"]}
    rows = fine(hoodie("index", "status", table)).out.splitlines()
    for name, of in found.items():
        [row] = [each for each in rows if each.startswith(name)]
        assert of is None or of in row
    return found


def test_index_is_built_shown_and_dropped(hoodie: Run, table: Path, trips: Path) -> None:
    with_metadata(hoodie, table, trips)
    assert states(hoodie, table) == {
        STATISTICS: "missing",
        "partition_stats": "missing",
        FILTERS: "missing",
        KEYS: "missing",
    }
    built = fine(hoodie("index", "build", table, STATISTICS, FILTERS, *LOCK, "--json")).document
    assert built["built"] == [STATISTICS, FILTERS]
    assert built["instant"] < built["completion_time"]
    assert states(hoodie, table)[FILTERS] == "ready"
    timeline = fine(hoodie("timeline", table)).out
    assert "indexing" in timeline
    again = fine(hoodie("index", "build", table, FILTERS, *LOCK))
    assert "all of these indexes are ready" in again.out
    fine(hoodie("write", table, "--input", trips, *LOCK))
    fine(hoodie("metadata", "validate", table))
    dropped = fine(hoodie("index", "drop", table, FILTERS, *LOCK))
    assert f"dropped {FILTERS}" in dropped.out
    assert (
        "none of these indexes was there"
        in fine(hoodie("index", "drop", table, FILTERS, *LOCK)).out
    )
    shown = fine(hoodie("index", "status", table)).out
    assert "ready" in shown
    assert "missing" in shown


def test_columns_of_statistics_are_chosen_and_changed(
    hoodie: Run, table: Path, trips: Path
) -> None:
    fine(hoodie("write", table, "--input", trips, *LOCK))
    fine(hoodie("metadata", "init", table, "--files-only", *LOCK))
    columns = ["fare", "city"]
    for chosen in (columns[:1], columns):
        built = fine(
            hoodie(
                *("index", "build", table, STATISTICS, "--json", *LOCK),
                *("--columns", ", ".join(chosen)),
            )
        )
        assert built.document["built"] == [STATISTICS]
        assert columns_shown(hoodie, table)[STATISTICS] == ", ".join(chosen)
        shown = fine(hoodie("describe", table, "--spark-options", "--json", *LOCK)).document
        named = shown["options"]["hoodie.metadata.index.column.stats.column.list"]
        assert named == ",".join(chosen)
    fine(hoodie("write", table, "--input", trips, *LOCK))
    fine(hoodie("metadata", "validate", table))
    missing = hoodie("index", "build", table, STATISTICS, "--columns", "fee", *LOCK)
    assert (missing.code, "has no column 'fee', expected one of" in missing.err) == (20, True)
    dropped = hoodie("index", "drop", table, STATISTICS, "--columns", "fare", *LOCK)
    assert (dropped.code, "options of build only" in dropped.err) == (2, True)


def test_record_index_is_built_and_used(hoodie: Run, table: Path, trips: Path) -> None:
    with_metadata(hoodie, table, trips)
    fine(hoodie("index", "build", table, KEYS, *LOCK))
    assert states(hoodie, table)[KEYS] == "ready"
    assert columns_shown(hoodie, table)[KEYS] == "the whole table"
    fine(hoodie("write", table, "--input", trips, *LOCK))
    assert "the record_index of" in fine(hoodie("metadata", "validate", table)).err
    dropped = fine(hoodie("index", "drop", table, KEYS, *LOCK))
    assert f"dropped {KEYS}" in dropped.out


def test_record_index_of_each_partition_is_built_and_told(
    hoodie: Run, table: Path, trips: Path
) -> None:
    with_metadata(hoodie, table, trips)
    build = ("index", "build", table, KEYS, "--partitioned", *LOCK)
    fine(hoodie(*build))
    shown = fine(hoodie("index", "status", table, "--json")).document["indexes"]
    assert [each["is_partitioned"] for each in shown if each["name"] == KEYS] == [True]
    assert columns_shown(hoodie, table)[KEYS] == "each partition"
    assert "all of these indexes are ready" in fine(hoodie(*build)).out
    fine(hoodie("write", table, "--input", trips, *LOCK))
    fine(hoodie("metadata", "validate", table))
    whole = hoodie("index", "build", table, KEYS, *LOCK)
    assert (whole.code, "build one of the whole table then" in whole.err) == (20, True)
    alone = hoodie("index", "build", table, FILTERS, "--partitioned", *LOCK)
    assert (alone.code, "expected record_index among them" in alone.err) == (20, True)
    drop = hoodie("index", "drop", table, KEYS, "--partitioned", *LOCK)
    assert (drop.code, "options of build only" in drop.err) == (2, True)
    fine(hoodie("index", "drop", table, KEYS, *LOCK))
    fine(hoodie("index", "build", table, KEYS, *LOCK))


def test_secondary_index_is_built_used_and_dropped(hoodie: Run, table: Path, trips: Path) -> None:
    with_metadata(hoodie, table, trips)
    named = ("--secondary", "city", "--column", "city")
    bare = hoodie("index", "build", table, *named, *LOCK)
    assert (bare.code, "has no record_index, expected one" in bare.err) == (20, True)
    fine(hoodie("index", "build", table, KEYS, *LOCK))
    built = fine(hoodie("index", "build", table, *named, *LOCK, "--json")).document
    assert built["built"] == ["secondary_index_city"]
    assert states(hoodie, table)["secondary_index_city"] == "ready"
    assert columns_shown(hoodie, table)["secondary_index_city"] == "city"
    fine(hoodie("write", table, "--input", trips, *LOCK))
    validated = fine(hoodie("metadata", "validate", table, "--json")).document
    assert validated["pairs"] == []
    said = fine(hoodie("metadata", "validate", table)).err
    assert "the record_index and secondary_index_city of" in said
    plan = fine(hoodie("read", table, "--where", "city = 'nowhere'", "--explain")).out
    assert "by secondary indexes" in plan
    kept = hoodie("index", "drop", table, KEYS, *LOCK)
    assert (kept.code, "cannot be used without record_index" in kept.err) == (20, True)
    dropped = fine(hoodie("index", "drop", table, "--secondary", "city", *LOCK))
    assert "dropped secondary_index_city" in dropped.out


def test_secondary_index_that_reads_here_do_not_ask_is_told(
    hoodie: Run, tmp_path: Path, trips: Path
) -> None:
    table = tmp_path / "rewritten"
    made = ("--create", "--record-key", "id", "--type", "cow")
    fine(hoodie("write", table, "--input", trips, *made))
    fine(hoodie("metadata", "init", table, "--files-only", *LOCK))
    build = ("index", "build", table, KEYS, "--secondary", "a", "--column", "city", *LOCK)
    [finding] = fine(hoodie(*build, "--json")).document["findings"]
    assert "secondary_index_a is for readers of Apache Hudi" in finding
    assert "`hoodie configure --no-foreign-writers`" in finding
    fine(hoodie("index", "drop", table, KEYS, "--secondary", "a", *LOCK))
    fine(hoodie("configure", table, "--no-foreign-writers", *LOCK))
    assert not fine(hoodie(*build, "--json")).document["findings"]


def test_expression_index_is_built_used_and_dropped(hoodie: Run, table: Path, trips: Path) -> None:
    with_metadata(hoodie, table, trips)
    named = ("--expression", "city", "--column", "lower(city)")
    built = fine(hoodie("index", "build", table, *named, *LOCK, "--json")).document
    assert built["built"] == ["expr_index_city"]
    assert states(hoodie, table)["expr_index_city"] == "ready"
    fine(hoodie("write", table, "--input", trips, *LOCK))
    validated = fine(hoodie("metadata", "validate", table, "--json")).document
    assert validated["statistics"] == []
    plan = fine(hoodie("read", table, "--where", "lower(city) = 'nowhere'", "--explain")).out
    assert "by expression indexes" in plan
    bad = hoodie("index", "build", table, "--expression", "x", "--column", "hour(city)", *LOCK)
    assert (bad.code, "'hour', which is not computed here" in bad.err) == (21, True)
    both = hoodie("index", "build", table, *named, "--secondary", "x", *LOCK)
    assert (both.code, "are of two indexes" in both.err) == (2, True)
    for option in ("--expression", "--secondary", "--column"):
        twice = hoodie("index", "build", table, option, "x", option, "y", *LOCK)
        assert (twice.code, f"{option} is given 2 times, expected once" in twice.err) == (2, True)
    dropped = fine(hoodie("index", "drop", table, "--expression", "city", *LOCK))
    assert "dropped expr_index_city" in dropped.out


@pytest.mark.parametrize("kind", [(), ("--partitioned",)])
def test_rebuilt_metadata_table_has_the_indexes_again(
    kind: tuple[str, ...], hoodie: Run, table: Path, trips: Path
) -> None:
    with_metadata(hoodie, table, trips)
    fine(hoodie("index", "build", table, FILTERS, KEYS, *kind, *LOCK))
    rebuild = ("metadata", "init", table, "--rebuild")
    fine(hoodie(*rebuild, *LOCK))
    shown = fine(hoodie("index", "status", table, "--json")).document["indexes"]
    assert {each["name"] for each in shown if each["state"] == "ready"} >= {FILTERS, KEYS}
    assert [each["is_partitioned"] for each in shown if each["name"] == KEYS] == [bool(kind)]
    fine(hoodie("metadata", "validate", table))
    alone = fine(hoodie(*rebuild, *LOCK, "--set", "hoodie.write.concurrency.mode=SINGLE_WRITER"))
    for name in (FILTERS, KEYS):
        assert f"{name} of" in alone.err
        assert "is not built again: an index of" in alone.err
        assert states(hoodie, table)[name] == "missing"
    fine(hoodie("index", "build", table, KEYS, *kind, *LOCK))
    fine(hoodie(*rebuild, "--files-only", *LOCK))
    assert set(states(hoodie, table).values()) == {"missing"}


def test_rebuilt_metadata_table_has_indexes_of_columns_and_chosen_columns_again(
    hoodie: Run, table: Path, trips: Path
) -> None:
    """By the lock that a command takes if none is named, as `index build` does."""
    with_metadata(hoodie, table, trips)
    secondary = ("--secondary", "city", "--column", "city")
    fine(hoodie("index", "build", table, KEYS, *secondary))
    fine(hoodie("index", "build", table, "--expression", "lower", "--column", "lower(city)"))
    fine(hoodie("index", "build", table, STATISTICS, "--columns", "fare"))
    before = columns_shown(hoodie, table)
    assert before[STATISTICS] == "fare"
    rebuilt = fine(hoodie("metadata", "init", table, "--rebuild"))
    assert "not built again" not in rebuilt.err
    assert columns_shown(hoodie, table) == before
    assert states(hoodie, table)["secondary_index_city"] == "ready"
    fine(hoodie("metadata", "validate", table))


class Killed(BaseException):
    """Ends a builder wherever it is."""


def test_build_that_broke_off_is_shown_and_finished(hoodie: Run, table: Path, trips: Path) -> None:
    """T-I07: by the same command; its writers went on meanwhile."""
    with_metadata(hoodie, table, trips)
    run = run_settings.parse_beside_writers(str(table), None, "filesystem")

    def die(what: str) -> None:
        if what == "publishing":
            raise Killed

    opened = table_module.open_table(str(table), environment.system())
    with pytest.raises(Killed):
        opened.build_index([FILTERS], run.transaction(authors.Author()), die)
    fine(hoodie("write", table, "--input", trips, *LOCK))
    assert states(hoodie, table)[FILTERS] == "interrupted"
    with pytest.raises(errors.ConflictError, match="builds bloom_filters, expected no other"):
        opened.build_index([KEYS], run.transaction(authors.Author()), is_partitioned=True)
    shown = fine(hoodie("index", "status", table))
    assert f"hoodie index build {opened.uri} {FILTERS}" in shown.err
    pending = fine(hoodie("heartbeats", table))
    assert "`hoodie index status" in pending.err
    other = hoodie("index", "build", table, STATISTICS, *LOCK)
    assert (other.code, "give it up by `hoodie index drop`" in other.err) == (10, True)
    built = fine(hoodie("index", "build", table, STATISTICS, FILTERS, *LOCK, "--json")).document
    assert built["built"] == [FILTERS, STATISTICS]
    fine(hoodie("metadata", "validate", table))
    assert states(hoodie, table)[FILTERS] == "ready"


def test_interrupted_build_says_how_it_continues(
    hoodie: Run, table: Path, trips: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_metadata(hoodie, table, trips)

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(table_module.Table, "build_index", interrupt)
    answer = hoodie("index", "build", table, FILTERS, *LOCK)
    assert answer.code == 130
    assert "the same command continues the build, `hoodie index drop` gives it up" in answer.err


def test_metadata_table_that_was_dropped_while_an_index_was_built_is_named(
    hoodie: Run, table: Path, trips: Path
) -> None:
    with_metadata(hoodie, table, trips)
    run = run_settings.parse_beside_writers(str(table), None, "filesystem")

    def drop(what: str) -> None:
        if what == "publishing":
            fine(hoodie("metadata", "drop", table, *LOCK))

    opened = table_module.open_table(str(table), environment.system())
    expected = "was dropped while bloom_filters of it was built: make one by `hoodie metadata init`"
    with pytest.raises(errors.ConflictError, match=expected):
        opened.build_index([FILTERS], run.transaction(authors.Author()), drop)
    fine(hoodie("metadata", "init", table, *LOCK))
    fine(hoodie("index", "build", table, FILTERS, *LOCK))
    assert states(hoodie, table)[FILTERS] == "ready"


def test_table_that_other_engines_may_write_gets_an_index(
    hoodie: Run, table: Path, trips: Path
) -> None:
    fine(hoodie("write", table, "--input", trips, *LOCK))
    fine(hoodie("metadata", "init", table, "--files-only", *LOCK))
    assert fine(hoodie("describe", table, "--json")).document["has_foreign_writers"]
    for _ in range(2):
        built = fine(hoodie("index", "build", table, STATISTICS, *LOCK, "--json")).document
        assert built["built"] == [STATISTICS]
        fine(hoodie("write", table, "--input", trips, *LOCK))
        fine(hoodie("metadata", "validate", table))
        assert states(hoodie, table)[STATISTICS] == "ready"
        fine(hoodie("index", "drop", table, STATISTICS, *LOCK))
        assert states(hoodie, table)[STATISTICS] == "missing"


def test_bloom_filters_by_which_other_engines_miss_rows_are_not_built(
    hoodie: Run, table: Path, trips: Path
) -> None:
    """Of a merge-on-read table; those that it has stay."""
    with_metadata(hoodie, table, trips)
    fine(hoodie("index", "build", table, FILTERS, *LOCK))
    fine(hoodie("configure", table, "--foreign-writers", *LOCK))
    assert fine(hoodie("index", "build", table, FILTERS, *LOCK)).code == 0
    fine(hoodie("index", "drop", table, FILTERS, *LOCK))
    refused = hoodie("index", "build", table, FILTERS, *LOCK)
    assert (refused.code, "leaves rows out that are in log files" in refused.err) == (21, True)
    assert states(hoodie, table)[FILTERS] == "missing"
    opened = opening.open_table(table)
    with pytest.raises(errors.UnsupportedError, match="leaves rows out"):
        opened.maintain.build_index(FILTERS)


@pytest.mark.parametrize("is_shared", [True, False])
def test_index_of_a_later_release_is_dropped_by_its_name(
    is_shared: bool, hoodie: Run, table: Path, trips: Path
) -> None:
    """Until then the table is not written, and the error says what to do."""
    with_metadata(hoodie, table, trips)
    if is_shared:
        fine(hoodie("configure", table, "--foreign-writers", *LOCK))
    env = environment.system()
    storage, other = env.open_storage(str(table)), "vector_index_a"
    names = {table_config.METADATA_PARTITIONS_KEY: f"files,{other}"}
    table_properties.update(storage, names, env.clock, lambda: None)
    storage.create(f".hoodie/metadata/{other}/.hoodie_partition_metadata", b"")
    for what in (("index", "build", table, STATISTICS), ("write", table, "--input", trips)):
        refused = hoodie(*what, *LOCK)
        assert (refused.code, f"`hoodie index drop TABLE {other}`" in refused.err) == (21, True)
    assert f"dropped {other}" in fine(hoodie("index", "drop", table, other, *LOCK)).out
    fine(hoodie("write", table, "--input", trips, *LOCK))
    assert other not in states(hoodie, table)
    names = {table_config.METADATA_PARTITIONS_INFLIGHT_KEY: other}
    table_properties.update(storage, names, env.clock, lambda: None)
    shown = fine(hoodie("index", "status", table)).err
    assert f"another engine builds {other}: `hoodie index drop" in shown
    assert "hoodie index build" not in shown
    assert f"dropped {other}" in fine(hoodie("index", "drop", table, other, *LOCK)).out
    fine(hoodie("write", table, "--input", trips, *LOCK))


@pytest.mark.parametrize("lost", ["files", FILTERS])
def test_metadata_table_that_lost_a_partition_while_an_index_was_built_is_made_again(
    lost: str, hoodie: Run, table: Path, trips: Path
) -> None:
    """Nothing is lost, and the error of the next write says what to do."""
    with_metadata(hoodie, table, trips)
    run = run_settings.parse_beside_writers(str(table), None, "filesystem")

    def lose(what: str) -> None:
        if what == "publishing":
            shutil.rmtree(table / ".hoodie" / "metadata" / lost)

    opened = table_module.open_table(str(table), environment.system())
    with contextlib.suppress(errors.FormatError):
        opened.build_index([FILTERS], run.transaction(authors.Author()), lose)
    written = hoodie("write", table, "--input", trips, *LOCK)
    is_refused = (written.code, "`hoodie metadata init --rebuild`" in written.err) == (31, True)
    assert is_refused or written.code == 0
    fine(hoodie("metadata", "init", table, "--rebuild", *LOCK))
    fine(hoodie("index", "build", table, FILTERS, *LOCK))
    fine(hoodie("write", table, "--input", trips, *LOCK))
    fine(hoodie("metadata", "validate", table))


@pytest.mark.parametrize("content", [b"", b"no plan"])
def test_damaged_plan_is_named_with_what_to_do(
    content: bytes, hoodie: Run, table: Path, trips: Path
) -> None:
    with_metadata(hoodie, table, trips)
    path = table / ".hoodie" / "timeline" / "20260101000000000.indexing.requested"
    path.write_bytes(content)
    for what in ("build", "drop"):
        refused = hoodie("index", what, table, FILTERS, *LOCK)
        assert (refused.code, f"delete .hoodie/timeline/{path.name}" in refused.err) == (31, True)
    path.unlink()
    fine(hoodie("index", "build", table, FILTERS, *LOCK))


def test_wrong_use_is_refused_with_what_to_do(hoodie: Run, table: Path, trips: Path) -> None:
    fine(hoodie("write", table, "--input", trips, *LOCK))
    build = ("index", "build", table)
    unlocked = hoodie(*build, STATISTICS, "--lock", "in-process")
    assert (unlocked.code, "excludes no other process" in unlocked.err) == (24, True)
    bare = hoodie(*build, STATISTICS, *LOCK)
    assert (bare.code, "make one by `hoodie metadata init`" in bare.err) == (22, True)
    fine(hoodie("metadata", "init", table, *LOCK))
    unknown = hoodie(*build, "colstats", *LOCK)
    assert (unknown.code, "expected column_stats, partition_stats, " in unknown.err) == (20, True)
    empty = hoodie(*build, "", *LOCK)
    assert (empty.code, "'' is not an index that is built" in empty.err) == (20, True)
    files = hoodie("index", "drop", table, "files", *LOCK)
    assert (files.code, "by `hoodie metadata drop`" in files.err) == (20, True)
    gone = hoodie("index", "drop", table, "colstats", *LOCK)
    assert (gone.code, "has no index 'colstats'" in gone.err) == (20, True)
    typed = hoodie(*build, "--expression", "a", "--column", "lower(fare)", *LOCK)
    assert (typed.code, "expected one of texts\n" in typed.err) == (21, True)
    nothing = hoodie(*build, *LOCK)
    assert (nothing.code, "no index is named" in nothing.err) == (20, True)
    mode = "hoodie.write.concurrency.mode=SINGLE_WRITER"
    alone = hoodie(*build, STATISTICS, *LOCK, "--set", mode)
    assert (alone.code, "is built beside writers" in alone.err) == (24, True)
    for words in (("--column", "rider", FILTERS), ("--secondary", "a", "--column", "b")):
        action = "build" if "--secondary" not in words else "drop"
        wrong = hoodie("index", action, table, *words, *LOCK)
        expected = "--column is that of" if action == "build" else "options of build only"
        assert (wrong.code, expected in wrong.err) == (2, True)
    named = hoodie("index", "status", table, FILTERS)
    assert (named.code, "argument of build and drop only" in named.err) == (2, True)
