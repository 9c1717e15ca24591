"""Writes docs/settings.md: every `hoodie.*` key that is honoured, from the code that honours it."""

import dataclasses
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from hoodie.cli import run_settings
from hoodie.model import settings
from hoodie.transaction.locks import hudi_options

PAGE = Path(__file__).parents[1] / "docs" / "settings.md"

MANIFEST_FIELDS = {
    "concurrency": "HudiTable concurrency.mode",
    "conflict_retries_max": "HudiTable concurrency.conflictRetries",
    "conflict_strategy": "HudiTable concurrency.conflictResolution",
    "detects_conflicts_early": "HudiTable concurrency.earlyConflictDetection",
    "early_detection": "HudiTable concurrency.earlyConflictDetection",
    "acknowledges_order_dependence": "HudiTable concurrency.acknowledgeOrderDependence",
    "clock_skew_ms_max": "HudiTable concurrency.clockSkew",
    "clock_wait_ms": "HudiTable concurrency.externalWriters",
    "heartbeat_interval_ms": "HudiTable concurrency.heartbeatInterval",
    "log_block_format": "HudiTable files.logBlockFormat",
    "log_file_bytes_max": "HudiTable files.logFileSize",
    "parquet_codec": "HudiTable files.codec",
    "lock_wait_ms": "LockProvider acquireTimeout",
    "adds_columns": "Writer source.files.addColumns",
}
"""Kind and path of the manifest field that gives a setting, by the setting's name."""

_HEAD = """# Settings

Made by `make generate`. Every key stands for `--set KEY=VALUE` of the commands, under the name that
Apache Hudi gives it, so that the options of a writer of Apache Hudi can be passed on as they are.
Manifests say the same by fields of their own; what has none is at its default there. An unknown key
is refused and named, and so is a value that is none of its key.
"""
_WRITERS = """## Of writers and table services

They are to be equal for everything that writes a table. `hoodie.operator.` is ours; the rest are
Apache Hudi's.
"""
_LOCKS = """## Of the table lock

With `hoodie.write.lock.provider`, instead of `--lock ADDRESS`; [locks.md](locks.md) tells about
each. Keys of another provider are refused. Manifests have a LockProvider.
"""
_FACTS = """## Facts about the table

They change nothing and must agree with the table: a wrong one is refused.
"""
_REFUSED = """## Refused, by name

"""


def page() -> str:
    """Return the page."""
    return "\n".join(
        (
            _HEAD,
            _WRITERS,
            _table(("key", "default", "meaning", "in manifests"), _settings()),
            _LOCKS,
            _table(("key", "default", "meaning", "of"), _locks()),
            _FACTS,
            _table(("key", "what"), ((f"`{key}`", each[0]) for key, each in _facts())),
            _REFUSED
            + _table(("key", "why"), ((f"`{key}`", why) for key, why in _refused())).rstrip("\n"),
            "",
        )
    )


def _settings() -> Iterable[Sequence[str]]:
    for key in settings.KEYS:
        names = ", or ".join(f"`{name}`" for name in (key.name, *key.aliases))
        yield names, default_of(key), key.meaning, MANIFEST_FIELDS.get(key.field or "", "-")


def default_of(key: settings.Key) -> str:
    """Return the text of a key's default."""
    if key.default is not None:
        return key.default
    return settings.to_properties(settings.WriteSettings())[key.name]


def _locks() -> Iterable[Sequence[str]]:
    for key in hudi_options.KEYS:
        providers = ", ".join(name.removesuffix("LockProvider") for name in key.providers)
        yield f"`{key.name}`", key.default or "-", key.meaning, providers or "all"


def _facts() -> Iterable[tuple[str, tuple[str, object]]]:
    return run_settings.FACTS.items()


def _refused() -> Iterable[tuple[str, str]]:
    return run_settings.REFUSED.items()


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def unlisted() -> set[str]:
    """Return the settings that no key sets."""
    fields = {field.name for field in dataclasses.fields(settings.WriteSettings)}
    return fields - {key.field for key in settings.KEYS}


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE.name}: {len(settings.KEYS) + len(hudi_options.KEYS)} keys\n")
