"""The simple bucket index: format.md; with buckets that Apache Hudi 1.2.0 computed."""

import pyarrow as pa
import pytest

from hoodie import errors
from hoodie.index import bucket
from hoodie.model import table_config

# BucketIdentifier.getBucketId(key, hash fields, number of buckets) of the 1.2.0 bundle.
HUDI = [
    ("k1", "id", 8, 5),
    ("k20", "id", 256, 8),
    ("uuid-abc", "id", 16, 15),
    ("ключ", "id", 64, 25),
    ("😀", "id", 64, 2),
    ("x,y", "id", 64, 36),
    ("x:y", "id", 64, 22),
    ("id:x,y", "id", 64, 36),
    ("other:x,y", "id", 64, 58),
    (":,", "id", 64, 17),
    ("", "id", 64, 31),
    ("a:1,b:2", "a,b", 64, 34),
    ("a:1,b:2", "b,a", 64, 34),
    ("a:1,b:2", "a", 64, 16),
    ("a:1,b:2", "b", 64, 17),
    ("a:__null__,b:", "a,b", 64, 1),
    ("a:__empty__,b:7", "a,b", 64, 56),
    ("a:x:y,b:1", "a", 64, 22),
    ("a:x:y,b:1", "b", 64, 16),
    ("a:1,b:x:y", "a,b", 64, 39),
    ("a:1,b:x:y", "b", 64, 22),
    ("a:u,v,b:1", "a", 64, 30),
]


def config(
    hashed: str = "a,b", count: int | None = 64, fields: str | None = None
) -> table_config.TableConfig:
    key_fields = fields or ("id" if hashed == "id" else "a,b")
    return table_config.TableConfig(
        name="t",
        record_key_fields=tuple(key_fields.split(",")),
        hash_fields=tuple(hashed.split(",")),
        bucket_count=count,
    )


@pytest.mark.parametrize(("key", "hashed", "count", "expected"), HUDI)
def test_key_is_in_the_bucket_that_hudi_finds(
    key: str, hashed: str, count: int, expected: int
) -> None:
    assert bucket.buckets_of_keys(pa.array([key]), config(hashed, count)).tolist() == [expected]


def test_keys_of_all_kinds_are_found_together() -> None:
    keys, expected = zip(
        *((key, at) for key, hashed, _, at in HUDI if hashed == "a,b"), strict=True
    )
    assert bucket.buckets_of_keys(pa.array(keys), config()).tolist() == list(expected)
    chunked = pa.chunked_array([pa.array(keys[:2]), pa.array(keys[2:])])
    assert bucket.buckets_of_keys(chunked, config()).tolist() == list(expected)


def test_values_are_in_the_bucket_of_their_key() -> None:
    keys = pa.array(["a:1,b:2", "a:__null__,b:x", "a:__empty__,b:x", "a:é,b:__null__"])
    columns = [pa.array(["1", None, "", "é"]), pa.array(["2", "x", "x", None])]
    assert (bucket.buckets(columns, 64) == bucket.buckets_of_keys(keys, config())).all()
    assert (bucket.buckets(columns[1:], 64) == bucket.buckets_of_keys(keys, config("b"))).all()


def test_hash_fields_go_in_the_order_of_the_key() -> None:
    assert bucket.hash_fields(config("c,a", fields="a,b,c")) == ("a", "c")


def test_hash_field_outside_the_key_is_refused() -> None:
    with pytest.raises(errors.ConfigurationError, match=r"\['x'\]"):
        bucket.hash_fields(config("a,x"))


def test_table_without_number_of_buckets_is_refused() -> None:
    with pytest.raises(errors.ConfigurationError, match="number of buckets"):
        bucket.buckets_of_keys(pa.array(["k"]), config(count=None))


def test_key_that_hudi_hangs_on_is_refused() -> None:
    # Measured on 1.2.0: with the hash field a it looks for the end of b's value forever.
    with pytest.raises(errors.InvalidInputError, match="own parser would never finish"):
        bucket.buckets_of_keys(pa.array(["a:1,b:x:y"]), config("a"))


def test_no_keys_have_no_buckets() -> None:
    assert bucket.buckets_of_keys(pa.array([], pa.string()), config()).tolist() == []


def test_file_id_is_constant_but_for_the_bucket() -> None:
    # As non-blocking writers of Apache Hudi name it.
    assert bucket.file_id(3) == "00000003-0000-0000-0000-000000000000-0"
    assert bucket.bucket_of("00000003-0000-0000-0000-000000000000-0") == 3
    assert bucket.bucket_of("00000255-480d-4a95-b5bb-b9d624cfddc3-0") == 255
    assert bucket.is_bucket_file_id("00000255-480d-4a95-b5bb-b9d624cfddc3-0")


@pytest.mark.parametrize("file_id", ["", "0000000", "a0000003-480d", "-0000003", "٠٠٠٠٠٠٠٣"])
def test_file_id_without_bucket_is_a_format_error(file_id: str) -> None:
    assert not bucket.is_bucket_file_id(file_id)
    with pytest.raises(errors.FormatError, match="does not begin with a bucket"):
        bucket.bucket_of(file_id)
