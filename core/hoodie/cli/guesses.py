"""Commands and options that people try who come from other programs, and what is meant here.

Nothing goes by these names: the error that a wrong one ends with says the right one.
"""

import difflib
from collections.abc import Collection, Mapping
from typing import Final

_CLOSE = 0.7
"""How alike names are, one of which may be meant."""

COMMANDS: Final[Mapping[str, tuple[str, ...]]] = {
    "append": ("write",),
    "apply": ("standalone",),
    "branch": ("savepoint",),
    "cat": ("read",),
    "cdc": ("changes",),
    "columns": ("describe",),
    "commits": ("timeline",),
    "copy": ("write",),
    "diff": ("changes",),
    "dump": ("read",),
    "expire": ("clean",),
    "expire-snapshots": ("clean",),
    "export": ("read",),
    "files": ("slices",),
    "fsck": ("check",),
    "head": ("read",),
    "iceberg": ("mirror",),
    "import": ("write",),
    "info": ("describe",),
    "ingest": ("write",),
    "insert": ("write",),
    "inspect": ("describe",),
    "list": ("tables", "get"),
    "load": ("write",),
    "log": ("timeline", "logs"),
    "ls": ("tables", "get"),
    "merge": ("write",),
    "optimize": ("compact",),
    "plan": ("diff",),
    "ps": ("get",),
    "query": ("sql",),
    "remove": ("drop",),
    "repair": ("check",),
    "rm": ("drop",),
    "run": ("standalone",),
    "scan": ("read",),
    "schema": ("describe",),
    "select": ("sql",),
    "show": ("describe",),
    "snapshots": ("timeline",),
    "start": ("standalone",),
    "status": ("describe", "get"),
    "tag": ("savepoint",),
    "tail": ("read",),
    "upsert": ("write",),
    "vacuum": ("clean",),
}
"""The first that a program has is meant."""

OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "--after": ("--since",),
    "--at": ("--as-of",),
    "--bad-rows": ("--reject-file",),
    "--before": ("--until",),
    "--cols": ("--columns",),
    "--condition": ("--where",),
    "--confirm": ("--name",),
    "--decimal-comma": ("--decimal",),
    "--errors": ("--reject-file",),
    "--fields": ("--columns",),
    "--file": ("--input",),
    "--filter": ("--where",),
    "--force": ("--name",),
    "--from": ("--since",),
    "--head": ("--limit",),
    "--id": ("--record-key", "--where"),
    "--key": ("--record-key", "--where"),
    "--keys": ("--record-key", "--where"),
    "--mode": ("--operation",),
    "--na": ("--null-text",),
    "--null": ("--null-text",),
    "--order-by": ("--ordering", "--sort-by"),
    "--out": ("--output",),
    "--partitions": ("--partition-by", "--partition"),
    "--pk": ("--record-key",),
    "--precombine": ("--ordering",),
    "--predicate": ("--where",),
    "--primary-key": ("--record-key",),
    "--rejects": ("--reject-file",),
    "--rows": ("--limit",),
    "--schema": ("--columns",),
    "--select": ("--columns",),
    "--sep": ("--delimiter",),
    "--separator": ("--delimiter",),
    "--snapshot": ("--as-of",),
    "--start": ("--since",),
    "--timestamp": ("--as-of",),
    "--to": ("--until",),
    "--top": ("--limit",),
    "--types": ("--columns",),
    "--version": ("--as-of",),
    "--yes": ("--name",),
    "-c": ("--columns",),
    "-f": ("--input", "--format"),
    "-i": ("--input",),
    "-n": ("--limit",),
    "-o": ("--output",),
    "-w": ("--where",),
    "-y": ("--name",),
}
"""The first that a command has is meant."""


def meant(given: str, guessed: Mapping[str, tuple[str, ...]], names: Collection[str]) -> str | None:
    """Return which of some names is meant by one that is not among them; None if none may be."""
    found = next((each for each in guessed.get(given, ()) if each in names), None)
    if found is not None:
        return found
    close = difflib.get_close_matches(given, sorted(names), n=1, cutoff=_CLOSE)
    return close[0] if close else None
