r"""Java's regular expressions: those that are taken find what Java's find, others are refused.

What is found was compared with `java.util.regex` of Java 17.
"""

import pytest

from hoodie import errors
from hoodie.format import java_patterns

FOUND = [
    (r"^2024-\d{2}$", "2024-11", True),
    (r"^2024-\d{2}$", "2024-1", False),
    (r"\d", "٣", False),  # An Arabic digit: classes are ASCII's.
    (r"\w", "é", False),
    (r"\s", "\u00a0", False),
    (r"a.c", "a\u0085c", False),
    (r"a.c", "a\u2028c", False),
    (r"a.c", "a\U0001f600c", True),
    (r"c$", "abc\r\n", True),
    (r"c$", "abc\u2028", True),
    ("c\r$", "abc\r\n", False),
    (r"c$", "abc\n\n", False),
    (r"(?:north|south)/[a-f]+?", "x/south/abc", True),
    (r"[^/]+/11", "/11", False),
    (r"a|b*", "", True),
    (r"\.", ".", True),
    (r"\/x\-y", "/x-y", True),
    (r"[\w.-]{3}", "a-.", True),
    (r"city=(a|b)+", "city=ab", True),
]


@pytest.mark.parametrize(("pattern", "text", "is_found"), FOUND)
def test_pattern_finds_what_java_finds(pattern: str, text: str, *, is_found: bool) -> None:
    assert (java_patterns.compiled(pattern).search(text) is not None) is is_found


@pytest.mark.parametrize(
    "pattern",
    [
        r"\p{Lower}",
        r"(?i)north",
        r"(?=a)",
        r"(?<name>a)",
        r"a++",
        r"a{2}+",
        r"\Qa\E",
        r"\b",
        r"\x41",
        r"\1",
        r"[a&&b]",
        r"[[a]b]",
        r"[]a]",
        r"[^]a]",
        r"[a--b]",
        r"a{,3}",
        r"a\\"[:-1],
        r"}",
        r"[a",
    ],
)
def test_what_may_mean_something_else_is_refused(pattern: str) -> None:
    with pytest.raises(errors.UnsupportedError, match="expected one of texts, dots"):
        java_patterns.compiled(pattern)


@pytest.mark.parametrize("pattern", ["(a", "a)", "*a", "[b-a]"])
def test_what_is_no_regular_expression_is_refused(pattern: str) -> None:
    with pytest.raises(errors.FormatError, match="not a regular expression"):
        java_patterns.compiled(pattern)
