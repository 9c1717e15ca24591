"""Which test executes the code of which page of the documentation.

A block of an executable language is in this table, or `tests/unit/test_documentation.py` fails.
"""

from collections.abc import Mapping
from pathlib import Path

from manual import markdown

ROOT = Path(__file__).parents[3]

EXECUTABLE = frozenset({"bash", "jinja", "python", "sh", "sql"})
"""Languages whose blocks a test executes."""

CHECKED = frozenset({"console", "toml", "yaml"})
"""Languages whose blocks are checked without being executed.

`console` is a session that needs a cluster, or a table of another engine: the commands of this
project in it are parsed. `yaml` are manifests, which are validated as they are before `apply`, but
where a test gives them to another program.
"""

SHOWN = frozenset({"text"})
"""Languages of what is printed, or drawn."""

_PAGES = "integration/test_pages.py"

EXECUTED: Mapping[tuple[str, str], Mapping[str, int]] = {
    ("README.md", "bash"): {"cli/test_readme.py": 1},
    ("README.md", "sh"): {"standalone/test_readme.py": 1},
    ("README.md", "python"): {"unit/test_python_page.py": 1, "jobs/test_readme.py": 2},
    ("docs/python.md", "python"): {"unit/test_python_page.py": 10},
    ("docs/engines.md", "python"): {"engines/test_engines_page.py": 5},
    ("docs/engines.md", "jinja"): {"engines/test_engines_page.py": 1},
    ("docs/engines.md", "yaml"): {"engines/test_engines_page.py": 2},
    ("docs/spark-dataframes.md", "python"): {"jobs/test_dataframes_page.py": 4},
    ("docs/mirror.md", "python"): {"unit/test_python_page.py": 5},
    ("docs/mirror.md", "sql"): {"conformance/test_mirrors.py": 1},
    ("docs/spark-readers.md", "python"): {"jobs/test_readers_page.py": 7},
    ("docs/spark-readers.md", "sql"): {"jobs/test_readers_page.py": 1},
    ("docs/adopt.md", "bash"): {_PAGES: 4},
    ("docs/changes.md", "bash"): {_PAGES: 2},
    ("docs/changes.md", "python"): {_PAGES: 3},
    ("docs/recover.md", "bash"): {_PAGES: 5},
    ("docs/recover.md", "python"): {_PAGES: 2},
    ("docs/site/index.md", "python"): {_PAGES: 1},
}
"""By page and language, the tests that execute the blocks, each with how many."""


def documents() -> dict[str, str]:
    """Return the text of each page, by its path in the repository."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")]
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in sorted(found)}


def blocks(language: str) -> list[tuple[str, markdown.Block]]:
    """Return the blocks of a language, each with its page."""
    return [
        (page, block)
        for page, text in documents().items()
        for block in markdown.blocks(text)
        if block.language == language
    ]
