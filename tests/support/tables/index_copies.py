"""Copies of one table, of which each has its indexes built in another way."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from hoodie.filegroup import metadata_table
from hoodie.format import file_names, hfile_reading
from hoodie.model import files


def copied(path: Path, name: str) -> Path:
    """Copy a table beside itself, lock files and all."""
    return Path(shutil.copytree(path, path.with_name(name)))


def base_files(path: Path, name: str) -> Mapping[str, pa.Table]:
    """Return keys and values of the base files of an index, by the ids of their file groups."""
    found = {}
    for each in (path / ".hoodie" / "metadata" / name).iterdir():
        parsed = file_names.parse_new(
            f"{name}/{each.name}", each.stat().st_size, metadata_table.EXTENSION
        )
        if isinstance(parsed, files.BaseFile):
            assert parsed.group.file_id not in found
            reader = hfile_reading.Reader.over(each.name, each.read_bytes())
            found[parsed.group.file_id] = pa.Table.from_batches(
                list(reader.scan())
            ).combine_chunks()
    return found
