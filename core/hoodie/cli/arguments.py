"""The command line before it is parsed."""

from collections.abc import Mapping, Sequence

_FLAGS = frozenset(("--json", "-h", "--help", "--no-header", "--create", "--count"))
"""Options of `write` that have no value."""
_COMPLETE = "_HOODIE_COMPLETE"
_INPUT = "--input"
_STANDARD_INPUT = "-"


def command_of(argv: Sequence[str]) -> str | None:
    """Return the command in a command line; None where there is none."""
    return next((token for token in argv if not token.startswith("-")), None)


def completed_words(variables: Mapping[str, str]) -> list[str]:
    """Return the words that a shell asks to complete, without the program; none if it does not.

    Args:
        variables: Of the environment, in which typer's scripts put them.
    """
    if _COMPLETE not in variables:
        return []
    words = variables.get("COMP_WORDS") or variables.get("_TYPER_COMPLETE_ARGS", "")
    return words.split()[1:]


def spread(argv: Sequence[str]) -> list[str]:
    """Return a command line as typer takes it.

    `help` and `version` are options, and `write`'s `A B` and `--input A B` are `--input A --input
    B`, so that a shell's `*.csv` works. What stands outside `--input` is the table and then files;
    when the table does not stand there it is the last of the files.
    """
    if argv[:1] == ["help"]:
        return [*argv[1:2], "--help"]
    if list(argv) == ["version"]:
        return ["--version"]
    return _spread_files(argv) if command_of(argv) == "write" else list(argv)


def _spread_files(argv: Sequence[str]) -> list[str]:
    command = list(argv).index("write")
    files: list[str] = []
    tables: list[str] = []
    others: list[str] = []
    tokens = list(argv[command + 1 :])
    while tokens:
        token = tokens.pop(0)
        if token == _INPUT:
            # Its first value may begin with a dash, as any option's.
            files += tokens[:1]
            del tokens[:1]
            while tokens and not _is_option(tokens[0]):
                files.append(tokens.pop(0))
        elif token.startswith(f"{_INPUT}="):
            files.append(token.removeprefix(f"{_INPUT}="))
        elif not _is_option(token):
            tables.append(token)
        else:
            others.append(token)
            if token not in _FLAGS and "=" not in token:
                others += tokens[:1]
                del tokens[:1]
    if not tables and len(files) > 1:
        tables.append(files.pop())
    files = [*tables[1:], *files]
    inputs = [part for file in files for part in (_INPUT, file)]
    return [*argv[: command + 1], *tables[:1], *others, *inputs]


def _is_option(token: str) -> bool:
    return token.startswith("-") and token != _STANDARD_INPUT
