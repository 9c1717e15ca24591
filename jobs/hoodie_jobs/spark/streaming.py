"""A table as a streaming source: `spark.readStream.format("hoodie").load(uri)`.

An offset is a position (`hoodie.read.positions`), or `earliest`, before which there is nothing. A
micro-batch is the changes between two of them, which are the same whenever they are read: a query
that dies in the middle of one reads the same rows again when it is restarted from its checkpoint,
whatever has completed meanwhile, at or below its end too. So nothing is lost, and nothing repeated
that the sink has committed.

Spark does not keep where a query without a checkpoint began, and asks again if it dies within its
first micro-batch; the newest position is another one by then. So the end of that micro-batch has
its beginning beside it.

From `earliest` the rows come that the table has then, in as many micro-batches as the limit of
files or bytes asks for, and of change data what the first writes changed.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import datasource
from pyspark.sql.pandas import types as arrow_types
from pyspark.sql.streaming import datasource as limits
from pyspark.sql.types import StructType

from hoodie import environment, errors, table
from hoodie.maintenance import consumers
from hoodie.model import files, predicates
from hoodie.read import changed_rows, changes, micro_batches, positions
from hoodie_jobs.spark import changed, read_options

logger = logging.getLogger(__name__)

Offset = dict[str, Any]

_POSITION = "position"
_BEGIN = "begin"
"""In an initial offset where the query begins, and in the one after it."""

_SLICES = "slices"
"""How many file slices of the table as of the position were read, until all were."""

_EARLIEST = "earliest"
_ANY_NUMBER = (1 << 31) - 1
_ANY_BYTES = (1 << 63) - 1


class HoodieStreamReader(datasource.DataSourceStreamReader, limits.SupportsTriggerAvailableNow):
    """Plans micro-batches where the query is planned, and reads them in its workers."""

    def __init__(self, options: read_options.Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._target: positions.Position | None = None

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Return where a query begins that has no checkpoint."""
        position = self._initial(self._open())
        offset = _offset(position)
        return offset if position is None else {**offset, _BEGIN: str(position)}

    def _initial(self, opened: table.Table) -> positions.Position | None:
        if self._options.consumer is not None:
            position = opened.consumer_position(self._options.consumer)
            if position is not None:
                return position
        match self._options.start:
            case read_options.Start.EARLIEST:
                return None
            case read_options.Start.LATEST:
                return opened.position()
            case str() as moment:
                return opened.position(moment)

    def getDefaultReadLimit(self) -> limits.ReadLimit:  # noqa: N802 - Spark's name
        """Return a limit that says whether ours hold; Spark has none that counts writes."""
        limit = self._options.limit
        if limit.writes is None and limit.files is None and limit.size_bytes is not None:
            return limits.ReadMaxBytes(min(limit.size_bytes, _ANY_BYTES))
        if limit.is_limited:
            return limits.ReadMaxFiles(min(limit.files or _ANY_NUMBER, _ANY_NUMBER))
        return limits.ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Keep where a query ends that reads what there is now."""
        self._target = self._open().position()

    def latestOffset(self, start: Offset, limit: limits.ReadLimit) -> Offset:  # noqa: N802
        """Return where the next micro-batch ends; where it begins if no write has completed."""
        opened, begin = self._open(), _position(start)
        asked = micro_batches.NO_LIMIT
        if not isinstance(limit, limits.ReadAllAvailable):
            asked = self._options.limit
        if _SLICES in start:
            return self._after_slices(opened, start, asked)
        if begin is None and self._options.format is read_options.Format.LATEST_STATE:
            end = self._target or opened.position()
            if self._options.is_ordered:
                end = opened.next_position(None, until=self._target, is_ordered=True) or end
            return self._after_slices(opened, {**_offset(end), _SLICES: 0}, asked)
        try:
            found = opened.next_position(
                begin, asked, until=self._target, is_ordered=self._options.is_ordered
            )
        except errors.GoneError:
            if not self._options.falls_back:
                raise
            found = self._target or opened.position()
        if found is None:
            return start
        is_first = start.get(_BEGIN) == start.get(_POSITION)
        return {**_offset(found), **({_BEGIN: start[_BEGIN]} if is_first else {})}

    def _after_slices(
        self, opened: table.Table, start: Offset, limit: micro_batches.Limit
    ) -> Offset:
        """Return the end of a micro-batch that has some slices of a table."""
        whole = {_POSITION: start[_POSITION]}
        if limit.files is None and limit.size_bytes is None:
            return whole
        left = self._slices(opened, start)[start[_SLICES] :]
        costs = [
            micro_batches.Cost(files=len(each.data_files), size_bytes=each.total_bytes)
            for each in (part.rows.file_slice for part in left if part.rows is not None)
        ]
        count = micro_batches.fitting(costs, limit)
        return whole if count == len(left) else {**whole, _SLICES: start[_SLICES] + count}

    def _slices(self, opened: table.Table, offset: Offset) -> list[changes.Part]:
        """Return the slices of a table as of a position, in the same order each time."""
        names = [name for name in self._schema.names if name != changed_rows.CHANGE]
        found = opened.changes(until=_position(offset), columns=names).parts()
        # All slices are counted, whatever an index of today leaves out of them.
        return sorted((_filtered(each, self._options.where) for each in found), key=_group_of)

    def partitions(self, start: Offset, end: Offset) -> Sequence[datasource.InputPartition]:
        """Return the partitions of a micro-batch."""
        until = _position(end)
        if until is None or start == end:
            return []
        opened = self._open()
        if _SLICES in start or _SLICES in end:
            parts = self._slices(opened, end)[start.get(_SLICES, 0) : end.get(_SLICES)]
            return changed.partitions(parts)
        begin = _position({_POSITION: end.get(_BEGIN, start.get(_POSITION))})
        planned = changed.plan(opened, self._options, begin, until, self._schema.names)
        return changed.partitions(changed.parts_of(planned))

    def read(self, partition: datasource.InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of a partition in the types that Spark expects."""
        schema = arrow_types.to_arrow_schema(self._schema, timezone="UTC")
        return changed.read(partition, schema, self._options.images)

    def commit(self, end: Offset) -> None:
        """Let cleaning wait for what the declared consumer has not read."""
        position = _position(end)
        if self._options.consumer is None or position is None:
            return
        progress = consumers.Progress(to=position.time, position=str(position))
        try:
            self._open().advance_consumer(self._options.consumer, progress)
        except errors.HoodieError as error:
            if not error.is_transient:
                raise
            logger.warning("the next micro-batch records where the stream is: %s", error)

    def _open(self) -> table.Table:
        return table.open_table(self._options.uri, environment.system(parallelism=1))


def _filtered(part: changes.Part, where: predicates.Predicate | None) -> changes.Part:
    assert part.rows is not None, part
    return replace(part, rows=replace(part.rows, query=replace(part.rows.query, where=where)))


def _group_of(part: changes.Part) -> files.FileGroupId:
    assert part.rows is not None, part
    return part.rows.file_slice.group


def _offset(position: positions.Position | None) -> Offset:
    return {_POSITION: _EARLIEST if position is None else str(position)}


def _position(offset: Offset) -> positions.Position | None:
    text = str(offset.get(_POSITION))
    position = positions.parse(text)
    if position is None and text != _EARLIEST:
        raise errors.InvalidInputError(
            f"the checkpoint has the offset {offset}, expected one of a stream of this project: "
            "begin a query with a new checkpoint"
        )
    return position
