"""Tables that lie in each other: refused, and kept apart where another engine made them."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import environment, errors, table
from hoodie.model import commits, schemas, settings, table_config
from hoodie.transaction import authors, manager
from hoodie.transaction.locks import address_texts
from hoodie.write import sessions

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string())])
TRANSACTION = manager.TransactionOptions(
    settings=settings.WriteSettings(
        concurrency=settings.ConcurrencyMode.OPTIMISTIC, clock_wait_ms=0
    ),
    lock=address_texts.parse("in-process"),
    author=authors.Author(writer_id="w"),
)


def create(place: Path | str, *, partition_by: tuple[str, ...] = ()) -> table.Table:
    config = table_config.TableConfig(
        name="t", record_key_fields=("id",), partition_fields=partition_by, bucket_count=1
    )
    env = environment.system(parallelism=1)
    return table.create_table(str(place), config, schemas.from_arrow(SCHEMA, "t"), env)


def write(opened: table.Table, *rows: tuple[str, str]) -> None:
    data = pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)
    options = sessions.WriteOptions(operation=commits.Operation.UPSERT, transaction=TRANSACTION)
    opened.write(data, options)


def content(place: Path) -> set[tuple[str, ...]]:
    opened = table.open_table(str(place), environment.system(parallelism=1))
    return {tuple(row.values()) for row in opened.read().read_all().to_pylist()}


@pytest.mark.parametrize("inner", ["inner", "a/b/inner", ".hoodie/inner"])
def test_table_is_not_created_in_another(inner: str, tmp_path: Path) -> None:
    create(tmp_path / "outer")
    with pytest.raises(errors.AlreadyExistsError, match=f"{inner} is in another table, file:"):
        create(tmp_path / "outer" / inner)


def test_table_is_not_created_around_another(tmp_path: Path) -> None:
    create(tmp_path / "outer/a/inner")
    with pytest.raises(errors.AlreadyExistsError, match=r"is in file:.*/outer, at a/inner: "):
        create(tmp_path / "outer")


def test_folder_above_that_may_not_be_looked_at_is_passed_by(tmp_path: Path) -> None:
    env = environment.system(parallelism=1, allowed_roots=(str(tmp_path),))
    config = table_config.TableConfig(name="t", record_key_fields=("id",), bucket_count=1)
    uri = str(tmp_path / "t")
    made = table.create_table(uri, config, schemas.from_arrow(SCHEMA, "t"), env)
    assert made.read().read_all().num_rows == 0


@pytest.mark.parametrize("inner_partitions", [(), ("p",)])
@pytest.mark.parametrize("is_inner_older", [True, False])
def test_table_that_another_engine_put_into_ours_keeps_its_files(
    inner_partitions: tuple[str, ...], tmp_path: Path, *, is_inner_older: bool
) -> None:
    outer = create(tmp_path / "outer", partition_by=("p",))
    inner = create(tmp_path / "apart", partition_by=inner_partitions)
    writes = [(outer, ("a", "x")), (inner, ("z", "y"))]
    for opened, row in reversed(writes) if is_inner_older else writes:
        write(opened, row)
    shutil.copytree(tmp_path / "apart", tmp_path / "outer/inner")
    assert content(tmp_path / "outer") == {("a", "x")}
    swept = outer.roll_back_failed(TRANSACTION)
    assert (swept.leftovers, swept.done) == (0, ())
    assert content(tmp_path / "outer") == {("a", "x")}
    assert content(tmp_path / "outer/inner") == {("z", "y")}
    found = outer.check(settings.WriteSettings())
    assert [(each.subject, "a table of its own" in each.message) for each in found] == [
        ("inner", True)
    ]
