"""`hoodie describe`: what a table is."""

from hoodie import environment
from hoodie.cli import command, options, output, progress, tables
from hoodie.cli.views import configuration


def describe(uri: options.TableUri, *, as_json: options.AsJson = False) -> None:
    """Show a table's configuration and columns."""
    with progress.Display() as display:
        opened = tables.open_table(uri, environment.system(), display)
    shown = configuration.document(opened.uri, opened.config, opened.schema.arrow)
    if as_json:
        output.document(shown)
        return
    output.grid(configuration.facts(shown))
    output.line("")
    output.grid(configuration.columns(shown))


COMMAND = command.Command(
    run=describe,
)
