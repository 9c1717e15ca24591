"""What a command is: a value that the program is put together from."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command.

    Attributes:
        run: Does it; its parameters are the command's, and its result the exit code, None for 0.
        details: Paragraphs below the summary.
        examples: Below the options.
    """

    run: Callable[..., int | None]
    details: str = ""
    examples: str = ""

    def help(self, summary: str) -> str:
        """Return summary and details, as typer takes them."""
        return reflowed(f"{summary}\n\n{self.details}")

    @property
    def epilog(self) -> str:
        """What the help ends with, as typer takes it."""
        return reflowed(self.examples)


def reflowed(text: str) -> str:
    """Return a text whose paragraphs are a line each, but for those that are indented."""
    paragraphs = text.strip().split("\n\n")
    return "\n\n".join(
        each if each.startswith(" ") else each.replace("\n", " ") for each in paragraphs
    )
