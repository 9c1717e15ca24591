"""Change data as Apache Hudi's own reader returns it, in one form with ours.

Begin and end of a CDC query of Apache Hudi 1.2.0 are requested times, unlike those of its other
incremental queries: begin is exclusive, end inclusive. Images come as JSON, no row as null or as
the text of one. Of a write that replaces file groups it has a delete and an insert where a key is
in the old ones and in the new ones; that counts as an update here.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from support.peer.judge import Judge, Query, QueryType

CDC = {"hoodie.datasource.query.incremental.format": "cdc"}


def captured(mode: str) -> dict[str, str]:
    """Return the options of a table that captures change data."""
    return {
        "hoodie.table.cdc.enabled": "true",
        "hoodie.table.cdc.supplemental.logging.mode": mode,
    }


class Change(NamedTuple):
    """One change: the write's requested time, the operation, and images as sorted items."""

    time: str
    op: str
    before: tuple[tuple[str, Any], ...] | None
    after: tuple[tuple[str, Any], ...] | None


def of_judge(judge: Judge, path: Path, begin: str = "000", end: str | None = None) -> list[Change]:
    """Return what Apache Hudi says has changed, sorted."""
    query = Query(type=QueryType.INCREMENTAL, begin=begin, end=end, options=CDC)
    rows = judge.read(path, query, meta_columns=True).to_pylist()
    return _sorted(
        Change(
            time=row["ts_ms"],
            op=row["op"],
            before=_image(row["before"] and json.loads(row["before"])),
            after=_image(row["after"] and json.loads(row["after"])),
        )
        for row in rows
    )


def of_rows(rows: pa.Table) -> list[Change]:
    """Return what our reader says has changed, sorted."""
    return _sorted(
        Change(
            time=row["ts_ms"],
            op=row["op"],
            before=_image(row["before"]),
            after=_image(row["after"]),
        )
        for row in rows.to_pylist()
    )


def of_pairs(found: Iterable[Change]) -> list[Change]:
    """Return changes with a delete and an insert of one key by one write as an update."""
    by_key: dict[tuple[Any, ...], list[Change]] = {}
    for each in found:
        image = dict(each.after or each.before or ())
        by_key.setdefault((each.time, image["id"], image.get("part")), []).append(each)
    merged = []
    for same in by_key.values():
        if sorted(each.op for each in same) == ["d", "i"]:
            gone, came = sorted(same)
            merged.append(came._replace(op="u", before=gone.before))
        else:
            merged += same
    return _sorted(merged)


def _image(row: Mapping[str, Any] | None) -> tuple[tuple[str, Any], ...] | None:
    """Return an image without meta columns, and without nulls, which JSON leaves out."""
    if row is None:
        return None
    return tuple(
        sorted(
            (name, value)
            for name, value in row.items()
            if not name.startswith("_hoodie_") and value is not None
        )
    )


def _sorted(found: Iterable[Change]) -> list[Change]:
    return sorted(found, key=repr)
