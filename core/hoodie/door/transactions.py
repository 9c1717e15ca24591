"""Several inputs in one commit, which is made once, however often the program runs.

    with trips.transaction("etl", batch_id=42) as tx:
        tx.upsert(today)
        tx.upsert(corrections)      # of rows with one key the later one counts

What was given is written when the block ends, and nothing if it fails. A Hudi action of this
library does one operation: inputs of different ones are refused.
"""

from dataclasses import replace
from types import TracebackType
from typing import Self

from hoodie import errors
from hoodie.door import inputs, outcomes, writing
from hoodie.model import commits

_NAMES = {
    commits.Operation.UPSERT: "upsert",
    commits.Operation.INSERT: "insert",
    commits.Operation.DELETE: "delete",
    commits.Operation.INSERT_OVERWRITE_TABLE: "overwrite",
}


class Transaction:
    """Inputs that become one commit at the end of a `with` block.

    Attributes:
        result: What it did; None until the block has ended.
    """

    def __init__(self, job: writing.Job, app_id: str, batch_id: str, *, is_done: bool) -> None:
        """Begin; nothing is on the timeline until the end.

        Args:
            job: The table.
            app_id: The writer.
            batch_id: Of its batches.
            is_done: Whether the table has this batch.
        """
        self.result: outcomes.Written | None = None
        self._job = replace(job, writer=job.writer.named(app_id))
        self._batch_id = batch_id
        self._is_done = is_done
        self._operation: commits.Operation | None = None
        self._parts: list[inputs.Data] = []
        self._is_open = False

    @property
    def is_done(self) -> bool:
        """Whether the table has this batch already: what is given is not read, nor written."""
        return self._is_done

    def upsert(self, rows: inputs.Rows) -> None:
        """Insert new rows, and update those whose keys are there."""
        self._add(commits.Operation.UPSERT, rows)

    def insert(self, rows: inputs.Rows) -> None:
        """Add rows whose keys are new."""
        self._add(commits.Operation.INSERT, rows)

    def delete(self, rows: inputs.Rows) -> None:
        """Delete the rows of some keys; columns of key and partition."""
        self._add(commits.Operation.DELETE, rows)

    def overwrite(self, rows: inputs.Rows) -> None:
        """Replace all rows of the table."""
        self._add(commits.Operation.INSERT_OVERWRITE_TABLE, rows)

    def _add(self, operation: commits.Operation, rows: object) -> None:
        """Take rows; a stream is read at the end of the block.

        Raises:
            InvalidInputError: They are no rows; or the transaction does something else already, or
                has ended.
        """
        if not self._is_open:
            raise errors.InvalidInputError(
                "the transaction is not open: use it in a block, `with table.transaction(...)`"
            )
        if self._operation not in (None, operation):
            assert self._operation is not None
            raise errors.InvalidInputError(
                f"a transaction with {_NAMES[self._operation]} cannot {_NAMES[operation]} as well: "
                "one commit does one operation. Use a transaction for each, with batch ids of "
                "their own"
            )
        self._operation = operation
        if not self._is_done:
            self._parts.append(inputs.data_of(rows, self._job.columns))

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
        elif self._operation is None:
            self.result = outcomes.Written(batch_id=self._batch_id)
        else:
            rows = inputs.chained(self._parts, self._job.columns)
            options = self._job.options(self._operation, self._batch_id)
            self.result = writing.write_rows(self._job, rows, options)
