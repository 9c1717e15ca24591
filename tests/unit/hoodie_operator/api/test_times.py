"""Times as statuses tell them."""

from hoodie_operator.api import times
from support.operators import operator_world as ow


def test_times_of_statuses_read_back() -> None:
    assert times.epoch_ms(times.text(ow.START_MS)) == ow.START_MS
    spans = [times.span(ms) for ms in (850, 12_000, 300_000, 3 * 3_600_000)]
    assert spans == ["850 ms", "12 s", "5 min", "3 h"]
