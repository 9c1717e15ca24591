"""Numbers as people read them."""

import pytest

from hoodie.cli import quantities
from hoodie.model import time_zones


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1024**2 - 1, "1.0 MiB"),
        (5 * 1024**3, "5.0 GiB"),
        (2048 * 1024**5, "2048.0 PiB"),
    ],
)
def test_size_is_told_in_the_unit_that_fits(size_bytes: int, text: str) -> None:
    assert quantities.size_text(size_bytes) == text


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (0, "0.00 s"),
        (345, "0.34 s"),
        (9_994, "9.99 s"),
        (9_996, "10 s"),
        (59_400, "59 s"),
        (59_600, "1 min 00 s"),
        (185_000, "3 min 05 s"),
        (7_620_000, "2 h 07 min"),
        (36 * 3_600_000, "36 h 00 min"),
        (172_799_499, "47 h 59 min"),
        (172_799_500, "2 days"),
        (7 * 86_400_000, "7 days"),
        (1_234 * 86_400_000 + 5 * 3_600_000, "1,234 days 5 h"),
    ],
)
def test_duration_is_told_in_the_units_that_fit(duration_ms: int, text: str) -> None:
    assert quantities.duration_text(duration_ms) == text


def test_counts_have_their_noun() -> None:
    assert quantities.counted(1, "file") == "1 file"
    assert quantities.counted(336_776, "row") == "336,776 rows"
    assert quantities.counted(0, "batch", "batches") == "0 batches"


@pytest.mark.parametrize(
    ("requested_time", "completion_time", "elapsed_ms"),
    [
        ("20261121095802123", "20261121095803123", 1000),
        ("20261231235959999", "20270101000000000", 1),
        ("20261121095802", "20261121095803999", 1000),
        ("20261121095802123", None, None),
        # Hudi's own metadata table has instants of times that no calendar knows.
        ("00000000000000010", "20261121095803123", None),
    ],
)
def test_duration_is_between_two_instant_times(
    requested_time: str, completion_time: str | None, elapsed_ms: int | None
) -> None:
    assert quantities.elapsed_ms(requested_time, completion_time) == elapsed_ms


@pytest.mark.parametrize(
    ("elapsed_ms", "text"),
    [
        (0, "just now"),
        (999, "just now"),
        (59_999, "59 s ago"),
        (60_000, "1 min ago"),
        (3_599_999, "59 min ago"),
        (47 * 3_600_000, "47 h ago"),
        (48 * 3_600_000, "2 days ago"),
        (400 * 86_400_000, "400 days ago"),
        (-1_500, "in 1.50 s"),
    ],
)
def test_what_is_over_is_told_by_its_age(elapsed_ms: int, text: str) -> None:
    assert quantities.ago_text(elapsed_ms) == text


def test_age_of_a_time_is_told_by_its_zone() -> None:
    noon_ms = time_zones.UTC_ZONE.epoch_ms("20261121120000000")
    zone = time_zones.TimeZone("Europe/Berlin")
    assert quantities.ago_of("20261121120000000", zone, noon_ms) == "1 h ago"
    assert quantities.ago_of("20261121120000000", None, noon_ms) == "2026-11-21 12:00:00"
    assert quantities.ago_of("20261121120000", None, noon_ms) == "2026-11-21 12:00:00"
    assert quantities.ago_of(None, None, noon_ms) == ""
