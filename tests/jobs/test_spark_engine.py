"""The core's Engine on Spark: order, retries, errors of ours."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from hoodie import errors
from hoodie.engine import local
from hoodie_jobs.spark import engine


@pytest.fixture
def spark_engine(spark: SparkSession) -> engine.SparkEngine:
    return engine.SparkEngine(spark.sparkContext)


def square(item: int) -> int:
    return item * item


def die_once(folder: str) -> str:
    """Fail as a worker that is killed does, the first time."""
    mark = Path(folder) / "died"
    if not mark.exists():
        mark.touch()
        raise RuntimeError("died")
    return "lived"


def refuse(folder: str) -> None:
    count_attempt(folder)
    raise errors.InvalidInputError("no such value")


def fail_at_storage(folder: str) -> None:
    count_attempt(folder)
    raise errors.StorageError("disk is full")


def count_attempt(folder: str) -> None:
    context = TaskContext.get()
    assert context is not None
    (Path(folder) / str(context.attemptNumber())).touch()


def test_results_come_in_the_order_of_the_items(spark_engine: engine.SparkEngine) -> None:
    told: list[tuple[int, int]] = []
    result = spark_engine.map(
        square, range(20), progress=lambda done, total: told.append((done, total))
    )
    assert result == [item * item for item in range(20)]
    assert told[-1] == (20, 20)
    assert spark_engine.map(square, []) == []


def remainders(item: int) -> dict[str, int]:
    return {str(item % 3): item, **({"even": item} if item % 2 == 0 else {})}


def joined(key: str, parts: Sequence[int]) -> str:
    return f"{key}: {', '.join(map(str, parts))}"


def refuse_key(key: str, parts: Sequence[int]) -> None:
    raise errors.InvalidInputError(f"no such key: {key}, {parts}")


def test_parts_of_one_key_come_together_in_the_order_of_their_items(
    spark_engine: engine.SparkEngine,
) -> None:
    expected = local.LocalEngine(2).exchange(remainders, range(40), joined)
    assert spark_engine.exchange(remainders, range(40), joined) == expected
    assert spark_engine.exchange(remainders, [], joined) == []


def test_error_of_an_exchange_arrives_as_itself(
    spark_engine: engine.SparkEngine, tmp_path: Path
) -> None:
    with pytest.raises(errors.InvalidInputError, match="no such value"):
        spark_engine.exchange(refuse, [str(tmp_path)], joined)
    with pytest.raises(errors.InvalidInputError, match="no such key"):
        spark_engine.exchange(remainders, range(3), refuse_key)


def test_task_that_dies_is_tried_again(spark_engine: engine.SparkEngine, tmp_path: Path) -> None:
    assert spark_engine.map(die_once, [str(tmp_path)]) == ["lived"]


@pytest.mark.parametrize(
    ("task", "error", "attempts"),
    [(refuse, errors.InvalidInputError, 1), (fail_at_storage, errors.StorageError, 4)],
)
def test_error_of_ours_arrives_as_itself_and_only_a_transient_one_is_tried_again(
    spark_engine: engine.SparkEngine,
    tmp_path: Path,
    task: Callable[[str], None],
    error: type[errors.HoodieError],
    attempts: int,
) -> None:
    with pytest.raises(error):
        spark_engine.map(task, [str(tmp_path)])
    assert len(list(tmp_path.iterdir())) == attempts
