r"""The text of `java.util.Properties`, as its `store` writes and its `load` reads it.

One `key=value` a line, in Latin-1. A backslash escapes: `\t \n \r \f`, `\uXXXX` (a UTF-16 unit),
any other character stands for itself, and at a line's end it joins the next line. `#` and `!` begin
a comment. A key ends at the first bare `=`, `:` or blank. Source: the documentation of
`java.util.Properties.load(Reader)`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from hoodie import errors

_BLANKS = " \t\f"
_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"} | {
    separator: f"\\{separator}" for separator in "=:#!"
}
_UNESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_TO_ESCAPE = re.compile(r"[^\x20-\x7e]|[\\=:#!]")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|[^u]|u|$)", re.DOTALL)
_LINE_END = re.compile(r"\r\n|\n|\r")
_KEY = re.compile(r"(?:[^\\=: \t\f]|\\.)*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")


def encode(properties: Mapping[str, str], comments: Sequence[str] = ()) -> bytes:
    """Return the text of properties, in their order.

    Args:
        properties: Any texts.
        comments: Put first; one that holds line ends becomes several.
    """
    lines = [f"#{line}" for comment in comments for line in _LINE_END.split(comment)]
    lines += [
        f"{_escaped(key).replace(' ', chr(92) + ' ')}={_escaped_value(value)}"
        for key, value in properties.items()
    ]
    return "".join(f"{line}\n" for line in lines).encode("latin-1", errors="backslashreplace")


def partition_metadata(instant_time: str, depth: int) -> bytes:
    """Return the content of the file that makes a folder a partition.

    Args:
        instant_time: Requested time of the write that makes it.
        depth: So many folders it is below the table's root.
    """
    stored = {"commitTime": instant_time, "partitionDepth": str(depth)}
    return encode(stored, ["partition metadata"])


def decode(content: bytes) -> dict[str, str]:
    r"""Return the properties in a text; of a repeated key the last value.

    Raises:
        FormatError: A broken `\u` escape, or escapes that are no valid UTF-16.
    """
    properties = {}
    for line in _logical_lines(content.decode("latin-1")):
        key = _KEY.match(line)
        assert key is not None  # The pattern matches the empty text, too.
        separator = _SEPARATOR.match(line, key.end())
        assert separator is not None
        properties[_unescaped(key.group())] = _unescaped(line[separator.end() :])
    return properties


def _escaped(text: str) -> str:
    return _TO_ESCAPE.sub(lambda match: _escape(match.group()), text)


def _escaped_value(value: str) -> str:
    escaped = _escaped(value)
    return f"\\{escaped}" if escaped.startswith(" ") else escaped


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    units = character.encode("utf-16-be", errors="surrogatepass").hex().upper()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _logical_lines(text: str) -> Iterator[str]:
    """Yield the lines with a key, joined where a backslash ends them, without leading blanks."""
    pending: list[str] = []
    for natural in _LINE_END.split(text):
        line = natural.lstrip(_BLANKS)
        # A line that continues another is neither comment nor skipped, whatever it begins with.
        if not pending and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending.append(line[:-1])
            continue
        pending.append(line)
        if joined := "".join(pending):
            yield joined
        pending = []
    if joined := "".join(pending):
        yield joined


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    units = _ESCAPE.sub(_unescape, text)
    try:
        return units.encode("utf-16-le", errors="surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError as error:
        raise errors.FormatError(f"property text {text[:80]!r} is not valid UTF-16") from error


def _unescape(match: re.Match[str]) -> str:
    escape = match[1]
    if escape == "u":
        raise errors.FormatError(
            f"property text has {match.string[match.start() : match.start() + 6]!r}, "
            "expected \\u and four hexadecimal digits"
        )
    if escape.startswith("u"):
        return chr(int(escape[1:], 16))
    return _UNESCAPES.get(escape, escape)
