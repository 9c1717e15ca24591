"""The documentation's code, executed as a reader types it, and compared with what pages show.

`/tmp/` of a page is a folder of the test. In what a page shows `…` stands for any text.
"""

import ast
import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from manual import markdown, notebooks

PROGRAMS = Path(sys.executable).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A block that is executed.

    Attributes:
        language: Of the block.
        code: Its text.
        shown: What the page shows below it; None for nothing.
        line: Its number on the page.
    """

    language: str
    code: str
    shown: str | None
    line: int


def steps(text: str, languages: Iterable[str]) -> list[Step]:
    """Return the blocks of a page that are of some languages, with what it shows below them."""
    found = markdown.blocks(text)
    followers: list[markdown.Block | None] = [*found[1:], None]
    return [
        Step(
            language=block.language,
            code=block.code,
            shown=after.code if after is not None and after.language == "text" else None,
            line=block.line,
        )
        for block, after in zip(found, followers, strict=True)
        if block.language in languages
    ]


class Reader:
    """A reader at a machine: a Python session and a shell, in a folder of a test."""

    def __init__(self, folder: Path, *, cwd: Path | None = None) -> None:
        self._folder = folder
        self._cwd = cwd or folder
        self._scope: dict[str, object] = {"__name__": "__main__"}

    def follow(self, page: Sequence[Step]) -> int:
        """Execute blocks in their order; return how many.

        Raises:
            AssertionError: A block prints something else than the page shows, or fails.
        """
        for step in page:
            printed = self.shell(step.code) if step.language == "bash" else self.python(step.code)
            if step.shown is not None:
                assert is_like(printed, step.shown), f"line {step.line} prints:\n{printed}"
        return len(page)

    def python(self, code: str) -> str:
        """Execute Python; return what it prints."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(self._here(code), "a page", "exec"), self._scope)
        return self._there(printed.getvalue())

    def evaluate(self, code: str) -> tuple[str, str | None]:
        """Execute a cell of a notebook; return what it prints, and shows of its last expression."""
        if code.startswith("!"):
            lines = (line.removeprefix("!") for line in code.splitlines())
            return self.shell("\n".join(lines)), None
        tree = ast.parse(self._here(code))
        *_, last = [None, *tree.body]
        if isinstance(last, ast.Expr):
            tree.body.pop()
        printed = io.StringIO()
        shown = None
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, "a cell", "exec"), self._scope)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), "a cell", "eval"), self._scope)
                is_shown = value is not None and not code.rstrip().endswith(";")
                shown = self._there(repr(value)) if is_shown else None
        return self._there(printed.getvalue()), shown

    def shell(self, code: str) -> str:
        """Execute commands; return what they print to standard output.

        Raises:
            AssertionError: One of them fails.
        """
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self._here(code)],
            check=False,
            capture_output=True,
            cwd=self._cwd,
            env={**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}", "COLUMNS": "100"},
            text=True,
        )
        assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
        return self._there(done.stdout)

    def _here(self, text: str) -> str:
        return text.replace("/tmp/", f"{self._folder}/")

    def _there(self, text: str) -> str:
        return text.replace(f"{self._folder}/", "/tmp/")


def is_like(printed: str, shown: str) -> bool:
    """Whether a text is what a page shows, where `…` is any text."""
    wanted = ".*".join(re.escape(each) for each in _lines(shown).split("…"))
    return re.fullmatch(wanted, _lines(printed), re.DOTALL) is not None


def executed(cells: Sequence[notebooks.Cell], reader: Reader) -> list[notebooks.Cell]:
    """Return the cells of a notebook with the outputs that they have here."""
    found = []
    for cell in cells:
        if cell.kind == "code":
            printed, shown = reader.evaluate(cell.text)
            found.append(replace(cell, printed=printed, shown=shown))
        else:
            found.append(cell)
    return found


def _lines(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())
