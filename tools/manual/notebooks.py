"""Jupyter's notebooks, as far as a tutorial needs them: cells of text and of code, with outputs.

Source: the notebook format 4.5 (nbformat.readthedocs.io).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A cell.

    Attributes:
        id: Its name in the notebook.
        kind: `markdown` or `code`.
        text: What it says, or the code.
        printed: What the code printed.
        shown: What its last expression was, as text; None for nothing.
    """

    id: str
    kind: str
    text: str
    printed: str = ""
    shown: str | None = None


def read(text: str) -> list[Cell]:
    """Return the cells of a notebook.

    Raises:
        ValueError: It has outputs of another kind, or of an error.
    """
    found = []
    for each in json.loads(text)["cells"]:
        cell = Cell(id=each["id"], kind=each["cell_type"], text="".join(each["source"]))
        for output in each.get("outputs", ()):
            cell = _with_output(cell, output)
        found.append(cell)
    return found


def written(cells: Sequence[Cell]) -> str:
    """Return the text of a notebook of some cells."""
    document = {
        "cells": [_document(each, number) for number, each in _numbered(cells)],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def page(cells: Sequence[Cell]) -> str:
    """Return a notebook as a page: its texts, its code, and below each block what it gives."""
    parts: list[str] = []
    for cell in cells:
        if cell.kind == "markdown":
            parts.append(cell.text.strip("\n"))
            continue
        code = cell.text.strip("\n")
        language = "bash" if code.startswith("!") else "python"
        shell = "\n".join(line.removeprefix("!") for line in code.splitlines())
        parts.append(f"```{language}\n{shell if language == 'bash' else code}\n```")
        result = cell.printed + (cell.shown or "")
        if result.strip():
            parts.append(f"```text\n{result.strip(chr(10))}\n```")
    return "\n\n".join(parts) + "\n"


def _with_output(cell: Cell, output: dict[str, object]) -> Cell:
    match output:
        case {"output_type": "stream", "name": "stdout", "text": [*lines]}:
            return replace(cell, printed=cell.printed + "".join(map(str, lines)))
        case {"output_type": "execute_result", "data": {"text/plain": [*lines]}}:
            return replace(cell, shown="".join(map(str, lines)))
    raise ValueError(f"cell {cell.id} has an output of type {output.get('output_type')}")


def _numbered(cells: Sequence[Cell]) -> list[tuple[int, Cell]]:
    count = 0
    found = []
    for cell in cells:
        count += cell.kind == "code"
        found.append((count, cell))
    return found


def _document(cell: Cell, number: int) -> dict[str, object]:
    source = cell.text.splitlines(keepends=True)
    head: dict[str, object] = {"cell_type": cell.kind, "id": cell.id, "metadata": {}}
    if cell.kind == "markdown":
        return {**head, "source": source}
    outputs: list[dict[str, object]] = []
    if cell.printed:
        lines = cell.printed.splitlines(keepends=True)
        outputs.append({"name": "stdout", "output_type": "stream", "text": lines})
    if cell.shown is not None:
        shown = {"text/plain": cell.shown.splitlines(keepends=True)}
        outputs.append(
            {
                "data": shown,
                "execution_count": number,
                "metadata": {},
                "output_type": "execute_result",
            }
        )
    return {**head, "execution_count": number, "outputs": outputs, "source": source}
