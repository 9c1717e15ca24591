"""Record keys and partition paths of a table's records, beside what its rows make of them.

What no key is made of here, such as a float, is refused by its type.

A table may not say how its key generator makes them: the encoding of a single key field, dates with
slashes, the time zone of a JVM. So some records are looked at, of partitions all over the table,
before it is written for the first time.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from hoodie import environment, errors
from hoodie.filegroup import reading, snapshots
from hoodie.model import files, key_generators, schemas, table_config
from hoodie.model.table_config import KeyEncoding
from hoodie.transaction import manager
from hoodie.write import keys

_Maker = Callable[[pa.Table, table_config.TableConfig], pa.Array]

_SLICES_MAX = 16


def encoding(target: manager.Target, env: environment.Environment) -> KeyEncoding:
    """Return how keys of one field were encoded; of an empty table as releases since 1.1 do it.

    Args:
        target: The table, with one key field.
        env: The engine that reads file groups.

    Raises:
        ConfigurationError: It has keys of both kinds.
    """
    (name,) = target.config.record_key_fields
    examples: dict[bool, str] = {}
    for rows in _samples(target, env, [schemas.RECORD_KEY]):
        found = pc.drop_null(rows.column(schemas.RECORD_KEY))
        is_prefixed = pc.starts_with(found, f"{name}:")
        for kind in (True, False):
            some = found.filter(pc.equal(is_prefixed, kind))
            if len(some):
                examples.setdefault(kind, some[0].as_py())
    if len(examples) > 1:
        raise errors.ConfigurationError(
            f"{target.storage.uri} has the record keys {examples[True]!r} and {examples[False]!r}: "
            "releases of Apache Hudi that differ about them have written it, so that rows may be "
            "there twice (HUDI-7001): fix that with Apache Hudi before it is adopted"
        )
    return KeyEncoding.VALUE_ONLY if False in examples else KeyEncoding.FIELD_PREFIXED


def check(target: manager.Target, env: environment.Environment) -> None:
    """Refuse a table whose records have other keys or paths than their rows make here.

    Where writers update a record in its partition if that changes, rows may have values of other
    partitions: there the path of one row is enough.

    Args:
        target: The table.
        env: The engine that reads file groups.

    Raises:
        ConfigurationError: Of a record, which is named.
        UnsupportedError: Its key generator is not known, or depends on a JVM; or a field is of a
            type that has several texts.
    """
    config = target.config
    fields = dict.fromkeys((*config.record_key_fields, *config.partition_fields))
    # Of a field within a column every write is refused.
    if not {each.partition(".")[0] for each in fields} <= set(target.schema.arrow.names):
        return
    makers: dict[str, _Maker] = {schemas.PARTITION_PATH: keys.partition_paths}
    if config.record_key_fields:
        makers[schemas.RECORD_KEY] = keys.record_keys
    _check_types(target, makers.values())
    other_path: errors.ConfigurationError | None = None
    has_own_path = False
    for rows in _samples(target, env, [schemas.RECORD_KEY, schemas.PARTITION_PATH, *fields]):
        for name, make in makers.items():
            # Of values that make no key, writers say so.
            with contextlib.suppress(errors.InvalidInputError):
                stored = rows.column(name).combine_chunks().cast(pa.string())
                made = make(rows, config).cast(pa.string())
                is_other = pc.not_equal(stored, made).fill_null(True)
                refusal = _refusal(target, rows, name, made) if is_other.true_count else None
                if name == schemas.PARTITION_PATH and not config.updates_partitions:
                    has_own_path |= is_other.false_count > 0
                    other_path = other_path or refusal
                elif refusal is not None:
                    raise refusal
    if other_path is not None and not has_own_path:
        raise other_path


def _check_types(target: manager.Target, makers: Iterable[_Maker]) -> None:
    """Refuse fields of which every write would be refused: the same rules, on no rows."""
    empty = target.schema.arrow.empty_table()
    for make in makers:
        try:
            make(empty, target.config)
        except errors.InvalidInputError as error:
            raise errors.UnsupportedError(
                f"{target.storage.uri} cannot be written: {error}. It can be read and compacted as "
                "it is; to write its rows, copy them to a table with such a column"
            ) from error


def _refusal(
    target: manager.Target, rows: pa.Table, name: str, made: pa.Array
) -> errors.ConfigurationError:
    """Return the error of the first row whose key or path, the column of a name, is another."""
    stored = rows.column(name).combine_chunks().cast(pa.string())
    place = pc.index(pc.not_equal(stored, made).fill_null(True), True).as_py()
    values = rows.drop_columns([schemas.RECORD_KEY, schemas.PARTITION_PATH]).slice(place, 1)
    shown = ", ".join(f"{name}={_shown(value)}" for name, value in values.to_pylist()[0].items())
    what = "partition path" if name == schemas.PARTITION_PATH else "record key"
    config = target.config
    theirs, ours = stored[place].as_py(), made[place].as_py()
    if name == schemas.RECORD_KEY and keys.has_instants(target.schema.arrow, config):
        hint = (
            "Apache Hudi's bulk insert by rows prints times in the zone of its JVM, as do writers "
            "with hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled; its "
            "updates print microseconds, and do not find such rows. Copy them to a new table, with "
            f"{keys.ROW_WRITER_KEY}=false or a key of text"
        )
    else:
        option = _hint(config, stored, made)
        hint = (
            f"state how the table's writers are set by `hoodie adopt URI --key-option {option}`, "
            "or in keys.options of a HudiTable"
        )
    return errors.ConfigurationError(
        f"{target.storage.uri}: the row {shown:.200} has the {what} {theirs!r:.200}, expected "
        f"{ours!r:.200} of the key generator {key_generators.kind(config)}: {hint}"
    )


def _shown(value: object) -> str:
    return repr(value) if isinstance(value, str | bytes) else str(value)


def _hint(config: table_config.TableConfig, stored: pa.Array, made: pa.Array) -> str:
    has_slashes = pc.equal(stored, pc.replace_substring(made, "-", "/"))
    if not key_generators.has_slashed_dates(config) and pc.all(has_slashes).as_py():
        return f"{key_generators.SLASHES_KEY}=true"
    return "KEY=VALUE"


def _samples(
    target: manager.Target, env: environment.Environment, columns: Sequence[str]
) -> Iterator[pa.Table]:
    """Yield columns of first rows of some file slices, of different partitions where there are."""
    snapshot = snapshots.take(target.storage, target.config)
    reader = reading.SliceReader(
        target.storage, target.config, target.schema, snapshot.committed.is_committed
    )

    def first_rows(file_slice: files.FileSlice) -> pa.Table:
        has_base = file_slice.base_file is not None
        rows = reader.stream(file_slice, columns, is_read_optimized=has_base)
        return next(iter(rows), rows.schema.empty_table())

    yield from env.engine.map(first_rows, _some_slices(snapshot))


def _some_slices(snapshot: snapshots.Snapshot) -> list[files.FileSlice]:
    paths = snapshot.view.partitions()
    found = []
    for path in paths[:: max(len(paths) // _SLICES_MAX, 1)]:
        slices = [each for each in snapshot.view.latest_slices(path) if not each.is_empty]
        found += slices[: max(_SLICES_MAX // max(len(paths), 1), 1)]
    return found[:_SLICES_MAX]
