"""Several operations in one commit, which is made once, however often the program runs.

    with trips.transaction("etl", batch_id=42) as tx:
        tx.upsert(today)
        tx.delete(keys=["7", "9"])
        tx.update({"fare": 0}, where="city = 'Oslo'")     # sees what the lines above did
        tx.insert(more)

They are as if they were done one after the other. What was given is written when the block ends,
and nothing if it fails. An overwrite is one operation that retires file groups, and nothing can
be beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

from hoodie import deferred, errors, guesses
from hoodie.door import inputs, outcomes, writing
from hoodie.model import commits
from hoodie.write import composition

with deferred.imports():
    from hoodie.door import filters


@guesses.of_names(guesses.TRANSACTION)
class Transaction:
    """Operations that become one commit at the end of a `with` block.

    Attributes:
        result: What it did; None until the block has ended.
    """

    def __init__(
        self,
        job: writing.Job,
        app_id: str,
        batch_id: str,
        *,
        is_done: bool,
        on_written: Callable[[outcomes.Written], outcomes.Written],
    ) -> None:
        """Begin; nothing is on the timeline until the end.

        Args:
            job: The table.
            app_id: The writer.
            batch_id: Of its batches.
            is_done: Whether the table has this batch.
            on_written: Called with what the write did; returns it.
        """
        self.result: outcomes.Written | None = None
        self._job = replace(job, writer=job.writer.named(app_id))
        self._batch_id = batch_id
        self._is_done = is_done
        self._on_written = on_written
        self._steps: list[writing.Step] = []
        self._is_open = False

    @property
    def is_done(self) -> bool:
        """Whether the table has this batch already: what is given is not read, nor written."""
        return self._is_done

    def upsert(self, rows: inputs.Rows) -> None:
        """Insert new rows, and update those whose keys are there.

        Args:
            rows: As of `Table.upsert`; a stream is read when the block ends.

        Raises:
            InvalidInputError: They are no rows; or the transaction has an overwrite, or has ended.
        """
        self._add_rows(commits.Operation.UPSERT, rows)

    def insert(self, rows: inputs.Rows) -> None:
        """Add rows whose keys are new; beside other operations an upsert.

        Args:
            rows: As of `upsert`.

        Raises:
            InvalidInputError: As of `upsert`.
        """
        self._add_rows(commits.Operation.INSERT, rows)

    def delete(
        self,
        where: filters.Where | inputs.Rows | None = None,
        *,
        keys: inputs.Rows | Sequence[object] | None = None,
    ) -> None:
        """Delete the rows that a filter keeps, or those of some keys.

        Args:
            where: As of `Table.scan`, and applied to the rows as the operations before leave them;
                or rows, which are taken for `keys`.
            keys: A list of record keys, or rows with the columns of key and partition.

        Raises:
            InvalidInputError: Both or neither are given, or they are malformed; or as of `upsert`.
            NotFoundError: The filter names a column that is not there.
        """
        self._check(commits.Operation.DELETE)
        if where is not None and keys is None and not filters.is_filter(where):
            where, keys = None, where
        if not self._is_done:
            self._steps.append(writing.deletion(self._job, where, keys))

    def update(
        self, values: Mapping[str, writing.Value], where: filters.Where | None = None
    ) -> None:
        """Set columns of the rows that a filter keeps.

        Args:
            values: As of `Table.update`.
            where: As of `delete`; None for all rows.

        Raises:
            InvalidInputError: As of `Table.update`; or as of `upsert`.
            NotFoundError: There is no such column.
        """
        self._check(commits.Operation.UPSERT)
        if not self._is_done:
            self._steps.append(writing.change(self._job, values, where))

    def overwrite(self, rows: inputs.Rows) -> None:
        """Replace all rows of the table; nothing else can be in the transaction.

        Args:
            rows: As of `upsert`.

        Raises:
            InvalidInputError: As of `upsert`; or the transaction has another operation.
        """
        self._add_rows(commits.Operation.INSERT_OVERWRITE_TABLE, rows)

    def _add_rows(self, operation: commits.Operation, rows: object) -> None:
        self._check(operation)
        if not self._is_done:
            data = inputs.data_of(rows, self._job.columns)
            self._steps.append(composition.Part(operation=operation, rows=data))

    def _check(self, operation: commits.Operation) -> None:
        if not self._is_open:
            raise errors.InvalidInputError(
                "the transaction is not open: use it in a block, `with table.transaction(...)`"
            )
        if self._steps and (operation.replaces or self._steps[0].operation.replaces):
            raise errors.InvalidInputError(
                "a transaction with an overwrite cannot do anything else: one commit either "
                "replaces the table or changes its rows. Give all rows to one overwrite, or use a "
                "transaction for each operation, with batch ids of their own"
            )

    def __enter__(self) -> Self:
        self._is_open = self.result is None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        del error, trace
        self._is_open = False
        if kind is not None:
            return
        if self._is_done:
            self.result = outcomes.Written(batch_id=self._batch_id, is_repeated=True)
        elif not self._steps:
            self.result = outcomes.Written(batch_id=self._batch_id)
        else:
            self.result = self._on_written(writing.write(self._job, self._steps, self._batch_id))
