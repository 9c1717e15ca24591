"""`hoodie consumer`, and where other commands name consumers."""

import re
from pathlib import Path

import pytest

from hoodie.timeline import active
from support.tables.command_line import Answer, Run


def fine(answer: Answer) -> Answer:
    assert answer.code == 0, answer.err
    return answer


def test_consumer_is_declared_advanced_listed_and_removed(
    hoodie: Run, table: Path, trips: Path
) -> None:
    assert fine(hoodie("consumer", "list", table)).out == "no consumers\n"
    fine(hoodie("write", table, "--input", trips))
    declared = fine(hoodie("consumer", "advance", table, "billing"))
    assert re.fullmatch(
        r"declared consumer billing has read up to \d{17}; a clean waits for its next update for "
        r"7 days\n",
        declared.out,
    )
    fine(hoodie("write", table, "--input", trips))
    again = fine(hoodie("consumer", "advance", table, "billing", "--limit", "36h", "--json"))
    found = again.document
    assert (found["is_new"], found["limit_ms"], found["passed_by"]) == (False, 129_600_000, None)
    (row,) = fine(hoodie("consumer", "list", table, "--json")).document["consumers"]
    assert (row["name"], row["state"], row["consumed"]) == ("billing", "holding", found["consumed"])
    assert re.search(
        r"billing +holding +\d{17} +1 +[\d.]+ s +36 h 00 min",
        fine(hoodie("consumer", "list", table)).out,
    )
    back = hoodie("consumer", "advance", table, "billing", "--to", "20200101000000000")
    assert back.code == 20, back.err
    assert "does not move back" in back.err
    assert fine(hoodie("consumer", "remove", table, "billing")).out == "removed consumer billing\n"
    gone = hoodie("consumer", "remove", table, "billing")
    assert gone.code == 22
    assert fine(hoodie("check", table)).out == ""


def test_list_shows_how_far_behind_consumers_are(hoodie: Run, table: Path, trips: Path) -> None:
    fine(hoodie("write", table, "--input", trips))
    fine(hoodie("changes", table, "--consumer", "billing", "--advance", "--json"))
    (read,) = fine(hoodie("consumer", "list", table, "--json")).document["consumers"]
    assert (read["unread_writes"], read["unread_since"], read["lag_ms"]) == (0, None, 0)
    assert read["position"].startswith(f"{read['consumed']}-")
    for _ in range(2):
        fine(hoodie("write", table, "--input", trips))
    fine(hoodie("compact", table))
    (behind,) = fine(hoodie("consumer", "list", table, "--json")).document["consumers"]
    assert (behind["unread_writes"], behind["is_more_unread"]) == (2, False)
    assert behind["consumed"] < behind["unread_since"]
    assert 0 < behind["lag_ms"] < 600_000
    shown = fine(hoodie("consumer", "list", table)).out
    assert re.search(r"billing +holding +\d{17} +2 +[\d.]+ s +7 days", shown)
    assert read["position"] in shown
    fine(hoodie("consumer", "advance", table, "late"))
    (_, late) = fine(hoodie("consumer", "list", table, "--json")).document["consumers"]
    assert (late["position"], late["unread_writes"]) == (None, 0)


def test_other_commands_name_what_waits(hoodie: Run, table: Path, trips: Path) -> None:
    fine(hoodie("write", table, "--input", trips))
    consumed = fine(hoodie("consumer", "advance", table, "billing", "--json")).document["consumed"]
    for _ in range(3):
        fine(hoodie("write", table, "--input", trips))
        fine(hoodie("compact", table))
    options = ("--keep-commits", "1", "--grace", "0")
    dry = fine(hoodie("clean", table, *options, "--dry-run"))
    assert f"older versions stay because consumer billing has read up to {consumed}" in dry.out
    stats = fine(hoodie("stats", table))
    assert f"consumer: billing has read up to {consumed}; a clean waits for it" in stats.out
    (table / active.consumer_path("billing")).write_bytes(b"?")
    dry = fine(hoodie("clean", table, *options, "--dry-run"))
    assert "hoodie consumer remove" in dry.out
    assert "consumer: billing holds back every clean" in fine(hoodie("stats", table)).out
    listed = fine(hoodie("consumer", "list", table))
    assert re.search(r"billing +damaged", listed.out)
    assert "is not JSON" in listed.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("list", "billing"), "list takes no name"),
        (("advance",), "expected the name of the consumer to advance"),
        (("remove", "billing", "--to", "20260101000000000"), "--to is an option of advance only"),
        (("remove", "billing", "--limit", "7d"), "--limit is an option of advance only"),
    ],
)
def test_options_that_do_not_fit_the_action_are_wrong_usage(
    arguments: tuple[str, ...], message: str, hoodie: Run, table: Path
) -> None:
    action, *others = arguments
    answer = hoodie("consumer", action, table, *others)
    assert answer.code == 2
    assert message in answer.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a/b",), "'a/b' is not the name of a consumer"),
        (("billing", "--to", "yesterday"), "'yesterday' is not an instant time"),
        (("billing", "--limit", "soon"), "'soon' is not a duration"),
        (("billing", "--limit", "0d"), "the limit of a consumer is 0 ms"),
        (("billing", "--to", "99991231235959999"), "cannot have read up to"),
    ],
)
def test_malformed_values_are_refused(
    arguments: tuple[str, ...], message: str, hoodie: Run, table: Path
) -> None:
    answer = hoodie("consumer", "advance", table, *arguments)
    assert answer.code == 20, answer.err
    assert message in answer.err
