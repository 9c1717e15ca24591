"""The scenarios that the sources tell, as dialogues with a table that a person can read.

`REWRITE_EXPECTED=1 pytest tests/dialogues` writes the answers of today into the files, so that
the difference can be reviewed.
"""

import os
from pathlib import Path

import pytest

from support.simulation import dialogue_files
from support.simulation.dialogue_world import DialogueWorld

FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_dialogue(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    answered = dialogue_files.rewrite(text, DialogueWorld(path.stem).answer)
    if os.environ.get("REWRITE_EXPECTED"):
        path.write_text(answered, encoding="utf-8")
    else:
        assert answered == text


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_dialogue_begins_with_its_source(path: Path) -> None:
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("# Source: ")


def test_wrong_answer_is_found() -> None:
    text = "create columns=a\n----\nsomething else\n"
    answered = dialogue_files.rewrite(text, DialogueWorld("wrong").answer)
    assert answered == "create columns=a\n----\nok\n"


def test_comments_input_and_what_follows_stay_as_they_are() -> None:
    text = "# Why.\n\nt1 say w1 a=b  # now\nx\ny\n----\nold\n\n# More.\n\nsay\n----\n\n# The end.\n"
    seen = []

    def answer(command: dialogue_files.Command) -> list[str]:
        seen.append(command)
        return ["new"]

    assert dialogue_files.rewrite(text, answer) == text.replace("old\n", "new\n").replace(
        "say\n----\n", "say\n----\nnew\n"
    )
    first, _ = seen
    assert first == dialogue_files.Command(
        line=3, time="t1", name="say", arguments=("w1",), options={"a": "b"}, input=("x", "y")
    )


def test_command_without_separator_is_refused() -> None:
    with pytest.raises(AssertionError, match="no ---- follows 'read'"):
        dialogue_files.parse("timeline\n----\n\nread\n")
