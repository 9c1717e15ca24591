"""How input files are read follows from their names and the options."""

import re
from dataclasses import replace

import pyarrow as pa
import pytest

from hoodie import errors
from hoodie.cli import inputs
from hoodie.contract import input_sources
from hoodie.model import table_config


@pytest.mark.parametrize(
    ("files", "format_"),
    [
        (["a.csv"], input_sources.SourceFormat.CSV),
        (["a.CSV.GZ", "b.csv"], input_sources.SourceFormat.CSV),
        (["a.json", "b.jsonl.gz", "s3://b/c.ndjson"], input_sources.SourceFormat.JSON),
        (["a.parquet"], input_sources.SourceFormat.PARQUET),
    ],
)
def test_format_is_told_by_names(files: list[str], format_: input_sources.SourceFormat) -> None:
    assert inputs.source(files, inputs.Reading()).format is format_


def test_options_are_passed_on() -> None:
    reading = inputs.Reading(
        format=inputs.FormatName.CSV,
        delimiter="\\t",
        null_texts=("NA",),
        has_header=False,
        columns=("id=_c0", "name=_c1"),
    )
    assert inputs.source(["data"], reading) == input_sources.Source(
        format=input_sources.SourceFormat.CSV,
        columns=(
            input_sources.ColumnMapping(name="id", source="_c0"),
            input_sources.ColumnMapping(name="name", source="_c1"),
        ),
        has_header=False,
        delimiter="\t",
        null_text="NA",
    )


@pytest.mark.parametrize(
    ("files", "reading", "complaint"),
    [
        (["a.txt"], inputs.Reading(), "input a.txt: unknown file name extension"),
        (["a.csv", "b.json"], inputs.Reading(), "a.csv is csv and b.json is json"),
        (["a.csv"], inputs.Reading(delimiter="::"), "--delimiter '::': expected one character"),
        (["a.csv"], inputs.Reading(delimiter='"'), "--delimiter '\"': expected one character"),
        (["a.csv"], inputs.Reading(delimiter=""), "--delimiter '': expected one character"),
        (["a.csv"], inputs.Reading(columns=("id",)), "--column 'id': expected NAME=SOURCE"),
    ],
)
def test_what_does_not_fit_is_refused(
    files: list[str], reading: inputs.Reading, complaint: str
) -> None:
    with pytest.raises(errors.InvalidInputError, match=re.escape(complaint)):
        inputs.source(files, reading)


JSON = input_sources.Source(format=input_sources.SourceFormat.JSON)
LINES = pa.table(
    {"id": ["a"], "city": pa.nulls(1, pa.string()), "at": pa.nulls(1, pa.int64()), "fare": [1.0]}
)


@pytest.mark.parametrize(
    ("source", "has_partial_updates", "columns"),
    [
        (JSON, True, ["id", "at", "fare"]),
        (JSON, False, LINES.column_names),
        (replace(JSON, format=input_sources.SourceFormat.CSV), True, LINES.column_names),
        (
            replace(JSON, columns=(input_sources.ColumnMapping(name="city", source="x"),)),
            True,
            LINES.column_names,
        ),
    ],
)
def test_json_lines_do_not_carry_what_no_line_gives(
    source: input_sources.Source, has_partial_updates: bool, columns: list[str]
) -> None:
    config = table_config.TableConfig(
        name="trips",
        record_key_fields=("id",),
        ordering_fields=("at",),
        has_partial_updates=has_partial_updates,
    )
    assert inputs.carried(LINES, source, config).column_names == columns


def test_second_text_for_null_is_refused_and_none_is_dropped() -> None:
    with pytest.raises(errors.InvalidInputError, match="--null-text is given 2 times") as caught:
        inputs.source(["a.csv"], inputs.Reading(null_texts=("NULL", "NA")))
    assert "'NULL' and 'NA'" in str(caught.value)
