"""Write the CustomResourceDefinitions of all kinds: `python -m hoodie_operator.api.generate`.

The files are committed; a test compares them with what this makes.
"""

import pathlib  # noqa: TID251 - a generator writes files
import sys

import yaml

from hoodie_operator.api import group, kinds, schemas

_HEADER = "# Made by `make generate` from operator/hoodie_operator/api. Do not edit.\n"


def files() -> dict[str, str]:
    """Return the content of each file in crds/ by its name."""
    return {
        f"{group.GROUP}_{kind.plural}.yaml": _HEADER
        + yaml.safe_dump(schemas.definition(kind), sort_keys=False, width=100, allow_unicode=True)
        for kind in kinds.KINDS
    }


def main(arguments: list[str]) -> None:
    """Write the files into a folder, by default `crds` of this repository."""
    root = pathlib.Path(__file__).parents[3]
    folder = pathlib.Path(arguments[0]) if arguments else root / "crds"
    folder.mkdir(parents=True, exist_ok=True)
    made = files()
    for path in folder.glob("*.yaml"):
        if path.name not in made:
            path.unlink()
    for name, content in made.items():
        (folder / name).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
