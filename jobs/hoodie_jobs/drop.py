"""Delete a table and everything below its root: `python -m hoodie_jobs.drop SPEC.json`.

The decision to delete is checked once more here. The spec has to say which HudiTable is being
deleted, that its policy is to delete the data, and that nothing protects it; the table that is
there has to be the one that the spec describes, and no other table may be below its root.

How it is deleted, and how a deletion that was killed goes on, is in `hoodie.services.dropping`.
"""

import sys
from collections.abc import Callable
from typing import Any, Final

from hoodie import errors, table
from hoodie.contract import job_specs
from hoodie.model import table_config
from hoodie.services import dropping
from hoodie.transaction import admission, manager
from hoodie_jobs import opening, program
from hoodie_jobs.run import Run

_IDENTITY: Final[dict[str, Callable[[table_config.TableConfig], Any]]] = {
    "name": lambda config: config.name,
    "type": lambda config: config.table_type.value,
    "record key": lambda config: config.record_key_fields,
    "partition fields": lambda config: config.partition_fields,
}
"""What no write and no other engine ever changes of a table."""


def perform(run: Run) -> None:
    """Delete the table; nothing to do where nothing is.

    Raises:
        ConfigurationError: The table that is there is another one than is to be deleted.
        ConflictError: Somebody alive is changing the table.
        InvalidInputError: The spec does not ask for a deletion, or what is there is no table, or
            holds another one.
    """
    _check_wanted(run.spec)
    env = opening.environment_of(run.spec)
    storage = env.open_storage(run.spec.table_uri)
    run.tell("opening the table")
    dropping.check_alone(storage)
    try:
        opened = opening.open_table(run.spec)
    except errors.NotFoundError:
        dropping.check_remnant(storage)
    else:
        _check_identity(run.spec, opened)
        target = manager.Target(storage=storage, config=opened.config, schema=opened.schema)
        transaction = opening.transaction_of(run.spec)
        times = dropping.begin(target, transaction, env, admission.admit_attempt)
        run.add(lock_wait_ms=times.wait_ms, lock_hold_ms=times.hold_ms)

    def report(done: int, total: int) -> None:
        run.tell("deleting the data", done, total)
        run.cancellation.check()

    dropping.delete(storage, report)


def _check_wanted(spec: job_specs.JobSpec) -> None:
    """Refuse to delete what no HudiTable asks to delete."""
    work = spec.work
    assert isinstance(work, job_specs.DropTable)
    why = ""
    if not work.table_uid:
        why = "the spec names no HudiTable that is being deleted"
    elif work.deletion_policy != job_specs.DELETE:
        why = f"its HudiTable has deletionPolicy {work.deletion_policy or 'none'}"
    elif work.is_protected:
        why = "its HudiTable has deletionProtection"
    if why:
        raise errors.InvalidInputError(
            f"{spec.table_uri} is not deleted: {why}, expected deletionPolicy {job_specs.DELETE} "
            "without deletionProtection"
        )


def _check_identity(spec: job_specs.JobSpec, opened: table.Table) -> None:
    """Refuse a table that is not the one that the spec describes."""
    expected = table_config.from_properties(spec.table_properties)
    differences = [
        f"its {name} is {value(opened.config)!r}, expected {value(expected)!r}"
        for name, value in _IDENTITY.items()
        if value(opened.config) != value(expected)
    ]
    if differences:
        raise errors.ConfigurationError(
            f"{opened.uri} is not deleted: it differs from the declared table: "
            f"{'; '.join(differences)}"
        )


if __name__ == "__main__":
    sys.exit(program.main(sys.argv[1:], {job_specs.DropTable: perform}))
