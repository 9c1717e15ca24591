"""The table that a write is for: one that is there, or that `--create` makes of its input."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

import pyarrow as pa
import typer

from hoodie import environment, errors, table
from hoodie.cli import configurations, options, progress, tables
from hoodie.contract import input_sources
from hoodie.model import column_types, schemas, table_config
from hoodie.services import new_tables
from hoodie.sources import inferring


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What `--create` was told.

    Attributes:
        record_key: Columns.
        partition_by: Columns; empty for none.
        ordering: Columns; empty for none.
        table_type: Merge-on-read or copy-on-write.
        types: Columns with types that are not inferred, as text.
    """

    record_key: tuple[str, ...]
    partition_by: tuple[str, ...] = ()
    ordering: tuple[str, ...] = ()
    table_type: table_config.TableType
    types: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A table that is there, or all that it takes to create it.

    Attributes:
        uri: Its root.
        config: Its configuration.
        schema: Its columns.
        there: The table; None where it is to be created.
        notes: Sentences on columns that are of other types than the input's.
    """

    uri: str
    config: table_config.TableConfig
    schema: schemas.TableSchema
    there: table.Table | None
    notes: tuple[str, ...] = ()

    def opened(self, env: environment.Environment, display: progress.Display) -> table.Table:
        """Return the table; one that is not there is created.

        Raises:
            AlreadyExistsError: Another process has created it meanwhile.
        """
        if self.there is not None:
            return self.there
        display.phase("creating the table")
        return table.create_table(self.uri, self.config, self.schema, tables.watched(env, display))


def wish(
    *,
    is_wanted: bool,
    record_key: str | None,
    partition_by: str | None,
    ordering: str | None,
    type_name: options.TypeName | None,
    types: str | None,
) -> Wish | None:
    """Return what `--create` and its options ask for; None where no table is to be made.

    Raises:
        BadParameter: An option is missing, or goes with --create only.
    """
    given = {
        "--record-key": record_key,
        "--partition-by": partition_by,
        "--ordering": ordering,
        "--type": type_name,
        "--columns": types,
    }
    if not is_wanted:
        for option, value in given.items():
            if value is not None:
                raise typer.BadParameter(f"{option} is an option of --create only")
        return None
    if record_key is None:
        raise typer.BadParameter("--create: expected --record-key as well")
    return Wish(
        record_key=options.names(record_key, "--record-key"),
        partition_by=options.names(partition_by, "--partition-by") if partition_by else (),
        ordering=options.names(ordering, "--ordering") if ordering else (),
        table_type=options.TABLE_TYPES[type_name or options.TypeName.MOR],
        types=types,
    )


def target(
    uri: str,
    wanted: Wish | None,
    files: Sequence[str],
    source: input_sources.Source,
    env: environment.Environment,
    display: progress.Display,
) -> Target:
    """Return the table that is there, or, with a wish, what is to be created.

    Raises:
        NotFoundError: There is no table, and none is to be made.
        ConfigurationError: The table that is there has other keys, partitions or columns than the
            wish.
        InvalidInputError: The input has no columns that a table can have.
    """
    try:
        there = tables.open_table(uri, env, display)
    except errors.NotFoundError:
        if wanted is None:
            raise
    else:
        if wanted is not None:
            _check(there, wanted)
        return Target(uri=uri, config=there.config, schema=there.schema, there=there)
    display.phase("looking at the input")
    types = column_types.columns(wanted.types) if wanted.types is not None else {}
    found = inferring.columns_of(files, source, types)
    name = new_tables.name_of(uri)
    schema = schemas.from_arrow(found.schema, name)
    config = new_tables.new_table(
        new_tables.Wish(
            name=name,
            table_type=wanted.table_type,
            record_key=wanted.record_key,
            partition_by=wanted.partition_by,
            ordering=wanted.ordering,
            chain=table_config.ChainName(id=env.random.uuid()),
        ),
        schema,
        configurations.spelled,
    )
    return Target(uri=uri, config=config, schema=schema, there=None, notes=found.notes)


def _check(there: table.Table, wanted: Wish) -> None:
    config = there.config
    for option, has, wants in (
        ("--record-key", config.record_key_fields, wanted.record_key),
        ("--partition-by", config.partition_fields, wanted.partition_by),
    ):
        if tuple(has) != wants:
            _refuse(config, f"with {option} {_listed(has)}, not {_listed(wants)}")
    columns = there.schema.arrow
    types = column_types.columns(wanted.types) if wanted.types is not None else {}
    for name, kind in types.items():
        if name not in columns.names:
            _refuse(config, f"without a column {name}")
        elif columns.field(name).type != kind:
            has_type = columns.field(name).type
            _refuse(config, f"with column {name} {_type_name(has_type)}, not {_type_name(kind)}")


def _listed(names: Sequence[str]) -> str:
    return ",".join(names) or "(none)"


def _type_name(kind: pa.DataType) -> str:
    return column_types.name_of(kind) or str(kind)


def _refuse(config: table_config.TableConfig, reason: str) -> NoReturn:
    raise errors.ConfigurationError(
        f"table {config.name!r} is there, {reason}: write without --create, or name another table"
    )
