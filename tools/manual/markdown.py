"""Pieces of Markdown that several kinds of pages are made of."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_FENCE = re.compile(
    r"^(?P<fence>`{3,})(?P<language>[^\n`]*)\n(?P<code>.*?)^(?P=fence)$", re.MULTILINE | re.DOTALL
)
_LINK = re.compile(r"(?<!\\)\]\((?P<target>[^()\s]+)\)")
_SPAN = re.compile(r"`[^`\n]*`")
_CODE = re.compile(f"(?:{_FENCE.pattern})|(?:{_SPAN.pattern})", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,6} +(?P<text>.+?) *$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block of code.

    Attributes:
        language: Behind its opening fence; empty for none.
        code: Its lines, each with its end.
        line: The number of its opening fence, from 1 on.
    """

    language: str
    code: str
    line: int


def blocks(text: str) -> list[Block]:
    """Return the fenced blocks of a page, in their order."""
    return [
        Block(
            language=found["language"].strip(),
            code=found["code"],
            line=text.count("\n", 0, found.start()) + 1,
        )
        for found in _FENCE.finditer(text)
    ]


def links(text: str) -> list[str]:
    """Return the targets of a page's links, in their order, without those inside of code."""
    return [found["target"] for found in _LINK.finditer(_prose(text))]


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and MyST name them."""
    found: dict[str, int] = {}
    for heading in _HEADING.finditer(_FENCE.sub("", text)):
        name = anchor(heading["text"])
        found[name] = found.get(name, -1) + 1
    return {
        name if not number else f"{name}-{number}"
        for name, count in found.items()
        for number in range(count + 1)
    }


def anchor(heading: str) -> str:
    """Return the anchor of a heading: lower case, words joined by hyphens."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def with_links(text: str, renamed: dict[str, str]) -> str:
    """Return a page with other targets of its links; those inside of code stay."""
    pieces: list[str] = []
    end = 0
    for code in _CODE.finditer(text):
        pieces += [_renamed(text[end : code.start()], renamed), code.group()]
        end = code.end()
    return "".join((*pieces, _renamed(text[end:], renamed)))


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; a cell may be any text without empty lines."""
    lines = [headings, ["---"] * len(headings), *([cell(each) for each in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def cell(text: str) -> str:
    """Return a text as a cell of a table."""
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.split()))


def code(text: str) -> str:
    """Return a text as code within a sentence."""
    fence = "``" if "`" in text else "`"
    return f"{fence}{text}{fence}"


def prose(text: str) -> str:
    """Return plain text as Markdown: options as code, what would be markup escaped."""
    pieces = re.split(r"(`[^`]*`|(?<![\w-])--[a-z][\w-]*)", text)
    return "".join(
        code(each.strip("`")) if at % 2 else re.sub(r"([*_<>\[\]{}$\\])", r"\\\1", each)
        for at, each in enumerate(pieces)
    )


def _prose(text: str) -> str:
    return _SPAN.sub("", _FENCE.sub("", text))


def _renamed(text: str, renamed: dict[str, str]) -> str:
    return _LINK.sub(lambda found: f"]({renamed.get(found['target'], found['target'])})", text)
