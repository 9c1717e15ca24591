"""Change who writes a table, and what writes store: `python -m hoodie_jobs.configure SPEC.json`.

Done twice it is done once. A run that was killed is followed by one that finishes what it began.
"""

import sys

from hoodie import errors
from hoodie.contract import job_specs
from hoodie.model.change_data import LoggingMode
from hoodie_jobs import opening, program
from hoodie_jobs.run import Run


def perform(run: Run) -> None:
    """Give the table a chain, or none, admit or exclude other engines, and set its change data.

    Raises:
        ConflictError: A write is pending.
        InvalidInputError: There is no such logging mode.
        UnsupportedError: The storage creates a file that is there already.
    """
    work = run.spec.work
    assert isinstance(work, job_specs.ConfigureTable)
    run.tell("waiting for the table's lock")
    opened = opening.open_table(run.spec)
    transaction = opening.transaction_of(run.spec)
    changed = opened.configure_chain(
        transaction,
        has_chain=work.has_chain,
        has_foreign_writers=work.has_foreign_writers,
    )
    if work.change_data is not None:
        changed.capture_change_data(transaction, _mode(work.change_data))


def _mode(text: str) -> LoggingMode | None:
    try:
        return LoggingMode(text) if text else None
    except ValueError:
        names = ", ".join(mode.value for mode in LoggingMode)
        raise errors.InvalidInputError(
            f"the logging mode of change data is {text!r}, expected one of {names}"
        ) from None


if __name__ == "__main__":
    sys.exit(program.main(sys.argv[1:], {job_specs.ConfigureTable: perform}))
