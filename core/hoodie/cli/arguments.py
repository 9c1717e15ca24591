"""The command line before it is parsed."""

from collections.abc import Sequence

_FLAGS = frozenset(("--json", "-h", "--help", "--no-header"))
_INPUT = "--input"


def command_of(argv: Sequence[str]) -> str | None:
    """Return the command in a command line; None where there is none."""
    return next((token for token in argv if not token.startswith("-")), None)


def spread(argv: Sequence[str]) -> list[str]:
    """Return a command line with `write`'s `--input A B` as `--input A --input B`.

    So a shell's `--input *.csv` works. The table may stand before or after; when it stands nowhere
    else it is the last of the files.
    """
    if command_of(argv) != "write":
        return list(argv)
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
            while tokens and not tokens[0].startswith("-"):
                files.append(tokens.pop(0))
        elif token.startswith(f"{_INPUT}="):
            files.append(token.removeprefix(f"{_INPUT}="))
        elif not token.startswith("-"):
            tables.append(token)
        else:
            others.append(token)
            if token not in _FLAGS and "=" not in token:
                others += tokens[:1]
                del tokens[:1]
    if not tables and len(files) > 1:
        tables.append(files.pop())
    inputs = [part for file in files for part in (_INPUT, file)]
    return [*argv[: command + 1], *tables, *others, *inputs]
