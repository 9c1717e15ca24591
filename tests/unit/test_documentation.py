"""Every block of code in the documentation is executed, or checked for what it is."""

import shlex
import tomllib
from collections import Counter

import pytest
from manual import commands, markdown
from pygments import lexers, token

from hoodie.cli import arguments
from hoodie_operator.api import manifests
from support.documentation import executing, pages

DOCUMENTS = pages.documents()
PROGRAMS = {program.name: program for program in commands.programs()}


def named(found: list[tuple[str, markdown.Block]]) -> list[object]:
    return [pytest.param(block, id=f"{page}:{block.line}") for page, block in found]


def parse(line: str) -> None:
    """Parse a command line of this project by its own parser."""
    program, *typed = shlex.split(line)
    command, *words = arguments.spread(typed)
    parser = commands.parser(program, command)
    parser.make_context(f"{program} {command}", words)


def of_this_project(block: markdown.Block) -> list[str]:
    """Return the commands of this project that are typed in a session."""
    text = block.code.replace("\\\n", " ")
    typed = [line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ ")]
    return [line for line in typed if line.split()[0].removeprefix(".venv/bin/") in PROGRAMS]


@pytest.mark.parametrize("page", DOCUMENTS)
def test_every_block_is_of_a_language_that_says_what_it_is(page: str) -> None:
    known = pages.EXECUTABLE | pages.CHECKED | pages.SHOWN
    text = DOCUMENTS[page]
    assert [each for each in markdown.blocks(text) if each.language not in known] == []
    fences = [line for line in text.splitlines() if line.lstrip().startswith("```")]
    assert len(fences) == 2 * len(markdown.blocks(text)), "a block is indented, or not closed"


@pytest.mark.parametrize("page", DOCUMENTS)
def test_every_block_is_well_formed_for_the_site(page: str) -> None:
    """`make docs` fails for one that cannot be coloured."""
    for block in markdown.blocks(DOCUMENTS[page]):
        tokens = lexers.get_lexer_by_name(block.language).get_tokens(block.code)
        wrong = [text for kind, text in tokens if kind in token.Error]
        assert wrong == [], f"{page}:{block.line}"


def test_every_executable_block_is_executed_by_a_test() -> None:
    languages = pages.EXECUTABLE | {language for _, language in pages.EXECUTED}
    found = Counter(
        (page, language)
        for language in languages
        for page, _ in pages.blocks(language)
        if language in pages.EXECUTABLE or (page, language) in pages.EXECUTED
    )
    executed = {key: sum(tests.values()) for key, tests in pages.EXECUTED.items()}
    assert dict(found) == executed


@pytest.mark.parametrize(("page", "language"), pages.EXECUTED)
def test_test_that_executes_a_page_names_it(page: str, language: str) -> None:
    for test in pages.EXECUTED[page, language]:
        text = (pages.ROOT / "tests" / test).read_text(encoding="utf-8")
        assert page.rpartition("/")[2] in text


MANIFESTS = [each for each in pages.blocks("yaml") if (each[0], "yaml") not in pages.EXECUTED]


@pytest.mark.parametrize("block", named(MANIFESTS))
def test_manifests_fit(block: markdown.Block) -> None:
    found, problems = manifests.parse(block.code.encode(), "a page")
    assert problems == []
    assert found


@pytest.mark.parametrize("block", named(pages.blocks("toml")))
def test_configuration_is_well_formed(block: markdown.Block) -> None:
    assert tomllib.loads(block.code)


@pytest.mark.parametrize("block", named(pages.blocks("console")))
def test_commands_of_a_session_parse(block: markdown.Block) -> None:
    assert "$ " in block.code
    for line in of_this_project(block):
        parse(line)


@pytest.mark.parametrize(
    ("program", "command"),
    [
        (program.name, name)
        for program in PROGRAMS.values()
        for names in program.panels.values()
        for name in names
    ],
)
def test_examples_of_the_help_parse(program: str, command: str) -> None:
    for line in commands.examples(program, command):
        parse(line.partition(" | ")[0])


def test_command_that_does_not_parse_is_found() -> None:
    block = markdown.Block(language="console", code="$ hoodie read --colour red /t\n", line=1)
    (line,) = of_this_project(block)
    with pytest.raises(Exception, match="colour"):
        parse(line)


@pytest.mark.parametrize(
    ("printed", "shown", "is_like"),
    [
        ("a 1 b\n", "a … b\n", True),
        ("a\nb\n", "a\n…\n", True),
        ("a  \n", "a\n", True),
        ("a 1\n", "a 2\n", False),
        ("x a\n", "a\n", False),
    ],
)
def test_what_a_page_shows_is_compared(printed: str, shown: str, is_like: bool) -> None:
    assert executing.is_like(printed, shown) is is_like
