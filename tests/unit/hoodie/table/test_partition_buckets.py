"""Tables with bucket counts by partition: filters on the key find all, writes keep to them."""

import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from hoodie import environment, errors, table
from hoodie.model import commits, predicates, schemas, settings, table_config
from hoodie.read import where
from hoodie.services import adoption
from hoodie.timeline import partition_buckets
from hoodie.transaction import manager
from hoodie.write import sessions, tasks
from support.peer.replacements import Replacements
from support.tables.tables import COLUMNS, CONFIG, QUICK, SmallTable

ROWS: list[dict[str, object]] = [
    {"id": str(number), "part": part, "a": number, "b": "x"}
    for part in ("p", "q")
    for number in range(20)
]
COUNTS = {"p": 7}
MODES = list(settings.ConcurrencyMode)
SINGLE, OPTIMISTIC, NON_BLOCKING = (
    settings.ConcurrencyMode.SINGLE_WRITER,
    settings.ConcurrencyMode.OPTIMISTIC,
    settings.ConcurrencyMode.NON_BLOCKING,
)
REFUSED = "bucket counts by partition"


@pytest.fixture(params=list(table_config.TableType))
def table_type(request: pytest.FixtureRequest) -> table_config.TableType:
    assert isinstance(request.param, table_config.TableType)
    return request.param


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    found = SmallTable(tmp_path / "t")
    found.upsert(ROWS)
    return found


def assert_filters_lose_nothing(small: SmallTable) -> None:
    for number in range(20):
        for text in (f"id = '{number}'", f"id in ('{number}', 'z') and part = 'p'"):
            predicate = where.parse(text)
            whole = small.table.read().read_all()
            wanted = whole.filter(predicates.to_expression(predicate, whole.schema))
            assert wanted.num_rows == (1 if "part" in text else 2)
            assert small.rows(where=predicate) == wanted.to_pylist()


@pytest.mark.parametrize("counts", [{"p": 7}, {"p": 1, "q": 3}])
def test_every_row_is_found_by_its_key(small: SmallTable, counts: dict[str, int]) -> None:
    Replacements(small).rescale(counts)
    assert_filters_lose_nothing(small)
    Replacements(small).rescale(counts | {"p": 5})
    assert_filters_lose_nothing(small)
    Replacements(small).clean()
    Replacements(small).archive()
    assert_filters_lose_nothing(small)


def test_filter_on_the_key_leaves_out_most_file_groups(small: SmallTable) -> None:
    Replacements(small).rescale({"p": 20})
    assert len(small.table.plan_read(where=where.parse("part = 'p'"))) > 8
    assert len(small.table.plan_read(where=where.parse("part = 'p' and id = '3'"))) <= 2


def test_buckets_of_such_a_partition_are_not_warned_of(
    small: SmallTable, caplog: pytest.LogCaptureFixture
) -> None:
    Replacements(small).rescale(COUNTS)
    with caplog.at_level(logging.WARNING, "hoodie"):
        small.rows()
        small.rows(where=where.parse("id = '3'"))
    assert not caplog.records


def test_rescale_that_has_not_completed_changes_nothing_for_readers(small: SmallTable) -> None:
    Replacements(small).rescale(COUNTS, is_completed=False)
    assert_filters_lose_nothing(small)


def live_ids(small: SmallTable, partition: str) -> set[int]:
    """Return the buckets of the file groups that a reader sees."""
    return {int(each.file_id[:8]) for each in Replacements(small).live_groups(partition)}


@pytest.mark.parametrize("mode", [SINGLE, OPTIMISTIC])
def test_writes_go_to_the_buckets_of_each_partition(
    tmp_path: Path, mode: settings.ConcurrencyMode, table_type: table_config.TableType
) -> None:
    small = SmallTable(tmp_path / "t", replace(CONFIG, table_type=table_type))
    small.upsert(ROWS, concurrency=SINGLE)
    Replacements(small).rescale(COUNTS)
    changed = [{**row, "a": 100} for row in ROWS[::2]]
    new = [{"id": f"n{number}", "part": "p", "a": 1, "b": "y"} for number in range(20)]
    small.upsert([*changed, *new], concurrency=mode)
    small.delete([{"id": row["id"], "part": row["part"]} for row in ROWS[:3]], concurrency=mode)
    small.upsert([{**new[0], "part": "r"}], concurrency=mode, operation=commits.Operation.INSERT)
    expected: dict[tuple[object, object], dict[str, object]] = {
        (row["part"], row["id"]): row for row in [*ROWS, *changed, *new]
    }
    for row in ROWS[:3]:
        del expected[row["part"], row["id"]]
    expected["r", "n0"] = {**new[0], "part": "r"}
    found = small.rows()
    assert {(row["part"], row["id"]): row for row in found} == expected
    assert len(found) == len(expected)
    assert small.problems() == []
    assert live_ids(small, "p") == set(range(7))
    assert live_ids(small, "q") == {0, 1}
    assert_filters_lose_nothing_of(small, expected)


def assert_filters_lose_nothing_of(
    small: SmallTable, expected: Mapping[tuple[object, object], object]
) -> None:
    for part, key in expected:
        found = small.rows(where=where.parse(f"id = '{key}' and part = '{part}'"))
        assert found == [expected[part, key]]


def test_overwrite_makes_the_buckets_of_each_partition(small: SmallTable) -> None:
    Replacements(small).rescale(COUNTS)
    overwrite = commits.Operation.INSERT_OVERWRITE
    small.upsert(ROWS, operation=overwrite, concurrency=SINGLE)
    assert small.problems() == []
    assert live_ids(small, "p") == set(range(7))
    small.upsert(ROWS, concurrency=SINGLE)
    assert small.rows() == sorted(ROWS, key=lambda row: str(row["id"]))
    assert small.problems() == []


def test_non_blocking_writes_are_refused(small: SmallTable) -> None:
    Replacements(small).rescale(COUNTS)
    before, instants_before = small.rows(), small.table.timeline().instants
    with pytest.raises(errors.ConfigurationError, match=REFUSED):
        small.upsert(ROWS, concurrency=NON_BLOCKING)
    assert small.rows() == before
    assert small.table.timeline().instants == instants_before


@pytest.mark.parametrize("mode", MODES)
def test_write_is_refused_while_counts_are_being_given(
    small: SmallTable, mode: settings.ConcurrencyMode
) -> None:
    Replacements(small).rescale(COUNTS, is_completed=False)
    before = small.table.timeline().instants
    with pytest.raises(errors.ConflictError, match="is being given"):
        small.upsert(ROWS, concurrency=mode)
    assert small.table.timeline().instants == before


def test_expression_that_java_may_understand_otherwise_is_refused(small: SmallTable) -> None:
    Replacements(small).rescale({r"\p{Lower}": 3})
    with pytest.raises(errors.UnsupportedError, match="character 1"):
        small.upsert(ROWS, concurrency=SINGLE)
    assert len(small.rows()) == len(ROWS)


def test_counts_are_taken_back_with_the_instant_that_gives_them(small: SmallTable) -> None:
    Replacements(small).rescale(COUNTS, is_completed=False)
    (requested,) = small.path.glob(".hoodie/timeline/*.replacecommit.requested")
    # Without a heartbeat it may be alive as long as it is young.
    os.utime(requested, (0, 0))
    small.table.roll_back_failed(small.options().transaction)
    assert not list(small.path.glob(f"{partition_buckets.DIRECTORY}/*"))
    small.upsert(ROWS)
    assert_filters_lose_nothing(small)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("is_completed", [True, False])
def test_write_that_began_before_is_not_published(
    small: SmallTable, mode: settings.ConcurrencyMode, *, is_completed: bool
) -> None:
    options = small.options(concurrency=mode)
    session = small.table.begin_write(options, ["id", "part", "a", "b"])
    assert isinstance(session, sessions.WriteSession)
    new = [{"id": "new", "part": "r", "a": 1, "b": "y"}]
    stats = small.write_files(session, new)
    Replacements(small).rescale(COUNTS, is_completed=is_completed)
    refused = errors.WriteConflictError if is_completed else errors.ConflictError
    with pytest.raises(refused, match="bucket counts by partition"):
        session.commit(stats)
    assert_filters_lose_nothing(small)
    assert len(small.rows()) == len(ROWS)


def test_write_that_lost_to_new_counts_is_written_again_by_them(
    small: SmallTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tasks.run

    def run_beside(*arguments: object) -> list[commits.Written]:
        monkeypatch.setattr(tasks, "run", run)
        written = run(*arguments)  # type: ignore[arg-type] # as it is called
        Replacements(small).rescale({"p": 5})
        return written

    monkeypatch.setattr(tasks, "run", run_beside)
    new = [{"id": f"n{number}", "part": "p", "a": 1, "b": "y"} for number in range(20)]
    small.upsert(new, concurrency=OPTIMISTIC, conflict_retries_max=1)
    assert len(small.rows()) == len(ROWS) + len(new)
    assert live_ids(small, "p") == set(range(5))
    assert small.problems() == []


def test_compaction_and_check_go_on(small: SmallTable) -> None:
    small.upsert([{"id": "3", "part": "q", "a": 70, "b": "y"}])
    Replacements(small).rescale(COUNTS)
    assert small.compact() is not None
    assert_filters_lose_nothing(small)
    assert small.problems() == []
    (note,) = [each for each in small.table.check(QUICK) if "hashing_config" in each.subject]
    assert "p,7" in note.message
    config = small.table.hashing_config()
    assert config is not None
    assert config.expressions == "p,7"


def test_check_names_records_that_no_count_explains(small: SmallTable) -> None:
    Replacements(small).rescale({"p": 7})
    wrong = next(iter(sorted(small.path.glob("p/00000006-*.parquet"))))
    wrong.rename(wrong.with_name(wrong.name.replace("00000006", "00000050")))
    problems = small.problems()
    assert any("is of bucket 50, the table has 7" in each for each in problems)
    assert any("records belong to a bucket other than 50" in each for each in problems)


def test_check_reports_a_damaged_file_and_goes_on(small: SmallTable) -> None:
    Replacements(small).rescale(COUNTS)
    (stored,) = small.path.glob(f"{partition_buckets.DIRECTORY}/*")
    stored.write_text("{}")
    (problem,) = small.problems()
    assert stored.name in problem
    with pytest.raises(errors.FormatError, match=stored.name):
        small.rows(where=where.parse("id = '3'"))


@pytest.mark.parametrize("bucket_count", [2, 3])
def test_table_with_such_counts_is_adopted_by_the_count_of_others(
    small: SmallTable, bucket_count: int
) -> None:
    Replacements(small).rescale(COUNTS)
    storage = small.env.open_storage(str(small.path))
    config = replace(CONFIG, bucket_count=bucket_count)
    target = manager.Target(storage=storage, config=config, schema=small.table.schema)
    if bucket_count == CONFIG.bucket_count:
        adoption.check(target, [table_config.BUCKET_COUNT_KEY], small.env)
        return
    with pytest.raises(errors.ConfigurationError, match="gives other partitions 2 buckets"):
        adoption.check(target, [table_config.BUCKET_COUNT_KEY], small.env)


def declared(expressions: str = "p,7") -> partition_buckets.HashingConfig:
    assert CONFIG.bucket_count is not None
    return partition_buckets.declared(expressions, CONFIG.bucket_count)


def test_table_is_created_with_counts(tmp_path: Path) -> None:
    env = environment.system(parallelism=2)
    schema = schemas.from_arrow(COLUMNS, CONFIG.name)
    created = table.create_table(str(tmp_path / "t"), CONFIG, schema, env, declared("^p$,7"))
    small = SmallTable.__new__(SmallTable)
    small.path, small.env, small.table = tmp_path / "t", env, created
    small.upsert(ROWS, concurrency=SINGLE)
    small.upsert(ROWS, concurrency=OPTIMISTIC)
    assert live_ids(small, "p") == set(range(7))
    assert live_ids(small, "q") == {0, 1}
    assert small.problems() == []


@pytest.mark.parametrize(
    "changes",
    [
        {"partition_fields": ()},
        {"has_foreign_writers": False},
        {"bucket_count": None, "index": table_config.IndexKind.SIMPLE},
        {"index": table_config.IndexKind.CONSISTENT_HASHING},
    ],
)
def test_counts_that_do_not_go_with_a_table_are_refused(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    config = replace(CONFIG, **changes)  # type: ignore[arg-type] # as they are named
    schema = schemas.from_arrow(COLUMNS, CONFIG.name)
    with pytest.raises(errors.InvalidInputError, match=REFUSED):
        table.create_table(str(tmp_path / "t"), config, schema, environment.system(), declared())
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("expressions", ["", "p", "p,x", "p,0", "p,1,2", "(,3", "p,-1"])
def test_malformed_counts_are_refused(expressions: str) -> None:
    with pytest.raises(errors.InvalidInputError, match=REFUSED):
        declared(expressions)


def test_counts_that_contradict_those_of_a_table_are_refused(small: SmallTable) -> None:
    Replacements(small).rescale(COUNTS)
    storage = small.env.open_storage(str(small.path))
    target = manager.Target(storage=storage, config=CONFIG, schema=small.table.schema)
    changes = [table_config.BUCKET_COUNT_KEY]
    adoption.check(target, changes, small.env, hashing_config=declared("p,7"))
    with pytest.raises(errors.ConfigurationError, match="states bucket counts by partition: p,7"):
        adoption.check(target, changes, small.env, hashing_config=declared("p,8"))


def test_counts_of_a_table_that_states_one_count_are_refused(small: SmallTable) -> None:
    storage = small.env.open_storage(str(small.path))
    target = manager.Target(storage=storage, config=CONFIG, schema=small.table.schema)
    with pytest.raises(errors.ConfigurationError, match=r"states .* one count for all"):
        adoption.check(target, [], small.env, hashing_config=declared("p,7"))
    needed = r"is not distributed.*; expected the hoodie\.bucket\.index"
    with pytest.raises(errors.ConfigurationError, match=needed):
        adoption.check(
            target, [table_config.BUCKET_COUNT_KEY], small.env, hashing_config=declared("p,7")
        )


def test_declared_counts_are_put_once(small: SmallTable) -> None:
    storage = small.env.open_storage(str(small.path))
    partition_buckets.create(storage, declared("p,7"))
    partition_buckets.create(storage, declared("p,7"))
    with pytest.raises(errors.ConflictError, match="says p,7"):
        partition_buckets.create(storage, declared("p,8"))


def test_counts_are_not_passed_over_where_a_table_lacks_nothing(small: SmallTable) -> None:
    transaction = small.options().transaction
    with pytest.raises(errors.ConfigurationError, match=r"states .* one count for all"):
        small.table.adopt(small.table.config, transaction, hashing_config=declared("p,7"))
    Replacements(small).rescale(COUNTS)
    given = {"hashing_config": declared("p,7")}
    assert small.table.adopt(small.table.config, transaction, **given) == {}
    assert len(list(small.path.glob(f"{partition_buckets.DIRECTORY}/*"))) == 1
