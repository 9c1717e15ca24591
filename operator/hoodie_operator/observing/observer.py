"""An observer: looks at tables and sources for the operator, which holds no credentials of theirs.

It only reads. Looks are made by a bounded number of threads, each within a time limit: a storage
that hangs costs the threads that it holds, and no more. What is answered was seen after the
question came.
"""

import functools
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from hoodie import clock, environment, errors
from hoodie_operator.observing import dialogue, inputs, tables
from hoodie_operator.reconcile import facts

logger = logging.getLogger(__name__)

Fact = TypeVar("Fact", facts.TableFacts, facts.SourceFacts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What an observer may use.

    Attributes:
        threads: Looks at one time.
        time_limit_s: Of one look.
    """

    threads: int = 8
    time_limit_s: float = 20.0


class Observer:
    """Answers questions."""

    def __init__(
        self, env: environment.Environment, data_roots: Sequence[str], bounds: Bounds
    ) -> None:
        """Take the environment, bounded to the roots, and how much may be used of it."""
        self._clock = env.clock
        self._tables = tables.TableObserver(env)
        self._inputs = inputs.InputObserver(data_roots, env.clock)
        self._table_looks = _Looks[facts.TableFacts](bounds, env.clock, "tables")
        self._source_looks = _Looks[facts.SourceFacts](bounds, env.clock, "sources")

    def look_at_tables(self, question: dialogue.TablesQuestion) -> dialogue.TablesAnswer:
        """Look at tables.

        Raises:
            InvalidInputError: There are too many.
        """
        if len(question.tables) > dialogue.TABLES_MAX:
            raise errors.InvalidInputError(
                f"{len(question.tables)} tables are asked for, expected {dialogue.TABLES_MAX} at "
                "most"
            )
        looks = {each.uri: self._table_look(each) for each in question.tables}
        seen = self._table_looks.make(looks)
        return dialogue.fitted(
            [
                dialogue.told_table(seen[each.uri], each.known)
                if each.uri in seen
                else dialogue.told_table(
                    facts.TableFacts(observed_ms=0, problem=self._table_looks.silence(each.uri))
                )
                for each in question.tables
            ]
        )

    def _table_look(self, question: dialogue.TableQuestion) -> Callable[[], facts.TableFacts]:
        target = tables.TableTarget(
            uri=question.uri, settings=question.settings, mirror=question.mirror
        )

        def look() -> facts.TableFacts:
            try:
                return self._tables.look(target)
            except Exception as error:
                return facts.TableFacts(observed_ms=0, problem=_failure(question.uri, error))

        return look

    def look_at_source(self, question: dialogue.SourceQuestion) -> dialogue.SourceAnswer:
        """Look at a source.

        Raises:
            InvalidInputError: What is asked for is none.
        """
        source = dialogue.asked_source(question)

        def look() -> facts.SourceFacts:
            try:
                return self._inputs.look(0, source)
            except Exception as error:
                problem = _failure("the source", error)
                return facts.SourceFacts(generation=0, observed_ms=0, problem=problem)

        seen = self._source_looks.make({question.source: look})
        found = seen.get(question.source)
        if found is None:
            problem = self._source_looks.silence("the source")
            found = facts.SourceFacts(generation=0, observed_ms=0, problem=problem)
        return dialogue.told_source(found, question.known)


def _failure(what: str, error: Exception) -> facts.Problem:
    """Return what is to be said of a look that failed by a bug of ours: no other look does."""
    logger.error("observing %s failed", what, exc_info=error)
    return facts.Problem(
        kind=errors.HoodieError.kind,
        message=f"observing {what} failed: {type(error).__name__}: {error}",
        is_transient=True,
    )


@dataclass(slots=True)
class _Looks(Generic[Fact]):
    """Looks at one kind of thing, each thing by one thread at a time."""

    bounds: Bounds
    clock: clock.Clock
    name: str
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _at_work: dict[str, Future[Fact]] = field(default_factory=dict)
    _threads: ThreadPoolExecutor = field(init=False)

    def __post_init__(self) -> None:
        self._threads = ThreadPoolExecutor(
            max_workers=self.bounds.threads, thread_name_prefix=self.name
        )

    def make(self, looks: Mapping[str, Callable[[], Fact]]) -> dict[str, Fact]:
        """Return what was seen of each thing in time.

        Args:
            looks: By what tells a thing from others.
        """
        seen, earlier = self._make(looks)
        # What was being looked at when it was asked for has to be looked at again.
        ended = [key for key, future in earlier.items() if future.done()]
        return seen | self._make({key: looks[key] for key in ended})[0]

    def _make(
        self, looks: Mapping[str, Callable[[], Fact]]
    ) -> tuple[dict[str, Fact], dict[str, Future[Fact]]]:
        """Return what was seen in time, and the looks that others had begun before."""
        rounds = -(-len(looks) // self.bounds.threads)
        deadline_s = self.clock.monotonic_s() + self.bounds.time_limit_s * rounds
        begun: dict[str, Future[Fact]] = {}
        with self._lock:
            # Of one that has ended it may not be noted yet.
            earlier: dict[str, Future[Fact]] = {
                key: self._at_work[key]
                for key in looks
                if key in self._at_work and not self._at_work[key].done()
            }
            for key, look in looks.items():
                if key not in earlier:
                    begun[key] = self._at_work[key] = self._threads.submit(look)
        for key, future in begun.items():
            future.add_done_callback(functools.partial(self._ended, key))
        futures = [*begun.values(), *earlier.values()]
        wait(futures, timeout=max(0.0, deadline_s - self.clock.monotonic_s()))
        for future in begun.values():
            future.cancel()  # One that no thread has begun is nobody's to wait for.
        seen = {
            key: future.result()
            for key, future in begun.items()
            if future.done() and not future.cancelled()
        }
        return seen, earlier

    def silence(self, what: str) -> facts.Problem:
        """Return what is to be said of a thing that was not seen in time."""
        return facts.Problem(
            kind=errors.StorageError.kind,
            message=f"{what} was not read within {self.bounds.time_limit_s:g} s",
            is_transient=True,
        )

    def _ended(self, key: str, look: Future[Fact]) -> None:
        with self._lock:
            if self._at_work.get(key) is look:
                del self._at_work[key]
