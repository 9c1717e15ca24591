"""Errors of ours across the border between Spark's workers and the driver.

Spark turns an exception in a worker into a Java stack trace and tries the task again. An error that
another attempt would meet as well is therefore returned as a value, and raised where it arrives.
"""

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pyarrow as pa
from pyspark import TaskContext

from hoodie import errors
from hoodie_jobs.spark import session

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Returned(Generic[Result]):
    """A task's result."""

    result: Result


@dataclass(frozen=True, slots=True)
class Raised:
    """The error that a task ended with."""

    error: errors.HoodieError


Outcome = Returned[Result] | Raised


def outcome_of(call: Callable[[], Result]) -> Outcome[Result]:
    """Return what a call in a worker came to.

    Raises:
        HoodieError: A transient one, while Spark will try the task again.
    """
    try:
        return Returned(call())
    except errors.HoodieError as error:
        # These end the whole write, whose batch is written again by another.
        is_final = isinstance(error, errors.WriteConflictError | errors.HeartbeatExpiredError)
        if error.is_transient and not is_final and not _is_last_attempt():
            raise
        # The cause may hold what does not pickle, and its text is in the message already.
        error.__cause__ = error.__context__ = None
        return Raised(error)


def result_of(outcome: Outcome[Result]) -> Result:
    """Return a task's result in the driver.

    Raises:
        HoodieError: The task ended with it.
    """
    match outcome:
        case Returned(result):
            return result
        case Raised(error):
            raise error


def is_error(outcome: Outcome[Result], kind: type[errors.HoodieError]) -> bool:
    """Return whether a task ended with an error of that kind."""
    return isinstance(outcome, Raised) and isinstance(outcome.error, kind)


def encode(outcome: Outcome[Result]) -> bytes:
    """Return an outcome as bytes, for a DataFrame's column."""
    return pickle.dumps(outcome)


def decode(content: bytes | pa.Buffer) -> Outcome[Any]:
    """Return the outcome that our own worker encoded."""
    outcome: Outcome[Any] = pickle.loads(content)  # noqa: S301 - made by our own tasks
    return outcome


def _is_last_attempt() -> bool:
    context = TaskContext.get()
    return context is None or context.attemptNumber() >= session.TASK_ATTEMPTS_MAX - 1
