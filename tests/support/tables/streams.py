"""A streaming query as Spark's micro-batch engine runs it: a checkpoint alone outlives a kill.

The engine logs the end of a micro-batch, plans and reads it, gives the rows to the sink, and logs
that it is committed. After a kill it reads what was logged and not committed again. Where the query
began is in no log: it asks the source again while the first micro-batch is not committed.

Source: `MicroBatchExecution.scala` (Spark 4.3).
"""

import enum
import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import datasource
from pyspark.sql.streaming.datasource import ReadAllAvailable

Rows = list[dict[str, Any]]


class Kill(enum.Enum):
    """After what the engine dies."""

    ASKED = "asked"
    LOGGED = "logged"
    READ = "read"
    WRITTEN = "written"


@dataclass
class Query:
    """A query, its checkpoint and its sink.

    Attributes:
        source: Makes the reader of a process.
        ends: The log of the ends of micro-batches.
        committed: How many of them are committed.
        batches: What the sink has got of each.
    """

    source: Callable[[], datasource.DataSourceStreamReader]
    ends: list[str] = field(default_factory=list)
    committed: int = 0
    batches: list[Rows] = field(default_factory=list)
    reader: Any = None

    def step(self, kill: Kill | None = None, *, is_limited: bool = True) -> bool:
        """Run a micro-batch, up to where the process is killed; return whether there was one."""
        if self.reader is None:
            self.reader = self.source()
        start = json.loads(self.ends[self.committed - 1]) if self.committed else None
        if start is None:
            start = json.loads(json.dumps(self.reader.initialOffset()))
        if len(self.ends) == self.committed:
            limit = self.reader.getDefaultReadLimit() if is_limited else ReadAllAvailable()
            end = json.dumps(self.reader.latestOffset(start, limit))
            if kill is Kill.ASKED:
                return self.die()
            if self.ends and end == self.ends[-1]:
                return False
            self.ends.append(end)
        if kill is Kill.LOGGED:
            return self.die()
        rows = self.read(start, json.loads(self.ends[-1]))
        if kill is Kill.READ:
            return self.die()
        if len(self.batches) > self.committed:
            assert by_text(rows) == by_text(self.batches[-1]), "a micro-batch is another one now"
        else:
            self.batches.append(rows)
        if kill is Kill.WRITTEN:
            return self.die()
        self.committed += 1
        self.reader.commit(json.loads(self.ends[-1]))
        return True

    def read(self, start: dict[str, Any], end: dict[str, Any]) -> Rows:
        """Return the rows of a micro-batch, each partition read by a process of its own."""
        found = []
        for partition in self.reader.partitions(start, end):
            reader, taken = pickle.loads(pickle.dumps((self.reader, partition)))
            found += [row for batch in reader.read(taken) for row in batch.to_pylist()]
        return found

    def die(self) -> bool:
        """Lose what is not in the checkpoint, or the sink."""
        self.reader = None
        return True

    def drain(self) -> None:
        """Run micro-batches until there is nothing new."""
        while self.step():
            pass


def by_text(rows: Rows) -> list[str]:
    """Return rows in an order of their own."""
    return sorted(map(repr, rows))


def read_batch(source: datasource.DataSource) -> Rows:
    """Return the rows of a batch query, each partition read by a process of its own."""
    reader = source.reader(source.schema())
    found = []
    for partition in reader.partitions():
        alone, taken = pickle.loads(pickle.dumps((reader, partition)))
        found += [row for batch in alone.read(taken) for row in batch.to_pylist()]
    return found
