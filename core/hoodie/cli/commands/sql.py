"""`hoodie sql`: a query over tables, by DuckDB."""

import contextlib
import importlib
from concurrent import futures
from types import ModuleType
from typing import Annotated, Protocol

import pyarrow as pa
import typer

from hoodie import environment, errors
from hoodie.cli import command, options, progress, row_files, row_output, tables

DETAILS = """The query names the table by its own name, and as t; --table gives it more of them.
DuckDB reads the columns and files that the query needs, changes in log files included. It needs the
package duckdb: pip install 'hudi-operator\\[duckdb]'.
"""
EXAMPLES = """Examples:

  hoodie sql /data/trips "SELECT city, count(*), avg(fare) FROM trips GROUP BY city"
  hoodie sql /data/trips "SELECT * FROM t WHERE fare > 100" --output dear.parquet
  hoodie sql /data/trips "FROM t JOIN riders USING (rider)" --table riders=s3://lake/riders
"""
_ALIAS = "t"
_ROWS_AT_ONCE = 1 << 16


class _Query(Protocol):
    """A relation of DuckDB."""

    def to_arrow_reader(self, batch_size: int, /) -> pa.RecordBatchReader:
        """Execute it, and return its rows."""
        ...


class _Connection(Protocol):
    """A connection of DuckDB."""

    def interrupt(self) -> None:
        """End what it executes."""
        ...


def sql(  # noqa: PLR0913 - a parameter an option
    uri: options.TableUri,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="A query in DuckDB's SQL.")],
    *,
    more: Annotated[
        list[str] | None,
        typer.Option("--table", metavar="NAME=URI", help="Another table; repeatable."),
    ] = None,
    as_of: Annotated[
        str | None,
        typer.Option(
            metavar="MOMENT",
            help="An instant, savepoint:INSTANT, or a time, of the first table.",
            show_default="now",
        ),
    ] = None,
    output_path: Annotated[
        str,
        typer.Option(
            "--output", metavar="FILE", help="A .parquet or .csv file; - is standard output."
        ),
    ] = row_files.STANDARD_OUTPUT,
    limit: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="Show at most N rows.",
            show_default=f"all; {row_output.LIMIT_AT_TERMINAL} at a terminal",
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Query tables by DuckDB."""
    duckdb = _duckdb()
    row_output.check(output_path, uri)
    env = environment.system()
    with contextlib.closing(duckdb.connect()) as connection, progress.Display() as display:
        connection.execute("SET enable_progress_bar = false")  # It would be among the rows.
        opened = tables.open_table(uri, env, display)
        first = opened.scan(as_of=as_of)
        first.to_duckdb(connection, _ALIAS)
        if opened.config.name.lower() != _ALIAS:  # As DuckDB compares names.
            connection.register(opened.config.name, connection.view(_ALIAS))
        for name, other in options.properties(more, "--table").items():
            tables.open_table(other, env, display).scan().to_duckdb(connection, name)
        display.phase("querying")
        try:
            found = connection.sql(query)
            if found is None:
                raise errors.InvalidInputError(
                    "the text has no statement, expected a query, such as SELECT ... FROM t"
                )
            rows = _begun(found, connection)
            row_output.deliver(rows, opened.uri, output_path, limit, display, as_json=as_json)
        except duckdb.Error as error:
            raise errors.InvalidInputError(f"DuckDB: {error}") from error


def _begun(query: _Query, connection: _Connection) -> pa.RecordBatchReader:
    """Return the rows of a query that DuckDB has begun, in a thread of its own.

    In this one DuckDB would look for signals when it has the first rows, after minutes perhaps.
    """
    with futures.ThreadPoolExecutor(1, thread_name_prefix="hoodie-sql") as pool:
        beginning = pool.submit(query.to_arrow_reader, _ROWS_AT_ONCE)
        try:
            return beginning.result()
        except KeyboardInterrupt:
            connection.interrupt()
            raise


def _duckdb() -> ModuleType:
    try:
        return importlib.import_module("duckdb")
    except ImportError as error:
        raise errors.ConfigurationError(
            "hoodie sql needs the package duckdb: pip install 'hudi-operator[duckdb]'"
        ) from error


COMMAND = command.Command(
    run=sql,
    details=DETAILS,
    examples=EXAMPLES,
)
