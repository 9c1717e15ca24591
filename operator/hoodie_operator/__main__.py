"""The command `hudi-operator`, also `python -m hoodie_operator`.

Exit codes: 0 everything is Ready; 1 something is Stalled; 2 usage; others as `hoodie.errors`: 20
for manifests that do not fit, 22 for what is not there, 23 for a state folder that is owned.
"""

import contextlib
import logging
import signal
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console

from hoodie import clock, environment, errors
from hoodie_operator.api import kinds, objects
from hoodie_operator.reconcile import verdicts
from hoodie_operator.standalone import (
    loop,
    ownership,
    printing,
    processes,
    reporting,
    store,
    validating,
)
from hoodie_operator.standalone.folder import Folder

STATE_VARIABLE = "HUDI_OPERATOR_STATE"
_STATE_DEFAULT = Path(".hudi-operator")
_STOP_WAIT_S = 60.0

app = typer.Typer(
    help="Run Apache Hudi tables as they are declared in manifests.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
_out = Console(highlight=False)
_err = Console(stderr=True, highlight=False)


class Output(Enum):
    """Forms of `get`."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"


Manifests = Annotated[
    Path, typer.Option("-f", "--filename", help="A folder of manifests, or one file of them.")
]
State = Annotated[
    Path,
    typer.Option(
        "--state",
        envvar=STATE_VARIABLE,
        help="The folder in which the operator remembers everything but the tables themselves.",
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        help="Where relative paths in manifests begin and every table and input lies; by default "
        "the folder of the manifests.",
    ),
]


@app.command()
def standalone(
    filename: Manifests,
    state: State = _STATE_DEFAULT,
    data: Data = None,
    until_settled: Annotated[
        bool,
        typer.Option("--until-settled", help="End when nothing runs or is due."),
    ] = False,
    prune: Annotated[
        bool,
        typer.Option(
            "--prune",
            help="Remove objects whose manifest vanished; data goes only by deletionPolicy Delete.",
        ),
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log to stderr.")] = False,
) -> None:
    """Run the operator here, without a cluster: jobs are processes of this machine.

    Manifests are read again whenever they change. Ctrl-C stops the runs and ends; SIGTERM ends and
    leaves the runs at work, to be found again at the next start.
    """
    if verbose:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    folder = Folder(filename)
    root = _data_root(folder, data)
    first = folder.read()
    if not first.declared and not first.problems:
        raise errors.InvalidInputError(f"{filename} declares nothing, expected YAML manifests")
    if until_settled and first.problems:
        # What is half declared is not begun when the end is what counts.
        _err.print(reporting.problems_text(first.problems), markup=False, soft_wrap=True)
        raise typer.Exit(errors.InvalidInputError.exit_code)
    options = loop.Options(state=state.absolute(), data_root=root, may_prune=prune)
    with ownership.owned(options.state), _stop_signals() as stops:
        outside = environment.system(allowed_root=str(root))
        reporter = reporting.reporter(_out)
        try:
            operator = loop.Operator(options, folder, outside, reporter)
            code = loop.run(
                operator,
                outside.clock,
                is_until_settled=until_settled,
                is_interrupted=lambda: bool(stops),
            )
            if signal.SIGINT in stops:
                reporter.told("stopping the runs", outside.clock.now_ms())
                operator.stop_runs("the operator was interrupted", _STOP_WAIT_S)
            if until_settled or signal.SIGINT in stops:
                operator.stop_locks()
        finally:
            reporter.close()
    if stops:
        code = 128 + stops[0]
    raise typer.Exit(code)


@app.command()
def get(
    kind: Annotated[str, typer.Argument(help="tables, writers, actions, policies or locks.")],
    name: Annotated[str | None, typer.Argument(help="One object's name.")] = None,
    output: Annotated[Output, typer.Option("-o", "--output", help="The form.")] = Output.TABLE,
    state: State = _STATE_DEFAULT,
) -> None:
    """Print objects, the reason for what does not run included."""
    found = _objects(state, printing.kind_named(kind), name)
    if output is Output.JSON:
        sys.stdout.write(printing.get_json(found, is_one=name is not None))
    else:
        text = printing.get(
            found,
            printing.kind_named(kind),
            is_wide=output is Output.WIDE,
            now_ms=clock.SystemClock().now_ms(),
        )
        sys.stdout.write(text)


@app.command()
def describe(
    kind: Annotated[str, typer.Argument(help="table, writer, action, policy or lock.")],
    name: Annotated[str | None, typer.Argument(help="The object's name.")] = None,
    state: State = _STATE_DEFAULT,
) -> None:
    """Print everything about objects: spec, status, attempts, conditions with their reasons."""
    everything = store.load(state)
    runs = processes.Processes(state, clock.SystemClock())
    texts = []
    for found in _objects(state, printing.kind_named(kind), name):
        owned = [each for each in everything.values() if each.owner and each.owner.uid == found.uid]
        texts.append(printing.describe(found, owned, runs.newest_log(found.uid)))
    sys.stdout.write("\n\n".join(texts))


@app.command()
def validate(filename: Manifests, data: Data = None) -> None:
    """Check manifests, and do nothing."""
    folder = Folder(filename)
    state = folder.read()
    problems = validating.problems(state, str(_data_root(folder, data)))
    if problems:
        _err.print(reporting.problems_text(problems), markup=False, soft_wrap=True)
        raise typer.Exit(errors.InvalidInputError.exit_code)
    for manifest in state.declared:
        sys.stdout.write(f"{manifest.key.kind}/{manifest.key.name} is valid\n")


def _data_root(folder: Folder, data: Path | None) -> Path:
    root = (data or folder.root).resolve()
    if data is not None and not root.is_dir():
        raise errors.NotFoundError(f"--data {data}: there is no such folder")
    return root


def _objects(state: Path, kind: kinds.Kind, name: str | None) -> list[objects.AnyObject]:
    if not state.is_dir():
        raise errors.NotFoundError(
            f"{state} is no state folder; give --state or set {STATE_VARIABLE}"
        )
    found = [
        each
        for each in reporting.ordered(store.load(state))
        if each.key.kind == kind.name and name in (None, each.name)
    ]
    if ownership.owner_of(state) is None and not all(map(verdicts.is_settled, found)):
        # "Running" would not be true.
        told = f"no operator runs on {state}: this is how the last one left it"
        _err.print(told, markup=False, soft_wrap=True)
    if name is not None and not found:
        raise errors.NotFoundError(f"{kind.name} {name} does not exist")
    return found


@contextlib.contextmanager
def _stop_signals() -> Iterator[list[int]]:
    """Collect signals to stop; the second one ends the process as it usually does."""
    stops: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        del frame
        stops.append(number)
        signal.signal(number, signal.SIG_DFL)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stops
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def main() -> None:
    """Run the command; a reported error is one line and its exit code."""
    try:
        app()
    except errors.HoodieError as error:
        _err.print(f"hudi-operator: {error}", markup=False, soft_wrap=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
