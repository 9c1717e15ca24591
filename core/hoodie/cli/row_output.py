"""Where rows go: into a file, to standard output, or as a grid to a terminal."""

import pyarrow as pa

from hoodie.cli import output, progress, quantities, row_files
from hoodie.cli.views import outcomes, rows

LIMIT_AT_TERMINAL = 20
"""Rows that are shown where nobody asks for more."""


def check(path: str, uri: str) -> None:
    """Refuse an output file that nothing could be written to, or that is in the table.

    Raises:
        InvalidInputError: Its name tells no format, its folder does not exist, or it lies in the
            table's.
    """
    if path != row_files.STANDARD_OUTPUT:
        row_files.check_path(path)
        row_files.check_outside(path, uri)


def deliver(
    found: pa.RecordBatchReader,
    uri: str,
    path: str,
    limit: int | None,
    display: progress.Display,
    *,
    as_json: bool,
) -> None:
    """Write rows to a file or to standard output.

    Args:
        found: The rows.
        uri: The table that they are of.
        path: A file, or `-`.
        limit: So many at most; None for all, and at a terminal for the first of them.
        display: Shows how many there are, and is closed before rows are shown at a terminal.
        as_json: Whether rows are JSON lines, and the answer of a file is.
    """
    if path == row_files.STANDARD_OUTPUT and not as_json and output.is_terminal():
        _to_terminal(found, LIMIT_AT_TERMINAL if limit is None else limit, display)
        return
    chosen = found if limit is None else row_files.head(found, limit)
    if path == row_files.STANDARD_OUTPUT:
        row_files.write_standard_output(chosen, display.rows, is_json=as_json)
    else:
        to_file(chosen, uri, path, display, as_json=as_json)


def to_file(
    found: pa.RecordBatchReader,
    uri: str,
    path: str,
    display: progress.Display,
    *,
    as_json: bool,
) -> None:
    """Write rows to a file and tell how many."""
    count = row_files.write_file(found, path, display.rows)
    display.close()
    shown = outcomes.ReadDocument(table=uri, output=path, rows=count)
    if as_json:
        output.document(shown)
    else:
        output.line(outcomes.read_line(shown))


def _to_terminal(found: pa.RecordBatchReader, limit: int, display: progress.Display) -> None:
    """Print rows, and whether they are all."""
    # One more row tells whether there are more.
    data = row_files.head(found, limit + 1).read_all()
    display.close()
    output.grid(rows.grid(data.slice(0, limit)))
    if data.num_rows > limit:
        output.note(
            f"the first {quantities.counted(limit, 'row')}; more with --limit N, all with "
            "--output FILE"
        )
    else:
        output.note(quantities.counted(data.num_rows, "row"))
