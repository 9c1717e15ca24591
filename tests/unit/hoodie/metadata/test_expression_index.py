"""Expression indexes: built beside writers, kept up, and dropped."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hoodie import errors, table
from hoodie.maintenance.cleaning import retention
from hoodie.metadata import index_dropping
from hoodie.model import commits, predicates, table_config
from hoodie.read import planning, where
from hoodie.timeline import active, index_definitions
from support.tables.expression_indexed import LOWER, ExpressionBuilding
from support.tables.record_indexes import Row
from support.tables.tables import CONFIG

SIGMA = "\N{GREEK CAPITAL LETTER SIGMA}"
CHAINED = replace(CONFIG, chain=table_config.ChainName(id="c"), has_foreign_writers=False)
KINDS = {
    "mor": CHAINED,
    "cow": replace(CHAINED, table_type=table_config.TableType.COPY_ON_WRITE),
    "version-8": replace(CHAINED, version=table_config.VERSION_WITH_PAYLOADS),
    "shared": replace(CONFIG, table_type=table_config.TableType.COPY_ON_WRITE),
    "shared-mor": CONFIG,
}


def row(key: int, b: str | None = "x", a: int = 0) -> Row:
    return {"id": str(key), "part": f"p{key % 3}", "a": a, "b": b}


@pytest.mark.parametrize("kind", KINDS)
def test_index_that_is_built_beside_writes_and_kept_up_is_what_a_rebuild_makes(
    tmp_path: Path, kind: str
) -> None:
    indexed = ExpressionBuilding(tmp_path / "t", KINDS[kind])
    indexed.write([row(number, f"B{number}") for number in range(12)])
    indexed.delete([{"id": "3", "part": "p0"}])
    left = [
        lambda: indexed.write([row(4, "OTHER"), row(20, None)]),
        lambda: indexed.delete([{"id": "5", "part": "p2"}]),
    ]

    def hear(what: str) -> None:
        assert not indexed.defined(), what
        if left:
            left.pop(0)()

    done = indexed.build(hear)
    assert (done.built, left) == ((LOWER,), [])
    assert indexed.defined()[LOWER] == {
        "indexName": LOWER,
        "indexType": "column_stats",
        "indexFunction": "lower",
        "sourceFields": ["b"],
        "indexOptions": {"expr": "lower"},
        "version": "V1" if kind == "version-8" else "V2",
    }
    indexed.write([row(7, "ÄRGER"), row(4, "Z\N{GREEK CAPITAL LETTER SIGMA}")])
    kept = indexed.entries()
    assert kept.of_files
    assert set(kept.of_partitions) == {"p0", "p1", "p2"}
    assert kept.of_partitions["p1"].high == "ärger"
    right = indexed.rebuilt()
    assert kept.lacking(right) == []


def test_partial_rows_without_the_column_are_in_the_index(tmp_path: Path) -> None:
    indexed = Kept(tmp_path / "t")
    session = indexed.begin(["id", "part", "a"])
    indexed.commit(session, [{"id": "1", "part": "p1", "a": 7}])
    assert [each.nulls for each in indexed.entries().of_files.values() if each.kind is None] == [1]
    indexed.check()


class Kept(ExpressionBuilding):
    """A table whose index of `lower(b)` is ready."""

    def __init__(self, path: Path, kind: str = "mor", **changes: object) -> None:
        super().__init__(path, replace(KINDS[kind], **changes))
        self.write([row(number, f"B{number}") for number in range(6)])
        self.build()

    def check(self) -> None:
        """Compare the index with the files, and with a rebuild."""
        self.reopen()
        found = self.small.table.validate_metadata()
        assert (found.is_right, found.statistics) == (True, ())
        kept = self.entries()
        assert kept.lacking(self.rebuilt()) == []


@pytest.mark.parametrize("kind", ["mor", "cow", "shared"])
def test_index_is_kept_up_by_services_and_replacements(tmp_path: Path, kind: str) -> None:
    indexed = Kept(tmp_path / "t", kind)
    for number in range(3):
        indexed.write([row(number, f"C{number}"), row(number + 6, None)])
    if kind == "mor":
        indexed.reopen()
        assert indexed.small.compact() is not None
    indexed.write([row(0, "OVER")], operation=commits.Operation.INSERT_OVERWRITE)
    assert "over" in {each.low for each in indexed.entries().of_files.values()}
    indexed.reopen()
    before = indexed.entries().of_files
    indexed.small.table.clean(retention.Retention(retained=1, grace_ms=0), indexed.service)
    after = indexed.entries().of_files
    assert len(after) < len(before)
    indexed.check()


def test_write_that_began_before_the_index_is_in_it(tmp_path: Path) -> None:
    indexed = ExpressionBuilding(tmp_path / "t", KINDS["mor"])
    indexed.write([row(1, "OLD"), row(2, "Y")])
    session = indexed.begin(["id", "part", "b"])
    indexed.build()
    indexed.commit(session, [{"id": "1", "part": "p1", "b": "ZZ"}])
    assert indexed.entries().of_partitions["p1"].high == "zz"
    assert indexed.entries().lacking(indexed.rebuilt()) == []


def test_write_that_a_rollback_takes_back_leaves_nothing(tmp_path: Path) -> None:
    indexed = Kept(tmp_path / "t")
    before = indexed.entries()
    session = indexed.begin(["id", "part", "b"])
    indexed.small.run_task(session, [{"id": "1", "part": "p1", "b": "LOST"}])
    session.abort(has_tasks_left=False)
    indexed.small.table.roll_back_failed(indexed.service)
    assert indexed.entries() == before
    indexed.check()


def test_column_of_another_type_than_its_function_takes_is_refused(tmp_path: Path) -> None:
    indexed = ExpressionBuilding(tmp_path / "t")
    indexed.write([row(1)])
    with pytest.raises(errors.UnsupportedError, match=r"lower\(a\).*int64, expected one of texts"):
        indexed.build(call="lower(a)")
    with pytest.raises(errors.InvalidInputError, match="no column 'c'"):
        indexed.build(call="lower(c)")
    with pytest.raises(errors.UnsupportedError, match="'reverse', which is not computed here"):
        indexed.build(call="reverse(b)")
    with pytest.raises(errors.InvalidInputError, match="was given no expression"):
        indexed.build(call=None)
    assert not indexed.small.table.pending_indexes()
    indexed.build()
    with pytest.raises(errors.InvalidInputError, match=r"is of lower\(b\), and not of upper\(b\)"):
        indexed.build(call="upper(b)")
    assert indexed.build(call=None).built == ()


FOREIGN = {
    "another function": (
        {"indexType": "column_stats", "indexFunction": "hour", "indexOptions": {"expr": "hour"}},
        errors.UnsupportedError,
        "has expr_index_lower_b, which this version does not keep up.*'hour'",
    ),
    "another kind": (
        {"indexType": "ann", "indexFunction": "lower"},
        errors.UnsupportedError,
        "expected column_stats or bloom_filters",
    ),
    "another column": (
        {"indexType": "column_stats", "indexFunction": "lower", "sourceFields": ["a"]},
        errors.UnsupportedError,
        "int64, expected one of texts: drop it by",
    ),
    "no definition": (None, errors.FormatError, "does not define expr_index_lower_b"),
}


@pytest.mark.parametrize("what", FOREIGN)
def test_index_that_is_not_understood_refuses_writes_until_it_is_dropped(
    tmp_path: Path, what: str
) -> None:
    fields, kind, match = FOREIGN[what]
    indexed = Kept(tmp_path / "t")
    defined = (
        {} if fields is None else {LOWER: {"sourceFields": ["b"], "indexName": LOWER, **fields}}
    )
    redefine(indexed, defined)
    before = active.listed(indexed.storage).instants
    with pytest.raises(kind, match=match):
        indexed.write([row(1)])
    assert active.listed(indexed.storage).instants == before
    assert indexed.drop() == (LOWER,)
    indexed.write([row(1)])


def redefine(indexed: ExpressionBuilding, defined: dict[str, object]) -> None:
    path = index_definitions.PATH
    _, version = indexed.storage.fetch(path)
    content = json.dumps({"indexDefinitions": defined}).encode()
    indexed.storage.replace(path, content, if_match=version)


def test_index_of_bloom_filters_is_left_as_it_is(tmp_path: Path) -> None:
    """Whatever its function: Apache Hudi's readers read a file of which they find no filter."""
    indexed = Kept(tmp_path / "t")
    fields = {"indexType": "bloom_filters", "indexFunction": "hour", "sourceFields": ["b"]}
    redefine(indexed, {LOWER: fields})
    before = indexed.entries()
    indexed.write([row(1, "ZZ")])
    assert indexed.entries() == before
    indexed.reopen()
    assert indexed.small.table.validate_metadata().is_right


def test_index_that_was_dropped_and_made_anew_is_not_given_what_the_old_one_asked_for(
    tmp_path: Path,
) -> None:
    indexed = Kept(tmp_path / "t", "shared-mor")
    indexed.reopen()
    session = indexed.begin(["id", "part", "b"])
    indexed.drop()
    indexed.build(call="length(b)")
    indexed.commit(session, [{"id": "1", "part": "p1", "b": "four"}])
    assert indexed.entries().of_partitions["p1"].high == 4
    assert indexed.entries().lacking(indexed.rebuilt("length(b)")) == []


def test_drop_that_dies_leaves_an_index_that_is_kept_up_and_not_defined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexed = Kept(tmp_path / "t")
    with monkeypatch.context() as patched:

        def dies(*_: object) -> None:
            raise KeyboardInterrupt

        patched.setattr(index_dropping, "_take_out", dies)
        with pytest.raises(KeyboardInterrupt):
            indexed.drop()
    assert (LOWER in indexed.config.metadata_partitions, indexed.defined()) == (True, {})
    indexed.write([row(1, "ZZ")])
    assert indexed.entries().of_partitions["p1"].high == "zz"
    indexed.check()


def test_validation_finds_what_an_index_excludes(tmp_path: Path) -> None:
    indexed = Kept(tmp_path / "t", "shared")
    fields = {**indexed.defined()[LOWER], "indexFunction": "upper"}  # type: ignore[dict-item]
    redefine(indexed, {LOWER: fields})
    indexed.reopen()
    found = indexed.small.table.validate_metadata()
    assert not found.is_right
    assert {(each.column, each.is_relied_on) for each in found.statistics} == {("upper(b)", True)}


def test_validation_leaves_an_index_out_that_is_being_built(tmp_path: Path) -> None:
    indexed = ExpressionBuilding(tmp_path / "t", KINDS["mor"])
    indexed.write([row(number, f"B{number}") for number in range(12)])
    inflight = []

    def hear(what: str) -> None:
        del what
        indexed.write([row(4, "OTHER")])
        indexed.reopen()
        opened = indexed.small.table
        if LOWER in opened.config.metadata_partitions_inflight:
            inflight.append(opened.validate_metadata().is_right)

    indexed.build(hear)
    assert inflight
    assert all(inflight)


def test_texts_whose_case_is_uncertain_are_in_bounds_that_are_found_right(tmp_path: Path) -> None:
    indexed = Kept(tmp_path / "t", "shared")
    indexed.write([row(number, f"Z{SIGMA}") for number in range(6)])
    assert {each.high for each in indexed.entries().of_partitions.values()} == {"z\U0010ffff"}
    indexed.check()


def test_metadata_table_is_compacted_with_the_index_in_it(tmp_path: Path) -> None:
    indexed = Kept(tmp_path / "t")
    indexed.commits_max = 4
    for number in range(8):
        indexed.write([row(number % 4, f"D{number}")])
    names = indexed.storage.names(f".hoodie/metadata/{LOWER}")
    assert sum(name.endswith(".hfile") for name in names) > 2
    indexed.check()


def read(indexed: ExpressionBuilding, text: str) -> tuple[set[str], planning.Plan]:
    """Return the keys that a filter finds, and how; and check them against all rows."""
    opened = table.open_table(str(indexed.small.path), indexed.small.env)
    predicate = where.parse(text)
    found = opened.read(where=predicate).read_all()
    assert found.num_rows == predicates.kept(predicate, opened.read().read_all(), []).num_rows
    return set(found.column("id").to_pylist()), opened.explain_read(where=predicate)


@pytest.mark.parametrize("kind", ["mor", "shared"])
def test_filters_with_the_function_leave_files_out(tmp_path: Path, kind: str) -> None:
    indexed = Kept(tmp_path / "t", kind)
    indexed.write([row(number, f"City{number}") for number in range(9)])
    keys, plan = read(indexed, "lower(b) = 'city4'")
    assert keys == {"4"}
    step = plan.step(planning.Means.EXPRESSION_INDEX)
    assert (step.unused, step.left < step.considered) == (None, True)
    assert read(indexed, "lower(b) in ('city1', 'none') and a = 0")[0] == {"1"}
    assert read(indexed, "lower(b) = 'CITY4'")[0] == set()
    assert len(read(indexed, "not lower(b) = 'city4'")[0]) == 8
    assert read(indexed, "lower(b) like 'city%' and upper(b) >= 'CITY7'")[0] == {"7", "8"}
    assert read(indexed, "length(b) <> 5")[0] == set()
    assert read(indexed, "substring(b, -1, 1) = '3' or lower(b) is null")[0] == {"3"}


@pytest.mark.parametrize(
    "text", [f"lower(b) = 'z{SIGMA.lower()}'", "lower(b) >= 'z'", "not lower(b) = 'x'"]
)
def test_filter_that_versions_of_java_may_answer_differently_asks_no_index(
    tmp_path: Path, text: str
) -> None:
    indexed = Kept(tmp_path / "t", "shared")
    indexed.write([row(1, f"Z{SIGMA}"), row(2, f"Z{SIGMA}z"), row(3, "Z")])
    _, plan = read(indexed, text)
    step = plan.step(planning.Means.EXPRESSION_INDEX)
    assert step.left == step.considered > 1


def test_index_that_cannot_be_read_leaves_nothing_out_and_says_so(tmp_path: Path) -> None:
    indexed = Kept(tmp_path / "t")
    redefine(indexed, {})
    keys, plan = read(indexed, "lower(b) = 'b4'")
    assert keys == {"4"}
    assert "does not define" in str(plan.step(planning.Means.EXPRESSION_INDEX).unused)


FILTERS = {
    "lower(a) = 'x'": "'a' is of type int64.*expected a column of texts",
    "from_unixtime(a) = 'x'": "from_unixtime.*is not the same in every session",
    "reverse(b) = 'x'": "'reverse', which is not computed here",
    "lower(b) = 3": r"'lower\(b\)' is of type string: it cannot be compared with 3",
    "substring(b) = 'x'": "lacks the option pos",
    "lower(b": "found the end, expected",
    "lower(upper(b)) = 'x'": "found .*, expected",
    "lower(c) = 'x'": "no column 'c'|has no column",
}


@pytest.mark.parametrize("text", FILTERS)
def test_filter_with_a_function_that_does_not_fit_is_refused(tmp_path: Path, text: str) -> None:
    indexed = ExpressionBuilding(tmp_path / "t")
    with pytest.raises((errors.InvalidInputError, errors.NotFoundError), match=FILTERS[text]):
        indexed.small.table.read(where=where.parse(text)).read_all()


def test_metadata_table_that_is_made_again_has_the_index(tmp_path: Path) -> None:
    indexed = Kept(tmp_path / "t")
    indexed.build(call="length(b)", name="expr_index_long")
    redefine(indexed, {**indexed.defined(), LOWER: {"indexType": "bloom_filters"}})
    indexed.write([row(number, f"D{number}{number}") for number in range(4)])
    heard: list[str] = []
    indexed.reopen()
    indexed.small.table.initialise_metadata(
        indexed.service, is_rebuilt=True, hear_left_out=heard.append
    )
    indexed.reopen()
    assert LOWER not in indexed.config.metadata_partitions
    assert [each.endswith("it has bloom filters") for each in heard] == [True]
    assert {each.high for each in indexed.entries("expr_index_long").of_partitions.values()} == {3}
    assert list(indexed.defined()) == ["expr_index_long"]
