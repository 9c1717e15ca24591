"""Bring a table's mirror in Iceberg up to date: `python -m hoodie_jobs.mirror SPEC.json`.

Done twice it is done once. Work for this process alone, whatever the spec's engine.
"""

import sys

from hoodie.contract import job_specs
from hoodie.services.mirrors import values
from hoodie_jobs import opening, program
from hoodie_jobs.run import Run


def perform(run: Run) -> None:
    """Mirror the table in its own folder, or in a catalog.

    Raises:
        ConfigurationError: PyIceberg is not installed, or cannot open the catalog, or what is there
            is no mirror of the table.
        UnsupportedError: Iceberg cannot hold the table.
        ConflictError: Other processes mirror the table at the same time.
    """
    work = run.spec.work
    assert isinstance(work, job_specs.Mirror)
    run.tell("mirroring")
    catalog = values.catalog_of(work.catalog, work.table, {})
    done = opening.open_table(run.spec).mirror(values.Options(kept=work.kept, catalog=catalog))
    run.add(files=done.files)
    run.explain(f"the mirror {values.summary(done, is_dry_run=False)}")
    for finding in values.findings(done):
        run.find(finding)


if __name__ == "__main__":
    sys.exit(program.main(sys.argv[1:], {job_specs.Mirror: perform}))
