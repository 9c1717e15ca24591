"""What every job opens by its spec: the machine's environment, the table, input within bounds."""

from collections.abc import Iterable

from hoodie import environment, errors, table
from hoodie.model import jobs
from hoodie.storage import locations
from hoodie.transaction import authors
from hoodie.transaction.locks import address_texts
from hoodie.write import sessions
from hoodie_jobs import fence


def environment_of(spec: jobs.JobSpec) -> environment.Environment:
    """Return the machine's environment, bounded as the spec says."""
    return environment.system(parallelism=spec.engine.parallelism, allowed_root=spec.allowed_root)


def open_table(spec: jobs.JobSpec) -> table.Table:
    """Open the spec's table.

    Raises:
        NotFoundError: There is none.
        InvalidInputError: It is outside the allowed root.
    """
    return table.open_table(spec.table_uri, environment_of(spec))


def transaction_of(spec: jobs.JobSpec) -> sessions.TransactionOptions:
    """Return on whose behalf, and how, the run changes the table.

    Raises:
        InvalidInputError: The lock's address is none.
    """
    return sessions.TransactionOptions(
        settings=spec.settings,
        lock=address_texts.parse(spec.lock),
        author=authors.Author(
            writer_id=spec.writer_id, action_id=spec.action_id, attempt=spec.attempt
        ),
        guards=(fence.guard(spec),),
    )


def check_files(spec: jobs.JobSpec, files: Iterable[str]) -> None:
    """Refuse input from outside the allowed root, symbolic links resolved.

    Raises:
        InvalidInputError: A file is outside.
    """
    if spec.allowed_root is None:
        return
    root = locations.resolve(spec.allowed_root)
    for path in files:
        if not locations.resolve(path).is_within(root):
            raise errors.InvalidInputError(
                f"{path} lies outside the allowed root {spec.allowed_root}"
            )
