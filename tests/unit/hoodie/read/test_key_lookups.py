"""Which record keys a filter asks for."""

from dataclasses import replace

import pyarrow as pa
import pytest

from hoodie.model import table_config
from hoodie.read import key_lookups, where

SCHEMA = pa.schema(
    [("id", pa.string()), ("line", pa.int32()), ("price", pa.float64()), ("part", pa.string())]
)
ONE = table_config.TableConfig(
    name="t", record_key_fields=("id",), partition_fields=("part",), bucket_count=2
)
WHOLE = replace(ONE, record_key_fields=("line",))
BOTH = replace(ONE, record_key_fields=("id", "line"))
ASKED = [
    (ONE, "id = 'a'", ["a"]),
    (ONE, "id in ('b', 'a') and price > 1", ["a", "b"]),
    (ONE, "id in ('b', 'a') and id in ('b', 'c')", ["b"]),
    (ONE, "id = 'a' and id = 'b'", []),
    (ONE, "id = 'a' or id = 'b'", None),
    (ONE, "not id = 'a'", None),
    (ONE, "id > 'a'", None),
    (ONE, "id = ''", None),
    (ONE, "price = 1", None),
    (WHOLE, "line in (7, -1)", ["-1", "7"]),
    (BOTH, "id = 'a'", None),
    (BOTH, "id = 'a' and line in (1, 2)", ["id:a,line:1", "id:a,line:2"]),
    (replace(ONE, record_key_fields=("price",)), "price = 1", None),
    (replace(ONE, record_key_fields=("gone",)), "price = 1", None),
    (replace(ONE, record_key_fields=()), "id = 'a'", None),
]


@pytest.mark.parametrize(("config", "text", "expected"), ASKED)
def test_keys_of_a_filter(
    config: table_config.TableConfig, text: str, expected: list[str] | None
) -> None:
    found = key_lookups.keys_of(where.parse(text), config, SCHEMA)
    assert (None if found is None else found.to_pylist()) == expected


def test_no_filter_and_very_many_keys_ask_for_none() -> None:
    assert key_lookups.keys_of(None, ONE, SCHEMA) is None
    texts = ", ".join(f"'{number}'" for number in range(101))
    numbers = ", ".join(map(str, range(101)))
    predicate = where.parse(f"id in ({texts}) and line in ({numbers})")
    assert key_lookups.keys_of(predicate, BOTH, SCHEMA) is None
    found = key_lookups.keys_of(predicate, ONE, SCHEMA)
    assert found is not None
    assert len(found) == 101


def test_keys_that_releases_of_hudi_make_differently_are_not_asked() -> None:
    complex_keys = replace(ONE, properties={"hoodie.table.keygenerator.type": "COMPLEX"})
    assert key_lookups.keys_of(where.parse("id = 'a'"), complex_keys, SCHEMA) is None


def test_single_key_of_complex_is_asked_as_it_is_encoded() -> None:
    named = replace(
        ONE,
        properties={
            "hoodie.table.keygenerator.type": "COMPLEX",
            "hoodie.table.initial.version": "9",
        },
    )
    found = key_lookups.keys_of(where.parse("id in ('b', 'a')"), named, SCHEMA)
    assert found is not None
    assert found.to_pylist() == ["id:a", "id:b"]
