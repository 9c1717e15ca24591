"""Builds of indexes by Spark: entry for entry those of threads, beside a table that stays right."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from hoodie import errors
from hoodie.contract import engine_specs, job_specs
from hoodie_jobs import cancellation, local_runtime, opening, runtimes
from hoodie_jobs.spark import engine as spark_engine
from support.tables import index_copies
from support.tables.job_workshop import Workshop
from support.tables.shared_session import shared_runtime

OF_NOTE = "secondary_index_note"
NAMES = ("column_stats", "partition_stats", "bloom_filters", "record_index", OF_NOTE)
SPARK = engine_specs.EngineKind.SPARK
WHOLE = job_specs.IndexValidation.WHOLE
BUILD = job_specs.BuildIndexes(names=NAMES, columns={OF_NOTE: "note"}, validation=WHOLE)
COMPACT = job_specs.Compact(step=job_specs.CompactionStep.SCHEDULE_AND_EXECUTE)


def _rows(first: int, last: int, amount: int) -> str:
    rows = (f"{key},r{key % 4},{amount},n{key % 9}" for key in range(first, last))
    return "".join(f"{row}\n" for row in rows)


@pytest.fixture
def indexed(workshop: Workshop) -> Workshop:
    """Return a workshop whose table has base files, logs over them, and a metadata table."""
    alone = job_specs.ConfigureTable(has_chain=True, has_foreign_writers=False)
    workshop.run(workshop.spec(alone))
    workshop.write(workshop.file("1", _rows(0, 200, 1)))
    workshop.run(workshop.spec(COMPACT))
    workshop.write(workshop.file("2", _rows(150, 260, 2)), attempt=2)
    workshop.table().initialise_metadata(
        opening.transaction_of(workshop.spec(COMPACT, attempt=2)), has_statistics=False
    )
    return workshop


@pytest.fixture
def in_spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """Have runs on Spark take the session of all tests."""

    def start(spec: engine_specs.EngineSpec, stop: cancellation.Cancellation) -> runtimes.Runtime:
        return (
            shared_runtime(spark, stop) if spec.kind is SPARK else local_runtime.start(spec, stop)
        )

    monkeypatch.setattr(runtimes, "open_runtime", start)
    return spark


def test_build_by_spark_has_the_entries_of_one_by_threads(
    indexed: Workshop, in_spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    del in_spark
    copy = Workshop(indexed.folder)
    copy.uri = str(index_copies.copied(Path(indexed.uri), "copy"))
    indexed.run(indexed.spec(BUILD, attempt=3))

    exchanged: list[int] = []
    exchange = spark_engine.SparkEngine.exchange

    def counted(self: Any, split: Any, items: Any, merge: Any) -> Any:  # noqa: ANN401 - passed on
        exchanged.append(len(items))
        return exchange(self, split, items, merge)

    monkeypatch.setattr(spark_engine.SparkEngine, "exchange", counted)
    (instant,) = copy.run(copy.spec(BUILD, SPARK, attempt=3)).instants
    assert instant.action == "indexing"
    # The keys, and the pairs, of all file slices.
    assert len(exchanged) == 2
    for name in NAMES:
        expected = index_copies.base_files(Path(indexed.uri), name)
        assert expected, name
        assert index_copies.base_files(Path(copy.uri), name) == expected, name
    copy.write(copy.file("3", _rows(100, 300, 3)), attempt=9)
    assert copy.table().validate_metadata().is_right


def test_key_in_two_file_groups_ends_a_build_by_spark(
    indexed: Workshop, in_spark: SparkSession
) -> None:
    del in_spark
    indexed.write(indexed.file("4", "7,r0,1,x\n"), attempt=4)
    build = replace(BUILD, names=("record_index",), columns={})
    with pytest.raises(
        errors.InvalidInputError, match=r"key \'7\' of .* cannot be in a record index"
    ):
        indexed.run(indexed.spec(build, SPARK, attempt=5))
    assert not indexed.table().pending_indexes()
    assert indexed.table().config.metadata_partitions == ("files",)
