"""Make or drop the metadata table: `python -m hoodie_jobs.metadata SPEC.json`.

Done twice it is done once. Work for this process alone, whatever the spec's engine.
"""

import sys

from hoodie import errors
from hoodie.contract import job_specs
from hoodie_jobs import opening, program
from hoodie_jobs.run import Run


def initialise(run: Run) -> None:
    """Make the metadata table from the files on storage, while writers go on.

    Raises:
        ConflictError: The table is being restored, or changes faster than it can be listed.
    """
    work = run.spec.work
    assert isinstance(work, job_specs.InitialiseMetadata)
    run.tell("listing files")
    opened = opening.open_table(run.spec)
    try:
        opened.initialise_metadata(
            opening.transaction_of(run.spec),
            is_rebuilt=work.is_rebuilt,
            hear_left_out=run.find,
        )
    except errors.AlreadyExistsError:
        run.explain("the table has a metadata table")


def drop(run: Run) -> None:
    """Drop the metadata table, whichever engine made it."""
    assert isinstance(run.spec.work, job_specs.DropMetadata)
    run.tell("dropping the metadata table")
    opened = opening.open_table(run.spec)
    if not opened.drop_metadata(opening.transaction_of(run.spec)):
        run.explain("the table has no metadata table")


if __name__ == "__main__":
    sys.exit(
        program.main(
            sys.argv[1:], {job_specs.InitialiseMetadata: initialise, job_specs.DropMetadata: drop}
        )
    )
