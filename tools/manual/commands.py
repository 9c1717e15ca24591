"""Reference of a command line, from the parsers of its commands."""

import itertools
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import typer

from hoodie.cli import program as tables_program
from hoodie_operator import __main__ as operator_program
from manual import markdown

_DEFAULTS = re.compile(r" +\[(?P<facts>(?:[^\[\]]|\[[^\]]*\])*)\]$")
_MARKUP = re.compile(r"\\(?=\[)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program with commands.

    Attributes:
        name: As it is typed.
        about: What it is, in a sentence or two.
        panels: Names of commands by the heading below which they stand.
    """

    name: str
    about: str
    panels: Mapping[str, tuple[str, ...]]


def programs() -> tuple[Program, Program]:
    """Return `hoodie` and `hudi-operator`."""
    panels: dict[str, tuple[str, ...]] = {}
    for name, (panel, _) in tables_program.COMMANDS.items():
        panels[panel] = (*panels.get(panel, ()), name)
    return (
        Program(
            name=tables_program.NAME,
            about="Tables at any URI, from any shell. Standard output carries the answer, with "
            "`--json` one JSON document; standard error carries progress, notes and errors. "
            "`hoodie --install-completion` has your shell complete commands and options.",
            panels=panels,
        ),
        Program(
            name=operator_program.NAME,
            about="Tables that are declared in manifests: the operator on Kubernetes and without a "
            "cluster, and the commands that show what it does.",
            panels={"Commands": tuple(operator_program.COMMANDS)},
        ),
    )


def parser(program: str, command: str) -> Any:  # noqa: ANN401 - typer's own click, which has no name
    """Return the parser of one command of a program."""
    build = {
        tables_program.NAME: tables_program.parser,
        operator_program.NAME: operator_program.parser,
    }[program]
    return build(command).commands[command]


def page(program: Program) -> str:
    """Return the page of a program."""
    parts = [f"# {program.name}\n", f"{program.about}\n", "## Commands\n"]
    for panel, names in program.panels.items():
        rows = (
            (f"[`{program.name} {name}`](#{markdown.anchor(f'{program.name} {name}')})", summary)
            for name in names
            for summary in [str(parser(program.name, name).short_help)]
        )
        parts += [f"### {panel}\n", markdown.table(("command", "what it does"), rows)]
    if program.name == tables_program.NAME:
        parts += ["## Exit codes\n", _exit_codes()]
    for name in (each for names in program.panels.values() for each in names):
        parts += [f"## {program.name} {name}\n", *_command(program.name, name)]
    return "\n".join(parts)


def examples(program: str, command: str) -> list[str]:
    """Return the command lines that the help of a command shows."""
    found = parser(program, command).epilog or ""
    return [line.strip() for line in found.splitlines() if line.strip().startswith(f"{program} ")]


def _command(program: str, name: str) -> Iterator[str]:
    found = parser(program, name)
    context = typer.Context(found, info_name=f"{program} {name}")
    yield f"```text\n{_plain(found.get_usage(context)).removeprefix('Usage: ').strip()}\n```\n"
    yield f"{_paragraphs(found.help or '')}\n"
    records = [
        (parameter, parameter.get_help_record(context))
        for parameter in found.params
        if not getattr(parameter, "hidden", False)
    ]
    arguments = [record for each, record in records if each.param_type_name == "argument"]
    options = [record for each, record in records if each.param_type_name == "option"]
    for heading, rows in (("argument", arguments), ("option", options)):
        if rows:
            yield markdown.table((heading, "meaning", "default"), map(_row, filter(None, rows)))
    if found.epilog:
        yield f"{_paragraphs(found.epilog)}\n"


def _row(record: tuple[str, str]) -> tuple[str, str, str]:
    names, told = record
    facts = _DEFAULTS.search(told)
    meaning = told if facts is None else told[: facts.start()]
    kept = [] if facts is None else facts["facts"].split("; ")
    default = next((each for each in kept if each.startswith("default: ")), "")
    others = [each for each in kept if each != default]
    shown = default.removeprefix("default: ")
    if shown.startswith("(") and shown.endswith(")"):
        shown = markdown.prose(shown[1:-1])
    elif shown:
        shown = markdown.code(shown)
    extra = f" ({'; '.join(others)})" if others else ""
    return (
        markdown.code(re.sub(r" <(?:str|bool|int|float)>$", "", names)),
        markdown.prose(_plain(meaning)) + extra,
        shown,
    )


def _paragraphs(text: str) -> str:
    """Return a help text, whose indented paragraphs become blocks."""
    parts: list[str] = []
    for indented, group in itertools.groupby(
        _plain(text).split("\n\n"), lambda each: each.startswith("  ")
    ):
        if indented:
            body = textwrap.dedent("\n\n".join(each.rstrip() for each in group))
            language = "bash" if body.startswith("hoodie ") else "text"
            parts.append(f"```{language}\n{body}\n```")
        else:
            parts += [markdown.prose(each.strip()) for each in group if each.strip()]
    return "\n\n".join(parts)


def _plain(text: str) -> str:
    """Return a text without the escapes of rich's markup."""
    return _MARKUP.sub("", text)


def _exit_codes() -> str:
    epilog = tables_program.EPILOG.partition("Exit codes:\n\n")[2]
    lines = [each.strip() for each in epilog.strip().splitlines()]
    rows: list[list[str]] = []
    for line in lines:
        code, gap, meaning = line.partition("  ")
        if gap:
            rows.append([code, meaning.strip()])
        else:
            rows[-1][1] += f" {line}"
    return markdown.table(
        ("code", "meaning"), ((code, markdown.prose(told)) for code, told in rows)
    )
