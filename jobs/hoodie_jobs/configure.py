"""Change which engines write a table: `python -m hoodie_jobs.configure SPEC.json`.

Done twice it is done once. A run that was killed is followed by one that finishes what it began.
"""

import sys

from hoodie.contract import job_specs
from hoodie_jobs import opening, program
from hoodie_jobs.run import Run


def perform(run: Run) -> None:
    """Give the table a chain, or none, and admit or exclude other engines.

    Raises:
        ConflictError: A write is pending.
        UnsupportedError: The storage creates a file that is there already.
    """
    work = run.spec.work
    assert isinstance(work, job_specs.ConfigureTable)
    run.tell("waiting for the table's lock")
    opened = opening.open_table(run.spec)
    opened.configure_chain(
        opening.transaction_of(run.spec),
        has_chain=work.has_chain,
        has_foreign_writers=work.has_foreign_writers,
    )


if __name__ == "__main__":
    sys.exit(program.main(sys.argv[1:], {job_specs.ConfigureTable: perform}))
