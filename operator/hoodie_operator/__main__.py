"""The command `hudi-operator`, also `python -m hoodie_operator`.

Exit codes: 0 everything is Ready; 1 something is Stalled; 2 usage; others as `hoodie.errors`: 20
for manifests that do not fit, 22 for what is not there, 23 for a state folder that is owned.
"""

import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any, cast

import typer
from typer import main as typer_main

from hoodie import errors, startup

_COMMANDS = {
    "standalone": "Run the operator here, without a cluster: jobs are processes of this machine.",
    "run": "Run the operator of a cluster: in a pod, or anywhere with a kubeconfig.",
    "observe": "Be an observer: read tables and sources for an operator in a cluster.",
    "lock-server": "Be the ZooKeeper server of a LockProvider with `embedded`, in a pod.",
    "get": "Print objects, the reason for what does not run included.",
    "describe": "Print everything about objects: spec, status, attempts, conditions.",
    "validate": "Check manifests, and do nothing.",
}
"""The summary of each command, which is the function of its name in the module of its name."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command; a reported error is one line and its exit code.

    Args:
        argv: Without the program's name; None takes the process's own, which then is ours.
    """
    given = list(sys.argv[1:] if argv is None else argv)
    if argv is None:
        startup.leave_out_pandas()
    try:
        typer_main.get_command(_app(given)).main(given, prog_name="hudi-operator")
    except errors.HoodieError as error:
        typer.echo(f"hudi-operator: {error}", err=True)
        sys.exit(error.exit_code)


def _app(argv: Sequence[str]) -> typer.Typer:
    """Return the commands, of which the one that is wanted is loaded.

    An observer and a lock server need nothing of what the operator of a cluster imports.
    """
    app = typer.Typer(
        help="Run Apache Hudi tables as they are declared in manifests.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    wanted = next((word for word in argv if not word.startswith("-")), None)
    for name, summary in _COMMANDS.items():
        app.command(name, short_help=summary)(_load(name) if name == wanted else _listed_only)
    return app


def _load(name: str) -> Callable[..., Any]:
    word = name.replace("-", "_")
    module = importlib.import_module(f"hoodie_operator.commands.{word}")
    return cast("Callable[..., Any]", getattr(module, word))


def _listed_only() -> None:
    """Stand for a command that the help lists."""
    raise AssertionError("the command that is wanted is loaded")


if __name__ == "__main__":
    main()
