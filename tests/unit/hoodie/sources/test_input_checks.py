"""Input that Arrow's parsers take without a word, or do not survive, is refused before."""

import io
import json
import random

import pytest

from hoodie import errors
from hoodie.sources import input_checks


def is_nested_too_deeply(content: bytes) -> bool:
    try:
        input_checks.check_nesting(lambda: io.BytesIO(content), "in.json")
    except errors.InvalidInputError:
        return True
    return False


def nesting(content: bytes) -> int:
    """Return the greatest depth, byte by byte."""
    depth = greatest = 0
    is_text = is_escaped = False
    for byte in content:
        if is_text:
            is_text = is_escaped or byte != ord('"')
            is_escaped = not is_escaped and byte == ord("\\")
        elif byte == ord('"'):
            is_text = True
        elif byte in b"[{":
            depth += 1
            greatest = max(greatest, depth)
        elif byte in b"]}":
            depth -= 1
    return greatest


@pytest.mark.parametrize("chunk_bytes", [3, 7, 1 << 20])
def test_nesting_is_that_of_brackets_outside_of_texts(
    chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(input_checks, "_CHUNK_BYTES", chunk_bytes)
    monkeypatch.setattr(input_checks, "NESTING_MAX", 3)
    chance = random.Random(1)
    found = set()
    for _ in range(2_000):
        texts = ("".join(chance.choices(["[", "]", '"', "\\", "a", "\n"], k=3)) for _ in range(12))
        parts = [chance.choice(["[", "]", "{", "}", ",", json.dumps(text)]) for text in texts]
        content = "".join(parts).encode()
        is_deep = nesting(content) > 3
        assert is_nested_too_deeply(content) is is_deep, content
        found.add(is_deep)
    assert found == {False, True}


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ('id,a\nk,"v\nl,w\n', 2),
        ('id,a\nk,v"w\n', None),
        ('id,a\nk,"v""w"\n', None),
        ('id,a\nk,"v""\n', 2),
        ('id,a\r\nj,"x\r\ny"\r\nk,v\r\nl,"cut', 5),
        ('id,a\nk,"v"w",x\n', None),
        ('"', 1),
        ("", None),
    ],
)
def test_quotes_that_are_open_at_the_end_are_found(content: str, line: int | None) -> None:
    def check() -> None:
        input_checks.check_quotes(lambda: io.BytesIO(content.encode()), ",", "in.csv")

    if line is None:
        check()
        return
    with pytest.raises(
        errors.InvalidInputError, match=f"^in.csv: .* in line {line} are not closed"
    ):
        check()
