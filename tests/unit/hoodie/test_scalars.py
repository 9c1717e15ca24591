"""Scalars are those of Arrow, whatever is installed."""

import subprocess
import sys

import pyarrow as pa
import pytest

from hoodie.model import scalars


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("", None),
        ("a\0\U0001f600", pa.string()),
        ("a", pa.large_string()),
        (b"", pa.binary()),
        (b"\xff\0", None),
        (b"ab", pa.binary(2)),
        (0, None),
        (-(1 << 63), pa.int64()),
        ((1 << 63) - 1, None),
        (7, pa.int32()),
        (7, pa.float64()),
        (True, None),
        (True, pa.bool_()),
        (-0.0, None),
        (5e-324, pa.float64()),
        (float("-inf"), pa.float64()),
        (1.5, pa.float32()),
        (None, pa.int64()),
    ],
)
def test_scalar_is_that_of_arrow(value: object, kind: pa.DataType | None) -> None:
    found, expected = scalars.scalar(value, kind), pa.scalar(value, kind)
    assert (found.type, found.is_valid) == (expected.type, expected.is_valid)
    assert (repr(found), found.equals(expected)) == (repr(expected), True)
    found.validate(full=True)


@pytest.mark.parametrize(
    ("value", "kind"),
    [(1 << 63, None), (1 << 63, pa.int64()), ("a", pa.int64()), (1.5, pa.string())],
)
def test_what_is_no_scalar_is_refused_as_by_arrow(value: object, kind: pa.DataType | None) -> None:
    with pytest.raises((pa.ArrowException, OverflowError)) as expected:
        pa.scalar(value, kind)
    with pytest.raises(type(expected.value)):
        scalars.scalar(value, kind)


_PROGRAM = """
import sys
from hoodie.model import scalars
for value in ("a", b"a", 1, 1.5):
    scalars.scalar(value)
print("pandas" in sys.modules)
"""


def test_scalars_of_plain_values_need_no_pandas() -> None:
    found = subprocess.run(
        [sys.executable, "-c", _PROGRAM], check=True, capture_output=True, text=True
    )
    assert found.stdout == "False\n"
