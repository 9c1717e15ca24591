"""Positions: how far a reader of increments has come, as one value that it keeps.

    20261128063219123-6f1c2a90.51b3e07d-20261121000000000-17-2f0a….19c4….8d01….77e2…
    time              table             since             count  sums, hexadecimal

Terms:
    table   marks of the table's name and, where it has one, of its id
    time    completion time up to which everything was read
    since   requested time from which the position has counted writes: the first on the timeline
            when it was made; those below were archived, and completed before
    sums    of the powers 1 to 4 of a number that each counted write has, modulo a prime

Writes of ours complete above everything that has completed. One of another engine whose clock is
behind, or one whose lock was lost, may complete at or below a position that was given out; a
reader that goes by the time alone would pass it by. The sums find it: they are of all writes that
the reader has seen up to its time, so that the differences to those of now are sums of the powers
of those that came since. From as many sums as there are such writes follow their numbers, exactly,
whichever of all writes they are (Newton's identities). Each sum more is a check.

The same sums notice a write that was rolled back after it was read, a table that was restored, and
one that was made anew under the same name: what the reader has seen is not there any more. A table
with an id (`table_config.TABLE_ID_KEY`), as this project makes them, is known from another of its
name before that, also if nothing was written yet.

Source: protocol.md: Increments.
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from hoodie import errors
from hoodie.model import instants, table_config

_PRIME = (1 << 61) - 1
_POWERS = 4
_TABLE_DIGITS = 8
_MARK_BYTES = 8

_TEXT = re.compile(
    r"(?P<time>\d{17})-(?P<table>[0-9a-f]{8}(\.[0-9a-f]{8})?)-(?P<since>\d{17})-(?P<count>\d{1,9})-"
    r"(?P<sums>[0-9a-f]{1,16}(\.[0-9a-f]{1,16}){3})",
    re.ASCII,
)

BEGINNING = instants.format_time(0)
"""Before every instant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """A completed write, as positions count it.

    Attributes:
        requested_time: Its requested time.
        completion_time: Its completion time.
    """

    requested_time: instants.InstantTime
    completion_time: instants.InstantTime


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far a reader has come; its text is all that the reader keeps.

    Attributes:
        time: Completion time up to which it has read.
        table: What the table is recognised by: marks of its name and of its id, if it has one.
        since: Requested time from which writes are counted.
        count: How many there were up to the time.
        sums: Of the powers of their numbers.
    """

    time: instants.InstantTime
    table: str
    since: instants.InstantTime
    count: int
    sums: tuple[int, ...]

    def __str__(self) -> str:
        sums = ".".join(f"{each:x}" for each in self.sums)
        return f"{self.time}-{self.table}-{self.since}-{self.count}-{sums}"


def of_completion(found: Position | instants.InstantTime) -> Position:
    """Return the position of a read by completion times, as all are unless another rule is given.

    By requested times a reader's position is a requested time.
    """
    assert isinstance(found, Position), found
    return found


def parse(text: str) -> Position | None:
    """Return the position that a text is; None if it is none."""
    found = _TEXT.fullmatch(text.strip())
    if found is None:
        return None
    return Position(
        time=instants.InstantTime(found["time"]),
        table=found["table"],
        since=instants.InstantTime(found["since"]),
        count=int(found["count"]),
        sums=tuple(int(each, 16) % _PRIME for each in found["sums"].split(".")),
    )


def at(
    time: instants.InstantTime,
    config: table_config.TableConfig,
    since: instants.InstantTime,
    writes: Iterable[Completed],
) -> Position:
    """Return the position of a reader that has seen everything up to a completion time.

    Args:
        time: The completion time.
        config: The table's.
        since: Requested time from which writes are counted.
        writes: All that have completed and were requested then or later, at least.
    """
    counted = [
        each for each in writes if each.completion_time <= time and each.requested_time >= since
    ]
    marks = [_mark(each) for each in counted]
    return Position(
        time=time,
        table=_table(config),
        since=since,
        count=len(marks),
        sums=_sums(marks),
    )


def check_table(position: Position, config: table_config.TableConfig) -> None:
    """Refuse a position of another table. One that was renamed is the same, if it has an id.

    Raises:
        InvalidInputError: It is of a table of another name.
        GoneError: It is of a table of this name, which was dropped and made again since.
    """
    name, _, table_id = position.table.partition(".")
    its_name, _, its_id = _table(config).partition(".")
    if table_id and table_id == its_id:
        return
    if name != its_name:
        raise errors.InvalidInputError(
            f"position {position} is of another table than {config.name!r}: expected one that a "
            "read of changes of this table has returned"
        )
    if table_id:
        raise errors.GoneError(
            f"position {position} is of a table {config.name!r} that was dropped: it was made "
            "again under its name; read the whole table again"
        )


def latecomers(position: Position, writes: Iterable[Completed]) -> tuple[Completed, ...] | None:
    """Return the writes that completed at or below a position since it was made.

    Args:
        position: The position.
        writes: All writes that have completed by now, at least those requested since its `since`.

    Returns:
        They, by completion time. None where what the position has counted is not there any more, or
        more completed than its sums name.
    """
    candidates = {
        _mark(each): each
        for each in writes
        if each.completion_time <= position.time and each.requested_time >= position.since
    }
    count = len(candidates) - position.count
    if not 0 <= count <= _POWERS:
        return None
    differences = [
        (now - then) % _PRIME for now, then in zip(_sums(candidates), position.sums, strict=True)
    ]
    coefficients = _coefficients(differences[:count])
    found = [mark for mark in candidates if count and _value(coefficients, mark) == 0]
    if len(found) != count or list(_sums(found)) != differences:
        return None
    return tuple(
        sorted((candidates[mark] for mark in found), key=lambda each: each.completion_time)
    )


def _table(config: table_config.TableConfig) -> str:
    marks = (config.name, *(() if config.table_id is None else (config.table_id,)))
    return ".".join(map(_mark_of, marks))


def _mark_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_TABLE_DIGITS]


def _mark(write: Completed) -> int:
    """Return the number of a write: its times, hashed, in the field of the sums."""
    text = f"{write.requested_time}{write.completion_time}"
    digest = hashlib.blake2b(text.encode(), digest_size=_MARK_BYTES).digest()
    return int.from_bytes(digest, "big") % _PRIME


def _sums(marks: Collection[int]) -> tuple[int, ...]:
    sums = [0] * _POWERS
    for mark in marks:
        power = 1
        for place in range(_POWERS):
            power = power * mark % _PRIME
            sums[place] = (sums[place] + power) % _PRIME
    return tuple(sums)


def _coefficients(sums: Sequence[int]) -> list[int]:
    """Return the coefficients of the polynomial whose roots have powers with these sums.

    That of the highest power comes first. But for their signs they are the elementary symmetric
    polynomials: `k e(k) = e(k-1) p(1) - e(k-2) p(2) + ...`.
    """
    symmetric = [1]
    for k in range(1, len(sums) + 1):
        total = sum((-1) ** (i - 1) * symmetric[k - i] * sums[i - 1] for i in range(1, k + 1))
        symmetric.append(total * pow(k, -1, _PRIME) % _PRIME)
    return [(-1) ** k * each % _PRIME for k, each in enumerate(symmetric)]


def _value(coefficients: Sequence[int], mark: int) -> int:
    value = 0
    for each in coefficients:
        value = (value * mark + each) % _PRIME
    return value
