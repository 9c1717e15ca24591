"""Texts of times in partition paths; Apache Hudi's own are in tests/conformance."""

import datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie import errors
from hoodie.model import key_generators, table_config
from hoodie.write import keys, timestamp_paths

TEXTS = {
    "timestamp.type": "DATE_STRING",
    "input.dateformat": "yyyy-MM-dd HH:mm:ss",
    "output.dateformat": "yyyy/MM/dd",
    "timezone": "UTC",
}
NUMBERS = {
    "timestamp.type": "EPOCHMILLISECONDS",
    "output.dateformat": "yyyy-MM-dd'T'HH.mm.ss.SSS",
    "output.timezone": "Europe/Berlin",
}


def config(
    options: dict[str, str], prefix: str = "hoodie.keygen.timebased."
) -> table_config.TableConfig:
    properties = {f"{prefix}{key}": value for key, value in options.items()}
    properties["hoodie.table.keygenerator.type"] = "TIMESTAMP"
    return table_config.TableConfig(
        name="t", record_key_fields=("id",), partition_fields=("p",), properties=properties
    )


def paths(values: pa.Array, options: dict[str, str]) -> list[str]:
    return keys.partition_paths(pa.table({"p": values}), config(options)).to_pylist()


def test_number_is_a_time_of_the_output_zone() -> None:
    # An hour before and after clocks were put forward in Berlin.
    values = pa.array([1711846800000, 1711846799999, None], pa.int64())
    assert paths(values, NUMBERS) == [
        "2024-03-31T03.00.00.000",
        "2024-03-31T01.59.59.999",
        "1970-01-01T01.00.00.001",
    ]


def test_generator_is_described_with_its_pattern() -> None:
    described = key_generators.described(config(NUMBERS))
    assert described == "TIMESTAMP, times as yyyy-MM-dd'T'HH.mm.ss.SSS"


def test_options_of_earlier_releases_are_taken() -> None:
    older = config(NUMBERS, "hoodie.deltastreamer.keygen.timebased.")
    found = keys.partition_paths(pa.table({"p": pa.array([0], pa.int64())}), older)
    assert found.to_pylist() == ["1970-01-01T01.00.00.000"]


@pytest.mark.parametrize("unit", ["NANOSECONDS", "MICROSECONDS", "SECONDS", "MINUTES", "HOURS"])
def test_units_are_those_of_java(unit: str) -> None:
    per_unit = {
        "NANOSECONDS": 1e-9,
        "MICROSECONDS": 1e-6,
        "SECONDS": 1,
        "MINUTES": 60,
        "HOURS": 3600,
    }[unit]
    day = round(86_400 / per_unit)
    options = NUMBERS | {
        "timestamp.type": "SCALAR",
        "timestamp.scalar.time.unit": unit.lower(),
        "output.timezone": "UTC",
        "output.dateformat": "yyyyMMdd",
    }
    assert paths(pa.array([day, -day], pa.int64()), options) == ["19700102", "19691231"]


@given(st.datetimes())
def test_text_that_was_written_is_read(moment: datetime.datetime) -> None:
    text = f"{moment.year:04d}-{moment:%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d}"
    options = TEXTS | {
        "input.dateformat": "yyyy-MM-dd HH:mm:ss.SSS",
        "output.dateformat": "yyyy-MM-dd HH;mm;ss.SSS",
    }
    assert paths(pa.array([text]), options) == [text.replace(":", ";")]


def test_first_pattern_that_fits_is_taken() -> None:
    options = TEXTS | {"input.dateformat": "yyyy-MM-dd, dd.MM.yyyy, yyyyMMdd'T'HH"}
    values = pa.array(["2024-03-05", "05.03.2024", "20240305T23", None])
    assert paths(values, options) == ["2024/03/05"] * 3 + ["1970/01/01"]


def test_time_that_clocks_show_twice_is_the_first() -> None:
    options = TEXTS | {"input.timezone": "Europe/Berlin", "output.timezone": "UTC"}
    del options["timezone"]
    options["output.dateformat"] = "yyyyMMddHHmm"
    assert paths(pa.array(["2024-10-27 02:30:00"]), options) == ["202410270030"]


@pytest.mark.parametrize(
    ("value", "match"),
    [
        ("2024-02-30 00:00:00", "there is not"),
        ("2024-3-5 1:2:3", "not of a pattern"),
        ("2024-03-05 00:00:00 ", "not of a pattern"),
        ("", "not of a pattern"),
        ("../../etc", "not of a pattern"),
    ],
)
def test_text_that_is_no_such_time_is_refused(value: str, match: str) -> None:
    with pytest.raises(errors.InvalidInputError, match=match):
        paths(pa.array([value]), TEXTS)


def test_time_that_clocks_leave_out_is_refused() -> None:
    options = TEXTS | {"timezone": "Europe/Berlin"}
    with pytest.raises(errors.InvalidInputError, match="there is not"):
        paths(pa.array(["2024-03-31 02:30:00"]), options)


@pytest.mark.parametrize("value", [2**62, -(2**62), 253_402_300_800_000])
def test_year_of_five_digits_is_refused(value: int) -> None:
    with pytest.raises(errors.InvalidInputError, match="after 9999"):
        paths(pa.array([value], pa.int64()), NUMBERS)


@pytest.mark.parametrize(
    ("values", "options"),
    [
        (pa.array(["1"]), NUMBERS),
        (pa.array([1.5]), NUMBERS),
        (pa.array([0], pa.timestamp("us", "UTC")), NUMBERS),
        (pa.array([1]), TEXTS),
    ],
)
def test_column_of_another_type_is_refused(values: pa.Array, options: dict[str, str]) -> None:
    with pytest.raises(errors.InvalidInputError, match="partition column 'p' is"):
        paths(values, options)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"timestamp.type": "WEEKS"}, "timestamp.type is 'WEEKS'"),
        ({"timestamp.type": "SCALAR", "timestamp.scalar.time.unit": "eons"}, "of EONS"),
        ({"output.timezone": ""}, "no output.timezone"),
        ({"output.timezone": "Mars/Olympus"}, "not known"),
        ({"output.timezone": "GMT+99:00"}, "not known"),
        ({"output.timezone": "GMT+01:60"}, "not known"),
        ({"output.dateformat": ""}, "no output.dateformat"),
        ({"output.dateformat": "yyyy-MMM"}, "has MMM"),
        ({"output.dateformat": "yy"}, "has yy"),
        ({"output.dateformat": "xxxx-ww"}, "has xxxx"),
        ({"output.dateformat": "yyyy'T"}, "without an end"),
    ],
)
def test_rule_that_is_not_known_is_refused(options: dict[str, str], match: str) -> None:
    with pytest.raises(errors.UnsupportedError, match=match):
        timestamp_paths.rule(config(NUMBERS | options))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"timezone": ""}, "no input.timezone"),
        ({"input.dateformat": ""}, "no input.dateformat"),
        ({"input.dateformat": "MM-dd"}, "expected a year"),
        ({"input.dateformat": "yyyy-MM-MM"}, "each letter in one place"),
        ({"input.dateformat.list.delimiter.regex": ";"}, "expected a comma"),
    ],
)
def test_rule_of_texts_that_is_not_known_is_refused(options: dict[str, str], match: str) -> None:
    with pytest.raises(errors.UnsupportedError, match=match):
        timestamp_paths.rule(config(TEXTS | options))


def test_parser_of_their_own_is_refused() -> None:
    properties = {"hoodie.keygen.datetime.parser.class": "com.example.Parser"}
    own = table_config.TableConfig(name="t", record_key_fields=("id",), properties=properties)
    with pytest.raises(errors.UnsupportedError, match="parser is Parser"):
        timestamp_paths.rule(own)


def test_path_that_a_pattern_leads_elsewhere_is_refused() -> None:
    with pytest.raises(errors.InvalidInputError, match="without a name"):
        paths(pa.array([0], pa.int64()), NUMBERS | {"output.dateformat": "/yyyy"})
