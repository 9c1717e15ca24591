"""The definitions of a table's indexes: which columns they have, and how they hold values.

    .hoodie/.index_defs/index.json
        {"indexDefinitions": {name: {"sourceFields": [column, ...], "version": "V1" or "V2", ...}}}

The version follows from the table's where it is left out. There is no such file where no index
needs a definition, and in tables of early releases. Source: `HoodieIndexDefinition.java`,
`HoodieIndexVersion.java` (1.2.0).
"""

import contextlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

import pyarrow as pa

from hoodie import errors
from hoodie.model import file_statistics, key_changes, plans, secondary_indexes, table_config
from hoodie.storage.protocol import Storage

PATH = ".hoodie/.index_defs/index.json"

BYTES_MAX = 16 << 20
"""A longer file is not read."""

_TRIES_MAX = 10
_Secondary: TypeAlias = secondary_indexes.Definition
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
    """
    definition = of_statistics(storage) if file_statistics.is_needed(config) else None
    return file_statistics.wanted(config, schema, definition)


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
            f"by `hoodie index drop {name}`"
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
    source = f"{storage.uri}/{PATH}"
    definitions = _read(storage)
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


def put_of_secondary_indexes(storage: Storage, wanted: Callable[[], Iterable[_Secondary]]) -> None:
    """Write the definitions of secondary indexes beside those that are there; as Apache Hudi does.

    Args:
        storage: The table's.
        wanted: Returns them, once what is there was read: who changes both meanwhile is noticed.

    Raises:
        FormatError: What is there is damaged.
        ConflictError: Others change it all the time.
        StorageError: Not done.
    """

    def added() -> Mapping[str, object]:
        return {
            each.partition: {
                "indexName": each.partition,
                "indexType": secondary_indexes.TYPE,
                "indexFunction": "identity",
                "sourceFields": [each.column],
                "indexOptions": {},
                "version": "V2" if each.is_hashed_by_value else "V1",
            }
            for each in wanted()
        }

    _change(storage, lambda there: {**there, **added()})


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
