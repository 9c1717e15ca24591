"""What several commands take and print."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from hoodie import errors
from hoodie_operator.standalone.folder import Folder, FolderState

STATE_VARIABLE = "HUDI_OPERATOR_STATE"
STATE_DEFAULT = Path(".hudi-operator")

OUT = Console(highlight=False)
ERR = Console(stderr=True, highlight=False)

Manifests = Annotated[
    Path, typer.Option("-f", "--filename", help="A folder of manifests, or one file.")
]
State = Annotated[
    Path,
    typer.Option(
        "--state",
        envvar=STATE_VARIABLE,
        help="The operator's state folder.",
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        help="Root of all tables and input, and of relative paths in manifests. Defaults to the "
        "folder of the manifests.",
    ),
]


def declared(folder: Folder, filename: Path) -> FolderState:
    """Return what a folder declares.

    Raises:
        InvalidInputError: It declares nothing at all: it is hardly the folder that was meant.
    """
    state = folder.read()
    if not state.declared and not state.problems:
        raise errors.InvalidInputError(f"{filename} declares no objects, expected YAML manifests")
    return state


def data_root(folder: Folder, data: Path | None) -> Path:
    """Return where relative paths in manifests begin and every table and input lies.

    Raises:
        NotFoundError: There is no such folder.
    """
    root = (data or folder.root).resolve()
    if data is not None and not root.is_dir():
        raise errors.NotFoundError(f"--data {data}: there is no such folder")
    return root
