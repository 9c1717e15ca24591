"""Plans and metadata of cleans; `tests/conformance/test_cleaning.py` has those of Apache Hudi."""

import dataclasses

import pytest

from hoodie import errors
from hoodie.format import avro_container, clean_avro, timeline_schemas
from hoodie.model import instants, plans

URI = "file:///data/100%25 trips"
TIME = instants.InstantTime("20260101000000000")
BASE = "0a-0_0-1-0_20260101000000000.parquet"
LOG = ".0a-0_20260101000000001.log.1_0-1-0"
PLAN = plans.CleanPlan(
    policy="KEEP_LATEST_COMMITS",
    earliest_retained=instants.Instant(
        requested_time=TIME, action=instants.Action.COMMIT, state=instants.State.REQUESTED
    ),
    last_completed=instants.InstantTime("20260102000000000"),
    file_names={"": (BASE,), "city=a/day=1": (BASE, LOG)},
    extra={"a": "b"},
)


def plan_naming(path: str, partition_path: str = "p", *, is_bootstrap: bool = False) -> bytes:
    """Return the content of a plan that names one file."""
    return avro_container.encode(
        timeline_schemas.CLEAN_PLAN,
        {
            "policy": "KEEP_LATEST_COMMITS",
            "version": 2,
            "filePathsToBeDeletedPerPartition": {
                partition_path: [{"filePath": path, "isBootstrapBaseFile": is_bootstrap}]
            },
        },
    )


def test_plan_is_read_as_it_was_written() -> None:
    assert clean_avro.decode_plan(clean_avro.encode_plan(PLAN, URI)) == PLAN


def test_plan_by_file_versions_retains_no_instant() -> None:
    plan = dataclasses.replace(PLAN, earliest_retained=None, last_completed=None)
    assert clean_avro.decode_plan(clean_avro.encode_plan(plan, URI)) == plan


def test_plan_names_full_paths() -> None:
    record = avro_container.decode(clean_avro.encode_plan(PLAN, URI), "plan")
    by_partition = dict(record.records_by_key("filePathsToBeDeletedPerPartition"))
    (info, _) = by_partition["city=a/day=1"]
    assert info.text("filePath") == f"/data/100% trips/city=a/day=1/{BASE}"


def test_metadata_says_what_is_gone() -> None:
    done = clean_avro.decode_metadata(clean_avro.encode_metadata(PLAN, TIME, 5))
    assert done.earliest_retained == TIME
    assert done.last_completed == PLAN.last_completed
    assert done.file_names == PLAN.file_names
    assert done.extra == PLAN.extra


def test_plan_of_version_1_names_bare_names() -> None:
    content = avro_container.encode(
        timeline_schemas.CLEAN_PLAN,
        {
            "policy": "KEEP_LATEST_FILE_VERSIONS",
            "version": 1,
            "filesToBeDeletedPerPartition": {"p": [BASE]},
        },
    )
    assert clean_avro.decode_plan(content).file_names == {"p": (BASE,)}


@pytest.mark.parametrize(
    ("path", "partition_path"),
    [
        (f"/data/q/{BASE}", "p"),
        (f"/data/../{BASE}", ".."),
        ("/data/p/", "p"),
        ("/data/p/.hoodie_partition_metadata", "p"),
        ("/data/p/hoodie.properties", "p"),
        ("/data/p/20260101000000000.clean.requested", "p"),
    ],
)
def test_plan_that_names_no_data_file_of_its_partition_is_refused(
    path: str, partition_path: str
) -> None:
    with pytest.raises(errors.FormatError, match="expected a"):
        clean_avro.decode_plan(plan_naming(path, partition_path))


def test_file_outside_the_table_is_not_deleted() -> None:
    with pytest.raises(errors.UnsupportedError, match="execute this clean with Apache Hudi"):
        clean_avro.decode_plan(plan_naming(f"/data/p/{BASE}", is_bootstrap=True))


def test_change_data_is_deleted_with_its_slice() -> None:
    name = f"{LOG}.cdc"
    assert clean_avro.decode_plan(plan_naming(f"/data/p/{name}")).file_names == {"p": (name,)}


def test_plan_of_a_later_version_is_refused() -> None:
    content = avro_container.encode(
        timeline_schemas.CLEAN_PLAN, {"policy": "KEEP_LATEST_COMMITS", "version": 3}
    )
    with pytest.raises(errors.UnsupportedError, match="version 3"):
        clean_avro.decode_plan(content)
