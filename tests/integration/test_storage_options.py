"""A table in a bucket of which only the caller knows the credentials: no environment has them."""

import os
import pickle
import subprocess
import sys

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.table import StaticTable

import hoodie
from hoodie import errors
from hoodie.maintenance.cleaning import service
from support.servers import aws_server as servers

COLUMNS = {"id": pa.string(), "city": pa.string(), "n": pa.int64()}
ROWS = [{"id": str(n), "city": "ab"[n % 2], "n": n} for n in range(10)]


@pytest.fixture
def options(aws_server: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    for name in [each for each in os.environ if each.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    servers.make_bucket(aws_server, "options")
    return {name.lower(): value for name, value in servers.settings(aws_server).items()}


def test_every_part_of_a_table_is_opened_with_the_options(options: dict[str, str]) -> None:
    uri = "s3://options/lake/trips"
    made = hoodie.create_table(
        uri,
        COLUMNS,
        "id",
        partition_by="city",
        buckets=2,
        foreign_writers=False,
        storage_options=options,
        settings={"hoodie.compact.inline.max.delta.commits": "1"},
    )
    made.upsert(ROWS)
    made.update({"n": 100}, "n = 3")
    made.delete(keys=["4"])
    opened = hoodie.open_table(uri, options)
    assert opened.scan().count() == 9
    assert opened.scan(["id"], pc.field("n") == 100).to_arrow().to_pylist() == [{"id": "3"}]
    # Tasks of services, of changes and of fragments, which other processes may run.
    assert opened.maintain.compact().instants or made.maintain.compact().instants
    doomed = service.DeleteTask(table_uri=opened.uri, paths=("a file that is not there",))
    assert service.delete(pickle.loads(pickle.dumps(doomed))) == 1
    assert opened.maintain.clean(dry_run=True).is_dry_run
    changed = opened.changes()
    assert changed.read().read_all().num_rows == 9
    fragments = [pickle.loads(pickle.dumps(each)) for each in opened.dataset().get_fragments()]
    assert sum(each.count_rows() for each in fragments) == 9
    assert opened.check(opened._writer.transaction.settings) == []
    there = subprocess.run(
        [
            sys.executable,
            "-c",
            "import pickle, sys; print(pickle.load(sys.stdin.buffer).to_table().num_rows)",
        ],
        input=pickle.dumps(opened.dataset().filter(pc.field("city") == "a")),
        capture_output=True,
        check=True,
    )
    assert there.stdout.strip() == b"4"
    assert "secret" not in repr(opened) + repr(opened.scan()) + opened.uri


def test_a_mirror_is_written_with_the_options_and_has_none_of_them(
    options: dict[str, str],
) -> None:
    uri = "s3://options/lake/mirrored"
    made = hoodie.create_table(
        uri, COLUMNS, "id", table_type="cow", foreign_writers=False, storage_options=options
    )
    made.upsert(ROWS)
    location = made.maintain.mirror().detail.location
    known = {
        "s3.endpoint": options["aws_endpoint_url"],
        "s3.access-key-id": options["aws_access_key_id"],
        "s3.secret-access-key": options["aws_secret_access_key"],
        "s3.region": options["aws_region"],
    }
    found = StaticTable.from_metadata(uri, known)
    assert found.metadata_location == location
    assert found.scan().to_arrow().num_rows == 10
    assert options["aws_secret_access_key"] not in found.metadata.model_dump_json()


@pytest.mark.parametrize("given", [{}, {"timeout": "30s"}, {"aws_region": "us-east-1"}])
def test_what_options_leave_open_the_environment_says(bucket: str, given: dict[str, str]) -> None:
    uri = f"s3://{bucket}/trips"
    made = hoodie.create_table(uri, COLUMNS, "id", storage_options=given, foreign_writers=False)
    made.upsert(ROWS)
    assert hoodie.open_table(uri, given).scan().count() == len(ROWS)


def test_without_the_options_nothing_is_found(options: dict[str, str]) -> None:
    hoodie.create_table("s3://options/other", COLUMNS, "id", storage_options=options)
    wrong = {**options, "aws_endpoint_url": "http://127.0.0.1:9"}
    with pytest.raises(errors.StorageError):
        hoodie.open_table("s3://options/other", {**wrong, "aws_timeout": "1s"})
