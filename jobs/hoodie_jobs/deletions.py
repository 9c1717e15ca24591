"""Delete rows in one commit: `python -m hoodie_jobs.deletions SPEC.json`.

    partitions   all rows of some partitions, without writing a data file
    rows         those that a filter keeps, on threads of this process

Done twice it is done once, for what is there: a partition without rows is passed over, and no rows
that match are no commit. Rows that come to match in between are deleted the second time.
"""

import sys

from hoodie.contract import job_specs
from hoodie.model import commits, results
from hoodie.read import where as where_text
from hoodie.write import sessions
from hoodie_jobs import opening, program
from hoodie_jobs.run import Run


def delete_partitions(run: Run) -> None:
    """Retire all file groups of the partitions that have some.

    Raises:
        ConfigurationError: The table is written without blocking.
        WriteConflictError: Other writes of them were faster each time.
    """
    work = run.spec.work
    assert isinstance(work, job_specs.DeletePartitions)
    run.tell("deleting partitions")
    opened = opening.open_table(run.spec)
    there = {each.group.partition_path for each in opened.slices()}
    for missing in sorted(set(work.partitions) - there):
        run.find(f"partition {missing or '.'} has no rows")
    doomed = tuple(sorted(there.intersection(work.partitions)))
    if not doomed:
        return
    options = sessions.WriteOptions(
        operation=commits.Operation.DELETE_PARTITION,
        transaction=opening.transaction_of(run.spec),
        partitions=doomed,
    )
    done = opened.delete_partitions(options)
    assert isinstance(done, results.CommitResult), "it has no batch id"
    run.complete(done.instant, file_groups=len(done.replaced))


def delete_rows(run: Run) -> None:
    """Delete the rows that the filter keeps.

    Raises:
        ConfigurationError: The table is written without blocking.
        InvalidInputError: The filter is none, or compares a column with a value of another type.
        NotFoundError: It names a column that the table does not have.
        WriteConflictError: Other writes of such rows were faster each time.
    """
    work = run.spec.work
    assert isinstance(work, job_specs.DeleteRows)
    where = where_text.parse(work.where)
    run.tell("deleting rows")
    opened = opening.open_table(run.spec)
    options = sessions.WriteOptions(
        operation=commits.Operation.DELETE, transaction=opening.transaction_of(run.spec)
    )
    done = opened.delete_where(where, options)
    if done is None:
        run.explain("no rows match")
        return
    assert isinstance(done, results.CommitResult), "it has no batch id"
    run.record(done)


if __name__ == "__main__":
    sys.exit(
        program.main(
            sys.argv[1:],
            {
                job_specs.DeletePartitions: delete_partitions,
                job_specs.DeleteRows: delete_rows,
            },
        )
    )
