"""The command `hudi-operator`, also `python -m hoodie_operator`.

Exit codes: 0 everything is Ready; 1 something is Stalled; 2 usage; others as `hoodie.errors`: 20
for manifests that do not fit, 22 for what is not there, 23 for a state folder that is owned, 24
for an installation without what the operator needs.
"""

import importlib
import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any, cast

import typer
from typer import core

from hoodie import errors, startup
from hoodie.cli import command, failures

NAME = "hudi-operator"
_OURS = frozenset({"hoodie", "hoodie_jobs", "hoodie_operator"})
COMMANDS = {
    "standalone": "Run the operator without a cluster: jobs are processes of this machine.",
    "run": "Run the operator of a cluster: in a pod, or with a kubeconfig.",
    "observe": "Run an observer: read tables and sources for an operator in a cluster.",
    "lock-server": "Run the ZooKeeper server of a LockProvider with `embedded`, in a pod.",
    "get": "Print objects, with the reason of everything that does not run.",
    "describe": "Print the details of objects: spec, status, attempts, conditions.",
    "logs": "Print the log of the newest attempt.",
    "retry": "Ask for another attempt of what has failed, or for a sooner one.",
    "init": "Print manifests of a table for files of rows, and of a Writer that writes them.",
    "validate": "Validate manifests without changes.",
    "diff": "Print what manifests would change, and change nothing.",
    "schema": "Print the JSON schema of manifests, for editors.",
}
"""The summary of each command, which is the function of its name in the module of its name."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return the exit code.

    Args:
        argv: Without the program's name; None takes the process's own, which then is ours.
    """
    if argv is None:
        startup.leave_out_pandas()
    given = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    try:
        wanted = next((word for word in given if not word.startswith("-")), None)
        result = parser(wanted).main(given, prog_name=NAME, standalone_mode=False)
    except typer.Abort:
        return command.show(failures.of(KeyboardInterrupt()))
    except Exception as error:
        return command.show(failures.of(error))
    return result if isinstance(result, int) else errors.EXIT_DONE


def parser(wanted: str | None) -> core.TyperGroup:
    """Return the parser of all commands, of which the wanted one is loaded.

    An observer and a lock server need nothing of what the operator of a cluster imports.
    """
    app = typer.Typer(
        help="Run Apache Hudi tables that are declared in manifests.",
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_configure)
    for name, summary in COMMANDS.items():
        run = _load(name) if name == wanted else _listed_only
        told = command.reflowed(inspect.getdoc(run) or "")
        app.command(name, cls=command.OptionsOnce, short_help=summary, help=told)(run)
    return command.group(app)


def _configure(
    *,
    is_version_wanted: Annotated[bool, command.version_option(NAME)] = False,
) -> None:
    """Take what holds for every command."""
    del is_version_wanted


def _load(name: str) -> Callable[..., Any]:
    word = name.replace("-", "_")
    try:
        module = importlib.import_module(f"hoodie_operator.commands.{word}")
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in _OURS:
            raise
        raise errors.ConfigurationError(
            f"{NAME} {name} needs the package {package}, expected an installation with "
            "hudi-operator[operator]"
        ) from error
    return cast("Callable[..., Any]", getattr(module, word))


def _listed_only() -> None:
    """Stand for a command that the help lists."""
    raise AssertionError("the command that is wanted is loaded")


if __name__ == "__main__":
    sys.exit(main())
