"""A first manifest for files that somebody has: a table of their columns, and a Writer of them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import yaml

from hoodie.model import column_types, schemas
from hoodie_operator.api import group, hudi_table

_LOCK = "lock-files"
_FOLDER = "lake"
"""Of tables, below the data root: the input may be in a folder of the table's name."""
_IN_A_LINE_MAX = 2
_COMMENTS = {
    "LockProvider": (
        "Files as locks are enough for one machine. On a cluster: type: ZooKeeper, or Storage for "
        "a bucket."
    ),
    "HudiTable": (
        "What all writers of the table must agree on. keys, writeIndex and tableType cannot be "
        "changed once it is there."
    ),
    "Writer": "Each file is written once; new files are found by themselves.",
    "CompactionPolicy": "Merges log files into base files, so that reads stay fast.",
    "RetentionPolicy": "Deletes old versions of files, and archives old commits.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What a manifest is made of.

    Attributes:
        name: Of the table, and of what goes with it.
        columns: The table's.
        record_key: Columns that identify a row.
        partition_by: Columns; empty for none.
        ordering: Columns, the greater value of which wins; empty for the later write.
        table_type: How updates are stored.
        source: `spec.source.files` of the Writer.
    """

    name: str
    columns: pa.Schema
    record_key: Sequence[str]
    partition_by: Sequence[str]
    ordering: Sequence[str]
    table_type: hudi_table.TableType
    source: Mapping[str, Any]


def text(draft: Draft) -> str:
    """Return the manifests as YAML, with a comment above each.

    Raises:
        InvalidInputError: A column's name is none that a table can have.
        UnsupportedError: A column's type has no form in a table.
    """
    is_mor = draft.table_type is hudi_table.TableType.MERGE_ON_READ
    parts = [
        _object("LockProvider", _LOCK, {"type": "FileSystem"}),
        _object("HudiTable", draft.name, _table(draft, is_mor=is_mor)),
        _object("Writer", draft.name, _writer(draft)),
    ]
    if is_mor:
        policy = {"target": {"tableRef": {"name": draft.name}}, "triggers": {"deltaCommits": 5}}
        parts.append(_object("CompactionPolicy", draft.name, policy))
    retention = {
        "target": {"tableRef": {"name": draft.name}},
        "cleaning": {"keep": {"hours": 48}, "readerGrace": "1h"},
        "archiving": {"minCommits": 40, "maxCommits": 60},
    }
    parts.append(_object("RetentionPolicy", draft.name, retention))
    return "---\n".join(parts)


def _table(draft: Draft, *, is_mor: bool) -> dict[str, Any]:
    keys: dict[str, Any] = {"recordFields": list(draft.record_key)}
    if draft.partition_by:
        keys["partitionFields"] = list(draft.partition_by)
    if draft.ordering:
        keys["orderingFields"] = list(draft.ordering)
    # Only these need no second look at a mode: non-blocking writers are of buckets and logs.
    mode = "NonBlocking" if is_mor else "Optimistic"
    spec: dict[str, Any] = {
        "storage": {"path": f"{_FOLDER}/{draft.name}"},
        "tableType": draft.table_type.value,
        "schema": _schema(draft),
        "keys": keys,
        "writeIndex": {"bucket": {"count": 4}},
        "concurrency": {"mode": mode, "lockRef": {"name": _LOCK}},
    }
    if draft.ordering:
        spec["merge"] = {"mode": "EventTime"}
    return spec


def _schema(draft: Draft) -> dict[str, Any]:
    named = [(each.name, column_types.name_of(each.type)) for each in draft.columns]
    if all(kind is not None for _, kind in named):
        return {"columns": [{"name": name, "type": kind} for name, kind in named]}
    avro = schemas.from_arrow(draft.columns, draft.name).avro
    return {"avro": json.dumps(json.loads(avro), indent=1)}


def _writer(draft: Draft) -> dict[str, Any]:
    return {"tableRef": {"name": draft.name}, "source": {"files": dict(draft.source)}}


def _object(kind: str, name: str, spec: dict[str, Any]) -> str:
    document = {
        "apiVersion": group.API_VERSION,
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }
    return f"# {_COMMENTS[kind]}\n" + yaml.dump(
        document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100
    )


class _Dumper(yaml.SafeDumper):
    """Writes what people would write: columns and short lists in a line, long texts as blocks."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indent the items of lists, too."""
        del indentless
        super().increase_indent(flow, indentless=False)

    def represent_text(self, value: str) -> yaml.Node:
        """Return a text of several lines as a block."""
        style = "|" if "\n" in value else None
        return self.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    def represent_items(self, value: Sequence[Any]) -> yaml.Node:
        """Return a list of texts in one line, and one of mappings with a line for each."""
        is_short = all(isinstance(each, str) for each in value)
        return self.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=is_short)

    def represent_parts(self, value: Mapping[str, Any]) -> yaml.Node:
        """Return a mapping of two or fewer short values in one line."""
        is_short = len(value) <= _IN_A_LINE_MAX and all(
            isinstance(each, (str, int)) for each in value.values()
        )
        is_block = any("\n" in str(each) for each in value.values())
        return self.represent_mapping(
            "tag:yaml.org,2002:map", value.items(), flow_style=is_short and not is_block
        )


_Dumper.add_representer(str, _Dumper.represent_text)
_Dumper.add_representer(list, _Dumper.represent_items)
_Dumper.add_representer(dict, _Dumper.represent_parts)
