"""The documentation site, before it becomes HTML: its pages, their links, and what is generated."""

import re
from pathlib import Path

import pytest
from manual import commands, kinds, library, markdown, notebooks, pages

from support.documentation import pages as documents

ROOT = documents.ROOT
FILES = [
    str(path.relative_to(ROOT))
    for top in ("*", "docs/**/*", "benchmarks/*", "examples/**/*", "charts/**/*", "crds/*")
    for path in ROOT.glob(top)
]
STATIC = sorted((ROOT / "docs" / "site" / "_static").iterdir())


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def site() -> dict[str, str]:
    return pages.site(FILES, read)


DEFINITIONS = [kinds.read(path.read_text()) for path in sorted((ROOT / "crds").glob("*.yaml"))]
NAMES = [each["spec"]["names"]["kind"] for each in DEFINITIONS]


def schema_of(definition: kinds.Schema) -> kinds.Schema:
    (version,) = definition["spec"]["versions"]
    found: kinds.Schema = version["schema"]["openAPIV3Schema"]
    return found


def test_every_page_is_reached_from_the_navigation(site: dict[str, str]) -> None:
    reached: set[str] = set()
    waiting = ["index.md"]
    while waiting:
        place = waiting.pop()
        if place in reached:
            continue
        assert place in site, "the navigation has a page that is not there"
        reached.add(place)
        for tree in re.findall(
            r"^```\{toctree\}\n(.*?)^```", site[place], re.MULTILINE | re.DOTALL
        ):
            inside = [line for line in tree.splitlines() if line and not line.startswith(":")]
            folder = Path(place).parent
            named = [each.partition("<")[2].removesuffix(">") or each for each in inside]
            waiting += [str(folder / f"{each}.md") for each in named]
    assert reached == site.keys()


def test_every_link_leads_to_a_page_and_a_heading(site: dict[str, str]) -> None:
    wrong = []
    for place, text in site.items():
        for target in markdown.links(text):
            if pages.is_outside(target):
                continue
            file, _, anchor = target.partition("#")
            wanted = str((ROOT / place).parent.joinpath(file).resolve().relative_to(ROOT))
            found = site.get(wanted if file else place)
            if found is None or (anchor and anchor not in markdown.anchors(found)):
                wrong.append(f"{place}: {target}")
    assert wrong == []


def test_page_that_is_linked_and_not_in_the_repository_is_refused() -> None:
    with pytest.raises(ValueError, match=r"docs/a\.md links to b\.md, which is not"):
        pages.moved("[b](b.md)", "docs/a.md", {}, [])


@pytest.mark.parametrize("path", STATIC, ids=lambda path: str(path.name))
def test_nothing_is_fetched_from_outside(path: Path) -> None:
    assert not re.search(r"https?://|@import", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("program", commands.programs(), ids=lambda program: str(program.name))
def test_reference_has_every_option_of_every_command(program: commands.Program) -> None:
    page = commands.page(program)
    for name in (each for names in program.panels.values() for each in names):
        section = page.partition(f"\n## {program.name} {name}\n")[2].partition("\n## ")[0]
        for parameter in commands.parser(program.name, name).params:
            for option in (each for each in parameter.opts if each.startswith("--")):
                assert re.search(rf"^\| `[^`]*{option}\b", section, re.MULTILINE), (name, option)


def test_options_within_sentences_are_code_and_examples_are_blocks() -> None:
    (tables, _) = commands.programs()
    page = commands.page(tables)
    assert "`--explain` shows how many partitions" in page
    assert "```bash\nhoodie read /data/trips --output trips.parquet\n" in page
    assert 'name [ "not" ] "in"' in page.partition("grammar of")[2]


def test_every_kind_has_a_page() -> None:
    assert sorted(pages.KINDS) == sorted(NAMES)


@pytest.mark.parametrize("definition", DEFINITIONS, ids=NAMES)
def test_page_of_a_kind_has_all_that_its_schema_says(definition: kinds.Schema) -> None:
    schema = schema_of(definition)
    assert kinds.unknown(schema) == set()
    page = kinds.page(definition)
    for field in kinds.fields_of(schema):
        name = field.path.rpartition(".")[2]
        assert re.search(
            rf"`[^`]*{re.escape(name)}`|### .*{re.escape(name)}$", page, re.MULTILINE
        ), name
        if field.meaning:
            assert markdown.cell(markdown.prose(field.meaning)) in page.replace("\n", " ")


@pytest.mark.parametrize("definition", DEFINITIONS, ids=NAMES)
def test_every_field_of_a_spec_says_what_it_means(definition: kinds.Schema) -> None:
    silent = [
        each.path
        for each in kinds.fields_of(schema_of(definition))
        if each.path.startswith("spec.") and not each.meaning
    ]
    assert silent == []


def test_field_has_type_default_and_rules() -> None:
    schema = {
        "properties": {
            "spec": {
                "required": ["size"],
                "properties": {
                    "size": {
                        "type": "integer",
                        "minimum": 1,
                        "default": 8,
                        "x-kubernetes-validations": [{"rule": "x", "message": "is not 7"}],
                    },
                    "names": {"type": "array", "items": {"type": "string", "maxLength": 3}},
                },
            }
        }
    }
    size, names = kinds.fields_of(schema)
    assert (size.path, size.kind, size.default) == ("spec.size", "integer", "8")
    assert (size.rules, size.is_required) == (("at least 1", "is not 7"), True)
    assert (names.kind, names.default) == ("list of text", None)
    assert names.rules == ("each item: at most 3 characters",)


def test_reference_of_the_library_has_every_method_for_people() -> None:
    methods = library.members_of(read("core/hoodie/door/front.py"), "Front")
    public = {name for name, each in methods.items() if not library.is_abstract(each)}
    assert library.TABLE.members is not None
    assert public <= set(library.TABLE.members)


def test_signature_has_names_of_types_and_choices() -> None:
    modules = {path: read(path) for path in library.modules()}
    page = library.page(library.PAGES["python"], modules)
    assert "table_type: Literal['mor', 'cow']='mor'" in page
    assert "as_of: AsOf | str | datetime | None=None" in page
    assert "-> pyarrow.Table" in page
    assert ":raises WriteConflictError: Another writer" in page


def test_notebook_is_read_as_it_is_written() -> None:
    text = read(pages.TUTORIAL)
    assert notebooks.written(notebooks.read(text)) == text


def test_output_of_an_error_is_refused() -> None:
    cell = '{"id": "a", "cell_type": "code", "source": [], "outputs": [{"output_type": "error"}]}'
    with pytest.raises(ValueError, match="cell a has an output of type error"):
        notebooks.read(f'{{"cells": [{cell}]}}')


def test_links_inside_of_code_stay() -> None:
    text = "[a](x.md) `[b](x.md)`\n\n```text\n[c](x.md)\n```\n"
    assert markdown.links(text) == ["x.md"]
    assert markdown.with_links(text, {"x.md": "y.md"}) == text.replace("[a](x", "[a](y")


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("Change of operator or Lease", "change-of-operator-or-lease"),
        ("DuckDB, Polars, DataFusion", "duckdb-polars-datafusion"),
        ("`a_b` and [c](d.md)", "a_b-and-c"),
    ],
)
def test_anchor_is_that_of_github(heading: str, anchor: str) -> None:
    assert markdown.anchor(heading) == anchor
