"""Rows whose keys are in file groups of no bucket go to those groups.

Such groups hold any keys of their partition (`index.foreign_groups`). Written into the group of its
bucket, a row of such a key would be in the table twice, and a delete would delete nothing. So the
keys of these groups are looked up, on a timeline newer than the write's begin: what changes them
after the look is a conflict in every mode (`write.conflicts`).

Cost, where a partition has such groups: a snapshot, and a read of their keys.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.filegroup import reading, snapshots
from hoodie.model import commits, files, schemas, table_config
from hoodie.storage import protocol
from hoodie.write import batches

KeysOf = Callable[[str], Mapping[str, pa.ChunkedArray]]
"""Returns the keys in each group of no bucket of a partition, by file id; empty without any."""


def routed(batch: batches.Batch, operation: commits.Operation, keys_of: KeysOf) -> batches.Batch:
    """Return a batch with the rows of such keys split off.

    A key that another engine has put into several groups is written to each of no bucket; a delete
    goes to the group of its bucket as well.
    """
    groups: list[batches.GroupRows] = []
    split: dict[tuple[str, str], list[np.ndarray]] = {}
    for group in batch.groups:
        held = keys_of(group.partition_path)
        keys = batch.record_keys.take(pa.array(group.rows)) if held else None
        is_split = np.zeros(len(group.rows), bool)
        for file_id, present in held.items():
            is_in = pc.is_in(keys, value_set=present).to_numpy(zero_copy_only=False)
            if is_in.any():
                split.setdefault((group.partition_path, file_id), []).append(group.rows[is_in])
                is_split |= is_in
        stays = group.rows if operation is commits.Operation.DELETE else group.rows[~is_split]
        if len(stays):
            groups.append(replace(group, rows=stays))
    groups += [
        batches.GroupRows(
            partition_path=partition_path,
            bucket=batches.NO_BUCKET,
            file_id=file_id,
            rows=np.sort(np.concatenate(parts)),
        )
        for (partition_path, file_id), parts in split.items()
    ]
    return replace(batch, groups=tuple(groups))


def read_keys(
    storage: protocol.Storage,
    config: table_config.TableConfig,
    schema: schemas.TableSchema,
    wanted: Mapping[str, list[files.FileGroupId]],
) -> KeysOf:
    """Return the keys of some groups as the table is now; none of a group that was retired since.

    Args:
        storage: The table's.
        config: The table's configuration.
        schema: The table's columns.
        wanted: The groups of no bucket, by partition.
    """
    found: dict[str, dict[str, pa.ChunkedArray]] = {}
    if any(wanted.values()):
        snapshot = snapshots.take(storage, config)
        reader = reading.SliceReader(storage, config, schema, snapshot.committed.is_committed)
        for partition_path, groups in wanted.items():
            for file_slice in snapshot.view.latest_slices(partition_path) if groups else ():
                if file_slice.group in groups:
                    keys = reader.read(file_slice, [schemas.RECORD_KEY])
                    by_id = found.setdefault(partition_path, {})
                    by_id[file_slice.group.file_id] = keys.column(schemas.RECORD_KEY)
    return lambda partition_path: found.get(partition_path, {})
