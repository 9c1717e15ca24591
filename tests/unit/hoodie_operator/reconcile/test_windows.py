"""When a window of a policy is open: over midnight, on some days, with summer time."""

import datetime
import json
from typing import Any

import pytest

from hoodie_operator.api import service_policy
from hoodie_operator.reconcile import windows
from support.operators.flights_world import Flights

NIGHT = {"start": "22:00", "end": "04:00"}


def rules(*found: dict[str, Any], zone: str = "UTC") -> service_policy.Schedule:
    text = {"windows": list(found) or None, "timeZone": zone}
    return service_policy.Schedule.model_validate_json(json.dumps(text))


def at(text: str) -> int:
    return round(datetime.datetime.fromisoformat(text).timestamp() * 1000)


@pytest.mark.parametrize(
    ("window", "zone", "now", "opens"),
    [
        (NIGHT, "UTC", "2026-11-25T21:59:59+00:00", "2026-11-25T22:00:00+00:00"),
        (NIGHT, "UTC", "2026-11-25T22:00:00+00:00", None),
        (NIGHT, "UTC", "2026-11-26T03:59:59+00:00", None),
        (NIGHT, "UTC", "2026-11-26T04:00:00+00:00", "2026-11-26T22:00:00+00:00"),
        (NIGHT, "Europe/Berlin", "2026-11-25T21:30:00+00:00", None),
        (NIGHT, "Europe/Berlin", "2026-06-25T20:30:00+00:00", None),
        # The night of Saturday ends on Sunday.
        ({**NIGHT, "days": ["Saturday"]}, "UTC", "2026-11-29T03:00:00+00:00", None),
        (
            {**NIGHT, "days": ["Saturday"]},
            "UTC",
            "2026-11-29T05:00:00+00:00",
            "2026-12-05T22:00:00+00:00",
        ),
        # 02:30 does not exist on the day when summer time begins.
        (
            {"start": "02:30", "end": "03:30", "days": ["Sunday"]},
            "Europe/Berlin",
            "2026-03-29T00:00:00+00:00",
            "2026-03-29T01:30:00+00:00",
        ),
        # It begins at 03:00 then, which is when a window to 03:00 would end: it is as long as ever.
        (
            {"start": "02:00", "end": "03:00", "days": ["Sunday"]},
            "Europe/Berlin",
            "2026-03-29T01:30:00+00:00",
            None,
        ),
    ],
)
def test_next_opening(window: dict[str, Any], zone: str, now: str, opens: str | None) -> None:
    found = windows.next_opening_ms(rules(window, zone=zone), at(now))
    assert found == (None if opens is None else at(opens))


def test_no_window_is_always_open() -> None:
    assert windows.next_opening_ms(rules(), at("2026-11-25T00:00:00+00:00")) is None


def test_policy_with_a_time_zone_that_does_not_exist_is_stalled() -> None:
    here = Flights()
    policy = here.add_policy(timeZone="Atlantis/Poseidonis")
    here.settle()
    state, reason, message = here.condition(policy)
    assert (state, reason) == ("Stalled", "InvalidSpec")
    assert "Atlantis/Poseidonis, expected a time zone such as Europe/Berlin" in message


@pytest.mark.parametrize("end", ["03:00", "03:30"])
def test_window_is_not_open_all_day_when_summer_time_begins(end: str) -> None:
    window = {"start": "02:30", "end": end, "days": ["Sunday"]}
    found = windows.next_opening_ms(
        rules(window, zone="Europe/Berlin"), at("2026-03-29T12:00:00+00:00")
    )
    assert found == at("2026-04-05T00:30:00+00:00")
