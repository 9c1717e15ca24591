"""A plugin of dbt-duckdb: sources that are tables, and models that are written to one.

In profiles.yml, of an output of the type duckdb:

    plugins:
      - module: hoodie_jobs.dbt_plugin
        alias: hoodie

A source has `plugin: hoodie` and `uri`, and may have `as_of`, in its meta. DuckDB reads it as a
dataset (`hoodie.door.datasets`), so that columns and filters of a model go into it. A model has
`materialized='external'`, `plugin='hoodie'` and `hoodie`, a dictionary: `uri`, `operation`
(`upsert`, `insert` or `overwrite`), and for a table that does not exist `record_key` and
`partition_by`.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from dbt.adapters.duckdb.plugins import BasePlugin
from pyarrow import dataset

import hoodie
from hoodie import errors
from hoodie.door import datasets

_OPERATIONS = ("upsert", "insert", "overwrite")
_OPTIONS = frozenset(("uri", "operation", "record_key", "partition_by"))


class Plugin(BasePlugin):  # type: ignore[misc] # dbt is no package of the tests' environment.
    """Reads and writes tables for dbt."""

    def load(self, source_config: Any) -> datasets.HoodieDataset:  # noqa: ANN401 - dbt's
        """Return a source as a dataset.

        Raises:
            HoodieError: There is no such table.
        """
        uri = source_config.get("uri")
        if not uri:
            raise errors.InvalidInputError(
                f"source {source_config.table_name()} has no uri: expected that of a table"
            )
        return hoodie.open_table(uri).dataset(as_of=source_config.get("as_of"))

    def default_materialization(self) -> str:
        """Return how sources are there: as views, which read what a query needs."""
        return "view"

    def store(self, target_config: Any) -> None:  # noqa: ANN401 - dbt's
        """Write a model, which dbt has put into a file, in one commit.

        Raises:
            InvalidInputError: An option is missing, or not known.
            HoodieError: Nothing was published.
        """
        options: Mapping[str, Any] = target_config.config.get("hoodie") or {}
        _check(options, str(target_config.relation))
        location = target_config.location
        rows = dataset.dataset(location.path, format=location.format)
        keys = _names(options.get("record_key"))
        opened = _opened(options["uri"], rows.schema, keys, _names(options.get("partition_by")))
        # Of a model without rows dbt writes one of nulls.
        key = opened.config.record_key_fields[0]
        reader = rows.scanner(filter=pc.field(key).is_valid()).to_reader()
        match options.get("operation", "upsert"):
            case "upsert":
                opened.upsert(reader)
            case "insert":
                opened.insert(reader)
            case _:
                opened.overwrite(reader)


def _check(options: Mapping[str, Any], model: str) -> None:
    if unknown := sorted(options.keys() - _OPTIONS):
        raise errors.InvalidInputError(
            f"model {model} has the option {unknown[0]}, expected {', '.join(sorted(_OPTIONS))}"
        )
    if not options.get("uri"):
        raise errors.InvalidInputError(f"model {model} has no option uri: expected a table's")
    operation = options.get("operation", "upsert")
    if operation not in _OPERATIONS:
        raise errors.InvalidInputError(
            f"model {model}: operation is {operation!r}, expected {', '.join(_OPERATIONS)}"
        )


def _opened(
    uri: str, schema: pa.Schema, record_key: tuple[str, ...], partition_by: tuple[str, ...]
) -> hoodie.Table:
    try:
        return hoodie.open_table(uri)
    except errors.NotFoundError:
        if not record_key:
            raise
    return hoodie.create_table(uri, schema, record_key, partition_by=partition_by)


def _names(given: str | list[str] | None) -> tuple[str, ...]:
    if given is None:
        return ()
    return (given,) if isinstance(given, str) else tuple(given)
