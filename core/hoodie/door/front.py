"""The part of `table.Table` that people use: a base class, beside what programs call with options.

Here are names, defaults and documentation; what is done is in the other modules of this folder.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime
from functools import partial

import pyarrow as pa

from hoodie import environment
from hoodie.door import filters, scans, writers
from hoodie.model import predicates, schemas, table_config
from hoodie.read import planning, travel
from hoodie.storage import protocol


class Front(ABC):
    """What a table does for people.

    Attributes:
        config: The table's configuration.
        schema: Its columns when it was opened.
    """

    config: table_config.TableConfig
    schema: schemas.TableSchema
    _storage: protocol.Storage
    _env: environment.Environment
    _writer: writers.Writer

    @property
    @abstractmethod
    def uri(self) -> str:
        """The table's root."""

    @abstractmethod
    def explain_read(
        self,
        columns: Sequence[str] | None = None,
        where: predicates.Predicate | None = None,
        *,
        is_read_optimized: bool = False,
        partition_values: str = ...,
        as_of: travel.Given | None = None,
    ) -> planning.Plan:
        """Return the plan of a read."""

    @abstractmethod
    def columns_of(self, partition_values: str, as_of: travel.Given | None = None) -> pa.Schema:
        """Return the table's columns as of a moment."""

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: filters.Where | None = None,
        *,
        as_of: travel.AsOf | str | datetime | None = None,
        read_optimized: bool = False,
        limit: int | None = None,
    ) -> scans.Scan:
        """Return the rows of the table as it is now, or was, to be read in the form that you need.

        The snapshot is taken and the files are chosen at once; rows are read when they are asked
        for.

        Args:
            columns: In the order of the result, meta columns (`_hoodie_commit_time`, ...) allowed;
                None for all without them.
            where: Rows to return: a text of SQL (`"city = 'Oslo' and fare > 5"`), an expression of
                `pyarrow.compute`, or triples (`[("city", "=", "Oslo")]`), all of which are true.
            as_of: An instant, `savepoint:INSTANT`, or a time such as `2026-11-20 12:00`.
            read_optimized: Read base files alone: faster, without what is still in logs.
            limit: So many rows at most, any of them.

        Raises:
            InvalidInputError: The filter, the columns, the limit or the moment are malformed.
            NotFoundError: A column is named that is not there; or there is no such savepoint.
            GoneError: Files of that moment were cleaned, or a restore took it back.
        """
        wanted = scans.Wanted(
            columns=columns,
            where=where,
            as_of=as_of,
            read_optimized=read_optimized,
            limit=limit,
        )
        return scans.scan(
            self.uri,
            self._storage,
            self._env.engine.parallelism,
            self.schema.arrow if as_of is None else self.columns_of("file", as_of),
            wanted,
            partial(self.explain_read, is_read_optimized=read_optimized, as_of=as_of),
        )

    def __repr__(self) -> str:
        key = ", ".join(self.config.record_key_fields)
        names = self.schema.arrow.names
        return f"<hoodie.Table {self.config.name} in {self.uri}: {len(names)} columns, key {key}>"
