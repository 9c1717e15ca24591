"""`hudi-operator init`: a first manifest for files that are there."""

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from hoodie import errors
from hoodie.cli import inputs
from hoodie.cli import options as words
from hoodie.contract import input_sources
from hoodie.model import column_names, column_types
from hoodie.sources import inferring
from hoodie_operator.api import hudi_table, writer
from hoodie_operator.commands import options
from hoodie_operator.standalone import drafting

_FORMATS = {
    input_sources.SourceFormat.CSV: writer.FileFormat.CSV,
    input_sources.SourceFormat.JSON: writer.FileFormat.JSON,
    input_sources.SourceFormat.PARQUET: writer.FileFormat.PARQUET,
}
_TYPES = {
    words.TypeName.MOR: hudi_table.TableType.MERGE_ON_READ,
    words.TypeName.COW: hudi_table.TableType.COPY_ON_WRITE,
}
_NO_NAME = re.compile(r"[^a-z0-9]+")


def init(  # noqa: PLR0913, PLR0917 - a parameter an option
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="Files of rows: parquet, CSV or JSON."),
    ],
    record_key: Annotated[
        str, typer.Option("--record-key", metavar="F[,F]", help="Columns that identify a row.")
    ],
    partition_by: Annotated[
        str | None, typer.Option("--partition-by", metavar="F[,F]", help="Partition columns.")
    ] = None,
    ordering: Annotated[
        str | None,
        typer.Option(
            "--ordering",
            metavar="F",
            help="The greater value wins among rows of one key.",
        ),
    ] = None,
    type_name: Annotated[
        words.TypeName,
        typer.Option("--type", help="mor (merge-on-read) or cow (copy-on-write)."),
    ] = words.TypeName.MOR,
    columns: Annotated[
        str | None,
        typer.Option("--columns", metavar="'NAME TYPE, ...'", help="Types that are not inferred."),
    ] = None,
    rename: words.Renames = None,
    name: Annotated[
        str | None,
        typer.Option("--name", help="The table's name.", show_default="the files' folder or name"),
    ] = None,
) -> None:
    """Print manifests of a table for files of rows, and of a Writer that writes them.

    Columns and their types are those of the files. The output is for a file in the current folder,
    and to be edited: `hudi-operator init trips/*.parquet --record-key id > trips.yaml`.
    """
    given_reading = inputs.Reading(renames=tuple(rename or ()))
    with inputs.local(files, given_reading) as names:
        reading = inputs.source(names, given_reading)
        given = column_types.columns(columns) if columns is not None else {}
        found = inferring.columns_of(names, reading, given)
    keys = words.names(record_key, "--record-key")
    partitions = words.names(partition_by, "--partition-by") if partition_by else ()
    ordered = words.names(ordering, "--ordering") if ordering else ()
    for column in (*keys, *partitions, *ordered):
        if column not in found.schema.names:
            raise errors.InvalidInputError(column_names.absence(column, found.schema.names))
    draft = drafting.Draft(
        name=_name(name, names[0]),
        columns=found.schema,
        record_key=keys,
        partition_by=partitions,
        ordering=ordered,
        table_type=_TYPES[type_name],
        source=_source(names, reading, found.schema.names),
    )
    for note in found.notes:
        options.ERR.print(f"note: {note}", markup=False, soft_wrap=True)
    sys.stdout.write(drafting.text(draft))


def _name(given: str | None, file: str) -> str:
    """Return the name of the objects: what was given, or what the first file's place suggests.

    Raises:
        InvalidInputError: No name can be made of it.
    """
    path = Path(file)
    folder = path.resolve().parent
    text = given or (path.name.partition(".")[0] if folder == Path.cwd() else folder.name)
    name = _NO_NAME.sub("-", text.lower()).strip("-")[:63].rstrip("-")
    if not name or (given is not None and name != given):
        raise errors.InvalidInputError(
            f"--name {text!r}: expected lower-case letters, digits and - between them"
        )
    return name


def _source(
    names: list[str], reading: input_sources.Source, columns: Sequence[str]
) -> dict[str, Any]:
    """Return where a Writer finds the files, and those that come to be beside them."""
    patterns = {_pattern(Path(name)) for name in names}
    if len(patterns) > 1:
        raise errors.InvalidInputError(
            f"the files are of several folders or endings ({', '.join(sorted(patterns))}), "
            "expected those of one Writer"
        )
    found: dict[str, Any] = {"path": patterns.pop(), "format": _FORMATS[reading.format].value}
    if reading.format is input_sources.SourceFormat.CSV and reading.delimiter != ",":
        found["csv"] = {"delimiter": reading.delimiter}
    if reading.renames:
        sources = {each.name: each.source for each in reading.renames}
        # A Writer takes those columns alone that it names.
        found["columns"] = {column: sources.get(column, column) for column in columns}
    return found


def _pattern(path: Path) -> str:
    folder = path.resolve().parent
    here = Path.cwd()
    place = os.path.relpath(folder, here) if folder.is_relative_to(here) else str(folder)
    ending = "".join(path.suffixes[-2:]) if path.suffix == ".gz" else path.suffix
    return str(Path(place) / f"*{ending}")
