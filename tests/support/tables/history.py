"""An archived timeline, made by hand: the files and manifests of its LSM tree."""

import io
import json
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from hoodie.model.instants import InstantTime
from hoodie.storage.protocol import Storage
from hoodie.timeline import archived


def put(storage: Storage, name: str, content: bytes) -> None:
    """Put a file into the history, in place of any of that name."""
    storage.delete(f"{archived.DIRECTORY}/{name}")
    storage.create(f"{archived.DIRECTORY}/{name}", content)


def put_rows(
    storage: Storage,
    *rows: tuple[InstantTime, InstantTime | None],
    actions: Mapping[InstantTime, str] | None = None,
) -> str:
    """Archive instants of these requested and completion times; return the file's name.

    Those without an action of their own are delta commits.
    """
    schema = pa.schema(
        [
            ("instantTime", pa.string()),
            ("completionTime", pa.string()),
            ("action", pa.string()),
            ("metadata", pa.binary()),
            ("plan", pa.binary()),
            pa.field("version", pa.int32(), nullable=False),
        ]
    )
    table = pa.Table.from_pylist(
        [
            {
                "instantTime": requested,
                "completionTime": completed,
                "action": (actions or {}).get(requested, "deltacommit"),
                "metadata": b"x" * 100,
                "plan": None,
                "version": 1,
            }
            for requested, completed in rows
        ],
        schema,
    )
    content = io.BytesIO()
    pq.write_table(table, content, compression="gzip")
    name = f"{rows[0][0]}_{rows[-1][0]}_0.parquet"
    put(storage, name, content.getvalue())
    return name


def put_manifest(storage: Storage, number: int, *names: str) -> None:
    """Make these files the history as of a version."""
    files = [{"fileName": name, "fileLen": 1} for name in names]
    put(storage, f"manifest_{number}", json.dumps({"files": files}).encode())
    put(storage, "_version_", str(number).encode())
