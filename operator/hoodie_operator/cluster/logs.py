"""Logs as JSON, a line each, that name what they are about: object, reason, table, instant."""

import json
import logging
import sys

import aiohttp

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


class Refusals(logging.Handler):
    """Takes a library's records of refusals by the API server, and passes on all others.

    A refusal is no bug: where the library was called from tells nothing, and several of its layers
    log the same one.

    Attributes:
        first: The message of the first one; empty while there is none.
    """

    def __init__(self, library: str) -> None:
        """Take the errors of the loggers of a library, and none of their lesser records."""
        super().__init__(logging.ERROR)
        self.first = ""
        logger = logging.getLogger(library)
        logger.setLevel(logging.ERROR)
        logger.handlers = [self]
        logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message of a refusal; have every other record logged."""
        error = record.exc_info[1] if record.exc_info else None
        causes = (error, None if error is None else error.__cause__)
        if any(isinstance(each, aiohttp.ClientResponseError) for each in causes):
            self.first = self.first or record.getMessage()
        else:
            logging.getLogger().handle(record)
