"""Writing to the two streams: answers to standard output, everything else to standard error."""

import contextlib
import io
import os
import sys
from collections.abc import Iterator

import typer
from rich import box, console, table, text

from hoodie import errors
from hoodie.cli import grids, texts
from hoodie.model import json_values


def open_missing() -> None:
    """Open the standard streams that this process was started without.

    Else a table's file would take the number of one. What is printed goes nowhere.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


@contextlib.contextmanager
def printing() -> Iterator[None]:
    """Name standard output in what it fails with.

    Raises:
        BrokenPipeError: Its reader is gone.
        StorageError: It cannot be written to.
    """
    try:
        yield
    except BrokenPipeError:
        discard()
        raise
    except OSError as error:
        discard()
        raise errors.StorageError(f"standard output: {error.strerror or error}") from error


def discard() -> None:
    """Let what is still printed, and the interpreter's last flush, go nowhere."""
    with contextlib.suppress(OSError, io.UnsupportedOperation):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def flush() -> None:
    """Have standard output take what was printed."""
    with printing():
        sys.stdout.flush()


def document(value: object) -> None:
    """Print a dataclass instance as one JSON document."""
    write_bytes(json_values.encode(value) + b"\n")


def write_bytes(content: bytes) -> None:
    """Write bytes to standard output, in order with what was printed as text."""
    with printing():
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()


def line(content: str) -> None:
    """Print a line of the answer."""
    _print(texts.redacted(texts.one_line(content)))


def _print(content: str) -> None:
    with printing():
        typer.echo(content)


def note(content: str) -> None:
    """Print a line that is not part of the answer, on standard error."""
    typer.echo(texts.redacted(texts.one_line(content)), err=True)


def is_terminal() -> bool:
    """Return whether somebody watches standard output."""
    return sys.stdout.isatty()


def grid(given: grids.Grid) -> None:
    """Print a grid; at a terminal as much of it as fits, otherwise all of it."""
    content = grids.visible(given)
    screen = console.Console()
    fit = grids.fit(content, screen.width if screen.is_terminal else None)
    # The width is set, not left to rich: what is no terminal is 80 columns wide to it.
    paper = console.Console(width=grids.total_width(fit.widths.values()), highlight=False)
    with printing(), paper.capture() as printed:
        paper.print(_rendered(content, fit))
    for each in printed.get().splitlines():
        _print(each.rstrip())
    if fit.hidden:
        note(f"hidden because the terminal is narrow: {', '.join(fit.hidden)}")


def _rendered(content: grids.Grid, fit: grids.Fit) -> table.Table:
    # One blank of padding and one of the box make the gap.
    rendered = table.Table(
        box=box.SIMPLE_HEAD, padding=(0, grids.GAP - 1, 0, 0), pad_edge=False, show_edge=False
    )
    for index, width in fit.widths.items():
        column = content.columns[index]
        rendered.add_column(
            text.Text(column.heading, style="bold"),
            justify="right" if column.is_number else "left",
            width=width,
            no_wrap=True,
            overflow="ellipsis",
        )
    for row in content.rows:
        rendered.add_row(*(_cell(row[index], content.columns[index]) for index in fit.widths))
    return rendered


def _cell(content: str, column: grids.Column) -> text.Text:
    return text.Text(content, style=column.styles.get(content, ""))
