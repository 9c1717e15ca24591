"""Reference of the Python library: what a user is meant to call, from signatures and docstrings.

The source is parsed, not imported: the pages show annotations and defaults as they are written.
"""

import ast
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from manual import markdown

_SECTIONS = ("Args", "Returns", "Raises", "Attributes", "Yields")
_ENTRY = re.compile(r"^(?P<name>\*{0,2}[\w.]+): (?P<text>.*)$", re.DOTALL)
_OURS = re.compile(r"\b(?!(?:pa|pc|pd|np|pl)\.)[a-z_][a-z_0-9]*\.(?=[A-Z])")
_ARROW = {"pa.": "pyarrow.", "pc.": "pyarrow.compute."}

Definition = ast.FunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A function or a class that the reference shows.

    Attributes:
        module: The file that defines it, below the repository's root.
        name: What it is called there.
        shown: What it is called on the page: as it is imported, or as it is got hold of.
        members: Of a class, those that are shown, in this order; None for all that are public.
        bases: Files and names of classes whose members are looked for, too.
    """

    module: str
    name: str
    shown: str
    members: tuple[str, ...] | None = None
    bases: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of the reference.

    Attributes:
        title: Its heading.
        about: Sentences below that.
        sections: What it shows, by heading.
    """

    title: str
    about: str
    sections: Mapping[str, tuple[Shown, ...]] = field(default_factory=dict)


_DOOR = "core/hoodie/door"
_FRONT = (f"{_DOOR}/front.py", "Front")

TABLE = Shown(
    module="core/hoodie/table.py",
    name="Table",
    shown="hoodie.Table",
    members=(
        "uri", "scan", "dataset",
        "upsert", "insert", "delete", "update", "overwrite", "transaction",
        "changes", "change_data", "history", "position",
        "consumers", "consumer_position", "remove_consumer",
        "inspect", "maintain", "refresh",
    ),
    bases=(_FRONT,),
)  # fmt: skip

PAGES: Mapping[str, Page] = {
    "python": Page(
        title="Python API",
        about="What `import hoodie` has for its users; everything else may change with any "
        "release. [The guide](../python.md) shows how the parts are used together.",
        sections={
            "Open and create": (
                Shown(
                    module="core/hoodie/opening.py", name="open_table", shown="hoodie.open_table"
                ),
                Shown(
                    module="core/hoodie/opening.py",
                    name="create_table",
                    shown="hoodie.create_table",
                ),
            ),
            "Table": (TABLE,),
            "Read": (
                Shown(
                    module=f"{_DOOR}/scans.py",
                    name="Scan",
                    shown="Scan",
                    members=(
                        "schema",
                        "count",
                        "to_arrow",
                        "to_batches",
                        "to_pandas",
                        "to_polars",
                        "to_duckdb",
                        "dataset",
                        "explain",
                    ),
                ),
                Shown(module=f"{_DOOR}/scans.py", name="Explanation", shown="Explanation"),
            ),
            "Changes": (
                Shown(
                    module="core/hoodie/read/changes.py",
                    name="Changes",
                    shown="Changes",
                    members=("read", "parts"),
                ),
                Shown(
                    module="core/hoodie/read/change_data.py",
                    name="ChangeData",
                    shown="ChangeData",
                    members=("read",),
                ),
                Shown(
                    module="core/hoodie/read/history.py",
                    name="History",
                    shown="History",
                    members=("read",),
                ),
            ),
            "Write": (
                Shown(module=f"{_DOOR}/outcomes.py", name="Written", shown="Written", members=()),
                Shown(module=f"{_DOOR}/transactions.py", name="Transaction", shown="Transaction"),
            ),
            "Look inside": (
                Shown(module=f"{_DOOR}/inspecting.py", name="Inspection", shown="Table.inspect"),
            ),
            "Maintain": (
                Shown(module=f"{_DOOR}/maintaining.py", name="Maintenance", shown="Table.maintain"),
                Shown(
                    module=f"{_DOOR}/maintaining.py",
                    name="Maintained",
                    shown="Maintained",
                    members=(),
                ),
            ),
        },
    ),
    "spark": Page(
        title="PySpark API",
        about="`hoodie_jobs.spark.tables`: tables, and what changed in them, as DataFrames. "
        "[Reading tables with Spark](../spark-readers.md) has the data source, its options "
        "and SQL.",
        sections={
            "Functions": tuple(
                Shown(
                    module="jobs/hoodie_jobs/spark/tables.py",
                    name=each,
                    shown=f"hoodie_jobs.spark.tables.{each}",
                )
                for each in ("read", "changes", "change_data")
            ),
            "Results": (
                Shown(
                    module="jobs/hoodie_jobs/spark/tables.py",
                    name="Changes",
                    shown="tables.Changes",
                ),
            ),
        },
    ),
}
ERRORS = "core/hoodie/errors.py"


def modules() -> list[str]:
    """Return the files that the pages need, below the repository's root."""
    found = {ERRORS: None}
    for page_ in PAGES.values():
        for each in (shown for group in page_.sections.values() for shown in group):
            found[each.module] = None
            found.update(dict.fromkeys(module for module, _ in each.bases))
    return list(found)


def page(wanted: Page, sources: Mapping[str, str]) -> str:
    """Return a page.

    Args:
        wanted: Which.
        sources: The text of each of `modules`.

    Raises:
        KeyError: A module or a member is not there, or has no docstring.
    """
    parts = [f"# {wanted.title}\n", f"{wanted.about}\n"]
    for heading, group in wanted.sections.items():
        parts.append(f"## {heading}\n")
        parts += [_shown(each, sources) for each in group]
    return "\n".join(parts)


def errors_page(sources: Mapping[str, str]) -> str:
    """Return the page of all errors, a tree by what to do."""
    classes = [each for each in ast.parse(sources[ERRORS]).body if isinstance(each, ast.ClassDef)]
    rows = []
    for each in classes:
        told = _docstring(each, ERRORS).partition("\n\n")[0]
        code = _constant(each, "exit_code")
        parent = next((base.id for base in each.bases if isinstance(base, ast.Name)), "")
        rows.append((f"`{each.name}`", markdown.prose(told), f"`{parent}`", code))
    return (
        "# Errors\n\nEach error is a `hoodie.HoodieError`, of one of the classes of `hoodie.errors`"
        ". `kind` is a stable name for programs, and `is_transient` says whether the same call may "
        "succeed later. The command line exits with the code of the class.\n\n"
        + markdown.table(("class", "meaning", "is a", "exit code"), rows)
    )


def members_of(text: str, name: str) -> dict[str, ast.FunctionDef]:
    """Return the public methods and properties of a class, by name."""
    return {
        each.name: each
        for each in _definition(text, name).body
        if isinstance(each, ast.FunctionDef) and not each.name.startswith("_")
    }


def is_abstract(function: ast.FunctionDef) -> bool:
    """Whether a method is declared only."""
    return any(ast.unparse(each).endswith("abstractmethod") for each in function.decorator_list)


def _shown(wanted: Shown, sources: Mapping[str, str]) -> str:
    definition = _definition(sources[wanted.module], wanted.name)
    if isinstance(definition, ast.FunctionDef):
        signature = _signature(wanted.shown, definition)
        for alias, choices in _choices(sources[wanted.module]).items():
            signature = re.sub(rf"\b{alias}\b", choices, signature)
        return _directive("py:function", signature, _body(definition))
    body = [*_body(definition)]
    found = members_of(sources[wanted.module], wanted.name)
    for module, base in wanted.bases:
        found |= {
            name: each
            for name, each in members_of(sources[module], base).items()
            if name not in found or is_abstract(found[name])
        }
    for name in found if wanted.members is None else wanted.members:
        body += ["", *_member(found[name])]
    return _directive("py:class", wanted.shown, body, fence="`" * 4)


def _member(function: ast.FunctionDef) -> list[str]:
    decorators = {ast.unparse(each) for each in function.decorator_list}
    if "property" in decorators:
        returned = _annotation(function.returns)
        lines = [f"```{{py:property}} {function.name}"]
        lines += [f":type: {returned}", ""] if returned else [""]
        return [*lines, *_body(function), "```"]
    text = _directive("py:method", _signature(function.name, function), _body(function))
    return text.rstrip("\n").split("\n")


def _directive(kind: str, head: str, body: Sequence[str], fence: str = "```") -> str:
    return "\n".join((f"{fence}{{{kind}}} {head}", "", *body, fence, ""))


def _signature(name: str, function: ast.FunctionDef) -> str:
    arguments = function.args
    for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        if each.annotation is not None:
            each.annotation = ast.Name(_annotation(each.annotation))
    for special in filter(None, (arguments.vararg, arguments.kwarg)):
        if special.annotation is not None:
            special.annotation = ast.Name(_annotation(special.annotation))
    if arguments.args and arguments.args[0].arg == "self":
        arguments = ast.arguments(
            posonlyargs=[],
            args=arguments.args[1:],
            vararg=arguments.vararg,
            kwonlyargs=arguments.kwonlyargs,
            kw_defaults=arguments.kw_defaults,
            kwarg=arguments.kwarg,
            defaults=arguments.defaults,
        )
    returned = _annotation(function.returns)
    return f"{name}({ast.unparse(arguments)})" + (f" -> {returned}" if returned else "")


def _annotation(node: ast.expr | None) -> str:
    """Return a type as readers know it: ours by the name of the class alone."""
    if node is None:
        return ""
    text = ast.unparse(node).strip("'\"")
    text = _OURS.sub("", text)
    for short, whole in _ARROW.items():
        text = re.sub(rf"\b{re.escape(short)}", whole, text)
    return text


def _body(definition: Definition) -> list[str]:
    """Return a docstring as Markdown: prose, blocks of code, and lists of fields."""
    told = _docstring(definition, definition.name)
    parts = re.split(rf"^({'|'.join(_SECTIONS)}):\n", told, flags=re.MULTILINE)
    lines = list(_prose(parts[0]))
    for heading, text in zip(parts[1::2], parts[2::2], strict=True):
        lines += ["", *_fields(heading, textwrap.dedent(text).strip())]
    return lines


def _prose(text: str) -> Iterator[str]:
    for paragraph in text.strip().split("\n\n"):
        if paragraph.startswith("    "):
            yield from ("~~~python", *(line[4:] for line in paragraph.splitlines()), "~~~", "")
        else:
            yield from (*map(markdown.prose, paragraph.splitlines()), "")


def _fields(heading: str, text: str) -> Iterator[str]:
    if heading in ("Returns", "Yields"):
        yield f":returns: {markdown.prose(' '.join(text.split()))}"
        return
    kind = {"Args": "param", "Raises": "raises", "Attributes": "ivar"}[heading]
    for entry in re.split(r"\n(?! )", text):
        found = _ENTRY.match(" ".join(entry.split()))
        if found is None:
            raise KeyError(f"{heading}: {entry!r} has no name")
        name = found["name"].replace("*", r"\*")
        yield f":{kind} {name}: {markdown.prose(found['text'])}"


def _definition(text: str, name: str) -> Definition:
    for each in ast.parse(text).body:
        if isinstance(each, Definition) and each.name == name:
            return each
    raise KeyError(name)


def _choices(text: str) -> dict[str, str]:
    """Return the names that a module gives to lists of literals, and these."""
    return {
        each.targets[0].id: ast.unparse(each.value)
        for each in ast.parse(text).body
        if isinstance(each, ast.Assign)
        and isinstance(each.targets[0], ast.Name)
        and ast.unparse(each.value).startswith("Literal[")
    }


def _docstring(definition: Definition, where: str) -> str:
    found = ast.get_docstring(definition)
    if not found:
        raise KeyError(f"{where}: {definition.name} has no docstring")
    return found


def _constant(definition: ast.ClassDef, name: str) -> str:
    for each in definition.body:
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == name:
            return ast.unparse(each.value)
    return ""
