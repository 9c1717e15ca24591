"""`hoodie stats`: how large a table's files are, and what table services would do about them."""

from typing import Annotated

import typer

from hoodie import environment
from hoodie.cli import command, options, output, progress, tables
from hoodie.cli.views import stats as view
from hoodie.services import table_stats

DETAILS = """Sizes are those of the files that a snapshot read needs now, of each file group the
newest slice. A small file is a base file below --small-file-mib; the skew is the size of the
largest file group by that of the median one. Older files are versions that no snapshot read needs:
a clean frees them, as far as its policy and savepoints allow.

The table is listed once, and no data file is read.
"""
EXAMPLES = """Examples:

  hoodie stats /data/trips
  hoodie stats /data/trips --small-file-mib 32 --json
"""
_MEBIBYTE = 1 << 20


def stats(
    uri: options.TableUri,
    *,
    small_file_mib: Annotated[
        int, typer.Option(metavar="MIB", min=0, help="Base files below this size are small.")
    ] = table_stats.SMALL_FILE_BYTES // _MEBIBYTE,
    as_json: options.AsJson = False,
) -> None:
    """Show how a table's rows lie in files."""
    with progress.Display() as display:
        opened = tables.open_table(uri, environment.system(), display)
        display.phase("listing files")
        shown = view.document(opened.uri, opened.stats(small_file_mib * _MEBIBYTE))
    if as_json:
        output.document(shown)
        return
    output.grid(view.grid(shown))
    for line in view.lines(shown):
        output.line(line)


COMMAND = command.Command(
    run=stats,
    details=DETAILS,
    examples=EXAMPLES,
)
