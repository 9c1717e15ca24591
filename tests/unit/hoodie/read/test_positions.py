"""Positions: their texts, and the writes that completed at or below them afterwards."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie import errors
from hoodie.model import instants, table_config
from hoodie.read import positions
from hoodie.read.positions import Completed, Position

CONFIG = table_config.TableConfig(name="trips", record_key_fields=("id",))
OTHER = table_config.TableConfig(name="other", record_key_fields=("id",))


def write(requested: int, completed: int) -> Completed:
    return Completed(
        requested_time=instants.format_time(requested),
        completion_time=instants.format_time(completed),
    )


WRITES = [write(1000 * n, 1000 * n + 1700) for n in range(100, 200)]
TIME = instants.format_time(180_000)
SINCE = instants.format_time(110_000)


def position(writes: list[Completed]) -> Position:
    return positions.at(TIME, CONFIG, SINCE, writes)


def test_text_is_the_position() -> None:
    found = position(WRITES)
    assert positions.parse(f" {found}\n") == found
    assert found.count == 69  # Those requested from 110 s on that completed up to 180 s.
    for text in ("", str(found)[:-1] + "x", TIME, f"{found}-1", str(found).replace("-", ".", 1)):
        assert positions.parse(text) is None


@settings(deadline=None)
@given(st.sets(st.integers(10, 75), max_size=6), st.randoms())
def test_latecomers_are_named_whichever_they_are(late: set[int], random: object) -> None:
    seen = [each for place, each in enumerate(WRITES) if place not in late]
    now = list(WRITES)
    random.shuffle(now)  # type: ignore[attr-defined] # of Hypothesis
    found = positions.latecomers(position(seen), now)
    if len(late) > 4:
        assert found is None
    else:
        assert found == tuple(WRITES[place] for place in sorted(late))


def test_what_is_above_the_position_or_below_its_since_is_no_latecomer() -> None:
    more = [*WRITES, write(100_500, 105_000), write(179_000, 180_001)]
    assert positions.latecomers(position(WRITES), more) == ()


def test_write_that_was_rolled_back_is_noticed() -> None:
    assert positions.latecomers(position(WRITES), WRITES[:30] + WRITES[31:]) is None


def test_write_that_took_the_place_of_another_is_noticed() -> None:
    changed = [*WRITES[:30], write(130_001, 132_000), *WRITES[31:]]
    assert positions.latecomers(position(WRITES), changed) is None


def test_table_that_was_made_again_is_known_by_its_id() -> None:
    first, second = (replace(CONFIG, table_id=each) for each in ("a", "b"))
    found = positions.at(TIME, first, SINCE, WRITES)
    assert positions.parse(str(found)) == found
    positions.check_table(found, first)
    positions.check_table(found, replace(first, name="renamed"))
    for other in (second, CONFIG):
        with pytest.raises(errors.GoneError, match="made again under its name"):
            positions.check_table(found, other)
        with pytest.raises(errors.InvalidInputError, match="of another table"):
            positions.check_table(found, replace(other, name="other"))
    # It was adopted since, and is the same.
    positions.check_table(position(WRITES), first)


def test_position_of_another_table_is_refused() -> None:
    positions.check_table(position(WRITES), CONFIG)
    with pytest.raises(errors.InvalidInputError, match="is of another table than 'other'"):
        positions.check_table(position(WRITES), OTHER)
