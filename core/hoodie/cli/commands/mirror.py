"""`hoodie mirror`: a table's base files registered in an Iceberg table beside it."""

from typing import Annotated

import typer

from hoodie import environment
from hoodie.cli import command, options, output, progress, quantities, tables
from hoodie.cli.views import mirrors as views
from hoodie.services.mirrors import values

DETAILS = """Engines that know Iceberg and no Hudi read the table by it, at the same URI: no data
file is written or copied. Each run makes a snapshot of the table's newest base files if these have
changed; what is in log files alone follows once it is compacted. Cleaning keeps the files of the
snapshots that are kept, as long as runs come: a mirror that is silent for longer than --limit does
not hold it back any more.

Without --catalog the Iceberg table is in the table's folder alone (metadata/, with
version-hint.text). --catalog takes the name of a catalog that PyIceberg is configured with, or the
URI of a REST or SQL catalog, whose options are PyIceberg's. Needs the package pyiceberg:
pip install 'hudi-operator\\[iceberg]'.
"""
EXAMPLES = """Examples:

  hoodie mirror /data/trips
  hoodie mirror /data/trips --dry-run
  hoodie mirror s3://lake/trips --keep-snapshots 3 --json
  hoodie mirror s3://lake/trips --catalog https://host/api --table lake.trips
  hoodie mirror s3://lake/trips --catalog glue --table lake.trips --catalog-option glue.region=eu-1
"""


def mirror(  # noqa: PLR0913 - a parameter an option
    uri: options.TableUri,
    *,
    kept: Annotated[
        int,
        typer.Option("--keep-snapshots", metavar="N", min=1, help="Keep the newest N snapshots."),
    ] = values.KEPT_DEFAULT,
    catalog: Annotated[
        str | None,
        typer.Option(metavar="CATALOG", help="A catalog to have it in: a name or a URI."),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Its name in the catalog, such as lake.trips."),
    ] = None,
    catalog_option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="An option of the catalog, by PyIceberg's name. Repeatable.",
        ),
    ] = None,
    limit: Annotated[
        str | None,
        typer.Option(
            metavar="AGE",
            help="How long cleaning waits for a mirror that no run brings up to date.",
            show_default="7d, or as before",
        ),
    ] = None,
    is_dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="Only show what would be done.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Register a table's base files in an Iceberg table beside it."""
    wanted = values.Options(
        kept=kept,
        catalog=values.catalog_of(catalog, table, _pairs(catalog_option or [])),
        limit_ms=None if limit is None else quantities.duration_ms(limit),
    )
    with progress.Display() as display:
        opened = tables.open_table(uri, environment.system(), display)
        display.phase("mirroring")
        done = opened.mirror(wanted, is_dry_run=is_dry_run)
    if as_json:
        output.document(views.document(opened.uri, done, is_dry_run=is_dry_run))
        return
    for line in views.lines(done, is_dry_run=is_dry_run):
        output.line(line)
    for finding in values.findings(done):
        output.note(f"note: {finding}")


def _pairs(texts: list[str]) -> dict[str, str]:
    """Return options by their names.

    Raises:
        BadParameter: One has no value.
    """
    found = {}
    for each in texts:
        key, sign, value = each.partition("=")
        if not sign or not key:
            raise typer.BadParameter(f"--catalog-option {key!r}: expected KEY=VALUE")
        found[key] = value
    return found


COMMAND = command.Command(
    run=mirror,
    details=DETAILS,
    examples=EXAMPLES,
)
