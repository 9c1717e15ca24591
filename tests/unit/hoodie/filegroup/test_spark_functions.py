"""Functions of Spark, computed here: against plain Python, and bounds against all that may be."""

import datetime
import random
import zoneinfo
from typing import Any

import pyarrow as pa
import pytest

from hoodie import errors
from hoodie.model import spark_functions

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
EPOCH_DAY = datetime.date(1970, 1, 1)
COMBINED = "a\N{COMBINING ACUTE ACCENT}"
TEXTS = [
    "",
    " a ",
    "\tb",
    "Äpfel 🍏",
    "xxaxx",
    "\N{LATIN SMALL LETTER LONG S}x",
    "abcdef",
    COMBINED,
]
DAYS = [datetime.date(1, 1, 1), datetime.date(1582, 10, 15), datetime.date(1969, 12, 31)] + [
    datetime.date(2000 + number % 7, 1 + number % 12, 1 + number % 28) for number in range(40)
]
CASES = {"lower": str.lower, "upper": str.upper}
SIGMA = "\N{GREEK CAPITAL LETTER SIGMA}"
FINAL, MIDDLE = "\N{GREEK SMALL LETTER FINAL SIGMA}", "\N{GREEK SMALL LETTER SIGMA}"


def made(call: str, values: list[object], kind: pa.DataType) -> list[object]:
    _, function = spark_functions.call_of(call)
    found = function.values(pa.array([*values, None], kind)).to_pylist()
    assert found.pop() is None
    return list(found)


def bounds(
    call: str, values: list[object], kind: pa.DataType | None = None, *, is_certain: bool = False
) -> tuple[Any, Any]:
    _, function = spark_functions.call_of(call)
    column = pa.chunked_array([pa.array(values, kind)])
    found = function.bounds(column, is_certain=is_certain)
    assert found is not None
    return found


def substring(text: str, position: int, length: int) -> str:
    """As `UTF8String.substringSQL` has it."""
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    end = min(start + length, len(text))
    return "".join(text[place] for place in range(max(0, start), end))


@pytest.mark.parametrize("position", [-9, -3, -1, 0, 1, 2, 5, 99])
@pytest.mark.parametrize("length", [-1, 0, 1, 3, 2_147_483_647])
def test_substring_counts_as_spark_does(position: int, length: int) -> None:
    expected = [substring(text, position, length) for text in TEXTS]
    assert made(f"substring(c, {position}, {length})", [*TEXTS], pa.string()) == expected


def test_texts_are_trimmed_of_spaces_alone_and_counted_in_code_points() -> None:
    assert made("trim(c)", [*TEXTS], pa.string()) == [text.strip(" ") for text in TEXTS]
    assert made("ltrim(c)", [*TEXTS], pa.string()) == [text.lstrip(" ") for text in TEXTS]
    assert made("rtrim(c)", [*TEXTS], pa.string()) == [text.rstrip(" ") for text in TEXTS]
    assert made("length(c)", [*TEXTS], pa.string()) == list(map(len, TEXTS))
    of_x = spark_functions.parsed("trim", {"expr": "trim", "trimString": "xa"}, "an index")
    assert of_x.values(pa.array(["xxaxx", "bax", "b"])).to_pylist() == ["", "b", "b"]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("year(c)", [day.year for day in DAYS]),
        ("month(c)", [day.month for day in DAYS]),
        ("day(c)", [day.day for day in DAYS]),
        ("date_add(c, 40)", [day + datetime.timedelta(days=40) for day in DAYS]),
        ("date_sub(c, -40)", [day + datetime.timedelta(days=40) for day in DAYS]),
    ],
)
def test_parts_of_dates_and_sums_of_days(call: str, expected: list[object]) -> None:
    assert made(call, [*DAYS], pa.date32()) == expected


@pytest.mark.parametrize("name", CASES)
def test_case_is_that_of_python_and_its_bounds_have_what_other_versions_make(name: str) -> None:
    case = CASES[name]
    new = "\U00016e40"  # A capital letter of version 11 of Unicode.
    georgian, cherokee = "\N{GEORGIAN LETTER AN}", "\N{CHEROKEE LETTER A}"
    texts = ["Abc", "ÀÉß", "\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}I", f"a{SIGMA}", f"x{SIGMA}y"]
    texts += [f"a{each}b" for each in (new, georgian, cherokee, "\N{LATIN SMALL LETTER IOTA}")]
    assert made(f"{name}(c)", [*texts], pa.string()) == [case(text) for text in texts]
    for text in texts:
        low, high = bounds(f"{name}(c)", [text, None])
        least, greatest = bounds(f"{name}(c)", [text], is_certain=True)
        known = case(text)
        for other in (known, known.replace(FINAL, MIDDLE), known.replace(MIDDLE, FINAL)):
            assert low <= other <= high, (text, other)
            assert greatest <= other <= least, (text, other)
    for each in (new, georgian, cherokee):
        low, high = bounds(f"{name}(c)", [each])
        assert low <= each <= high
    assert bounds(f"{name}(c)", ["ab", "ÀÉ"]) == (case("ab"), case("ÀÉ"))
    _, function = spark_functions.call_of(f"{name}(c)")
    assert function.bounds(pa.chunked_array([pa.nulls(1, pa.string())])) is None


@pytest.mark.parametrize("name", CASES)
def test_certain_results_are_made_of_certain_characters_alone(name: str) -> None:
    _, function = spark_functions.call_of(f"{name}(c)")
    certain = spark_functions._certain(name)
    surrogates = range(0xD800, 0xE000)
    wrong = [
        character
        for code in range(0x110000)
        if code not in surrogates and not certain.fullmatch(character := chr(code))
        if function.is_certain(character) or function.is_certain(CASES[name](character))
    ]
    assert wrong == []
    assert function.is_certain("abc é")
    assert not function.is_certain(MIDDLE)


ZONES = ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago", "Europe/Berlin", "Asia/Kathmandu"]
PATTERNS = {"yyyy-MM-dd HH:mm:ss": "%Y-%m-%d %H:%M:%S", "yyyy-MM-dd": "%Y-%m-%d", "yyyyMM": "%Y%m"}


def local_texts(seconds: list[int], zone: zoneinfo.ZoneInfo, pattern: str) -> list[str]:
    times = (EPOCH + datetime.timedelta(seconds=each) for each in seconds)
    return [each.astimezone(zone).strftime(PATTERNS[pattern]) for each in times]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_bounds_of_times_hold_in_every_zone(pattern: str) -> None:
    chance = random.Random(7)
    for _ in range(30):
        seconds = [chance.randint(-10_000_000_000, 10_000_000_000) for _ in range(2)]
        times = [each * 1_000_000 for each in seconds]
        kind = pa.timestamp("us", "UTC")
        texts = bounds(f"from_unixtime(c, '{pattern}')", [*seconds])
        inner = bounds(f"from_unixtime(c, '{pattern}')", [*seconds], is_certain=True)
        assert bounds(f"date_format(c, '{pattern}')", [*times], kind) == texts
        years = bounds("year(c)", [*times], kind)
        days = bounds("to_date(c)", [*times], kind)
        for zone in map(zoneinfo.ZoneInfo, ZONES):
            for second in seconds:
                local = (EPOCH + datetime.timedelta(seconds=second)).astimezone(zone)
                assert texts[0] <= local.strftime(PATTERNS[pattern]) <= texts[1]
                assert inner[0] >= min(local_texts(seconds, zone, pattern))
                assert inner[1] <= max(local_texts(seconds, zone, pattern))
                assert years[0] <= local.year <= years[1]
                assert days[0] <= (local.date() - EPOCH_DAY).days <= days[1]


def test_bounds_of_times_whose_texts_have_no_order_are_all_there_is() -> None:
    for seconds in (-(1 << 62), 1 << 62, 253_402_300_800):
        assert bounds("from_unixtime(c)", [0, seconds]) == ("", "\U0010ffff")


REFUSED = {
    "reverse(c)": errors.UnsupportedError,
    "regexp_extract(c, 'x')": errors.UnsupportedError,
    "date_format(c, 'EEEE')": errors.UnsupportedError,
    "lower(c, 3)": errors.InvalidInputError,
    "trim(c, 'x')": errors.InvalidInputError,
    "substring(c, 1)": errors.InvalidInputError,
    "substring(c, 'a', 1)": errors.InvalidInputError,
    "lower": errors.InvalidInputError,
    "lower(a + b)": errors.InvalidInputError,
    "lower(upper(a))": errors.InvalidInputError,
    "": errors.InvalidInputError,
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_computed_is_refused(text: str) -> None:
    with pytest.raises(REFUSED[text]):
        spark_functions.call_of(text)


@pytest.mark.parametrize(
    "text", ["lower(c)", "substring(c, -3, 2)", "from_unixtime(c, 'yyyy-MM-dd')"]
)
def test_calls_are_written_as_they_are_read(text: str) -> None:
    column, function = spark_functions.call_of(text)
    assert function.called(column) == text


@pytest.mark.parametrize(
    "options", [{"pos": "x", "len": "1"}, {"pos": "1"}, {"pos": "1", "len": "1", "days": "1"}]
)
def test_index_with_damaged_arguments_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(errors.FormatError):
        spark_functions.parsed("substring", options, "an index")
