"""The definitions of a table's indexes: which columns they have, and how they hold values.

    .hoodie/.index_defs/index.json
        {"indexDefinitions": {name: {"sourceFields": [column, ...], "version": "V1" or "V2", ...}}}

Of an expression index `indexFunction` is the function, `indexOptions` has its arguments as texts,
and `indexType` says whether it has bounds or bloom filters. The version follows from the table's
where it is left out. There is no such file where no index needs a definition, and in tables of
early releases. Source: `HoodieIndexDefinition.java`, `HoodieIndexVersion.java` (1.2.0).
"""

import contextlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

import pyarrow as pa

from hoodie import errors
from hoodie.model import (
    expression_indexes,
    file_statistics,
    key_changes,
    plans,
    secondary_indexes,
    spark_functions,
    table_config,
)
from hoodie.storage.protocol import Storage

PATH = ".hoodie/.index_defs/index.json"

BYTES_MAX = 16 << 20
"""A longer file is not read."""

_TRIES_MAX = 10
_Secondary: TypeAlias = secondary_indexes.Definition
_Expression: TypeAlias = expression_indexes.Definition
_OfColumn: TypeAlias = _Secondary | _Expression
_HAS_VALUE_TYPES = {None: None, "V1": False, "V2": True}


def wanted_statistics(
    storage: Storage, config: table_config.TableConfig, schema: pa.Schema
) -> file_statistics.Wanted:
    """Return which statistics of new data files a table needs; one request if it needs any.

    Args:
        storage: The table's.
        config: Its configuration.
        schema: Its columns, without meta columns.

    Raises:
        FormatError: The definitions are damaged.
        UnsupportedError: They have what is not kept up.
        InvalidInputError: An expression index is of a column that is not there.
    """
    if not file_statistics.is_needed(config):
        return file_statistics.wanted(config, schema, None)
    definitions = _read(storage)
    names = file_statistics.expressions_of(config)
    expressions = _expressions(storage, config, names, definitions)
    found = _of_statistics(storage, definitions)
    return file_statistics.wanted(config, schema, found, expressions)


def is_partitioned(storage: Storage) -> bool:
    """Return whether the record index of a table is one of each partition; one request.

    Args:
        storage: The table's, which has a record index.

    Raises:
        FormatError: The definitions are damaged.
    """
    source = f"{storage.uri}/{PATH}, {key_changes.RECORD_INDEX}"
    options = (
        _object(_read(storage).get(key_changes.RECORD_INDEX, {}), source).get("indexOptions") or {}
    )
    return str(_object(options, source).get(plans.IS_PARTITIONED, False)).lower() == "true"


def of_secondary_indexes(
    storage: Storage, config: table_config.TableConfig, partitions: Collection[str]
) -> tuple[secondary_indexes.Definition, ...]:
    """Return the definitions of secondary indexes, by name; one request if there are any.

    Of an index that is being built, or whose builder has died before it wrote the definition, the
    table's properties have the column, whatever is defined under its name.

    Args:
        storage: The table's.
        config: Its configuration.
        partitions: Of the metadata table; those that are no secondary index are left out.

    Raises:
        FormatError: The definitions are damaged, or one is missing.
        UnsupportedError: One is of several columns, or of a version that is not known.
    """
    names = sorted(filter(secondary_indexes.is_one, partitions))
    if not names:
        return ()
    definitions = _read(storage)
    return tuple(_secondary_index(storage, config, name, definitions) for name in names)


def of_expressions(
    storage: Storage, config: table_config.TableConfig, partitions: Collection[str]
) -> tuple[_Expression, ...]:
    """Return the expression indexes that have bounds, by name; one request if there are any.

    Of one that is being built, or dropped, the table's properties have the definition, as
    `expression_text` has it.

    Args:
        storage: The table's.
        config: Its configuration.
        partitions: Of the metadata table; those that are no expression index are left out.

    Raises:
        FormatError: The definitions are damaged, or one is missing.
        UnsupportedError: One is of what is not computed here.
    """
    names = sorted(filter(expression_indexes.is_one, partitions))
    return _expressions(storage, config, names, _read(storage)) if names else ()


def calls_of_expressions(
    storage: Storage, config: table_config.TableConfig, hear_left_out: Callable[[str], object]
) -> Mapping[str, str]:
    """Return the calls by which the expression indexes of a table can be built again, by name.

    Args:
        storage: The table's.
        config: Its configuration.
        hear_left_out: Hears which cannot be, and why.
    """
    found: dict[str, str] = {}
    for name in filter(expression_indexes.is_one, config.metadata_partitions):
        try:
            for each in of_expressions(storage, config, [name]):
                spark_functions.call_of(str(each))
                found[name] = str(each)
        except (errors.FormatError, errors.InvalidInputError, errors.UnsupportedError) as error:
            hear_left_out(f"{name} of {storage.uri} is not built again: {error}")
        else:
            if name not in found:
                hear_left_out(f"{name} of {storage.uri} is not built again: it has bloom filters")
    return found


def columns_of_secondary_indexes(
    storage: Storage, config: table_config.TableConfig, hear_left_out: Callable[[str], object]
) -> Mapping[str, str]:
    """Return the columns by which secondary indexes can be built again; as `calls_of_expressions`.

    Those whose definition is not read are left out.
    """
    found: dict[str, str] = {}
    for name in filter(secondary_indexes.is_one, config.metadata_partitions):
        try:
            for each in of_secondary_indexes(storage, config, [name]):
                found[name] = each.column
        except (errors.FormatError, errors.UnsupportedError) as error:
            hear_left_out(f"{name} of {storage.uri} is not built again: {error}")
    return found


def _expressions(
    storage: Storage,
    config: table_config.TableConfig,
    names: Iterable[str],
    definitions: Mapping[str, object],
) -> tuple[_Expression, ...]:
    found = (_expression(storage, config, name, definitions) for name in names)
    return tuple(each for each in found if each is not None)


def _expression(
    storage: Storage,
    config: table_config.TableConfig,
    name: str,
    definitions: Mapping[str, object],
) -> _Expression | None:
    """Return an expression index; None for one of bloom filters."""
    source = f"{storage.uri}/{PATH}, {name}"
    text = config.properties.get(secondary_indexes.column_key(name))
    if text is not None:
        return expression_of(config, name, text)
    if name not in definitions:
        raise errors.FormatError(
            f"{storage.uri}/{PATH} does not define {name}, which the metadata table has: drop it "
            f"by `hoodie index drop TABLE {name}`"
        )
    try:
        return _expression_of(config, name, _object(definitions[name], source), source)
    except errors.UnsupportedError as error:
        raise errors.UnsupportedError(
            f"the metadata table of {config.name} has {name}, which this version does not keep up: "
            f"{error}; drop it by `hoodie index drop TABLE {name}`, or the metadata table by "
            "`hoodie metadata drop`"
        ) from error


def expression_of(config: table_config.TableConfig, name: str, text: str) -> _Expression | None:
    """Return an expression index as `expression_text` has it; None for one of bloom filters.

    Raises:
        FormatError: The text is damaged.
        UnsupportedError: It is of what is not computed here.
    """
    source = f"{name} of {config.name}, in its properties or a plan"
    return _expression_of(config, name, _object(_decoded(text.encode(), source), source), source)


def expression_text(definition: _Expression) -> str:
    """Return the text that the table's properties, and the plan of a build, have of an index."""
    return json.dumps(_expression_fields(definition), sort_keys=True)


def by_call(config: table_config.TableConfig, name: str, text: str) -> _Expression:
    """Return an expression index as it is built in a table, of a call such as `lower(name)`.

    Raises:
        InvalidInputError: The text is not a call.
        UnsupportedError: The function is not computed here.
    """
    column, function = spark_functions.call_of(text)
    return _Expression(
        partition=name,
        column=column,
        function=function,
        has_value_types=config.version > table_config.VERSION_WITH_PAYLOADS,
    )


def _expression_of(
    config: table_config.TableConfig, name: str, fields: Mapping[str, object], source: str
) -> _Expression | None:
    kind = fields.get("indexType")
    if kind == expression_indexes.OF_FILTERS:
        return None
    found = _definition(fields, source)
    if kind != expression_indexes.OF_BOUNDS or len(found.columns) != 1:
        raise errors.UnsupportedError(
            f"{source} is of type {kind!r:.80} and of the columns {', '.join(found.columns)}, "
            f"expected {expression_indexes.OF_BOUNDS} or {expression_indexes.OF_FILTERS} of one "
            "column"
        )
    options = _object(fields.get("indexOptions") or {}, source)
    function = spark_functions.parsed(
        str(fields.get("indexFunction")), {key: str(each) for key, each in options.items()}, source
    )
    has_value_types = found.has_value_types
    if has_value_types is None:
        has_value_types = config.version > table_config.VERSION_WITH_PAYLOADS
    return _Expression(
        partition=name,
        column=found.columns[0],
        function=function,
        has_value_types=has_value_types,
    )


def _expression_fields(definition: _Expression) -> Mapping[str, object]:
    function = definition.function
    return {
        "indexName": definition.partition,
        "indexType": expression_indexes.OF_BOUNDS,
        "indexFunction": function.name,
        "sourceFields": [definition.column],
        "indexOptions": {"expr": function.name, **dict(function.options)},
        "version": "V2" if definition.has_value_types else "V1",
    }


def by_column(config: table_config.TableConfig, name: str, column: str) -> _Secondary:
    """Return a secondary index as it is built in a table."""
    is_hashed_by_value = config.version > table_config.VERSION_WITH_PAYLOADS
    return _Secondary(partition=name, column=column, is_hashed_by_value=is_hashed_by_value)


def _secondary_index(
    storage: Storage,
    config: table_config.TableConfig,
    name: str,
    definitions: Mapping[str, object],
) -> _Secondary:
    source = f"{storage.uri}/{PATH}, {name}"
    column = config.properties.get(secondary_indexes.column_key(name))
    if column is not None:
        return by_column(config, name, column)
    if name not in definitions:
        raise errors.FormatError(
            f"{storage.uri}/{PATH} does not define {name}, which the metadata table has: drop it "
            f"by `hoodie index drop TABLE {name}`"
        )
    fields = _object(definitions[name], source)
    found = _definition(fields, source)
    if fields.get("indexType") != secondary_indexes.TYPE or len(found.columns) != 1:
        raise errors.UnsupportedError(
            f"{source} is of type {fields.get('indexType')!r:.80} and of the columns "
            f"{', '.join(found.columns)}, expected a {secondary_indexes.TYPE} of one column"
        )
    plain = by_column(config, name, found.columns[0])
    if found.has_value_types is None:
        return plain
    return replace(plain, is_hashed_by_value=found.has_value_types)


def of_statistics(storage: Storage) -> file_statistics.Definition | None:
    """Return the definition of a table's statistics, of data files and of partitions; one request.

    Raises:
        FormatError: The file is damaged.
        UnsupportedError: They are of a version that is not known.
    """
    return _of_statistics(storage, _read(storage))


def _of_statistics(
    storage: Storage, definitions: Mapping[str, object]
) -> file_statistics.Definition | None:
    source = f"{storage.uri}/{PATH}"
    # Both have the same columns, and as a rule the first alone is defined.
    for name in (file_statistics.COLUMN_STATS, file_statistics.PARTITION_STATS):
        if name in definitions:
            return _definition(_object(definitions[name], source), f"{source}, {name}")
    return None


def _read(storage: Storage) -> Mapping[str, object]:
    """Return the definitions by name; none where there is no file."""
    try:
        return _definitions(storage, storage.read(PATH, length=BYTES_MAX + 1))
    except errors.NotFoundError:
        return {}


def _definitions(storage: Storage, content: bytes) -> Mapping[str, object]:
    source = f"{storage.uri}/{PATH}"
    if len(content) > BYTES_MAX:
        raise errors.FormatError(f"{source} has more than {BYTES_MAX} bytes")
    return _object(_object(_decoded(content, source), source).get("indexDefinitions"), source)


def put_of_statistics(
    storage: Storage,
    config: table_config.TableConfig,
    wanted: file_statistics.Wanted,
    *,
    is_only: bool = True,
) -> None:
    """Write the definition of the statistics of a metadata table.

    Args:
        storage: The table's.
        config: Its configuration.
        wanted: The columns with statistics.
        is_only: Whether no other index has a definition; otherwise those that are there stay.

    Raises:
        FormatError: What is there is damaged.
        StorageError: Not done.
    """
    has_value_types = config.version > table_config.VERSION_WITH_PAYLOADS
    definition = {
        "indexName": file_statistics.COLUMN_STATS,
        "indexType": file_statistics.COLUMN_STATS,
        "indexFunction": file_statistics.COLUMN_STATS,
        "sourceFields": list(wanted.kinds),
        "indexOptions": {},
        "version": "V2" if has_value_types else "V1",
    }
    own = {file_statistics.COLUMN_STATS: definition}
    _change(storage, lambda there: {**there, **own}, is_only=is_only)


def put_of_record_index(
    storage: Storage, check: Callable[[], None], *, is_partitioned: bool = False
) -> None:
    """Write the definition of a record index beside those that are there.

    Engines tell its kind by the definition. So a process that was paused does not write over that
    of a later index: what has changed since the check is not replaced.

    Args:
        storage: The table's.
        check: Raises when another may define one.
        is_partitioned: Whether it is one of each partition.

    Raises:
        ConflictError: The definitions change all the time.
        FormatError: What is there is damaged.
        StorageError: Not done.
    """
    definition = {
        "indexName": key_changes.RECORD_INDEX,
        "indexType": key_changes.RECORD_INDEX,
        "indexFunction": "",
        "sourceFields": [],
        "indexOptions": {plans.IS_PARTITIONED: "true" if is_partitioned else "false"},
        "version": "V1",
    }

    def add(there: Mapping[str, object]) -> Mapping[str, object]:
        check()
        return {**there, key_changes.RECORD_INDEX: definition}

    _change(storage, add)


def put_of_columns(storage: Storage, wanted: Callable[[], Iterable[_OfColumn]]) -> None:
    """Write definitions of secondary and expression indexes beside those that are there.

    Args:
        storage: The table's.
        wanted: Returns them, once what is there was read: who changes both meanwhile is noticed.

    Raises:
        FormatError: What is there is damaged.
        ConflictError: Others change it all the time.
        StorageError: Not done.
    """

    def added() -> Mapping[str, object]:
        return {each.partition: _fields_of(each) for each in wanted()}

    _change(storage, lambda there: {**there, **added()})


def _fields_of(definition: _OfColumn) -> Mapping[str, object]:
    if isinstance(definition, _Expression):
        return _expression_fields(definition)
    return {
        "indexName": definition.partition,
        "indexType": secondary_indexes.TYPE,
        "indexFunction": "identity",
        "sourceFields": [definition.column],
        "indexOptions": {},
        "version": "V2" if definition.is_hashed_by_value else "V1",
    }


def remove(storage: Storage, names: Collection[str]) -> bool:
    """Remove the definitions of indexes; return whether there were any.

    Raises:
        FormatError: What is there is damaged.
        StorageError: Not done.
    """
    is_there = bool(names) and not _read(storage).keys().isdisjoint(names)
    if is_there:
        _change(
            storage,
            lambda there: {name: each for name, each in there.items() if name not in names},
        )
    return is_there


def _change(
    storage: Storage,
    change: Callable[[Mapping[str, object]], Mapping[str, object]],
    *,
    is_only: bool = False,
) -> None:
    """Change the definitions; what another has changed meanwhile is changed anew.

    Also where a lock excludes nobody: what others have defined stays, unless `is_only`: it may be
    left of a metadata table that is not there any more, and be anything.
    """
    for _ in range(_TRIES_MAX):
        try:
            content, version = storage.fetch(PATH)
        except errors.NotFoundError:
            with contextlib.suppress(errors.AlreadyExistsError):
                storage.create(PATH, _encoded(change({})))
                return
            continue
        there = change({} if is_only else _definitions(storage, content))
        with contextlib.suppress(errors.ConflictError):
            storage.replace(PATH, _encoded(there), if_match=version)
            return
    raise errors.ConflictError(
        f"{storage.uri}/{PATH} was changed by others {_TRIES_MAX} times at once: retry"
    )


def _encoded(definitions: Mapping[str, object]) -> bytes:
    return json.dumps({"indexDefinitions": definitions}, indent=2).encode()


def _decoded(content: bytes, source: str) -> object:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise errors.FormatError(f"{source} is not JSON: {error}") from error


def _object(value: object, source: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise errors.FormatError(f"{source} has {value!r:.80}, expected a JSON object")
    return value


def _definition(fields: Mapping[str, object], source: str) -> file_statistics.Definition:
    columns, version = fields.get("sourceFields"), fields.get("version")
    if not isinstance(columns, list) or not all(isinstance(each, str) for each in columns):
        raise errors.FormatError(
            f"{source} has sourceFields {columns!r:.80}, expected a list of texts"
        )
    if version is not None and not isinstance(version, str):
        raise errors.FormatError(f"{source} has version {version!r:.80}, expected a text")
    if version not in _HAS_VALUE_TYPES:
        raise errors.UnsupportedError(f"{source} has version {version!r:.80}, expected V1 or V2")
    return file_statistics.Definition(
        columns=tuple(columns), has_value_types=_HAS_VALUE_TYPES[version]
    )
