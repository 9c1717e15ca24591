"""Each row of JSON is written or rejected, whatever is wrong with the others."""

import json
import tempfile
from pathlib import Path

import pyarrow as pa
from hypothesis import assume, given
from hypothesis import strategies as st

from hoodie import errors
from hoodie.contract import input_sources
from hoodie.sources import local_files

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("t", pa.string()),
        pa.field("day", pa.date32()),
        pa.field("l", pa.list_(pa.int32())),
    ]
)
SOURCE = input_sources.Source(format=input_sources.SourceFormat.JSON)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "x", "2020-02-29", "2020-02-30", 'a"b,\\', "7"]),
    st.lists(st.integers(0, 2**33), max_size=2),
)
ROWS = st.dictionaries(st.sampled_from(["id", "t", "day", "l", "u"]), VALUES)
LINES = st.lists(
    st.one_of(
        ROWS.map(json.dumps),
        st.integers(0, 9).map(lambda number: json.dumps({"id": number, "t": str(number)})),
        st.sampled_from(["", "{", "[1]", "7", "null", '{"id": 1, "id": 2}']),
    ),
    max_size=12,
)


class Rejected:
    """Keeps the numbers of rows, as the command's file does, but for those that are malformed."""

    def __init__(self) -> None:
        self.malformed: list[int] = []
        self.others: list[int] = []

    def add_malformed(self, file: str, number: int, text: str, problem: str) -> None:
        assert problem, (file, text)
        self.malformed.append(number)

    def add(self, file: str, number: int, column: str, problem: str, fields: object) -> None:
        assert problem, (file, column, fields)
        self.others.append(number)


def is_taken(folder: Path, line: str) -> bool:
    one = folder / "one.json"
    one.write_text(line)
    try:
        local_files.read([str(one)], SOURCE, SCHEMA)
    except errors.InvalidInputError:
        return False
    return True


@given(LINES)
def test_rows_are_written_or_rejected_as_each_would_be_alone(lines: list[str]) -> None:
    rows = [line for line in lines if line]
    assume(not rows or not rows[0].startswith("["))  # Else the file is an array of rows.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "all.json"
        path.write_text("\n".join(lines))
        rejects = Rejected()
        kept = local_files.stream([str(path)], SOURCE, SCHEMA, rejects).read_all()
        taken = [is_taken(folder, row) for row in rows]
    wellformed = [number for number in range(len(rows)) if number not in rejects.malformed]
    rejected = {*rejects.malformed, *(wellformed[number] for number in rejects.others)}
    assert len(rejected) == len(rejects.malformed) + len(rejects.others)
    assert kept.num_rows + len(rejected) == len(rows)
    assert sorted(rejected) == [number for number, fits in enumerate(taken) if not fits]
