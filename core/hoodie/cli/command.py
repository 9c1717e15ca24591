"""What programs are put together from: commands as values, the version, how a failure is shown."""

import importlib.metadata
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast, get_args

import typer
from typer import core, main, models

from hoodie.cli import failures, output


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


class OptionsOnce(core.TyperCommand):
    """A command that takes an option once, unless it is one of many values.

    Typer takes the last of them: of `--record-key id --record-key day` it would drop the first.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - private
        """Parse the arguments.

        Raises:
            BadParameter: An option is given twice.
        """
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        for each in () if ctx.resilient_parsing else order:  # As for completion.
            if isinstance(each, core.TyperOption) and _is_single(each) and order.count(each) > 1:
                listed = ", with commas between names" if "[," in (each.metavar or "") else ""
                raise typer.BadParameter(
                    f"{each.opts[0]} is given {order.count(each)} times, expected once{listed}"
                )
        return super().parse_args(ctx, args)


def _is_single(option: core.TyperOption) -> bool:
    return not (option.multiple or option.is_flag)


def group(app: typer.Typer) -> core.TyperGroup:
    """Return the commands, which take choices in either case."""
    for registered in app.registered_commands:
        assert registered.callback is not None
        for parameter in inspect.signature(registered.callback).parameters.values():
            for told in get_args(parameter.annotation):
                if isinstance(told, models.ParameterInfo):
                    told.case_sensitive = False
    return cast("core.TyperGroup", main.get_command(app))


def reflowed(text: str) -> str:
    """Return a text whose paragraphs are a line each, but for those that are indented."""
    paragraphs = text.strip().split("\n\n")
    return "\n\n".join(
        each if each.startswith(" ") else each.replace("\n", " ") for each in paragraphs
    )


def version_option(program: str) -> models.OptionInfo:
    """Return the option that prints a program's version and ends it, as typer takes it."""

    def show(is_wanted: bool) -> None:
        if is_wanted:
            output.line(f"{program} {importlib.metadata.version('hudi-operator')}")
            raise typer.Exit

    option = typer.Option(
        "--version", metavar="", help="Print the version.", is_eager=True, callback=show
    )
    return cast("models.OptionInfo", option)


def show(failure: failures.Failure) -> int:
    """Print a failure for people to standard error; return the exit code."""
    if failure.trace:
        typer.echo(failure.trace, err=True)
    output.note(f"error: {failure.message}")
    if failure.hint:
        output.note(f"hint: {failure.hint}")
    return failure.exit_code
