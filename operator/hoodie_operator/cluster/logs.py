"""Logs as JSON, a line each, that name what they are about: object, reason, table, instant."""

import json
import logging
import sys

from hoodie_operator.api import objects, times

_FIELDS = ("kind", "namespace", "name", "reason", "table", "instant", "action")


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line = {
            "time": times.text(int(record.created * 1000)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name in _FIELDS:
            value = getattr(record, f"hudi_{name}", None)
            if value is not None:
                line[name] = value
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def about(
    key: objects.ObjectKey,
    reason: str = "",
    *,
    table: str | None = None,
    instant: str | None = None,
    action: str | None = None,
) -> dict[str, str | None]:
    """Return what a record is about, for `extra`.

    Args:
        key: The object.
        reason: Why, in a word.
        table: URI of the table.
        instant: Requested time of the instant.
        action: What is done to the table.
    """
    fields = {
        "kind": key.kind,
        "namespace": key.namespace,
        "name": key.name,
        "reason": reason or None,
        "table": table,
        "instant": instant,
        "action": action,
    }
    return {f"hudi_{name}": value for name, value in fields.items()}


def to_stderr(level: int = logging.INFO) -> None:
    """Write all logs to stderr as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
