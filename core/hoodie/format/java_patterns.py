r"""Regular expressions of Java, as far as Python's mean the same.

    taken      texts, dots, classes of characters and ranges, groups, alternatives, repetitions
               (greedy and lazy), ^ and $, and \d \w \s and their negations, which are ASCII's
    otherwise  `$` also matches before a last \r, \r\n and Unicode's line ends, which a dot does
               not match
    refused    whatever else: a pattern that is taken for another one finds other texts

Source: `java.util.regex.Pattern` (Java 17), without flags.
"""

import functools
import re

from hoodie import errors

_LINE_ENDS = "\\n\\r\\u0085\\u2028\\u2029"
_DOT = f"[^{_LINE_ENDS}]"
_END = "(?=(?:\\r\\n|(?<!\\r)\\n|[\\r\\u0085\\u2028\\u2029])?\\Z)"

_CLASS_ESCAPES = r"\\(?:[dDwWsS]|[^A-Za-z0-9])"
_TOKENS = re.compile(
    rf"""
    (?P<escape> {_CLASS_ESCAPES} )
    | (?P<group> \((?:\?:)?(?!\?) | \) )
    | (?P<class> \[\^?(?!\]) (?: {_CLASS_ESCAPES} | (?!&&|--|\|\||~~)[^\\\[\]] )+ \] )
    | (?P<repetition> (?: [*+?] | \{{\d+(?:,\d*)?\}} ) \?? (?![+*?{{]) )
    | (?P<dot> \. )
    | (?P<end> \$ )
    | (?P<plain> [|^] | [^\\()\[\]{{}}*+?.$|^] )
    """,
    re.VERBOSE | re.ASCII,
)


@functools.lru_cache(maxsize=1024)
def compiled(pattern: str) -> re.Pattern[str]:
    """Return a pattern that finds what Java's finds.

    Raises:
        UnsupportedError: It has parts that Python's expressions lack, or take for other ones.
        FormatError: It is no regular expression.
    """
    translated = []
    place = 0
    while place < len(pattern):
        token = _TOKENS.match(pattern, place)
        if token is None:
            raise errors.UnsupportedError(
                f"regular expression {pattern!r:.200} has {pattern[place:][:10]!r} at character "
                f"{place + 1}, expected one of texts, dots, classes, groups, alternatives, "
                "repetitions, ^, $, \\d, \\w and \\s"
            )
        match token.lastgroup:
            case "dot":
                translated.append(_DOT)
            case "end":
                translated.append(_END)
            case _:
                translated.append(token.group())
        place = token.end()
    try:
        return re.compile("".join(translated), re.ASCII)
    except re.error as error:
        raise errors.FormatError(
            f"{pattern!r:.200} is not a regular expression: {error}"
        ) from error
