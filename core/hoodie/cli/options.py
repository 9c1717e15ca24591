"""Arguments and options that several commands take, and how their texts are parsed."""

import enum
import textwrap
from collections.abc import Iterable, Sequence
from typing import Annotated

import typer

from hoodie import errors
from hoodie.model import column_types, compaction_options, settings, table_config
from hoodie.transaction.locks import address_texts

_MEANING_WIDTH = 72

TableUri = Annotated[
    str,
    typer.Argument(metavar="URI", help="The table: a folder, or a URI."),
]
AsJson = Annotated[
    bool,
    typer.Option("--json", metavar="", help="Print one JSON document to standard output."),
]
LockText = Annotated[
    str | None,
    typer.Option(
        "--lock",
        metavar="LOCK",
        help="The table lock, the same for everything that writes the table: "
        + address_texts.forms_text()
        + ".",
        show_default="filesystem; storage in a bucket",
    ),
]
PartitionPaths = Annotated[
    list[str] | None,
    typer.Option(
        "--partition",
        metavar="PATH",
        help="Path of a partition below the table, such as city=Oslo. Repeatable.",
    ),
]
SetTexts = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="A setting by its Hudi key, such as hoodie.parquet.compression.codec=zstd. "
        "Repeatable.",
    ),
]


WriterId = Annotated[
    str | None,
    typer.Option(metavar="ID", help="Name of this writer, unique among the writers of the table."),
]
RecordKey = typer.Option(metavar="F[,F]", help="Columns that identify a row.")
PartitionBy = Annotated[
    str | None,
    typer.Option(metavar="F[,F]", help="Partition columns."),
]
OrderingField = Annotated[
    str | None,
    typer.Option(metavar="F", help="Ordering field: the greater value wins among rows of one key."),
]
ColumnTypes = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="'NAME TYPE, ...'",
        help=f"Columns of a new table and their types: {column_types.FORMS}.",
    ),
]
Renames = Annotated[
    list[str] | None,
    typer.Option(
        "--rename",
        metavar="NAME=SOURCE",
        help="Call column SOURCE of the file NAME in the table, and take all others as they are; "
        "repeatable.",
    ),
]


class TypeName(enum.Enum):
    """Table types, as the command line spells them."""

    MOR = "mor"
    COW = "cow"


TABLE_TYPES = {
    TypeName.MOR: table_config.TableType.MERGE_ON_READ,
    TypeName.COW: table_config.TableType.COPY_ON_WRITE,
}


class IndexName(enum.Enum):
    """Kinds of indexes, as the command line spells them."""

    BUCKET = "bucket"
    CONSISTENT_HASHING = "consistent-hashing"
    SIMPLE = "simple"
    BLOOM = "bloom"
    GLOBAL_SIMPLE = "global-simple"
    GLOBAL_BLOOM = "global-bloom"


INDEX_KINDS = {name: table_config.IndexKind[name.name] for name in IndexName}

BucketsByPartition = Annotated[
    str | None,
    typer.Option(
        "--buckets-by-partition",
        metavar="REGEX,N[;REGEX,N...]",
        help="With --index bucket: buckets of the partitions in whose paths a regular expression "
        "of Java is found, the first that is.",
    ),
]
KeepsPartitions = Annotated[
    bool,
    typer.Option(
        "--keep-partitions",
        metavar="",
        help="With a global index: a row whose partition changes is updated where it is.",
    ),
]


class Concurrency(enum.Enum):
    """How several writers get along, as the command line spells it."""

    SINGLE_WRITER = "single-writer"
    OPTIMISTIC = "occ"
    NON_BLOCKING = "nbcc"


SelectingConcurrency = Annotated[
    Concurrency | None,
    typer.Option(
        metavar="MODE",
        help="single-writer; occ with several writers.",
        show_default="single-writer",
    ),
]
"""Of commands that select rows first: non-blocking writers find no conflicts."""

CONCURRENCY_MODES = {
    Concurrency.SINGLE_WRITER: settings.ConcurrencyMode.SINGLE_WRITER,
    Concurrency.OPTIMISTIC: settings.ConcurrencyMode.OPTIMISTIC,
    Concurrency.NON_BLOCKING: settings.ConcurrencyMode.NON_BLOCKING,
}


def name_of(mode: settings.ConcurrencyMode) -> str:
    """Return how the command line spells a concurrency mode."""
    return next(name.value for name, each in CONCURRENCY_MODES.items() if each is mode)


def settings_text() -> str:
    """Return the keys of writers' settings and of compaction, and below each what it means."""
    return _keys_text((*settings.KEYS, *compaction_options.KEYS))


def compaction_text() -> str:
    """Return the keys of compaction, and below each what it means."""
    return _keys_text(compaction_options.KEYS)


def _keys_text(keys: Iterable[settings.Key]) -> str:
    return "\n".join(
        f"  {key.name}\n{textwrap.indent(textwrap.fill(key.meaning, _MEANING_WIDTH), '      ')}"
        for key in keys
    )


def names(text: str, option: str) -> tuple[str, ...]:
    """Return the names in a comma-separated list.

    Raises:
        InvalidInputError: One is empty or there twice.
    """
    parts = tuple(part.strip() for part in text.split(","))
    for part in parts:
        if not part:
            raise errors.InvalidInputError(f"{option} {text!r}: a name is empty")
        if parts.count(part) > 1:
            raise errors.InvalidInputError(f"{option} {text!r}: {part!r} is given twice")
    return parts


def partition_paths(texts: Sequence[str] | None) -> tuple[str, ...]:
    """Return the paths of partitions as the table has them; `.` is that of the whole table.

    Raises:
        InvalidInputError: One is empty, as a variable that is not set.
    """
    paths = [text.strip("/").removeprefix("./") for text in texts or ()]
    if "" in paths:
        raise errors.InvalidInputError(
            "--partition '': expected the path of a partition, or . of a table without partitions"
        )
    return tuple("" if path == "." else path for path in paths)


def properties(texts: Sequence[str] | None, option: str = "--set") -> dict[str, str]:
    """Return the properties that an option gives, such as `--set`.

    Raises:
        InvalidInputError: One is not KEY=VALUE, or a key is given twice.
    """
    given: dict[str, str] = {}
    for text in texts or ():
        key, sign, value = text.partition("=")
        if not sign or not key.strip():
            raise errors.InvalidInputError(f"{option} {text!r}: expected KEY=VALUE")
        if key.strip() in given:
            raise errors.InvalidInputError(f"{option} {key.strip()} is given twice")
        given[key.strip()] = value.strip()
    return given
