"""What tests of the command line share: answers, and the table of trips that they are about."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a command gave."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:  # noqa: ANN401 - of any shape
        """The one JSON document on standard output."""
        assert self.out.count("\n") == 1, f"expected one line: {self.out}"
        return json.loads(self.out)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Answer]

SCHEMA = {
    "type": "record",
    "name": "trip",
    "fields": [
        {"name": "id", "type": "string"},
        *(
            {"name": name, "type": ["null", kind], "default": None}
            for name, kind in (
                ("city", "string"),
                ("fare", "double"),
                ("seats", "int"),
                ("updated_at", "long"),
                ("day", {"type": "int", "logicalType": "date"}),
                ("at", {"type": "long", "logicalType": "timestamp-micros"}),
            )
        ),
    ],
}
"""Of trips."""

TRIPS = """id,city,fare,seats,updated_at,day,at
a,Rome,10.5,1,1,2013-01-01,2013-01-01T05:00:00Z
b,Oslo,,2,1,2013-01-02,
c,Rome,7,,1,,
"""


def put(path: Path, content: str) -> Path:
    """Put a file in place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path
