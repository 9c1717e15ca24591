"""Keys of tables whose index does not parse them: written, and no two different ones are one."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hoodie import errors
from hoodie.model import key_generators, table_config
from hoodie.write import keys

FIELDS = ("a", "b", "ab")
# Texts have the separators and the names of fields in them.
TEXTS = st.lists(st.sampled_from(["a", "b", ":", ",", ",b:", ",ab:"]), max_size=4).map("".join)
ROWS = st.tuples(TEXTS, TEXTS, TEXTS)
CONFIG = table_config.TableConfig(
    name="t", record_key_fields=FIELDS, index=table_config.IndexKind.SIMPLE
)


def key_of(row: tuple[str, ...]) -> str | None:
    table = pa.table({name: [text] for name, text in zip(FIELDS, row, strict=True)})
    try:
        return str(keys.record_keys(table, CONFIG)[0])
    except errors.InvalidInputError:
        return None


@given(ROWS)
def test_rows_are_refused_only_where_a_value_goes_on_as_the_next_field_begins(
    row: tuple[str, str, str],
) -> None:
    is_ambiguous = ",b:" in row[0] or ",ab:" in row[1]
    assert (key_of(row) is None) == (is_ambiguous or not any(row))


@given(ROWS)
def test_no_two_rows_have_one_key(row: tuple[str, str, str]) -> None:
    key = key_of(row)
    if key is None:
        return
    texts = tuple(each or key_generators.EMPTY_VALUE for each in row)
    # All ways to cut the same text into fields.
    parts = key.removeprefix("a:").split(",b:")
    for place in range(1, len(parts)):
        first, rest = ",b:".join(parts[:place]), ",b:".join(parts[place:])
        others = rest.split(",ab:")
        for cut in range(1, len(others)):
            found = (first, ",ab:".join(others[:cut]), ",ab:".join(others[cut:]))
            assert found == texts or key_of(found) is None
