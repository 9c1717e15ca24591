"""Input files as a DataFrame whose parts become Arrow tables of the table's types in the workers.

Spark finds, splits and decodes the files; it never guesses a type. What is text in the file (CSV,
JSON) stays text until a worker casts it with the code that the local runtime uses, so both read the
same and refuse the same.

Each file has its own scan, and a union keeps them in order: rows keep their order across Spark's
partitions, which decides between two rows with one key.
"""

import io
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Protocol, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql import types as T  # noqa: N812 - everybody's name for it

from hoodie import errors
from hoodie.contract import input_sources
from hoodie.sources import casting, columns, local_files, parsing
from hoodie.storage import locations

FILE_COLUMN = "_hoodie_job_file"
LINE_COLUMN = "_hoodie_job_line"


class Parser(Protocol):
    """What turns a part of a DataFrame into the table's columns; it goes to the workers."""

    def parse(self, part: pa.Table) -> pa.Table:
        """Return the rows of a part in their order.

        Raises:
            InvalidInputError: A value does not fit.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FileParser:
    """The parser of files.

    Attributes:
        source: How the files are written.
        schema: The table's, without meta columns.
        files: Their names, by the number in `FILE_COLUMN`.
    """

    source: input_sources.Source
    schema: pa.Schema
    files: tuple[str, ...]

    def parse(self, part: pa.Table) -> pa.Table:
        """Return the rows of a part in their order, in the table's types.

        Raises:
            InvalidInputError: A value does not fit.
        """
        tables = [
            self._parse(rows.drop_columns([FILE_COLUMN]), self.files[number])
            for number, rows in _by_file(part)
        ]
        return pa.concat_tables(tables)

    def _parse(self, rows: pa.Table, origin: str) -> pa.Table:
        match self.source.format:
            case input_sources.SourceFormat.CSV:
                rows = casting.texts_to_null(rows, parsing.null_texts(self.source))
            case input_sources.SourceFormat.JSON:
                lines = rows[LINE_COLUMN].combine_chunks()
                joined = pc.binary_join(pa.ListArray.from_arrays([0, len(lines)], lines), "\n")
                content = joined[0].as_buffer()
                keys = columns.mapping(self.source) or None
                return parsing.parse_json(lambda: io.BytesIO(content), keys, self.schema, origin)
            case input_sources.SourceFormat.PARQUET:
                pass
        return casting.cast(rows, self.schema, origin, first_row=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkInput:
    """A batch's input.

    Attributes:
        frame: The files' rows in order: the table's columns that they have, texts where the file
            has texts; or the lines of JSON.
        columns: The table's columns that they carry.
        parser: For the frame's parts.
        size_bytes: Of the files, summed.
    """

    frame: DataFrame
    columns: tuple[str, ...]
    parser: Parser
    size_bytes: int


def read(
    spark: SparkSession, files: Sequence[str], source: input_sources.Source, schema: pa.Schema
) -> SparkInput:
    """Return files as a DataFrame, not read yet but for their heads.

    Raises:
        NotFoundError: A file does not exist.
        InvalidInputError: A file's columns do not fit the table.
    """
    size_bytes = sum(local_files.size_bytes(path) for path in files)
    frames = [_scan(spark, path, source, schema) for path in files]
    found = dict.fromkeys(name for frame in frames for name in frame.columns)
    _check_same_types(frames, files)
    numbered = [
        frame.select(
            *(
                F.col(quoted(name)) if name in frame.columns else F.lit(None).alias(name)
                for name in found
            ),
            F.lit(number).alias(FILE_COLUMN),
        )
        for number, frame in enumerate(frames)
    ]
    is_json = source.format is input_sources.SourceFormat.JSON
    carried = (columns.mapping(source) or schema.names) if is_json else found
    return SparkInput(
        frame=reduce(DataFrame.unionAll, numbered),
        columns=tuple(carried),
        parser=FileParser(source=source, schema=schema, files=tuple(files)),
        size_bytes=size_bytes,
    )


def _scan(
    spark: SparkSession, path: str, source: input_sources.Source, schema: pa.Schema
) -> DataFrame:
    """Return one file's rows."""
    place = spark_path(path)
    match source.format:
        case input_sources.SourceFormat.CSV:
            frame = _scan_csv(spark, place, local_files.csv_names(path, source), source)
        case input_sources.SourceFormat.JSON:
            columns.check_known(columns.mapping(source), schema, path)
            return spark.read.text(place).select(F.col("value").alias(LINE_COLUMN))
        case input_sources.SourceFormat.PARQUET:
            frame = spark.read.parquet(place)
        case _:
            assert_never(source.format)
    chosen = columns.choose(frame.columns, source, schema, path)
    return frame.select(*(F.col(quoted(chosen[name])).alias(name) for name in chosen))


def _scan_csv(
    spark: SparkSession, place: str, names: Sequence[str], source: input_sources.Source
) -> DataFrame:
    texts = T.StructType([T.StructField(name, T.StringType()) for name in names])
    return (
        spark.read.schema(texts)
        .options(
            header=source.has_header,
            sep=source.delimiter,
            quote='"',
            escape='"',
            mode="FAILFAST",
            # With it, lines of too few or too many fields go unseen.
            columnPruning=False,
        )
        .csv(place)
    )


def _check_same_types(frames: Sequence[DataFrame], files: Sequence[str]) -> None:
    """Refuse files that have one column in two types: Spark would find a third, maybe a coarser."""
    seen: dict[str, tuple[T.DataType, str]] = {}
    for frame, path in zip(frames, files, strict=True):
        for field in frame.schema:
            kind, first = seen.setdefault(field.name, (field.dataType, path))
            if kind != field.dataType:
                raise errors.InvalidInputError(
                    f"{path}: column {field.name!r} is of type {field.dataType.simpleString()}, "
                    f"expected {kind.simpleString()} as in {first}"
                )


def _by_file(part: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Return runs of rows of one file each, in order."""
    numbers = part[FILE_COLUMN].to_numpy()
    starts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    for start, end in itertools.pairwise(starts):
        yield int(numbers[start]), part.slice(start, end - start)


def spark_path(path: str) -> str:
    """Return the path so that Spark takes every character of it for itself.

    Raises:
        UnsupportedError: Spark takes files of that name for hidden, and reads nothing from them.
    """
    location = locations.resolve(path)
    if is_hidden(location.path):
        raise errors.UnsupportedError(
            f"{path}: Spark does not read files whose names begin with _ or ."
        )
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", location.plain_text)


def is_hidden(path: str) -> bool:
    """Return whether Spark passes a file of that path by."""
    return path.rpartition("/")[2].startswith(("_", "."))


def quoted(name: str) -> str:
    """Return a column's name as Spark reads it whole, dots and all."""
    return f"`{name.replace('`', '``')}`"
