"""A process that says who it is, or judges another: `python identified_process.py [--uid UID] ...`.

identified_process.py               prints its identity as JSON, then waits until it is killed
identified_process.py IDENTITY      prints what `identity.state_of` finds of that process
"""

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hoodie import identity


@dataclass(frozen=True)
class Running:
    """A process that was started, and its identity by its own account."""

    process: identity.ProcessIdentity
    child: "subprocess.Popen[str]"

    def end(self) -> None:
        """Kill it, and whatever it runs in."""
        self.child.kill()
        self.child.wait()


@contextlib.contextmanager
def started(*wrapper: str) -> Iterator[Running]:
    """Start a process, below such a command as `unshare`, and end it when this is left."""
    child = subprocess.Popen(
        [*wrapper, sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=_environment(),
    )
    with child:
        assert child.stdout is not None
        try:
            process = identity.ProcessIdentity(**json.loads(child.stdout.readline()))
            yield Running(process, child)
        finally:
            child.kill()


def state_seen_by(
    wrapper: Sequence[str], process: identity.ProcessIdentity, *options: str
) -> identity.ProcessState:
    """Return what a process below that command finds of another."""
    command = [*wrapper, sys.executable, __file__, *options, _text(process)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=_environment())
    return identity.ProcessState(done.stdout.strip())


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def _text(process: identity.ProcessIdentity) -> str:
    return json.dumps(dataclasses.asdict(process))


def main(arguments: Sequence[str]) -> None:
    if arguments[:1] == ["--uid"]:
        identity.current_process()  # What it imports, the other user may not be able to read.
        os.setgroups([])
        os.setgid(int(arguments[1]))  # Root's group is one that `hidepid` hides nothing from.
        os.setuid(int(arguments[1]))
        arguments = arguments[2:]
    if arguments:
        process = identity.ProcessIdentity(**json.loads(arguments[0]))
        print(identity.state_of(process).value)
        return
    print(_text(identity.current_process()), flush=True)
    signal.pause()


if __name__ == "__main__":
    main(sys.argv[1:])
