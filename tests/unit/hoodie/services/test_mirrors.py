"""Mirrors in Iceberg: what is registered, how it follows the table, and what is refused."""

import json
import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import hudi
import pyarrow as pa
import pytest
from pyarrow import parquet as pq
from pyiceberg import table as iceberg_table
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitStateUnknownException

import hoodie
from hoodie import environment, errors
from hoodie.model import settings
from hoodie.services import mirroring
from hoodie.services.mirrors import names, places, states, values
from hoodie.timeline import chain, contents
from support.servers import iceberg_catalog
from support.tables import every_type, mirrors, restores
from support.tables.random_histories import COW
from support.tables.tables import SmallTable

COLUMNS = {"id": pa.string(), "city": pa.string(), "n": pa.int64()}


def trips(path: Path, kind: str = "cow", **more: object) -> hoodie.Table:
    options = {"partition_by": "city", "buckets": 1, "table_type": kind} | more
    return hoodie.create_table(path, COLUMNS, "id", foreign_writers=False, **options)  # type: ignore[arg-type]


def rows(*keys: str, city: str | None = "Oslo", n: int = 1) -> list[dict[str, object]]:
    return [{"id": key, "city": city, "n": n} for key in keys]


def mirror(table: hoodie.Table, **options: object) -> values.Mirrored:
    wanted = values.Options(**options)  # type: ignore[arg-type]
    return mirroring.mirror(table._target, wanted, environment.system())


def files_of(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}


def test_a_mirror_is_read_without_hudi_and_follows_the_table(tmp_path: Path) -> None:
    table = trips(tmp_path / "t")
    written = table.upsert([*rows("1", "2"), *rows("3", city="Rome")])
    done = mirror(table)
    assert (done.files, done.added, done.is_new, done.kept) == (2, 2, True, 1)
    found = mirrors.opened(tmp_path / "t")
    summary = found.current_snapshot().summary  # type: ignore[union-attr]
    assert summary["hoodie.instant"] == written.instant  # type: ignore[index]
    assert found.properties["gc.enabled"] == "false"
    assert [each.name for each in found.spec().fields] == ["city"]
    assert found.scan().to_arrow().schema.names == list(COLUMNS)
    assert mirrors.rows(tmp_path / "t") == mirrors.optimized(table)
    table.upsert(rows("1", n=7))
    table.delete(keys=rows("3", city="Rome"))
    again = mirror(table)
    assert (again.added, again.removed, again.kept) == (2, 2, 2)
    assert mirrors.rows(tmp_path / "t") == mirrors.optimized(table)
    assert len(mirrors.rows(tmp_path / "t", done.snapshot_id)) == 3


def test_other_readers_of_hudi_pass_a_mirror_by(tmp_path: Path) -> None:
    """For hudi-rs, which lists folders; Apache Hudi is asked in `tests/conformance`."""
    table = trips(tmp_path / "t")
    table.upsert([*rows("1"), *rows("2", city="Rome")])
    mirror(table)
    catalog = values.Catalog(name=f"sqlite:///{tmp_path}/c.db", table="a.b")
    mirror(table, catalog=catalog)
    other = hudi.HudiTableBuilder.from_base_uri(str(tmp_path / "t")).build()
    assert sum(each.num_rows for each in other.read()) == 2
    assert table._target.storage.names(names.folder_of(catalog.consumer))


def test_what_has_not_changed_is_not_mirrored_twice(tmp_path: Path) -> None:
    table = trips(tmp_path / "t")
    table.upsert(rows("1"))
    first = mirror(table)
    before = files_of(tmp_path / "t" / "metadata")
    second = mirror(table)
    assert (second.is_new, second.snapshot_id) == (False, first.snapshot_id)
    assert files_of(tmp_path / "t" / "metadata") == before


def test_rows_in_logs_are_the_lag(tmp_path: Path) -> None:
    table = trips(tmp_path / "t", "mor")
    table.upsert(rows("1", "2"))
    storage = table._target.storage
    assert states.glance(storage) is None
    mirror(table)
    assert len(mirrors.rows(tmp_path / "t")) == 2
    table.upsert(rows("1", n=9))
    older, newest = chain.load(storage, table.config).completed_writes
    progress = states.glance(storage)
    assert progress is not None
    assert progress.completion_time == older.completion_time
    snapshots = len(mirrors.opened(tmp_path / "t").snapshots())
    behind = mirror(table)
    assert (behind.is_new, behind.unmirrored.groups) == (False, 1)
    assert behind.unmirrored.log_bytes > 0
    assert len(mirrors.opened(tmp_path / "t").snapshots()) == snapshots
    progress = states.glance(storage)
    assert progress is not None
    assert progress.completion_time == newest.completion_time
    assert progress.unmirrored == behind.unmirrored


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    table = trips(tmp_path / "t")
    table.upsert(rows("1"))
    done = table.maintain.mirror(dry_run=True)
    assert "would name 1 base file as of" in done.summary
    assert not (tmp_path / "t" / "metadata").exists()
    assert table.consumers() == []


def test_every_type_comes_through(tmp_path: Path) -> None:
    nested = pa.struct([("x", pa.int32()), ("tags", pa.list_(pa.string()))])
    columns = every_type.SCHEMA.append(pa.field("nested", nested)).append(
        pa.field("by_name", pa.map_(pa.string(), pa.int64()))
    )
    table = hoodie.create_table(tmp_path / "t", columns, "id", table_type="cow", buckets=1)
    full = every_type.ROWS[0] | {"nested": {"x": 1, "tags": ["a"]}, "by_name": [("k", 1)]}
    data = pa.Table.from_pylist([full, every_type.ROWS[1]], columns)
    table.upsert(data)
    mirror(table)
    found = mirrors.opened(tmp_path / "t").scan().to_arrow()
    assert mirrors.in_order(found) == mirrors.optimized(table)
    for name in ("flag", "small", "price", "day", "at", "local_at", "name"):
        scan = mirrors.opened(tmp_path / "t").scan(row_filter=f"{name} is null")
        assert scan.to_arrow()["id"].to_pylist() == [2], name


def test_bounds_leave_out_files_but_not_for_nan(tmp_path: Path) -> None:
    table = hoodie.create_table(
        tmp_path / "t", {"id": pa.int64(), "f": pa.float64()}, "id", table_type="cow", buckets=2
    )
    table.upsert([{"id": n, "f": float("nan") if n % 2 else 1.0} for n in range(20)])
    mirror(table)
    found = mirrors.opened(tmp_path / "t")
    (task,) = found.scan(row_filter="id = 19").plan_files()
    ids = {each.name: each.field_id for each in found.schema().fields}
    assert ids["id"] in task.file.upper_bounds
    assert ids["f"] not in task.file.upper_bounds


@pytest.mark.parametrize("value", [None, "", "a b", "100%", "ü=1"])
def test_partition_values_are_those_of_rows(tmp_path: Path, value: str | None) -> None:
    table = trips(tmp_path / "t")
    table.upsert([*rows("1", city=value), *rows("2")])
    mirror(table)
    found = mirrors.opened(tmp_path / "t")
    assert mirrors.rows(tmp_path / "t") == mirrors.optimized(table)
    wanted = "city is null" if value is None else f"city = '{value}'"
    assert found.scan(row_filter=wanted).to_arrow()["id"].to_pylist() == ["1"]


def test_a_file_with_several_values_ends_the_partitioning(tmp_path: Path) -> None:
    """A null and an empty text have one partition path."""
    table = trips(tmp_path / "t")
    table.upsert(rows("1"))
    mirror(table)
    table.upsert([*rows("2", city=None), *rows("3", city="")])
    mirror(table)
    found = mirrors.opened(tmp_path / "t")
    assert [each.name for each in found.spec().fields] == []
    assert mirrors.rows(tmp_path / "t") == mirrors.optimized(table)
    table.upsert(rows("1", n=5))
    mirror(table)
    assert mirrors.rows(tmp_path / "t") == mirrors.optimized(table)


def test_columns_that_files_lack_have_the_values_of_paths(tmp_path: Path) -> None:
    config = replace(COW, drops_partition_columns=True)
    small = SmallTable(tmp_path / "t", config)
    first = {"id": "1", "part": "p", "a": 1, "b": "x"}
    optimistic = settings.ConcurrencyMode.OPTIMISTIC
    small.upsert([first, first | {"id": "2", "part": "q"}], concurrency=optimistic)
    small.table.mirror(values.Options())
    assert mirrors.rows(tmp_path / "t") == mirrors.optimized(small.table)
    found = mirrors.opened(tmp_path / "t")
    assert found.scan(row_filter="part = 'q'").to_arrow()["id"].to_pylist() == ["2"]
    # Files of other engines may have the column all the same, with values that mean nothing.
    (path, *_) = (tmp_path / "t" / "p").glob("*.parquet")
    rows = pq.read_table(path)
    pq.write_table(rows.append_column("part", pa.array(["wrong"])), path)
    shutil.rmtree(tmp_path / "t" / "metadata")
    with pytest.raises(errors.UnsupportedError, match="other values in column 'part'"):
        small.table.mirror(values.Options())


def test_columns_that_are_added_and_widened(tmp_path: Path) -> None:
    table = hoodie.create_table(
        tmp_path / "t", {"id": pa.string(), "n": pa.int32()}, "id", table_type="cow", buckets=4
    )
    table.upsert(pa.table({"id": ["1"], "n": pa.array([1], pa.int32())}))
    mirror(table)
    table = hoodie.open_table(tmp_path / "t", settings={settings.ADDS_COLUMNS_KEY: "true"})
    table.upsert(pa.table({"id": ["2"], "n": pa.array([1 << 40]), "more": ["x"]}))
    mirror(table)
    assert mirrors.rows(tmp_path / "t") == mirrors.optimized(hoodie.open_table(tmp_path / "t"))
    found = mirrors.opened(tmp_path / "t").schema()
    assert [str(each.field_type) for each in found.fields] == ["string", "long", "string"]


def test_cleaning_keeps_what_kept_snapshots_name(tmp_path: Path) -> None:
    table = trips(tmp_path / "t")
    for n in range(4):
        table.upsert(rows("1", n=n))
        mirror(table, kept=2)
    kept = [each.snapshot_id for each in mirrors.opened(tmp_path / "t").snapshots()]
    assert len(kept) == 2
    cleaned = table.maintain.clean(keep_versions=1, grace_minutes=0)
    assert cleaned.detail.done
    assert [mirrors.rows(tmp_path / "t", each)[0]["n"] for each in kept] == [2, 3]
    table.remove_consumer(names.CONSUMER)
    table.maintain.clean(keep_versions=1, grace_minutes=0)
    done = mirror(table, kept=2)
    assert (done.dropped, done.kept, done.is_new) == (1, 1, False)
    assert mirrors.rows(tmp_path / "t")[0]["n"] == 3


def test_after_a_restore_the_mirror_is_of_the_table_as_it_is(tmp_path: Path) -> None:
    table = hoodie.create_table(tmp_path / "t", COLUMNS, "id", table_type="cow", buckets=1)
    table.upsert(rows("1", n=1))
    first = mirror(table)
    table.upsert(rows("1", n=2))
    second = mirror(table)
    gone = chain.load(table._target.storage, table.config).completed_writes[-1]
    restores.put(tmp_path / "t", gone)
    done = mirror(hoodie.open_table(tmp_path / "t"))
    assert mirrors.rows(tmp_path / "t")[0]["n"] == 1
    left = {each.snapshot_id for each in mirrors.opened(tmp_path / "t").snapshots()}
    assert second.snapshot_id not in left
    assert left == {first.snapshot_id, done.snapshot_id}


def test_a_commit_that_was_rolled_back_takes_its_snapshots_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Apache Hudi does it: nothing but the target of the rollback says what it deleted."""
    table = hoodie.create_table(tmp_path / "t", COLUMNS, "id", table_type="cow", buckets=1)
    table.upsert(rows("1", n=1))
    first = mirror(table)
    table.upsert(rows("1", n=2))
    mirror(table)
    gone = chain.load(table._target.storage, table.config).completed_writes[-1]
    for each in (tmp_path / "t").rglob(f"*{gone.requested_time}*"):
        each.unlink()
    table.upsert(rows("2"))
    targets = {gone.requested_time: gone.requested_time}
    monkeypatch.setattr(contents, "read_rollback_targets", lambda *_: targets)
    done = mirror(table)
    assert len(mirrors.rows(tmp_path / "t")) == 2
    left = {each.snapshot_id for each in mirrors.opened(tmp_path / "t").snapshots()}
    assert left == {first.snapshot_id, done.snapshot_id}


def test_of_two_mirrors_at_once_one_wins_and_nothing_is_there_twice(tmp_path: Path) -> None:
    table = trips(tmp_path / "t")
    table.upsert([*rows("1"), *rows("2", city="Rome")])
    results: list[values.Mirrored] = []
    threads = [
        threading.Thread(target=lambda: results.append(mirror(hoodie.open_table(tmp_path / "t"))))
        for _ in range(4)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sum(each.is_new for each in results) == 1
    assert len({each.snapshot_id for each in results}) == 1
    assert mirrors.rows(tmp_path / "t") == mirrors.optimized(table)


class Died(BaseException):
    """The process is gone: nothing is tidied up."""


class DyingStorage:
    """A storage whose process dies at one of the calls that change something."""

    def __init__(self, there: object, left: int) -> None:
        self.there, self.left = there, left

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the storage has
        found = getattr(self.there, name)
        if name not in {"create", "replace", "delete", "delete_unordered"}:
            return found

        def call(*args: object, **more: object) -> object:
            self.left -= 1
            if self.left < 0:
                raise Died
            return found(*args, **more)

        return call


def test_a_mirror_that_died_anywhere_goes_on(tmp_path: Path) -> None:
    """Engines read a whole state, whichever it is, and cleaning keeps its files."""
    for at in range(20):
        table = trips(tmp_path / f"t{at}")
        folder = tmp_path / f"t{at}"
        table.upsert(rows("1", "2"))
        mirror(table, kept=1)
        table.upsert([*rows("1", n=2), *rows("3", city="Rome")])
        dying = DyingStorage(table._target.storage, at)
        target = replace(table._target, storage=dying)  # type: ignore[arg-type]
        try:
            mirroring.mirror(target, values.Options(kept=1), environment.system())
            has_died = False
        except Died:
            has_died = True
        table.maintain.clean(keep_versions=1, grace_minutes=0)
        assert len(mirrors.rows(folder)) in ({2, 3} if has_died else {3})
        done = mirror(table, kept=1)
        assert mirrors.rows(folder) == mirrors.optimized(table)
        assert done.kept == 1
        hint = (folder / "metadata" / "version-hint.text").read_text()
        assert done.location.endswith(f"/v{hint}.metadata.json")
        if not has_died:
            assert at > 5
            return
    raise AssertionError("it never came to an end")


def test_what_no_snapshot_names_is_removed_after_a_day(tmp_path: Path) -> None:
    table = trips(tmp_path / "t")
    folder = tmp_path / "t" / "metadata"
    for n in range(3):
        table.upsert(rows("1", n=n))
        mirror(table, kept=1)
    (folder / "left-m0.avro").write_bytes(b"of a run that died")
    names = set(files_of(folder))
    mirror(table, kept=1)
    assert set(files_of(folder)) == names
    day = 2 * 86_400
    for each in folder.iterdir():
        os.utime(each, (each.stat().st_atime - day, each.stat().st_mtime - day))
    table.upsert(rows("1", n=9))
    mirror(table, kept=1)
    left = set(files_of(folder))
    assert "left-m0.avro" not in left
    assert not {each for each in left if each.startswith("snap-")} - _lists(folder)
    assert mirrors.rows(tmp_path / "t") == mirrors.optimized(table)


def _lists(folder: Path) -> set[str]:
    found = mirrors.opened(folder.parent)
    return {each.manifest_list.rpartition("/")[2] for each in found.snapshots()}


def test_foreign_metadata_are_left_alone(tmp_path: Path) -> None:
    table = trips(tmp_path / "t")
    table.upsert(rows("1"))
    mirror(table)
    path = tmp_path / "t" / "metadata" / "v1.metadata.json"
    content = json.loads(path.read_text())
    del content["properties"][states.MIRROR_KEY]
    path.write_text(json.dumps(content))
    with pytest.raises(errors.ConfigurationError, match="an Iceberg table that is not a mirror"):
        mirror(table)
    path.write_text("{}")
    with pytest.raises(errors.FormatError, match="is not the metadata of a mirror"):
        states.glance(table._target.storage)


def test_an_older_copy_is_not_mirrored_over_a_newer_mirror(tmp_path: Path) -> None:
    table = trips(tmp_path / "t")
    table.upsert(rows("1"))
    mirror(table)
    path = tmp_path / "t" / "metadata" / "v1.metadata.json"
    mirrored = str(states.glance(table._target.storage).completion_time)  # type: ignore[union-attr]
    path.write_text(path.read_text().replace(mirrored, "20991231235959999"))
    with pytest.raises(errors.ConflictError, match="has followed it up to 20991231235959999"):
        mirror(table)


def test_a_table_that_was_moved_is_mirrored_anew(tmp_path: Path) -> None:
    table = trips(tmp_path / "t")
    table.upsert(rows("1"))
    mirror(table)
    (tmp_path / "t").rename(tmp_path / "moved")
    moved = hoodie.open_table(tmp_path / "moved")
    with pytest.raises(errors.FormatError, match="the table was moved or copied"):
        mirror(moved)


@pytest.mark.parametrize(
    ("city", "sentence"), [("metadata", "has the partition 'metadata'"), ("a#b", "a # or \\?")]
)
def test_partitions_that_cannot_be_named(tmp_path: Path, city: str, sentence: str) -> None:
    table = trips(tmp_path / "t")
    table.upsert(rows("1", city=city))
    with pytest.raises(errors.UnsupportedError, match=sentence):
        mirror(table)
    assert table.consumers() == []


def test_without_a_write_there_is_nothing_to_mirror(tmp_path: Path) -> None:
    with pytest.raises(errors.NotFoundError, match="no completed instant"):
        mirror(trips(tmp_path / "t"))


@pytest.fixture(params=["sql", "rest"])
def catalog_uri(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A catalog of each kind that is tried here."""
    if request.param == "sql":
        yield f"sqlite:///{tmp_path}/catalog.db"
        return
    with iceberg_catalog.running(tmp_path) as uri:
        yield uri


def test_a_mirror_in_a_catalog_beside_the_one_in_the_folder(
    tmp_path: Path, catalog_uri: str
) -> None:
    table = trips(tmp_path / "t")
    table.upsert(rows("1", "2"))
    mirror(table)
    uri = catalog_uri
    for n in range(3):
        table.upsert(rows("1", n=n))
        done = table.maintain.mirror(kept=2, catalog=uri, table="lake.trips")
    assert done.detail.kept == 2
    catalog = load_catalog("default", type="rest" if uri.startswith("http") else "sql", uri=uri)
    found = catalog.load_table("lake.trips")
    assert mirrors.in_order(found.scan().to_arrow()) == mirrors.optimized(table)
    consumer = names.consumer_of(uri, "lake.trips")
    assert consumer.startswith("iceberg-mirror.lake.trips.")
    assert {each.consumer.name for each in table.consumers()} == {"iceberg-mirror", consumer}
    progress = states.glance(table._target.storage, consumer)
    assert progress is not None
    assert (progress.completion_time, progress.snapshots) == (done.detail.completion_time, 2)
    # A catalog that has lost it gets another one, whose versions begin again.
    catalog.drop_table("lake.trips")
    table.upsert(rows("1", n=7))
    done = table.maintain.mirror(catalog=uri, table="lake.trips")
    progress = states.glance(table._target.storage, consumer)
    assert progress is not None
    assert (progress.completion_time, progress.snapshots) == (done.detail.completion_time, 1)
    catalog.close()
    other = trips(tmp_path / "other")
    other.upsert(rows("1"))
    with pytest.raises(errors.ConfigurationError, match="give this one another name"):
        other.maintain.mirror(catalog=uri, table="lake.trips")


def test_of_two_that_mirror_into_a_catalog_at_once_one_looks_again(
    tmp_path: Path, catalog_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = trips(tmp_path / "t")
    table.upsert(rows("1", "2"))
    name = "lake.trips"
    in_catalog = {"catalog": catalog_uri, "table": name}
    table.maintain.mirror(**in_catalog)
    table.upsert(rows("1", n=7))
    original = places.CatalogPlace.load

    def overtaken(place: places.CatalogPlace) -> iceberg_table.Table | None:
        found = original(place)
        monkeypatch.setattr(places.CatalogPlace, "load", original)
        hoodie.open_table(tmp_path / "t").maintain.mirror(**in_catalog)
        return found

    monkeypatch.setattr(places.CatalogPlace, "load", overtaken)
    assert table.maintain.mirror(**in_catalog).detail.kept == 2
    opened = places.open_place(table._target.storage, values.Catalog(name=catalog_uri, table=name))
    found = opened.load()
    assert found is not None
    assert len(found.snapshots()) == 2
    assert mirrors.in_order(found.scan().to_arrow()) == mirrors.optimized(table)


def test_mirrors_of_one_name_in_two_catalogs_keep_to_their_own_files(tmp_path: Path) -> None:
    """Each deletes files that it does not name, once they are old."""
    table = trips(tmp_path / "t")
    uris = [f"sqlite:///{tmp_path}/{name}.db" for name in ("a", "b")]
    for n in range(3):
        table.upsert(rows("1", n=n))
        for uri in uris:
            table.maintain.mirror(kept=1, catalog=uri, table="lake.trips")
        for path in (tmp_path / "t" / "metadata").rglob("*"):
            then_s = path.stat().st_mtime - 2 * 24 * 3600
            os.utime(path, (then_s, then_s))
    for uri in uris:
        catalog = load_catalog("default", type="sql", uri=uri)
        found = catalog.load_table("lake.trips")
        assert mirrors.in_order(found.scan().to_arrow()) == mirrors.optimized(table)
        catalog.engine.dispose()  # type: ignore[attr-defined]


def test_a_catalog_that_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = trips(tmp_path / "t")
    table.upsert(rows("1"))
    in_catalog = {"catalog": f"sqlite:///{tmp_path}/c.db", "table": "lake.trips"}

    def fail(*_: object, **__: object) -> None:
        raise OSError("the server is gone")

    with monkeypatch.context() as patched:
        patched.setattr(SqlCatalog, "load_table", fail)
        with pytest.raises(errors.StorageError, match=r"failed for lake.trips: the server is gone"):
            table.maintain.mirror(**in_catalog)

    def lose(*_: object, **__: object) -> None:
        raise CommitStateUnknownException("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(SqlCatalog, "commit_table", lose)
        with pytest.raises(errors.OutcomeUnknownError, match="the next run finds out"):
            table.maintain.mirror(**in_catalog)
    done = table.maintain.mirror(**in_catalog).detail
    assert (done.is_new, done.files) == (True, 1)


def test_catalogs_that_cannot_be_opened(tmp_path: Path) -> None:
    table = trips(tmp_path / "t")
    table.upsert(rows("1"))
    with pytest.raises(errors.InvalidInputError, match="has both"):
        table.maintain.mirror(catalog="sqlite://")
    with pytest.raises(errors.ConfigurationError, match="cannot be opened by PyIceberg"):
        table.maintain.mirror(catalog="unknown", table="lake.trips")
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"no database" * 100)
    with pytest.raises(errors.ConfigurationError, match="file is not a database"):
        table.maintain.mirror(catalog=f"sqlite:///{broken}", table="lake.trips")
    with pytest.raises(errors.InvalidInputError, match="expected at least 1"):
        table.maintain.mirror(kept=0)
