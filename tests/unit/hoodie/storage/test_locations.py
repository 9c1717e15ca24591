"""URIs of tables: one form for one place, nothing outside the allowed root."""

from pathlib import Path

import pytest

from hoodie import errors
from hoodie.storage import locations, uris
from hoodie.storage.local import LocalStorage
from hoodie.storage.memory import MemoryStorage
from hoodie.storage.objects import ObjectStorage


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("s3://bucket/a/b", "s3://bucket/a/b"),
        ("s3a://bucket//a/b/", "s3://bucket/a/b"),
        ("S3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("s3://bucket/a%20b c", "s3://bucket/a%20b c"),
        ("gcs://bucket/t", "gs://bucket/t"),
        ("abfss://c@acc.dfs.core.windows.net/t", "abfss://c@acc.dfs.core.windows.net/t"),
        ("/a//b/./c/../d/", "file:///a/b/d"),
        ("t", "file:///here/t"),
        ("file:/a%2520b", "file:///a%2520b"),
        ("memory://name/t", "memory://name/t"),
    ],
)
def test_uri_has_one_form(uri: str, expected: str) -> None:
    location = uris.parse(uri, working_directory="/here")
    assert str(location) == expected
    assert uris.parse(expected, working_directory="/elsewhere") == location


def test_plain_text_escapes_nothing() -> None:
    assert uris.parse("file:///a%20b%25", working_directory="/").plain_text == "file:///a b%"


@pytest.mark.parametrize(
    "uri",
    ["", "\0", "/a\0b", "file://host/a", "file:a", "file:///%ff", "file:///a%00b", "s3:///a"],
)
def test_malformed_uri_is_invalid_input(uri: str) -> None:
    with pytest.raises(errors.InvalidInputError):
        locations.open_storage(uri)


@pytest.mark.parametrize(
    ("uri", "meant"),
    [
        ("s3:/bucket/x", "s3://bucket/x"),
        ("s3:bucket/x", "s3://bucket/x"),
        ("S3A:/bucket/x", "s3a://bucket/x"),
        ("memory:/t", "memory://t"),
        ("hdfs:/node/x", "hdfs://node/x"),
    ],
)
def test_uri_that_lacks_a_slash_is_no_local_folder(uri: str, meant: str) -> None:
    with pytest.raises(errors.InvalidInputError, match=f"write {meant}, or begin with ./"):
        uris.parse(uri, working_directory="/work")
    folder = uris.parse(f"./{uri}", working_directory="/work")
    assert (folder.scheme, folder.path) == (uris.LOCAL, f"work/{uri}")


def test_colon_in_a_local_name_is_no_scheme() -> None:
    assert uris.parse("day:1", working_directory="/work").path == "work/day:1"


@pytest.mark.parametrize("scheme", ["abfs", "abfss"])
def test_account_of_azure_without_its_domain_is_refused(scheme: str) -> None:
    with pytest.raises(errors.InvalidInputError) as caught:
        uris.parse(f"{scheme}://c@acc/t", working_directory="/")
    assert f"write {scheme}://c@acc.dfs.core.windows.net/PATH" in str(caught.value)
    uris.parse(f"{scheme}://c@acc.dfs.core.windows.net/t", working_directory="/")
    uris.parse(f"{scheme}://c/t", working_directory="/")


def test_dots_in_an_object_uri_are_invalid_input() -> None:
    with pytest.raises(errors.InvalidInputError, match=r"'\.\.'"):
        locations.open_storage("s3://bucket/a/../b")


def test_unknown_scheme_is_unsupported_and_known_ones_are_named() -> None:
    with pytest.raises(errors.UnsupportedError, match=r"scheme hdfs: expected one of .*file.*s3"):
        locations.open_storage("hdfs://host/a")


def test_credentials_are_refused_and_not_repeated() -> None:
    with pytest.raises(errors.InvalidInputError) as caught:
        locations.open_storage("s3://KEY:SECRET@bucket/t")
    assert "SECRET" not in str(caught.value)
    with pytest.raises(errors.InvalidInputError) as caught:
        locations.open_storage("s3:/KEY:SECRET@bucket/t")
    assert "SECRET" not in str(caught.value)
    assert "KEY" not in str(caught.value)


def test_scheme_decides_the_storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    assert isinstance(locations.open_storage(str(tmp_path)), LocalStorage)
    assert isinstance(locations.open_storage("memory://a"), MemoryStorage)
    s3 = locations.open_storage("s3a://bucket/t")
    assert isinstance(s3, ObjectStorage)
    assert s3.uri == "s3://bucket/t"


def test_memory_uri_names_one_store_while_somebody_holds_it() -> None:
    first = locations.open_storage("memory://shared/t")
    first.create("file", b"x")
    assert locations.open_storage("memory://shared/t").read("file") == b"x"
    assert locations.open_storage("memory://shared/u").list("") == []
    del first
    assert locations.open_storage("memory://shared/t").list("") == []


def test_table_outside_the_allowed_root_is_refused(tmp_path: Path) -> None:
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    (tmp_path / "allowed-not").mkdir()
    (allowed / "link").symlink_to(tmp_path / "allowed-not")
    locations.open_storage(str(allowed), allowed_roots=(str(allowed),))
    locations.open_storage(f"{allowed}/a/b", allowed_roots=(f"file://{allowed}/",))
    locations.open_storage(f"{allowed}/a/b", allowed_roots=("/",))
    for env in (
        str(tmp_path),
        f"{tmp_path}/allowed-not",
        f"{allowed}/../x",
        f"file://{allowed}/%2e%2e/x",
        f"{allowed}/link",
        f"{allowed}/link/t",
        "s3://bucket/t",
    ):
        with pytest.raises(errors.InvalidInputError, match="outside the allowed root"):
            locations.open_storage(env, allowed_roots=(str(allowed),))


def test_allowed_root_in_a_bucket_ends_at_a_slash() -> None:
    locations.open_storage("memory://b/lake/t", allowed_roots=("memory://b/lake",))
    for env in ("memory://b/lakes/t", "memory://c/lake/t", "memory://b"):
        with pytest.raises(errors.InvalidInputError, match="outside the allowed root"):
            locations.open_storage(env, allowed_roots=("memory://b/lake",))
