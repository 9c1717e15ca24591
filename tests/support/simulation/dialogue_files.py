"""Dialogues: text files of commands and what they answer, after etcd/raft's data-driven tests.

    # A comment, up to the end of its line.
    t21 write w1 columns=a,b
    input, any number of lines
    ----
    what the command answers, up to an empty line

A time before a command is when it is given. Comments and empty lines stay where they are when a
file is rewritten with other answers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

_SEPARATOR = "----"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command of a dialogue.

    Attributes:
        line: The number of its line, for messages.
        time: When it is given, as text; None for when the one before it ended.
        name: What to do.
        arguments: Words without a `=`, in their order.
        options: Words with one.
        input: The lines below.
    """

    line: int
    time: str | None
    name: str
    arguments: tuple[str, ...]
    options: Mapping[str, str]
    input: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A command and its answer.

    Attributes:
        command: What is asked.
        head: The lines of the file from the end of the exchange before to the separator, in it.
        answer: The lines below.
    """

    command: Command
    head: tuple[str, ...]
    answer: tuple[str, ...]


def parse(text: str) -> tuple[list[Exchange], list[str]]:
    """Return the exchanges of a file, and the lines behind the last one."""
    exchanges: list[Exchange] = []
    lines = text.splitlines()
    start = 0
    while _SEPARATOR in lines[start:]:
        separator = lines.index(_SEPARATOR, start)
        end = lines.index("", separator) if "" in lines[separator:] else len(lines)
        exchanges.append(
            Exchange(
                command=_command(lines, start, separator),
                head=tuple(lines[start : separator + 1]),
                answer=tuple(lines[separator + 1 : end]),
            )
        )
        start = end
    rest = lines[start:]
    stray = [line for line in rest if not _is_blank(line)]
    assert not stray, f"no {_SEPARATOR} follows {stray[0]!r}"
    return exchanges, rest


def rewrite(text: str, answer: Callable[[Command], list[str]]) -> str:
    """Return a file with the answers that its commands give now."""
    exchanges, rest = parse(text)
    lines: list[str] = []
    for exchange in exchanges:
        lines += [*exchange.head, *answer(exchange.command)]
    return "\n".join([*lines, *rest]).rstrip("\n") + "\n"


def _command(lines: list[str], start: int, separator: int) -> Command:
    numbers = [n for n in range(start, separator) if not _is_blank(lines[n])]
    assert numbers, f"line {separator + 1}: no command stands above"
    first, *rest = numbers
    words = lines[first].partition("#")[0].split()
    time = words.pop(0) if words[0].startswith("t") and words[0][1:2].isdecimal() else None
    name, *others = words
    return Command(
        line=first + 1,
        time=time,
        name=name,
        arguments=tuple(word for word in others if "=" not in word),
        options=dict(word.split("=", 1) for word in others if "=" in word),
        input=tuple(lines[number] for number in rest),
    )


def _is_blank(line: str) -> bool:
    return not line.strip() or line.startswith("#")
