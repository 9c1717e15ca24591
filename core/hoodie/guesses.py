"""Names that people try who come from PyIceberg, delta-rs, pandas or Spark, and what is meant here.

Nothing goes by these names: an error that a wrong one ends with says the right one. So there is one
way to do a thing, and those who try another find it without documentation.
"""

import difflib
import functools
from collections.abc import Callable, Mapping
from typing import Final, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Class = TypeVar("Class", bound=type)
_BASE: Final = "Front."
_SHOWN: Final = "Table."
"""What Python calls methods of a table's base class, and what people do."""

MODULE: Final = {
    **dict.fromkeys(
        (
            "connect",
            "DeltaTable",
            "HoodieTable",
            "HudiTable",
            "HudiTableBuilder",
            "load_catalog",
            "load_table",
            "open",
            "read",
            "read_hudi",
            "read_table",
            "scan",
            "scan_hudi",
            "scan_table",
            "StaticTable",
        ),
        "hoodie.open_table(uri) opens a table, without a catalog, and Table.scan reads it",
    ),
    **dict.fromkeys(
        ("create", "create_table_if_not_exists", "new_table"), "hoodie.create_table(uri, ...)"
    ),
    **dict.fromkeys(
        ("append", "upsert", "write", "write_deltalake", "write_hudi", "write_table"),
        "hoodie.open_table(uri) or hoodie.create_table(uri, ...), and Table.upsert, insert or "
        "overwrite",
    ),
    **dict.fromkeys(
        ("exists", "is_deltatable", "is_hudi_table", "is_table", "table_exists"),
        "hoodie.open_table(uri), which raises hoodie.errors.NotFoundError where there is none",
    ),
    **dict.fromkeys(
        ("delete_table", "drop", "drop_table", "purge_table"),
        "`hoodie drop URI` on the command line",
    ),
    **dict.fromkeys(
        ("list_namespaces", "list_tables", "tables"), "`hoodie tables DIR` on the command line"
    ),
}
"""Of the package."""

_COMMITS: Final = "inspect.timeline() for commits, scan(as_of=...) to read an earlier one"
_SHAPE: Final = (
    "rows of an upsert that have other columns change it, once the table was opened with "
    "settings={'hoodie.datasource.write.reconcile.schema': 'true'}"
)

TABLE: Final = {
    **{
        name: f"scan().{name}()"
        for name in (
            "count",
            "explain",
            "narrowed",
            "to_arrow",
            "to_batches",
            "to_duckdb",
            "to_pandas",
            "to_polars",
        )
    },
    "to_pyarrow_table": "scan().to_arrow()",
    "to_table": "scan().to_arrow()",
    "collect": "scan().to_arrow()",
    "to_df": "scan().to_pandas()",
    "to_pyarrow_dataset": "dataset()",
    "to_lance": "dataset()",
    "lazy": "scan().to_polars(lazy=True)",
    "query": "scan(columns, where)",
    "select": "scan(columns)",
    "filter": "scan(where=...)",
    "where": "scan(where=...)",
    "head": "scan(limit=...)",
    "limit": "scan(limit=...)",
    "show": "scan(limit=...).to_pandas()",
    "append": "insert(rows), or upsert(rows)",
    "add": "insert(rows)",
    "add_files": "insert(pyarrow.dataset.dataset(files))",
    "merge": "upsert(rows), update(values, where) and delete(where), together in transaction(...)",
    "merge_insert": "upsert(rows)",
    "create_transaction": "transaction(app_id, batch_id)",
    "dynamic_partition_overwrite": "overwrite(rows, replace='partitions')",
    "vacuum": "maintain.clean()",
    "expire_snapshots": "maintain.clean()",
    "optimize": "maintain.compact()",
    "optimise": "maintain.compact()",
    "maintenance": "maintain",
    "rollback": "maintain.roll_back() for failed writes",
    "create_checkpoint": "maintain.savepoint() keeps a commit",
    "load_cdf": "change_data(since=...), or changes(since=...)",
    "snapshots": _COMMITS,
    "snapshot": _COMMITS,
    "snapshot_by_id": _COMMITS,
    "current_snapshot": _COMMITS,
    "snapshot_as_of_timestamp": _COMMITS,
    "load_as_version": _COMMITS,
    "load_version": _COMMITS,
    "as_of": _COMMITS,
    "at_version": _COMMITS,
    "version": _COMMITS,
    "versions": _COMMITS,
    "log": _COMMITS,
    "restore": _COMMITS,
    "files": "inspect.files()",
    "file_uris": "inspect.files()",
    "get_add_actions": "inspect.files(), inspect.statistics()",
    "partitions": "inspect.partitions()",
    "statistics": "inspect.statistics()",
    "stats_by_file": "inspect.statistics()",
    "name": "config.name",
    "location": "uri",
    "table_uri": "uri",
    "path": "uri",
    "columns": "schema.arrow.names",
    "dtypes": "schema.arrow",
    "fields": "schema.arrow",
    "schemas": "schema.arrow",
    "spec": "config.partition_fields",
    "properties": "config",
    "protocol": "config",
    "description": "config",
    "update_schema": _SHAPE,
    "alter": _SHAPE,
    "add_column": _SHAPE,
    "add_columns": _SHAPE,
    "update_incremental": "refresh()",
    "reload": "refresh()",
    "to_dict": "scan().to_arrow().to_pydict()",
    "to_pylist": "scan().to_arrow().to_pylist()",
    "num_rows": "scan().count()",
    "shape": "scan().count(), schema.names",
    "snapshot_id": _COMMITS,
    "current_version": _COMMITS,
    "drop": "`hoodie drop URI` on the command line",
    "delete_table": "`hoodie drop URI` on the command line",
}
"""Of a table."""

SCAN: Final = {
    "to_df": "to_pandas()",
    "to_pyarrow": "to_arrow()",
    "to_pyarrow_table": "to_arrow()",
    "to_table": "to_arrow()",
    "collect": "to_arrow()",
    "execute": "to_arrow()",
    "read_all": "to_arrow()",
    "to_pylist": "to_arrow().to_pylist()",
    "to_dicts": "to_arrow().to_pylist()",
    "to_arrow_batch_reader": "to_batches()",
    "to_reader": "to_batches()",
    "to_record_batches": "to_batches()",
    "to_lazy": "to_polars(lazy=True)",
    "to_pyarrow_dataset": "dataset()",
    "to_dataset": "dataset()",
    "to_ray": "fragments(), as docs/engines.md has it",
    "to_dask": "fragments(), as docs/engines.md has it",
    "to_daft": "hoodie_jobs.daft_tables.read(uri)",
    "plan_files": "explain()",
    "count_rows": "count()",
    "num_rows": "count()",
    "head": "Table.scan(limit=...)",
    "limit": "Table.scan(limit=...)",
    "show": "to_pandas() of Table.scan(limit=...)",
    "use_ref": "Table.scan(as_of=...)",
    "snapshot": "Table.scan(as_of=...)",
    "filter": "narrowed(where=...)",
    "where": "narrowed(where=...)",
    "select": "narrowed(columns)",
    "columns": "schema.names",
    "projection": "schema",
}
"""Of a scan."""

INSPECT: Final = {
    "snapshots": "timeline()",
    "history": "timeline()",
    "metadata_log_entries": "timeline()",
    "commits": "timeline()",
    "refs": "timeline(), which has savepoints",
    "entries": "files(), or slices()",
    "manifests": "files(), or slices()",
    "data_files": "files()",
    "all_files": "files()",
    "delete_files": "files()",
    "columns": "statistics()",
    "stats": "statistics()",
}
"""Of `Table.inspect`."""

MAINTAIN: Final = {
    "vacuum": "clean()",
    "expire_snapshots": "clean()",
    "remove_orphan_files": "roll_back(), and clean()",
    "optimize": "compact()",
    "compaction": "compact()",
    "rewrite_data_files": "compact()",
    "rollback": "roll_back()",
    "create_index": "build_index(name)",
    "index": "build_index(name)",
    "restore": "Table.overwrite(table.scan(as_of=...)) writes the rows of an earlier commit again",
    "rollback_to_snapshot": (
        "Table.overwrite(table.scan(as_of=...)) writes the rows of an earlier commit again"
    ),
    **dict.fromkeys(
        ("cluster", "clustering", "rewrite_position_delete_files", "sort", "z_order"),
        "compact(); Table.insert(rows, bulk=True, sort_by=...) writes sorted files",
    ),
    "checkpoint": "savepoint()",
    "delete_orphan_files": "roll_back(), and clean()",
    "iceberg": "mirror()",
}
"""Of `Table.maintain`."""

_END: Final = "nothing: the end of the `with` block commits, and an exception in it gives up"

TRANSACTION: Final = {
    "append": "insert(rows), or upsert(rows)",
    "add": "insert(rows)",
    "merge": "upsert(rows), update(values, where) and delete(where)",
    "write": "upsert(rows), or insert(rows)",
    "commit": _END,
    "commit_transaction": _END,
    "rollback": _END,
    "abort": _END,
    "scan": "Table.scan(), of the table before the transaction",
}
"""Of a transaction."""

SCHEMA: Final = {
    **dict.fromkeys(("as_arrow", "to_arrow", "to_pyarrow", "arrow_schema", "fields"), "arrow"),
    **dict.fromkeys(("columns", "column_names", "names"), "arrow.names"),
    **dict.fromkeys(("field", "find_field", "types", "dtypes"), "arrow.field(name).type"),
    "json": "avro",
    "to_json": "avro",
}
"""Of a table's schema."""

READER: Final = {
    **dict.fromkeys(
        ("collect", "execute", "to_arrow", "to_pyarrow_table", "to_table"), "read().read_all()"
    ),
    **dict.fromkeys(("show", "to_df", "to_pandas"), "read().read_pandas()"),
    **dict.fromkeys(("to_batches", "to_reader", "to_arrow_batch_reader"), "read()"),
    "to_polars": "polars.from_arrow(read())",
    "to_pylist": "read().read_all().to_pylist()",
    "to_duckdb": "read(), which a query of DuckDB can name",
    "count": "read().read_all().num_rows",
}
"""Of what is read by `read()` alone: changes, change data, the history of a row."""

ARGUMENTS: Final = {
    "batch": "batch_id",
    "cols": "columns",
    "con": "connection",
    "conn": "connection",
    "table_name": "name",
    "condition": "where",
    "data": "rows",
    "delete_filter": "where",
    "df": "rows",
    "expr": "where",
    "filter": "where",
    "filters": "where",
    "id": "record_key",
    "key": "record_key",
    "keys": "record_key",
    "location": "uri",
    "mode": "replace",
    "options": "settings",
    "min_snapshots_to_keep": "keep_commits",
    "older_than": "keep_hours",
    "overwrite_filter": "replace",
    "overwrite_partitions": "replace",
    "partition_columns": "partition_by",
    "partition_spec": "partition_by",
    "partitioned_by": "partition_by",
    "partitions": "partition_by",
    "path": "uri",
    "precombine": "ordering",
    "precombine_field": "ordering",
    "predicate": "where",
    "primary_key": "record_key",
    "primary_keys": "record_key",
    "projection": "columns",
    "properties": "settings",
    "record_keys": "record_key",
    "retain_last": "keep_commits",
    "retention_hours": "keep_hours",
    "row_filter": "where",
    "select": "columns",
    "selected_fields": "columns",
    "set": "values",
    "snapshot_id": "as_of",
    "sort_columns": "sort_by",
    "sort_order": "sort_by",
    "table_uri": "uri",
    "timestamp": "as_of",
    "updates": "values",
    "version": "as_of",
}
"""Of any function: the parameter that is meant, if it has one of this name."""

_BY_KEY: Final = "rows are matched by the table's record key, which create_table was given"
_THERE: Final = "it creates; hoodie.open_table(uri) opens a table that is there"
_OF_SCAN: Final = "scan(columns, where).dataset() is one of some columns and rows"

INSTEAD: Final = {
    ("upsert", "join_cols"): _BY_KEY,
    ("upsert", "on"): _BY_KEY,
    ("upsert", "merge_on"): _BY_KEY,
    ("upsert", "key"): _BY_KEY,
    ("upsert", "keys"): _BY_KEY,
    ("upsert", "when_matched_update_all"): "an upsert updates and inserts; insert(rows) inserts",
    ("upsert", "when_not_matched_insert_all"): "an upsert updates and inserts",
    ("upsert", "mode"): "insert(rows) adds, overwrite(rows) replaces",
    ("insert", "mode"): "overwrite(rows) replaces",
    ("create_table", "mode"): _THERE,
    ("create_table", "exist_ok"): _THERE,
    ("create_table", "exists_ok"): _THERE,
    ("create_table", "if_not_exists"): _THERE,
    ("dataset", "columns"): _OF_SCAN,
    ("dataset", "where"): _OF_SCAN,
    ("dataset", "filter"): _OF_SCAN,
}
"""What to do instead of giving some functions an argument that they do not have."""


def of_names(meant: Mapping[str, str]) -> Callable[[Class], Class]:
    """Have a class say what is meant by names that it does not have.

    It is not a `__getattr__` that checks of types see: to them a wrong name stays wrong.

    Args:
        meant: What to write instead, by name.
    """

    def decorated(owner: Class) -> Class:
        def missing(self: object, name: str) -> object:
            # A name of the class was looked up already: this says again what is wrong with it.
            if name.startswith("_") or name in dir(type(self)):
                return object.__getattribute__(self, name)
            names = [each for each in dir(type(self)) if not each.startswith("_")]
            title = type(self).__name__
            raise AttributeError(
                f"{title!r} object has no attribute {name!r}{hint(name, meant, names)}",
                name=name,
                obj=self,
            )

        owner.__getattr__ = missing  # type: ignore[attr-defined]  # As the docstring has it.
        return owner

    return decorated


def hint(name: str, meant: Mapping[str, str], names: list[str]) -> str:
    """Return what to append to an error about a name; empty where nothing is like it."""
    if name in meant:
        return f"; what does it here: {meant[name]}"
    close = difflib.get_close_matches(name, [*names, *meant], n=1)
    if not close:
        return ""
    if close[0] in meant:
        return f"; what may do it here: {meant[close[0]]}"
    return f"; did you mean {close[0]}?"


def of_arguments(
    otherwise: str = "",
) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Have a function say which parameters are meant by arguments that do not fit.

    Args:
        otherwise: What to append where arguments are too few or too many; empty for the names of
            all.
    """

    def decorated(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        @functools.wraps(function)
        def checked(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            try:
                return function(*args, **kwargs)
            except TypeError as error:
                # One of the call itself was raised here, and not in the function.
                if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                    raise
                text = str(error).replace(_BASE, _SHOWN, 1)
                raise TypeError(f"{text}; {_expected(function, kwargs, otherwise)}") from None

        return checked

    return decorated


def _expected(function: Callable[..., object], given: Mapping[str, object], otherwise: str) -> str:
    code = getattr(function, "__code__")  # noqa: B009 - not every callable has it
    count = code.co_argcount + code.co_kwonlyargcount
    names = [each for each in code.co_varnames[:count] if each != "self"]
    all_names = f"its arguments are {', '.join(names)}"
    for each in given:
        if each in names:
            continue
        if (code.co_name, each) in INSTEAD:
            return INSTEAD[code.co_name, each]
        if ARGUMENTS.get(each) in names:
            return f"expected {ARGUMENTS[each]}="
        close = difflib.get_close_matches(each, names, n=1)
        return f"did you mean {close[0]}=?" if close else all_names
    return otherwise or all_names
