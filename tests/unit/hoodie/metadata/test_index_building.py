"""Indexes that are built beside writers, of real rows; each call of a builder is in simulation."""

from pathlib import Path

import pytest

from hoodie import errors, table
from hoodie.metadata import index_decisions
from hoodie.model import instants, results, settings
from hoodie.model.file_statistics import BLOOM_FILTERS, COLUMN_STATS, PARTITION_STATS
from hoodie.model.key_changes import RECORD_INDEX
from hoodie.read import where as filters
from hoodie.storage import local
from hoodie.timeline import contents, index_definitions
from hoodie.write import sessions
from support.tables.indexed_tables import ALL, BESIDE, CHAINED, KINDS, Indexed, rows_of
from support.tables.tables import SmallTable

EACH_KIND = pytest.mark.parametrize("kind", KINDS)


@EACH_KIND
def test_index_has_what_was_there_and_what_is_written_later(kind: str, tmp_path: Path) -> None:
    indexed = Indexed(tmp_path / "t", KINDS[kind])
    built = indexed.build()
    assert built.built == indexed.names
    assert indexed.build() == results.IndexResult()
    indexed.upsert(5, 12, 100)
    indexed.compact()
    indexed.small.delete([{"id": "3", "part": "p0"}], **indexed.more)
    indexed.check()


@EACH_KIND
def test_changes_while_an_index_is_built_are_in_it(kind: str, tmp_path: Path) -> None:
    """T-I20: none of them fails, and the index is that of one that is made afterwards."""
    indexed = Indexed(tmp_path / "t", KINDS[kind])
    heard: list[str] = []

    def change(what: str) -> None:
        heard.append(what)
        number = len(heard)
        indexed.upsert(number, number + 6, 10 * number)
        indexed.compact()
        if number % 2:
            indexed.clean()

    built = indexed.build(hear=change)
    assert built.built == indexed.names
    assert heard[-1] == "publishing"
    indexed.check()


@EACH_KIND
@pytest.mark.parametrize("ends", ["while it is built", "afterwards"])
def test_write_that_began_before_an_index_completes(kind: str, ends: str, tmp_path: Path) -> None:
    """T-I02, T-I07, T-I09: it looks for the statistics and keys of its files by itself."""
    indexed = Indexed(tmp_path / "t", KINDS[kind])
    complete = indexed.begin("early", rows_of(20, 26, 7))
    if ends == "afterwards":
        indexed.build()
        complete()
    else:
        pending = [complete]
        indexed.build(hear=lambda what: pending.pop()() if pending and "reading" in what else None)
        assert not pending
    assert len(indexed.small.rows(where=filters.parse("a > 20"))) == 6
    indexed.check()


def test_plan_says_up_to_which_write_there_is_no_hole(tmp_path: Path) -> None:
    """T-I02, T-I11: it begins before a pending write, and ends after all of them."""
    indexed = Indexed(tmp_path / "t")
    last = indexed.opened().timeline().completed_writes[-1]
    complete = indexed.begin("early", rows_of(20, 26))
    indexed.small.upsert(rows_of(30, 33), **BESIDE)
    planned: list[str] = []

    def hear(what: str) -> None:
        if "reading" in what and not planned:
            planned.extend(indexed.opened().pending_indexes()[0].plan.partitions[0].through.split())
            complete()

    built = indexed.build(COLUMN_STATS, hear=hear)
    assert planned == [last.requested_time]
    assert built.instant is not None
    content = contents.read_indexing(
        indexed.small.env.open_storage(str(tmp_path / "t")), built.instant
    )
    newest = max(each.requested_time for each in indexed.opened().timeline().completed_writes)
    assert [each.through for each in content.partitions] == [newest]


def test_files_of_a_table_of_buckets_have_filters_that_are_made_of_their_keys(
    tmp_path: Path,
) -> None:
    indexed = Indexed(tmp_path / "t")
    indexed.build(BLOOM_FILTERS)
    opened = indexed.opened()
    assert opened.explain_read(where=filters.parse("id = 'none'")).steps[-1].left == 0
    assert len(indexed.small.rows(where=filters.parse("id = '3'"))) == 1


def test_table_that_was_opened_before_finds_all_rows_while_its_statistics_are_built_again(
    tmp_path: Path,
) -> None:
    """T-I15: what is logged meanwhile is of new rows alone, and excludes all others."""
    indexed = Indexed(tmp_path / "t")
    indexed.build(COLUMN_STATS, PARTITION_STATS)
    before = indexed.opened()
    indexed.drop(COLUMN_STATS, PARTITION_STATS)
    found: list[int] = []

    def hear(what: str) -> None:
        if "reading" in what and not found:
            indexed.upsert(0, 3, 1000)
            rows = before.read(where=filters.parse("a < 100")).read_all()
            found.append(rows.num_rows)

    indexed.build(COLUMN_STATS, PARTITION_STATS, hear=hear)
    expected = indexed.opened().read(where=filters.parse("a < 100")).read_all()
    assert found == [expected.num_rows]
    assert expected.num_rows


def test_writer_that_opened_the_table_before_uses_the_index_at_its_next_batch(
    tmp_path: Path,
) -> None:
    """IX8: it looks keys up there, and gathers what it has of files while it writes them."""
    indexed = Indexed(tmp_path / "t", KINDS["cow"])
    small = indexed.small
    before = indexed.opened()
    indexed.build(COLUMN_STATS, BLOOM_FILTERS, RECORD_INDEX)
    session = before.begin_write(small.options("w", **indexed.more), list(rows_of(20, 26)[0]))
    assert isinstance(session, sessions.WriteSession)
    task = session.task
    assert RECORD_INDEX in task.config.metadata_partitions
    assert task.tracks_keys
    assert task.statistics.has_bloom_filter
    assert "a" in task.statistics.kinds
    session.commit(small.write_files(session, rows_of(20, 26)))
    indexed.names = (COLUMN_STATS, BLOOM_FILTERS)
    indexed.check()


def test_write_that_began_while_an_index_was_gone_completes_once_it_is_back(
    tmp_path: Path,
) -> None:
    """T-I19: its table was opened before, when the index was there."""
    indexed = Indexed(tmp_path / "t", KINDS["cow"])
    small = indexed.small
    indexed.build()
    before = indexed.opened()
    indexed.drop(*indexed.names)
    session = before.begin_write(
        small.options("early", **indexed.more, **BESIDE), list(rows_of(20, 26)[0])
    )
    assert isinstance(session, sessions.WriteSession)
    written = small.write_files(session, rows_of(20, 26))
    indexed.build()
    session.commit(written)
    indexed.check()


@pytest.mark.parametrize(
    ("name", "where"),
    [(PARTITION_STATS, "a < 100"), (RECORD_INDEX, "id = '3'")],
    ids=[PARTITION_STATS, RECORD_INDEX],
)
def test_table_that_was_opened_before_finds_all_rows_while_an_index_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, where: str
) -> None:
    """T-I15: its base files are gone already, and its log files are not."""
    indexed = Indexed(tmp_path / "t")
    indexed.build(*{COLUMN_STATS: None, name: None})
    before = indexed.opened()
    indexed.upsert(20, 23, 1000)
    asked = filters.parse(where)
    expected = before.read(where=asked).read_all().num_rows
    assert expected
    found: list[int] = []
    delete = local.LocalStorage.delete_unordered

    def slowly(storage: local.LocalStorage, paths: list[str]) -> None:
        bases = [each for each in paths if each.endswith(".hfile")]
        delete(storage, bases)
        found.append(before.read(where=asked).read_all().num_rows)
        delete(storage, [each for each in paths if each not in bases])

    monkeypatch.setattr(local.LocalStorage, "delete_unordered", slowly)
    indexed.drop(name)
    assert found == [expected]


def test_index_that_is_being_built_is_not_used(tmp_path: Path) -> None:
    """T-I15."""
    indexed = Indexed(tmp_path / "t")
    left: list[int] = []

    def hear(what: str) -> None:
        if what == "publishing":
            opened = indexed.opened()
            assert set(opened.config.metadata_partitions_inflight) == set(ALL)
            left.append(opened.explain_read(where=filters.parse("a > 100000")).steps[-1].left)

    indexed.build(hear=hear)
    assert left[0] > 0


def test_broken_file_has_the_build_given_up(tmp_path: Path) -> None:
    """T-I13: the properties and the timeline are as before, and writers go on."""
    indexed = Indexed(tmp_path / "t")
    broken = next((tmp_path / "t").glob("p1/*.parquet"))
    whole = broken.read_bytes()
    broken.write_bytes(whole[:50])
    with pytest.raises(errors.FormatError, match="parquet"):
        indexed.build()
    opened = indexed.opened()
    assert opened.config.metadata_partitions == ("files",)
    assert not opened.config.metadata_partitions_inflight
    assert not opened.pending_indexes()
    broken.write_bytes(whole)
    indexed.upsert(5, 12)
    indexed.build()
    indexed.check()


def test_metadata_table_that_is_made_again_ends_the_build(tmp_path: Path) -> None:
    indexed = Indexed(tmp_path / "t")

    def hear(what: str) -> None:
        if what == "publishing":
            transaction = indexed.small.options().transaction
            indexed.opened().initialise_metadata(transaction, is_rebuilt=True)

    with pytest.raises(errors.ConflictError, match="was made again, or dropped, while"):
        indexed.build(hear=hear)
    indexed.small.table = indexed.opened()
    assert indexed.build().built == (BLOOM_FILTERS,)
    indexed.check()


def test_dropped_index_is_built_again(tmp_path: Path) -> None:
    """T-I19: the completed actions stay on the timeline."""
    indexed = Indexed(tmp_path / "t")
    indexed.build()
    with pytest.raises(errors.InvalidInputError, match="drop both"):
        indexed.drop(COLUMN_STATS)
    assert indexed.drop(*ALL) == tuple(sorted(ALL))
    assert indexed.drop(*ALL) == ()
    indexed.small.table = indexed.opened()
    assert indexed.small.table.config.metadata_partitions == ("files",)
    indexed.upsert(3, 15, 50)
    indexed.build()
    indexed.check()
    timeline = indexed.opened().timeline()
    assert len([each for each in timeline.completed if is_indexing(each)]) == 3


def is_indexing(instant: instants.Instant) -> bool:
    return instant.action is instants.Action.INDEXING


def test_no_other_engine_is_let_in_while_an_index_is_built(tmp_path: Path) -> None:
    indexed = Indexed(tmp_path / "t")
    refused: list[str] = []

    def hear(what: str) -> None:
        if what == "publishing":
            transaction = indexed.small.options().transaction
            with pytest.raises(errors.ConflictError) as failed:
                indexed.opened().configure_chain(
                    transaction, has_chain=True, has_foreign_writers=True
                )
            refused.append(str(failed.value))

    indexed.build(hear=hear)
    assert "builds an index by the rules that are to change" in refused[0]


def test_build_that_cannot_begin_is_given_up(tmp_path: Path) -> None:
    """The definitions of indexes are damaged, and the properties name nothing of it yet."""
    indexed = Indexed(tmp_path / "t")
    definitions = tmp_path / "t" / index_definitions.PATH
    definitions.parent.mkdir()
    definitions.write_bytes(b"[]")
    with pytest.raises(errors.FormatError, match="expected a JSON object"):
        indexed.build()
    assert not indexed.opened().pending_indexes()
    indexed.upsert(5, 12)
    assert not indexed.opened().pending_indexes()
    definitions.unlink()
    assert indexed.build().built == indexed.names
    indexed.check()


def test_index_of_an_empty_table_is_built(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t", CHAINED)
    transaction = small.options().transaction
    small.table = small.table.initialise_metadata(transaction, has_statistics=False)
    built = small.table.build_index(ALL, transaction)
    assert built.built == ALL
    small.upsert(rows_of(0, 9))
    small.compact()
    small.table = table.open_table(str(small.path), small.env)
    small.upsert(rows_of(3, 12))
    assert small.table.validate_metadata().is_right
    assert small.table.explain_read(where=filters.parse("a > 100000")).steps[-1].left == 0


REFUSALS = {
    "no name": ((), "no index is named"),
    "twice": ((COLUMN_STATS, COLUMN_STATS), "index column_stats is named twice"),
    "unknown": (("colstats",), "'colstats' is not an index that is built, expected column_stats"),
    "files": (("files",), "every metadata table has files"),
    "vector index": (("vector_index_a",), "secondary_index_NAME or expr_index_NAME"),
    "expression index": (("expr_index_a",), "expr_index_a was given no expression"),
    "secondary index": (("secondary_index_a",), "has no record_index, expected one"),
    "secondary index of a bad name": (
        ("secondary_index_a-b",),
        "expected 1 to 100 letters, digits and",
    ),
    "no columns": ((PARTITION_STATS,), "has the columns of column_stats, which is missing"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_bad_name_is_refused(name: str, tmp_path: Path) -> None:
    names, message = REFUSALS[name]
    indexed = Indexed(tmp_path / "t")
    with pytest.raises(errors.InvalidInputError, match=message):
        indexed.small.table.build_index(names, indexed.small.options().transaction)
    assert not indexed.opened().pending_indexes()


def test_table_in_which_no_index_can_be_built_is_refused(tmp_path: Path) -> None:
    """T-I01, T-I22."""
    indexed = Indexed(tmp_path / "t")
    single = indexed.small.options(concurrency=settings.ConcurrencyMode.SINGLE_WRITER).transaction
    with pytest.raises(errors.ConfigurationError, match="concurrency mode is SINGLE_WRITER"):
        indexed.small.table.build_index(ALL, single)
    transaction = indexed.small.options().transaction
    bare = SmallTable(tmp_path / "bare", CHAINED)
    with pytest.raises(errors.NotFoundError, match="small has no metadata table"):
        bare.table.build_index(ALL, transaction)
    flat = SmallTable(tmp_path / "flat", KINDS["without partitions"])
    made = flat.table.initialise_metadata(transaction, has_statistics=False)
    with pytest.raises(errors.InvalidInputError, match="small has no partitions"):
        made.build_index(ALL, transaction)
    assert list(index_decisions.BUILDABLE) == [*ALL, RECORD_INDEX]
