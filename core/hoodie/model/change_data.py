"""Change data: what each write changed, as a table may have its writes say it (RFC-51).

A change is an operation on a key with the row before and the row after it, the images. A table that
captures change data (`hoodie.table.cdc.enabled`) has them in log files of their own beside the base
files that its writes make, as much of each as its logging mode says:

    OP_KEY_ONLY        op, record_key
    DATA_BEFORE        op, record_key, before
    DATA_BEFORE_AFTER  op, ts_ms, before, after

`ts_ms` is the requested time of the write. Images have the table's columns without meta columns.

Source: RFC-51; `HoodieCDCUtils.java`, `HoodieCDCSupplementalLoggingMode.java`,
`HoodieCDCOperation.java` (1.2.0).
"""

import enum
import json

from hoodie.model import avro_types

OP = "op"
RECORD_KEY = "record_key"
TIME = "ts_ms"
BEFORE = "before"
AFTER = "after"

_KEY_ONLY = (
    '{"type":"record","name":"Record","fields":['
    '{"name":"op","type":["string","null"]},{"name":"record_key","type":["string","null"]}]}'
)


class LoggingMode(enum.Enum):
    """What change data has of a change, by the text that the table's properties have."""

    OP_KEY_ONLY = "OP_KEY_ONLY"
    DATA_BEFORE = "DATA_BEFORE"
    DATA_BEFORE_AFTER = "DATA_BEFORE_AFTER"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of its records, in order."""
        return _COLUMNS[self]


_COLUMNS = {
    LoggingMode.OP_KEY_ONLY: (OP, RECORD_KEY),
    LoggingMode.DATA_BEFORE: (OP, RECORD_KEY, BEFORE),
    LoggingMode.DATA_BEFORE_AFTER: (OP, TIME, BEFORE, AFTER),
}


class Op(enum.Enum):
    """What a change does to a key, as it is stored."""

    INSERT = "i"
    UPDATE = "u"
    DELETE = "d"


def record_schema(mode: LoggingMode, avro_json: str) -> str:
    """Return the Avro JSON of the records of a log of change data.

    Args:
        mode: The table's.
        avro_json: The columns of its data files, without meta columns.

    Raises:
        FormatError: The text is no Avro record schema.
    """
    if mode is LoggingMode.OP_KEY_ONLY:
        return _KEY_ONLY
    image = avro_types.parse_record(avro_json)
    # A named type is defined once, and named from there on.
    name = ".".join(filter(None, (image.get("namespace"), image["name"])))
    types: dict[str, object] = {BEFORE: image, AFTER: name}
    record = {
        "type": "record",
        "name": "CDC",
        **({"namespace": image["namespace"]} if image.get("namespace") else {}),
        "doc": "",
        "fields": [
            {
                "name": each,
                "type": ["null", types.get(each, "string")],
                "doc": "",
                "default": None,
            }
            for each in mode.columns
        ],
    }
    return json.dumps(record, separators=(",", ":"))
