"""Where tables may be created: in places that hold nothing else."""

from dataclasses import replace
from pathlib import Path

import pytest

from hoodie import errors
from hoodie.contract import job_specs
from hoodie.format import properties
from hoodie.model import settings, table_config
from hoodie.services import dropping
from hoodie.storage import locations
from support.tables.job_workshop import Workshop


def test_place_that_holds_other_files_is_refused(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    other = Path(workshop.uri) / "in" / "a.csv"
    other.parent.mkdir(parents=True)
    other.touch()
    with pytest.raises(errors.AlreadyExistsError, match=r"is not a table and holds in/a\.csv"):
        workshop.run(workshop.spec(job_specs.CreateTable()))
    assert list(Path(workshop.uri).rglob("*")) == [other.parent, other]


def test_table_with_a_metadata_table_has_it_before_its_first_commit(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    workshop.run(workshop.spec(job_specs.CreateTable(has_metadata_table=True)))
    assert workshop.table().metadata_status().problem is None
    workshop.write(workshop.file("1", "a,eu,1,x\n"))
    assert workshop.table().explain_read().has_metadata_table


@pytest.mark.parametrize("is_there", [False, True], ids=["created", "adopted"])
def test_table_shows_which_hudi_table_made_or_adopted_it(tmp_path: Path, *, is_there: bool) -> None:
    workshop = Workshop(tmp_path)
    if is_there:
        workshop.create()
    spec = workshop.spec(job_specs.CreateTable())
    workshop.run(replace(spec, writer_id=None, action_id="HudiTable/trips"))
    files = locations.open_storage(workshop.uri).list("", is_recursive=True)
    assert dropping.hudi_tables(files) == ["trips"]


def test_what_a_killed_creation_left_is_no_hindrance(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    (Path(workshop.uri) / ".hoodie" / "timeline").mkdir(parents=True)
    (Path(workshop.uri) / ".hoodie" / "hoodie.properties_backup").touch()
    workshop.run(workshop.spec(job_specs.CreateTable()))
    assert workshop.table().config.bucket_count == 4


ROWS = "".join(f"{number},{'eu' if number % 2 else 'us'},{number},x\n" for number in range(50))


def _as_apache_hudi_leaves_it(workshop: Workshop) -> dict[str, str]:
    """Take from a table's properties what Apache Hudi does not put there; return the others."""
    path = Path(workshop.uri) / ".hoodie" / "hoodie.properties"
    ours = (
        table_config.BUCKET_COUNT_KEY,
        table_config.HASH_FIELDS_KEY,
        "hoodie.table.create.schema",
    )
    kept = {
        key: value for key, value in properties.decode(path.read_bytes()).items() if key not in ours
    }
    path.write_bytes(properties.encode(kept))
    path.with_name(".hoodie.properties.crc").unlink(missing_ok=True)
    return kept


def test_table_that_does_not_say_its_buckets_is_taken_over_if_its_records_are_in_them(
    tmp_path: Path,
) -> None:
    workshop = Workshop(tmp_path)
    workshop.create()
    workshop.write(workshop.file("1", ROWS))
    before = workshop.rows()
    kept = _as_apache_hudi_leaves_it(workshop)
    workshop.create()
    stored = workshop.table().config
    assert (stored.bucket_count, stored.hash_fields) == (4, ("id",))
    assert kept.items() <= stored.properties.items()
    workshop.write(workshop.file("2", "7,eu,700,y\n"))
    assert workshop.rows() == before | {"7": ("7", "eu", 700, "y")}


def test_partitions_get_the_bucket_counts_that_are_declared(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    workshop.mode = settings.ConcurrencyMode.OPTIMISTIC
    workshop.config = replace(workshop.config, partition_fields=("region",))
    counted = job_specs.CreateTable(bucket_counts="^eu$,9")
    for _ in range(2):  # The second time it is there.
        workshop.run(workshop.spec(counted))
    stored = workshop.table().hashing_config()
    assert stored is not None
    assert (stored.expressions, stored.default_count) == ("^eu$,9", 4)
    workshop.write(workshop.file("1", ROWS))
    before = workshop.rows()
    logs = {name: Path(workshop.uri, name).glob("*.log.*") for name in ("eu", "us")}
    last = {name: max(int(each.name[1:9]) for each in found) for name, found in logs.items()}
    assert last["eu"] > 3 >= last["us"]
    with pytest.raises(errors.ConfigurationError, match=r"states bucket counts .* not \^us\$,9"):
        workshop.run(workshop.spec(job_specs.CreateTable(bucket_counts="^us$,9")))

    # As Apache Hudi leaves a table whose writers alone have such counts.
    hashing_config = Path(workshop.uri) / stored.path
    hashing_config.unlink()
    _as_apache_hudi_leaves_it(workshop)
    with pytest.raises(errors.ConfigurationError, match="the table has 4"):
        workshop.create()
    assert not hashing_config.exists()
    workshop.run(workshop.spec(counted))
    assert workshop.table().hashing_config() == stored
    workshop.write(workshop.file("2", "7,eu,700,y\n"))
    assert workshop.rows() == before | {"7": ("7", "eu", 700, "y")}


def test_table_without_buckets_is_taken_over_with_its_index(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    workshop.mode = settings.ConcurrencyMode.OPTIMISTIC
    simple = table_config.IndexKind.SIMPLE
    workshop.config = replace(workshop.config, bucket_count=None, hash_fields=(), index=simple)
    workshop.create()
    workshop.write(workshop.file("1", ROWS))
    before = workshop.rows()
    path = Path(workshop.uri) / ".hoodie" / "hoodie.properties"
    silent = properties.decode(path.read_bytes())
    assert silent.pop(table_config.INDEX_KEY) == "SIMPLE"
    path.write_bytes(properties.encode(silent))
    assert not workshop.table().config.states_index
    workshop.create()
    assert workshop.table().config.index is simple
    workshop.write(workshop.file("2", "1,eu,700,y\n7,eu,700,y\n"))
    new = {key: (key, "eu", 700, "y") for key in ("1", "7")}
    assert workshop.rows() == before | new


def test_table_in_local_time_is_taken_over_with_its_time_zone(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    workshop.create()
    workshop.write(workshop.file("1", ROWS))
    path = Path(workshop.uri) / ".hoodie" / "hoodie.properties"
    path.write_bytes(path.read_bytes().replace(b"timezone=UTC", b"timezone=LOCAL"))
    _as_apache_hudi_leaves_it(workshop)
    with pytest.raises(errors.ConfigurationError, match=r"spec\.timeZone of a HudiTable"):
        workshop.create()
    with pytest.raises(errors.ConfigurationError, match="behind those of Asia/Tokyo"):
        workshop.run(workshop.spec(job_specs.CreateTable(time_zone="Asia/Tokyo")))
    workshop.run(workshop.spec(job_specs.CreateTable(time_zone="Etc/UCT")))
    stored = workshop.table().config
    assert (stored.bucket_count, stored.zone.name) == (4, "Etc/UCT")
    workshop.run(workshop.spec(job_specs.CreateTable(time_zone="Etc/UCT")))
    with pytest.raises(errors.ConfigurationError, match="are those of Etc/UCT, expected UTC"):
        workshop.run(workshop.spec(job_specs.CreateTable(time_zone="UTC")))
    workshop.write(workshop.file("2", "7,eu,700,y\n"))
    assert workshop.rows()["7"] == ("7", "eu", 700, "y")


TIMES = {
    "hoodie.keygen.timebased.timestamp.type": "DATE_STRING",
    "hoodie.keygen.timebased.input.dateformat": "yyyy-MM-dd",
    "hoodie.keygen.timebased.input.timezone": "UTC",
    "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
    "hoodie.keygen.timebased.output.timezone": "UTC",
}


def test_table_is_taken_over_with_the_options_of_its_key_generator(tmp_path: Path) -> None:
    """Apache Hudi leaves some to its writers; what they make is compared with paths of rows."""
    workshop = Workshop(tmp_path)
    workshop.create()
    path = Path(workshop.uri) / ".hoodie" / "hoodie.properties"

    def change(**changes: str | None) -> None:
        found = properties.decode(path.read_bytes()) | changes
        path.write_bytes(properties.encode({k: v for k, v in found.items() if v is not None}))

    change(**TIMES, **{"hoodie.table.keygenerator.type": "TIMESTAMP"})
    workshop.write(workshop.file("1", "1,2026-11-27,1,x\n2,2026-11-28,2,y\n"))
    assert (Path(workshop.uri) / "2026" / "11" / "27").is_dir()
    silent = list(TIMES)[-2:]
    change(**dict.fromkeys(silent))
    wrong = TIMES | {silent[0]: "yyyy-MM-dd"}
    with pytest.raises(errors.ConfigurationError, match="2026/11/2"):
        workshop.run(workshop.spec(job_specs.CreateTable(key_options=wrong)))
    assert not {*silent} & workshop.table().config.properties.keys()
    workshop.run(workshop.spec(job_specs.CreateTable(key_options=TIMES)))
    assert TIMES.items() <= workshop.table().config.properties.items()
    workshop.write(workshop.file("2", "2,2026-11-28,3,z\n"))
    assert workshop.rows()["2"] == ("2", "2026-11-28", 3, "z")
    with pytest.raises(errors.ConfigurationError, match=r"has hoodie\.keygen.*expected yyyy-MM-dd"):
        workshop.run(workshop.spec(job_specs.CreateTable(key_options=wrong)))


@pytest.mark.parametrize("count", [2, 8])
def test_table_whose_records_are_in_other_buckets_is_refused_and_left_as_it_is(
    tmp_path: Path, count: int
) -> None:
    workshop = Workshop(tmp_path)
    workshop.create()
    workshop.write(workshop.file("1", ROWS))
    _as_apache_hudi_leaves_it(workshop)
    workshop.config = replace(workshop.config, bucket_count=count)
    with pytest.raises(
        errors.ConfigurationError, match=rf"not distributed over {count} buckets by id"
    ):
        workshop.create()
    assert workshop.table().config.bucket_count is None


def test_table_that_differs_in_more_is_refused_before_its_records_are_read(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    workshop.create()
    workshop.write(workshop.file("1", ROWS))
    _as_apache_hudi_leaves_it(workshop)
    workshop.config = replace(workshop.config, is_hive_style=True)
    with pytest.raises(errors.ConfigurationError, match="hive-style partitioning is False"):
        workshop.create()
