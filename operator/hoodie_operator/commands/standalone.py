"""`hudi-operator standalone`: the operator of a folder of manifests, without a cluster."""

import contextlib
import dataclasses
import logging
import signal
from collections.abc import Iterator
from types import FrameType
from typing import Annotated

import typer

from hoodie import clock, environment, errors
from hoodie_operator.commands import options
from hoodie_operator.standalone import loop, ownership, reporting
from hoodie_operator.standalone.folder import Folder

_STOP_WAIT_S = 60.0


def standalone(
    filename: options.Manifests,
    state: options.State = options.STATE_DEFAULT,
    data: options.Data = None,
    until_settled: Annotated[
        bool,
        typer.Option("--until-settled", metavar="", help="Exit when nothing runs or is due."),
    ] = False,
    prune: Annotated[
        bool,
        typer.Option(
            "--prune",
            metavar="",
            help="Delete objects without a manifest; their data only with deletionPolicy Delete.",
        ),
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", metavar="", help="Log to stderr.")] = False,
) -> None:
    """Run the operator without a cluster: jobs are processes of this machine.

    Manifests are read again whenever they change. Ctrl-C stops the runs and ends; SIGTERM ends and
    leaves the runs at work, to be found again at the next start.
    """
    if verbose:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    folder = Folder(filename)
    root = options.data_root(folder, data)
    first = options.declared(folder, filename)
    if until_settled and first.problems:
        # What is half declared is not begun when the end is what counts.
        options.ERR.print(reporting.problems_text(first.problems), markup=False, soft_wrap=True)
        raise typer.Exit(errors.InvalidInputError.exit_code)
    chosen = loop.Options(state=state.absolute(), data_root=root, may_prune=prune)
    with ownership.owned(chosen.state), _stop_signals() as stops:
        plain = environment.system(allowed_roots=(str(root),))
        # A run that ended is looked at later, whatever the machine's clock does meanwhile.
        env = dataclasses.replace(plain, clock=clock.ForwardClock(plain.clock))
        reporter = reporting.reporter(options.OUT)
        try:
            operator = loop.Operator(chosen, folder, env, reporter)
            code = loop.run(
                operator,
                env.clock,
                is_until_settled=until_settled,
                is_interrupted=lambda: bool(stops),
            )
            if signal.SIGINT in stops:
                reporter.told("stopping the runs", env.clock.now_ms())
                operator.stop_runs("the operator was interrupted", _STOP_WAIT_S)
            if until_settled or signal.SIGINT in stops:
                operator.stop_locks()
        finally:
            reporter.close()
    if stops:
        code = 128 + stops[0]
    raise typer.Exit(code)


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
