"""What happens by chance in a simulated world: drawn by a seed, or replayed from a script.

    draw        a question that chance answers: who goes on, what fails, who is paused
    calm        the answer that changes nothing: the running actor goes on, nothing fails
    deviation   any other answer, kept under the process, its step, and what was asked

A run is its deviations: replayed, they give the same run again, and most of a failing run's can be
left out, since what they answered is then answered calmly.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

Answer = str | int | tuple[str, int]


class Key(NamedTuple):
    """What a draw is known by.

    Attributes:
        process: Who asks.
        step: Its own count of steps, which others do not change.
        question: What is asked.
    """

    process: str
    step: int
    question: str


Sample = Callable[[random.Random], Answer]
Deviations = Mapping[Key, Answer]


class Asking(Protocol):
    """The process that asks, at its present step."""

    @property
    def name(self) -> str: ...

    @property
    def steps(self) -> int: ...


class Chance(Protocol):
    """Answers what a run leaves open."""

    @property
    def deviations(self) -> Deviations:
        """What was not calm so far, or is to be."""
        ...

    def draw(self, asking: Asking, question: str, calm: Answer, sample: Sample) -> Answer:
        """Return an answer."""
        ...

    def choose(self, asking: Asking, question: str, calm: str, ready: Sequence[str]) -> str:
        """Return who goes on."""
        ...


class SeededChance:
    """Answers from a seed; remembers what was not calm."""

    def __init__(self, seed: int, *, switch_rate: float = 1.0) -> None:
        """Take the seed, and how often the running actor is not simply the one that goes on."""
        self._random = random.Random(seed)
        self._switch_rate = switch_rate
        self.deviations: dict[Key, Answer] = {}

    def draw(self, asking: Asking, question: str, calm: Answer, sample: Sample) -> Answer:
        answer = sample(self._random)
        if answer != calm:
            self.deviations[Key(asking.name, asking.steps, question)] = answer
        return answer

    def choose(self, asking: Asking, question: str, calm: str, ready: Sequence[str]) -> str:
        if self._random.random() >= self._switch_rate:
            return calm
        chosen = ready[int(self._random.random() * len(ready))]
        if chosen != calm:
            self.deviations[Key(asking.name, asking.steps, question)] = chosen
        return chosen


class ScriptedChance:
    """Answers as deviations say, and calmly otherwise."""

    def __init__(self, deviations: Deviations) -> None:
        self.deviations = deviations

    def draw(self, asking: Asking, question: str, calm: Answer, sample: Sample) -> Answer:
        del sample
        return self.deviations.get(Key(asking.name, asking.steps, question), calm)

    def choose(self, asking: Asking, question: str, calm: str, ready: Sequence[str]) -> str:
        chosen = self.deviations.get(Key(asking.name, asking.steps, question), calm)
        return str(chosen) if chosen in ready else calm
