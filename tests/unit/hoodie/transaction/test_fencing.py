"""Of several attempts of one author only the newest publishes (protocol.md: Attempts)."""

from dataclasses import replace

import pytest

from hoodie import errors
from hoodie.storage.memory import MemoryStorage
from hoodie.transaction import fencing, layout
from hoodie.transaction.authors import Author
from hoodie.transaction.fencing import AttemptRecord
from support.simulation import faulty_storage, schedule
from support.simulation.faulty_storage import Fault

PROCESS = schedule.Process(schedule.Schedule(), "p").process


def record(attempt: int = 1, write_id: str = "w1") -> AttemptRecord:
    return AttemptRecord(
        attempt=attempt, write_id=write_id, requested_time="20260528202640000", process=PROCESS
    )


def test_record_is_found_again() -> None:
    storage = MemoryStorage()
    author = Author(writer_id="flights/a b")
    fencing.write(storage, author, None, record())
    found = fencing.read(storage, author)
    assert found is not None
    assert found.record == record()
    assert [info.path for info in storage.list("", is_recursive=True)] == [
        f"{layout.ATTEMPTS}/writer-flights%2Fa%20b"
    ]
    assert fencing.read(storage, Author(action_id="flights/a b")) is None


def test_author_without_id_is_not_recorded() -> None:
    storage = MemoryStorage()
    fencing.write(storage, Author(), None, record())
    assert fencing.read(storage, Author()) is None
    assert storage.list("", is_recursive=True) == []
    assert fencing.publication_refusal(None, Author(), "w1") is None


def test_record_that_changed_since_it_was_read_is_a_conflict() -> None:
    storage = MemoryStorage()
    author = Author(writer_id="a")
    fencing.write(storage, author, None, record())
    found = fencing.read(storage, author)
    fencing.write(storage, author, found, record(2))
    with pytest.raises(errors.ConflictError, match="writer a"):
        fencing.write(storage, author, found, record(3))
    with pytest.raises(errors.ConflictError, match="writer a"):
        fencing.write(storage, author, None, record(3))


@pytest.mark.parametrize("fault", [Fault.FAIL_AFTER, Fault.LOST_ANSWER])
def test_lost_answer_is_resolved_by_reading_back(fault: Fault) -> None:
    for number in (0, 1):
        inner = MemoryStorage()
        process = schedule.Process(schedule.Schedule(), "p")
        faults = faulty_storage.FaultAt("p", number, fault)
        storage = faulty_storage.FaultyStorage(inner, process, faults)
        author = Author(writer_id="a")
        fencing.write(storage, author, None, record())
        fencing.write(storage, author, fencing.read(storage, author), record(2))
        found = fencing.read(inner, author)
        assert found is not None
        assert found.record == record(2)


def test_lower_attempt_is_refused_and_an_equal_one_is_not() -> None:
    storage = MemoryStorage()
    fencing.write(storage, Author(writer_id="a"), None, record(3))
    found = fencing.read(storage, Author(writer_id="a"))
    refusal = fencing.attempt_refusal(found, Author(writer_id="a", attempt=2))
    assert isinstance(refusal, errors.FencedError)
    assert "attempt 2 of writer a was replaced by attempt 3" in str(refusal)
    assert not refusal.is_transient
    for attempt in (3, 4):
        assert fencing.attempt_refusal(found, Author(writer_id="a", attempt=attempt)) is None


@pytest.mark.parametrize(
    ("newest", "expected"),
    [
        (record(1, "w1"), None),
        (record(2, "w9"), "replaced by attempt 2"),
        (record(1, "w9"), "begun another write since"),
        (record(1, ""), "given up"),
        (None, "is gone"),
    ],
)
def test_only_the_recorded_write_is_published(
    newest: AttemptRecord | None, expected: str | None
) -> None:
    found = None if newest is None else fencing.StoredRecord(record=newest, version="1")
    refusal = fencing.publication_refusal(found, Author(writer_id="a"), "w1")
    assert (refusal is None) == (expected is None)
    if expected is not None:
        assert expected in str(refusal)


def test_something_else_in_its_place_is_named() -> None:
    storage = MemoryStorage()
    storage.create(f"{layout.ATTEMPTS}/writer-a", b"{}")
    with pytest.raises(errors.FormatError, match="writer-a"):
        fencing.read(storage, Author(writer_id="a"))


@pytest.mark.parametrize("text", ["", "x" * 129])
def test_id_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(errors.InvalidInputError, match="writer id"):
        Author(writer_id=text)
    with pytest.raises(errors.InvalidInputError, match="action id"):
        Author(action_id=text)


def attempt(number: int) -> Author:
    return Author(writer_id="a", attempt=number)


def test_claimed_attempt_fences_the_earlier_one_off() -> None:
    storage = MemoryStorage()
    fencing.claim(storage, attempt(7), PROCESS)
    fencing.claim(storage, attempt(7), PROCESS)
    fencing.claim(storage, attempt(8), PROCESS)
    fencing.claim(storage, Author(action_id="a", attempt=2), PROCESS)
    with pytest.raises(errors.FencedError, match="attempt 7 of writer a was replaced by attempt 8"):
        fencing.claim(storage, attempt(7), PROCESS)
    found = fencing.read(storage, attempt(8))
    assert fencing.attempt_refusal(found, attempt(7)) is not None
    assert fencing.attempt_refusal(found, attempt(8)) is None


def test_claim_passes_on_the_batches_of_earlier_attempts() -> None:
    """Else the batch of a write that may be published yet would be written twice."""
    storage = MemoryStorage()
    earlier = replace(record(), batch_id="b3", late_batches=("b1",), pending_batches={"t": "b2"})
    fencing.write(storage, attempt(1), None, earlier)
    fencing.claim(storage, attempt(2), PROCESS)
    found = fencing.read(storage, attempt(2))
    assert found is not None
    assert found.record == replace(earlier, attempt=2, write_id="")
    assert not fencing.may_be_writing(found, attempt(2))


def test_attempt_that_is_overtaken_while_it_claims_is_refused() -> None:
    inner = MemoryStorage()
    process = schedule.Process(schedule.Schedule(), "p")
    faults = faulty_storage.Interruption(
        "p", "create", lambda: fencing.claim(inner, attempt(8), PROCESS)
    )
    overtaken = faulty_storage.FaultyStorage(inner, process, faults)
    with pytest.raises(errors.FencedError, match="attempt 8"):
        fencing.claim(overtaken, attempt(7), PROCESS)
    assert fencing.attempt_refusal(fencing.read(inner, attempt(8)), attempt(8)) is None


def test_claim_of_an_author_without_id_leaves_nothing() -> None:
    storage = MemoryStorage()
    fencing.claim(storage, Author(), PROCESS)
    assert storage.list("", is_recursive=True) == []
