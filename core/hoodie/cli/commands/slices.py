"""`hoodie slices`: how a table's rows lie in files."""

from hoodie import environment
from hoodie.cli import command, options, output, progress, tables
from hoodie.cli.views import slices as view

DETAILS = """A file slice is a base file and the log files that a snapshot read merges on top of it.
Compaction merges them into a new base file.
"""


def slices(uri: options.TableUri, *, as_json: options.AsJson = False) -> None:
    """Show a table's file slices."""
    with progress.Display() as display:
        opened = tables.open_table(uri, environment.system(), display)
        display.phase("listing files")
        shown = view.document(opened.uri, opened.slices(), opened.planned_compactions())
    if as_json:
        output.document(shown)
        return
    if shown.slices:
        output.grid(view.grid(shown))
    output.line(view.summary(shown))


COMMAND = command.Command(
    run=slices,
    details=DETAILS,
)
