"""Build indexes beside writers, or drop them: `python -m hoodie_jobs.index SPEC.json`.

A run that was killed is followed by one that finishes the build, and skips what is complete. The
files of the table are read by the spec's engine; what is compared and dropped by this process.
"""

import sys
import threading
from contextlib import closing
from typing import Final

from hoodie import errors, table
from hoodie.contract import job_specs
from hoodie.engine.progress import ProgressEngine
from hoodie.services import metadata_tables
from hoodie_jobs import opening, program, runtimes
from hoodie_jobs.run import Run

_SAMPLED_MAX: Final = 8
_SAMPLED_GROUPS_MAX: Final = 64
"""So many partitions of the table are compared in a sample, and file groups of each of them."""


class _Teller:
    """Tells of the phase of a build, and how far the phase is."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._phase = ""
        self._is_counted = False
        self._caller = threading.current_thread()

    def begin(self, phase: str) -> None:
        self._phase, self._is_counted = phase, False
        self.count(0, 0)

    def hear(self, phase: str) -> None:
        """Tell of a phase of a build, which says itself how far it is, and how long it takes."""
        self.begin(phase)
        self._is_counted = True

    def count(self, done: int, total: int) -> None:
        if not self._is_counted:
            self._run.tell(self._phase, done, total)
        # In the thread that waits for the tasks this ends the map.
        if threading.current_thread() is self._caller:
            self._run.cancellation.check()


def build(run: Run) -> None:
    """Build the indexes that are missing, and compare them with the table.

    Raises:
        ConflictError: A live process builds them, or others are being built.
        FormatError: A data file is damaged, or an index differs from the table.
        InvalidInputError: They cannot be built in this table.
    """
    work = run.spec.work
    assert isinstance(work, job_specs.BuildIndexes)
    teller = _Teller(run)
    run.cancellation.check()
    run.tell(f"starting {run.spec.engine.kind.value}")
    with closing(runtimes.open_runtime(run.spec.engine, run.cancellation)) as runtime:
        _build(run, work, ProgressEngine(runtime.engine, teller.count), teller)
    if work.validation is not job_specs.IndexValidation.NONE:
        # What it has is read again, with the indexes.
        engine = ProgressEngine(opening.environment_of(run.spec).engine, teller.count)
        _validate(opening.open_table(run.spec, engine), work.validation, teller)


def _build(run: Run, work: job_specs.BuildIndexes, engine: ProgressEngine, teller: _Teller) -> None:
    """Build the indexes that are missing."""
    teller.begin("looking for builds")
    opened = opening.open_table(run.spec, engine)
    done = opened.build_index(
        work.names,
        opening.transaction_of(run.spec),
        teller.hear,
        columns=work.statistics_columns,
        is_partitioned=work.is_partitioned,
        secondary=work.columns,
    )
    run.add(lock_wait_ms=done.lock_wait_ms, lock_hold_ms=done.lock_hold_ms)
    if done.instant is not None:
        run.complete(done.instant)
    for finding in done.findings:
        run.find(finding)
    ready = [name for name in work.names if name not in done.built]
    if ready:
        run.explain(f"{', '.join(ready)} {'was' if len(ready) == 1 else 'were'} ready")


def drop(run: Run) -> None:
    """Drop the indexes that are there, and give up what is being built of them.

    Raises:
        ConflictError: A live process builds one.
        InvalidInputError: One that stays needs them.
    """
    work = run.spec.work
    assert isinstance(work, job_specs.DropIndexes)
    run.tell("dropping")
    opened = opening.open_table(run.spec)
    if not opened.drop_index(work.names, opening.transaction_of(run.spec)):
        run.explain(f"the table does not have {', '.join(work.names)}")


def _validate(opened: table.Table, validation: job_specs.IndexValidation, teller: _Teller) -> None:
    """Compare the metadata table with the table.

    Raises:
        FormatError: They differ in what reads rely on.
    """
    is_whole = validation is job_specs.IndexValidation.WHOLE
    found = opened.validate_metadata(
        lambda path: teller.begin(f"comparing {path or 'files'}"),
        None if is_whole else _SAMPLED_MAX,
        None if is_whole else _SAMPLED_GROUPS_MAX,
    )
    wrong = _wrong(found)
    if wrong:
        raise errors.FormatError(
            f"the metadata table of {opened.uri} differs from the table in {len(wrong)} "
            f"place{'' if len(wrong) == 1 else 's'}, first in {wrong[0]}: run `hoodie metadata "
            "validate` for all of them. Make it again by a TableAction of type MetadataInit with "
            "metadataInit.rebuild"
        )


def _wrong(found: metadata_tables.Validation) -> list[str]:
    """Return the paths of all in which reads would be wrong."""
    return [
        *(each.path for each in found.differences),
        *(f"{each.path}, column {each.column}" for each in found.statistics if each.is_relied_on),
        *(each.path for each in found.filters),
        *(each.path for each in found.keys),
        *(f"{each.path}, {each.index}" for each in found.pairs),
    ]


if __name__ == "__main__":
    sys.exit(
        program.main(sys.argv[1:], {job_specs.BuildIndexes: build, job_specs.DropIndexes: drop})
    )
