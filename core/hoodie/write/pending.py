"""The records of a table as operations leave them that are not written yet.

Of several operations in one write, one that selects records by a filter sees what those before it
did: of the records that these name, the stored ones are merged with them as the write will do it;
all others are as they are stored.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.filegroup import block_decoding, changes, folding, merging, projecting
from hoodie.model import schemas, table_config
from hoodie.write import batches, composition

_KEY = "_hoodie_operator_key"
"""The record key, while the column of record keys says the partition as well."""

_META = (schemas.RECORD_KEY, schemas.PARTITION_PATH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Records of the table that one of several operations changes, or deletes.

    Attributes:
        select: Returns them as `sessions.update_selected` and `sessions.delete_selected` take them:
            as those operations leave them which it is given; None for none.
        deletes: Whether they are deleted.
    """

    select: Callable[["Pending | None"], pa.Table]
    deletes: bool


class Pending:
    """Operations that are not written yet; holds the rows of these."""

    def __init__(
        self,
        batch: batches.Batch,
        config: table_config.TableConfig,
        schema: schemas.TableSchema,
    ) -> None:
        """Take the operations.

        Args:
            batch: Of `composition.joined`.
            config: The table's configuration.
            schema: The table's columns.
        """
        self._batch = batch
        self._config = config
        self._schema = schema
        paths = np.empty(len(batch.record_keys), np.int64)
        for number, group in enumerate(batch.groups):
            paths[group.rows] = number
        names = pa.array([group.partition_path for group in batch.groups], pa.string())
        self._paths = names.take(pa.array(paths))
        self._ids = self._id(batch.record_keys, self._paths)
        self._named = pc.unique(self._ids)

    @property
    def keys(self) -> pa.Array:
        """The record keys that operations name, each once, of all partitions."""
        return pc.unique(self._batch.record_keys)

    def names(self, rows: pa.Table | pa.RecordBatch) -> pa.Array | pa.ChunkedArray:
        """Return for each of some stored records whether an operation names it.

        Args:
            rows: With the meta columns of key and partition.
        """
        ids = self._id(*(rows.column(each).cast(pa.string()) for each in _META))
        return pc.is_in(ids, value_set=self._named)

    def after(self, stored: pa.Table) -> pa.Table:
        """Return the records that operations name, as they leave them.

        Args:
            stored: Those of them that the table has: the meta columns of key and partition, and the
                table's columns. So is what is returned.
        """
        fields = [
            pa.field(schemas.RECORD_KEY, pa.string()),
            pa.field(schemas.PARTITION_PATH, pa.string()),
            *schemas.with_nulls(self._schema).arrow,
        ]
        columns = pa.schema([*fields, pa.field(_KEY, pa.string())])
        rules = folding.rules_of(self._config)
        decoder = block_decoding.Decoder.of(
            self._config, self._schema.arrow, columns, rules.ordering_fields
        )
        blocks = list(self._blocks(decoder, rules))
        merge = merging.SliceMerge(blocks, rules, columns, columns.names)
        plain = projecting.project(stored, pa.schema(fields))
        ids = self._id(*(plain.column(each) for each in _META))
        keyed = plain.append_column(_KEY, plain.column(schemas.RECORD_KEY))
        merged = pa.concat_tables(
            [merge.over(keyed.set_column(0, fields[0], ids)), merge.inserts()]
        )
        keys = merged.column(_KEY)
        return merged.drop_columns([_KEY]).set_column(0, fields[0], keys)

    def _id(
        self, keys: pa.Array | pa.ChunkedArray, paths: pa.Array | pa.ChunkedArray
    ) -> pa.Array | pa.ChunkedArray:
        """Return texts that differ where records do."""
        if self._config.has_global_index:
            return keys
        return pc.binary_join_element_wise(paths, keys, "\0")

    def _blocks(
        self, decoder: block_decoding.Decoder, rules: folding.Rules
    ) -> Iterator[changes.Change]:
        """Yield what the operations do, as the blocks of a log would be read."""
        batch = self._batch
        assert batch.marks is not None, "a batch of operations has marks"
        present = np.sort(np.concatenate([group.rows for group in batch.groups]))
        for rows, deletes in composition.runs(batch.marks, present):
            places = pa.array(rows)
            ids = pa.chunked_array([self._ids.take(places)])
            data = batch.data.take(places)
            if not deletes:
                yield decoder.changed(
                    data.append_column(schemas.RECORD_KEY, ids)
                    .append_column(schemas.PARTITION_PATH, self._paths.take(places))
                    .append_column(_KEY, batch.record_keys.take(places))
                )
                continue
            yield changes.DeletedKeys(
                keys=ids,
                ordering=tuple(data.column(each) for each in rules.ordering_fields) or None,
                is_default=composition.natural(batch, rows, self._config),
                is_foreign=np.zeros(len(rows), np.bool_),
            )
