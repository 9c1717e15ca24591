"""The site as a value: which pages it has, where they come from, and how they are grouped.

Pages are those of the repository, at the places where the site has them, and generated ones. Links
between pages of the repository lead to the places in the site; a link to anything else of the
repository is shown as a name, since the site has no such file.
"""

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from manual import commands, kinds, library, markdown, notebooks

Read = Callable[[str], str]
"""Returns the text of a file of the repository, by its path there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group of the navigation: its heading, and its pages by their places in the site."""

    heading: str
    pages: Sequence[str]


KINDS = (
    "HudiTable",
    "Writer",
    "CompactionPolicy",
    "RetentionPolicy",
    "IndexRequest",
    "Savepoint",
    "TableAction",
    "LockProvider",
)
TUTORIAL = "docs/tutorial.ipynb"

COPIED: Mapping[str, str] = {
    "docs/site/index.md": "index.md",
    "README.md": "overview.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    **{
        f"docs/{name}.md": f"{name}.md"
        for name in (
            "python", "adopt", "indexes", "changes", "spark-readers", "spark-writers", "locks",
            "kubernetes", "operator", "recover", "settings", "reasons", "limits", "glossary",
            "guarantees", "compatibility", "architecture", "protocol", "format", "simulation",
            "tests", "plan", "mirror", "engines", "spark-dataframes",
        )
    },
    "docs/upstream/README.md": "upstream.md",
}  # fmt: skip
"""Places in the site of pages of the repository; those of `FOLDERS` besides."""

FOLDERS: Mapping[str, str] = {"docs/adr": "adr", "benchmarks": "benchmarks"}
"""Folders in the site of folders of the repository, all of whose pages are shown."""

_BENCHMARKS = (
    "The pages that `make bench`, `make bench-large` and `make bench-commits` write: the same work "
    "here and on Apache Hudi, on one machine in one run."
)
_DECISIONS = "What was costly to decide, and would be costly to undo: each with what was rejected."

_REFERENCE = ("reference/python.md", "reference/errors.md", "reference/spark.md")
_COMMANDS = tuple(f"reference/{each}.md" for each in ("hoodie", "hudi-operator"))

SHORT: Mapping[str, str] = {
    "overview.md": "Overview",
    "plan.md": "Plan",
    "upstream.md": "Findings in Apache Hudi",
    "reference/hoodie.md": "Command hoodie",
    "reference/hudi-operator.md": "Command hudi-operator",
}
"""Names of pages in the navigation, where a page's heading is too long or says too little."""

NAVIGATION = (
    Group(heading="Start", pages=("tutorial.md", "python.md", "overview.md")),
    Group(
        heading="How to",
        pages=(
            "adopt.md",
            "indexes.md",
            "changes.md",
            "mirror.md",
            "spark-readers.md",
            "spark-writers.md",
            "spark-dataframes.md",
            "engines.md",
            "locks.md",
            "operator.md",
            "kubernetes.md",
            "recover.md",
        ),
    ),
    Group(
        heading="Reference",
        pages=(
            *_REFERENCE,
            *_COMMANDS,
            "reference/kinds.md",
            "settings.md",
            "reasons.md",
            "guarantees.md",
            "compatibility.md",
            "limits.md",
            "glossary.md",
        ),
    ),
    Group(
        heading="How it works",
        pages=("architecture.md", "protocol.md", "format.md", "benchmarks/index.md"),
    ),
    Group(
        heading="Development",
        pages=(
            "contributing.md",
            "tests.md",
            "simulation.md",
            "upstream.md",
            "adr/index.md",
            "plan.md",
            "changelog.md",
        ),
    ),
)


def sources(files: Sequence[str]) -> dict[str, str]:
    """Return the place in the site of each page of the repository.

    Args:
        files: Of the repository, by their paths there.
    """
    found = {path: place for path, place in COPIED.items() if path in files}
    for folder, place in FOLDERS.items():
        for path in files:
            if path.startswith(f"{folder}/") and path.endswith(".md"):
                found[path] = f"{place}/{posixpath.basename(path).lower()}"
    return found


def site(files: Sequence[str], read: Read) -> dict[str, str]:
    """Return the text of each page of the site, by its place.

    Args:
        files: Of the repository, by their paths there.
        read: Returns the text of one.
    """
    copied = sources(files)
    found = {place: moved(read(path), path, copied, files) for path, place in copied.items()}
    found["tutorial.md"] = moved(
        notebooks.page(notebooks.read(read(TUTORIAL))), TUTORIAL, copied, files
    )
    found |= _generated(read)
    for place, title, about in (
        ("adr", "Decisions", _DECISIONS),
        ("benchmarks", "Benchmarks", _BENCHMARKS),
    ):
        pages = sorted(each for each in found if each.startswith(f"{place}/"))
        found[f"{place}/index.md"] = f"# {title}\n\n{about}\n\n{_contents(place, pages)}"
    found["reference/kinds.md"] += "\n" + _contents(
        "reference", [f"reference/{name.lower()}.md" for name in KINDS], is_hidden=True
    )
    found["index.md"] += "\n" + "\n".join(_trees())
    return found


def moved(text: str, path: str, copied: Mapping[str, str], files: Sequence[str]) -> str:
    """Return a page of the repository as the site has it: its links lead to places in the site.

    Args:
        text: Of the page.
        path: Where it is in the repository.
        copied: As of `sources`.
        files: Of the repository.

    Raises:
        ValueError: A link leads to nothing in the repository.
    """
    here = posixpath.dirname(place_of(path, copied))
    renamed: dict[str, str] = {}
    for target in markdown.links(text):
        file, _, anchor = target.partition("#")
        if not file or is_outside(target):
            continue
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(path), file))
        place = place_of(wanted, copied)
        if place == wanted and wanted not in files:
            raise ValueError(f"{path} links to {target}, which is not in the repository")
        if place != wanted:
            found = posixpath.relpath(place, here or ".")
            renamed[target] = f"{found}#{anchor}" if anchor else found
    return markdown.with_links(text, renamed)


def place_of(path: str, copied: Mapping[str, str]) -> str:
    """Return the place in the site of a file or a folder of the repository; itself if none."""
    if path in FOLDERS:
        return f"{FOLDERS[path]}/index.md"
    if path == TUTORIAL:
        return "tutorial.md"
    return copied.get(path, path)


def is_outside(target: str) -> bool:
    """Whether a link leads out of the repository."""
    return "://" in target or target.startswith("mailto:")


def _generated(read: Read) -> Iterator[tuple[str, str]]:
    modules = {path: read(path) for path in library.modules()}
    for name, page in library.PAGES.items():
        yield f"reference/{name}.md", library.page(page, modules)
    yield "reference/errors.md", library.errors_page(modules)
    for program in commands.programs():
        yield f"reference/{program.name}.md", commands.page(program)
    definitions = [kinds.read(read(f"crds/hudi.dev_{_plural(name)}.yaml")) for name in KINDS]
    yield "reference/kinds.md", kinds.overview(definitions)
    for name, definition in zip(KINDS, definitions, strict=True):
        yield f"reference/{name.lower()}.md", kinds.page(definition)


def _plural(kind: str) -> str:
    name = kind.lower()
    return f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"


def _contents(folder: str, pages: Sequence[str], *, is_hidden: bool = False) -> str:
    inside = "\n".join(posixpath.relpath(each, folder).removesuffix(".md") for each in pages)
    options = ":hidden:\n" if is_hidden else ":maxdepth: 1\n"
    return f"```{{toctree}}\n{options}\n{inside}\n```\n"


def _entry(place: str) -> str:
    name = place.removesuffix(".md")
    return f"{SHORT[place]} <{name}>" if place in SHORT else name


def _trees() -> Iterator[str]:
    for group in NAVIGATION:
        inside = "\n".join(map(_entry, group.pages))
        yield f"```{{toctree}}\n:hidden:\n:caption: {group.heading}\n\n{inside}\n```\n"
