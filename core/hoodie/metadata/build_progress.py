"""How far the build of an index is, as its builder says every few seconds.

    .hoodie/.hudi_operator/builds/{requested time of the indexing action}
        a `Progress`, as JSON

Nothing is decided by it: a builder that cannot write it builds all the same, and of one that died
it says what that has done. The time left is that of the build, up to its publication
(`build_outlook`); of one whose phases are not known that of the phase.
"""

import logging
from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import TypeVar

from hoodie import clock, errors
from hoodie.metadata import build_outlook
from hoodie.model import instants, json_values
from hoodie.storage.protocol import Storage
from hoodie.transaction import layout

logger = logging.getLogger(__name__)

EVERY_MS = 5_000
"""So often it is written at most."""

_BYTES_MAX = 1 << 16
_MS_IN_MINUTE = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a build is.

    Attributes:
        phase: What is being done.
        done: Of `total`, in units.
        total: 0 if the phase has no units.
        unit: What is counted, such as files.
        left_ms: Until all phases have ended, by what they have taken; None if that is not known.
        updated_ms: When it was so, since the epoch, by the builder's clock.
    """

    phase: str
    done: int = 0
    total: int = 0
    unit: str = ""
    left_ms: int | None = None
    updated_ms: int = 0

    def __str__(self) -> str:
        count = f": {self.done} of {self.total} {self.unit}" if self.total else ""
        return f"{self.phase}{count}{_left(self.left_ms)}"


def _left(left_ms: int | None) -> str:
    if left_ms is None:
        return ""
    if left_ms < 2 * _MS_IN_MINUTE:
        return f", about {max(1, round(left_ms / 1000))} s left"
    return f", about {round(left_ms / _MS_IN_MINUTE)} min left"


class Reporter:
    """Says how far a build is: to a listener at once, and on storage now and then."""

    def __init__(
        self,
        storage: Storage,
        builder_clock: clock.Clock,
        hear: Callable[[str], object],
        requested_time: instants.InstantTime | None = None,
    ) -> None:
        """Take where it is reported to.

        Args:
            storage: The table's.
            builder_clock: The builder's.
            hear: Called with what is done next, and how far it is.
            requested_time: Of the indexing action; None while there is none.
        """
        self._storage = storage
        self._clock = builder_clock
        self._hear = hear
        self._path = None if requested_time is None else path_of(requested_time)
        self._phase = ""
        self._expected: Sequence[build_outlook.Phase] = ()
        self._spent_s: list[float] = []
        self._begun_s = self._written_s = builder_clock.monotonic_s()
        self._is_written = False

    def __call__(self, phase: str) -> None:
        """Say what is done next."""
        self.count(phase, 0, 0)

    def expect(self, phases: Sequence[build_outlook.Phase]) -> None:
        """Take the phases that come now, in their order; what was expected before does not count.

        Each is told at least once, and each time under its name.
        """
        self._expected, self._spent_s = phases, []

    def end(self) -> None:
        """Delete what was said on storage, if anything was; failing to is no failure of a build."""
        if self._path is None or not self._is_written:
            return
        try:
            self._storage.delete(self._path)
        except errors.HoodieError as error:
            logger.info("%s: progress is left: %s", self._storage.uri, error)

    def count(self, phase: str, done: int, total: int, unit: str = "files") -> None:
        """Say how far a phase is."""
        now_s = self._clock.monotonic_s()
        if phase != self._phase:
            self._spend(now_s)
            self._phase, self._begun_s = phase, now_s
        left_s = self._left_s(now_s - self._begun_s, done / total if total else None)
        left_ms = None if left_s is None else round(1000 * left_s)
        found = Progress(
            phase=phase,
            done=done,
            total=total,
            unit=unit if total else "",
            left_ms=left_ms,
            updated_ms=self._clock.now_ms(),
        )
        self._hear(str(found))
        if self._path is not None and (now_s - self._written_s) * 1000 >= EVERY_MS:
            self._written_s, self._is_written = now_s, True
            try:
                _put(self._storage, self._path, json_values.encode(found))
            except errors.HoodieError as error:
                logger.info("%s: progress is not written: %s", self._storage.uri, error)

    def _left_s(self, spent_s: float, share: float | None) -> float | None:
        """Return the seconds that are left, of the build if its phases are known.

        Args:
            spent_s: What the phase has taken.
            share: How much of it is done, of 1; None where it does not say.
        """
        number = self._spend(self._begun_s + spent_s)
        if number is not None:
            spent = self._spent_s[: number + 1]
            return build_outlook.left_s(self._expected, number, spent, share)
        if share is None or not 0 < share < 1:
            return None
        return spent_s * (1 - share) / share

    def _spend(self, now_s: float) -> int | None:
        """Note what the phase has taken until now; return its number among those expected."""
        names = [each.name for each in self._expected]
        if self._phase not in names:
            return None
        number = names.index(self._phase)
        # One that had nothing to do was not told.
        self._spent_s += [0.0] * (number + 1 - len(self._spent_s))
        self._spent_s[number] = now_s - self._begun_s
        return number


Group = TypeVar("Group", bound=Sized)


def counted_by_group(
    reporter: Reporter, groups: Sequence[Group]
) -> Iterator[tuple[Group, Callable[[int], None]]]:
    """Yield the base files of each file group of bloom filters, with what counts those read."""
    total, before = sum(map(len, groups)), 0
    for group in groups:

        def count(done: int, before: int = before) -> None:
            reporter.count(build_outlook.FILTERS, before + done, total)

        yield group, count
        before += len(group)


def path_of(requested_time: instants.InstantTime) -> str:
    """Return the path of what is said of an indexing action."""
    return f"{layout.BUILDS}/{requested_time}"


def read(storage: Storage, requested_time: instants.InstantTime) -> Progress | None:
    """Return how far a build was when its builder last said so; None for nothing; a request."""
    path = path_of(requested_time)
    try:
        content = storage.read(path, length=_BYTES_MAX)
        return json_values.decode(Progress, content, f"{storage.uri}/{path}")
    except (errors.NotFoundError, errors.InvalidInputError) as error:
        logger.info("%s: no progress is known: %s", storage.uri, error)
        return None


def _put(storage: Storage, path: str, content: bytes) -> None:
    try:
        storage.create(path, content)
    except errors.AlreadyExistsError:
        _, version = storage.fetch(path)
        storage.replace(path, content, if_match=version)
