"""From an exception to what the user is told: a kind, one line, a hint, an exit code."""

import re
import traceback
from dataclasses import dataclass

import typer

from hoodie import errors
from hoodie.cli import guesses, texts

EXIT_INTERRUPTED = 130
"""As shells say it of a process that SIGINT ended."""

EXIT_TERMINATED = 143
"""As shells say it of a process that SIGTERM ended."""

EXIT_READER_GONE = 141
"""As shells say it of a process that SIGPIPE ended."""

_HINTS = {
    errors.ConflictError.kind: "another process changed the table: retry the command",
    errors.WriteConflictError.kind: (
        "nothing was published: run the command again, or retry automatically with "
        "--set hoodie.write.num.retries.on.conflict.failures=3"
    ),
    errors.LockTimeoutError.kind: (
        "`hoodie lock explain URI` shows the holder and whether it is alive; to wait longer: "
        "--set hoodie.write.lock.wait_time_ms=600000"
    ),
    errors.LockLostError.kind: "nothing was published: run the command again",
    errors.HeartbeatExpiredError.kind: "nothing was published: run the command again",
    errors.ClockSkewError.kind: (
        "correct the clocks of the machines, or continue from the times of the timeline: "
        "--set hoodie.operator.future.time=advance"
    ),
    errors.RepeatedTimeError.kind: (
        "retry when clocks have shown the last time that they show twice; "
        "docs/spark-writers.md, Timelines in local time, has the change to UTC"
    ),
    errors.OutcomeUnknownError.kind: (
        "`hoodie timeline URI` shows whether the instant completed, `hoodie check URI` whether its "
        "rows are read"
    ),
    errors.StorageError.kind: ("fix the storage problem above, or retry if it looks temporary"),
}

_PARSER_WORDS = tuple(
    (re.compile(pattern), plain)
    for pattern, plain in (
        (r"Value error, ", ""),
        (r"Input should be a valid integer.*", "expected a whole number"),
        (r"Input should be a valid number.*", "expected a number"),
        (r"Input should be greater than or equal to (\S+)", r"expected \1 or more"),
        (r"Input should be less than or equal to (\S+)", r"expected \1 or less"),
        (r"Input should be ", "expected "),
    )
)
"""How the library that parses values says what is wrong, and how we do."""
_NO_COMMAND = re.compile(r"No such command '(.*?)'\.")


class TerminatedError(KeyboardInterrupt):
    """SIGTERM came, from `docker stop`, systemd or a scheduler: what is done is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What the user is told.

    Attributes:
        kind: A stable name, for programs.
        message: One line.
        hint: What may be done about it; empty for nothing.
        exit_code: Of the process.
        trace: The traceback; empty unless the failure is our own bug.
    """

    kind: str
    message: str
    hint: str = ""
    exit_code: int
    trace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """The part of a failure that programs are told."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A failure as the JSON document of the command that failed."""

    error: _Told


def document(failure: Failure) -> Document:
    """Return what programs are told of a failure."""
    return Document(error=_Told(kind=failure.kind, message=failure.message))


def of(error: BaseException) -> Failure:
    """Return what to tell of an exception."""
    match error:
        case errors.HoodieError():
            return Failure(
                kind=error.kind,
                message=_told(str(error)) or error.kind,
                hint=_hint(error),
                exit_code=error.exit_code,
            )
        case typer.TyperException():
            return Failure(
                kind="Usage",
                message=_told(_usage_text(error)),
                hint=_usage_hint(error),
                exit_code=errors.EXIT_USAGE,
            )
        case KeyboardInterrupt():
            return Failure(
                kind=errors.CancelledError.kind,
                message="terminated" if isinstance(error, TerminatedError) else "interrupted",
                hint="uncommitted changes stay invisible",
                exit_code=(
                    EXIT_TERMINATED if isinstance(error, TerminatedError) else EXIT_INTERRUPTED
                ),
            )
        case MemoryError():
            return Failure(
                kind=errors.OutOfMemoryError.kind,
                message="out of memory",
                exit_code=errors.OutOfMemoryError.exit_code,
            )
        case _:
            return Failure(
                kind=errors.HoodieError.kind,
                message=_told(f"{type(error).__name__}: {error}"),
                hint="this is a bug in hoodie: please report it with the lines above",
                exit_code=errors.EXIT_INTERNAL,
                trace=texts.redacted("".join(traceback.format_exception(error))),
            )


def _told(message: str) -> str:
    return texts.redacted(texts.one_line(message))


def _hint(error: errors.HoodieError) -> str:
    """Return what may be done about an error; empty where its text says more than to retry."""
    is_said = error.kind == errors.ConflictError.kind and "`hoodie " in str(error)
    return "" if is_said else _HINTS.get(error.kind, "")


def _usage_hint(error: typer.TyperException) -> str:
    # Only some of typer's exceptions know the command.
    context = getattr(error, "ctx", None)
    return f"run `{context.command_path} --help` for usage" if context is not None else ""


def _usage_text(error: typer.TyperException) -> str:
    """Return a usage error in plain words, without those of the parser's own types."""
    message = error.format_message()
    # Typer has the classes of these errors in a package of its own, and names none of them.
    command = getattr(getattr(error, "ctx", None), "command", None)
    if (option := getattr(error, "option_name", None)) is not None and command is not None:
        known = [name for each in command.params for name in each.opts if name.startswith("-")]
        found = guesses.meant(option, guesses.OPTIONS, known)
        return f"No such option: {option}" + (f"; did you mean {found}?" if found else "")
    if (missing := _NO_COMMAND.match(message)) is not None and command is not None:
        found = guesses.meant(missing[1], guesses.COMMANDS, command.commands)
        return missing[0] + (f" Did you mean {found!r}?" if found else "")
    for pattern, plain in _PARSER_WORDS:
        message = pattern.sub(plain, message)
    return message
